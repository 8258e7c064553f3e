"""Execution port: claims queued runs, renews claims, records progress and ends attempts.

A worker is a member of the fleet. A claim binds a run to it under a fence that is one higher than
any before. Every write about the run carries worker and fence, and a write whose fence no longer
holds changes nothing.

An open run is in exactly one place: queued, claimed, waiting for another attempt or at a gate,
dead, or ambiguous. The store's clock decides which workers are alive, and what is due or overdue.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from duly.domain.enums import Lane

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from duly.domain.ids import RunId
    from duly.domain.outcomes import Conclusion
    from duly.domain.runs import AttemptCounts, LogLine, Progress, RunRecord, TaskPolicy
    from duly.domain.verification import CheckRun, ItemReport
    from duly.store.ports.dispatch import Fence, MemberId, WorkerStatus

WORKER_TTL_US = 15 * 1_000_000
QUEUES_MAX = 200


class ClaimRef(NamedTuple):
    """A claim as its worker knows it: which run, under which fence."""

    run_id: RunId
    fence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRuns:
    """Take queued runs, to be started at once."""

    worker: MemberId
    limit: int
    """How many in all."""
    queues: tuple[str, ...] | None = None
    """From these, in this order; None for every queue there is, in order of name."""
    queue_limits: Mapping[str, int] = field(default_factory=dict)
    """At most so many from a queue; one that is not named has no limit of its own."""
    rotation: int = 0
    """Begin with the n-th of the queues, counted round: so that no queue is always first."""
    without: frozenset[str] = frozenset()
    """Tasks whose runs are passed over: the worker lacks their code, and others serve them."""
    newest_first: bool = False
    """Of each queue take only runs of its first priority, and those first that fell due last: so
    that behind a crowd nobody waits for all of it."""
    served: Mapping[str, str] = field(default_factory=dict)
    """By queue the tenant who was served last, as the answer before has told: others come first."""
    first_lane: Lane = Lane.LIVE
    """Begin with this lane, so that what is caught up has its share however much is live."""


class ClaimReader(Protocol):
    """Reads from a row that was claimed what few ask for."""

    def tries(self, row: tuple[Any, ...]) -> AttemptCounts:
        """Return a run's numbers, with this claim counted in."""
        ...

    def is_live(self, row: tuple[Any, ...]) -> bool:
        """Say whether a run is of the live lane."""
        ...

    def record(self, row: tuple[Any, ...], tries: AttemptCounts) -> RunRecord:
        """Return all that is known of a run; `state` is running."""
        ...


@dataclass(slots=True, eq=False)
class ClaimedRun:
    """A run that is ours now: what is needed to begin it, and the rest when somebody asks for it.

    So many are made that it is not frozen, which would take three times as long.
    """

    run_id: RunId
    fence: int
    """Of this claim."""
    claimed_at: int
    task: str
    arguments: str
    """By name, as JSON text."""
    queue: str
    row: tuple[Any, ...]
    """What the store has read, for its reader alone."""
    reader: ClaimReader
    _tries: AttemptCounts | None = field(default=None, init=False)
    _record: RunRecord | None = field(default=None, init=False)

    @classmethod
    def of(cls, record: RunRecord, tries: AttemptCounts, claimed_at: int) -> ClaimedRun:
        """Return a claimed run whose record is at hand."""
        call = record.call
        known = (call.task, call.arguments, call.queue)
        return cls(record.id, tries.fence, claimed_at, *known, (record, tries), _AtHand())

    @property
    def tries(self) -> AttemptCounts:
        """With this claim counted in: its fence, its attempt number, charges before it."""
        if self._tries is None:
            self._tries = self.reader.tries(self.row)
        return self._tries

    @property
    def record(self) -> RunRecord:
        """All that is known of it; `state` is running. Most tasks never ask."""
        if self._record is None:
            self._record = self.reader.record(self.row, self.tries)
        return self._record

    @property
    def is_live(self) -> bool:
        """Whether it is of the live lane; known without its record, which takes longer to make."""
        return self.reader.is_live(self.row)

    @property
    def hold(self) -> ClaimRef:
        """Return the claim that every write about it carries."""
        # As Hold(…), without the call in between: it is made for every run.
        return tuple.__new__(ClaimRef, (self.run_id, self.fence))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ClaimedRun):
            return NotImplemented
        mine = (self.record, self.tries, self.claimed_at)
        return mine == (other.record, other.tries, other.claimed_at)

    __hash__ = None  # type: ignore[assignment]


class _AtHand:
    """Reads what is there already."""

    def tries(self, row: tuple[Any, ...]) -> AttemptCounts:
        tries: AttemptCounts = row[1]
        return tries

    def is_live(self, row: tuple[Any, ...]) -> bool:
        record: RunRecord = row[0]
        return record.lane is Lane.LIVE

    def record(self, row: tuple[Any, ...], tries: AttemptCounts) -> RunRecord:
        record: RunRecord = row[0]
        return record


@dataclass(frozen=True, slots=True)
class Claimed:
    """What a worker got; nothing when it is not alive."""

    now: int
    is_alive: bool
    runs: tuple[ClaimedRun, ...]
    served: Mapping[str, str] = field(default_factory=dict, compare=False)
    """By queue, where there is a crowd: whom the next claim is to let others go before."""
    is_followed: bool = field(default=False, compare=False)
    """Whether the store knows of more that can be had at once, though it gave less than asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """Stay a member, and ask about what one holds."""

    worker: MemberId
    holds: tuple[ClaimRef, ...] = ()
    ttl_us: int = WORKER_TTL_US
    slots: int = 0
    leaked: int = 0
    """Slots that a thread has taken with it."""
    skew_us: int = 0
    """How far the worker's clock is ahead of the store's."""


class StopReason(StrEnum):
    """Why a worker must stop one of its attempts."""

    CANCEL = "cancel"
    """Somebody asked for it."""
    GONE = "gone"
    """It is no longer ours: settled by somebody else, and whatever it still does is refused."""


@dataclass(frozen=True, slots=True)
class StopOrder:
    """An attempt that must stop."""

    hold: ClaimRef
    kind: StopReason


@dataclass(frozen=True, slots=True)
class HeartbeatResult:
    """The store's answer to a beat. Who was declared dead has lost all that it held, or will."""

    now: int
    is_alive: bool
    stops: tuple[StopOrder, ...]
    strays: tuple[ClaimRef, ...] = ()
    """Claims of this worker that it did not name: the answer that gave them to it was lost."""
    limits_version: int = 0
    """Of the fleet's limits: who knows an older one loads them again."""
    standing: WorkerStatus | None = None
    """Whether people have taken the worker out of service: then it claims nothing. None of one that
    is over, whatever was said of it: it begins anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What an attempt has done since the last report. Empty parts are left as they are."""

    hold: ClaimRef
    started_at: int | None = None
    """When its code began; kept the first time."""
    progress: Progress | None = None
    """Also remembered as a step of its own, unless it is the attempt's last one once more."""
    lines: tuple[LogLine, ...] = ()
    lines_before: int | None = None
    """How many lines of the attempt were told before these; None when nobody has counted. Those of
    them that are stored already, because an answer was lost, are not stored again."""
    scope: ItemReport | None = None
    """What it says about its scope since the last report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveCheckpoint:
    """Remember a state from which a later attempt of the run can go on."""

    worker: MemberId
    hold: ClaimRef
    partition: str
    """Empty for the run as a whole."""
    state: str
    """As JSON text."""


@dataclass(slots=True)
class FinishAttempt:
    """How one attempt ended, and what was decided about its run; not frozen, as claimed runs."""

    hold: ClaimRef
    started_at: int | None
    """When its code began, by the store's clock as the worker knows it; None if it never did."""
    conclusion: Conclusion
    progress: Progress | None = None
    """The last that it reported, if that is not stored yet."""
    lines: tuple[LogLine, ...] = ()
    lines_before: int | None = None
    """How many lines of the attempt were told before these; None when nobody has counted. Those of
    them that are stored already, because an answer was lost, are not stored again."""
    is_answered: bool | None = None
    """Of an attempt that was admitted with a destination: whether the other side did its part, well
    or with a refusal; False: it failed; None: the end tells nothing about it."""
    scope: ItemReport | None = None
    """What it says about its scope since the last report."""
    follow_up: CheckRun | None = None
    """A run that is made of it in the same transaction: the check of its result."""
    wait_us: int | None = None
    """How long a destination that failed asked to wait."""


class FinishResult(StrEnum):
    """What became of a completion."""

    ACCEPTED = "accepted"
    """Done; or it was done before, by this very claim: the answer had been lost."""
    REFUSED = "refused"
    """The claim is no longer ours. Nothing about the run has changed; the word is kept."""


@dataclass(frozen=True, slots=True)
class Finished:
    """What became of a batch, in the order it was given."""

    now: int
    results: tuple[FinishResult, ...]


class LostClaimReason(StrEnum):
    """Why a claim is taken from its worker."""

    WORKER = "worker"
    """Its worker is dead."""
    OVERDUE = "overdue"
    """Its attempt's time has long run out, and its worker did not end it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostClaim:
    """A claim that somebody else must settle, with all that is needed to decide how."""

    hold: ClaimRef
    kind: LostClaimReason
    worker: MemberId
    tries: AttemptCounts
    """With this claim counted in."""
    task: str
    policy: TaskPolicy
    claimed_at: int
    started_at: int | None
    effects_at: int | None = None
    """When it was first permitted to do what can't be taken back."""


@dataclass(frozen=True, slots=True)
class LostClaims:
    """Claims to be settled, and the store's now."""

    now: int
    claims: tuple[LostClaim, ...]


@dataclass(frozen=True, slots=True)
class LostClaimDecision:
    """What was decided about a lost claim."""

    claim: LostClaim
    conclusion: Conclusion
    follow_up: CheckRun | None = None
    """The check of its result, where its task has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettleLost:
    """Settle lost claims, under the maintenance lease (the backfill lane of shard 0)."""

    fence: Fence
    losses: tuple[LostClaimDecision, ...]
    overdue_us: int


@runtime_checkable
class PipelinedClaims(Protocol):
    """A store that can be asked for runs while whoever asks does something else."""

    def begin_claim(self, command: ClaimRuns) -> Callable[[], Claimed]:
        """Order a claim, as `claim_runs`; return what waits for the answer, to be called once.

        Until it was called nobody knows whether the order was carried out; if never, its runs are
        strays of the worker's.
        """
        ...


class ExecutionStore(Protocol):
    """What workers do, and what is done about them when they are gone."""

    def register_policies(self, policies: Mapping[str, TaskPolicy]) -> None:
        """Remember what tasks' code says about their runs, for whoever settles a lost claim.

        The first task that is unsafe shuts programs out that know nothing of that: they would try
        again what was lost after its effects. They get SchemaMismatch from then on, before anybody
        can hold a run of that task. Audited as `store.restricted`.
        """
        ...

    def claim_runs(self, command: ClaimRuns) -> Claimed:
        """Take runs from queues that are not paused, by priority and then by rank.

        With `newest_first` from the other end. Within a priority, tenants share a claim that can't
        take all evenly (`domain/admission.py`), at the latest from the second such claim on; in
        which
        order their runs come is not told. One transaction. A worker that is not alive (left,
        declared dead, or expired by the store's clock) gets none; one that has only expired must
        beat first. Each run gets the next fence, the next attempt number, `begun_at` if it has
        none, and a deadline by its task's time-out. No two workers get the same run; one does not
        wait for another. Runs of tasks that the worker is to do `without` stay where they are, and
        take no place of those behind them.
        """
        ...

    def beat(self, command: Heartbeat) -> HeartbeatResult:
        """Renew a worker; say which of what it holds must stop.

        One that has left or was declared dead stays dead for ever. One whose lease has run out, and
        whom nobody has declared dead, is renewed: nothing was taken from it, and what it claimed is
        still its own (an outage of the store ends nobody). CANCEL for a claim that somebody asked
        to stop, at every beat; GONE for one that is not this worker's under that fence. Strays are
        what it holds by the store's books and did not name, so that it can give them back
        unstarted.
        """
        ...

    def report(self, worker: MemberId, reports: Sequence[Report]) -> list[bool]:
        """Write starts, progress and lines of attempts that are still ours; say which were.

        A report that is refused changes nothing, and the others go through. Lines beyond
        LINES_PER_ATTEMPT_MAX of an attempt are dropped.
        """
        ...

    def save_checkpoint(self, command: SaveCheckpoint) -> bool:
        """Remember a state of the run, replacing the partition's last; False if not ours."""
        ...

    def finish_runs(self, worker: MemberId, finishes: Sequence[FinishAttempt]) -> Finished:
        """End attempts: record each, and put its run where the conclusion says.

        Each in one transaction; several of them may share one, or be divided over a few.
        ACCEPTED for a claim that is ours at that fence (whether or not the worker is still alive,
        as long as nobody has settled it), and for one that this very claim has ended before (a lost
        answer). Else REFUSED: nothing changes, but what the worker said is kept with the attempt
        (`LateWord`), and one audit entry `attempt.refused` names it. Close writes the one outcome;
        Wait makes the run due again after `delay_us` by the store's clock (announced if near), and
        under a budget in the first free slot of its task from then on: slots are the multiples of
        `spacing_us`, and no two retries share one. Requeue queues it behind its priority at once;
        Die makes it a dead letter (audited as `run.dead`). A run that somebody asked to cancel is
        closed as cancelled instead of any of these three.

        What the batch tells of a destination is counted together, whatever the order it came in and
        whatever of it was refused: a breaker opens by all of it, or not at all.
        """
        ...

    def finish_and_claim(
        self, finishes: Sequence[FinishAttempt], claim: ClaimRuns
    ) -> tuple[Finished, Claimed]:
        """End attempts of a worker, then take runs for it: `finish_runs`, and then `claim_runs`.

        Each keeps its own promises; a worker that is not alive still ends what it holds. In one
        transaction where that is cheaper. Should it fail, either may have been done, or neither.
        """
        ...

    def find_lost(self, limit: int, overdue_us: int) -> LostClaims:
        """Read claims whose worker is dead or expired, and those `overdue_us` past their deadline.

        Oldest claim first; takes no lock.
        """
        ...

    def settle_lost(self, command: SettleLost) -> list[bool]:
        """Take claims from their workers and put their runs where it was decided; say which.

        Needs the maintenance lease: a stale owner settles nothing (LeaseLost). Each claim must
        still be there at that fence, and in the same transaction its worker must be dead or expired
        (it is then declared dead for ever, audited as `member.declared-dead` once), or the deadline
        overdue: a worker that has renewed keeps what it holds. Audited as `attempt.lost`.
        """
        ...

    def is_served(self, task: str, queue: str) -> bool:
        """Say whether any living worker knows a task and takes runs from that queue."""
        ...

    def get_checkpoints(self, run_id: RunId) -> dict[str, str]:
        """Return a run's last states by partition, as JSON text."""
        ...
