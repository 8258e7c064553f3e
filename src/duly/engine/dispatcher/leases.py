"""Membership of the fleet, and which shards this dispatcher owns.

`Membership` counts its lease from before the renewal was sent, so a slow answer cannot lengthen
it. Past that count the dispatcher writes nothing but a renewal.

`Ownership` needs no leader. Every dispatcher receives the same living members with its renewal and
computes the same assignment. It releases shards that belong to another member, a part at a time,
and requests those that it should own.
"""

from __future__ import annotations

from collections import Counter
from hashlib import blake2b
from typing import TYPE_CHECKING

from duly.domain.enums import Lane
from duly.domain.ids import identity_text
from duly.errors import StoreError
from duly.store.ports.dispatch import (
    Fence,
    Join,
    Lease,
    LeaseKey,
    MemberId,
    MemberKind,
    Renew,
    Renewal,
)
from duly.telemetry import (
    DeclaredDead,
    ItemSkipped,
    LeasesAcquired,
    LeasesLost,
    LeasesReleased,
    MemberJoined,
    MemberLeft,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from duly.engine.dispatcher.context import DispatcherContext
    from duly.engine.store_clock import ClockSync


class Membership:
    """Joins, renews, leaves, and knows until when we may write."""

    def __init__(self, around: DispatcherContext, sync: ClockSync) -> None:
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
            MemberJoined(member=self.id, host=node.host, process=node.process, tzdata=version)
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
            self._around.telemetry.emit(MemberLeft(member=self.id))
            self.id = self.renewal = None

    def tell_set_aside(self, what: str, subject_id: bytes, problem: str) -> None:
        """Say that one promise is left alone for now, so that the others go on."""
        event = ItemSkipped(
            member=self.number(),
            what=what,
            subject_id=identity_text(subject_id),
            problem=problem,
        )
        self._around.telemetry.emit(event)

    def _die(self, reason: str) -> None:
        self._around.telemetry.emit(DeclaredDead(member=self.number(), reason=reason))
        self.id = self.renewal = None


MAINTENANCE = LeaseKey(0, Lane.BACKFILL)
"""Whoever holds this looks after the store: one owner, fenced as every other."""

_ORDER = {Lane.LIVE: 0, Lane.CATCH_UP: 1, Lane.BACKFILL: 2}


def is_leased(key: LeaseKey) -> bool:
    """Say whether anybody ever holds this lease: of backfill there is one for all shards."""
    return key.lane is not Lane.BACKFILL or key == MAINTENANCE


def assign(dispatchers: Sequence[MemberId], shards: int) -> dict[LeaseKey, MemberId]:
    """Return who is to own what: the same answer wherever it is computed.

    By rendezvous hashing, so that a member that comes or goes moves little; with a bound on what
    each gets, so that few shards are spread evenly, too.
    """
    owners: dict[LeaseKey, MemberId] = {}
    if not dispatchers:
        return owners
    share_max = -(-shards // len(dispatchers))
    for lane in (Lane.LIVE, Lane.CATCH_UP):
        loads: Counter[MemberId] = Counter()
        for shard in range(shards):
            key = LeaseKey(shard, lane)
            owner = next(one for one in _ranked(key, dispatchers) if loads[one] < share_max)
            loads[owner] += 1
            owners[key] = owner
    owners[MAINTENANCE] = _ranked(MAINTENANCE, dispatchers)[0]
    return owners


def _ranked(key: LeaseKey, dispatchers: Sequence[MemberId]) -> list[MemberId]:
    def score(member: MemberId) -> bytes:
        text = f"{member}/{key.shard}/{key.lane}"
        return blake2b(text.encode(), digest_size=8).digest()

    return sorted(dispatchers, key=score, reverse=True)


class Ownership:
    """The leases that we hold, with their epochs."""

    def __init__(
        self, around: DispatcherContext, membership: Membership, dropped: Callable[[set[int]], None]
    ) -> None:
        self._around = around
        self._membership = membership
        self._dropped = dropped
        """Told which live shards are not ours any more."""
        self.leases: dict[LeaseKey, Lease] = {}
        self.live: frozenset[int] = frozenset()
        """The shards whose live lane is ours."""
        self._shards: dict[Lane, tuple[int, ...]] = {}
        self._by_shard: dict[Lane, dict[int, Lease]] = {}
        self._wanted: set[LeaseKey] = set()
        self._surplus: list[LeaseKey] = []
        """What we hold and is not to be ours,"""
        self._missing: list[LeaseKey] = []
        """and what is to be ours and we do not hold, in the order in which it is dealt with."""
        self._assigned_for: tuple[tuple[MemberId, ...], int] | None = None
        self._compared: Renewal | None = None
        """The last renewal that what we believe was compared with."""
        self._move_at = 0
        self._ask_at = 0

    def shards(self, lane: Lane) -> tuple[int, ...]:
        """Return the shards whose lane we own."""
        return self._shards.get(lane, ())

    def fence(self, lane: Lane, shards: Iterable[int]) -> Fence:
        """Return the fence for writing to shards of a lane that we own."""
        member = self._membership.id
        assert member is not None, "only a member writes"
        held = self._by_shard[lane]
        return Fence(member, tuple([held[shard] for shard in sorted(set(shards))]))

    def owns(self, key: LeaseKey) -> bool:
        """Say whether a lease is ours, as far as we know."""
        return key in self.leases

    def balance(self, *, is_holding: bool) -> None:
        """Give up what is not to be ours, ask for what is; at most one order of each."""
        self._compare()
        self._assign(is_holding=is_holding)
        monotonic = self._around.clock.monotonic_us()
        surplus = self._surplus
        if surplus and (is_holding or monotonic >= self._move_at):
            share = max(1, int(len(self.leases) * self._around.settings.move_share))
            self._move_at = monotonic + self._around.settings.move_every_us
            self._release(surplus if is_holding else surplus[:share])
        if self._missing and monotonic >= self._ask_at:
            self._ask_at = monotonic + self._around.settings.acquire_every_us
            self._acquire(self._missing)

    def next_at(self) -> int | None:
        """Return when there is something to give up or to ask for; None while all is settled."""
        times = [self._move_at] if self._surplus else []
        times += [self._ask_at] if self._missing else []
        return min(times, default=None)

    def lose(self, keys: Iterable[LeaseKey]) -> None:
        """Forget leases that the store says are not ours."""
        lost = [key for key in keys if key in self.leases]
        if not lost:
            return
        names = tuple(_name(key) for key in lost)
        member = self._membership.number()
        self._around.telemetry.emit(LeasesLost(member=member, leases=names))
        self._forget(lost)
        self._membership.renew_soon()

    def clear(self) -> None:
        """Forget everything, as one does who is declared dead."""
        self._wanted, self._assigned_for, self._compared = set(), None, None
        self._forget(list(self.leases))
        self._move_at = self._ask_at = 0

    def _assign(self, *, is_holding: bool) -> None:
        renewal, member = self._membership.renewal, self._membership.id
        assert renewal is not None, "one renews before one owns"
        if is_holding:
            self._assigned_for = None
            if self._wanted:
                self._wanted = set()
                self._note_leases()
            return
        seen = (renewal.dispatchers, renewal.shards)
        if seen == self._assigned_for:
            return
        self._assigned_for = seen
        owners = assign(*seen)
        self._wanted = {key for key, owner in owners.items() if owner == member}
        self._note_leases()

    def _acquire(self, missing: list[LeaseKey]) -> None:
        member = self._membership.id
        assert member is not None, "only a member acquires"
        try:
            acquired = self._around.store.acquire_leases(member, missing)
        except StoreError:
            self._membership.renew_soon()
            raise
        self._adopt(acquired)

    def _adopt(self, acquired: Iterable[Lease]) -> None:
        new = {lease.key: lease for lease in acquired}
        self.leases |= new
        if new:
            self._note_leases()
            names = tuple(_name(key) for key in _by_lane(new))
            member = self._membership.number()
            self._around.telemetry.emit(LeasesAcquired(member=member, leases=names))

    def _release(self, surplus: list[LeaseKey]) -> None:
        member = self._membership.id
        assert member is not None, "only a member releases"
        fence = Fence(member, tuple(self.leases[key] for key in surplus))
        # Whatever becomes of the order, we do not write under these any more.
        self._forget(surplus)
        try:
            self._around.store.release_leases(fence)
        except StoreError:
            self._membership.renew_soon()
            raise
        names = tuple(_name(key) for key in surplus)
        self._around.telemetry.emit(LeasesReleased(member=member, leases=names))

    def _compare(self) -> None:
        """Believe the store about what is ours, as of the last renewal.

        An order whose answer we gave up waiting for may have been carried out, then or much later;
        and then nobody would fire what we own and do not know of.
        """
        renewal = self._membership.renewal
        if renewal is None or renewal is self._compared:
            return
        self._compared = renewal
        ours = {lease.key: lease for lease in renewal.leases}
        self._forget([key for key, lease in self.leases.items() if ours.get(key) != lease])
        self._adopt(lease for key, lease in ours.items() if key not in self.leases)

    def _forget(self, keys: Iterable[LeaseKey]) -> None:
        shards = set()
        for key in keys:
            del self.leases[key]
            if key.lane is Lane.LIVE:
                shards.add(key.shard)
        self._note_leases()
        if shards:
            self._dropped(shards)

    def _note_leases(self) -> None:
        """Remember what is asked for at every tick and every batch."""
        self._by_shard = {lane: {} for lane in Lane}
        for key, lease in self.leases.items():
            self._by_shard[key.lane][key.shard] = lease
        self._shards = {lane: tuple(sorted(held)) for lane, held in self._by_shard.items()}
        self._surplus = _by_lane(self.leases.keys() - self._wanted)
        self._missing = _by_lane(self._wanted - self.leases.keys())
        self.live = frozenset(self._shards[Lane.LIVE])


def _by_lane(keys: Iterable[LeaseKey]) -> list[LeaseKey]:
    """Put live lanes before catch-up before maintenance."""
    return sorted(keys, key=lambda key: (_ORDER[key.lane], key.shard))


def _name(key: LeaseKey) -> str:
    return f"{key.shard}/{key.lane}"
