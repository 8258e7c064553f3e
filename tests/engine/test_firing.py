"""Firing: on time, never early, and whatever was changed meanwhile holds."""

from __future__ import annotations

import pytest

from duly.domain.enums import Lane, Missed, Origin, RunState, ScheduleStatus
from duly.domain.fire_planning import NO_FURTHER, plan_on_time
from duly.domain.policies import Misfire
from duly.domain.schedule_changes import decide_delete, decide_edit, decide_pause
from duly.domain.schedules import NextOccurrence, jitter_offset_us
from duly.engine.dispatcher.timer_wheel import LoadedTimer
from duly.engine.manual_clock import START_US
from duly.errors import StoreError
from duly.store.ports.dispatch import FireResult, Timer
from duly.telemetry import ItemSkipped, ScheduleEnded, TimersFired
from duly.timetable.cron import cron
from duly.timetable.instants import from_microseconds
from duly.timetable.interval import every
from duly.timetable.once import at
from duly_conformance.kit import cancel, definition, move, template_of
from tests.engine.rig import HOUR, MINUTE, SECOND


def test_every_occurrence_is_run_once_and_never_before_it_is_due(rig):
    """The store's clock had reached the due of each run that it made visible."""
    record = rig.schedule(timetable=every("10s"))
    dispatcher = rig.dispatcher()
    rig.run("1m")

    assert [10, 20, 30, 40, 50, 60] == rig.instants(record)
    assert all(0 <= late <= 1000 for late in rig.lateness())
    assert 0 == dispatcher.statistics.early_answers
    assert {RunState.QUEUED} == {run.state for run in rig.runs(record)}


def test_nothing_is_sent_before_its_due(rig):
    """A dispatcher whose ticks come too often still does not ask too early."""
    rig.schedule(timetable=every("10s"))
    dispatcher = rig.dispatcher()
    while rig.now < rig.at("10s") - 1:
        dispatcher.tick()
        rig.advance(min(7_000, rig.at("10s") - 1 - rig.now))
    dispatcher.tick()

    assert [] == rig.runs()
    assert "fire_timers" not in rig.lines[0].calls


def test_what_is_due_in_50_ms_fires_on_time_though_its_window_is_loaded(rig):
    """It comes in by the arrivals feed, at once when woken."""
    dispatcher = rig.dispatcher()
    rig.run("10s")
    rig.delay(50_000)
    dispatcher.wake()
    rig.run("1s")

    assert [True] == [late <= 1000 for late in rig.lateness()]


def test_without_a_wake_up_an_arrival_waits_for_the_feed_alone(rig):
    """An idle dispatcher looks once a second; nothing is lost without a wake-up."""
    rig.dispatcher()
    rig.run("10s")
    rig.delay(50_000)
    rig.run("2s")

    assert [True] == [late <= 1 * SECOND for late in rig.lateness()]


def test_a_schedule_made_for_a_loaded_window_is_punctual(rig):
    """What is written for the window that is already in memory."""
    rig.dispatcher()
    rig.run("12500ms")
    record = rig.schedule(timetable=every("5s"))
    rig.run("5s")

    assert [15] == rig.instants(record)
    assert all(late <= 1000 for late in rig.lateness())


def test_what_falls_due_right_after_a_fire_is_fired_together(rig):
    """A statement for each costs more than all of them; what is due alone does not wait."""
    dispatcher = rig.dispatcher(fires_apart_us=4000)
    for after_us in (0, 1000, 2000, 3000, 100_000):
        rig.delay(SECOND + after_us, f"reminder {after_us}")
    rig.run("2s")

    assert 3 == dispatcher.statistics.batches
    assert [0, 3000, 2000, 1000, 0] == [late // 1000 * 1000 for late in rig.lateness()]


def test_a_crowd_is_fired_without_a_pause(rig):
    """Where more is due than one batch holds, waiting gathers nothing."""
    rig.dispatcher(batch_max=10, batches_per_tick=2, fires_apart_us=1 * SECOND)
    for number in range(100):
        rig.delay(SECOND, f"reminder {number}")
    rig.run("1001ms")

    assert 100 == len(rig.runs())


def test_the_first_batch_of_a_crowd_is_small_so_that_workers_begin_while_the_rest_is_fired(rig):
    """And so is that of the next crowd."""
    rig.dispatcher(batch_first=5, batch_max=20)
    for number in range(50):
        rig.delay(SECOND, f"reminder {number}")
        rig.delay(2 * SECOND, f"another {number}")
    rig.run("3s")

    sizes = [event.fired for event in rig.recorder.of(TimersFired)]
    assert [5, 10, 20, 15] * 2 == sizes


def test_definitions_are_read_once_while_their_timers_are_in_memory(rig):
    """However few are kept for others: more schedules than that are not read at every fire."""
    for number in range(50):
        rig.schedule(f"s{number}", timetable=every("10s"))
    rig.dispatcher(definitions_max=5)
    rig.run("9s")
    before = rig.lines[0].calls.count("read_definitions")
    rig.run("1m")

    assert 300 == len(rig.runs())
    assert before == rig.lines[0].calls.count("read_definitions")


def test_a_pause_of_a_loaded_timer_holds(rig):
    """The loaded entry fails its comparison."""
    record = rig.schedule(timetable=every("10s"))
    dispatcher = rig.dispatcher()
    rig.run("9999ms")
    rig.change(record, decide_pause(record, reason=None, until=None, missed=Missed.SKIP))
    rig.run("1m")

    assert [] == rig.runs()
    assert 1 == dispatcher.statistics.gone


def test_a_deletion_of_a_loaded_timer_holds(rig):
    record = rig.schedule(timetable=every("10s"))
    rig.dispatcher()
    rig.run("9999ms")
    rig.change(record, decide_delete(record, None))
    rig.run("1m")

    assert [] == rig.runs()


def test_an_edit_of_a_loaded_timer_holds_and_the_new_one_is_punctual(rig):
    """One occurrence belongs to one definition."""
    record = rig.schedule(timetable=every("10s"))
    rig.dispatcher()
    rig.run("9s")
    rig.change(record, decide_edit(record, definition(timetable=every("4s")), rig.now, None))
    rig.run("8s")

    assert [12, 16] == rig.instants(record)
    assert all(late <= 1000 for late in rig.lateness())


def test_a_delayed_run_that_is_moved_fires_at_its_new_instant_only(rig):
    rig.delay(10 * SECOND, key="class:42")
    rig.dispatcher()
    rig.run("5s")
    rig.store.move_delayed(move("class:42", rig.at("20s")))
    rig.run("1m")

    assert [rig.at("20s")] == [run.scheduled_for for run in rig.runs()]
    assert [Origin.DELAY] == [run.origin for run in rig.runs()]


def test_a_delayed_run_that_is_cancelled_never_becomes_visible(rig):
    rig.delay(10 * SECOND, key="class:42")
    rig.dispatcher()
    rig.run("5s")
    rig.store.cancel_delayed(cancel("class:42"))
    rig.run("1m")

    assert [(RunState.CANCELLED, None)] == [(run.state, run.fired_at) for run in rig.runs()]


def test_jitter_delays_the_due_and_keeps_the_nominal_time(rig):
    """A stable offset; the run still says what it was scheduled for."""
    record = rig.schedule(timetable=every("1m"), jitter_us=30 * SECOND)
    offset = jitter_offset_us(record.id, 30 * SECOND)
    rig.dispatcher()
    rig.run("3m")
    rig.run(offset + SECOND)
    runs = rig.runs(record)

    assert 0 < offset
    assert [60, 120, 180] == rig.instants(record)
    assert {offset} == {run.not_before - run.scheduled_for for run in runs}
    assert all(0 <= late <= 1000 for late in rig.lateness())


def test_a_one_time_schedule_ends_after_its_run(rig):
    """The reason is recorded, and it is told."""
    record = rig.schedule(timetable=at(from_microseconds(rig.at("10s"))))
    rig.dispatcher()
    rig.run("20s")
    ended = rig.see(record)

    assert [10] == rig.instants(record)
    assert (ScheduleStatus.ENDED, NO_FURTHER) == (ended.status, ended.reason)
    assert [NO_FURTHER] == [event.reason for event in rig.recorder.of(ScheduleEnded)]


def test_a_crowd_at_one_instant_is_fired_in_batches(rig):
    """At most a thousand in one transaction, one after the other without waiting."""
    for number in range(2500):
        rig.schedule(f"s{number}", timetable=every("1m"))
    dispatcher = rig.dispatcher()
    rig.run("61s")
    sizes = [event.fired for event in rig.recorder.of(TimersFired) if event.fired]

    assert [256, 512, 1000, 732] == sizes
    assert 2500 == dispatcher.statistics.fired
    assert all(late <= 1000 for late in rig.lateness())


def test_memory_is_bounded_and_what_did_not_fit_still_fires_on_time(rig):
    """The rest is loaded when there is room; an instant is loaded as a whole."""
    for number in range(300):
        rig.schedule(f"s{number}", timetable=every(f"{10 + number % 15}s"))
    periods = [10 + number % 15 for number in range(300)]
    start = rig.now // SECOND
    seconds = range(start + 1, start + 31)
    crowds = [sum(second % period == 0 for period in periods) for second in seconds]
    dispatcher = rig.dispatcher(entries_max=100, load_page=50)
    loaded = []
    for _ in range(300):
        rig.run("100ms")
        loaded.append(dispatcher.loaded)
    rig.run("10ms")

    assert 100 + max(crowds) >= max(loaded)
    assert sum(crowds) == len(rig.runs())
    assert max(rig.lateness()) <= 2 * SECOND


def test_plans_are_made_before_they_are_needed(rig):
    """Recurrence arithmetic is done ahead of the instant."""
    for number in range(500):
        rig.schedule(f"s{number}", timetable=every("20s"))
    dispatcher = rig.dispatcher()
    rig.run("15s")
    entries = dispatcher._loader.wheel.take(rig.at("1m"), 1000)  # noqa: SLF001

    assert 500 == len(entries)
    assert all(entry.following == entry.timer.due_at + 20 * SECOND for entry in entries)


@pytest.mark.parametrize(
    "parts",
    [
        {"timetable": every("10s")},
        {"timetable": every("10s"), "jitter_us": 7 * SECOND},
        {"timetable": cron("*/2 * * * *", tz="Europe/Paris")},
        {"timetable": cron("*/3 * * * *"), "jitter_us": 3 * MINUTE},
    ],
    ids=["every", "jitter", "cron", "cron with jitter"],
)
def test_what_is_sent_of_a_fire_on_time_is_what_planning_says(rig, parts):
    """The short way to a plan leads where the long one does."""
    record = rig.schedule(**parts)
    template = template_of(record)
    sent = []
    rig.dispatcher()
    rig.lines[0].breaks["fire_timers"] = lambda command: sent.extend(command.schedules)
    rig.run("9m")

    assert len(sent) > 1
    for fire in sent:
        pending = NextOccurrence(fire.scheduled_for, fire.due_at)
        assert plan_on_time(template, pending) == fire.plan
        assert fire.due_at + record.definition.misfire.grace_us == fire.late_after
        assert (record.id, record.version) == (fire.timer.ref, fire.timer.generation)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("a row that nobody can read"),
        StoreError("memory", "refused what would break a promise", "report it"),
    ],
    ids=["unreadable", "refused by the store"],
)
def test_one_schedule_that_can_not_be_fired_does_not_stop_the_others(rig, error):
    """It is set aside, told about, and stays pending."""
    bad = rig.schedule("bad", timetable=every("10s"))
    good = [rig.schedule(f"good{number}", timetable=every("10s")) for number in range(20)]
    rig.dispatcher()
    rig.lines[0].breaks_with = error
    rig.lines[0].breaks["fire_timers"] = lambda command: any(
        one.timer.ref == bad.id for one in command.schedules
    )
    rig.run("25s")

    assert [[10, 20]] * 20 == [rig.instants(one) for one in good]
    assert [] == rig.instants(bad)
    assert ["schedule"] == [event.what for event in rig.recorder.of(ItemSkipped)]


def test_one_definition_that_can_not_be_read_does_not_stop_the_others(rig):
    """And once it can be read it fires by its misfire policy."""
    bad = rig.schedule("bad", timetable=every("10s"), misfire=Misfire("latest", grace="5s"))
    good = [rig.schedule(f"good{number}", timetable=every("10s")) for number in range(20)]
    rig.dispatcher()
    rig.lines[0].breaks["read_definitions"] = lambda keys: any(key[0] == bad.id for key in keys)
    rig.run("25s")

    assert [[10, 20]] * 20 == [rig.instants(one) for one in good]
    assert [] == rig.instants(bad)

    rig.lines[0].breaks.clear()
    rig.run("60s")

    assert rig.instants(bad)


def test_an_idle_dispatcher_hardly_bothers_the_store(rig):
    """No busy polling."""
    rig.schedule(timetable=every("1d"))
    rig.dispatcher()
    rig.run("2m")
    rig.lines[0].calls.clear()
    rig.run("1m")

    assert len(rig.lines[0].calls) <= 60 * 4.5


def test_a_timer_that_only_the_sweep_can_find_is_at_most_a_second_late(rig):
    """The sweep does not depend on the others being right."""
    dispatcher = rig.dispatcher()
    rig.run("10s")
    run_id = rig.delay(10 * SECOND)
    dispatcher._loader._cursor = rig.store.start_of_arrivals()  # noqa: SLF001 - the feed fails
    rig.run("12s")

    assert [run_id] == [run.id for run in rig.runs()]
    assert 1 == dispatcher.statistics.swept
    assert max(rig.lateness()) <= 1_100_000


def test_the_early_answer_of_a_slower_store_clock_fires_nothing(rig):
    """The timer stays, and fires when the store's clock is there."""
    record = rig.schedule(timetable=every("10s"))
    slow = {"feed_idle_us": MINUTE, "feed_busy_us": MINUTE, "sweep_every_us": MINUTE}
    dispatcher = rig.dispatcher(own_clock=True, **slow)
    rig.run("9600ms")
    rig.clocks[1].advance(405_000)
    rig.store_clock.advance(350_000)
    dispatcher.tick()

    assert [] == rig.runs()
    assert 1 == dispatcher.statistics.early_answers

    rig.run("1s")

    assert [10] == rig.instants(record)
    assert all(0 <= late <= 1000 for late in rig.lateness())


def test_the_window_of_a_run_begins_at_the_run_before(rig):
    """State and run are written together."""
    record = rig.schedule(timetable=every("10s"))
    rig.dispatcher()
    rig.run("30s")

    assert [None, rig.at("10s"), rig.at("20s")] == [run.window_from for run in rig.runs(record)]
    assert {Lane.LIVE} == {run.lane for run in rig.runs(record)}


def test_a_busy_timer_is_tried_again_soon(rig):
    """Somebody's open transaction holds up that timer, and no other."""
    record = rig.schedule(timetable=every("10s"))
    rig.dispatcher()
    fire = rig.store.fire_timers
    answers: list[object] = []

    def busy_once(command):
        fired = fire(command) if answers else None
        answers.append(command)
        if fired is None:
            empty = fire(type(command)(fence=command.fence))
            results = (FireResult.BUSY,) * len(command.schedules)
            return type(empty)(empty.now, results, 0, ())
        return fired

    rig.store.fire_timers = busy_once
    rig.run("11s")

    assert [10] == rig.instants(record)
    assert 100_000 <= max(rig.lateness()) <= 102_000


def test_hours_fire_like_seconds(rig):
    """What lies beyond the window is loaded when its time comes."""
    record = rig.schedule(timetable=every("1h"))
    rig.dispatcher()
    rig.run(3 * HOUR)

    assert [3600, 7200, 10800] == rig.instants(record)
    assert all(late <= 1000 for late in rig.lateness())
    assert START_US == rig.at("0s")


def test_a_dispatcher_that_is_always_busy_does_not_grow(rig):
    """What it has fired is planned when it is due again, and not kept in a list until then."""
    dispatcher = rig.dispatcher()
    rig.run("1s")
    loader = dispatcher._loader  # noqa: SLF001 - memory has no other sign
    for number in range(5000):
        due_at = rig.now + number
        entry = LoadedTimer(Timer("schedule", number.to_bytes(16), 0, due_at, due_at, 1, 1), due_at)
        loader.hand_over(entry, due_at, due_at)
        assert [entry] == loader.wheel.take(due_at, 10)

    assert not loader.unplanned
