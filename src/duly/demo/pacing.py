"""Pacing: how a task of the demo lets time pass, live or in the past that the demo has made up."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from duly.clock import SystemClock
from duly.domain.instants import SECOND_US

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from duly.client.run_view import Run

LOOK_EVERY_SECONDS = 0.2
"""How soon a task notices that it is to stop."""
_thread = threading.local()


@contextmanager
def paced_by(rest: Callable[[int], None]) -> Iterator[None]:
    """Have `rest` called with microseconds in this thread, instead of waiting."""
    _thread.rest = rest
    try:
        yield
    finally:
        del _thread.rest


def rest(run: Run, seconds: float) -> None:
    """Let time pass; Cancelled if the run is to stop meanwhile."""
    instead: Callable[[int], None] | None = getattr(_thread, "rest", None)
    if instead is not None:
        instead(round(seconds * SECOND_US))
        run.check_cancelled()
        return
    clock, moment = SystemClock(), threading.Event()
    ends_at = clock.monotonic_us() + round(seconds * SECOND_US)
    while (left_us := ends_at - clock.monotonic_us()) > 0:
        run.check_cancelled()
        moment.wait(min(left_us / SECOND_US, LOOK_EVERY_SECONDS))
    run.check_cancelled()
