"""The reading port: looking at promises, without ever changing one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duly.domain.attempts import AttemptRecord, LineRecord, ProgressRecord
    from duly.domain.audit import AuditEntry
    from duly.domain.identity import RunId, ScheduleId
    from duly.domain.last_ends import LastEnds
    from duly.domain.literals import Lane, Origin, RunState, ScheduleStatus
    from duly.domain.run_times import RunSpan
    from duly.domain.run_vitals import DefinitionRecord, RunVital, VitalsFilter
    from duly.domain.runs import DelayedRecord, OccurrenceVerdict, RunRecord, SkipRecord
    from duly.domain.schedules import Definition, Owed, ScheduleRecord
    from duly.store.dispatch import LeaseRecord, Member, MemberId

PAGE_MAX = 1000
DelayedPlace = tuple[int, bytes]
"""Where a pending run stands in the order of due: its instant and its id."""
FIRST_DELAYED: DelayedPlace = (-(1 << 63), bytes(16))
"""Before all of them."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A schedule and the store's now, read together: what a decision is based on."""

    record: ScheduleRecord
    now: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleFilter:
    """Which schedules; deleted ones only when asked for. In order of (tenant, name, id)."""

    tenant: str | None
    """None for all tenants, for the system's own walks."""
    statuses: frozenset[ScheduleStatus] | None = None
    task: str | None = None
    owner: str | None = None
    declared_by: str | None = None
    name_prefix: str | None = None
    names: frozenset[str] | None = None
    """Those of exactly these names."""
    after: tuple[str, str, ScheduleId] | None = None
    """Page on from here: tenant, name and id of the last one seen."""
    limit: int = PAGE_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """Which runs, newest first by id."""

    tenant: str
    schedule_id: ScheduleId | None = None
    key: str | None = None
    task: str | None = None
    queue: str | None = None
    reason: str | None = None
    """Why it is dead, or ended as it did."""
    error: str | None = None
    """A text that its last error holds; upper and lower case differ."""
    states: frozenset[RunState] | None = None
    origins: frozenset[Origin] | None = None
    lane: Lane | None = None
    root: RunId | None = None
    """The run that it repeats; of a run that repeats none, itself."""
    worker: int | None = None
    """Who holds it, or has closed it."""
    since: int | None = None
    """Scheduled for this instant or later."""
    until: int | None = None
    """Scheduled before this instant."""
    before_id: RunId | None = None
    limit: int = PAGE_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Which audit entries, newest first."""

    tenant: str | None = None
    subject_id: bytes | None = None
    subject: str | None = None
    action: str | None = None
    actor: str | None = None
    since: int | None = None
    """Recorded at this instant or later."""
    until: int | None = None
    """Recorded before this instant."""
    before_number: int | None = None
    limit: int = PAGE_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStatus:
    """The state of a store on one screen."""

    now: int
    schedules: Mapping[ScheduleStatus, int]
    delayed: int
    queued: int
    owed: int
    overdue: int
    """Timers that are due and have not fired."""
    oldest_due_at: int | None
    next_due_at: int | None
    early_fires: int
    """Zero for ever (F1)."""
    members: tuple[Member, ...]
    leases: tuple[LeaseRecord, ...]
    shards: int
    tzdata: str
    incarnation: int
    queues: Mapping[str, int]
    running: int = 0
    retrying: int = 0
    dead: int = 0
    ambiguous: int = 0
    """Runs in doubt, which wait for a person."""
    paused_queues: tuple[str, ...] = ()


class OpenCounts(NamedTuple):
    """How many open runs there are, by place."""

    queued: int = 0
    running: int = 0
    retrying: int = 0
    dead: int = 0
    ambiguous: int = 0


class OwnQueue(NamedTuple):
    """How much of one tenant's is in a queue."""

    queued: int
    oldest_at: int | None
    """When the one that waits longest was queued."""
    running: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantCounts:
    """What of a store's state is one tenant's."""

    schedules: Mapping[ScheduleStatus, int]
    delayed: int
    owed: int
    overdue: int
    oldest_due_at: int | None
    next_due_at: int | None
    retrying: int
    dead: int
    ambiguous: int
    queues: Mapping[str, OwnQueue]
    """By name, those that hold something of it."""
    held: Mapping[MemberId, int]
    """How many of its runs each worker has."""


class ReadingStore(Protocol):
    """What anybody may look at."""

    def now(self) -> int:
        """Return the store's clock."""
        ...

    def get_schedule(self, schedule_id: ScheduleId, tenant: str | None = None) -> Seen | None:
        """Return a schedule, deleted or not; with a tenant, only if it is theirs.

        As with runs below, what is another's costs what is not there costs: nobody learns by the
        time of an answer that there is something.
        """
        ...

    def find_schedule(self, tenant: str, name: str) -> Seen | None:
        """Return the schedule of a name; of deleted ones the last, and only if no other has it."""
        ...

    def list_schedules(self, command: ScheduleFilter) -> list[ScheduleRecord]:
        """Return schedules in order of name."""
        ...

    def get_definition(self, schedule_id: ScheduleId, number: int) -> Definition | None:
        """Return one version of a schedule's template."""
        ...

    def get_definitions(
        self, keys: Sequence[tuple[ScheduleId, int]]
    ) -> dict[tuple[ScheduleId, int], Definition]:
        """Return those versions of templates that there are, by schedule and number."""
        ...

    def list_definitions(self, schedule_id: ScheduleId, limit: int) -> list[DefinitionRecord]:
        """Return the newest versions of a schedule's template, newest first."""
        ...

    def get_run(self, run_id: RunId, tenant: str | None = None) -> RunRecord | None:
        """Return a run; with a tenant, only if it is theirs."""
        ...

    def list_runs(self, command: RunFilter) -> list[RunRecord]:
        """Return runs, newest first."""
        ...

    def list_attempts(self, run_id: RunId, limit: int = PAGE_MAX) -> list[AttemptRecord]:
        """Return the claims of a run by their fence: those that ended, and the one that lives.

        The last `limit` of them: a run that snoozes for months has more than anybody reads.
        Of a live one: CLAIMED until its start is known, then RUNNING; HEARTBEAT_STALE when its
        worker's lease has run out, STALLED when it has not advanced within its task's limit.
        """
        ...

    def list_progress(self, run_id: RunId, limit: int) -> list[ProgressRecord]:
        """Return the steps of a run's progress, oldest first."""
        ...

    def list_lines(self, run_id: RunId, after: int, limit: int) -> list[LineRecord]:
        """Return lines that a run's attempts wrote, with a number above `after`, in order."""
        ...

    def get_delayed(self, run_id: RunId, tenant: str | None = None) -> DelayedRecord | None:
        """Return a pending delayed run by its id; with a tenant, only if it is theirs."""
        ...

    def find_delayed(self, tenant: str, key: str) -> DelayedRecord | None:
        """Return the pending delayed run of a key."""
        ...

    def list_delayed(
        self, tenant: str, limit: int, after: DelayedPlace = FIRST_DELAYED
    ) -> list[DelayedRecord]:
        """Return pending delayed runs in order of due and id, from the one after a place on."""
        ...

    def list_skips(self, schedule_id: ScheduleId, limit: int) -> list[SkipRecord]:
        """Return what was skipped, newest first."""
        ...

    def list_run_times(
        self, schedule_ids: Sequence[ScheduleId], limit: int
    ) -> dict[ScheduleId, list[RunSpan]]:
        """Return from when to when the newest `limit` runs of each were open, newest first (O2).

        Of those that were started, and those that are open; neither dead ones nor what was closed
        before anybody started it. Who has none is left out.
        """
        ...

    def list_last_ends(
        self, schedule_ids: Sequence[ScheduleId], limit: int, *, with_errors: bool = True
    ) -> dict[ScheduleId, LastEnds]:
        """Return how the newest `limit` runs of each ended: last success, check and error (V1).

        Of each sort the newest run by its id. An error is an attempt that failed, timed out or was
        lost, also where a later one made it good, or the end of a run that failed; a success counts
        as verified when the last that was found of it is PRESENT. Schedules without runs are there,
        too; unknown ones are left out. Errors are most of what it costs: without them there is
        none, whatever is on record.
        """
        ...

    def list_run_vitals(self, command: VitalsFilter) -> list[RunVital]:
        """Return what is known of runs, each by its id and none twice, newest first (V1).

        A fault is that of the last attempt that failed, timed out or was lost, also where a later
        one made it good, or the end of a run that failed. Runs that are not there are left out.
        """
        ...

    def list_owed(self, schedule_id: ScheduleId, limit: int = PAGE_MAX) -> list[Owed]:
        """Return the ranges a schedule still owes, oldest first; of more, the oldest."""
        ...

    def judge(self, schedule_id: ScheduleId, instants: Sequence[int]) -> list[OccurrenceVerdict]:
        """Say what is known about each expected occurrence: one verdict for each (M1, D6)."""
        ...

    def list_audit(self, command: AuditFilter) -> list[AuditEntry]:
        """Return audit entries, newest first."""
        ...

    def list_tasks(self) -> list[str]:
        """Return the names of tasks that programs have registered, sorted."""
        ...

    def status(self) -> StoreStatus:
        """Return the state of the store; the cost grows with what is due, not what is pending."""
        ...

    def count_tenant(self, tenant: str) -> TenantCounts:
        """Count what is one tenant's, and nothing of anybody else's (L2).

        Of schedules and delayed runs at most ten thousand: the cost has a bound.
        """
        ...

    def count_tenants(self) -> Mapping[str, OpenCounts]:
        """Count open runs by tenant, of those that have any: it is an operator's to see.

        Of each place at most a thousand runs are looked at: the cost has a bound.
        """
        ...
