"""Doing a few things at the same time, each on a thread of its own, and waiting for all of them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Result = TypeVar("Result")


class SideBySide:
    """A few threads that are kept; the caller's own takes part."""

    def __init__(self, at_once: int) -> None:
        self.at_once = at_once
        self._threads: ThreadPoolExecutor | None = None

    def run(self, calls: Sequence[Callable[[], Result]]) -> list[Result]:
        """Carry all of them out; return their results in order, or raise what the first one raised.

        Nothing is left running when this returns.
        """
        first, *others = calls
        if not others:
            return [first()]
        futures = [self._pool().submit(call) for call in others]
        try:
            result = first()
        finally:
            wait(futures)
        return [result, *(future.result() for future in futures)]

    def close(self) -> None:
        """Let the threads go."""
        threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown()

    def _pool(self) -> ThreadPoolExecutor:
        if self._threads is None:
            workers = max(self.at_once - 1, 1)
            self._threads = ThreadPoolExecutor(workers, thread_name_prefix="duly firing")
        return self._threads
