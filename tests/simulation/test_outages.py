"""After an outage each policy does what it says, at the rate, beside fresh work (INV-9, INV-22)."""

from __future__ import annotations

import pytest

from duly.domain.audit import Actor
from duly.domain.backfill import FILLED, BackfillMode, BackfillOrder
from duly.domain.enums import Overlap
from duly.domain.ids import backfill_id
from duly.domain.policies import Misfire
from duly.engine.dispatcher.background_lanes import LATE_BITS
from duly.engine.dispatcher.settings import DispatcherSettings
from duly.store.ports.backfill import CreateBackfill
from duly.timetable.interval import Interval
from tests.simulation.outages import Outage, percentile
from tests.simulation.recipe import SECOND
from tests.simulation.users import TENANT

pytestmark = pytest.mark.timeout(600)
LENGTHS = (0, 1, 2, 100, 101, 10_000)
DOWN_AT = 5.2
"""Seconds after the beginning: what fell due until then was fired."""
UP_AFTER = 0.5
"""More than the grace after the last occurrence that is missed, and before the next."""
EXPECTED = {
    "all": lambda slots: (slots, {}),
    "latest": lambda slots: (min(slots, 1), {"coalesced": slots - 1} if slots > 1 else {}),
    "skip": lambda slots: (0, {"misfire": slots} if slots else {}),
}


def down_for(slots, misfire, **parts):
    """Return a world in which so many occurrences of one schedule were missed, all settled."""
    outage = Outage(is_checked=slots < 1000)
    timetable = outage.ending(5 + slots) if slots > 1000 else Interval("1s")
    schedule = outage.create("missed", timetable, misfire, **parts)
    outage.start()
    outage.until(DOWN_AT)
    outage.stop()
    outage.until(DOWN_AT + slots + UP_AFTER)
    outage.start()
    outage.until(DOWN_AT + slots + 8 + slots / 90)
    outage.close()
    return outage, schedule


@pytest.mark.parametrize("slots", LENGTHS)
@pytest.mark.parametrize("policy", EXPECTED)
def test_an_outage_ends_as_the_policy_says(policy, slots):
    """INV-9: every occurrence has its verdict, and what is run late is on the rate."""
    outage, schedule = down_for(slots, Misfire(policy, grace="500ms", not_older=None))

    runs, skips = EXPECTED[policy](slots)
    assert (runs, skips) == (outage.caught_up(schedule), outage.skipped(schedule))
    assert [] == outage.store.list_owed(schedule)
    outage.check_rate(starts=2)


@pytest.mark.parametrize(("slots", "too_many"), [(99, 0), (100, 0), (101, 1), (250, 150)])
def test_no_more_than_so_many_are_run_late(slots, too_many):
    """INV-9: the newest `at_most`, and not one more."""
    misfire = Misfire("all", grace="500ms", at_most=100, not_older=None)
    outage, schedule = down_for(slots, misfire)

    skips = {"too-many": too_many} if too_many else {}
    assert (slots - too_many, skips) == (outage.caught_up(schedule), outage.skipped(schedule))


@pytest.mark.parametrize(("slots", "too_old"), [(50, 0), (100, 0), (101, 1), (200, 100)])
def test_nothing_older_than_the_window_is_run(slots, too_old):
    """INV-9: the 100 that are at most 100 s old when the dispatcher is back."""
    misfire = Misfire("latest", grace="500ms", not_older="100s")
    latest, schedule = down_for(slots, misfire)
    assert 1 == latest.caught_up(schedule)

    outage, schedule = down_for(slots, Misfire("all", grace="500ms", not_older="100s"))
    skipped = outage.skipped(schedule)["too-old"]
    # At the rate the oldest grow too old while they wait: a second for each hundred.
    assert too_old <= skipped <= too_old + 2
    assert slots - skipped == outage.caught_up(schedule)


@pytest.mark.parametrize("slots", [100, 101, 1_001])
def test_a_crash_in_the_middle_of_catching_up_loses_nothing(slots):
    """INV-9, FAULT-17: twice, and every occurrence is run once."""
    outage = Outage(is_checked=slots < 1000)
    timetable = outage.ending(25 + slots)
    misfire = Misfire("all", grace="500ms", not_older=None)
    schedule = outage.create("missed", timetable, misfire)
    crashes = [slots // 3, 2 * slots // 3]

    def crash(made: int) -> None:
        if crashes and made >= crashes[0]:
            crashes.pop(0)
            outage.crash(seconds=1)

    outage.on_drained = crash
    outage.until(5.2 + slots)
    outage.start()
    outage.until(slots + slots / 90 + 60)
    outage.close()

    assert [] == crashes
    runs = outage.runs_of(schedule)
    assert 25 + slots == len({run.scheduled_for for run in runs}) == len(runs)
    assert {} == outage.skipped(schedule)
    outage.check_rate(starts=3)


@pytest.mark.parametrize("policy", [one for one in Overlap if one is not Overlap.ALLOW])
def test_what_may_not_overlap_stays_owed_until_nobody_is_in_the_way(policy):
    """INV-8, INV-9: nobody executes anything here, so that the first late one stays open."""
    key = "account:7" if policy is Overlap.SERIALIZE else None
    misfire = Misfire("all", grace="500ms", not_older=None)
    outage = Outage(is_checked=False)
    schedule = outage.create("missed", outage.ending(40), misfire, overlap=policy, serialize_by=key)
    outage.until(45)
    outage.start()
    outage.until(60)
    outage.close()

    assert 1 == len(outage.runs_of(schedule))
    (owed,) = outage.store.list_owed(schedule)
    assert 39 == (owed.last_for - owed.first_for) // SECOND + 1


# Fresh work beside a backlog


def flooded(*, is_behind, settings=None, usual_us=(50, 1000), seconds=10, missed_seconds=2_500):
    """Return a world with fresh work all the time, and with a backlog and a backfill, or without."""
    settings = settings or DispatcherSettings(catch_up_per_second=100)
    outage = Outage(settings=settings, usual_us=usual_us, is_checked=False)
    misfire = Misfire("all", grace="60s", not_older=None)
    if is_behind:
        behind = Misfire("all", grace="500ms", not_older=None)
        missed = outage.create("missed", outage.ending(missed_seconds), behind)
        outage.until(missed_seconds + 10)
        begin_backfill(outage, missed)
    for number in range(40):
        outage.create(f"fresh{number}", Interval("1s"), misfire, jitter_us=SECOND)
    begun = (outage.world.true_at - outage.begun_at) / SECOND
    outage.start()
    outage.until(begun + 5)
    outage.lateness_us.clear()
    outage.drained.clear()
    outage.filled.clear()
    outage.until(begun + 5 + seconds)
    outage.close()
    return outage


def begin_backfill(outage, schedule):
    """Have the time before there was a schedule filled in."""
    since = outage.begun_at - 1_000 * SECOND
    since -= since % SECOND
    outage.store.create_backfill(
        CreateBackfill(
            id=backfill_id(outage.store.now(), b"0123456789"),
            tenant=TENANT,
            schedule_id=schedule,
            definition_number=1,
            since=since,
            until=outage.begun_at,
            mode=BackfillMode.FILL,
            order=BackfillOrder.OLDEST,
            classes=FILLED,
            per_minute=3_000,
            concurrency=10_000,
            cursor=since,
            total=1_000,
            actor=Actor("somebody", "simulation"),
        )
    )


def test_a_backlog_does_not_make_fresh_work_late():
    """INV-22: the slowest hundredth is at most twice as late as without one."""
    alone, behind = (flooded(is_behind=is_behind) for is_behind in (False, True))

    assert 400 == len(alone.lateness_us) == len(behind.lateness_us)
    assert percentile(behind.lateness_us, 0.99) <= 2 * percentile(alone.lateness_us, 0.99)
    assert sum(made for _, made in behind.drained) >= 10 * 90
    assert sum(made for _, made in behind.filled) >= 10 * 40


def test_as_much_is_caught_up_as_fresh_work_allows():
    """INV-22: where no rate is set, far more than the floor; no fresh run is late for it."""
    outage = flooded(is_behind=True, settings=DispatcherSettings(), missed_seconds=20_000)

    assert sum(made for _, made in outage.drained) >= 10 * 200
    assert percentile(outage.lateness_us, 0.99) <= 1 << LATE_BITS


SLOW_US = (40_000, 60_000)
"""A store so slow that something is due whenever a call comes back."""


def test_catch_up_and_backfills_have_a_reserved_minimum():
    """INV-22: each gets a turn about every second, however much fresh work there is."""
    outage = flooded(is_behind=True, usual_us=SLOW_US, seconds=20)

    assert len(outage.drained) >= 10
    assert len(outage.filled) >= 10


def test_without_a_reserve_they_would_starve():
    """Otherwise the test above proves nothing."""
    never = DispatcherSettings(catch_up_floor_per_second=1e-6, backfill_reserve_us=1 << 60)
    outage = flooded(is_behind=True, usual_us=SLOW_US, settings=never, seconds=20)

    assert ([], []) == (outage.drained, outage.filled)
