"""Catch-up and backfills, in the gaps of live work.

`Backfilling` advances backfills. Each is a row with a cursor in the store. A step proposes the
next few occurrences under the maintenance lease. The store decides each by its current state, and
returns the new cursor.

`CatchUpLane` drains occurrences that were missed. They are stored as ranges. Each step settles
part of one range by the misfire policy of that moment, and writes it under the catch-up lease.
Ranges take turns. `CatchUpPace` says how many in a second: as many as were set for the fleet, or
more and more for as long as live work is punctual, and never fewer than the floor.

`IdleTime` lets a step begin when it fits in before live work is due. Where there is no gap, these
lanes still get a tenth of the time; catch-up gets more while it does not make live work late.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeGuard

from duly.domain.backfill import BackfillSpan, next_step
from duly.domain.enums import Lane, Overlap
from duly.domain.fire_planning import Settlement, settle
from duly.engine.dispatcher.leases import MAINTENANCE
from duly.engine.spans import made_spans
from duly.errors import STORE_AWAY
from duly.store.ports.backfill import STEP_MAX, StepBackfill
from duly.store.ports.dispatch import CatchUpRangeRecord, DrainOwed, FireResult, LeaseKey
from duly.timetable.instants import MINUTE, SECOND_US

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.clock import Clock
    from duly.domain.ids import BackfillId, ScheduleId
    from duly.engine.dispatcher.context import DispatcherContext, Statistics
    from duly.engine.dispatcher.fire_planner import Templates
    from duly.engine.dispatcher.leases import Membership, Ownership
    from duly.engine.dispatcher.settings import DispatcherSettings
    from duly.engine.store_clock import ClockSync
    from duly.store.ports.backfill import BackfillRecord


MINUTE_US = MINUTE * SECOND_US


@dataclass(slots=True)
class _Pace:
    """How far a backfill, or the catching up of one schedule, may go just now."""

    allowed_us: int
    """How much of its rate is unused, in microseconds of it; a run costs its share."""
    counted_at: int
    run_us: int = 0
    """What a run costs."""
    wait_until: int = 0
    """As many of its runs are open as may be; until then we do not ask again."""

    def next_at(self, per_minute: int, monotonic: int) -> int:
        """Return when the next run may be made, on the monotonic clock."""
        self.run_us = run_us = MINUTE_US // per_minute
        # What was saved up is no more than a second's worth: an idle hour earns no flood.
        most_us = max(run_us, SECOND_US)
        self.allowed_us = min(self.allowed_us + monotonic - self.counted_at, most_us)
        self.counted_at = monotonic
        return max(self.wait_until, monotonic + max(0, run_us - self.allowed_us))


class Backfilling:
    """The backfills that go on, and how far each may go."""

    def __init__(  # noqa: PLR0913 - the parts that filling in brings together
        self,
        around: DispatcherContext,
        templates: Templates,
        *,
        membership: Membership,
        ownership: Ownership,
        gaps: IdleTime,
    ) -> None:
        self._around = around
        self._templates = templates
        self._membership = membership
        self._ownership = ownership
        self._gaps = gaps
        self._active: list[BackfillRecord] = []
        self._paces: dict[BackfillId, _Pace] = {}
        self._look_at = 0
        self._stepped_at = 0

    def forget(self) -> None:
        """Believe nothing; what is active is read anew."""
        self._active = []
        self._look_at = 0

    def go_on(self, *, is_live_due: bool) -> None:
        """Do a step of each backfill that may go on; of one now and then while work is due."""
        monotonic = self._around.clock.monotonic_us()
        is_starved = monotonic - self._stepped_at >= self._around.settings.backfill_reserve_us
        if not self._ownership.owns(MAINTENANCE) or (is_live_due and not is_starved):
            return
        if monotonic >= self._look_at:
            self._look(monotonic)
        for record in tuple(self._active):
            if not self._membership.may_write():
                return
            if self._next_at(record, monotonic) > monotonic:
                continue
            if not is_starved and not self._gaps.has_room():
                return
            is_starved = False
            self._stepped_at = self._around.clock.monotonic_us()
            self._step(record, monotonic)
            self._gaps.note(self._stepped_at)
            if is_live_due:
                return

    def next_at(self) -> int | None:
        """Return when a step is due, or we look for new ones; None while somebody else does it."""
        if not self._ownership.owns(MAINTENANCE):
            return None
        monotonic = self._around.clock.monotonic_us()
        due = [self._next_at(record, monotonic) for record in self._active]
        return max(min([self._look_at, *due]), self._gaps.until)

    def _look(self, monotonic: int) -> None:
        settings = self._around.settings
        self._look_at = monotonic + settings.backfills_every_us
        self._active = self._around.store.load_backfills(settings.backfills_max)
        known = {record.id for record in self._active}
        self._paces = {one: pace for one, pace in self._paces.items() if one in known}
        for record in self._active:
            if record.id not in self._paces:
                self._paces[record.id] = _Pace(MINUTE_US // record.per_minute, monotonic)

    def _next_at(self, record: BackfillRecord, monotonic: int) -> int:
        """Return when a backfill may make its next run, on the monotonic clock."""
        return self._paces[record.id].next_at(record.per_minute, monotonic)

    def _step(self, record: BackfillRecord, monotonic: int) -> None:
        key = (record.schedule_id, record.definition_number)
        template = self._templates.fetch([key]).get(key)
        if template is None or record.cursor is None:
            self._set_aside(record, monotonic, "its definition can't be read")
            return
        pace, run_us = self._paces[record.id], MINUTE_US // record.per_minute
        runs_max = pace.allowed_us // run_us
        try:
            span = BackfillSpan(record.since, record.until, record.order, record.cursor)
            step = next_step(template, span, record.id, STEP_MAX)
            order = StepBackfill(
                fence=self._ownership.fence(Lane.BACKFILL, [MAINTENANCE.shard]),
                id=record.id,
                expected_cursor=record.cursor,
                slots=step.slots,
                cursor=step.cursor,
                runs_max=runs_max,
            )
            stepped = self._around.store.step_backfill(order)
        except STORE_AWAY:
            self.forget()
            raise
        except Exception as error:  # noqa: BLE001 - one bad backfill must not stop the others
            self._set_aside(record, monotonic, f"it can't go on: {error!r}")
            return
        pace.allowed_us -= stepped.made * run_us
        self._around.statistics.backfilled += stepped.made
        self._active.remove(record)
        match stepped.result:
            case FireResult.FIRED if _has_more(stepped.record):
                self._active.append(stepped.record)
            case FireResult.BUSY:
                pace.wait_until = monotonic + self._around.settings.backfill_busy_us
                self._active.append(record)
            case FireResult.FENCED:
                self._ownership.lose([MAINTENANCE])
            case _:
                pass  # it is done, or somebody has changed it: the next look tells

    def _set_aside(self, record: BackfillRecord, monotonic: int, problem: str) -> None:
        self._paces[record.id].wait_until = monotonic + self._around.settings.set_aside_us
        self._around.statistics.set_aside += 1
        self._membership.tell_set_aside("backfill", record.schedule_id, problem)


def _has_more(record: BackfillRecord | None) -> TypeGuard[BackfillRecord]:
    return record is not None and record.cursor is not None


PACE_LOOK_US = SECOND_US // 4
LATE_BITS = 15
"""Live work is late when it fires later than this power of two of a microsecond, 33 ms..."""
LATE_SHARE = 0.01
"""...more often than this."""
PACE_LEAD = 4
"""A rate is at most so many times what was really caught up: else it could not be lowered soon."""
PACE_MAX = 20_000
"""More in a second are never made of what was missed: workers have to begin them, too."""


class CatchUpPace:
    """How many missed occurrences are run in a second, by the whole fleet."""

    def __init__(self, settings: DispatcherSettings, statistics: Statistics) -> None:
        self._set = settings.catch_up_per_second
        self._statistics = statistics
        self.floor = min(settings.catch_up_floor_per_second, self._set or PACE_MAX)
        self.per_second = self.floor if self._set is None else self._set
        self._counts: list[int] = []
        self._made = 0
        self._look_at = 0
        self.part = 1.0
        """Of the fleet's rate, what this dispatcher may make: its part of the shards."""

    def run_us(self, per_second: float) -> int:
        """Return how much of its part of a rate a run costs."""
        return max(1, int(SECOND_US / (per_second * self.part)))

    @property
    def ease(self) -> int:
        """Say how many times as long as a step took the next one waits for a gap."""
        return max(1, int(SHARE * self.floor / self.per_second))

    def rest(self) -> None:
        """Begin from the floor the next time: there is nothing to catch up."""
        if self._set is None:
            self.per_second = self.floor

    def adapt(self, monotonic: int, *, is_live_due: bool) -> None:
        """Go faster while live work is punctual, and half as fast when it is not."""
        if self._set is not None or monotonic < self._look_at:
            return
        counts = list(self._statistics.lateness_counts)
        before, self._counts = self._counts or counts, counts
        fired = [now - then for now, then in zip(counts, before, strict=True)]
        is_late = sum(fired[LATE_BITS + 1 :]) > LATE_SHARE * sum(fired)
        # What is due and has not fired by now is in no count.
        if is_late or (is_live_due and not sum(fired)):
            self.per_second = max(self.floor, self.per_second / 2)
        else:
            self.per_second = min(self._most(monotonic), self.per_second * 5 / 4)
        self._made = self._statistics.caught_up
        self._look_at = monotonic + PACE_LOOK_US

    def _most(self, monotonic: int) -> float:
        """Return the highest rate that makes sense, given what was caught up since the last look.

        Without any it is the one at which half of the time is spent on that.
        """
        passed_us = PACE_LOOK_US + monotonic - self._look_at
        made = (self._statistics.caught_up - self._made) * SECOND_US / passed_us
        made /= self.part
        return min(PACE_MAX, max(SHARE * self.floor, PACE_LEAD * made))


RESTING_MAX = 1000
"""So many schedules that may not catch up faster are remembered; others are read again."""


class CatchUpLane:
    """The ranges that we are draining, and how much the rate allows just now."""

    def __init__(  # noqa: PLR0913 - the parts that draining brings together
        self,
        around: DispatcherContext,
        sync: ClockSync,
        templates: Templates,
        *,
        membership: Membership,
        ownership: Ownership,
        gaps: IdleTime,
    ) -> None:
        self._around = around
        self._sync = sync
        self._templates = templates
        self._membership = membership
        self._ownership = ownership
        self._gaps = gaps
        self._ranges: deque[CatchUpRangeRecord] = deque()
        self._after: CatchUpRangeRecord | None = None
        """The last range of a page that was full: the next look goes on behind it."""
        self._look_at = 0
        self._paces: dict[ScheduleId, _Pace] = {}
        self._resting: dict[ScheduleId, tuple[int, CatchUpRangeRecord]] = {}
        """Ranges of schedules with a rate of their own, and when each may go on."""
        self._pace = CatchUpPace(around.settings, around.statistics)
        self._allowed_us = 0
        """How much of the rate is unused, in microseconds of it; a run costs its share,"""
        self._floor_us = 0
        """and the same of the floor."""
        self._counted_at = 0
        self._turn_us = around.settings.catch_up_turn_us
        """How much of the rate is saved up before it is spent."""

    def notice(self) -> None:
        """Look for new ranges at the next tick: something was made owed."""
        self._look_at = 0

    def forget(self) -> None:
        """Believe nothing about ranges; they are read anew."""
        self._ranges.clear()
        self._resting.clear()
        self._paces.clear()
        self._after = None
        self._look_at = 0

    def drain(self, *, is_live_due: bool) -> None:
        """Settle parts of some ranges, as far as the rate and fresh work allow."""
        settings = self._around.settings
        monotonic = self._around.clock.monotonic_us()
        self._accrue(monotonic)
        shards = self._ownership.shards(Lane.CATCH_UP)
        if not shards:
            return
        renewal = self._membership.renewal
        self._pace.part = 1.0 if renewal is None else min(1.0, len(shards) / renewal.shards)
        turn_us = max(self._turn_us, self._pace.run_us(self._pace.per_second))
        if (is_live_due and not self._is_starved) or self._allowed_us < turn_us:
            return
        self._look(shards, monotonic)
        if not self._ranges:
            self._pace.rest()
            if not self._resting:
                self._paces.clear()
            return
        self._pace.adapt(monotonic, is_live_due=is_live_due)
        for _ in range(min(settings.catch_up_ranges_per_tick, len(self._ranges))):
            if not self._may_go_on(is_live_due=is_live_due):
                return
            began_at = self._around.clock.monotonic_us()
            self._drain_one(self._ranges.popleft())
            self._gaps.note(began_at)

    def _may_go_on(self, *, is_live_due: bool) -> bool:
        """Say whether a step may begin: in a gap of live work, or because of the floor."""
        if self._allowed_us < self._pace.run_us(self._pace.per_second):
            return False
        if not self._membership.may_write():
            return False
        if self._is_starved:
            return True
        return not is_live_due and self._gaps.has_room(self._pace.ease)

    @property
    def _is_starved(self) -> bool:
        """Whether less than the floor was caught up, for a second or what one run takes of it."""
        return self._floor_us >= max(SECOND_US, self._pace.run_us(self._pace.floor))

    def next_at(self, monotonic: int) -> int | None:
        """Return when there may be something to drain; None when no catch-up lane is ours."""
        if not self._ownership.shards(Lane.CATCH_UP):
            return None
        turn_us = max(self._turn_us, self._pace.run_us(self._pace.per_second))
        allowed_at = self._counted_at + turn_us - self._allowed_us
        rested_at = min((at for at, _ in self._resting.values()), default=self._look_at)
        wanted_at = monotonic if self._ranges else min(self._look_at, rested_at)
        return max(wanted_at, allowed_at, self._gaps.until)

    def _accrue(self, monotonic: int) -> None:
        """Let the rate grow with time, up to a second's worth: an idle hour earns no flood."""
        passed_us, self._counted_at = monotonic - self._counted_at, monotonic
        most_us = max(SECOND_US, self._pace.run_us(self._pace.floor))
        self._allowed_us = min(self._allowed_us + passed_us, most_us)
        self._floor_us = min(self._floor_us + passed_us, most_us)

    def _look(self, shards: tuple[int, ...], monotonic: int) -> None:
        rested = [one for one, (at, _) in self._resting.items() if at <= monotonic]
        self._ranges.extend(self._resting.pop(one)[1] for one in rested)
        if self._ranges or monotonic < self._look_at:
            return
        page = self._around.settings.catch_up_page
        self._look_at = monotonic + self._around.settings.catch_up_every_us
        found = self._around.store.load_owed(shards, page, self._after)
        self._ranges.extend(one for one in found if one.owed.schedule_id not in self._resting)
        # A full page is followed by the next, and not by itself: what is not due yet must not hide
        # what is. At the end it waits, and starts from the beginning.
        is_full = len(found) >= page
        self._after = found[-1] if is_full else None
        if is_full:
            self._look_at = monotonic

    def _drain_one(self, record: CatchUpRangeRecord) -> None:
        owed, key = record.owed, LeaseKey(record.shard, Lane.CATCH_UP)
        if not self._ownership.owns(key):
            return
        settlement = self._settlement(record)
        if settlement is None or owed.schedule_id in self._resting:
            return
        if settlement == Settlement(owed=owed):
            return  # nothing of it is due yet; it is read again at the next look
        order = DrainOwed(
            fence=self._ownership.fence(Lane.CATCH_UP, [record.shard]),
            shard=record.shard,
            owed=owed,
            settlement=settlement,
        )
        # Spent before it is sent: after a lost answer the runs may well be there.
        self._spend(owed.schedule_id, len(settlement.runs))
        try:
            result = self._around.store.drain_owed(order)
        except STORE_AWAY:
            self.forget()
            raise
        except Exception as error:  # noqa: BLE001 - one bad range must not stop the others
            self._complain(record, f"it can't be drained: {error!r}")
            return
        self._conclude(record, settlement, result)

    def _settlement(self, record: CatchUpRangeRecord) -> Settlement | None:
        """Decide a part of a range; None when it can't be decided."""
        owed = record.owed
        key = (owed.schedule_id, owed.definition_number)
        template = self._templates.fetch([key]).get(key)
        if template is None:
            self._complain(record, "its definition can't be read")
            return None
        now = self._sync.floor_now(self._around.clock.monotonic_us())
        run_us = self._pace.run_us(self._pace.per_second)
        runs_max = min(self._around.settings.catch_up_per_range, self._allowed_us // run_us)
        per_minute = template.definition.misfire.per_minute
        if per_minute is not None:
            runs_max = min(runs_max, self._allowed_of(record, per_minute))
            if not runs_max:
                return None
        if template.definition.overlap is not Overlap.ALLOW:
            runs_max = min(runs_max, 1)  # the next one when this one is over
        try:
            return settle(template, owed.first_for, owed.last_for, now, runs_max)
        except Exception as error:  # noqa: BLE001 - as above
            self._complain(record, f"it can't be settled: {error!r}")
            return None

    def _allowed_of(self, record: CatchUpRangeRecord, per_minute: int) -> int:
        """Return how many runs a schedule's own rate allows; if none, its range rests."""
        schedule_id, monotonic = record.owed.schedule_id, self._around.clock.monotonic_us()
        pace = self._paces.setdefault(schedule_id, _Pace(MINUTE_US // per_minute, monotonic))
        next_at = pace.next_at(per_minute, monotonic)
        if next_at > monotonic and len(self._resting) < RESTING_MAX:
            self._resting[schedule_id] = (next_at, record)
        return pace.allowed_us // pace.run_us

    def _spend(self, schedule_id: ScheduleId, runs: int) -> None:
        pace = self._paces.get(schedule_id)
        if pace is not None:
            pace.allowed_us -= runs * pace.run_us
        self._allowed_us -= runs * self._pace.run_us(self._pace.per_second)
        self._floor_us -= runs * self._pace.run_us(self._pace.floor)
        self._floor_us = max(self._floor_us, 0)

    def _conclude(
        self, record: CatchUpRangeRecord, settlement: Settlement, result: FireResult
    ) -> None:
        if result is FireResult.FIRED:
            self._around.statistics.caught_up += len(settlement.runs)
            self._trace(record, settlement)
            if settlement.owed is not None:
                self._ranges.append(replace(record, owed=settlement.owed))
        elif result is FireResult.FENCED:
            self._around.statistics.fenced += 1
            self._ownership.lose([LeaseKey(record.shard, Lane.CATCH_UP)])

    def _trace(self, record: CatchUpRangeRecord, settlement: Settlement) -> None:
        """Tell the spans of runs that were made, if anybody has asked for them."""
        tracing = self._around.tracing
        if tracing is not None:
            owed, now = record.owed, self._around.clock.now_us()
            key = (owed.schedule_id, owed.definition_number)
            template = self._templates.fetch([key]).get(key)
            spans = made_spans(settlement.runs, template, self._membership.number())
            tracing.tell(spans, now, now)

    def _complain(self, record: CatchUpRangeRecord, problem: str) -> None:
        self._around.statistics.set_aside += 1
        self._membership.tell_set_aside("owed", record.owed.schedule_id, problem)


SHARE = 10
"""Where there is no gap, what can wait still gets a tenth of the time."""


class IdleTime:
    """How long a step of what can wait takes, and whether one fits in before live work is due."""

    def __init__(self, clock: Clock, live_at: Callable[[int], int | None]) -> None:
        self.until = 0
        """Before this nothing fits in, on the monotonic clock."""
        self._clock = clock
        self._live_at = live_at
        self._cost_us = 0
        self._ended_at = 0

    def has_room(self, ease: int = SHARE) -> bool:
        """Say whether a step may begin now; if not, `until` says when to ask again.

        Where there is no gap, it may when so many times as long has passed as the last one took.
        """
        monotonic = self._clock.monotonic_us()
        due_at = self._live_at(monotonic)
        if due_at is None or due_at > monotonic + self._cost_us:
            return True
        its_turn_at = self._ended_at + ease * self._cost_us
        self.until = min(due_at, its_turn_at)
        return monotonic >= its_turn_at

    def note(self, began_at: int) -> None:
        """Note how long a step took: one that was held up counts for a quarter."""
        self._ended_at = self._clock.monotonic_us()
        self._cost_us = (3 * self._cost_us + self._ended_at - began_at) // 4
