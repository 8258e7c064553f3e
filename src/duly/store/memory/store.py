"""The memory store as one object: takes the lock, opens a journal, carries an operation out."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from duly.store.dispatch import MemberKind
from duly.store.gates import OPENED_MAX
from duly.store.importing import tried
from duly.store.joinable import not_lent
from duly.store.memory import (
    counting,
    delayed,
    execution,
    firing,
    last_ends,
    moving,
    ownership,
    planning,
    reading,
    retention,
    run_vitals,
    searching,
    soundness,
    standing,
)
from duly.store.memory.access import MemoryAccess
from duly.store.memory.alerting import MemoryAlerting
from duly.store.memory.gates import open_gates
from duly.store.memory.ownership import seems_alive
from duly.store.memory.sealing import MemorySealing
from duly.store.memory.surveys import MemorySurveys
from duly.store.memory.tables import Journal, Tables
from duly.store.memory.transaction import MemoryTransaction
from duly.store.memory.working import Working
from duly.store.reading import FIRST_DELAYED, Seen
from duly.store.schema import Finding, Migration, SchemaStatus
from duly.store.tenancy import of_tenant
from duly.store.wakeups import LocalWakeups

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from duly.clock import Clock
    from duly.domain.audit import AuditEntry
    from duly.domain.identity import RunId, ScheduleId
    from duly.domain.last_ends import LastEnds
    from duly.domain.run_times import RunSpan
    from duly.domain.run_vitals import DefinitionRecord, RunVital, VitalsFilter
    from duly.domain.runs import DelayedRecord, OccurrenceVerdict, RunRecord, SkipRecord
    from duly.domain.schedules import Definition, Owed, ScheduleRecord
    from duly.store import dispatch as port
    from duly.store.execution import Finish
    from duly.store.moving import Exported, Imported, ImportPromises
    from duly.store.planning import (
        AddedRun,
        AddRuns,
        CancelDelayed,
        ChangeSchedule,
        CreatedSchedule,
        CreateSchedule,
        MoveDelayed,
        Stale,
    )
    from duly.store.reading import (
        AuditFilter,
        DelayedPlace,
        OpenCounts,
        RunFilter,
        ScheduleFilter,
        StoreStatus,
        TenantCounts,
    )
    from duly.store.searching import AttemptFilter, AttemptPage, AuditPage, RunPage
    from duly.store.standing import OrderWorker, QuarantinedHost
    from duly.store.trailing import AuditAfter, TrailPage

T = TypeVar("T")


class MemoryStore(Working, MemoryAccess, MemoryAlerting, MemorySealing, MemorySurveys):
    """A store in this process: every operation alone, one after the other."""

    def __init__(self, clock: Clock, *, shards: int = 8, name: str = "memory") -> None:
        self.name = name
        self.tables = Tables(shards)
        self._clock = clock
        self._lock = threading.RLock()
        self._places: dict[str, LocalWakeups] = {}

    def interrupt(self) -> None:
        """Nothing here takes long."""

    def close(self) -> None:
        """Nothing is held outside of this object."""

    def _write(self, operation: Callable[[Journal], T]) -> T:
        """Carry an operation out: all of it, or nothing."""
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
            return operation(Journal(self.tables, self._clock.now_us()))

    def _within(self, within: object | None, operation: Callable[[Journal], T]) -> T:
        if within is None:
            return self._write(operation)
        if not isinstance(within, MemoryTransaction):
            raise not_lent(within)
        with self._lock:
            return within.run(operation)

    def _wake(self, kinds: set[MemberKind]) -> None:
        if not kinds:
            return
        journal = Journal(self.tables, self._clock.now_us())
        for member in self.tables.members.values():
            place = self._places.get(self.tables.wake_addresses[member.id])
            if place is not None and member.kind in kinds and seems_alive(journal, member.id):
                place.wake()

    # Planning

    def create_schedule(
        self, command: CreateSchedule, within: object | None = None
    ) -> CreatedSchedule:
        """Create a schedule, or recognise the one that is there."""
        return self._within(within, lambda journal: planning.create_schedule(journal, command))

    def change_schedule(self, command: ChangeSchedule) -> ScheduleRecord | Stale:
        """Apply a decided change, or say that it came too late."""
        return self._write(lambda journal: planning.change_schedule(journal, command))

    def add_runs(self, command: AddRuns, within: object | None = None) -> list[AddedRun]:
        """Make runs, all or none."""
        # However late a lent transaction commits, an instant is meant as of this call.
        as_of = self._clock.now_us()
        return self._within(within, lambda journal: delayed.add_runs(journal, command, as_of))

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

    def finish_within(self, within: object, worker: port.MemberId, finish: Finish) -> None:
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

    def join(self, command: port.Join) -> tuple[port.MemberId, int]:
        """Register a member under a fresh id."""
        return self._write(lambda journal: (ownership.join(journal, command), journal.now))

    def renew(self, command: port.Renew) -> port.Renewal:
        """Extend a membership that still holds."""
        return self._write(lambda journal: ownership.renew(journal, command))

    def leave(self, member: port.MemberId) -> None:
        """End a membership."""
        self._write(lambda journal: ownership.leave(journal, member))

    def acquire_leases(
        self, member: port.MemberId, wanted: Sequence[port.LeaseKey]
    ) -> list[port.Lease]:
        """Take leases that nobody alive owns."""
        return self._write(lambda journal: ownership.acquire_leases(journal, member, wanted))

    def release_leases(self, fence: port.Fence) -> None:
        """Give up leases."""
        self._write(lambda journal: ownership.release_leases(journal, fence))

    def load_timers(self, command: port.LoadTimers) -> port.LoadedTimers:
        """Read timers in order of due."""
        return self._read(lambda journal: firing.load_timers(journal, command))

    def start_of_arrivals(self) -> port.ArrivalsCursor:
        """Return a cursor at the present end of the feed."""
        return self._read(firing.start_of_arrivals)

    def read_arrivals(self, cursor: port.ArrivalsCursor, shards: Sequence[int]) -> port.Arrivals:
        """Read what was announced since the cursor."""
        return self._read(lambda journal: firing.read_arrivals(journal, cursor, shards))

    def read_definitions(
        self, keys: Sequence[tuple[ScheduleId, int]]
    ) -> Mapping[tuple[ScheduleId, int], Definition]:
        """Read definitions."""
        known = self.tables.definitions
        return self._read(lambda _: {key: known[key] for key in keys if key in known})

    def fire_timers(self, command: port.FireTimers) -> port.Fired:
        """Fire a batch under one fence."""
        return self._write(lambda journal: firing.fire_timers(journal, command))

    def load_owed(
        self, shards: Sequence[int], limit: int, after: port.OwedRecord | None = None
    ) -> list[port.OwedRecord]:
        """Read ranges that are owed, oldest first."""
        return self._read(lambda journal: firing.load_owed(journal, shards, limit, after))

    def drain_owed(self, command: port.DrainOwed) -> port.FireResult:
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

    def prune(self, command: port.Prune) -> port.Pruned:
        """Remove history that is past its retention."""
        return self._write(lambda journal: retention.prune(journal, command))

    # Reading

    def now(self) -> int:
        """Return the store's clock."""
        return self._clock.now_us()

    def get_schedule(self, schedule_id: ScheduleId, tenant: str | None = None) -> Seen | None:
        """Return a schedule, deleted or not."""

        def read(journal: Journal) -> Seen | None:
            record = of_tenant(self.tables.schedules.get(schedule_id), tenant)
            return None if record is None else Seen(record, journal.now)

        return self._read(read)

    def find_schedule(self, tenant: str, name: str) -> Seen | None:
        """Return the schedule of a name."""
        return self._read(lambda journal: reading.find_schedule(journal, tenant, name))

    def list_schedules(self, command: ScheduleFilter) -> list[ScheduleRecord]:
        """Return schedules in order."""
        return self._read(lambda journal: reading.list_schedules(journal, command))

    def get_definition(self, schedule_id: ScheduleId, number: int) -> Definition | None:
        """Return one version of a schedule's template."""
        return self._read(lambda _: self.tables.definitions.get((schedule_id, number)))

    def list_definitions(self, schedule_id: ScheduleId, limit: int) -> list[DefinitionRecord]:
        """Return the newest versions of a schedule's template, newest first."""
        return self._read(lambda one: run_vitals.list_definitions(one, schedule_id, limit))

    def get_definitions(
        self, keys: Sequence[tuple[ScheduleId, int]]
    ) -> dict[tuple[ScheduleId, int], Definition]:
        """Return those versions of templates that there are."""
        definitions = self.tables.definitions
        return self._read(lambda _: {key: definitions[key] for key in keys if key in definitions})

    def get_run(self, run_id: RunId, tenant: str | None = None) -> RunRecord | None:
        """Return a run."""
        return self._read(lambda journal: of_tenant(reading.get_run(journal, run_id), tenant))

    def list_runs(self, command: RunFilter) -> list[RunRecord]:
        """Return runs, newest first."""
        return self._read(lambda journal: reading.list_runs(journal, command))

    def get_delayed(self, run_id: RunId, tenant: str | None = None) -> DelayedRecord | None:
        """Return a pending delayed run by its id."""
        return self._read(lambda _: of_tenant(self.tables.delayed.get(run_id), tenant))

    def find_delayed(self, tenant: str, key: str) -> DelayedRecord | None:
        """Return the pending delayed run of a key."""

        def read(_: Journal) -> DelayedRecord | None:
            run_id = self.tables.keys.get((tenant, key))
            return None if run_id is None else self.tables.delayed[run_id]

        return self._read(read)

    def list_delayed(
        self, tenant: str, limit: int, after: DelayedPlace = FIRST_DELAYED
    ) -> list[DelayedRecord]:
        """Return pending delayed runs in order of due."""

        def read(_: Journal) -> list[DelayedRecord]:
            rows = (row for row in self.tables.delayed.values() if row.tenant == tenant)
            found = [row for row in rows if (row.due_at, row.id) > after]
            return sorted(found, key=lambda row: (row.due_at, row.id))[:limit]

        return self._read(read)

    def list_skips(self, schedule_id: ScheduleId, limit: int) -> list[SkipRecord]:
        """Return what was skipped, newest first."""

        def read(_: Journal) -> list[SkipRecord]:
            found = [row for row in self.tables.skips.values() if row.schedule_id == schedule_id]
            return sorted(found, key=lambda row: row.first_for, reverse=True)[:limit]

        return self._read(read)

    def list_run_times(
        self, schedule_ids: Sequence[ScheduleId], limit: int
    ) -> dict[ScheduleId, list[RunSpan]]:
        """Return from when to when the newest runs of each were open."""
        return self._read(lambda journal: reading.list_run_times(journal, schedule_ids, limit))

    def list_last_ends(
        self, schedule_ids: Sequence[ScheduleId], limit: int, *, with_errors: bool = True
    ) -> dict[ScheduleId, LastEnds]:
        """Return how the newest runs of each ended."""
        read = partial(last_ends.list_last_ends, with_errors=with_errors)
        return self._read(lambda journal: read(journal, schedule_ids, limit))

    def list_run_vitals(self, command: VitalsFilter) -> list[RunVital]:
        """Return what is known of runs, newest first."""
        return self._read(lambda journal: run_vitals.list_run_vitals(journal, command))

    def list_owed(self, schedule_id: ScheduleId) -> list[Owed]:
        """Return the ranges a schedule still owes, oldest first."""

        def read(_: Journal) -> list[Owed]:
            rows = [row.owed for row in self.tables.owed.values()]
            found = [owed for owed in rows if owed.schedule_id == schedule_id]
            return sorted(found, key=lambda owed: owed.first_for)

        return self._read(read)

    def judge(self, schedule_id: ScheduleId, instants: Sequence[int]) -> list[OccurrenceVerdict]:
        """Say what is known about each occurrence."""
        return self._read(lambda journal: reading.judge(journal, schedule_id, instants))

    def list_audit(self, command: AuditFilter) -> list[AuditEntry]:
        """Return audit entries, newest first."""
        return self._read(lambda journal: reading.list_audit(journal, command))

    def search_runs(self, command: RunFilter) -> RunPage:
        """Return a page of runs, newest first by id."""
        return self._read(lambda journal: searching.search_runs(journal, command))

    def search_attempts(self, command: AttemptFilter) -> AttemptPage:
        """Return a page of attempts by run and fence, newest first."""
        return self._read(lambda journal: searching.search_attempts(journal, command))

    def search_audit(self, command: AuditFilter) -> AuditPage:
        """Return a page of audit entries, newest first by number."""
        return self._read(lambda journal: searching.search_audit(journal, command))

    def follow_audit(self, command: AuditAfter) -> TrailPage:
        """Return entries after a number, oldest first: nobody else is writing one."""
        return self._read(lambda journal: reading.follow_audit(journal, command))

    def list_tasks(self) -> list[str]:
        """Return the names of tasks, sorted."""
        return self._read(lambda _: sorted(self.tables.tasks))

    def status(self) -> StoreStatus:
        """Return the state of the store."""
        return self._read(reading.status)

    def count_tenant(self, tenant: str) -> TenantCounts:
        """Count what is one tenant's."""
        return self._read(lambda journal: counting.count_tenant(journal, tenant))

    def count_tenants(self) -> dict[str, OpenCounts]:
        """Count open runs by tenant."""
        return self._read(counting.count_tenants)

    # Standing

    def order_worker(self, command: OrderWorker) -> port.Member:
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

    def check(self) -> list[Finding]:
        """Look for what must never be."""
        return self._read(soundness.check)
