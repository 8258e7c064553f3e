"""Missing occurrences: the part of the contract about finding what intent asks for (M1, D6, V3)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from duly.domain.concluding import Succeeded
from duly.domain.instants import to_microseconds
from duly.domain.literals import Missed, RunState, SkipReason
from duly.domain.missing import Cause, SlotKind
from duly.domain.planning import decide_restore, decide_resume
from duly.domain.timetable.cron import cron
from duly.domain.timetable.interval import every
from duly.store.dispatch import Renew
from duly.store.missing import MissingFilter, MissingRounds, find_missing
from duly.testing import factories
from duly.testing.conformance import steps
from duly.testing.conformance.last_ends import ended
from duly.testing.conformance.retention import KEEP, prune
from duly.testing.factories import DAY_US, HOUR_US

if TYPE_CHECKING:
    from duly.domain.missing import Slot
    from duly.domain.schedules import ScheduleRecord
    from duly.store.protocol import Store
    from duly.testing.manual_clock import ManualClock

ALL = frozenset(SlotKind)


def slots_of(store: Store, record: ScheduleRecord, since: int | None = None) -> list[Slot]:
    """Return what became of each occurrence that was expected of a schedule."""
    begin = store.now() - 30 * DAY_US if since is None else since
    command = MissingFilter(since=begin, schedule_id=record.id, kinds=ALL)
    return [one.slot for one in find_missing(store, command).found]


def kinds_of(store: Store, record: ScheduleRecord) -> Counter[str]:
    """Count what became of them."""
    return Counter(str(one.kind) for one in slots_of(store, record))


class FindingMissing:
    """What `find_missing` finds, and what it does not."""

    def test_what_was_fired_skipped_or_is_to_come_is_not_missing(
        self, store: Store, clock: ManualClock
    ) -> None:
        """M1: nothing is reported of a history that has no hole."""
        record = steps.create(store, timetable=every("1h"))
        assert [] == slots_of(store, record)
        for _ in range(3):
            record = steps.fire_due(store, clock, record)
        paused = steps.pause(store, record)
        clock.advance("2h")
        held = slots_of(store, paused)
        change = decide_resume(paused, store.now(), Missed.SKIP, None)
        record = steps.apply(store, paused, change)
        record = steps.fire_due(store, clock, record)

        assert [SlotKind.PRESENT] * 3 + [SlotKind.HELD] * 2 == [one.kind for one in held]
        assert {"paused"} == {one.reason for one in held[3:]}
        assert {"present": 4, "skipped": 2} == kinds_of(store, record)
        skipped = [one for one in slots_of(store, record) if one.kind is SlotKind.SKIPPED]
        assert {str(SkipReason.PAUSED)} == {one.reason for one in skipped}

    def test_what_nobody_has_fired_is_missing_while_nobody_keeps_time(
        self, store: Store, clock: ManualClock
    ) -> None:
        """M1, F5: each occurrence of it, and why; within the grace it is only due."""
        record = steps.create(store, timetable=every("1h"))
        steps.fall_due(clock, record)
        clock.advance("30s")
        due = slots_of(store, record)
        clock.advance("125m")
        missing = slots_of(store, record)
        holding = steps.join(store, ttl_us=DAY_US)
        store.renew(Renew(member=holding, skew_us=HOUR_US, is_holding=True))
        held = slots_of(store, record)
        steps.join(store, ttl_us=DAY_US)
        behind = slots_of(store, record)
        store.leave(holding)

        assert [SlotKind.DUE] == [one.kind for one in due]
        assert [Cause.NO_DISPATCHER] * 3 == [one.cause for one in missing]
        assert [False] * 3 == [one.was_kept for one in missing]
        assert {Cause.DISPATCHER_HOLDING} == {one.cause for one in held}
        assert {Cause.DISPATCHER_BEHIND} == {one.cause for one in behind}

    def test_what_was_pruned_is_unknown(self, store: Store, clock: ManualClock) -> None:
        """D6: and not missing."""
        record = steps.create(store, timetable=every("1h"))
        record, _ = ended(store, clock, record, Succeeded())
        record, _ = ended(store, clock, record, Succeeded())
        record = steps.fire_due(store, clock, record)
        clock.advance("30m")
        prune(store, replace(KEEP, outcomes_us={RunState.SUCCEEDED: 0}))

        assert {"unknown": 2, "present": 1} == kinds_of(store, record)

    def test_an_edit_leaves_to_the_old_rule_what_was_before_it(
        self, store: Store, clock: ManualClock
    ) -> None:
        """S4, T1: each rule asks for its own time, and no occurrence is asked for twice."""
        record = steps.create(store, timetable=every("1h"))
        for _ in range(2):
            record = steps.fire_due(store, clock, record)
        clock.advance("10m")
        edited = steps.edit(store, record, factories.definition(timetable=every("20m")))
        for _ in range(3):
            edited = steps.fire_due(store, clock, edited)
        found = slots_of(store, edited)

        assert {SlotKind.PRESENT} == {one.kind for one in found}
        assert 5 == len(found)

    def test_an_edit_of_what_is_overdue_leaves_it_owed(
        self, store: Store, clock: ManualClock
    ) -> None:
        """S4: by the old rule, up to the edit."""
        record = steps.create(store, timetable=every("1h"))
        steps.fall_due(clock, record)
        clock.advance("150m")
        edited = steps.edit(store, record, factories.definition(timetable=every("1d")))

        assert {"owed": 3} == kinds_of(store, edited)

    def test_a_deleted_schedule_misses_nothing(self, store: Store, clock: ManualClock) -> None:
        """S3: what falls into the time that it was gone is skipped when it is restored."""
        record = steps.fire_due(store, clock, steps.create(store, timetable=every("1h")))
        deleted = steps.delete(store, record)
        clock.advance("3h")
        gone = slots_of(store, deleted)
        restored = steps.apply(store, deleted, decide_restore(deleted, store.now(), None))

        assert [SlotKind.PRESENT] + [SlotKind.HELD] * 3 == [one.kind for one in gone]
        assert {"deleted"} == {one.reason for one in gone[1:]}
        assert {"present": 1, "skipped": 3} == kinds_of(store, restored)

    @pytest.mark.parametrize(
        ("noon", "hours"),
        [
            (datetime(2026, 3, 28, 12, tzinfo=UTC), [1, 0, 0]),
            (datetime(2026, 10, 24, 12, tzinfo=UTC), [0, 1, 1]),
        ],
        ids=["spring", "autumn"],
    )
    def test_on_a_night_of_a_clock_change_as_many_are_expected_as_there_are(
        self, store: Store, clock: ManualClock, noon: datetime, hours: list[int]
    ) -> None:
        """T2: 02:30 is once on each night, by the default policies; here its hour in UTC."""
        clock.set(to_microseconds(noon))
        nightly = cron("30 2 * * *", tz="Europe/Berlin")
        record = steps.create(store, timetable=nightly)
        for _ in hours:
            record = steps.fire_due(store, clock, record)
        clock.advance("1h")
        found = slots_of(store, record)

        assert [SlotKind.PRESENT] * 3 == [one.kind for one in found]
        assert hours == [one.scheduled_for % DAY_US // HOUR_US for one in found]

    def test_of_too_many_the_newest_are_looked_at_and_that_is_told(
        self, store: Store, clock: ManualClock
    ) -> None:
        """P3: a look has a bound, and says how far it went."""
        record = steps.create(store, timetable=every("1m"))
        clock.advance("3h")
        since = store.now() - 3 * HOUR_US
        command = MissingFilter(since=since, schedule_id=record.id, slots_max=100, kinds=ALL)
        page = find_missing(store, command)

        assert (100, 100) == (page.slots, len(page.found))
        ((cut),) = page.cut
        assert page.found[0].slot.scheduled_for == cut.since > since
        assert page.found[-1].slot.scheduled_for <= store.now()
        assert store.now() - page.found[-1].slot.scheduled_for < HOUR_US // 60

    def test_rounds_come_to_every_schedule_and_begin_again(
        self, store: Store, clock: ManualClock
    ) -> None:
        """V3, F3: a look costs no more than its bounds, and none is left out for ever."""
        for number in range(5):
            steps.create(store, f"s{number}", timetable=every("1h"), tenant="ab"[number % 2])
        clock.advance("90m")
        rounds = MissingRounds(store, schedules_max=2)
        looks = [rounds.look() for _ in range(4)]
        names = [[one.record.name for one in page.found] for page in looks]

        assert [["s0", "s2"], ["s4", "s1"], ["s3"], ["s0", "s2"]] == names
        assert [2, 2, 1, 2] == [page.schedules for page in looks]
