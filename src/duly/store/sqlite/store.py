"""The SQLite store as one object: opens a transaction or a snapshot, hands the order on."""

from __future__ import annotations

from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Self

from duly.clock import SystemClock
from duly.errors import UsageError
from duly.store.caller_transactions import not_lent
from duly.store.gates import OPENED_MAX
from duly.store.importing import tried
from duly.store.migrating import refuse_untimely
from duly.store.ports.dispatch import MemberKind
from duly.store.snapshots import ReadsBySnapshot
from duly.store.sqlite import (
    delayed,
    finishing,
    firing,
    gates,
    leases,
    loading,
    moving,
    owed,
    planning,
    reading,
    retention,
    schema,
    sealing,
    soundness,
    standing,
)
from duly.store.sqlite.access import SqliteAccess
from duly.store.sqlite.alerting import SqliteAlerting
from duly.store.sqlite.connection import Connections, SqliteSettings
from duly.store.sqlite.firing_many import NotAsBelievedError
from duly.store.sqlite.in_memory import IN_MEMORY, ConnectionInMemory
from duly.store.sqlite.surveys import SqliteSurveys
from duly.store.sqlite.transaction import ConnectionsInTransaction, SqliteTransaction, lent
from duly.store.sqlite.working import Working
from duly.store.wakeups import UdpWakeups

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from duly.clock import Clock
    from duly.domain.audit import AuditEntry, Seal
    from duly.domain.ids import ScheduleId
    from duly.domain.runs import DelayedRecord, RunRecord
    from duly.domain.schedules import Definition, ScheduleRecord
    from duly.store.ports.audit import AuditAfter, SealAudit, TrailMarks, TrailPage
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
        Wakeups,
    )
    from duly.store.ports.execution import FinishAttempt
    from duly.store.ports.maintenance import (
        IntegrityFinding,
        Migration,
        Prune,
        Pruned,
        SchemaStatus,
    )
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
        Transaction,
    )
    from duly.store.ports.transfer import Exported, Imported, ImportPromises
    from duly.store.snapshots import Snapshot
    from duly.store.sqlite.work import Look, Work

SHARDS_DEFAULT = 8
INSERT_TASK = "INSERT INTO duly_tasks (name) VALUES (?) ON CONFLICT DO NOTHING"


class SqliteStore(Working, SqliteAccess, SqliteAlerting, SqliteSurveys, ReadsBySnapshot):
    """Promises in one file; for several threads, and several processes of one host.

    An empty file gets its schema at once. A store object must not be used on the other side of a
    fork: SQLite's locks do not survive it. Open a store of its own in the child.

    The path `:memory:` names a database in memory, for the threads of one process alone: it is
    gone when the store is closed.
    """

    def __init__(
        self,
        path: Path | str,
        clock: Clock | None = None,
        *,
        shards: int = SHARDS_DEFAULT,
        settings: SqliteSettings | None = None,
    ) -> None:
        """Open a file; `shards` counts only when it is made, since it never changes after."""
        self._connections = _connections(path, clock or SystemClock(), settings or SqliteSettings())
        self.name = self._connections.name
        self._connections.create(shards)

    def interrupt(self) -> None:
        """Break off what others read; the program is about to end."""
        self._connections.interrupt()

    def close(self) -> None:
        """Let go of the file; whatever was committed stays."""
        self._connections.close()

    @contextmanager
    def _write(self) -> Iterator[Work]:
        with self._connections.write() as work:
            yield work
        if work.freed and not self._connections.is_lent:
            # In a transaction of its own, after the one that made room: see store/gates.py.
            with self._connections.write() as after:
                gates.open_gates(after, work.freed, OPENED_MAX)

    def _read(self) -> AbstractContextManager[Look]:
        return self._connections.read()

    # Planning

    def joined(self, within: object) -> Self:
        """Return this store as part of a transaction that it has lent."""
        if not isinstance(within, SqliteTransaction):
            raise not_lent(within)
        other, joined = copy(self), ConnectionsInTransaction(self._connections, within)
        other._connections = joined  # noqa: SLF001 - a copy of us
        return other

    def create_schedule(self, command: CreateSchedule) -> CreatedSchedule:
        """Create a schedule, or recognise the one that is there."""
        with self._connections.write() as work:
            return planning.create_schedule(work, command)

    def change_schedule(self, command: ChangeSchedule) -> ScheduleRecord | Stale:
        """Apply a decided change, or say that it came too late."""
        with self._connections.write() as work:
            return planning.change_schedule(work, command)

    def add_runs(self, command: AddRuns) -> list[AddedRun]:
        """Make runs, all or none."""
        with self._connections.write() as work:
            return delayed.add_runs(work, command)

    def move_delayed(self, command: MoveDelayed) -> DelayedRecord:
        """Move a pending run to another instant."""
        with self._connections.write() as work:
            return delayed.move_delayed(work, command)

    def cancel_delayed(self, command: CancelDelayed) -> RunRecord:
        """Cancel a pending run; one that is already cancelled stays so."""
        with self._connections.write() as work:
            return delayed.cancel_delayed(work, command)

    def register_tasks(self, names: Sequence[str]) -> None:
        """Remember which tasks programs know; write only what is new."""
        new = set(names).difference(self.list_tasks())
        if new:
            with self._connections.write() as work:
                work.connection.executemany(INSERT_TASK, [(name,) for name in sorted(new)])

    def transaction(self, limit_us: int) -> AbstractContextManager[Transaction]:
        """Lend a connection: all that is done with it commits together, or not at all."""
        return lent(self._connections, limit_us)

    def finish_within(self, within: object, worker: MemberId, finish: FinishAttempt) -> None:
        """End an attempt as the last word of a transaction that was lent."""
        if not isinstance(within, SqliteTransaction):
            raise not_lent(within)
        with within.last_operation(self._connections) as work:
            finishing.finish_within(work, self.name, worker, finish)

    # Dispatch

    def wakeups(self, kind: MemberKind = MemberKind.DISPATCHER) -> Wakeups:
        """Return a new place to wait at, known by an address on this host."""
        return UdpWakeups()

    def join(self, command: Join) -> tuple[MemberId, int]:
        """Register a member under a fresh id; return it with the store's now."""
        with self._connections.write() as work:
            return leases.join(work, command), work.now

    def renew(self, command: Renew) -> Renewal:
        """Extend a membership that still holds."""
        with self._connections.write() as work:
            return leases.renew(work, command)

    def leave(self, member: MemberId) -> None:
        """End a membership and give up its leases."""
        with self._connections.write() as work:
            leases.leave(work, member)

    def acquire_leases(self, member: MemberId, wanted: Sequence[LeaseKey]) -> list[Lease]:
        """Take those leases that nobody alive owns."""
        with self._connections.write() as work:
            return leases.acquire_leases(work, member, wanted)

    def release_leases(self, fence: Fence) -> None:
        """Give up leases that are still ours."""
        with self._connections.write() as work:
            leases.release_leases(work, fence)

    def load_timers(self, command: LoadTimers) -> LoadedTimers:
        """Read timers in order of due."""
        with self._connections.read() as look:
            return loading.load_timers(look, command)

    def start_of_arrivals(self) -> ArrivalsCursor:
        """Return a cursor at the present end of the arrivals feed."""
        with self._connections.read() as look:
            return loading.start_of_arrivals(look)

    def read_arrivals(self, cursor: ArrivalsCursor, shards: Sequence[int]) -> Arrivals:
        """Read timers announced since the cursor, as they are now."""
        with self._connections.read() as look:
            return loading.read_arrivals(look, cursor, shards)

    def read_definitions(
        self, keys: Sequence[tuple[ScheduleId, int]]
    ) -> Mapping[tuple[ScheduleId, int], Definition]:
        """Read definitions by schedule and number."""
        with self._connections.read() as look:
            return loading.read_definitions(look, keys)

    def fire_timers(self, command: FireTimers) -> Fired:
        """Make the runs, queue them, advance the timers: all in one transaction."""
        batch = firing.Batch(command)
        try:
            with self._connections.write() as work:
                return firing.fire_timers(work, batch)
        except NotAsBelievedError:
            with self._connections.write() as work:
                return firing.fire_timers(work, batch, is_careful=True)

    def open_gates(self, limit: int) -> int:
        """Let through who waits at gates that nobody holds."""
        with self._connections.write() as work:
            return gates.open_gates(work, None, limit)

    def load_owed(
        self, shards: Sequence[int], limit: int, after: CatchUpRangeRecord | None = None
    ) -> list[CatchUpRangeRecord]:
        """Read ranges of schedules that still run, oldest first."""
        with self._connections.read() as look:
            return owed.load_owed(look, shards, limit, after)

    def drain_owed(self, command: DrainOwed) -> FireResult:
        """Apply a settlement of a range under the catch-up lease."""
        with self._connections.write() as work:
            return owed.drain_owed(work, command)

    def due_resumes(self, limit: int) -> list[ScheduleId]:
        """Read paused schedules whose time to resume has come."""
        with self._connections.read() as look:
            return reading.due_resumes(look, limit)

    def note_tzdata(self, release: str) -> bool:
        """Remember the newest release of time-zone rules; False if this one is older."""
        with self._connections.write() as work:
            return leases.note_tzdata(work, release)

    def prune(self, command: Prune) -> Pruned:
        """Remove history past its retention."""
        with self._connections.write() as work:
            return retention.prune(work, command)

    # Reading

    @contextmanager
    def _snapshot(self) -> Iterator[Snapshot]:
        with self._connections.read() as look:
            yield reading.SqliteReading(look)

    def follow_audit(self, command: AuditAfter) -> TrailPage:
        """Return entries after a number, oldest first: one writer commits after the other."""
        with self._connections.read() as look:
            return reading.follow_audit(look, command)

    def now(self) -> int:
        """Return the store's clock."""
        return self._connections.clock.now_us()

    # Sealing

    def seal_audit(self, command: SealAudit) -> Seal | None:
        """Chain what is settled of the audit trail with a hash; None when there is nothing."""
        with self._connections.write() as work:
            return sealing.seal_audit(work, command)

    def trail_marks(self) -> TrailMarks:
        """Return the highest numbers of entries and seals, as noted apart from them."""
        with self._connections.read() as look:
            return sealing.trail_marks(look)

    def list_seals(self, after: int, limit: int) -> list[Seal]:
        """Return seals of higher numbers, oldest first."""
        with self._connections.read() as look:
            return sealing.list_seals(look, after, limit)

    def read_trail(self, after: int, limit: int) -> list[AuditEntry]:
        """Return entries of higher numbers that are there, oldest first."""
        with self._connections.read() as look:
            return sealing.read_trail(look, after, limit)

    # Standing

    def order_worker(self, command: OrderWorker) -> Member:
        """Take a worker out of service, or back into it."""
        with self._connections.write() as work:
            return standing.order_worker(work, command)

    def list_quarantined_hosts(self) -> list[QuarantinedHost]:
        """Return hosts of which no worker claims anything."""
        with self._connections.read() as look:
            return standing.list_quarantined_hosts(look)

    # Moving

    @contextmanager
    def export_promises(self, *, has_history: bool) -> Iterator[Exported]:
        """Hand out all that is promised, as of one snapshot."""
        with self._connections.read_for_long() as look:
            yield moving.export_promises(look, has_history=has_history)

    def import_promises(self, command: ImportPromises) -> Imported:
        """Write all of an export, or nothing."""

        def carry_out() -> Imported:
            with self._connections.write() as work:
                return moving.SqliteImporting(work, command).carry_out()

        return tried(carry_out)

    # Schema

    def schema_status(self) -> SchemaStatus:
        """Say which migrations are applied and which are missing."""
        with self._connections.read(is_any_age=True) as look:
            known = self._connections.settings.migrations
            return schema.read_status(look.connection, known, self.name)

    def migrate(self, *, phase: str | None = None) -> list[Migration]:
        """Apply what is missing, in order, each in its own transaction."""
        with self._connections.raw() as connection:
            known, clock = self._connections.settings.migrations, self._connections.clock
            refuse_untimely(schema.read_status(connection, known, self.name), phase)
            return schema.apply_missing(connection, known, clock, phase)

    def check(self) -> list[IntegrityFinding]:
        """Look for damage, broken invariants and changed migrations."""
        with self._connections.read(is_any_age=True) as look:
            return soundness.check(look, self._connections.settings.migrations, self.name)


def _connections(path: Path | str, clock: Clock, settings: SqliteSettings) -> Connections:
    if str(path) == IN_MEMORY:
        return ConnectionInMemory(clock, settings)
    if not str(path):
        remedy = "name a file, or :memory: to keep nothing"
        raise UsageError("path", str(path), "is not a file", remedy)
    return Connections(Path(path), clock, settings)
