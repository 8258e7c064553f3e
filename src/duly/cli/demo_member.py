"""A process of the tour: `python -m duly.cli.demo_member dispatcher`, or `worker`.

Both are what `duly dispatcher` and `duly worker` run, and end with the tour, whatever ends it. The
worker's lease is short, so that nobody has to wait long for its end.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import NoReturn

from duly.app.loading import load_app
from duly.app.running import Voice, run_worker
from duly.app.worker_options import WorkerOptions
from duly.cli.main import main
from duly.cli.target import APP_VARIABLE
from duly.domain.instants import SECOND_US
from duly.engine.lifeline import hold_lifeline
from duly.engine.worker import WorkerSettings

LEASE_SECONDS = 3


class BriskOptions(WorkerOptions):
    """The options of a worker that is missed soon."""

    def settings(self) -> WorkerSettings:
        """Return them with a short lease, and beats that are as frequent as it demands."""
        return replace(
            super().settings(),
            ttl_us=LEASE_SECONDS * SECOND_US,
            beat_every_us=SECOND_US // 2,
            lease_margin_us=SECOND_US // 2,
        )


def run_member(kind: str) -> NoReturn:
    """Be a dispatcher or a worker until a signal ends it, and exit."""
    hold_lifeline()
    if kind == "dispatcher":
        main([kind, "--quiet"])
    sys.exit(run_worker(load_app(os.environ[APP_VARIABLE]), BriskOptions(), Voice()))


if __name__ == "__main__":
    run_member(sys.argv[1])
