"""A worker's membership: joining under an id that is never used again, beating, leaving.

Our own count of the lease runs from before a beat was sent: an answer that was long under way must
not lengthen it. Past that count we take nothing new. What we run stays ours until somebody has
declared us dead, and that only the store can say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.store.dispatch import Join, MemberKind
from duly.store.execution import Beat
from duly.telemetry import DeclaredDead, Joined, Left

if TYPE_CHECKING:
    from duly.engine.worker.holdings import Holdings
    from duly.engine.worker.parts import WorkerParts
    from duly.store.dispatch import MemberId
    from duly.store.execution import Beaten

_KIND = str(MemberKind.WORKER)


class WorkerMembership:
    """Joins, beats, leaves, and knows until when we may take more."""

    def __init__(self, parts: WorkerParts) -> None:
        self._parts = parts
        self.id: MemberId | None = None
        self.beat_at = 0
        """When the next beat is due, on the monotonic clock."""
        self._beaten_at = 0
        self._deadline = 0
        self._is_in_doubt = False

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
        before = parts.clock.monotonic_us()
        order = Join(
            kind=MemberKind.WORKER,
            host=parts.node.host,
            process=parts.node.process,
            ttl_us=settings.ttl_us,
            wake_address=parts.node.wake_address,
            slots=settings.slots,
            queues=settings.queues or (),
            tasks=tuple(known),
        )
        self.id, now = parts.store.join(order)
        parts.time.hear(before, now)
        self._note(before)
        version = parts.node.zones.version
        host, process = parts.node.host, parts.node.process
        joined = Joined(member=self.id, kind=_KIND, host=host, process=process, tzdata=version)
        parts.emit(joined)

    def beat(self, holdings: Holdings) -> Beaten:
        """Stay a member, and hear about what we hold; whoever is not alive has to join anew."""
        assert self.id is not None, "only a member beats"
        before = self._parts.clock.monotonic_us()
        order = Beat(
            worker=self.id,
            holds=holdings.holds(self.id),
            ttl_us=self._parts.settings.ttl_us,
            slots=self._parts.settings.slots,
            leaked=len(holdings.leaked),
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
            self._parts.emit(Left(member=self.id, kind=_KIND))
            self.id = None

    def _note(self, before: int) -> None:
        settings = self._parts.settings
        self._beaten_at = before
        self._is_in_doubt = False
        self.beat_at = before + settings.beat_every_us
        self._deadline = before + settings.ttl_us - settings.lease_margin_us
