"""An executor for virtual time: runs code at once, in the thread that starts it."""

from __future__ import annotations

import asyncio
import inspect
import threading
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from duly.engine.executors.calling import called, carried_out

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from duly.engine.work import Work


class InlineExecutor:
    """Runs each work to its end before `start` returns; nothing can stop it meanwhile."""

    def start(self, work: Work) -> None:
        """Prepare, begin, run, and say how it ended."""
        # Whose code is running is noted in a context: here it must not be the caller's own.
        context = copy_context()
        work.ended(carried_out(lambda: context.run(called, work, _finished)))

    def ask(self, work: Work) -> None:
        """Do nothing: what was started has ended."""

    def insist(self, work: Work) -> bool:
        """Say that it is over."""
        return True

    def close(self) -> None:
        """Let go of nothing."""


def _finished(value: Any) -> Any:
    """Return a result: if it is to be awaited first, run it to its end."""
    return _awaited(value) if inspect.isawaitable(value) else value


def _awaited(value: Awaitable[Any]) -> Any:
    """Run a coroutine to its end, also where an event loop is running already."""

    async def run() -> Any:
        return await value

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(run())
    answers: list[Any] = []
    errors: list[BaseException] = []

    def elsewhere() -> None:
        try:
            answers.append(asyncio.run(run()))
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            errors.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return answers[0]
