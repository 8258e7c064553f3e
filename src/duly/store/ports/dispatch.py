"""Members, leases, timers, firing, catch-up: what dispatchers do.

Every write of a dispatcher carries its membership and the epochs of its leases. The store refuses a
stale owner in the same transaction, judges lateness and earliness by its own clock, and compares
each timer with what the dispatcher expected. A refused write changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import (
    TYPE_CHECKING,
    Literal,
    NamedTuple,
    NewType,
    Protocol,
    TypeAlias,
    runtime_checkable,
)

from duly.domain.enums import Lane, Origin
from duly.domain.fire_planning import Plan, PlannedRun, Settlement
from duly.domain.schedules import NextOccurrence

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from duly.domain.ids import RunId, ScheduleId
    from duly.domain.schedules import CatchUpRange, Definition


MemberId = NewType("MemberId", int)
"""Never reused: a process that is declared dead comes back under a new one."""

MEMBER_TTL_US = 5 * 1_000_000


class MemberKind(StrEnum):
    """What a process does for the fleet."""

    DISPATCHER = "dispatcher"
    WORKER = "worker"


class WorkerStatus(StrEnum):
    """Why a worker claims nothing, though it is alive."""

    DRAINING = "draining"
    QUARANTINED = "quarantined"


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """Become a member of the fleet."""

    kind: MemberKind
    host: str
    process: int
    ttl_us: int = MEMBER_TTL_US
    tzdata: str = ""
    wake_address: str = ""
    """Where it can be woken, from `Wakeups.address`; empty if nowhere."""
    slots: int = 0
    """Of a worker: how many runs it executes at a time,"""
    ahead: int = 0
    """and how many more it may claim while they end soon."""
    queues: tuple[str, ...] = ()
    """Of a worker: those it serves; empty for all."""
    tasks: tuple[str, ...] = ()
    """Of a worker: those whose code it has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A process of the fleet, as the store knows it."""

    id: MemberId
    kind: MemberKind
    host: str
    process: int
    is_alive: bool
    started_at: int
    renewed_at: int
    expires_at: int
    skew_us: int
    """How far its clock is ahead of the store's, as it measured; negative if behind."""
    is_holding: bool
    """Whether it has stopped firing because its clock disagrees."""
    tzdata: str
    slots: int = 0
    leaked: int = 0
    """Slots that a thread has taken with it."""
    running: int = 0
    """How many runs it holds; told by `status` alone."""
    queues: tuple[str, ...] = ()
    standing: WorkerStatus | None = None
    """Of a worker that people have taken out of service; None for any other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Renew:
    """Stay a member; say how far one's own clock is ahead of the store's."""

    member: MemberId
    ttl_us: int = MEMBER_TTL_US
    skew_us: int = 0
    is_holding: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewal:
    """The store's answer: whether one still is a member, the time, and who else is."""

    is_alive: bool
    now: int
    dispatchers: tuple[MemberId, ...]
    """Living dispatchers that are not holding, oneself included, in order."""
    shards: int
    incarnation: int
    """Grows when an operator restores a backup; everybody must join anew."""
    tzdata: str
    """The newest release of time-zone rules that pending instants were computed under."""
    leases: tuple[Lease, ...]
    """What is ours by the store, in order: an order that we took for lost may have arrived."""


class LeaseKey(NamedTuple):
    """What is leased: one lane of one shard."""

    shard: int
    lane: Lane


class Lease(NamedTuple):
    """Ownership of a lane of a shard, with the fence that every write under it carries."""

    key: LeaseKey
    epoch: int


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """A lease as the store knows it."""

    key: LeaseKey
    epoch: int
    owner: MemberId | None
    acquired_at: int | None


@dataclass(frozen=True, slots=True)
class Fence:
    """Who writes, and under which leases."""

    member: MemberId
    leases: tuple[Lease, ...]


class Wakeups(Protocol):
    """A place to wait at: until a time-out, or until somebody has written something near.

    A hint alone: nothing is lost when a wake-up is.
    """

    address: str

    def wait(self, timeout_us: int) -> bool:
        """Wait at most that long; True when woken. Never raises, never waits longer."""
        ...

    def wake(self) -> None:
        """Wake whoever waits here, from any thread or signal handler."""
        ...

    def nudge(self) -> None:
        """End the wait, though nothing was written; from any thread or signal handler."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


TimerKind = Literal["schedule", "delayed", "retry"]


class Timer(NamedTuple):
    """A pending instant as it is loaded: a hint, compared with the store when it fires."""

    kind: TimerKind
    ref: bytes
    """The schedule's id, the delayed run's, or that of the run that waits for another attempt."""
    shard: int
    due_at: int
    scheduled_for: int
    generation: int
    """The schedule's version, the delayed run's generation, or the fence of the last claim."""
    definition_number: int
    """Of a schedule; 0 for a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTimers:
    """Read what falls due in the shards that one owns."""

    shards: tuple[int, ...]
    after: int | None
    """Only what is due later than this; None for everything there is."""
    until: int
    limit: int
    is_whole: bool = True
    """Whether an instant is read as a whole, even past the limit; if not, the limit holds."""
    crowd_max: int = 50_000
    """More than this of one instant is not read at once: then a part of it is, and `through` lies
    before it."""


@dataclass(frozen=True, slots=True)
class LoadedTimers:
    """Timers in order of due; all up to `through` are there."""

    timers: tuple[Timer, ...]
    through: int
    """`until`, or less when the limit cut it short: the last instant that is complete."""
    now: int


ArrivalsCursor = NewType("ArrivalsCursor", str)
"""Where a reader of the arrivals feed stands; its meaning is the store's own."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Timers written since the cursor, each at least once whatever the order of commits."""

    timers: tuple[Timer, ...]
    cursor: ArrivalsCursor
    now: int


class FirePlanned(NamedTuple):
    """Fire a schedule's timer by a plan."""

    timer: Timer
    plan: Plan
    late_after: int | None
    """The plan holds up to this instant; after it the store answers LATE and fires nothing."""


class FireOnTime(NamedTuple):
    """Fire a schedule's timer as nearly always: one run, on time, and a next instant.

    The same as `FirePlanned` with such a plan, but flat: it is made for every fire.
    """

    ref: bytes
    generation: int
    due_at: int
    scheduled_for: int
    shard: int
    late_after: int
    run_id: RunId
    next_for: int
    next_due: int
    definition_number: int

    @property
    def timer(self) -> Timer:
        """Return the timer."""
        return Timer(
            "schedule",
            self.ref,
            self.shard,
            self.due_at,
            self.scheduled_for,
            self.generation,
            self.definition_number,
        )

    @property
    def plan(self) -> Plan:
        """Return the plan that it stands for."""
        run = PlannedRun(self.run_id, self.scheduled_for, self.due_at, Origin.SCHEDULE, Lane.LIVE)
        return Plan(Settlement((run,)), NextOccurrence(self.next_for, self.next_due))


FireSchedule: TypeAlias = FirePlanned | FireOnTime


class FireDelayed(NamedTuple):
    """Fire a delayed run's timer: the pending row becomes a run."""

    timer: Timer


class FireRetry(NamedTuple):
    """Queue a run whose next attempt is due."""

    timer: Timer


@dataclass(frozen=True, slots=True, kw_only=True)
class FireTimers:
    """Fire a batch under one fence, each timer in one transaction."""

    fence: Fence
    schedules: tuple[FireSchedule, ...] = ()
    delayed: tuple[FireDelayed, ...] = ()
    retries: tuple[FireRetry, ...] = ()


class FireResult(StrEnum):
    """What became of one timer of a batch."""

    FIRED = "fired"
    EARLY = "early"
    """Not due by the store's clock; it is still pending."""
    LATE = "late"
    """Past `late_after`; still pending, plan it again by the misfire policy."""
    GONE = "gone"
    """No longer as believed: edited, paused, deleted, moved, or fired before."""
    FENCED = "fenced"
    """Its shard is no longer ours."""
    BUSY = "busy"
    """Somebody's open transaction holds it; still pending, try again soon."""


@dataclass(frozen=True, slots=True)
class Fired:
    """What became of a batch, in the order it was given: schedules, delayed runs, retries."""

    now: int
    results: tuple[FireResult, ...]
    runs_made: int
    lost: tuple[LeaseKey, ...]
    """Leases in the fence that are not ours any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatchUpRangeRecord:
    """A range of occurrences to be drained, with what is needed to settle it."""

    owed: CatchUpRange
    shard: int
    created_at: int

    @property
    def place(self) -> tuple[int, bytes, int]:
        """Return where it stands among the others: by age."""
        return (self.created_at, self.owed.schedule_id, self.owed.first_for)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainOwed:
    """Apply a settlement to a range, if it still begins where it did."""

    fence: Fence
    shard: int
    owed: CatchUpRange
    settlement: Settlement
    """Runs to make, skips to record, and what remains owed (None when the range is done)."""


@runtime_checkable
class PipelinedFires(Protocol):
    """A store that can fire a crowd while whoever has ordered it does something else."""

    def begin_fire(self, command: FireTimers) -> Callable[[], Fired] | None:
        """Order a fire, as `fire_timers`; return what waits for the answer, to be called once.

        None when nothing has begun, and nobody would do it meanwhile. Until it was called nobody
        knows what has fired; if never, what is still pending has not.
        """
        ...


class DispatchStore(Protocol):
    """What dispatchers do."""

    def wakeups(self, kind: MemberKind = MemberKind.DISPATCHER) -> Wakeups:
        """Return a new place to wait at, for a kind of member.

        Writes that announce an arrival wake living dispatchers; those that queue a run, resume a
        queue or ask for a cancellation wake living workers.
        """
        ...

    def join(self, command: Join) -> tuple[MemberId, int]:
        """Register a member under a fresh id; return it with the store's now."""
        ...

    def renew(self, command: Renew) -> Renewal:
        """Extend the membership, if it has not expired and nobody has declared it dead.

        Expiry is by the store's clock. A member that is not alive stays dead, also when the clock
        is set back: whatever a dispatcher orders under its membership, be it to renew, to lease, to
        fire, to settle or to prune, ends it for good when it is found expired, though nobody else
        has noticed. A worker is judged by who settles its claims alone: until then it may beat.
        """
        ...

    def leave(self, member: MemberId) -> None:
        """End the membership and give up all its leases at once."""
        ...

    def acquire_leases(self, member: MemberId, wanted: Sequence[LeaseKey]) -> list[Lease]:
        """Take those leases that nobody alive owns; each gets a higher epoch.

        A caller that is not alive gets none. Owners whose membership has expired are declared dead
        here, for ever; who takes leases from one leaves an audit entry `member.declared-dead` that
        names them.
        """
        ...

    def release_leases(self, fence: Fence) -> None:
        """Give up leases that are still ours at that epoch; others are left alone."""
        ...

    def load_timers(self, command: LoadTimers) -> LoadedTimers:
        """Read timers in order of due; a hint, so it takes no lock and needs no fence."""
        ...

    def start_of_arrivals(self) -> ArrivalsCursor:
        """Return a cursor at the present end of the arrivals feed."""
        ...

    def read_arrivals(self, cursor: ArrivalsCursor, shards: Sequence[int]) -> Arrivals:
        """Read timers announced since the cursor, as they are now; never misses a late commit."""
        ...

    def read_definitions(
        self, keys: Sequence[tuple[ScheduleId, int]]
    ) -> Mapping[tuple[ScheduleId, int], Definition]:
        """Read definitions by schedule and number; those that are gone are left out."""
        ...

    def fire_timers(self, command: FireTimers) -> Fired:
        """Make the runs, queue them, advance the timers: each timer in one transaction.

        For each timer in order: FENCED unless its shard's live lease is ours at that epoch and we
        are alive; GONE unless (ref, generation, due) is what is pending; EARLY unless due by the
        store's clock; LATE past `late_after`. Then the plan's runs are inserted (one that exists is
        left alone, and not queued again), skips and owed inserted, the timer replaced, or the
        schedule ended with its reason (version plus one, audited as `schedule.ended`).
        `window_from` of a run is the last occurrence before it that was run; `last_for` never goes
        back; `fires` counts the runs made. EARLY also when a planned run is not due: nothing of
        that timer is written then. A retry puts its run back into its queue, with its tries. A
        batch with a lost lease leaves one audit entry `lease.refused`.
        """
        ...

    def load_owed(
        self, shards: Sequence[int], limit: int, after: CatchUpRangeRecord | None = None
    ) -> list[CatchUpRangeRecord]:
        """Read ranges of schedules that are active or ended, oldest first; on from `after`."""
        ...

    def drain_owed(self, command: DrainOwed) -> FireResult:
        """Apply a settlement of a range under the catch-up lease: FIRED, GONE, EARLY or FENCED.

        GONE when the range no longer begins there, or the schedule is paused or deleted. BUSY while
        a run of it would find an earlier one open, unless they may overlap: then all of the range
        stays owed, where it can still be edited or called off.
        """
        ...

    def open_gates(self, limit: int) -> int:
        """Let the first go of those that wait at each gate that nobody holds; say how many did.

        Whoever ends a run does so for its gate; this is for one that has died in between, and for
        gates that came free in another way. It needs no lease: it does what is due, whoever asks.
        """
        ...

    def due_resumes(self, limit: int) -> list[ScheduleId]:
        """Read paused schedules whose `resume_at` has come, by the store's clock."""
        ...

    def note_tzdata(self, release: str) -> bool:
        """Remember the release that pending instants are computed under; False if older."""
        ...


def as_plain(fire: FireSchedule) -> FireOnTime | None:
    """Return a fire that makes one run, on time, and goes on to a next instant; None if not so."""
    if isinstance(fire, FireOnTime):
        return fire
    timer, (settlement, following, _), late_after = fire
    if late_after is None or following is None or len(settlement.runs) != 1:
        return None
    (run,) = settlement.runs
    is_plain = (
        not settlement.skips
        and settlement.owed is None
        and (run.scheduled_for, run.not_before) == (timer.scheduled_for, timer.due_at)
        and (run.origin, run.lane) == (Origin.SCHEDULE, Lane.LIVE)
    )
    if not is_plain:
        return None
    return FireOnTime(
        timer.ref,
        timer.generation,
        timer.due_at,
        timer.scheduled_for,
        timer.shard,
        late_after,
        run.run_id,
        *following,
        timer.definition_number,
    )
