"""Reads: single records, lists with filters, many at once, bounded search.

A search uses the index that narrows it most, newest first, and reads at most `LOOKED_AT_MAX` rows
of it. So a page may be shorter than asked, and even empty, while there is more: the caller
continues from `next`. When `next` is None, everything has been searched.

`SurveyStore` answers for many records what the question about one returns, all from one snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from duly.domain.verification import Scope

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duly.domain.audit import AuditEntry
    from duly.domain.effects import EffectRecord
    from duly.domain.enums import AttemptState, Lane, Origin, RunState, ScheduleStatus
    from duly.domain.ids import RunId, ScheduleId
    from duly.domain.runs import (
        AttemptRecord,
        DelayedRecord,
        LineRecord,
        OccurrenceStatus,
        ProgressRecord,
        RunRecord,
        SkipRecord,
    )
    from duly.domain.schedules import CatchUpRange, Definition, ScheduleRecord
    from duly.domain.vitals import DefinitionRecord, LastEnds, RunSpan, RunVital, VitalsFilter
    from duly.store.ports.dispatch import LeaseRecord, Member, MemberId
    from duly.store.ports.effects import VerdictRecord


PAGE_MAX = 1000
DelayedPlace = tuple[int, bytes]
"""Where a pending run stands in the order of due: its instant and its id."""
FIRST_DELAYED: DelayedPlace = (-(1 << 63), bytes(16))
"""Before all of them."""


@dataclass(frozen=True, slots=True)
class ScheduleSnapshot:
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
    """Zero for ever."""
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

    def get_schedule(
        self, schedule_id: ScheduleId, tenant: str | None = None
    ) -> ScheduleSnapshot | None:
        """Return a schedule, deleted or not; with a tenant, only if it is theirs.

        As with runs below, what is another's costs what is not there costs: nobody learns by the
        time of an answer that there is something.
        """
        ...

    def find_schedule(self, tenant: str, name: str) -> ScheduleSnapshot | None:
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
        worker has not been heard of for three fifths of its lease, or the lease has run out;
        STALLED when it has not advanced within its task's limit. These two are derived, not stored.
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
        """Return from when to when the newest `limit` runs of each were open, newest first.

        Of those that were started, and those that are open; neither dead ones nor what was closed
        before anybody started it. Who has none is left out.
        """
        ...

    def list_last_ends(
        self, schedule_ids: Sequence[ScheduleId], limit: int, *, with_errors: bool = True
    ) -> dict[ScheduleId, LastEnds]:
        """Return how the newest `limit` runs of each ended: last success, check and error.

        Of each sort the newest run by its id. An error is an attempt that failed, timed out or was
        lost, also where a later one made it good, or the end of a run that failed; a success counts
        as verified when the last that was found of it is PRESENT. Schedules without runs are there,
        too; unknown ones are left out. Errors are most of what it costs: without them there is
        none, whatever is on record.
        """
        ...

    def list_run_vitals(self, command: VitalsFilter) -> list[RunVital]:
        """Return what is known of runs, each by its id and none twice, newest first.

        A fault is that of the last attempt that failed, timed out or was lost, also where a later
        one made it good, or the end of a run that failed. Runs that are not there are left out.
        """
        ...

    def list_owed(self, schedule_id: ScheduleId, limit: int = PAGE_MAX) -> list[CatchUpRange]:
        """Return the ranges a schedule still owes, oldest first; of more, the oldest."""
        ...

    def judge(self, schedule_id: ScheduleId, instants: Sequence[int]) -> list[OccurrenceStatus]:
        """Say what is known about each expected occurrence: one verdict for each."""
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
        """Count what is one tenant's, and nothing of anybody else's.

        Of schedules and delayed runs at most ten thousand: the cost has a bound.
        """
        ...

    def count_tenants(self) -> Mapping[str, OpenCounts]:
        """Count open runs by tenant, of those that have any: it is an operator's to see.

        Of each place at most a thousand runs are looked at: the cost has a bound.
        """
        ...


LOOKED_AT_MAX = 2_000
"""How many rows of an index one page looks at: some ten milliseconds."""
TEXTS_MAX = 500
"""How many of them when errors are searched: each is a long text, which has to be read."""
GATHERED_MAX = 10_000
"""How many ids that are in no order are put into one, rather than walk all runs: a queue's, those
of a key, those of strays in a span of time."""
CLOCK_BACK_MAX_US = 3_600_000_000
"""How far the store's clock may have been set back without the audit trail's order by number
leaving the order by time behind."""


class Bounds(NamedTuple):
    """How much one page may cost."""

    looked_at: int = LOOKED_AT_MAX
    texts: int = TEXTS_MAX
    gathered: int = GATHERED_MAX


BOUNDS = Bounds()


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFilter:
    """Which attempts: those of the newest runs first, and of a run the last first."""

    tenant: str
    worker: int | None = None
    states: frozenset[AttemptState] | None = None
    reason: str | None = None
    error: str | None = None
    """A text that its error holds; upper and lower case differ."""
    before: tuple[RunId, int] | None = None
    """Page on from here: run and fence of the last one seen."""
    limit: int = PAGE_MAX


@dataclass(frozen=True, slots=True)
class RunPage:
    """Runs that were found, and before which id to go on."""

    records: list[RunRecord]
    next: RunId | None


@dataclass(frozen=True, slots=True)
class AttemptPage:
    """Attempts that were found, and before which run and fence to go on."""

    records: list[AttemptRecord]
    next: tuple[RunId, int] | None


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Audit entries that were found, and before which number to go on."""

    entries: list[AuditEntry]
    next: int | None


def attempt_matches(attempt: AttemptRecord, command: AttemptFilter) -> bool:
    """Say whether an attempt is one of those that are looked for, but for its tenant."""
    is_before = command.before is None or (attempt.run_id, attempt.fence) < command.before
    return (
        is_before
        and command.worker in (None, attempt.worker)
        and command.reason in (None, attempt.reason)
        and (command.states is None or attempt.state in command.states)
        and (
            command.error is None or (attempt.error is not None and command.error in attempt.error)
        )
    )


class SearchStore(Protocol):
    """What anybody may look for."""

    def search_runs(self, command: RunFilter) -> RunPage:
        """Return a page of runs, newest first by id.

        Runs that are made meanwhile may be missed if their id is newer than where a page ended;
        one that is there all the time is found once, unless it changes what it is looked for by.
        """
        ...

    def search_attempts(self, command: AttemptFilter) -> AttemptPage:
        """Return a page of attempts, alive and ended, by run and fence, newest first."""
        ...

    def search_audit(self, command: AuditFilter) -> AuditPage:
        """Return a page of audit entries, newest first by number."""
        ...


EFFECTS_MAX = 1_000
"""So many effects of each run are read as evidence."""


class OccurrenceStatuses(NamedTuple):
    """A schedule, and the occurrences of it that are asked about."""

    schedule_id: ScheduleId
    instants: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is on record about a run that is in doubt."""

    attempt: AttemptRecord | None = None
    """The last claim of it."""
    effects: tuple[EffectRecord, ...] = ()
    """The ledger of its line, in the order in which they were first begun."""
    verdicts: tuple[VerdictRecord, ...] = ()
    """What was found about it, oldest first."""
    has_checkpoint: bool = False


class Findings(NamedTuple):
    """What is on record about what a run brought about."""

    verdicts: tuple[VerdictRecord, ...] = ()
    """Of its checks, oldest first."""
    scope: Scope = Scope()


class SurveyStore(Protocol):
    """What anybody may look at, many at once."""

    def judge_many(self, asked: Sequence[OccurrenceStatuses]) -> list[list[OccurrenceStatus]]:
        """Say what `judge` says of each, in the order in which they were asked about."""
        ...

    def get_schedules(self, ids: Sequence[ScheduleId]) -> dict[ScheduleId, ScheduleRecord]:
        """Return those schedules that there are, deleted or not."""
        ...

    def get_runs(self, run_ids: Sequence[RunId]) -> dict[RunId, RunRecord]:
        """Return those runs that there are."""
        ...

    def list_many_definitions(
        self, ids: Sequence[ScheduleId], limit: int
    ) -> dict[ScheduleId, list[DefinitionRecord]]:
        """Return the newest `limit` versions of each one's template, newest first.

        Who has none is left out.
        """
        ...

    def list_newest_runs(
        self, ids: Sequence[ScheduleId], limit: int
    ) -> dict[ScheduleId, list[RunRecord]]:
        """Return the newest `limit` runs of each schedule, newest first by id.

        Who has none is left out.
        """
        ...

    def read_evidence(self, run_ids: Sequence[RunId]) -> dict[RunId, Evidence]:
        """Return what is on record about each run, as the questions about one would.

        Of a run that is not there nothing is on record.
        """
        ...

    def read_findings(self, run_ids: Sequence[RunId]) -> dict[RunId, Findings]:
        """Return of each run what `list_verdicts` and `get_scope` would."""
        ...
