"""Transactions a store lends or joins: time limit, checks, errors.

A caller that uses asyncio has a connection that only its event loop may use, while a thread carries
out the order. So an `AwaitedConnection` carries its loop, and the thread runs each statement there.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from duly.errors import Conflict, LeaseLost, StoreUnavailable, UsageError

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Task
    from collections.abc import Callable, Coroutine, Iterator

    from duly.clock import Clock
    from duly.store.ports.schedules import Parameters


T = TypeVar("T")

LOOK_UP_S = 1.0
"""How often a thread that waits for an event loop looks whether anybody still runs it."""


class LentTransaction:
    """A transaction that a store has lent; an application joins none but its own."""


class AwaitedConnection:
    """A connection of a caller who awaits, with the event loop that it belongs to.

    It is made in the caller's own task: a registry of sessions answers each task with another one.
    """

    def __init__(self, connection: object, loop: AbstractEventLoop) -> None:
        self.connection = session_of(connection)
        self._loop = loop
        self._statement: Task[Any] | None = None
        self._is_given_up = threading.Event()

    def run(self, action: Callable[[], Coroutine[Any, Any, T]], *, is_ending: bool = False) -> T:
        """Have something done on the loop, and wait for it; never called on the loop's thread.

        Once the caller has given up, only what ends an order is still done, and is not stopped: the
        rest raises CancelledError.
        """
        import asyncio  # a program that awaits nothing has no need of it

        statement = self._end(action) if is_ending else self._go_on(action)
        try:
            future = asyncio.run_coroutine_threadsafe(statement, self._loop)
        except RuntimeError as error:
            statement.close()
            raise _left_alone() from error
        while True:
            try:
                return future.result(LOOK_UP_S)
            except TimeoutError as error:
                if future.done():
                    return future.result()
                if not self._loop.is_running():
                    future.cancel()
                    raise _left_alone() from error

    def require_wanted(self) -> None:
        """Raise CancelledError if the caller has given up."""
        if self._is_given_up.is_set():
            raise CancelledError

    def give_up(self) -> None:
        """Stop the statement that runs, and let no other one begin; called on the loop."""
        self._is_given_up.set()
        if self._statement is not None:
            self._statement.cancel()

    async def _go_on(self, action: Callable[[], Coroutine[Any, Any, T]]) -> T:
        import asyncio

        self.require_wanted()
        self._statement = asyncio.current_task()
        try:
            return await action()
        finally:
            self._statement = None

    async def _end(self, action: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return await action()


def is_a(value: object, module: str, name: str) -> bool:
    """Say whether it is an instance of a class that somebody else must have imported by now."""
    kind = getattr(sys.modules.get(module), name, None)
    return isinstance(kind, type) and isinstance(value, kind)


def session_of(given: Any) -> object:  # noqa: ANN401 - SQLAlchemy's types are not ours
    """Return the session that a registry of SQLAlchemy's has for this thread or task."""
    is_registry = is_a(given, "sqlalchemy.orm", "scoped_session") or is_a(
        given, "sqlalchemy.ext.asyncio", "async_scoped_session"
    )
    return given() if is_registry else given


def unwrapped(given: object) -> object:
    """Return what the caller gave, whether or not he awaits."""
    return given.connection if isinstance(given, AwaitedConnection) else given


def not_lent(given: object) -> UsageError:
    """Return the error for a connection that a store without a server can't join."""
    remedy = "give what `with app.transaction() as tx` lends, inside that block"
    problem = "is not a connection that Duly lent"
    return UsageError("connection", unwrapped(given), problem, remedy)


def _left_alone() -> StoreUnavailable:
    problem = "the event loop of the connection has stopped in the middle of an order"
    return StoreUnavailable("connection", problem, "roll back, and order again on a running loop")


class TransactionLease:
    """The time for which a transaction is lent."""

    def __init__(self, name: str, clock: Clock, limit_us: int) -> None:
        self._name = name
        self._clock = clock
        self._deadline_us = clock.monotonic_us() + limit_us
        self._is_open = True
        self._is_sealed = False
        self._refusal: LeaseLost | None = None

    def is_late(self) -> bool:
        """Say whether its time is over."""
        return self._clock.monotonic_us() > self._deadline_us

    def end(self) -> None:
        """Take it back."""
        self._is_open = False

    def refuse_late(self, is_alive: Callable[[], bool]) -> None:
        """Refuse what is over, what took too long, and what has been undone meanwhile."""
        if not self._is_open:
            raise UsageError("connection", self, "is a transaction that is over", "begin another")
        self.refuse_commit(is_alive)
        if self._is_sealed:
            remedy = "write what belongs to it before, or begin another one"
            raise UsageError(
                "connection", self, "has ended its run, and takes nothing more", remedy
            )

    def refuse_commit(self, is_alive: Callable[[], bool]) -> None:
        """Refuse to commit what took too long, or whose run was somebody else's to end."""
        if self._refusal is not None:
            raise self._refusal
        if self.is_late() or not is_alive():
            raise self.too_late()

    @contextmanager
    def last_word(self) -> Iterator[None]:
        """Let an order be the last: what comes after it is the commit, or nothing if it is refused.

        Also when the caller keeps the refusal to himself: somebody else may have written it.
        """
        try:
            yield
        except LeaseLost as error:
            self._refusal = error
            raise
        self._is_sealed = True

    def too_late(self) -> StoreUnavailable:
        """Return the error for a transaction that was open for too long."""
        return StoreUnavailable(
            self._name,
            "the transaction was open for longer than its limit and has been undone",
            "do the slow part before it, or give a larger limit",
        )


def parameter_values(parameters: Parameters) -> Mapping[str, object] | tuple[object, ...]:
    """Return the values of a statement of the caller's."""
    if isinstance(parameters, Mapping):
        return parameters
    if isinstance(parameters, str | bytes):
        remedy = "give a tuple or a list of values, or a mapping by name"
        raise UsageError("parameters", parameters, "is one text and no list of values", remedy)
    return tuple(parameters)


def another_store(given: object) -> UsageError:
    """Return the error for a transaction that another store has lent."""
    return UsageError("connection", given, "is a transaction of another store", "use its own")


def mistake(sql: str, error: BaseException) -> UsageError:
    """Return the error for a statement of the caller's that no other time would let run."""
    return UsageError("sql", sql, f"can't be run ({first_line(error)})", "correct it")


def refused(sql: str, error: BaseException) -> Conflict:
    """Return the error for a statement of the caller's that a constraint refuses."""
    problem = f"was refused by a constraint ({first_line(error)})"
    return Conflict("statement", sql, problem, "look at the rows that are there")


def first_line(error: BaseException) -> str:
    """Return what an error says, without the details that some add in further lines."""
    return str(error).strip().split("\n", 1)[0]
