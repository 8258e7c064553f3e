"""Clocks: the store's decides; ours is measured against it, and distrusted when they disagree."""

from __future__ import annotations

from duly.domain.enums import Lane
from duly.engine.dispatcher.settings import DispatcherSettings
from duly.engine.manual_clock import START_US, ManualClock
from duly.engine.store_clock import ClockSync
from duly.telemetry import ClockStepped, SkewHoldBegun, SkewHoldEnded
from duly.timetable.interval import every
from tests.engine.rig import MINUTE, SECOND


def test_a_dispatcher_whose_clock_is_off_stops_firing_and_says_so(rig):
    """Beyond 100 ms, in three samples in a row."""
    record = rig.schedule(timetable=every("10s"))
    dispatcher = rig.dispatcher(own_clock=True)
    rig.run("5s")
    rig.clocks[1].set(rig.now + 150_000)
    rig.run("30s")

    assert [] == rig.instants(record)
    assert () == dispatcher.shards()
    assert [150_000] == [event.skew_us for event in rig.recorder.of(SkewHoldBegun)]
    assert [(True, 150_000)] == [
        (member.is_holding, member.skew_us) for member in rig.store.status().members
    ]


def test_a_worker_reports_how_far_its_clock_is_ahead_or_behind(rig):
    """It measures against each dated answer; nothing depends on it."""
    behind, ahead = rig.worker(own_clock=True), rig.worker(own_clock=True)
    rig.run("5s")
    rig.clocks[1].set(rig.now - 3600 * SECOND)
    rig.clocks[2].set(rig.now + 5 * SECOND)
    rig.run("10s")

    skews = {member.id: member.skew_us for member in rig.store.status().members}
    assert {behind.worker.member: -3600 * SECOND, ahead.worker.member: 5 * SECOND} == skews


def test_a_clock_that_is_off_by_less_than_the_limit_is_left_alone(rig):
    """The limit is 100 ms; punctuality hangs on the store's clock alone."""
    record = rig.schedule(timetable=every("10s"))
    rig.dispatcher(own_clock=True)
    rig.clocks[1].set(rig.now + 90_000)
    rig.run("30s")

    assert [10, 20, 30] == rig.instants(record)
    assert all(0 <= late <= 1000 for late in rig.lateness())


def test_a_hold_ends_when_the_clocks_agree_again(rig):
    """It watches as a follower and comes back; what was missed is late, not lost."""
    record = rig.schedule(timetable=every("10s"))
    dispatcher = rig.dispatcher(own_clock=True)
    rig.run("5s")
    rig.clocks[1].set(rig.now + 150_000)
    rig.run("10s")
    rig.clocks[1].set(rig.now)
    rig.run("15001ms")  # a clock that was set is known to some microseconds

    assert [10, 20, 30] == rig.instants(record)
    assert 1 == len(rig.recorder.of(SkewHoldEnded))
    assert tuple(range(4)) == dispatcher.shards()


def test_the_shards_of_one_that_holds_go_to_the_others(rig):
    """Firing goes on with those whose clocks are right."""
    record = rig.schedule(timetable=every("10s"))
    rig.dispatcher(own_clock=True)
    other = rig.dispatcher()
    rig.run("9s")
    rig.clocks[1].set(rig.now + MINUTE)
    rig.run("21s")

    assert tuple(range(4)) == other.shards(Lane.LIVE)
    assert [10, 20, 30] == rig.instants(record)


def test_a_step_of_the_local_wall_clock_moves_no_fire(rig):
    """FAULT-5: the estimate stands on the monotonic clock; one sample proves nothing."""
    record = rig.schedule(timetable=every("10s"))
    rig.dispatcher(own_clock=True)
    rig.run("9900ms")
    rig.clocks[1].set(rig.now + 60 * MINUTE)
    rig.run("50ms")

    assert [] == rig.instants(record)

    rig.run("60ms")

    assert [10] == rig.instants(record)


def test_a_step_of_the_store_clock_holds_the_firing_for_a_moment(rig):
    """FAULT-5: late rather than early, and it is said."""
    record = rig.schedule(timetable=every("10s"))
    dispatcher = rig.dispatcher()
    rig.run("8100ms")
    rig.store_clock.set(rig.now + 3 * SECOND)
    rig.run("1500ms")

    assert [] == rig.instants(record)
    assert [3 * SECOND] == [event.step_us for event in rig.recorder.of(ClockStepped)]

    rig.run("2s")

    assert [10] == rig.instants(record)
    assert 0 == dispatcher.statistics.early_answers


def test_a_step_of_the_store_clock_is_noticed_by_the_answer_to_a_fire(rig):
    """INV-9: what is decided next is not decided by a clock that is known to be wrong."""
    record = rig.schedule(timetable=every("10s"))
    rig.dispatcher(feed_idle_us=4_700_000, sweep_every_us=4_700_000)
    rig.run("9900ms")
    rig.lines[0].calls.clear()
    rig.store_clock.set(rig.now + 3 * SECOND)
    rig.run("101ms")

    assert [10] == rig.instants(record)
    assert "read_arrivals" not in rig.lines[0].calls
    assert [3 * SECOND] == [event.step_us for event in rig.recorder.of(ClockStepped)]


def test_a_store_clock_that_is_set_back_makes_nothing_early_and_nothing_double(rig):
    """INV-3: an occurrence that has fired stays fired."""
    record = rig.schedule(timetable=every("10s"))
    rig.dispatcher()
    rig.run("25s")
    rig.store_clock.set(rig.now - 20 * SECOND)
    rig.run("36s")

    assert [10, 20, 30, 40] == rig.instants(record)
    assert all(late >= 0 for late in rig.lateness())


def test_the_estimate_never_runs_ahead_of_the_store():
    """What it calls reached has been reached, whatever the answer's delay was made of."""
    clock = ManualClock()
    sync = ClockSync(clock, DispatcherSettings())
    for delay_before, delay_after in ((10_000, 0), (0, 10_000), (3000, 4000)):
        before = clock.monotonic_us()
        clock.advance(delay_before)
        store_now = clock.now_us()
        clock.advance(delay_after)
        sync.hear(before, store_now)

        assert sync.floor_now(clock.monotonic_us()) <= clock.now_us()


def test_waiting_until_an_instant_is_reached_is_waiting_long_enough():
    """One wake-up, not a row of them, and not too early a one."""
    clock = ManualClock()
    sync = ClockSync(clock, DispatcherSettings())
    before = clock.monotonic_us()
    clock.advance(2000)
    sync.hear(before, clock.now_us() - 1000)
    due = START_US + 20 * SECOND
    wake_at = sync.reached_at(due, clock.monotonic_us())
    clock.advance(wake_at - clock.monotonic_us())

    assert sync.floor_now(clock.monotonic_us()) >= due
    assert clock.now_us() - due <= 5000


def test_the_best_sample_is_used_and_trusted_less_with_age():
    """A quick answer tells more than a slow one, until it is old."""
    clock = ManualClock()
    sync = ClockSync(clock, DispatcherSettings())
    sync.hear(clock.monotonic_us(), clock.now_us())
    before = clock.monotonic_us()
    clock.advance(1 * SECOND)
    sync.hear(before, clock.now_us())

    assert 100 == clock.now_us() - sync.floor_now(clock.monotonic_us())


def test_a_sample_that_can_not_be_true_any_more_is_given_up():
    """A store's clock that runs slow is followed, however good the earlier sample was."""
    clock = ManualClock()
    sync = ClockSync(clock, DispatcherSettings())
    sync.hear(clock.monotonic_us(), clock.now_us())
    clock.advance(SECOND)
    before = clock.monotonic_us()
    clock.advance(10_000)
    slow_now = clock.now_us() - 50_000
    sync.hear(before, slow_now)

    assert sync.floor_now(clock.monotonic_us()) <= slow_now


def test_an_answer_too_slow_to_tell_says_nothing_about_skew():
    """An uncertain sample neither begins a hold nor ends one."""
    clock = ManualClock()
    sync = ClockSync(clock, DispatcherSettings())
    for _ in range(5):
        before = clock.monotonic_us()
        clock.advance(SECOND)
        sync.hear(before, clock.now_us() - SECOND)

    assert not sync.is_skewed
