"""The dispatcher: composes membership, ownership, loading, firing, catch-up and maintenance.

`Dispatcher` is one sequential service. A tick does a bounded amount of work and returns when to
wake it, on the monotonic clock. The dispatcher reads only the clock that it is given, keeps no
global state, and reaches the store through its ports alone. Its view of the store may be outdated,
so the store compares before it writes.

What happens when
- a dispatcher dies: its lease expires, the others see it missing in their next renewal, acquire
  its shards at a higher epoch and load them from the beginning of time; a timer that exists has
  not fired;
- it was only paused: its next write or renewal is refused; it forgets everything and joins anew;
- an answer is lost: the timers of that batch are forgotten and read again;
- the store is away: ticks back off, and past its own count of the lease the dispatcher only tries
  to renew;
- a clock is wrong: it gives up its leases and watches until the clocks agree again.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from duly.domain.enums import Lane
from duly.engine.dispatcher.background_lanes import Backfilling, CatchUpLane, IdleTime
from duly.engine.dispatcher.context import DispatcherContext, Node
from duly.engine.dispatcher.fire_planner import FirePlanner, Templates
from duly.engine.dispatcher.firing import Firing
from duly.engine.dispatcher.leases import Membership, Ownership
from duly.engine.dispatcher.maintenance import Maintenance
from duly.engine.dispatcher.settings import DispatcherSettings
from duly.engine.dispatcher.timer_loader import Loader
from duly.engine.dispatcher.tzdata_update import Retiming
from duly.engine.store_clock import ClockSync
from duly.errors import LeaseLost, StoreUnavailable
from duly.telemetry import (
    ClockStepped,
    NullTelemetry,
    SkewHoldBegun,
    SkewHoldEnded,
    StoreLost,
    StoreRecovered,
    TzdataOutdated,
)

if TYPE_CHECKING:
    from duly.clock import Clock
    from duly.engine.dispatcher.context import BeginFire, Statistics
    from duly.store.ports import Store
    from duly.store.ports.dispatch import MemberId
    from duly.telemetry import Telemetry
    from duly.telemetry.tracing import Tracing


class Dispatcher:
    """Owns shards of time and fires what is due in them."""

    def __init__(  # noqa: PLR0913 - what it works with, each replaceable
        self,
        store: Store,
        clock: Clock,
        settings: DispatcherSettings | None = None,
        *,
        telemetry: Telemetry | None = None,
        node: Node | None = None,
        begin_fire: BeginFire | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        self._around = around = DispatcherContext(
            store=store,
            clock=clock,
            settings=settings or DispatcherSettings(),
            telemetry=telemetry or NullTelemetry(),
            node=node or Node(),
            begin_fire=begin_fire,
            tracing=tracing,
        )
        self._sync = sync = ClockSync(clock, around.settings)
        self._membership = membership = Membership(around, sync)
        self._templates = templates = Templates(around)
        self._loader = loader = Loader(around, sync)
        self._ownership = ownership = Ownership(around, membership, loader.drop)
        self._plans = plans = FirePlanner(around, loader, templates, membership)
        self._firing = Firing(
            around, sync, loader, plans, membership=membership, ownership=ownership
        )
        gaps = IdleTime(clock, self._firing.next_at)
        self._catch_up = CatchUpLane(
            around, sync, templates, membership=membership, ownership=ownership, gaps=gaps
        )
        self._firing.owed_noticed = self._catch_up.notice
        self._backfilling = Backfilling(
            around, templates, membership=membership, ownership=ownership, gaps=gaps
        )
        self._retiming = Retiming(around, sync, templates, membership)
        self._maintenance = Maintenance(around, membership, ownership)
        self._is_stopped = False
        self._was_skewed = False
        self._was_outdated = False
        self._lost_at: int | None = None
        self._backoff_us = around.settings.backoff_min_us
        self._retry_at = 0

    @property
    def member(self) -> MemberId | None:
        """Our id in the fleet; None while we have none."""
        return self._membership.id

    @property
    def statistics(self) -> Statistics:
        """What was done so far."""
        return self._around.statistics

    @property
    def is_holding(self) -> bool:
        """Whether we own nothing on purpose: our clock is off, or our rules are old."""
        return self._sync.is_skewed or self._retiming.is_outdated()

    @property
    def skew_us(self) -> int:
        """The store's clock less ours, as last measured."""
        return self._sync.skew_us

    @property
    def loaded(self) -> int:
        """How many timers are in memory."""
        return len(self._loader.wheel) + len(self._loader.backlog)

    def shards(self, lane: Lane = Lane.LIVE) -> tuple[int, ...]:
        """Return the shards whose lane we own."""
        return self._ownership.shards(lane)

    def wake(self) -> None:
        """Look at the arrivals feed at the next tick; somebody has written something near."""
        self._loader.wake()

    def tick(self) -> int:
        """Do a bounded amount of work; return when to be called next, on the monotonic clock."""
        monotonic = self._around.clock.monotonic_us()
        if self._is_stopped:
            return monotonic + self._around.settings.renew_every_us
        if monotonic < self._retry_at:
            return self._retry_at
        try:
            wake_at = self._work()
        except StoreUnavailable as error:
            return self._back_off(error)
        except LeaseLost:
            self._membership.renew_soon()
            wake_at = self._around.clock.monotonic_us()
        self._note_recovery()
        return wake_at

    def stop(self) -> None:
        """Leave the fleet: give up all leases at once, so that others go on in the same second."""
        self._is_stopped = True
        # If the store can't be told, our lease runs out by itself.
        with suppress(StoreUnavailable, LeaseLost):
            self._membership.leave()
        self._forget_everything()

    def _work(self) -> int:
        if not self._take_part():
            return self._around.clock.monotonic_us()
        self._report_clock()
        is_holding = self._report_holding()
        self._ownership.balance(is_holding=is_holding)
        self._loader.own(self._ownership.shards(Lane.LIVE))
        self._loader.read()
        self._report_clock()
        is_live_due = False
        if not self._sync.is_held(self._around.clock.monotonic_us()):
            is_live_due = self._fire()
            self._catch_up.drain(is_live_due=is_live_due)
        if self._lost_at is not None:
            self._maintenance.doubt(self._around.clock.monotonic_us() - self._lost_at)
        self._maintenance.tend(is_live_due=is_live_due)
        is_planning = self._plans.make_ahead(is_live_due=is_live_due)
        self._backfilling.go_on(is_live_due=is_live_due)
        if not is_live_due:
            self._retiming.go_on()
        return self._wake_at(is_more=is_live_due or is_planning)

    def _take_part(self) -> bool:
        """Join or renew when it is time; False when we must begin anew."""
        membership = self._membership
        if membership.id is None:
            self._forget_everything()
            self._loader.begin()
            membership.join()
            self._maintenance.doubt()
        elif self._around.clock.monotonic_us() < membership.renew_at:
            return True
        if membership.renew(is_holding=self.is_holding):
            return True
        self._forget_everything()
        return False

    def _fire(self) -> bool:
        """Fire what is due, a few batches at most; say whether more is due right now."""
        settings, clock = self._around.settings, self._around.clock
        ends = clock.monotonic_us() + settings.fire_slice_us
        for _ in range(settings.batches_per_tick):
            if not self._firing.fire():
                return False
            if not self._membership.may_write():
                return True
            if clock.monotonic_us() >= ends:
                break
        monotonic = clock.monotonic_us()
        next_at = self._firing.next_at(monotonic)
        return next_at is not None and next_at <= monotonic

    def _wake_at(self, *, is_more: bool) -> int:
        """Return the first instant at which any part has something to do."""
        monotonic = self._around.clock.monotonic_us()
        if is_more or self._membership.id is None:
            return monotonic
        firing_at = self._firing.next_at(monotonic)
        catch_up_at = self._catch_up.next_at(monotonic)
        held_until = self._sync.held_until
        times = [
            self._membership.renew_at,
            self._ownership.next_at(),
            self._loader.next_at(monotonic),
            None if firing_at is None else max(firing_at, held_until),
            None if catch_up_at is None else max(catch_up_at, held_until),
            self._maintenance.next_at(),
            self._backfilling.next_at(),
            self._retiming.next_at(),
        ]
        return max(monotonic, min(at for at in times if at is not None))

    def _report_holding(self) -> bool:
        """Say when a hold begins or ends, and let the fleet know with the next renewal."""
        telemetry, member = self._around.telemetry, self._membership.number()
        if self._sync.is_skewed != self._was_skewed:
            self._was_skewed = self._sync.is_skewed
            event = SkewHoldBegun if self._was_skewed else SkewHoldEnded
            telemetry.emit(event(member=member, skew_us=self._sync.skew_us))
            self._membership.renew_soon()
        is_outdated = self._retiming.is_outdated()
        if is_outdated != self._was_outdated:
            self._was_outdated = is_outdated
            self._membership.renew_soon()
            renewal = self._membership.renewal
            if is_outdated and renewal is not None:
                ours = self._around.node.zones.version
                telemetry.emit(TzdataOutdated(member=member, ours=ours, newest=renewal.tzdata))
        return self.is_holding

    def _report_clock(self) -> None:
        step_us = self._sync.take_step()
        if step_us is not None:
            event = ClockStepped(member=self._membership.number(), step_us=step_us)
            self._around.telemetry.emit(event)

    def _back_off(self, error: StoreUnavailable) -> int:
        """Wait a little longer each time, but never long: a lease may hang on it."""
        monotonic = self._around.clock.monotonic_us()
        self._loader.doubt()
        if self._lost_at is None:
            self._lost_at = monotonic
            self._around.statistics.store_losses += 1
            event = StoreLost(member=self._membership.number(), problem=str(error))
            self._around.telemetry.emit(event)
        self._retry_at = monotonic + self._backoff_us
        self._backoff_us = min(2 * self._backoff_us, self._around.settings.backoff_max_us)
        return self._retry_at

    def _note_recovery(self) -> None:
        if self._lost_at is None:
            return
        lost_us = self._around.clock.monotonic_us() - self._lost_at
        self._lost_at = None
        self._backoff_us = self._around.settings.backoff_min_us
        event = StoreRecovered(member=self._membership.number(), lost_us=lost_us)
        self._around.telemetry.emit(event)

    def _forget_everything(self) -> None:
        self._ownership.clear()
        self._catch_up.forget()
        self._backfilling.forget()
