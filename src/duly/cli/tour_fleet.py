"""What the tour's promises live in: a file and processes of its own, gone when the tour is over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

from duly.cli.waiting import ticker
from duly.clock import SystemClock
from duly.engine.lifeline import lifeline_variables

WAIT_MAX_US = 60 * 1_000_000
END_WAIT_SECONDS = 10
LOOK_EVERY_SECONDS = 0.1
TASKS_MODULE = "duly.cli.tour_tasks"


@contextmanager
def furnished() -> Iterator[Fleet]:
    """Give the tour a file and a fleet of its own, which are gone afterwards."""
    fleet = Fleet()
    with (
        TemporaryDirectory(prefix="duly-tour-", ignore_cleanup_errors=True) as folder,
        _ended_by_signals(fleet),
    ):
        variables = {
            "DULY_URL": f"sqlite:///{Path(folder) / 'promises.db'}",
            "DULY_APP": f"{TASKS_MODULE}:app",
        }
        with _environment(variables):
            try:
                yield fleet
            finally:
                fleet.end()


class Fleet:
    """The processes that the tour starts, and ends by their ids."""

    def __init__(self) -> None:
        self.is_over = False
        """Whether somebody has ended the tour."""
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        # Nobody writes to it: when the tour is gone it is closed, and the processes end, too.
        self._lifeline, self._held = os.pipe()

    def go_on(self) -> None:
        """Refuse to go on when somebody has ended the tour.

        An interrupt is raised wherever the program happens to be, also where nothing can come of
        it: in the midst of what a library calls back, or of what clears up.
        """
        if self.is_over:
            raise KeyboardInterrupt

    def start(self, kind: str) -> int:
        """Start a dispatcher or a worker; return its process id."""
        started = subprocess.Popen(  # noqa: S603 - ourselves
            (sys.executable, "-m", "duly.cli.tour_member", kind),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **lifeline_variables(self._lifeline)},
            pass_fds=(self._lifeline,),
            start_new_session=True,  # a Ctrl-C is for the tour, which ends them in good order
        )
        self._running[started.pid] = started
        return started.pid

    def kill(self, process: int) -> None:
        """Kill one of ours, as a power cut would."""
        victim = self._running.pop(process)
        victim.kill()
        victim.wait()

    def end(self) -> None:
        """End all of them in good order."""
        for one in self._running.values():
            one.terminate()
        for one in self._running.values():
            try:
                one.wait(END_WAIT_SECONDS)
            except subprocess.TimeoutExpired:
                one.kill()
                one.wait()
        self._running.clear()
        os.close(self._held)
        os.close(self._lifeline)


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Wait for something to become true, for a minute at most; a person sees what for."""
    clock, moment = SystemClock(), threading.Event()
    ends_at = clock.monotonic_us() + WAIT_MAX_US
    with ticker() as told:
        told.tell(what)
        while not condition() and clock.monotonic_us() < ends_at:
            moment.wait(LOOK_EVERY_SECONDS)


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Have variables set for the length of a block."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name)
            else:
                os.environ[name] = value


@contextmanager
def _ended_by_signals(fleet: Fleet) -> Iterator[None]:
    """Let a signal that would end the tour on the spot end it as Ctrl-C does, and be noted."""

    def end(_number: int, _frame: FrameType | None) -> None:
        fleet.is_over = True
        raise KeyboardInterrupt

    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [(one, signal.signal(one, end)) for one in signals]
    try:
        yield
    finally:
        for one, handler in before:
            signal.signal(one, handler)
