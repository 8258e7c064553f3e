"""Caller (store, tenant, actor), progress callback, and the asyncio wrapper.

`Awaited` runs each call in a thread of asyncio's pool: the store is synchronous and is never called
on the event loop. A caller that is cancelled gets control back when the thread is done, so no call
continues after its caller went on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias, TypeVar, cast

from duly.client.parameters import read_reason
from duly.domain.audit import Actor
from duly.errors import Forbidden, UsageError
from duly.store.caller_transactions import AwaitedConnection, LentTransaction
from duly.store.ports.auth import part_of, require_all_tenants
from duly.timetable.instants import SECOND_US

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from concurrent.futures import Executor
    from contextlib import AbstractContextManager
    from types import TracebackType

    from duly.client.run_context import LentConnections
    from duly.client.tasks import Tasks
    from duly.clock import Clock
    from duly.config import Settings
    from duly.entropy import RandomSource
    from duly.store.ports.schedules import Parameters, Transaction
    from duly.store.ports.store import Store
    from duly.telemetry.tracing import Tracing


LIBRARY = "library"
DECLARATION = "declaration"


def rest_for(duration_us: int) -> None:
    """Wait; nobody can wake it, for nobody knows what it waits for."""
    threading.Event().wait(duration_us / SECOND_US)


@dataclass(slots=True)
class TracingHolder:
    """Who is told of spans; one for all that stand for the same application.

    It is switched on when a program begins to run, and the tasks of that program order things, too.
    """

    tracing: Tracing | None = None


class JoinedStore(NamedTuple):
    """A store as part of a transaction, and in whose place it stands."""

    open_store: Callable[[], Store]
    tenant: str
    store: Store


_joined: ContextVar[JoinedStore | None] = ContextVar("duly_joined", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """What every part of the client works with."""

    open_store: Callable[[], Store]
    """Opens the store at first use: making an application touches nothing."""
    clock: Clock
    """For the front of new ids only; what is due or late, the store's clock decides."""
    draws: RandomSource
    tasks: Tasks
    settings: Settings
    lending: LentConnections
    tenant: str
    actor: str
    source: str = LIBRARY
    address: str | None = None
    """From where whoever asks has come over the network, if so."""
    credential: str | None = None
    """By which token or session they are known, if so."""
    is_confined: bool = False
    """Whether it speaks for its tenant only: what all share it neither changes nor counts."""
    is_operator: bool = False
    """Whether an operator gives its orders by hand."""
    rest: Callable[[int], None] = rest_for
    """Lets so many microseconds pass between two looks; virtual time does it at once."""

    traces: TracingHolder = field(default_factory=TracingHolder)

    @property
    def tracing(self) -> Tracing | None:
        """Who is told of spans; None when nobody has asked for them."""
        return self.traces.tracing

    @property
    def store(self) -> Store:
        """The store, opened if it was not; told whose it is, where it keeps tenants apart.

        Within an order that has joined a transaction: the store as part of that.
        """
        return self._joined_store() or part_of(self.open_store(), self.tenant)

    @property
    def whole_store(self) -> Store:
        """The same, whosever what it is asked for may be."""
        return self._joined_store() or self.open_store()

    def _joined_store(self) -> Store | None:
        joined = _joined.get()
        is_ours = joined is not None and joined[:2] == (self.open_store, self.tenant)
        return joined.store if joined is not None and is_ours else None

    @contextmanager
    def joining(self, connection: object | None) -> Iterator[None]:
        """Have all that is read and ordered meanwhile be part of a caller's transaction."""
        if connection is None:
            yield
            return
        store = self.store.joined(self.lending.joined(connection))
        token = _joined.set(JoinedStore(self.open_store, self.tenant, store))
        try:
            yield
        finally:
            _joined.reset(token)

    def require_operator(self, what: str) -> None:
        """Refuse to a tenant's caller what concerns all: only an operator may do that."""
        if self.is_confined:
            problem = f"may not {what}: that concerns every tenant"
            remedy = "ask an operator, or use a token of all tenants with the scope admin"
            raise Forbidden(self.actor, problem, remedy)

    def store_of(self, tenant: str) -> Store:
        """Return the store for an order that names a tenant: the caller's own or another."""
        return part_of(self.whole_store, tenant)

    def require_all_tenants(self, what: str) -> None:
        """Refuse what concerns all tenants to a caller that would see and change a part of it.

        That is a tenant's caller, and one whose role of the database is shown one tenant's rows.
        """
        self.require_operator(what)
        require_all_tenants(self.open_store(), self.actor, what)

    def ordering(self, reason: str | None = None) -> Actor:
        """Return who gives an order, from where and why, as the audit trail records it."""
        return Actor(
            name=self.actor,
            source=self.source,
            reason=read_reason(reason),
            address=self.address,
            credential=self.credential,
            is_operator=self.is_operator and not self.is_confined,
        )


MethodT = TypeVar("MethodT", bound=Callable[..., Any])


def joins(method: MethodT) -> MethodT:
    """Make an order part of the transaction on its `connection`, where one is given."""

    @wraps(method)
    def carried_out(self: Any, *values: Any, **options: Any) -> Any:  # noqa: ANN401 - any order
        with self._caller.joining(options.get("connection")):
            return method(self, *values, **options)

    return cast("MethodT", carried_out)


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
    if connection is None or isinstance(connection, LentTransaction):
        return await _threaded(partial(method, *values, **options))
    if isinstance(connection, AwaitedTransaction):
        options["connection"] = connection.transaction
        return await _threaded(partial(method, *values, **options), thread=connection.thread)
    import asyncio

    options["connection"] = awaiting = AwaitedConnection(connection, asyncio.get_running_loop())
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


T = TypeVar("T")
Tell: TypeAlias = Callable[[int], object]
"""Is told how many are done so far."""
TOLD_EVERY = 100


def counted(items: Iterable[T], tell: Tell | None) -> Iterator[T]:
    """Hand things on one by one, and tell how many there were so far."""
    if tell is None:
        yield from items
        return
    tell(0)
    number = 0
    for number, one in enumerate(items, start=1):
        if number % TOLD_EVERY == 0:
            tell(number)
        yield one
    tell(number)
