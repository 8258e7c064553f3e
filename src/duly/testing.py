"""Testing kit for users: virtual time, a clock set by hand, seeded draws, an inline executor.

`virtual_time` replaces the application's store and clock by a memory store and a clock set by hand.
It ticks a dispatcher and a worker at each instant at which work is due, and no thread sleeps.
Orders take `connection=` as on the application's own store: see `VirtualStore`.

The conformance suite for stores is the separate package `duly_conformance`, because it alone needs
pytest.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from contextlib import contextmanager
from contextvars import copy_context
from copy import copy
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import blake2b
from itertools import count
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar

from duly.client.parameters import local_moment, read_delay, read_instant
from duly.domain.enums import ScheduleStatus, TaskKind
from duly.engine.dispatcher.dispatcher import Dispatcher
from duly.engine.dispatcher.settings import DispatcherSettings
from duly.engine.executors.executor import called, carried_out
from duly.engine.manual_clock import ManualClock
from duly.engine.worker import Worker, WorkerSettings
from duly.errors import UsageError
from duly.store.caller_transactions import LentTransaction, not_lent
from duly.store.memory import MemoryStore
from duly.store.ports.queries import ScheduleFilter
from duly.timetable.instants import DAY, SECOND_US, from_microseconds
from duly.timetable.once import at

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from duly.app import App
    from duly.clock import Clock
    from duly.engine.executors.executor import AttemptWork
    from duly.store.memory.tables import Journal
    from duly.store.memory.transaction import MemoryTransaction
    from duly.store.ports.queries import StoreStatus
    from duly.store.postgres.joining import OrderMark

T = TypeVar("T")

__all__ = ["ManualClock", "SeededDraws", "VirtualClock", "virtual_time"]


class InlineExecutor:
    """Runs each work to its end before `start` returns; nothing can stop it meanwhile."""

    def start(self, work: AttemptWork) -> None:
        """Prepare, begin, run, and say how it ended."""
        # Whose code is running is noted in a context: here it must not be the caller's own.
        context = copy_context()
        work.ended(carried_out(lambda: context.run(called, work, _finished)))

    def ask(self, work: AttemptWork) -> None:
        """Do nothing: what was started has ended."""

    def insist(self, work: AttemptWork) -> bool:
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


class SeededDraws:
    """Bytes that look random and are not: a hash of the seed and of how many draws there were."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed.to_bytes(16, signed=True)
        self._counts = count(1)  # which gives no two threads the same

    def draw(self, size: int) -> bytes:
        """Return `size` bytes that nobody but this seed has drawn."""
        drawn = b""
        while len(drawn) < size:
            drawn += blake2b(next(self._counts).to_bytes(8), key=self._seed).digest()
        return drawn[:size]


@dataclass(slots=True)
class VirtualOrder:
    """An order on a connection of the caller's own."""

    mark: OrderMark
    changes: Journal | None
    """What it has changed; None once something else has happened since."""


class VirtualStore(MemoryStore):
    """The store of a block of virtual time.

    An order on a connection of the caller's own counts at once, as his transaction sees it: a test
    may never commit it. When that transaction or its savepoint is rolled back, it is undone.
    """

    def __init__(self, clock: Clock, url: str) -> None:
        """Stand in for the store of a URL."""
        super().__init__(clock, shards=1, name="virtual time")
        self._url = url
        self._within: object = None
        """Of a copy of us: the connection on which its operations are ordered."""
        self._orders: list[VirtualOrder] = []
        """Those that may yet be rolled back; copies of us share it."""
        self._numbers = count(1)

    def joined(self, within: object) -> Self:
        """Return this store as part of a transaction."""
        if isinstance(within, LentTransaction):
            return super().joined(within)
        if not self._url.startswith("postgres"):
            raise not_lent(within)
        other = copy(self)
        other._within = within  # noqa: SLF001 - a copy of us
        return other

    @contextmanager
    def transaction(self, limit_us: int) -> Iterator[MemoryTransaction]:
        """Lend a transaction: what is done with it is written at its end, or not at all."""
        with super().transaction(limit_us) as lent:
            yield lent
        self._keep_all()

    def end(self) -> None:
        """Leave what was ordered as it is, whatever becomes of it."""
        self._orders.clear()

    def _write(self, operation: Callable[[Journal], T]) -> T:
        if self._transaction is not None:
            return super()._write(operation)
        self._undo_rolled_back()
        if self._within is None:
            self._keep_all()
            return super()._write(operation)
        from duly.store.postgres.joining import mark_order

        mark = mark_order(self._within, self.name, next(self._numbers))
        changes: list[Journal] = []

        def noted(journal: Journal) -> T:
            changes.append(journal)
            return operation(journal)

        place = len(self._orders)
        result = super()._write(noted)
        # Ahead of what followed from it.
        self._orders.insert(place, VirtualOrder(mark, changes[0]))
        return result

    def _read(self, operation: Callable[[Journal], T]) -> T:
        self._undo_rolled_back()
        return super()._read(operation)

    def _keep_all(self) -> None:
        """Notice that something happens after the orders so far: they can't be undone alone."""
        for order in self._orders:
            order.changes = None

    def _undo_rolled_back(self) -> None:
        """Undo orders whose transaction was rolled back; forget those that were committed."""
        if not self._orders:
            return
        from duly.store.postgres.joining import OrderFate, fate_of

        while self._orders:
            # A rollback takes the last orders of a connection.
            last = {id(order.mark.connection): order for order in self._orders}
            fates = [(order, fate_of(order.mark)) for order in last.values()]
            committed = {
                id(order.mark.connection) for order, fate in fates if fate is OrderFate.COMMITTED
            }
            undone = [order for order, fate in fates if fate is OrderFate.ROLLED_BACK]
            if not undone:
                self._orders[:] = [
                    one for one in self._orders if id(one.mark.connection) not in committed
                ]
                return
            order = self._orders.pop()
            if order not in undone or order.changes is None:
                self._orders.append(order)
                problem = "has rolled back an order after something else had happened"
                remedy = "let time pass, and order elsewhere, after the transaction has ended"
                raise UsageError("connection", undone[0].mark.connection, problem, remedy)
            order.changes.undo()


ROUNDS_MAX = 10_000
"""How often something may fall due at one instant; more is a task that never comes to rest."""
_AGE_US = 36_500 * DAY * SECOND_US
_WARM_UP_US = 5 * SECOND_US
_STEP_US = 10_000
_BEGINNING = -62_135_000_000 * SECOND_US
# One process, one thread: no lease ever runs out, and nobody is flooded.
_DISPATCHER = DispatcherSettings(
    ttl_us=_AGE_US,
    renew_every_us=_AGE_US // 4,
    catch_up_per_second=1_000_000,
    catch_up_per_range=1_000,
)
_WORKER = WorkerSettings(ttl_us=_AGE_US, beat_every_us=_AGE_US // 4, talk_every_us=0)


@contextmanager
def virtual_time(app: App, start: datetime | str, tz: str | None = None) -> Iterator[VirtualClock]:
    """Have an application live in virtual time, for the length of a `with` block.

    `start` is an instant, or a wall time in `tz` (UTC unless told). What the application declares
    is made; its own store and clock are untouched, and back afterwards. A command or a webhook is
    not carried out: its run succeeds, with its arguments as result. Nothing is left to chance: ids,
    the order of what falls due together and the spread of retries are the same at every run.
    """
    start_at = _read_start(start, tz)
    clock = ManualClock(start_at - _WARM_UP_US)
    store = VirtualStore(clock, app.url)
    virtual = VirtualClock(app, store, clock, tz or "UTC")
    with app.standing_in(store, clock, virtual.rest, SeededDraws()):
        virtual.open(start_at)
        app.reconcile()
        try:
            yield virtual
        finally:
            store.end()
            virtual.close()


class VirtualClock:
    """The clock of a block of virtual time; moving it runs what falls due."""

    def __init__(self, app: App, store: VirtualStore, clock: ManualClock, tz: str) -> None:
        self._store = store
        self._clock = clock
        self._tz = tz
        self._is_busy = False
        self._dispatcher = Dispatcher(store, clock, _DISPATCHER)
        executors = dict.fromkeys(TaskKind, InlineExecutor())
        self._worker = Worker(
            store, clock, app.catalogue(), executors, _WORKER, draws=SeededDraws(1)
        )

    @property
    def now(self) -> datetime:
        """The instant it is, as the clock on the wall of the block's zone shows it."""
        return local_moment(self._clock.now_us(), self._tz)

    def advance(self, duration: str | timedelta) -> None:
        """Let time pass, and run what falls due meanwhile, each at its instant."""
        self._go(self._clock.now_us() + read_delay("duration", duration))

    def advance_to(self, moment: datetime | str) -> None:
        """Let time pass until an instant, or a wall time in the block's zone."""
        until = _read_start(moment, self._tz)
        if until < self._clock.now_us():
            remedy = "time passes forwards: begin another block for what was earlier"
            raise UsageError("moment", moment, "is in the past", remedy)
        self._go(until)

    def rest(self, duration_us: int) -> None:
        """Let so many microseconds pass, for whoever waits."""
        self._go(self._clock.now_us() + duration_us)

    def open(self, start_at: int) -> None:
        """Take all shards, and let it be the start."""
        while (left_us := start_at - self._clock.now_us()) > 0:
            self._dispatcher.tick()
            self._clock.advance(min(SECOND_US, left_us))
        self._worker.tick()

    def close(self) -> None:
        """End the dispatcher and the worker."""
        self._worker.stop()
        self._dispatcher.stop()

    def _go(self, until: int) -> None:
        if self._is_busy:  # a task lets time pass while it runs: others wait for its end
            self._clock.advance(until - self._clock.now_us())
            return
        self._is_busy = True
        try:
            self._settle(until)
            while (due_at := self._next_due(until)) is not None:
                self._clock.advance(max(0, due_at - self._clock.now_us()))
                self._settle(until)
            self._clock.advance(max(0, until - self._clock.now_us()))
        finally:
            self._is_busy = False

    def _next_due(self, until: int) -> int | None:
        """Return the next instant at which something happens, up to `until`."""
        paused = ScheduleFilter(tenant=None, statuses=frozenset({ScheduleStatus.PAUSED}))
        times = [one.resume_at for one in self._store.list_schedules(paused)]
        times.append(self._store.status().next_due_at)
        if self._store.load_backfills(1):
            times.append(self._clock.now_us() + SECOND_US)  # it goes on at a rate
        due_at = min((one for one in times if one is not None), default=None)
        return due_at if due_at is not None and due_at <= until else None

    def _settle(self, until: int) -> None:
        """Do all that is to be done at this instant; a few milliseconds may pass by it."""
        before: StoreStatus | None = None
        for _ in range(ROUNDS_MAX):
            self._dispatcher.wake()
            wanted = self._dispatcher.tick()
            self._worker.wake()
            self._worker.tick()
            status = self._store.status()
            if _is_at_rest(status):
                return
            if before is not None and before == replace(status, now=before.now):
                # Nothing has happened: the dispatcher wants some time to pass before it looks.
                wait_us = max(0, min(wanted - self._clock.monotonic_us(), _STEP_US))
                self._clock.advance(min(wait_us, max(0, until - self._clock.now_us())))
            before = status
        self._refuse()

    def _refuse(self) -> NoReturn:
        moment = from_microseconds(self._clock.now_us())
        problem = f"does not come to rest after {ROUNDS_MAX:,} rounds"
        remedy = "see app.runs.list(): a task may be asking for itself again without a delay"
        raise UsageError("virtual time", moment.isoformat(), problem, remedy)


def _is_at_rest(status: StoreStatus) -> bool:
    """Say whether nothing is left to be done at this instant."""
    queues = status.queues.items()
    queued = sum(count for name, count in queues if name not in status.paused_queues)
    return not (status.overdue or status.owed or status.running or queued)


def _read_start(when: object, tz: str | None) -> int:
    """Read an instant, or a wall time in a zone."""
    moment = when
    if isinstance(when, str):
        try:
            moment = datetime.fromisoformat(when.strip())
        except ValueError:
            moment = None
    if not isinstance(moment, datetime):
        remedy = "give a datetime, or a text such as '2026-03-28T12:00'"
        raise UsageError("start", when, "is not a moment", remedy)
    if moment.utcoffset() is not None:
        return read_instant("start", moment)
    found = at(moment, tz or "UTC").first_from(_BEGINNING)
    assert found is not None, "a date has its instant"
    return found
