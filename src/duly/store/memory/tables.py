"""The memory store's tables, and the journal that undoes what a failed operation has written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from duly.domain.audit import Actor, AuditEntry
from duly.domain.enums import Lane, Origin
from duly.domain.ids import RunId
from duly.domain.runs import AttemptCounts
from duly.store.ports.dispatch import (
    CatchUpRangeRecord,
    LeaseKey,
    LeaseRecord,
    Member,
    MemberKind,
    Timer,
    TimerKind,
)
from duly.store.ports.schedules import NEAR_US
from duly.store.rulings import delayed_timer, retry_timer, schedule_timer

if TYPE_CHECKING:
    from duly.domain.admission import Breaker, EndAtDestination
    from duly.domain.alerts import AlertId, AlertRecord, DeliveryId, DeliveryRecord
    from duly.domain.audit import AuditSubject, Seal
    from duly.domain.auth import TokenId, TokenRecord
    from duly.domain.effects import EffectRecord
    from duly.domain.enums import AttemptState, RunState
    from duly.domain.fire_planning import PlannedRun
    from duly.domain.ids import BackfillId, ScheduleId
    from duly.domain.limits import LimitRecord, LimitSource, RateState
    from duly.domain.quotas import Counted, Quota, QuotaKey
    from duly.domain.runs import (
        DelayedRecord,
        LateReport,
        LineRecord,
        Progress,
        ProgressRecord,
        SkipRecord,
        TaskPolicy,
    )
    from duly.domain.schedules import Call, Definition, ScheduleRecord
    from duly.store.access_rulings import AnswerRow
    from duly.store.memory.access import SessionRow
    from duly.store.memory.alerting import WatchRow
    from duly.store.ports.alerts import AlertSettingKind, AlertSettingRecord
    from duly.store.ports.auth import IdempotencyKey, StoredSelection
    from duly.store.ports.backfill import BackfillOccurrenceRecord, BackfillRecord
    from duly.store.ports.effects import TaskOrder, VerdictRecord
    from duly.store.ports.execution import ClaimRef
    from duly.store.ports.operations import QuarantinedHost
    from duly.store.retry_slots import ReservedSlots
    from duly.store.work_rulings import WorkerLease

K = TypeVar("K")
V = TypeVar("V")
_ABSENT: Any = object()
_UNTRIED = AttemptCounts()
OCCURRENCE_ORIGINS = frozenset((Origin.SCHEDULE, Origin.CATCH_UP, Origin.BACKFILL))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A run as it is written, once."""

    id: RunId
    tenant: str
    schedule_id: ScheduleId | None
    definition_number: int | None
    key: str | None
    call: Call | None
    """None for a run of a schedule: its definition has it."""
    origin: Origin
    lane: Lane
    root: RunId | None = None
    """The run that it repeats."""
    scheduled_for: int
    not_before: int
    window_from: int | None
    created_at: int
    fired_at: int | None


@dataclass(frozen=True, slots=True)
class Ready:
    """A run in its queue."""

    rank: int
    fired_at: int
    tries: AttemptCounts = AttemptCounts()  # noqa: RUF009 - an immutable value
    priority: int | None = None
    """Whither it was hurried, because one that is more urgent waits for it; None for its own."""


@dataclass(frozen=True, slots=True)
class Blocked:
    """A run that waits at a gate."""

    gate: str
    priority: int
    number: int
    since: int
    tries: AttemptCounts

    @property
    def place(self) -> tuple[int, int]:
        """Return where it stands: by priority, and then by when it came."""
        return (self.priority, self.number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A run in the hands of a worker, under the fence of its tries."""

    worker: int
    tries: AttemptCounts
    claimed_at: int
    deadline: int | None
    started_at: int | None = None
    progress: Progress | None = None
    progress_at: int | None = None
    cancel_asked_at: int | None = None
    replaced_by: RunId | None = None
    """For whom it is to make way, if that is why it was asked to stop."""
    effects_at: int | None = None
    """When it was first permitted to do what can't be taken back."""
    is_unsafe: bool | None = None
    """Whether that may not be repeated, by what its worker knew of its task."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A run that waits for another attempt."""

    due_at: int
    tries: AttemptCounts
    reason: str | None


@dataclass(frozen=True, slots=True)
class Dead:
    """A run among the dead letters."""

    reason: str
    at: int
    tries: AttemptCounts


class ScopeItem(NamedTuple):
    """An item of a run's scope."""

    is_expected: bool = False
    times: int = 0
    """How many attempts say that it is done."""
    by: ClaimRef | None = None
    at: int | None = None


@dataclass(frozen=True, slots=True)
class InDoubt:
    """A run of which nobody knows what it did."""

    reason: str
    at: int
    tries: AttemptCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A claim that has ended and did not close its run."""

    claim: Claim
    number: int | None
    state: AttemptState
    reason: str | None
    error: str | None
    ended_at: int
    late: LateReport | None = None


@dataclass(frozen=True, slots=True)
class PausedQueue:
    """A queue that hands out nothing."""

    at: int
    by: str
    reason: str | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a run; one for each, at most."""

    state: RunState
    reason: str | None
    finished_at: int
    tries: AttemptCounts = AttemptCounts()  # noqa: RUF009 - an immutable value
    claim: Claim | None = None
    """The claim that closed it; None if an order did."""
    error: str | None = None
    result: str | None = None
    late: LateReport | None = None
    into: RunId | None = None
    """The run that stands for it, if it was coalesced or replaced."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """The announcement of a timer that was written near its due."""

    kind: TimerKind
    ref: bytes
    at: int


@dataclass
class Tables:
    """Everything that is stored. Writes go through a journal."""

    shards: int
    schedules: dict[ScheduleId, ScheduleRecord] = field(default_factory=dict)
    definitions: dict[tuple[ScheduleId, int], Definition] = field(default_factory=dict)
    definition_times: dict[tuple[ScheduleId, int], int] = field(default_factory=dict)
    """When each of them was written."""
    names: dict[tuple[str, str], ScheduleId] = field(default_factory=dict)
    delayed: dict[RunId, DelayedRecord] = field(default_factory=dict)
    keys: dict[tuple[str, str], RunId] = field(default_factory=dict)
    runs: dict[RunId, RunRow] = field(default_factory=dict)
    ready: dict[RunId, Ready] = field(default_factory=dict)
    claims: dict[RunId, Claim] = field(default_factory=dict)
    waiting: dict[RunId, Waiting] = field(default_factory=dict)
    dead: dict[RunId, Dead] = field(default_factory=dict)
    blocked: dict[RunId, Blocked] = field(default_factory=dict)
    in_doubt: dict[RunId, InDoubt] = field(default_factory=dict)
    effects: dict[tuple[RunId, str], EffectRecord] = field(default_factory=dict)
    """By the first run of the line, and the key."""
    scopes: dict[RunId, int] = field(default_factory=dict)
    """How many items each line of runs expects."""
    scope_items: dict[tuple[RunId, str], ScopeItem] = field(default_factory=dict)
    verdicts: dict[tuple[RunId, int], VerdictRecord] = field(default_factory=dict)
    task_orders: dict[str, TaskOrder] = field(default_factory=dict)
    held_gates: dict[RunId, str] = field(default_factory=dict)
    """The gate that each open run has gone through and still holds, of those that had one."""
    limits: dict[tuple[str, LimitSource], LimitRecord] = field(default_factory=dict)
    held_places: dict[tuple[RunId, str], int] = field(default_factory=dict)
    """Places at limits, each with the fence under which its holder was admitted."""
    turns: dict[RunId, int] = field(default_factory=dict)
    """Turns at rates that were given to runs, which have not begun since."""
    paces: dict[str, RateState] = field(default_factory=dict)
    breakers: dict[str, tuple[Breaker, int]] = field(default_factory=dict)
    """By destination: what is known of it, and since when."""
    unbegun: dict[RunId, int] = field(default_factory=dict)
    """How many claims of a run were put off; they are on no other record."""
    backfills: dict[BackfillId, BackfillRecord] = field(default_factory=dict)
    backfill_slots: dict[tuple[BackfillId, int], BackfillOccurrenceRecord] = field(
        default_factory=dict
    )
    outcomes: dict[RunId, Outcome] = field(default_factory=dict)
    attempts: dict[tuple[RunId, int], Ended] = field(default_factory=dict)
    progress: dict[RunId, tuple[ProgressRecord, ...]] = field(default_factory=dict)
    lines: dict[RunId, tuple[LineRecord, ...]] = field(default_factory=dict)
    checkpoints: dict[tuple[RunId, str], str] = field(default_factory=dict)
    skips: dict[tuple[ScheduleId, int], SkipRecord] = field(default_factory=dict)
    owed: dict[tuple[ScheduleId, int], CatchUpRangeRecord] = field(default_factory=dict)
    members: dict[int, Member] = field(default_factory=dict)
    workers: dict[int, WorkerLease] = field(default_factory=dict)
    """Workers that are members no more."""
    wake_addresses: dict[int, str] = field(default_factory=dict)
    leases: dict[LeaseKey, LeaseRecord] = field(default_factory=dict)
    arrivals: dict[int, Arrival] = field(default_factory=dict)
    audit: dict[int, AuditEntry] = field(default_factory=dict)
    seals: dict[int, Seal] = field(default_factory=dict)
    tasks: dict[str, int] = field(default_factory=dict)
    policies: dict[str, TaskPolicy] = field(default_factory=dict)
    retry_slots: dict[str, tuple[ReservedSlots, ...]] = field(default_factory=dict)
    """By task: the slots of its retry budget that are taken, in order."""
    member_tasks: dict[int, frozenset[str]] = field(default_factory=dict)
    paused_queues: dict[str, PausedQueue] = field(default_factory=dict)
    quotas: dict[tuple[QuotaKey, Counted], Quota] = field(default_factory=dict)
    tokens: dict[TokenId, TokenRecord] = field(default_factory=dict)
    sessions: dict[bytes, SessionRow] = field(default_factory=dict)
    """By the hash of their secret, as codes."""
    codes: dict[bytes, int] = field(default_factory=dict)
    """Until when each of them can be spent."""
    answers: dict[IdempotencyKey, AnswerRow] = field(default_factory=dict)
    frozen: dict[bytes, StoredSelection] = field(default_factory=dict)
    quarantined_hosts: dict[str, QuarantinedHost] = field(default_factory=dict)
    watch: dict[int, WatchRow] = field(default_factory=dict)
    """One row, under 0."""
    alerts: dict[AlertId, AlertRecord] = field(default_factory=dict)
    alert_deliveries: dict[DeliveryId, DeliveryRecord] = field(default_factory=dict)
    alert_terms: dict[tuple[AlertSettingKind, str], AlertSettingRecord] = field(
        default_factory=dict
    )
    cluster: dict[str, Any] = field(default_factory=dict)

    # Numbers are taken and never given back, as a database's sequences are.
    member_number: int = 0
    arrival_number: int = 0
    gate_number: int = 0
    open_arrivals: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Begin with free leases."""
        self.cluster |= {"tzdata": "", "incarnation": 1, "limits_version": 0, "program_min": 1}
        for shard in range(self.shards):
            for lane in Lane:
                key = LeaseKey(shard, lane)
                self.leases[key] = LeaseRecord(key, 0, None, None)

    def timer(self, kind: TimerKind, ref: bytes) -> Timer | None:
        """Return what is pending for a schedule, a delayed run or a retry, if anything."""
        if kind == "schedule":
            record = self.schedules.get(ref)  # type: ignore[call-overload]
            return None if record is None else schedule_timer(record)
        run_id = RunId(ref)
        if kind == "retry":
            waiting = self.waiting.get(run_id)
            if waiting is None:
                return None
            return retry_timer(run_id, waiting.due_at, waiting.tries.fence, self.shards)
        delayed = self.delayed.get(run_id)
        return None if delayed is None else delayed_timer(delayed, self.shards)


class Journal:
    """One transaction: writes what it is told, remembers how to undo it, and knows the time."""

    def __init__(self, tables: Tables, now: int, reserved: list[int] | None = None) -> None:
        self.tables = tables
        self.now = now
        self.announced: list[int] = []
        self.wakes: set[MemberKind] = set()
        """Who is to be told once it is written."""
        self.freed: set[str] = set()
        """Gates that were given back, for whoever lets the next through."""
        self.answers: dict[str, list[EndAtDestination]] = {}
        """How attempts have ended, by destination, until all of them are taken in together."""
        self._reserved = reserved or []
        self._undo: list[tuple[dict[Any, Any], Any, Any]] = []

    def put(self, table: dict[K, V], key: K, value: V) -> None:
        """Insert or replace a row."""
        self._undo.append((table, key, table.get(key, _ABSENT)))
        table[key] = value

    def insert(self, table: dict[K, V], key: K, value: V) -> None:
        """Insert a row that must not be there."""
        assert key not in table, f"{key!r} is there already"
        self.put(table, key, value)

    def remove(self, table: dict[K, V], key: K) -> None:
        """Delete a row, if it is there."""
        if key in table:
            self._undo.append((table, key, table.pop(key)))

    def undo(self) -> None:
        """Put everything back as it was."""
        while self._undo:
            table, key, before = self._undo.pop()
            if before is _ABSENT:
                table.pop(key, None)
            else:
                table[key] = before

    def announce(self, kind: TimerKind, ref: bytes, due_at: int) -> None:
        """Put a timer on the arrivals feed, if it falls due soon."""
        if due_at - self.now > NEAR_US:
            return
        if self._reserved:
            number = self._reserved.pop(0)
        else:
            self.tables.arrival_number += 1
            number = self.tables.arrival_number
        self.announced.append(number)
        self.wakes.add(MemberKind.DISPATCHER)
        self.put(self.tables.arrivals, number, Arrival(kind, ref, self.now))

    def queue(self, run_id: RunId, rank: int, tries: AttemptCounts = _UNTRIED) -> None:
        """Put a run into its queue."""
        assert rank <= self.now, "never early"
        self.insert(self.tables.ready, run_id, Ready(rank, self.now, tries))
        self.wakes.add(MemberKind.WORKER)

    def record_about(self, actor: Actor, action: str, subject: AuditSubject) -> None:
        """Write an audit entry about a subject."""
        self.record(
            actor,
            action,
            subject.tenant,
            subject=subject.name,
            subject_id=subject.id,
            before=subject.before,
            after=subject.after,
        )

    def record(  # noqa: PLR0913 - the parts of an audit entry
        self,
        actor: Actor,
        action: str,
        tenant: str,
        *,
        subject: str,
        subject_id: bytes | None = None,
        before: dict[str, Any] | None = None,
        after: dict[str, Any] | None = None,
    ) -> None:
        """Write an audit entry, in this transaction."""
        number = len(self.tables.audit) + 1
        entry = AuditEntry(
            number=number,
            at=self.now,
            actor=actor,
            action=action,
            tenant=tenant,
            subject=subject,
            subject_id=subject_id,
            before=before,
            after=after,
        )
        self.insert(self.tables.audit, number, entry)

    def make_run(
        self, record: ScheduleRecord, number: int, planned: PlannedRun, *, is_going: bool
    ) -> None:
        """Make the run of an occurrence; queue it if it goes on, and does not wait at a gate."""
        tables = self.tables
        assert planned.not_before <= self.now, "never early"
        assert planned.scheduled_for <= planned.not_before, "jitter only delays"
        row = RunRow(
            id=planned.run_id,
            tenant=record.tenant,
            schedule_id=record.id,
            definition_number=number,
            key=None,
            call=None,
            origin=planned.origin,
            lane=planned.lane,
            scheduled_for=planned.scheduled_for,
            not_before=planned.not_before,
            window_from=self.ran_before(record, planned.scheduled_for),
            created_at=self.now,
            fired_at=self.now,
        )
        self.insert(tables.runs, row.id, row)
        if is_going:
            self.queue(row.id, row.not_before)

    def ran_before(self, record: ScheduleRecord, scheduled_for: int) -> int | None:
        """Return the last occurrence before one that was run."""
        if record.last_for is None or record.last_for < scheduled_for:
            return record.last_for
        earlier = [
            row.scheduled_for
            for row in self.tables.runs.values()
            if row.schedule_id == record.id
            and row.origin in OCCURRENCE_ORIGINS
            and row.scheduled_for < scheduled_for
        ]
        return max(earlier, default=None)
