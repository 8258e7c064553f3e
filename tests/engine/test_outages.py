"""A store that is away, and answers that are lost: nothing is assumed, nothing lost or doubled."""

from __future__ import annotations

import pytest

from duly.domain.enums import Lane
from duly.domain.policies import Misfire
from duly.errors import SchemaMismatch
from duly.telemetry import StoreLost, StoreRecovered
from duly.timetable.interval import every
from tests.engine.rig import SECOND, Rig


def test_a_short_absence_of_the_store_costs_lateness_only(rig):
    """INV-26: it goes on trying, says so once, and recovers by itself."""
    record = rig.schedule(timetable=every("1s"))
    dispatcher = rig.dispatcher()
    rig.run("5500ms")
    before = dispatcher.member
    rig.lines[0].is_cut = True
    rig.run("2s")
    rig.lines[0].is_cut = False
    rig.run("3s")

    assert [*range(1, 11)] == rig.instants(record)
    assert before == dispatcher.member
    assert (1, 1) == (len(rig.recorder.of(StoreLost)), len(rig.recorder.of(StoreRecovered)))


def test_a_long_absence_means_joining_anew(rig):
    """Past our own count of the lease nothing is sent but a renewal."""
    record = rig.schedule(timetable=every("1s"))
    dispatcher = rig.dispatcher()
    rig.run("5500ms")
    before = dispatcher.member
    rig.lines[0].is_cut = True
    rig.run("5s")
    rig.lines[0].calls.clear()
    rig.run("5s")
    tried = {*rig.lines[0].calls}
    rig.lines[0].is_cut = False
    rig.run("5s")

    assert {"renew"} == tried
    assert before != dispatcher.member
    assert [*range(1, 21)] == rig.instants(record)


@pytest.mark.parametrize(
    "operation",
    [
        "join",
        "renew",
        "acquire_leases",
        "start_of_arrivals",
        "load_timers",
        "read_arrivals",
        "read_definitions",
        "fire_timers",
        "load_owed",
        "drain_owed",
        "due_resumes",
    ],
)
@pytest.mark.parametrize("moment", [None, "0s", "2s", "9900ms"])
def test_a_lost_answer_loses_and_doubles_nothing(rig, operation, moment):
    """FAULT-8, INV-2, INV-3: what was done stays done, and is read again."""
    missed = rig.schedule("missed", timetable=every("2s"), misfire=Misfire("all", grace="1s"))
    rig.advance(10 * SECOND)
    record = rig.schedule(timetable=every("1s"))
    delayed = [rig.delay(number * SECOND, f"r{number}") for number in range(1, 20)]
    dispatcher = rig.dispatcher()
    if moment is not None:
        rig.run(moment)
    rig.lines[0].loses.add(operation)
    rig.run_until(rig.at("40500ms"))

    assert [*range(11, 41)] == rig.instants(record)
    assert {*delayed} <= {run.id for run in rig.runs()}
    assert [*range(2, 41, 2)] == rig.instants(missed)
    assert tuple(range(4)) == dispatcher.shards(Lane.LIVE)
    assert tuple(range(4)) == dispatcher.shards(Lane.CATCH_UP)


def test_after_a_lost_answer_the_shards_are_read_at_once(rig):
    """FAULT-8: the next instants of what did fire are not left to the sweep."""
    schedules = [rig.schedule(f"s{number}", timetable=every("300ms")) for number in range(8)]
    rig.dispatcher()
    rig.run("5s")
    rig.lines[0].loses.add("fire_timers")
    rig.run("5s")

    assert {10_000 // 300} == {len(rig.runs(one)) for one in schedules}
    assert max(rig.lateness()) <= 100_000


def test_what_an_order_did_that_was_given_up_on_is_found_at_once(rig):
    """FAULT-8, INV-26: a firing that nobody waits for any more is carried out after all."""
    record = rig.schedule(timetable=every("1s"))
    rig.dispatcher()
    rig.run("5500ms")
    given_up = []

    def is_given_up(command):
        if rig.now < rig.at("10s"):
            given_up.append(command)
            return True
        for one in given_up[:1]:
            rig.store.fire_timers(one)
        given_up.clear()
        return False

    rig.lines[0].refuses["fire_timers"] = is_given_up
    rig.run_until(rig.at("12500ms"))

    assert [*range(1, 13)] == rig.instants(record)


def test_what_could_not_be_planned_is_tried_again_at_once(rig):
    """What was taken to be fired is not left to the sweep when its definition did not come."""
    rig.dispatcher()
    rig.run("10500ms")
    record = rig.schedule(timetable=every("100ms"))
    rig.lines[0].loses.add("read_definitions")
    rig.run("1s")

    assert rig.runs(record)
    assert max(rig.lateness()) <= 600_000


@pytest.mark.parametrize("is_done", [False, True])
def test_any_call_may_fail(is_done):
    """FAULT-1, INV-2, INV-3: the n-th call fails, before or after it was carried out."""
    for number in range(1, 45):
        rig = Rig()
        missed = rig.schedule("missed", timetable=every("1s"), misfire=Misfire("all", grace="1s"))
        rig.advance(5 * SECOND)
        record = rig.schedule(timetable=every("1s"))
        rig.dispatcher()
        rig.lines[0].fails_at, rig.lines[0].is_done = number, is_done
        rig.run_until(rig.at("18500ms"))

        assert [*range(6, 19)] == rig.instants(record)
        assert [*range(1, 19)] == rig.instants(missed)


def test_leases_whose_release_was_not_answered_do_not_stay_without_an_owner(rig):
    """A dispatcher that is not sure asks the store what it owns."""
    rig.dispatcher()
    rig.run("5s")
    rig.lines[0].loses.add("release_leases")
    rig.dispatcher()
    rig.run("15s")
    first, second = rig.owners()

    assert [*range(4)] == sorted(first + second)
    assert [*range(4)] == sorted(sum(rig.owners(Lane.CATCH_UP), ()))


def test_a_dispatcher_that_can_not_say_good_bye_stops_all_the_same(rig):
    """INV-24: its lease runs out by itself."""
    dispatcher = rig.dispatcher()
    rig.run("5s")
    rig.lines[0].is_cut = True
    dispatcher.stop()
    rig.kill(dispatcher)
    other = rig.dispatcher()
    rig.run("8s")

    assert tuple(range(4)) == other.shards()


def test_a_store_of_another_age_is_not_tried_for_ever(rig):
    """An operator must act, so the tick raises."""
    dispatcher = rig.dispatcher()

    def refuse(command):
        raise SchemaMismatch("memory", "is older than this program", "migrate it")

    rig.store.join = refuse
    with pytest.raises(SchemaMismatch):
        dispatcher.tick()
