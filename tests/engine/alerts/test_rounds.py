"""Going round over schedules: quickly, at a bounded price, and without a flood."""

from __future__ import annotations

from collections import Counter
from math import ceil
from typing import Any

import pytest

from duly.domain.alert_rules import AlertKind
from duly.domain.alerts import DetectorResult
from duly.domain.enums import Lane, Overlap
from duly.engine.alerts.schedule_detectors import (
    DEEP_RUNS_MAX,
    PAGE,
    REACH,
    SUBJECTS_MAX,
    DetectorContext,
    MissingDetector,
    PausedDetector,
    RotatingDetector,
    ScheduleDetector,
    told_one_by_one,
)
from duly.engine.alerts.watcher import WatcherSettings, usual_detectors
from duly.timetable.instants import SECOND_US
from duly.timetable.interval import every
from duly_conformance import alerts, kit, steps
from duly_conformance.kit import HOUR_US, MINUTE_US
from tests.engine.alerts.alert_rig import GuardRoom

OBSERVERS = pytest.mark.parametrize("kind", [ScheduleDetector, MissingDetector])
GOING_ROUND = {ScheduleDetector, MissingDetector, PausedDetector}
CALLS_OF_A_PAGE = 6
CALLS_OF_A_DEEP_READ = 3


class Counted:
    """A store that counts what it is asked."""

    def __init__(self, store) -> None:
        self._store = store
        self.asked: Counter[str] = Counter()
        self.read: list[int] = []
        """How many runs were asked about at most, by each question about ends."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)

        def call(*arguments: Any, **named: Any) -> Any:
            self.asked[name] += 1
            if name == "list_last_ends":
                ids, limit = arguments
                self.read.append(len(ids) * limit)
            return found(*arguments, **named)

        return call if callable(found) else found


def make(store, count: int) -> None:
    """Make so many schedules."""
    for number in range(count):
        steps.create(store, f"s{number:03}")


def ask(observer, store, **parts) -> list[str]:
    """Have an observer look; return the schedules that it has looked at."""
    seen: DetectorResult = observer.observe(
        DetectorContext(store=store, status=store.status(), **parts)
    )
    return sorted({key.subject.removeprefix("schedule ") for key in seen.keys})


@OBSERVERS
def test_every_schedule_is_looked_at_in_a_round(stored, kind):
    """However many there are, as many in each look as are to be, and then from the first."""
    store, _ = stored
    make(store, 13)
    observer = kind(page=2, most=5)
    looks = [ask(observer, store) for _ in range(4)]
    names = [f"s{number:03}" for number in range(13)]

    assert [names[:5], names[5:10], names[10:], names[:5]] == looks


@OBSERVERS
def test_who_has_done_enough_goes_on_in_the_next_look(stored, kind):
    """A slow store makes the round longer, and not the look."""
    store, _ = stored
    make(store, 6)
    observer = kind(page=2, most=6)
    looks = [ask(observer, store, is_time_up=lambda: True) for _ in range(3)]

    assert [["s000", "s001"], ["s002", "s003"], ["s004", "s005"]] == looks


def test_a_page_costs_the_same_however_many_are_on_it(stored):
    """As many calls of the store for fifty as for five."""
    store, _ = stored
    make(store, 55)
    counted = Counted(store)
    asked = DetectorContext(store=counted, status=store.status())
    costs: list[int] = []
    for page in (5, 50):
        counted.asked.clear()
        ScheduleDetector(page=page, most=page).observe(asked)
        costs.append(counted.asked.total())

    assert [CALLS_OF_A_PAGE, CALLS_OF_A_PAGE] == costs


def test_what_is_read_of_schedules_that_fail_for_long_is_bounded(stored):
    """A look reads so many runs, of those first that were read longest ago; the rest stay as they were."""
    store, clock = stored
    records = [
        steps.create(store, f"s{number:03}", timetable=every("15s"), overlap=Overlap.ALLOW)
        for number in range(40)
    ]
    fence = steps.own(store, (Lane.LIVE,), ttl_us=HOUR_US)
    for _ in range(REACH.ends + 1):
        steps.fall_due(clock, records[-1])
        steps.fire(store, fence, *(kit.on_time(one) for one in records))
        records = [steps.look(store, one) for one in records]
    counted, observer = Counted(store), ScheduleDetector()
    asked = DetectorContext(store=counted, status=store.status())
    found, reads = Counter[str](), []
    for _ in range(3):
        counted.read.clear()
        seen = observer.observe(asked)
        found.update(one.subject for one in seen.conditions)
        told = {one.key for one in seen.conditions}
        known = {one for one in seen.keys if one.kind is AlertKind.STALE_COMPLETION}
        assert told == known
        reads.append(sum(counted.read))

    assert 40 == len(found)
    assert 3 * (CALLS_OF_A_PAGE + CALLS_OF_A_DEEP_READ) == counted.asked.total()
    assert max(reads) <= len(records) * REACH.ends + DEEP_RUNS_MAX


def test_ten_thousand_are_gone_round_in_two_minutes():
    """By a page in each portion; and no portion takes longer than a page."""
    settings = WatcherSettings()

    assert GOING_ROUND == {
        type(one) for one in usual_detectors() if isinstance(one, RotatingDetector)
    }
    assert ceil(10_000 / PAGE) * settings.goes_on_us <= 2 * MINUTE_US
    assert settings.round_us <= settings.goes_on_us // 10


class Counting:
    """An observer that counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def observe(self, _asked: DetectorContext) -> DetectorResult:
        self.asked += 1
        return DetectorResult()


class Noted:
    """One who goes round, and somebody who notes what it was asked and saw."""

    def __init__(self, inner: MissingDetector) -> None:
        self._inner = inner
        self.asked: list[DetectorContext] = []
        self.seen: list[list[str]] = []
        self.fails = False

    @property
    def is_round_over(self) -> bool:
        return self._inner.is_round_over

    def observe(self, asked: DetectorContext) -> DetectorResult:
        self.asked.append(asked)
        if self.fails:
            raise ValueError("no index")
        found = self._inner.observe(asked)
        self.seen.append(sorted(key.subject.removeprefix("schedule ") for key in found.keys))
        return found


def test_a_round_goes_on_between_looks_and_nothing_else_does(stored):
    """Whoever watches many schedules takes a little time each second, and never much at once."""
    store, clock = stored
    make(store, 5)
    others, noted = Counting(), Noted(MissingDetector(page=2, most=2))
    guard = GuardRoom(store, clock, detectors=(others, noted))
    rests = []
    for _ in range(5):
        rest_us = guard.watcher.tick() - clock.monotonic_us()
        rests.append(rest_us // SECOND_US)
        clock.advance(f"{rest_us}us")

    assert [1, 1, 13, 1, 1] == rests
    assert 2 == others.asked
    first = [["s000", "s001"], ["s002", "s003"], ["s004"]]
    assert first + first[:2] == noted.seen
    # Those that alerts are about are looked at with all else, and not each second.
    assert [True, False, False, True, False] == [one.with_suspects for one in noted.asked]
    assert noted.asked[2].now == noted.asked[0].now + 2 * SECOND_US


def test_who_fails_on_his_round_is_not_asked_again_before_the_next_look(stored):
    """What is wrong with it is told four times a minute, and not sixty."""
    store, clock = stored
    make(store, 5)
    noted = Noted(MissingDetector(page=2, most=2))
    guard = GuardRoom(store, clock, detectors=(noted,))
    guard.watcher.tick()
    noted.fails = True
    guard.look(3, after="1s")
    noted.fails = False
    guard.look(1, after="13s")

    assert [["s000", "s001"], ["s002", "s003"]] == noted.seen
    assert 3 == len(noted.asked)


def test_who_has_got_the_watch_looks_at_everything_first(stored):
    """Whatever he has done before another had it."""
    store, clock = stored
    make(store, 5)
    others, noted = Counting(), Noted(MissingDetector(page=2, most=2))
    guard = GuardRoom(store, clock, detectors=(others, noted))
    guard.watcher.tick()
    guard.watcher.stop()
    other = GuardRoom(store, clock, b"o" * 16, detectors=())
    other.watcher.tick()
    guard.look(1, after="1s")
    other.watcher.stop()
    guard.look(1, after="1s")

    assert 2 == others.asked
    assert [True, True] == [one.with_suspects for one in noted.asked]


def test_the_worst_are_told_one_by_one_and_no_more(stored_in_memory):
    """What is known already is looked at again; of the others there is room for so many."""
    store, _ = stored_in_memory
    fence = alerts.watch(store)
    known = [alerts.condition(f"queue {number}") for number in range(3)]
    alerts.look(store, fence, *known)
    many = [alerts.condition(f"queue {number}", value=number) for number in range(100)]
    others = [alerts.condition("queue a", kind=AlertKind.OVERLAP, value=0.1)]
    asked = DetectorContext(store=store, status=store.status(), alerts=store.load_watched().alerts)
    told = told_one_by_one(asked, [*many, *others])
    values = sorted(one.value for one in told if one.kind is AlertKind.QUEUE_AGE)

    assert [0, 1, 2, *range(100 - SUBJECTS_MAX + 3, 100)] == values
    assert others == [one for one in told if one.kind is AlertKind.OVERLAP]


def test_schedules_that_all_stop_at_once_are_no_flood(stored):
    """Fifty messages; as some of those are over, others are told."""
    store, clock = stored
    for number in range(SUBJECTS_MAX + 5):
        record = steps.create(store, f"s{number:03}")
        steps.fire_due(store, clock, record)
    clock.advance("6h")
    guard = GuardRoom(store, clock, detectors=(ScheduleDetector(),))
    guard.rule("stale-completion", threshold=1, clear_for="0s")
    guard.look(4)
    first = guard.subjects("stale-completion")
    for subject in first[:5]:
        found = store.find_schedule("default", subject.removeprefix("schedule "))
        steps.delete(store, found.record)
    guard.look(4)

    assert SUBJECTS_MAX == len(first)
    assert SUBJECTS_MAX == len(guard.subjects("stale-completion"))
    raised = [one for one in guard.told("stale-completion") if one[0] == "raised"]
    assert SUBJECTS_MAX + 5 == len(raised) == len(set(raised))
