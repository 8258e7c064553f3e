"""In a crowd the next batch is being fired while what has become of the last is heard."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from duly.domain.audit import Actor
from duly.domain.enums import RunState
from duly.errors import StoreUnavailable
from duly.store.ports.schedules import CancelDelayed
from duly.telemetry import TickFailed
from duly.timetable.interval import every
from tests.engine.rig import MINUTE, SECOND, Line

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.store.ports.dispatch import Fired, FireTimers

ADA = Actor("ada", "test")
CROWD = 40
FEW = {"batch_first": 4, "batch_max": 4}


class Ahead:
    """Fires at once and keeps the answer; notes both among the calls of its line."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self.begun = 0
        self.declines = False
        """Whether nobody is there to do it meanwhile."""
        self.fails: int | None = None
        """Which can't be begun;"""
        self.unheard: int | None = None
        """and of which the answer is lost when it is asked for,"""
        self.loss: Exception = away()
        """in which way."""
        self.on_hear: Callable[[], None] = lambda: None
        """What happens while an answer is waited for."""

    def __call__(self, command: FireTimers) -> Callable[[], Fired] | None:
        if self.declines:
            return None
        self.begun += 1
        number = self.begun
        self._line.calls.append("begin")
        if number == self.fails:
            raise self.loss
        answer = self.fire(command)

        def hear() -> Fired:
            self._line.calls.append("hear")
            self.on_hear()
            if number == self.unheard:
                raise self.loss
            return answer()

        return hear

    def fire(self, command: FireTimers) -> Callable[[], Fired]:
        fired = self._line.fire_timers(command)
        return lambda: fired


class LateAhead(Ahead):
    """Fires when the answer is asked for, as when nobody has done it meanwhile."""

    def fire(self, command: FireTimers) -> Callable[[], Fired]:
        return lambda: self._line.fire_timers(command)


EITHER = pytest.mark.parametrize("ahead", [Ahead, LateAhead])


def away() -> StoreUnavailable:
    return StoreUnavailable("memory", "is gone", "try again")


@pytest.fixture
def begin(rig):
    """Have a dispatcher that fires four at a time, and who begins to fire for it."""

    def begin_one(ahead=Ahead, **settings):
        made = []

        def make(line):
            made.append(ahead(line))
            return made[0]

        rig.dispatcher(ahead=make, **FEW | settings)
        return made[0]

    return begin_one


def crowd(rig, count=CROWD):
    """Promise runs that are all due after ten seconds."""
    return {rig.delay(10 * SECOND, f"r{number}") for number in range(count)}


def of_interest(rig):
    return [call for call in rig.lines[0].calls if call in {"begin", "hear"}]


def is_fired_once(rig, runs):
    """Say whether each has become one run, and none was early."""
    found = rig.runs()
    return sorted(runs) == sorted(run.id for run in found) and min(rig.lateness()) >= 0


def test_the_next_batch_is_begun_before_the_last_is_heard(rig, begin):
    """And every batch is heard in its turn."""
    runs = crowd(rig, 16)
    begin()
    rig.run("11s")

    assert ["begin", *["begin", "hear"] * 3, "hear"] == of_interest(rig)
    assert is_fired_once(rig, runs)


@EITHER
@pytest.mark.parametrize("most", [1, 2, 16])
def test_a_crowd_is_fired_once_whoever_does_it(rig, begin, ahead, most):
    """INV-2."""
    runs = crowd(rig)
    begin(ahead, fires_ahead_max=most)
    rig.run("11s")

    assert is_fired_once(rig, runs)


def test_no_more_are_begun_in_one_go_than_may_be(rig, begin):
    """FAULT-14: renewals and arrivals are looked at between ticks."""
    crowd(rig)
    begin(fires_ahead_max=2, batches_per_tick=1)
    rig.run("11s")
    calls = rig.lines[0].calls
    whole = [call for call in calls if call in {"begin", "hear", "fire_timers"}]

    # The store is asked by `begin` twice, and the third batch goes out in the usual way.
    once = ["begin", "fire_timers", "begin", "fire_timers", "hear", "hear", "fire_timers"]
    assert once == whole[: len(once)]


@EITHER
def test_nothing_is_under_way_when_a_tick_ends(rig, begin, ahead):
    """Whoever renews, gives leases up or stops knows of all that was fired."""
    crowd(rig)
    begin(ahead, fires_ahead_max=3)
    dispatcher, calls = rig.fleet[0], rig.lines[0].calls
    rig.run("9s")
    rig.advance(SECOND + 1000)
    for _ in range(6):
        dispatcher.tick()
        assert calls.count("begin") == calls.count("hear")

    assert calls.count("begin") >= 5


def test_whoever_does_nothing_meanwhile_is_asked_in_the_usual_way(rig, begin):
    runs = crowd(rig)
    begin().declines = True
    rig.run("11s")

    assert [] == of_interest(rig)
    assert is_fired_once(rig, runs)


def test_what_does_not_fill_a_batch_is_sent(rig, begin):
    """Nothing is gained by beginning what nothing follows."""
    runs = crowd(rig, 3)
    begin()
    rig.run("11s")

    assert [] == of_interest(rig)
    assert is_fired_once(rig, runs)


@EITHER
@pytest.mark.parametrize("number", [1, 2, 5])
def test_after_a_lost_answer_nothing_is_assumed_of_what_was_under_way(rig, begin, ahead, number):
    """FAULT-8, INV-2: neither of the batch itself nor of the one behind it."""
    runs = crowd(rig)
    begin(ahead).unheard = number
    rig.run("15s")

    assert is_fired_once(rig, runs)
    assert max(rig.lateness()) < SECOND // 2, "it was looked for at once, and not by a sweep"


@EITHER
@pytest.mark.parametrize("number", [7, 8])
def test_what_has_fired_unheard_goes_on_at_once(rig, begin, ahead, number):
    """FAULT-8: next instants are not left to the sweep, of what was behind it neither."""
    schedules = [rig.schedule(f"s{number}", timetable=every("300ms")) for number in range(12)]
    begin(ahead).unheard = number
    rig.run("10s")

    assert {10_000 // 300} == {len(rig.runs(one)) for one in schedules}
    assert max(rig.lateness()) <= SECOND // 10


@EITHER
def test_a_batch_that_fails_for_a_reason_of_its_own_stops_no_other(rig, begin, ahead):
    """INV-26: it is sent again, in parts, and no tick has failed."""
    runs = crowd(rig)
    made = begin(ahead)
    made.unheard, made.loss = 2, ValueError("a row that nobody can read")
    rig.run("15s")

    assert is_fired_once(rig, runs)
    assert max(rig.lateness()) < SECOND // 2, "it was sent again at once"
    assert [] == rig.recorder.of(TickFailed)


@EITHER
@pytest.mark.parametrize("number", [1, 2, 5])
@pytest.mark.parametrize("loss", [StoreUnavailable("memory", "is gone", "wait"), ValueError("?")])
def test_what_could_not_be_begun_is_fired_all_the_same(rig, begin, ahead, number, loss):
    """FAULT-8, INV-26."""
    runs = crowd(rig)
    made = begin(ahead)
    made.fails, made.loss = number, loss
    rig.run("15s")

    assert is_fired_once(rig, runs)
    assert max(rig.lateness()) < SECOND // 2
    assert [] == rig.recorder.of(TickFailed)


def test_the_backlog_has_its_share_of_every_batch(rig, begin):
    """A crowd does not keep what is overdue from being fired for longer than one batch."""
    old = {rig.delay(SECOND, f"old{number}") for number in range(8)}
    rig.advance(5 * MINUTE)
    crowd(rig)
    begin(batch_backlog_min=2)
    rig.advance(10 * SECOND)
    rig.run("1s")
    made = [command.delayed for command in rig.lines[0].asked["fire_timers"]]
    places = [any(fire.timer.ref in old for fire in fires) for fires in made]

    assert 4 == places.count(True), "two at a time"
    assert max(after - before for before, after in pairwise(found(places))) <= 2


def found(places):
    return [place for place, is_so in enumerate(places) if is_so]


def test_other_duties_have_their_turn_after_a_while(rig, begin):
    """What was ordered meanwhile for an instant that is near is read in time."""
    crowd(rig)
    begin(fire_slice_us=SECOND // 10, fires_ahead_max=100)
    ahead = rig.fleet[0]._around.begin_fire  # noqa: SLF001 - it was put in above
    rig.run("9s")
    ahead.on_hear = lambda: rig.advance(SECOND // 20)
    rig.advance(SECOND + 1000)
    calls = rig.lines[0].calls
    begun_before = calls.count("begin")
    rig.fleet[0].tick()

    assert 1 <= calls.count("begin") - begun_before <= 4, "of ten there are"


@EITHER
def test_nothing_is_assumed_of_what_is_under_way_when_the_next_can_t_be_planned(rig, begin, ahead):
    """FAULT-8: nobody hears of it any more, so it is looked for."""
    runs = crowd(rig)
    begin(ahead)
    made = rig.fleet[0]._plans  # noqa: SLF001 - planning fails there
    plan, plans = made.made_for, []

    def fail_once(batch, slice_us):
        plans.append(batch)
        if len(plans) == 3:
            raise away()
        return plan(batch, slice_us)

    made.made_for = fail_once
    rig.run("15s")

    assert is_fired_once(rig, runs)
    assert max(rig.lateness()) < SECOND // 2


def test_what_others_have_changed_meanwhile_is_left_alone(rig, begin):
    """A run that is cancelled after its timer was loaded does not fire."""
    runs = sorted(crowd(rig))
    begin()
    rig.run("9s")
    for run in runs[::2]:
        rig.store.cancel_delayed(CancelDelayed(tenant="default", key=None, id=run, actor=ADA))
    rig.run("2s")
    states = {run.id: run.state for run in rig.runs()}

    assert {RunState.CANCELLED} == {states[run] for run in runs[::2]}
    assert {RunState.QUEUED} == {states[run] for run in runs[1::2]}


def test_whoever_may_no_longer_write_begins_nothing_more(rig, begin):
    """By its own count of the lease; what is under way is heard."""
    runs = crowd(rig)
    ahead = begin()
    rig.run("9s")
    ahead.on_hear = lambda: rig.advance(MINUTE)
    rig.advance(SECOND + 1000)
    rig.fleet[0].tick()
    calls = rig.lines[0].calls

    assert 2 == calls.count("begin") == calls.count("hear"), "the second was begun before it"
    ahead.on_hear = lambda: None
    rig.run("2m")
    assert is_fired_once(rig, runs)
