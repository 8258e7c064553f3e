"""The one way to wait in tests: look at a condition until it holds, within one generous limit."""

from __future__ import annotations

from asyncio import SelectorEventLoop
from contextlib import contextmanager
from threading import Event, Timer  # noqa: TID251 - the limit of a wait is real time
from time import monotonic  # noqa: TID251 - the limit of a wait is real time
from typing import IO, TYPE_CHECKING, Any, AnyStr, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from subprocess import Popen

ResultT = TypeVar("ResultT")

LIMIT_S = 120.0
"""Far longer than anything takes on a slow machine; a test that reaches it has found a hang."""
PAUSE_S = 0.02
_NEVER = Event()


class SkippingLoop(SelectorEventLoop):
    """An event loop whose clock a test sets forward: a time limit ends when the test says so."""

    _skipped = 0.0

    def time(self) -> float:
        return super().time() + self._skipped

    def skip(self, seconds: float = LIMIT_S) -> None:
        """Set the clock forward, from any thread."""
        self.call_soon_threadsafe(self._skip, seconds)

    def _skip(self, seconds: float) -> None:
        self._skipped += seconds


class WaitedTooLongError(AssertionError):
    """A condition did not come to hold within the limit."""


def pause(seconds: float) -> None:
    """Let the system under test go on for a while."""
    _NEVER.wait(seconds)


def wait_until(
    what: str,
    condition: Callable[[], ResultT | None],
    limit: float = LIMIT_S,
    *,
    every: float = PAUSE_S,
) -> ResultT:
    """Return the first true answer of a condition; fail with `what` was waited for at the limit."""
    ends_at = monotonic() + limit
    while not (answer := condition()):
        if monotonic() > ends_at:
            raise WaitedTooLongError(f"waited {limit:.0f} s until {what}")
        pause(every)
    return answer


def comes_true(condition: Callable[[], object]) -> bool:
    """Tell whether a condition comes to hold within the limit: `assert comes_true(...)`."""
    try:
        wait_until("a condition holds", condition)
    except WaitedTooLongError:
        return False
    return True


@contextmanager
def killed_at_limit(process: Popen[Any], limit: float = LIMIT_S) -> Iterator[None]:
    """Kill a process at the limit, so that what waits for its end or its output goes on."""
    timer = Timer(limit, process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def read_line(process: Popen[AnyStr], stream: IO[AnyStr] | None = None) -> AnyStr:
    """Return the next line that a process prints; fail if it ends, or prints none in time."""
    stream = stream or process.stdout
    assert stream is not None, "piped"
    with killed_at_limit(process):
        line = stream.readline()
    if not line:
        raise WaitedTooLongError(f"{process.args!r} prints no more lines: {process.wait()}")
    return line
