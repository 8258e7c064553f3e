"""The PostgreSQL store as one object: opens what an order needs, and hands the order on."""

from __future__ import annotations

from contextlib import contextmanager
from copy import copy
from typing import TYPE_CHECKING, Self

from duly.clock import SystemClock
from duly.errors import UsageError
from duly.store.caller_transactions import not_lent
from duly.store.importing import tried
from duly.store.migrating import compare, refuse_untimely
from duly.store.ports.auth import KeepsTenants
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
    MemberKind,
    Renew,
    Renewal,
    Wakeups,
)
from duly.store.postgres import (
    crowds,
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
    rotation,
    schema,
    sealing,
    soundness,
    standing,
)
from duly.store.postgres.access import PostgresAccess
from duly.store.postgres.access_grants import (
    grant_statements,
    revoke_statements,
    roles_with_less,
)
from duly.store.postgres.alerting import PostgresAlerting
from duly.store.postgres.arrays import Texts
from duly.store.postgres.bell import PostgresWakeups
from duly.store.postgres.circles import beyond_circles
from duly.store.postgres.connection import (
    BEGIN_MIGRATION,
    Connections,
    PostgresSettings,
    transaction,
)
from duly.store.postgres.joining import JoinedConnections
from duly.store.postgres.schema import READ_NOW
from duly.store.postgres.session import one
from duly.store.postgres.surveys import PostgresSurveys
from duly.store.postgres.tenant_connections import TenantConnections
from duly.store.postgres.trailing import Trail, read_entries
from duly.store.postgres.transaction import PostgresTransaction, lent
from duly.store.postgres.working import PostgresWorking
from duly.store.snapshots import ReadsBySnapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from duly.clock import Clock
    from duly.domain.audit import AuditEntry, Seal
    from duly.domain.ids import ScheduleId
    from duly.domain.runs import DelayedRecord, RunRecord
    from duly.domain.schedules import Definition, ScheduleRecord
    from duly.store.ports.audit import AuditAfter, SealAudit, TrailMarks, TrailPage
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
    from duly.store.postgres.session import BoundedConnection, Session
    from duly.store.postgres.work import Look, Work
    from duly.store.snapshots import Snapshot

SHARDS_DEFAULT = 32
SHARDS_MAX = 4096
INSERT_TASKS = (
    "INSERT INTO duly.tasks (name) SELECT pg_catalog.unnest($1::text[]) ON CONFLICT DO NOTHING"
)


class PostgresStore(
    PostgresWorking,
    PostgresAccess,
    PostgresAlerting,
    PostgresSurveys,
    ReadsBySnapshot,
    KeepsTenants,
):
    """Promises in one database; for several threads, processes and hosts.

    Nothing is opened before the first operation; a database without our schema gets it then.
    """

    def __init__(
        self,
        url: str,
        clock: Clock | None = None,
        *,
        shards: int = SHARDS_DEFAULT,
        settings: PostgresSettings | None = None,
    ) -> None:
        """Name a database; `shards` counts only when its schema is made, and never changes after.

        The clock measures how long things take: what time it is, the database says.
        """
        if not 1 <= shards <= SHARDS_MAX:
            remedy = f"give a number from 1 to {SHARDS_MAX}"
            raise UsageError("shards", shards, "is not a number of shards", remedy)
        self._connections = Connections(
            url, clock or SystemClock(), settings or PostgresSettings(), shards
        )
        self._trail = Trail()
        self.name = self._connections.name

    def interrupt(self) -> None:
        """Break off what others read; the program is about to end."""
        self._connections.interrupt()

    def close(self) -> None:
        """Let go of the connections; whatever was committed stays."""
        self._connections.close()

    def within(self, tenant: str) -> Self:
        """Return this store for one tenant; the same, where the server keeps nobody apart."""
        connections = self._connections
        if connections.is_callers or (connections.is_ready and not connections.keeps_tenants):
            return self
        other = copy(self)
        other._connections = TenantConnections(connections, tenant)  # noqa: SLF001 - a copy of us
        return other

    @property
    def is_held(self) -> bool:
        """Whether our role sees one tenant's at a time."""
        if not self._connections.is_ready:
            with self._connections.statement():
                pass  # now it is known
        return self._connections.keeps_tenants

    def grant_access(self, role: str, *, is_undone: bool, is_dry: bool) -> list[str]:
        """Give a role a server's rights, held to one tenant at a time, or take them back."""
        with self._connections.migrating() as (connection, session):
            self._connections.get_ready(connection)
            parts = (revoke_statements if is_undone else grant_statements)(session, role)
            if not is_dry:
                _run_each(connection, session, parts)
        return [statement for part in parts for statement in part]

    @contextmanager
    def _dispatching(self) -> Iterator[Session]:
        with self._connections.statement(for_dispatch=True) as session:
            yield session

    def _dispatch_look(self) -> AbstractContextManager[Look]:
        return self._connections.read(for_dispatch=True)

    def _dispatch_work(self) -> AbstractContextManager[Work]:
        return self._connections.write(for_dispatch=True)

    # Planning

    def joined(self, within: object) -> Self:
        """Return this store as part of a transaction that it has lent, or of the caller's own."""
        other, joined = copy(self), JoinedConnections(self._connections, within)
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
        if self._connections.is_callers:
            return self._add_runs(command)
        with self._connections.statement() as session:
            plain = delayed.add_plain(session, command, self._connections.shards)
        if plain is not None:
            self._connections.ring_for(plain)
            return plain.added
        return beyond_circles(lambda: self._add_runs(command))

    def _add_runs(self, command: AddRuns) -> list[AddedRun]:
        with self._connections.write() as work:
            return delayed.add_runs(work, command)

    def move_delayed(self, command: MoveDelayed) -> DelayedRecord:
        """Move a pending run to another instant."""

        def move() -> DelayedRecord:
            with self._connections.write() as work:
                return delayed.move_delayed(work, command)

        return beyond_circles(move)

    def cancel_delayed(self, command: CancelDelayed) -> RunRecord:
        """Cancel a pending run; one that is already cancelled stays so."""

        def cancel() -> RunRecord:
            with self._connections.write() as work:
                return delayed.cancel_delayed(work, command)

        return beyond_circles(cancel)

    def register_tasks(self, names: Sequence[str]) -> None:
        """Remember which tasks programs know; write only what is new."""
        new = set(names).difference(self.list_tasks())
        if new:
            with self._connections.statement() as session:
                session.run(INSERT_TASKS, (Texts(sorted(new)),))

    def transaction(self, limit_us: int) -> AbstractContextManager[Transaction]:
        """Lend a connection: all that is done with it commits together, or not at all."""
        return lent(self._connections, limit_us)

    def finish_within(self, within: object, worker: MemberId, finish: FinishAttempt) -> None:
        """End an attempt as the last word of a transaction that was lent."""
        if not isinstance(within, PostgresTransaction):
            raise not_lent(within)
        with within.last_operation(self._connections) as work:
            finishing.finish_within(work, self.name, worker, finish)

    # Dispatch

    def wakeups(self, kind: MemberKind = MemberKind.DISPATCHER) -> Wakeups:
        """Return a new place to wait at, which hears the bell of every process."""
        return PostgresWakeups(self._connections, kind)

    def join(self, command: Join) -> tuple[MemberId, int]:
        """Register a member under a fresh id; return it with the store's now."""
        if command.kind is MemberKind.WORKER:
            self._connections.offers.expect(command.slots, command.ahead, command.queues)
        with self._dispatching() as session:
            member, now = leases.join(session, command)
        at_once = self._connections.settings.fire_connections
        self._connections.plans_ahead.begin(crowds.asked_of(command, at_once))
        return member, now

    def renew(self, command: Renew) -> Renewal:
        """Extend a membership that still holds."""
        with self._dispatching() as session:
            renewal, program_min = leases.renew(session, command)
            self._connections.refuse_newer(session, program_min)
            if renewal.is_alive:
                self._connections.bell.look_ahead(session)
        self._connections.plans_ahead.refresh()
        return renewal

    def leave(self, member: MemberId) -> None:
        """End a membership and give up its leases."""
        with self._dispatch_work() as work:
            leases.leave(work, member)

    def acquire_leases(self, member: MemberId, wanted: Sequence[LeaseKey]) -> list[Lease]:
        """Take those leases that nobody alive owns."""
        with self._dispatch_work() as work:
            return leases.acquire_leases(work, member, wanted)

    def release_leases(self, fence: Fence) -> None:
        """Give up leases that are still ours."""
        with self._dispatch_work() as work:
            leases.release_leases(work, fence)

    def load_timers(self, command: LoadTimers) -> LoadedTimers:
        """Read timers in order of due."""
        with self._dispatching() as session:
            return loading.load_timers(session, command)

    def start_of_arrivals(self) -> ArrivalsCursor:
        """Return a cursor at the present end of the arrivals feed."""
        with self._dispatching() as session:
            return loading.start_of_arrivals(session)

    def read_arrivals(self, cursor: ArrivalsCursor, shards: Sequence[int]) -> Arrivals:
        """Read timers announced since the cursor, as they are now."""
        with self._dispatching() as session:
            return loading.read_arrivals(session, cursor, shards)

    def read_definitions(
        self, keys: Sequence[tuple[ScheduleId, int]]
    ) -> Mapping[tuple[ScheduleId, int], Definition]:
        """Read definitions by schedule and number."""
        with self._dispatching() as session:
            return loading.read_definitions(session, keys)

    def fire_timers(self, command: FireTimers) -> Fired:
        """Make the runs, queue them, advance the timers: each in one transaction."""
        return firing.fire_timers(self._connections, command)

    def begin_fire(self, command: FireTimers) -> Callable[[], Fired] | None:
        """Begin to fire a crowd, of which workers next door do a part."""
        return firing.begin_fire(self._connections, command)

    def open_gates(self, limit: int) -> int:
        """Let through who waits at gates that nobody holds."""
        return gates.open_gates(self._connections, limit)

    def load_owed(
        self, shards: Sequence[int], limit: int, after: CatchUpRangeRecord | None = None
    ) -> list[CatchUpRangeRecord]:
        """Read ranges of schedules that still run, oldest first."""
        with self._dispatch_look() as look:
            return owed.load_owed(look, shards, limit, after)

    def drain_owed(self, command: DrainOwed) -> FireResult:
        """Apply a settlement of a range under the catch-up lease."""
        with self._dispatch_work() as work:
            return owed.drain_owed(work, command)

    def due_resumes(self, limit: int) -> list[ScheduleId]:
        """Read paused schedules whose time to resume has come."""
        with self._dispatch_look() as look:
            return reading.due_resumes(look, limit)

    def note_tzdata(self, release: str) -> bool:
        """Remember the newest release of time-zone rules; False if this one is older."""
        with self._dispatching() as session:
            return leases.note_tzdata(session, release)

    def prune(self, command: Prune) -> Pruned:
        """Remove history past its retention."""
        with self._dispatch_work() as work:
            pruned = retention.prune(work, command)
        return rotation.rotate(self._connections, command, pruned)

    # Reading

    @contextmanager
    def _snapshot(self) -> Iterator[Snapshot]:
        with self._connections.read() as look:
            yield reading.PostgresReading(look, is_held=self._connections.keeps_tenants)

    def follow_audit(self, command: AuditAfter) -> TrailPage:
        """Return entries after a number, oldest first, without ever leaving one out."""
        return self._trail.follow(self._connections, command)

    def now(self) -> int:
        """Return the store's clock."""
        with self._connections.statement() as session:
            return int(one(session, READ_NOW)[0])

    # Sealing

    def seal_audit(self, command: SealAudit) -> Seal | None:
        """Chain what is settled of the audit trail with a hash; None when there is nothing."""
        return sealing.seal_audit(self._connections, self._trail, command)

    def trail_marks(self) -> TrailMarks:
        """Return the highest numbers of entries and seals, as noted apart from them."""
        return sealing.trail_marks(self._connections)

    def list_seals(self, after: int, limit: int) -> list[Seal]:
        """Return seals of higher numbers, oldest first."""
        return sealing.list_seals(self._connections, after, limit)

    def read_trail(self, after: int, limit: int) -> list[AuditEntry]:
        """Return entries of higher numbers that are there, oldest first."""
        return read_entries(self._connections, after, limit)

    # Standing

    def order_worker(self, command: OrderWorker) -> Member:
        """Take a worker out of service, or back into it."""
        with self._connections.write() as work:
            return standing.order_worker(work, command)

    def list_quarantined_hosts(self) -> list[QuarantinedHost]:
        """Return hosts of which no worker claims anything."""
        with self._connections.statement() as session:
            return standing.list_quarantined_hosts(session)

    # Moving

    def export_promises(self, *, has_history: bool) -> AbstractContextManager[Exported]:
        """Hand out all that is promised, as of one snapshot."""
        return moving.export_promises(self._connections, has_history=has_history)

    def import_promises(self, command: ImportPromises) -> Imported:
        """Write all of an export, or nothing."""

        def carry_out() -> Imported:
            with self._connections.write() as work:
                return moving.import_promises(work, command)

        return tried(carry_out)

    # Schema

    def schema_status(self) -> SchemaStatus:
        """Say which migrations are applied and which are missing; this makes no schema."""
        with self._connections.read(is_any_age=True) as look:
            known = self._connections.settings.migrations
            return compare(known, schema.read_applied(look.session), self.name)

    def migrate(self, *, phase: str | None = None) -> list[Migration]:
        """Apply what is missing, in order, each in its own transaction.

        Roles that an older program has granted access are granted it again.
        """
        known = self._connections.settings.migrations
        with self._connections.migrating() as (connection, session):
            with transaction(connection, BEGIN_MIGRATION):
                done = schema.create(session, known, self._connections.shards)
            refuse_untimely(compare(known, schema.read_applied(session), self.name), phase)
            for migration in known:
                if phase in (None, migration.phase):
                    with transaction(connection, BEGIN_MIGRATION):
                        applied = schema.apply(session, migration)
                    done += [] if applied is None else [applied]
            for role in roles_with_less(session):
                _run_each(connection, session, grant_statements(session, role))
            return done

    def check(self) -> list[IntegrityFinding]:
        """Look for broken invariants and changed migrations."""
        with self._connections.checking() as look:
            return soundness.check(look, self._connections.settings.migrations, self.name)


def _run_each(
    connection: BoundedConnection, session: Session, parts: Sequence[Sequence[str]]
) -> None:
    """Run some statements, each part in its own transaction."""
    for part in parts:
        with transaction(connection, BEGIN_MIGRATION):
            for statement in part:
                session.run(statement)
