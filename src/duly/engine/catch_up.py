"""Catch-up: drains what is owed after an outage, at a set rate, beside fresh work (F8, M3).

What was missed is a range in the store. Each step settles a part of one range against the misfire
policy as it is at that moment, and writes it under the catch-up lease. Ranges take turns.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

from duly.domain.instants import SECOND_US
from duly.domain.literals import Lane, Overlap
from duly.domain.settling import Settlement, settle
from duly.engine.spans import made_spans
from duly.errors import STORE_AWAY
from duly.store.dispatch import DrainOwed, FireResult, LeaseKey, OwedRecord

if TYPE_CHECKING:
    from duly.engine.clock_sync import ClockSync
    from duly.engine.gaps import Gaps
    from duly.engine.membership import Membership
    from duly.engine.ownership import Ownership
    from duly.engine.surroundings import Surroundings
    from duly.engine.templates import Templates


class CatchUp:
    """The ranges that we are draining, and how much the rate allows just now."""

    def __init__(  # noqa: PLR0913 - the parts that draining brings together
        self,
        around: Surroundings,
        sync: ClockSync,
        templates: Templates,
        *,
        membership: Membership,
        ownership: Ownership,
        gaps: Gaps,
    ) -> None:
        self._around = around
        self._sync = sync
        self._templates = templates
        self._membership = membership
        self._ownership = ownership
        self._gaps = gaps
        self._ranges: deque[OwedRecord] = deque()
        self._after: OwedRecord | None = None
        """The last range of a page that was full: the next look goes on behind it."""
        self._look_at = 0
        self._allowed_us = 0
        """How much of the rate is unused, in microseconds of it; a run costs its share."""
        self._counted_at = 0
        self._drained_at = 0
        self._run_us = max(1, SECOND_US // around.settings.catch_up_per_second)
        self._turn_us = max(self._run_us, around.settings.catch_up_turn_us)
        """How much of the rate is saved up before it is spent."""

    def notice(self) -> None:
        """Look for new ranges at the next tick: something was made owed."""
        self._look_at = 0

    def forget(self) -> None:
        """Believe nothing about ranges; they are read anew."""
        self._ranges.clear()
        self._after = None
        self._look_at = 0

    def drain(self, *, is_live_due: bool) -> None:
        """Settle parts of some ranges, as far as the rate and fresh work allow."""
        settings = self._around.settings
        monotonic = self._around.clock.monotonic_us()
        self._accrue(monotonic)
        shards = self._ownership.shards(Lane.CATCH_UP)
        is_starved = monotonic - self._drained_at >= settings.catch_up_reserve_us
        if not shards or (is_live_due and not is_starved) or self._allowed_us < self._turn_us:
            return
        self._look(shards, monotonic)
        turns = 1 if is_live_due else settings.catch_up_ranges_per_tick
        for _ in range(min(turns, len(self._ranges))):
            if self._allowed_us < self._run_us or not self._membership.may_write():
                return
            if not is_starved and not self._gaps.has_room():
                return
            is_starved = False
            self._drained_at = self._around.clock.monotonic_us()
            self._drain_one(self._ranges.popleft())
            self._gaps.note(self._drained_at)

    def next_at(self, monotonic: int) -> int | None:
        """Return when there may be something to drain; None when no catch-up lane is ours."""
        if not self._ownership.shards(Lane.CATCH_UP):
            return None
        allowed_at = self._counted_at + self._turn_us - self._allowed_us
        return max(monotonic if self._ranges else self._look_at, allowed_at, self._gaps.until)

    def _accrue(self, monotonic: int) -> None:
        """Let the rate grow with time, up to a second's worth: an idle hour earns no flood."""
        grown = self._allowed_us + monotonic - self._counted_at
        self._allowed_us = min(grown, SECOND_US)
        self._counted_at = monotonic

    def _look(self, shards: tuple[int, ...], monotonic: int) -> None:
        if self._ranges or monotonic < self._look_at:
            return
        page = self._around.settings.catch_up_page
        self._look_at = monotonic + self._around.settings.catch_up_every_us
        found = self._around.store.load_owed(shards, page, self._after)
        self._ranges.extend(found)
        # A full page is followed by the next, and not by itself: what is not due yet must not hide
        # what is. At the end it waits, and starts from the beginning.
        is_full = len(found) >= page
        self._after = found[-1] if is_full else None
        if is_full:
            self._look_at = monotonic

    def _drain_one(self, record: OwedRecord) -> None:
        owed, key = record.owed, LeaseKey(record.shard, Lane.CATCH_UP)
        if not self._ownership.owns(key):
            return
        settlement = self._settlement(record)
        if settlement is None or settlement == Settlement(owed=owed):
            return  # nothing of it is due yet; it is read again at the next look
        order = DrainOwed(
            fence=self._ownership.fence(Lane.CATCH_UP, [record.shard]),
            shard=record.shard,
            owed=owed,
            settlement=settlement,
        )
        # Spent before it is sent: after a lost answer the runs may well be there.
        self._allowed_us -= len(settlement.runs) * self._run_us
        try:
            result = self._around.store.drain_owed(order)
        except STORE_AWAY:
            self.forget()
            raise
        except Exception as error:  # noqa: BLE001 - one bad range must not stop the others
            self._complain(record, f"it can't be drained: {error!r}")
            return
        self._conclude(record, settlement, result)

    def _settlement(self, record: OwedRecord) -> Settlement | None:
        """Decide a part of a range; None when it can't be decided."""
        owed = record.owed
        key = (owed.schedule_id, owed.definition_number)
        template = self._templates.fetch([key]).get(key)
        if template is None:
            self._complain(record, "its definition can't be read")
            return None
        now = self._sync.floor_now(self._around.clock.monotonic_us())
        runs_max = min(self._around.settings.catch_up_per_range, self._allowed_us // self._run_us)
        if template.definition.overlap is not Overlap.ALLOW:
            runs_max = min(runs_max, 1)  # the next one when this one is over
        try:
            return settle(template, owed.first_for, owed.last_for, now, runs_max)
        except Exception as error:  # noqa: BLE001 - as above
            self._complain(record, f"it can't be settled: {error!r}")
            return None

    def _conclude(self, record: OwedRecord, settlement: Settlement, result: FireResult) -> None:
        if result is FireResult.FIRED:
            self._around.statistics.caught_up += len(settlement.runs)
            self._trace(record, settlement)
            if settlement.owed is not None:
                self._ranges.append(replace(record, owed=settlement.owed))
        elif result is FireResult.FENCED:
            self._around.statistics.fenced += 1
            self._ownership.lose([LeaseKey(record.shard, Lane.CATCH_UP)])

    def _trace(self, record: OwedRecord, settlement: Settlement) -> None:
        """Tell the spans of runs that were made, if anybody has asked for them."""
        tracing = self._around.tracing
        if tracing is not None:
            owed, now = record.owed, self._around.clock.now_us()
            key = (owed.schedule_id, owed.definition_number)
            template = self._templates.fetch([key]).get(key)
            spans = made_spans(settlement.runs, template, self._membership.number())
            tracing.tell(spans, now, now)

    def _complain(self, record: OwedRecord, problem: str) -> None:
        self._around.statistics.set_aside += 1
        self._membership.tell_set_aside("owed", record.owed.schedule_id, problem)
