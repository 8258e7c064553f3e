"""The memory store as one object: takes the lock, opens a journal, carries an operation out."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from copy import copy
from typing import TYPE_CHECKING, Self, TypeVar

from duly.store.caller_transactions import not_lent
from duly.store.gates import OPENED_MAX
from duly.store.importing import tried
from duly.store.memory import (
    delayed,
    execution,
    firing,
    moving,
    ownership,
    planning,
    reading,
    retention,
    soundness,
    standing,
)
from duly.store.memory.access import MemoryAccess
from duly.store.memory.alerting import MemoryAlerting
from duly.store.memory.gates import open_gates
from duly.store.memory.ownership import seems_alive
from duly.store.memory.reads import MemoryReads
from duly.store.memory.sealing import MemorySealing
from duly.store.memory.surveys import MemorySurveys
from duly.store.memory.tables import Journal, Tables
from duly.store.memory.transaction import MemoryTransaction
from duly.store.memory.working import Working
from duly.store.ports.dispatch import MemberKind
from duly.store.ports.maintenance import IntegrityFinding, Migration, SchemaStatus
from duly.store.wakeups import LocalWakeups

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from duly.clock import Clock
    from duly.domain.ids import ScheduleId
    from duly.domain.runs import DelayedRecord, RunRecord
    from duly.domain.schedules import Definition, ScheduleRecord
    from duly.store.ports.dispatch import (
        Arrivals,
        ArrivalsCursor,
        CatchUpRangeRecord,
        DrainOwed,
        Fence,
        Fired,
        FireResult,
        FireTimers,
        Join,
        Lease,
        LeaseKey,
        LoadedTimers,
        LoadTimers,
        Member,
        MemberId,
        Renew,
        Renewal,
    )
    from duly.store.ports.execution import FinishAttempt
    from duly.store.ports.maintenance import Prune, Pruned
    from duly.store.ports.operations import OrderWorker, QuarantinedHost
    from duly.store.ports.schedules import (
        AddedRun,
        AddRuns,
        CancelDelayed,
        ChangeSchedule,
        CreatedSchedule,
        CreateSchedule,
        MoveDelayed,
        Stale,
    )
    from duly.store.ports.transfer import Exported, Imported, ImportPromises

T = TypeVar("T")


class MemoryStore(Working, MemoryReads, MemoryAccess, MemoryAlerting, MemorySealing, MemorySurveys):
    """A store in this process: every operation alone, one after the other."""

    def __init__(self, clock: Clock, *, shards: int = 8, name: str = "memory") -> None:
        self.name = name
        self.tables = Tables(shards)
        self._clock = clock
        self._lock = threading.RLock()
        self._places: dict[str, LocalWakeups] = {}
        self._transaction: MemoryTransaction | None = None
        """Of a copy of us: what its operations are part of."""

    def interrupt(self) -> None:
        """Nothing here takes long."""

    def close(self) -> None:
        """Nothing is held outside of this object."""

    def _write(self, operation: Callable[[Journal], T]) -> T:
        """Carry an operation out: all of it, or nothing."""
        if self._transaction is not None:
            with self._lock:
                return self._transaction.run(operation)
        with self._lock:
            journal = Journal(self.tables, self._clock.now_us())
            try:
                result = operation(journal)
            except BaseException:
                journal.undo()
                raise
            self._wake(journal.wakes)
            if journal.freed:
                self._open(journal.freed, OPENED_MAX)
        return result

    def _open(self, gates: set[str] | None, limit: int) -> int:
        """Let through who waits, in a transaction of its own: after the one that made room."""
        return self._write(lambda journal: open_gates(journal, gates, limit))

    def _read(self, operation: Callable[[Journal], T]) -> T:
        with self._lock:
            if self._transaction is not None:
                return self._transaction.run(operation, is_kept=False)
            return operation(Journal(self.tables, self._clock.now_us()))

    def _wake(self, kinds: set[MemberKind]) -> None:
        if not kinds:
            return
        journal = Journal(self.tables, self._clock.now_us())
        for member in self.tables.members.values():
            place = self._places.get(self.tables.wake_addresses[member.id])
            if place is not None and member.kind in kinds and seems_alive(journal, member.id):
                place.wake()

    # Planning

    def joined(self, within: object) -> Self:
        """Return this store as part of a transaction that it has lent."""
        if not isinstance(within, MemoryTransaction):
            raise not_lent(within)
        other = copy(self)
        other._transaction = within  # noqa: SLF001 - a copy of us
        return other

    def create_schedule(self, command: CreateSchedule) -> CreatedSchedule:
        """Create a schedule, or recognise the one that is there."""
        return self._write(lambda journal: planning.create_schedule(journal, command))

    def change_schedule(self, command: ChangeSchedule) -> ScheduleRecord | Stale:
        """Apply a decided change, or say that it came too late."""
        return self._write(lambda journal: planning.change_schedule(journal, command))

    def add_runs(self, command: AddRuns) -> list[AddedRun]:
        """Make runs, all or none."""
        # However late a lent transaction commits, an instant is meant as of this call.
        as_of = self._clock.now_us()
        return self._write(lambda journal: delayed.add_runs(journal, command, as_of))

    def move_delayed(self, command: MoveDelayed) -> DelayedRecord:
        """Move a pending run to another instant."""
        return self._write(lambda journal: delayed.move_delayed(journal, command))

    def cancel_delayed(self, command: CancelDelayed) -> RunRecord:
        """Cancel a pending run, on record."""

        def cancel(journal: Journal) -> RunRecord:
            run_id = delayed.cancel_delayed(journal, command)
            return reading.run_record(journal, self.tables.runs[run_id])

        return self._write(cancel)

    def register_tasks(self, names: Sequence[str]) -> None:
        """Remember the names of tasks."""

        def register(journal: Journal) -> None:
            for name in names:
                journal.put(self.tables.tasks, name, journal.now)

        self._write(register)

    @contextmanager
    def transaction(self, limit_us: int) -> Iterator[MemoryTransaction]:
        """Lend a transaction: what is done with it is written at its end, or not at all."""
        lent = MemoryTransaction(self.tables, self._clock, limit_us)
        wakes: set[MemberKind] = set()
        try:
            yield lent
            with self._lock:
                wakes = lent.commit()
        finally:
            with self._lock:
                lent.close()
        with self._lock:
            self._wake(wakes)

    def finish_within(self, within: object, worker: MemberId, finish: FinishAttempt) -> None:
        """End an attempt inside a transaction that was lent."""

        def end(journal: Journal) -> None:
            execution.finish_within(journal, self.name, worker, finish)

        if not isinstance(within, MemoryTransaction):
            raise not_lent(within)
        with self._lock:
            within.run_last(end)

    # Dispatch

    def wakeups(self, kind: MemberKind = MemberKind.DISPATCHER) -> LocalWakeups:
        """Return a new place to wait at; who joins with its address says what it waits for."""
        with self._lock:
            place = LocalWakeups(f"local:{len(self._places) + 1}")
            self._places[place.address] = place
        return place

    def join(self, command: Join) -> tuple[MemberId, int]:
        """Register a member under a fresh id."""
        return self._write(lambda journal: (ownership.join(journal, command), journal.now))

    def renew(self, command: Renew) -> Renewal:
        """Extend a membership that still holds."""
        return self._write(lambda journal: ownership.renew(journal, command))

    def leave(self, member: MemberId) -> None:
        """End a membership."""
        self._write(lambda journal: ownership.leave(journal, member))

    def acquire_leases(self, member: MemberId, wanted: Sequence[LeaseKey]) -> list[Lease]:
        """Take leases that nobody alive owns."""
        return self._write(lambda journal: ownership.acquire_leases(journal, member, wanted))

    def release_leases(self, fence: Fence) -> None:
        """Give up leases."""
        self._write(lambda journal: ownership.release_leases(journal, fence))

    def load_timers(self, command: LoadTimers) -> LoadedTimers:
        """Read timers in order of due."""
        return self._read(lambda journal: firing.load_timers(journal, command))

    def start_of_arrivals(self) -> ArrivalsCursor:
        """Return a cursor at the present end of the feed."""
        return self._read(firing.start_of_arrivals)

    def read_arrivals(self, cursor: ArrivalsCursor, shards: Sequence[int]) -> Arrivals:
        """Read what was announced since the cursor."""
        return self._read(lambda journal: firing.read_arrivals(journal, cursor, shards))

    def read_definitions(
        self, keys: Sequence[tuple[ScheduleId, int]]
    ) -> Mapping[tuple[ScheduleId, int], Definition]:
        """Read definitions."""
        known = self.tables.definitions
        return self._read(lambda _: {key: known[key] for key in keys if key in known})

    def fire_timers(self, command: FireTimers) -> Fired:
        """Fire a batch under one fence."""
        return self._write(lambda journal: firing.fire_timers(journal, command))

    def load_owed(
        self, shards: Sequence[int], limit: int, after: CatchUpRangeRecord | None = None
    ) -> list[CatchUpRangeRecord]:
        """Read ranges that are owed, oldest first."""
        return self._read(lambda journal: firing.load_owed(journal, shards, limit, after))

    def drain_owed(self, command: DrainOwed) -> FireResult:
        """Settle a part of a range."""
        return self._write(lambda journal: firing.drain_owed(journal, command))

    def open_gates(self, limit: int) -> int:
        """Let through who waits at gates that nobody holds."""
        return self._open(None, limit)

    def due_resumes(self, limit: int) -> list[ScheduleId]:
        """Read paused schedules whose time to resume has come."""

        def read(journal: Journal) -> list[ScheduleId]:
            due = [
                record
                for record in self.tables.schedules.values()
                if record.status == "paused"
                and record.resume_at is not None
                and record.resume_at <= journal.now
            ]
            due.sort(key=lambda record: (record.resume_at, record.id))
            return [record.id for record in due[:limit]]

        return self._read(read)

    def note_tzdata(self, release: str) -> bool:
        """Remember the release of time-zone rules; False if a newer one is known."""

        def note(journal: Journal) -> bool:
            if release < self.tables.cluster["tzdata"]:
                return False
            journal.put(self.tables.cluster, "tzdata", release)
            return True

        return self._write(note)

    def prune(self, command: Prune) -> Pruned:
        """Remove history that is past its retention."""
        return self._write(lambda journal: retention.prune(journal, command))

    # Reading: the rest is in `reads.py`

    def now(self) -> int:
        """Return the store's clock."""
        return self._clock.now_us()

    # Standing

    def order_worker(self, command: OrderWorker) -> Member:
        """Take a worker out of service, or back into it."""
        return self._write(lambda journal: standing.order_worker(journal, command))

    def list_quarantined_hosts(self) -> list[QuarantinedHost]:
        """Return hosts of which no worker claims anything."""
        return self._read(lambda _: sorted(self.tables.quarantined_hosts.values()))

    # Moving

    @contextmanager
    def export_promises(self, *, has_history: bool) -> Iterator[Exported]:
        """Hand out all that is promised at one moment."""
        yield self._read(lambda journal: moving.export_promises(journal, has_history=has_history))

    def import_promises(self, command: ImportPromises) -> Imported:
        """Write all of an export, or nothing."""

        def carry_out() -> Imported:
            return self._write(lambda journal: moving.MemoryImporting(journal, command).carry_out())

        return tried(carry_out)

    # Schema

    def schema_status(self) -> SchemaStatus:
        """Say that there is nothing to migrate."""
        return SchemaStatus(self.name, (), (), (), is_usable=True, problem=None)

    def migrate(self, *, phase: str | None = None) -> list[Migration]:
        """Do nothing: what is in memory is of this version."""
        return []

    def check(self) -> list[IntegrityFinding]:
        """Look for what must never be."""
        return self._read(soundness.check)
