"""The dispatcher makes history on purpose, at its rate, beside fresh work."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from duly.domain.backfill import BackfillMode, BackfillStatus
from duly.domain.enums import Origin
from duly.timetable.interval import every
from duly_conformance import backfills as of
from duly_conformance import steps
from tests.engine.rig import HOUR, SECOND, Rig

if TYPE_CHECKING:
    from duly.domain.schedules import ScheduleRecord


def old_schedule(rig: Rig) -> ScheduleRecord:
    rig.store_clock.advance(100 * HOUR)
    return steps.create(rig.store, "nightly")


def made_at(rig: Rig, record: ScheduleRecord) -> list[int]:
    runs = [run for run in of.runs_of(rig.store, record) if run.origin is Origin.BACKFILL]
    return sorted(run.created_at for run in runs)


def test_all_of_a_span_is_made_at_the_rate_that_was_set(rig: Rig):
    record = old_schedule(rig)
    backfill = of.begun(rig.store, record, per_minute=6)
    rig.dispatcher()

    rig.run("2m")

    made = made_at(rig, record)
    apart = [later - earlier for earlier, later in pairwise(made)]
    assert len(made) == of.SLOTS
    assert min(apart) >= 10 * SECOND
    assert of.seen(rig.store, backfill).status is BackfillStatus.DONE


def test_no_more_are_open_than_may_be_and_the_next_follow(rig: Rig):
    record = old_schedule(rig)
    of.begun(rig.store, record, per_minute=600, concurrency=1)
    rig.dispatcher()

    rig.run("20s")
    assert len(made_at(rig, record)) == 1
    of.finish_one(rig.store)
    rig.run("20s")

    assert len(made_at(rig, record)) == 2


def test_another_dispatcher_goes_on_where_one_has_died(rig: Rig):
    """Nothing lost, nothing twice."""
    record = old_schedule(rig)
    backfill = of.begun(rig.store, record, per_minute=6)
    rig.dispatcher()
    rig.run("15s")
    assert 0 < len(made_at(rig, record)) < of.SLOTS

    rig.kill(rig.fleet[0])
    rig.dispatcher()
    rig.run("2m")

    slots = rig.store.list_slots(backfill.id, None, 100)
    assert [slot.scheduled_for for slot in slots] == of.instants(record)
    assert len(made_at(rig, record)) == of.SLOTS


def test_a_lost_answer_makes_nothing_twice(rig: Rig):
    """INV-17."""
    record = old_schedule(rig)
    of.begun(rig.store, record)
    rig.dispatcher()
    rig.lines[0].loses.add("step_backfill")

    rig.run("30s")

    assert len(made_at(rig, record)) == of.SLOTS


def test_one_that_is_paused_stands_still_and_goes_on_when_resumed(rig: Rig):
    record = old_schedule(rig)
    backfill = of.begun(rig.store, record, per_minute=6)
    rig.dispatcher()
    rig.run("15s")
    paused = of.order(rig.store, of.seen(rig.store, backfill), status=BackfillStatus.PAUSED)
    rig.run("10s")
    so_far = len(made_at(rig, record))

    rig.run("2m")
    assert len(made_at(rig, record)) == so_far
    of.order(rig.store, paused, status=BackfillStatus.ACTIVE)
    rig.run("2m")

    assert len(made_at(rig, record)) == of.SLOTS


def test_one_that_can_not_go_on_stops_nobody(rig: Rig):
    """A bad row is set aside, and told."""
    record = old_schedule(rig)
    bad = of.begun(rig.store, record, name="bad", mode=BackfillMode.REDO)
    good = of.begun(rig.store, record, name="good")
    rig.dispatcher()
    rig.lines[0].breaks["step_backfill"] = lambda order: order.id == bad.id

    rig.run("30s")

    assert of.seen(rig.store, good).status is BackfillStatus.DONE
    assert of.seen(rig.store, bad).status is BackfillStatus.ACTIVE


def test_fresh_work_is_on_time_beside_it_and_it_is_not_starved(rig: Rig):
    record = old_schedule(rig)
    backfill = of.begun(rig.store, record)
    for number in range(20):
        steps.create(rig.store, f"busy{number}", timetable=every("1s"))
    dispatcher = rig.dispatcher()

    rig.run("1m")

    assert of.seen(rig.store, backfill).status is BackfillStatus.DONE
    assert dispatcher.statistics.lateness_max_us < SECOND
