"""The same surface, awaited: one generic wrapper, so that nothing is written twice.

Each call runs in a thread of asyncio's pool: the store is synchronous and never on the event loop.
Whoever stops waiting gets control back when the thread is done: nothing goes on behind his back.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Self

from duly.errors import UsageError
from duly.store.joinable import Awaiting, Lent

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor
    from contextlib import AbstractContextManager
    from types import TracebackType

    from duly.store.planning import Parameters, Transaction

_NOT_AWAITED = frozenset(
    {"task", "command", "webhook", "schedule", "dispatcher", "worker", "catalogue", "run", "aio"}
)
"""What gives no answer to wait for."""


class Awaited:
    """An object whose methods are awaited."""

    def __init__(self, wrapped: object) -> None:
        self._wrapped = wrapped

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the wrapped object offers
        """Return a method that is awaited, or a part (`schedules`, `runs`) whose methods are."""
        if name.startswith("_"):
            raise AttributeError(name)
        if name in _NOT_AWAITED:
            raise UsageError("aio", name, "can't be awaited", f"use app.{name}")
        found = getattr(self._wrapped, name)
        if not callable(found):
            return Awaited(found) if hasattr(found, "__dict__") else found
        return partial(AwaitedTransaction if name == "transaction" else _call, found)


async def _call(method: Callable[..., Any], *values: Any, **options: Any) -> Any:  # noqa: ANN401 - as above
    """Carry out a method in a thread, in the transaction of the caller's if he gives one."""
    connection = options.get("connection")
    if connection is None or isinstance(connection, Lent):
        return await _threaded(partial(method, *values, **options))
    if isinstance(connection, AwaitedTransaction):
        options["connection"] = connection.transaction
        return await _threaded(partial(method, *values, **options), thread=connection.thread)
    import asyncio

    options["connection"] = awaiting = Awaiting(connection, asyncio.get_running_loop())
    return await _threaded(partial(method, *values, **options), stop=awaiting.give_up)


async def _threaded(
    call: Callable[[], Any],
    *,
    thread: Executor | None = None,
    stop: Callable[[], None] | None = None,
) -> Any:  # noqa: ANN401 - as above
    """Wait for a thread to carry something out; who is cancelled waits for its end, too.

    What it does is bounded, and a connection of the caller's must be at rest when he goes on.
    """
    import asyncio  # a program that awaits nothing has no need of it
    import contextvars

    context = contextvars.copy_context()
    work = asyncio.get_running_loop().run_in_executor(thread, context.run, call)
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait((work,))
        except asyncio.CancelledError as error:
            cancelled = error
            if stop is not None:
                stop()
    if cancelled is None:
        return work.result()
    work.exception()  # whatever became of it, nobody waits for it any more
    raise cancelled


async def in_thread(method: Callable[..., Any], *values: object) -> Any:  # noqa: ANN401 - as above
    """Carry out a method in a thread; who is cancelled waits for its end, too."""
    return await _threaded(partial(method, *values))


class AwaitedTransaction:
    """A lent connection, awaited; all of it happens on one thread, which it is lent to."""

    def __init__(
        self,
        lend: Callable[..., AbstractContextManager[Transaction]],
        *values: object,
        **options: object,
    ) -> None:
        self._lend = partial(lend, *values, **options)
        self._lent: AbstractContextManager[Transaction] | None = None
        self._transaction: Transaction | None = None
        self._thread: Executor | None = None

    @property
    def transaction(self) -> Transaction:
        """What was lent."""
        if self._transaction is None:
            problem = "is not a connection that Duly lent"
            remedy = "use it inside `async with app.aio.transaction() as tx`"
            raise UsageError("connection", self, problem, remedy)
        return self._transaction

    @property
    def thread(self) -> Executor | None:
        """Where it must be used."""
        return self._thread

    async def execute(self, sql: str, parameters: Parameters = ()) -> list[tuple[object, ...]]:
        """Run one statement of the caller's; the whole commits with ours, or nothing does."""
        run = partial(self.transaction.execute, sql, parameters)
        rows: list[tuple[object, ...]] = await _threaded(run, thread=self._thread)
        return rows

    async def __aenter__(self) -> Self:
        """Begin."""
        from concurrent.futures import ThreadPoolExecutor

        self._thread = ThreadPoolExecutor(1, "duly transaction")
        try:
            await _threaded(self._begin, thread=self._thread)
        except BaseException as error:
            # Who is cancelled while it begins never gets into the block, so nobody else ends it.
            await self._end(type(error), error, error.__traceback__)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Commit, or undo all when something was raised."""
        await self._end(kind, error, trace)

    def _begin(self) -> None:
        lent = self._lend()
        self._transaction = lent.__enter__()
        self._lent = lent

    async def _end(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        lent, thread = self._lent, self._thread
        self._transaction = self._lent = self._thread = None
        assert thread is not None, "it was entered"
        try:
            if lent is not None:
                await _threaded(partial(lent.__exit__, kind, error, trace), thread=thread)
        finally:
            thread.shutdown(wait=False)
