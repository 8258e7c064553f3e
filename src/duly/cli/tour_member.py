"""A process of the tour: `python -m duly.cli.tour_member dispatcher`, or `worker`.

Both are what `duly dispatcher` and `duly worker` run, and end with the tour, whatever ends it. The
worker's lease is short, so that nobody has to wait long for its end.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from duly.app.loading import load_app
from duly.app.running import Voice, run_worker
from duly.cli.main import main
from duly.cli.target import APP_VARIABLE
from duly.demo.member import BriskOptions
from duly.engine.lifeline import hold_lifeline


def run_member(kind: str) -> NoReturn:
    """Be a dispatcher or a worker until a signal ends it, and exit."""
    hold_lifeline()
    if kind == "dispatcher":
        main([kind, "--quiet"])
    sys.exit(run_worker(load_app(os.environ[APP_VARIABLE]), BriskOptions(), Voice()))


if __name__ == "__main__":
    run_member(sys.argv[1])
