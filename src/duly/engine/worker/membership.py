"""Join, heartbeat, draining, back-off while the store is away.

`WorkerMembership` counts its lease from before the heartbeat was sent, so a slow answer cannot
lengthen it. Past that count the worker claims nothing new. Its running attempts stay its own until
it is declared dead, which only the store can report.

`Draining` lets running attempts finish within the grace period. Then they are asked to stop, and
given back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.engine.worker.attempt import StopCause
from duly.store.ports.dispatch import Join, MemberKind
from duly.store.ports.execution import Heartbeat
from duly.telemetry import (
    DeclaredDead,
    MemberJoined,
    MemberLeft,
    StoreLost,
    StoreRecovered,
    WorkerDraining,
    WorkerRecycling,
)

if TYPE_CHECKING:
    from duly.engine.worker.active_attempts import ActiveAttempts
    from duly.engine.worker.attempt import TimeLimits
    from duly.engine.worker.context import WorkerContext
    from duly.errors import StoreUnavailable
    from duly.store.ports.dispatch import MemberId
    from duly.store.ports.execution import HeartbeatResult


_KIND = str(MemberKind.WORKER)


class WorkerMembership:
    """Joins, beats, leaves, and knows until when we may take more."""

    def __init__(self, parts: WorkerContext) -> None:
        self._parts = parts
        self.id: MemberId | None = None
        self.beat_at = 0
        """When the next beat is due, on the monotonic clock."""
        self._beaten_at = 0
        self._deadline = 0
        self._is_in_doubt = False
        self._slots = 0

    def number(self) -> int:
        """Return our id for telemetry; 0 before we have one."""
        return 0 if self.id is None else int(self.id)

    @property
    def is_in_doubt(self) -> bool:
        """Whether we may hold what we do not know of, until the next beat tells."""
        return self.id is not None and self._is_in_doubt

    def is_over(self, monotonic: int) -> bool:
        """Say whether by our own count we have no lease, or none any more."""
        return self.id is None or monotonic >= self._deadline

    def join(self) -> None:
        """Become a member under a fresh id, and say what our tasks' code says about their runs."""
        parts, settings = self._parts, self._parts.settings
        runnables = {name: parts.runnable(name) for name in parts.catalogue.names()}
        known = {name: one for name, one in runnables.items() if one is not None}
        parts.store.register_policies({name: one.policy for name, one in known.items()})
        self._slots = settings.slots_of({one.kind for one in known.values()})
        before = parts.clock.monotonic_us()
        order = Join(
            kind=MemberKind.WORKER,
            host=parts.node.host,
            process=parts.node.process,
            ttl_us=settings.ttl_us,
            wake_address=parts.node.wake_address,
            slots=self._slots,
            ahead=settings.claim_max,
            queues=settings.queues or (),
            tasks=tuple(known),
        )
        self.id, now = parts.store.join(order)
        parts.time.hear(before, now)
        self._note(before)
        version = parts.node.zones.version
        host, process = parts.node.host, parts.node.process
        parts.emit(
            MemberJoined(member=self.id, kind=_KIND, host=host, process=process, tzdata=version)
        )

    def beat(self, holdings: ActiveAttempts) -> HeartbeatResult:
        """Stay a member, and hear about what we hold; whoever is not alive has to join anew."""
        assert self.id is not None, "only a member beats"
        before = self._parts.clock.monotonic_us()
        order = Heartbeat(
            worker=self.id,
            holds=holdings.holds(self.id),
            ttl_us=self._parts.settings.ttl_us,
            slots=self._slots,
            leaked=len(holdings.leaked),
            skew_us=self._parts.time.skew_us(),
        )
        beaten = self._parts.store.beat(order)
        self._parts.time.hear(before, beaten.now)
        if beaten.is_alive:
            self._note(before)
        return beaten

    def beat_soon(self) -> None:
        """Beat before long: somebody may have asked for a cancellation."""
        soon = self._beaten_at + self._parts.settings.beat_soon_us
        self.beat_at = min(self.beat_at, soon)

    def beat_now(self) -> None:
        """Beat at the next tick: what we believe to hold is in doubt."""
        self.beat_at = self._beaten_at
        self._is_in_doubt = True

    def lose(self, reason: str) -> None:
        """Be no member any more; the next tick joins anew."""
        self._parts.emit(DeclaredDead(member=self.number(), kind=_KIND, reason=reason))
        self.id = None

    def leave(self) -> None:
        """End the membership at once."""
        if self.id is not None:
            self._parts.store.leave(self.id)
            self._parts.emit(MemberLeft(member=self.id, kind=_KIND))
            self.id = None

    def _note(self, before: int) -> None:
        settings = self._parts.settings
        self._beaten_at = before
        self._is_in_doubt = False
        self.beat_at = before + settings.beat_every_us
        self._deadline = before + settings.ttl_us - settings.lease_margin_us


FOR_EVER = 1 << 62
"""Later than any monotonic clock comes."""


class Draining:
    """Knows whether the worker is to end, and until when work may finish."""

    def __init__(self, parts: WorkerContext, holdings: ActiveAttempts, limits: TimeLimits) -> None:
        self._parts = parts
        self._holdings = holdings
        self._limits = limits
        self.is_asked = False
        """Set by whoever wants the worker to end; from a signal handler, too."""
        self.is_ordered = False
        """Whether people have ordered it through the store: then work may take its time."""
        self.is_worn = False
        """Whether the worker has lost too many slots to go on."""
        self.until: int | None = None
        """How long work may finish, on the monotonic clock; None while we do not drain."""

    def note(self, member: int, monotonic: int) -> None:
        """Begin when it is asked for or needed; past the grace, ask what still runs to stop."""
        settings, holdings = self._parts.settings, self._holdings
        leaked = len(holdings.leaked)
        if not self.is_worn and leaked >= min(
            settings.leaked_max, settings.slots or settings.leaked_max
        ):
            self.is_worn = self.is_asked = True
            self._parts.emit(WorkerRecycling(member=member, leaked=leaked))
        until = self._until(monotonic)
        if until is not None and self.until is None:
            self._parts.emit(WorkerDraining(member=member, running=len(holdings.running)))
        self.until = until
        if until is not None and monotonic >= until:
            for held in holdings.running:
                if held.stopping is None:
                    self._limits.stop(held, StopCause.SHUTDOWN)

    def _until(self, monotonic: int) -> int | None:
        """Return how long work may finish: for the grace once it is asked for, else for ever."""
        if not self.is_asked:
            return FOR_EVER if self.is_ordered else None
        asked = monotonic + self._parts.settings.grace_us
        return asked if self.until is None else min(asked, self.until)

    def next_at(self) -> int | None:
        """Return when work is to be asked to stop; None when there is none, or it has been."""
        running = self._holdings.running
        return self.until if any(held.stopping is None for held in running) else None


class StoreBackoff:
    """Waits a little longer each time, but never long: a lease may hang on it."""

    def __init__(self, parts: WorkerContext) -> None:
        self._parts = parts
        self._since: int | None = None
        self._backoff_us = parts.settings.backoff_min_us
        self.retry_at = 0
        """The store is not asked before this, on the monotonic clock."""

    @property
    def is_on(self) -> bool:
        """Whether the store did not answer when it was asked last."""
        return self._since is not None

    def begin(self, member: int, error: StoreUnavailable) -> None:
        """Note that the store did not answer."""
        monotonic = self._parts.clock.monotonic_us()
        if self._since is None:
            self._since = monotonic
            self._parts.statistics.store_losses += 1
            self._parts.emit(StoreLost(member=member, problem=str(error)))
        self.retry_at = monotonic + self._backoff_us
        self._backoff_us = min(2 * self._backoff_us, self._parts.settings.backoff_max_us)

    def end(self, member: int) -> bool:
        """Note that the store answers; say whether it did not before."""
        if self._since is None:
            return False
        lost_us = self._parts.clock.monotonic_us() - self._since
        self._since = None
        self._backoff_us = self._parts.settings.backoff_min_us
        self._parts.emit(StoreRecovered(member=member, lost_us=lost_us))
        return True
