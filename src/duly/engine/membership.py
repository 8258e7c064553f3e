"""Membership: being one of the fleet, under an id that is never used again (F4).

Our own count of the lease runs from before the renewal was sent: an answer that was long under way
must not lengthen it. Past that count nothing is written but a renewal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.identity import identity_text
from duly.store.dispatch import Join, MemberId, MemberKind, Renew, Renewal
from duly.telemetry import DeclaredDead, Joined, Left, SetAside

if TYPE_CHECKING:
    from duly.engine.clock_sync import ClockSync
    from duly.engine.surroundings import Surroundings


class Membership:
    """Joins, renews, leaves, and knows until when we may write."""

    def __init__(self, around: Surroundings, sync: ClockSync) -> None:
        self._around = around
        self._sync = sync
        self.id: MemberId | None = None
        self.renewal: Renewal | None = None
        """The last answer to a renewal; None before the first."""
        self.renew_at = 0
        self.deadline = 0
        """Until when we may write, on the monotonic clock."""

    def number(self) -> int:
        """Return our id for telemetry; 0 before we have one."""
        return 0 if self.id is None else int(self.id)

    def may_write(self) -> bool:
        """Say whether our lease still holds by our own count, and no renewal is due."""
        monotonic = self._around.clock.monotonic_us()
        return self.id is not None and monotonic < min(self.deadline, self.renew_at)

    def join(self) -> None:
        """Become a member under a fresh id."""
        around, node = self._around, self._around.node
        before = around.clock.monotonic_us()
        order = Join(
            kind=MemberKind.DISPATCHER,
            host=node.host,
            process=node.process,
            ttl_us=around.settings.ttl_us,
            tzdata=node.zones.version,
            wake_address=node.wake_address,
        )
        self._sync.forget()
        self.id, now = around.store.join(order)
        self._sync.hear(before, now)
        self.renew_at = before
        self.deadline = before + around.settings.ttl_us - around.settings.lease_margin_us
        version = node.zones.version
        around.telemetry.emit(
            Joined(member=self.id, host=node.host, process=node.process, tzdata=version)
        )

    def renew(self, *, is_holding: bool) -> bool:
        """Stay a member; False when we are none any more and must join anew."""
        around = self._around
        assert self.id is not None, "only a member renews"
        before = around.clock.monotonic_us()
        order = Renew(
            member=self.id,
            ttl_us=around.settings.ttl_us,
            skew_us=self._sync.skew_us,
            is_holding=is_holding,
        )
        renewal = self._sync.ask(lambda: around.store.renew(order))
        if not renewal.is_alive:
            self._die("its lease has run out")
            return False
        if self.renewal is not None and renewal.incarnation != self.renewal.incarnation:
            around.store.leave(self.id)
            self._die("the store was restored from a backup")
            return False
        self.renewal = renewal
        self.renew_at = before + around.settings.renew_every_us
        self.deadline = before + around.settings.ttl_us - around.settings.lease_margin_us
        return True

    def renew_soon(self) -> None:
        """Ask at the next tick whether we still are a member."""
        self.renew_at = self._around.clock.monotonic_us()

    def leave(self) -> None:
        """Give up everything at once."""
        if self.id is not None:
            self._around.store.leave(self.id)
            self._around.telemetry.emit(Left(member=self.id))
            self.id = self.renewal = None

    def tell_set_aside(self, what: str, subject_id: bytes, problem: str) -> None:
        """Say that one promise is left alone for now, so that the others go on."""
        event = SetAside(
            member=self.number(),
            what=what,
            subject_id=identity_text(subject_id),
            problem=problem,
        )
        self._around.telemetry.emit(event)

    def _die(self, reason: str) -> None:
        self._around.telemetry.emit(DeclaredDead(member=self.number(), reason=reason))
        self.id = self.renewal = None
