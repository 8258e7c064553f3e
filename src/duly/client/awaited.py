"""The same surface, awaited: one generic wrapper, so that nothing is written twice.

Each call runs in a thread of asyncio's pool: the store is synchronous and never on the event loop.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from duly.errors import UsageError

_NOT_AWAITED = frozenset({"task", "schedule", "transaction", "dispatcher", "aio"})
"""What gives no answer to wait for, and what is bound to the thread that it was lent to."""


class Awaited:
    """An object whose methods are awaited."""

    def __init__(self, wrapped: object) -> None:
        self._wrapped = wrapped

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the wrapped object offers
        """Return a method that is awaited, or a part (`schedules`, `runs`) whose methods are."""
        if name.startswith("_"):
            raise AttributeError(name)
        if name in _NOT_AWAITED:
            remedy = f"use app.{name}; a transaction whole, in asyncio.to_thread(…)"
            raise UsageError("aio", name, "can't be awaited", remedy)
        found = getattr(self._wrapped, name)
        if not callable(found):
            return Awaited(found) if hasattr(found, "__dict__") else found
        import asyncio  # a program that awaits nothing has no need of it

        return partial(asyncio.to_thread, found)
