"""Processes of the demo: its workers, and the one that cleans up after it.

The cleaning process of `passing_folder` imports nothing of Duly. It waits for the end of a pipe
that the demo holds, and then deletes the folder. So even a demo that was killed leaves nothing
behind.

A worker of the demo is what `duly worker` runs, with a lease so short that its loss is soon
noticed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from duly.app.services import OutputListener, Services, WorkerOptions, run_worker
from duly.engine.executors.process_lifetime import hold_lifeline
from duly.timetable.instants import SECOND_US

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.engine.worker import WorkerSettings


END_WAIT_SECONDS = 10
_PROGRAM = """
import shutil, sys
sys.stdin.read()
shutil.rmtree(sys.argv[1], ignore_errors=True)
"""


@contextmanager
def passing_folder() -> Iterator[Path]:
    """Make a folder that is gone afterwards, and also if this process is killed."""
    folder = Path(tempfile.mkdtemp(prefix="duly-demo-"))
    try:
        janitor = subprocess.Popen(  # noqa: S603 - ourselves
            (sys.executable, "-I", "-S", "-c", _PROGRAM, str(folder)),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # what ends the demo is not to end the janitor
        )
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    try:
        yield folder
    finally:
        assert janitor.stdin is not None, "it was asked for"
        janitor.stdin.close()
        with suppress(subprocess.TimeoutExpired):  # a slow disk: it goes on by itself
            janitor.wait(END_WAIT_SECONDS)


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


def demo_crew() -> Services:
    """Return the worker processes of the demo."""
    return Services(argv=(sys.executable, "-m", "duly.demo.processes"), processes=WORKERS)


def run_member() -> int:
    """Be a worker until a signal ends it, or the demo is gone; return the exit status."""
    lifeline = hold_lifeline()
    from duly.demo.app import app

    return run_worker(app, BriskOptions(slots=SLOTS, grace=GRACE), OutputListener(), lifeline)


if __name__ == "__main__":
    sys.exit(run_member())
