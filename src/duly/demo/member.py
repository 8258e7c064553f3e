"""A worker process of the demo: `python -m duly.demo.member`, under a supervisor.

It is what `duly worker` runs, with a lease so short that nobody has to wait long for its end.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from duly.app.running import Crew, Voice, run_worker
from duly.app.worker_options import WorkerOptions
from duly.domain.instants import SECOND_US
from duly.engine.lifeline import hold_lifeline

if TYPE_CHECKING:
    from duly.engine.worker import WorkerSettings

LEASE_SECONDS = 3
LEASE_VARIABLE = "DULY_DEMO_LEASE_SECONDS"
"""A longer lease, for a machine that is so busy that workers are late with their beats."""
WORKERS = 2
SLOTS = 6
GRACE = "1s"
"""Who ends a demo does not wait for what it does."""


class BriskOptions(WorkerOptions):
    """The options of a worker that is missed soon."""

    def settings(self) -> WorkerSettings:
        """Return them with a short lease, and beats that are as frequent as it demands."""
        return replace(
            super().settings(),
            ttl_us=int(os.environ.get(LEASE_VARIABLE, LEASE_SECONDS)) * SECOND_US,
            beat_every_us=SECOND_US // 2,
            lease_margin_us=SECOND_US // 2,
        )


def demo_crew() -> Crew:
    """Return the worker processes of the demo."""
    return Crew(argv=(sys.executable, "-m", "duly.demo.member"), processes=WORKERS)


def run_member() -> int:
    """Be a worker until a signal ends it, or the demo is gone; return the exit status."""
    lifeline = hold_lifeline()
    from duly.demo.tasks import app

    return run_worker(app, BriskOptions(slots=SLOTS, grace=GRACE), Voice(), lifeline)


if __name__ == "__main__":
    sys.exit(run_member())
