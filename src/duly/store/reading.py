"""The reading port: looking at promises, without ever changing one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duly.domain.attempts import AttemptRecord, LineRecord, ProgressRecord
    from duly.domain.audit import AuditEntry
    from duly.domain.identity import RunId, ScheduleId
    from duly.domain.literals import Origin, RunState, ScheduleStatus
    from duly.domain.run_times import RunSpan
    from duly.domain.runs import DelayedRecord, OccurrenceVerdict, RunRecord, SkipRecord
    from duly.domain.schedules import Definition, Owed, ScheduleRecord
    from duly.store.dispatch import LeaseRecord, Member

PAGE_MAX = 1000


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
    states: frozenset[RunState] | None = None
    origins: frozenset[Origin] | None = None
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
    paused_queues: tuple[str, ...] = ()


class ReadingStore(Protocol):
    """What anybody may look at."""

    def now(self) -> int:
        """Return the store's clock."""
        ...

    def get_schedule(self, schedule_id: ScheduleId) -> Seen | None:
        """Return a schedule, deleted or not."""
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

    def get_run(self, run_id: RunId) -> RunRecord | None:
        """Return a run."""
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

    def get_delayed(self, run_id: RunId) -> DelayedRecord | None:
        """Return a pending delayed run by its id."""
        ...

    def find_delayed(self, tenant: str, key: str) -> DelayedRecord | None:
        """Return the pending delayed run of a key."""
        ...

    def list_delayed(self, tenant: str, limit: int) -> list[DelayedRecord]:
        """Return pending delayed runs in order of due."""
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

    def list_owed(self, schedule_id: ScheduleId) -> list[Owed]:
        """Return the ranges a schedule still owes, oldest first."""
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
