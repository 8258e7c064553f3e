"""The dispatch port: owning shards of time, loading what falls due, and firing it.

Every write of a dispatcher carries its membership and the epochs of its leases. The store refuses a
stale owner in the same transaction (F4), judges lateness and earliness by its own clock (F1), and
compares each timer with what the dispatcher believed (F6). A refused write changes nothing. What is
said and answered stands in `leases`, `timers` and `fires`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from duly.store.fires import (
    DrainOwed,
    Fired,
    FireDelayed,
    FireOnTime,
    FirePlanned,
    FireResult,
    FireRetry,
    FireSchedule,
    FireTimers,
    OwedRecord,
)
from duly.store.leases import (
    MEMBER_TTL_US,
    Fence,
    Join,
    Lease,
    LeaseKey,
    LeaseRecord,
    Member,
    MemberId,
    MemberKind,
    Renew,
    Renewal,
    Wakeups,
)
from duly.store.timers import (
    Arrivals,
    ArrivalsCursor,
    LoadedTimers,
    LoadTimers,
    Timer,
    TimerKind,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from duly.domain.identity import ScheduleId
    from duly.domain.schedules import Definition

__all__ = [
    "MEMBER_TTL_US",
    "Arrivals",
    "ArrivalsCursor",
    "DispatchStore",
    "DrainOwed",
    "Fence",
    "FireDelayed",
    "FireOnTime",
    "FirePlanned",
    "FireResult",
    "FireRetry",
    "FireSchedule",
    "FireTimers",
    "Fired",
    "FiresAhead",
    "Join",
    "Lease",
    "LeaseKey",
    "LeaseRecord",
    "LoadTimers",
    "LoadedTimers",
    "MaintenanceStore",
    "Member",
    "MemberId",
    "MemberKind",
    "OwedRecord",
    "Prune",
    "PruneKind",
    "Pruned",
    "Renew",
    "Renewal",
    "Retention",
    "Timer",
    "TimerKind",
    "Wakeups",
]


@runtime_checkable
class FiresAhead(Protocol):
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
        """Make the runs, queue them, advance the timers: each timer in one transaction (F2).

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
        self, shards: Sequence[int], limit: int, after: OwedRecord | None = None
    ) -> list[OwedRecord]:
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


class PruneKind(StrEnum):
    """What retention removes."""

    OUTCOMES = "outcomes"
    SKIPS = "skips"
    SCHEDULES = "schedules"
    MEMBERS = "members"
    ARRIVALS = "arrivals"
    ACCESS = "access"
    """Sessions, codes, kept answers and frozen sets that have expired."""
    ALERTS = "alerts"
    """Alerts that were resolved long ago, and silences that are over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long history is kept. Pending promises and the audit trail are never touched by it."""

    outcomes_us: Mapping[str, int]
    """By final state; a state that is not named is kept."""
    runs_per_schedule: int | None
    """Of closed runs, the newest this many of each schedule are kept; None for no such bound."""
    skips_us: int | None
    deleted_schedules_us: int | None
    """How long a deleted schedule can be restored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prune:
    """Remove history that is past its retention, at most `limit` rows of each kind."""

    fence: Fence
    retention: Retention
    limit: int


@dataclass(frozen=True, slots=True)
class Pruned:
    """How many rows of each kind were removed, and whether there is more."""

    counts: Mapping[PruneKind, int]
    has_more: bool


class MaintenanceStore(Protocol):
    """What keeps a store small."""

    def prune(self, command: Prune) -> Pruned:
        """Remove closed runs past retention; remember per schedule how far (D6).

        Also old skips, deleted schedules past their retention, dead members that own nothing, old
        arrivals, what has expired of access, and alerts of long ago. Needs the backfill lease of
        shard 0 (maintenance): a stale owner removes nothing.
        """
        ...
