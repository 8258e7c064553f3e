"""After an outage: each policy is honoured, nothing has a hole, and fresh work stays punctual."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from duly.domain.enums import Lane, Origin, Overlap, SkipReason
from duly.domain.policies import Misfire
from duly.domain.runs import OccurrenceStatusKind
from duly.domain.schedule_changes import decide_edit
from duly.engine.dispatcher.background_lanes import PACE_LOOK_US, CatchUpPace
from duly.engine.dispatcher.context import Statistics
from duly.engine.dispatcher.settings import DispatcherSettings
from duly.engine.manual_clock import START_US
from duly.timetable.interval import every
from tests.engine.rig import HOUR, MINUTE, SECOND


def verdicts(rig, record, minutes):
    instants = [START_US + minute * MINUTE for minute in minutes]
    return [one.kind for one in rig.store.judge(record.id, instants)]


def outage(rig, policy, length="10m30s", **parts):
    """Make a schedule for every minute, and let nobody be there for a while."""
    record = rig.schedule(timetable=every("1m"), misfire=policy, **parts)
    rig.dispatcher()
    rig.run("90s")
    before = rig.fleet.pop()
    before.stop()
    rig.advance(rig.at(length) - rig.now)
    rig.dispatcher()
    rig.run("5s")
    return record


def test_skip_runs_nothing_that_was_missed(rig):
    """INV-9: the one within its grace is on time; the others are skipped, on record."""
    record = outage(rig, Misfire("skip", grace="60s"))

    assert [60, 600] == rig.instants(record)
    assert [(120, 540, 8, SkipReason.MISFIRE)] == [
        (
            (one.first_for - START_US) // SECOND,
            (one.last_for - START_US) // SECOND,
            one.count,
            one.reason,
        )
        for one in rig.store.list_skips(record.id, 10)
    ]


def test_latest_runs_the_newest_for_all_that_was_missed(rig):
    """INV-9."""
    record = outage(rig, Misfire("latest", grace="5s"))
    runs = rig.runs(record)

    assert [60, 600] == rig.instants(record)
    assert (Origin.CATCH_UP, Lane.CATCH_UP) == (runs[-1].origin, runs[-1].lane)
    assert [SkipReason.COALESCED] == [one.reason for one in rig.store.list_skips(record.id, 10)]


def test_all_runs_everything_that_was_missed(rig):
    """INV-9."""
    record = outage(rig, Misfire("all", grace="5s"))

    assert [60 * minute for minute in range(1, 11)] == rig.instants(record)
    assert [] == rig.store.list_owed(record.id)


def test_the_bounds_of_all_are_honoured(rig):
    """At most so many, the newest; the others are skipped with the reason."""
    record = outage(rig, Misfire("all", grace="5s", at_most=3))

    assert [60, 480, 540, 600] == rig.instants(record)
    assert [SkipReason.TOO_MANY] == [one.reason for one in rig.store.list_skips(record.id, 10)]


def test_what_is_too_old_is_skipped(rig):
    record = outage(rig, Misfire("latest", grace="5s", not_older="10s"))

    assert [60] == rig.instants(record)
    assert [SkipReason.TOO_OLD] == [one.reason for one in rig.store.list_skips(record.id, 10)]


@pytest.mark.parametrize("policy", ["skip", "latest", "all"])
@pytest.mark.parametrize("missed", [0, 1, 2, 101])
def test_every_occurrence_of_an_outage_has_a_verdict(rig, policy, missed):
    """FAULT-17: run, skipped or owed, with no holes; and the live timer goes on."""
    record = outage(rig, Misfire(policy, grace="5s"), length=f"{missed + 1}m30s")
    kinds = verdicts(rig, record, range(1, missed + 2))

    assert OccurrenceStatusKind.MISSING not in kinds
    assert OccurrenceStatusKind.PENDING not in kinds

    rig.run("5m")

    assert [OccurrenceStatusKind.RUN] * 5 == verdicts(rig, record, range(missed + 2, missed + 7))


def test_catch_up_drains_at_its_rate(rig):
    """INV-9: a backlog does not flood the queue."""
    record = rig.schedule(timetable=every("1s"), misfire=Misfire("all", grace="5s"))
    rig.advance(2000 * SECOND)
    dispatcher = rig.dispatcher(catch_up_per_second=50)
    rig.run("1s")
    counts = []
    for _ in range(20):
        rig.run("1s")
        counts.append(dispatcher.statistics.caught_up)
    grown = [after - before for before, after in pairwise(counts)]

    assert all(45 <= one <= 55 for one in grown)

    rig.run("30s")

    assert [*range(1, 2052)] == rig.instants(record)
    assert [] == rig.store.list_owed(record.id)


def caught_up_each_second(rig, dispatchers, seconds):
    """Return how many missed occurrences were made runs of, second by second."""
    counts = [0]
    for _ in range(seconds):
        rig.run("1s")
        counts.append(sum(one.statistics.caught_up for one in dispatchers))
    return [after - before for before, after in pairwise(counts)]


def miss(rig, count, *, schedules=1, **parts):
    """Make schedules that have missed so many occurrences each."""
    policy = Misfire("all", grace="5s", not_older=None, **parts)
    for number in range(schedules):
        rig.schedule(f"old{number}", timetable=every("1s"), misfire=policy, overlap=Overlap.ALLOW)
    rig.advance(count * SECOND)


def test_the_rate_of_catching_up_is_that_of_the_whole_fleet(rig):
    miss(rig, 2000, schedules=8)
    dispatchers = [rig.dispatcher(catch_up_per_second=50) for _ in range(3)]
    rig.run("10s")

    assert max(caught_up_each_second(rig, dispatchers, 10)[1:]) <= 60


def test_unless_told_catching_up_gets_faster_while_live_work_is_punctual(rig):
    """A day's backlog is gone in seconds, and does not begin with a flood."""
    miss(rig, 3000, schedules=4)
    dispatcher = rig.dispatcher()
    grown = caught_up_each_second(rig, [dispatcher], 12)

    assert grown[0] <= 300
    assert max(grown) >= 1000
    assert sum(grown) >= 10_000


def test_a_schedule_catches_up_no_faster_than_it_may_and_holds_up_no_other(rig):
    policies = {
        "slow": Misfire("all", grace="5s", per_minute=120),
        "fast": Misfire("all", grace="5s"),
    }
    slow, fast = (
        rig.schedule(name, timetable=every("1s"), misfire=policy, overlap=Overlap.ALLOW)
        for name, policy in policies.items()
    )
    rig.advance(600 * SECOND)
    rig.dispatcher(catch_up_per_second=200)
    rig.run("30s")

    late = [run.schedule_id for run in rig.runs() if run.lane is Lane.CATCH_UP]
    assert [] == rig.store.list_owed(fast.id)
    assert 55 <= late.count(slow.id) <= 65


def lateness_of(pace, statistics, rounds, lateness_us, *, is_live_due=False):
    for number in range(rounds):
        statistics.note_lateness([lateness_us] * 50 if lateness_us is not None else [])
        statistics.caught_up += round(pace.per_second / 4)
        pace.adapt(number * PACE_LOOK_US, is_live_due=is_live_due)
    pace._look_at = 0  # noqa: SLF001 - time begins anew


def test_late_live_work_slows_catching_up_down_to_its_floor_and_never_below():
    statistics = Statistics()
    pace = CatchUpPace(DispatcherSettings(), statistics)
    lateness_of(pace, statistics, 40, 5_000)
    fast = pace.per_second

    lateness_of(pace, statistics, 3, 100_000)
    slower = pace.per_second
    lateness_of(pace, statistics, 40, None, is_live_due=True)

    assert fast > 10_000 > slower > pace.floor
    assert pace.floor == pace.per_second == 100


def test_a_rate_that_was_set_stays_as_it_is():
    statistics = Statistics()
    pace = CatchUpPace(DispatcherSettings(catch_up_per_second=20), statistics)
    lateness_of(pace, statistics, 10, 5_000)
    lateness_of(pace, statistics, 10, 500_000)

    assert (20, 20) == (pace.per_second, pace.floor)


def test_live_work_is_punctual_while_catch_up_drains(rig):
    """The live timer jumps ahead at once and never queues behind its backlog."""
    old = [
        rig.schedule(f"old{number}", timetable=every("1s"), misfire=Misfire("all", grace="5s"))
        for number in range(5)
    ]
    rig.advance(HOUR)
    rig.dispatcher(catch_up_per_second=50)
    rig.run("5s")
    since = rig.now
    fresh = rig.schedule("fresh", timetable=every("1s"))
    rig.run("20s")
    live = [
        run.fired_at - run.not_before
        for run in rig.runs()
        if run.lane is Lane.LIVE and run.not_before > since + SECOND
    ]

    assert 20 == len(rig.runs(fresh))
    assert 100 <= len(live)
    assert max(live) <= 1000
    assert all(rig.store.list_owed(one.id) for one in old)


def test_ranges_take_turns(rig):
    """A long backlog of one schedule does not hold up another's short one."""
    rig.schedule("long", timetable=every("1s"), misfire=Misfire("all", grace="5s"))
    short = rig.schedule("short", timetable=every("10m"), misfire=Misfire("all", grace="5s"))
    rig.advance(HOUR)
    rig.dispatcher(catch_up_per_second=20)
    rig.run("4s")

    assert [600, 1200, 1800, 2400, 3000, 3600] == rig.instants(short)


def test_the_near_future_is_loaded_before_the_backlog(rig):
    """After an outage the first page that is read is what falls due next."""
    for number in range(300):
        rig.delay((1 + number) * SECOND, f"r{number}")
    rig.schedule("fresh", timetable=every("1h"))
    rig.advance(HOUR - 2 * SECOND)
    dispatcher = rig.dispatcher(load_page=50, sweep_page=50, batch_max=10, batches_per_tick=1)
    dispatcher.tick()

    assert rig.at("1h") == dispatcher._loader.wheel.next_at()  # noqa: SLF001


def test_a_large_backlog_does_not_keep_fresh_work_waiting(rig):
    """The near future is loaded first, and goes first."""
    for number in range(3000):
        rig.delay((1 + number % 60) * SECOND, f"r{number}")
    fresh = rig.schedule("fresh", timetable=every("1h"))
    rig.advance(HOUR - 2 * SECOND)
    rig.dispatcher(batch_max=100, batch_backlog_min=10, batches_per_tick=1, sweep_page=500)
    rig.run("3s")

    assert [3600] == rig.instants(fresh)
    assert max(run.fired_at - run.not_before for run in rig.runs(fresh)) <= 1000
    assert 3001 == len(rig.runs())


@pytest.mark.parametrize(("each_us", "most"), [(1000, 30), (10, 200), (0, 200)])
def test_the_backlog_is_fired_in_parts_that_take_a_moment(rig, each_us, most):
    """INV-22: what falls due meanwhile is late by as much as a part takes."""
    for number in range(600):
        rig.delay(SECOND, f"r{number}")
    rig.advance(HOUR)
    sizes, fire = [], rig.store.fire_timers

    def fire_slowly(command):
        sizes.append(len(command.delayed))
        rig.advance(each_us * len(command.delayed))
        return fire(command)

    rig.store.fire_timers = fire_slowly
    rig.dispatcher(batch_max=200, batch_backlog_min=10)
    rig.run("5s")

    assert 600 == sum(sizes)
    assert (10, most) == (sizes[0], max(sizes))


def test_ranges_that_are_not_due_yet_do_not_hide_those_that_are(rig):
    """A full page of them is passed over, and nobody spins."""
    crowd = [
        rig.schedule(f"j{number}", timetable=every("1h"), jitter_us=72 * HOUR)
        for number in range(120)
    ]
    rig.advance(HOUR + SECOND)
    for one in crowd:
        # Between its nominal time and its due: what the old timetable owed is owed, and not due.
        edited = replace(one.definition, timetable=every("2h"))
        rig.change(one, decide_edit(one, edited, rig.now, None))
    late = rig.schedule("late", timetable=every("1m"), misfire=Misfire("all"))
    rig.advance(10 * MINUTE)
    rig.dispatcher()
    rig.run("30s")

    assert [] == rig.store.list_owed(late.id)
    assert 100 < len(rig.store.tables.owed)
