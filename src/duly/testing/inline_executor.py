"""An executor for virtual time: runs code at once, in the thread that starts it."""

from __future__ import annotations

import asyncio
import inspect
import threading
from typing import TYPE_CHECKING, Any

from duly.engine.ends import end_of_error, end_of_value, unprepared

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from duly.engine.work import Work


class InlineExecutor:
    """Runs each work to its end before `start` returns; nothing can stop it meanwhile."""

    def start(self, work: Work) -> None:
        """Prepare, begin, run, and say how it ended."""
        try:
            call = work.runnable.prepare(work.claimed, work.live)
        except BaseException as error:  # noqa: BLE001 - whatever a task's code raises is its end
            work.ended(unprepared(error, work.runnable.policy, work.live))
            return
        work.began()
        try:
            value = call()
            if inspect.isawaitable(value):
                value = _awaited(value)
        except BaseException as error:  # noqa: BLE001 - as above
            work.ended(end_of_error(error, work.runnable.policy, work.live))
        else:
            work.ended(end_of_value(value, work.live))

    def ask(self, work: Work) -> None:
        """Do nothing: what was started has ended."""

    def insist(self, work: Work) -> bool:
        """Say that it is over."""
        return True

    def close(self) -> None:
        """Let go of nothing."""


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
