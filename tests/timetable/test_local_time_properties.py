"""Local times become instants as an independent brute force says, in every zone.

By default a sample of zones and changes is tried; DULY_THOROUGH=1 tries every change from 1970 to
2040 in every zone, which takes some twenty minutes.
"""

from __future__ import annotations

import os
import random
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duly.timetable.local_time import FOLDS, GAPS, LocalRule, resolve
from duly.timetable.zones import ZoneDatabase, default_zones
from tests.timetable.local_time_oracle import (
    A_FEW_TIMES,
    DAY,
    EVERY_MINUTE,
    DailyTimes,
    Oracle,
    Window,
    distinct_keys,
    seconds,
)
from tests.timetable.made_zones import release, tzif

ZONES = default_zones()
POLICIES = list(product(GAPS, FOLDS))
THOROUGH = bool(os.environ.get("DULY_THOROUGH"))
FIRST, LAST = seconds(1970, 1, 1), seconds(2040, 1, 1)
NOTABLE = [
    ("Africa/Casablanca", (2026, 2, 15)),  # summer time is interrupted for Ramadan
    ("Africa/Casablanca", (2025, 4, 6)),
    ("Africa/Monrovia", (1972, 1, 7)),  # by 44 minutes and 30 seconds
    ("America/Caracas", (2007, 12, 9)),  # by half an hour
    ("America/Havana", (2025, 3, 9)),  # at midnight
    ("America/Santiago", (2025, 9, 7)),  # at midnight
    ("America/Santiago", (2025, 4, 6)),
    ("America/St_Johns", (1988, 4, 3)),  # by two hours, at one minute past midnight
    ("Antarctica/Casey", (2010, 3, 4)),  # by three hours
    ("Antarctica/Troll", (2025, 3, 30)),  # by two hours
    ("Antarctica/Troll", (2025, 10, 26)),
    ("Asia/Kathmandu", (1985, 12, 31)),  # by a quarter of an hour
    ("Asia/Pyongyang", (2018, 5, 4)),
    ("Australia/Lord_Howe", (2025, 4, 5)),  # by half an hour
    ("Australia/Lord_Howe", (2025, 10, 4)),
    ("Europe/Dublin", (2025, 3, 30)),  # winter time is the exception, by law
    ("Europe/Dublin", (2025, 10, 26)),
    ("Pacific/Apia", (2011, 12, 30)),  # a whole day is missing
    ("Pacific/Kiritimati", (1994, 12, 31)),
    ("Pacific/Kwajalein", (1993, 8, 21)),
]


def changes_of(key: str) -> list[int]:
    """Return when a zone's clock jumps; where to look, not what to expect."""
    zone, found, instant = ZONES.zone(key), [], FIRST
    while instant < LAST:
        instant = zone.segment(instant).end
        if instant < LAST and zone.segment(instant).offset != zone.segment(instant - 1).offset:
            found.append(instant)
    return found


def sampled_changes(size: int) -> list[tuple[str, int]]:
    draw = random.Random(2026)
    keys = draw.sample(distinct_keys(ZONES), size)
    return [(key, draw.choice(changes)) for key in keys if (changes := changes_of(key))]


def notable_changes() -> list[tuple[str, int]]:
    found = []
    for key, day in NOTABLE:
        noon = seconds(*day) + DAY // 2
        found.append((key, min(changes_of(key), key=lambda at: abs(at - noon))))
    return found


def assert_equal_to_brute_force(
    key: str, rule: DailyTimes, start: int, end: int, zones: ZoneDatabase = ZONES
) -> None:
    zone, window = zones.zone(key), Window(Oracle(zones, key), rule, start, end)
    for gap, fold in POLICIES:
        expected = window.instants(gap, fold)
        where = f"{key} {start}..{end} gap={gap} fold={fold}"

        forward, instant = [], LocalRule(rule, zone, gap, fold).first_from(start)
        while instant is not None and instant < end:
            forward.append(instant)
            instant = LocalRule(rule, zone, gap, fold).first_from(instant + 1)
        backward, instant = [], LocalRule(rule, zone, gap, fold).last_until(end - 1)
        while instant is not None and instant >= start:
            backward.append(instant)
            instant = LocalRule(rule, zone, gap, fold).last_until(instant - 1)

        assert expected == forward, where
        assert expected == backward[::-1], where
        assert len(expected) == LocalRule(rule, zone, gap, fold).count(start, end), where
        for cut in (start + (end - start) // 3, start + (end - start) // 2 + 1):
            before = sum(instant < cut for instant in expected)
            assert before == LocalRule(rule, zone, gap, fold).count(start, cut), where
            assert len(expected) - before == LocalRule(rule, zone, gap, fold).count(cut, end), where


def check_change(key: str, at: int) -> None:
    jump = abs(ZONES.zone(key).segment(at).offset - ZONES.zone(key).segment(at - 1).offset)
    assert_equal_to_brute_force(key, A_FEW_TIMES, at - jump - DAY, at + jump + DAY + 30)
    near = min(jump, 4 * 3600) + 1800
    assert_equal_to_brute_force(key, EVERY_MINUTE, at - near - 7, at + near)


@pytest.mark.parametrize(("key", "at"), notable_changes())
def test_a_notable_change_is_resolved_as_by_brute_force(key, at):
    """The shapes that are known to break schedulers."""
    check_change(key, at)


def test_a_sample_of_all_changes_is_resolved_as_by_brute_force():
    """Any zone, any change from 1970 to 2040."""
    for key, at in sampled_changes(100):
        check_change(key, at)


@pytest.mark.skipif(not THOROUGH, reason="takes twenty minutes; set DULY_THOROUGH=1")
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("key", distinct_keys(ZONES) if THOROUGH else [])
def test_every_change_of_a_zone_is_resolved_as_by_brute_force(key):
    """Every zone, every change from 1970 to 2040."""
    for at in changes_of(key):
        check_change(key, at)


keys = st.sampled_from(distinct_keys(ZONES))
policies = st.sampled_from(POLICIES)
rules = st.lists(st.integers(0, 1439), min_size=1, max_size=6, unique=True).map(
    lambda minutes: DailyTimes(tuple(sorted(minute * 60 for minute in minutes)))
)


@st.composite
def instants(draw, key: str) -> int:
    """Draw an instant: near one of the zone's changes, or anywhere in nine thousand years."""
    if (changes := changes_of(key)) and draw(st.booleans()):
        return int(draw(st.sampled_from(changes)) + draw(st.integers(-2 * DAY, 2 * DAY)))
    return int(draw(st.integers(seconds(1, 6, 1), seconds(9999, 6, 1))))


many = settings(deadline=None, max_examples=150)


offsets = st.integers(-48, 56).map(lambda quarters: quarters * 900)
jumps = st.lists(st.tuples(st.integers(27 * 60, 72 * 60), offsets), min_size=1, max_size=4)


@settings(deadline=None, max_examples=30)
@given(offsets, jumps, st.integers(0, DAY // 60))
def test_jumps_of_any_size_close_together_are_resolved_as_by_brute_force(first, jumps, minute):
    """Made-up zones that jump by up to 26 hours, every other day or more often."""
    at, changes = seconds(2020, 1, 10) + minute * 60, []
    for letter, (minutes, offset) in zip("BCDE", jumps, strict=False):
        changes.append((at, (offset, False, letter * 3)))
        at += minutes * 60
    zones = release(X=tzif((first, False, "AAA"), changes))

    assert_equal_to_brute_force("X", A_FEW_TIMES, changes[0][0] - 2 * DAY, at + 2 * DAY, zones)


@many
@given(st.data(), keys, rules, policies)
def test_the_next_instant_is_later_and_previous_leads_back(data, key, rule, policy):
    """Next(t) > t, and previous(next(t)) is the last one not after t."""
    zone, instant = ZONES.zone(key), data.draw(instants(key))
    gap, fold = policy
    later = LocalRule(rule, zone, gap, fold).first_from(instant + 1)
    assert later is not None
    earlier = LocalRule(rule, zone, gap, fold).last_until(later - 1)
    assert earlier is not None

    assert earlier <= instant < later
    assert later == LocalRule(rule, zone, gap, fold).first_from(earlier + 1)
    assert later == LocalRule(rule, zone, gap, fold).first_from(later)
    assert earlier == LocalRule(rule, zone, gap, fold).last_until(earlier)
    assert LocalRule(rule, zone, gap, fold).count(earlier, later + 1) == 2


@many
@given(st.data(), keys, rules, st.sampled_from(GAPS))
def test_both_is_first_and_second_together(data, key, rule, gap):
    """No third instant, and none lost."""
    zone, start = ZONES.zone(key), data.draw(instants(key))
    end = start + 4 * DAY
    found = {fold: set(_all(rule, zone, gap, fold, start, end)) for fold in FOLDS}

    assert found["first"] | found["second"] == found["both"]


@many
@given(st.data(), keys, rules)
def test_every_named_time_fires_once_on_every_day_by_default(data, key, rule):
    """Whatever the clocks do; those that fall into one gap collapse into one instant."""
    zone, start = ZONES.zone(key), data.draw(instants(key))
    low = (start // DAY) * DAY
    expected: list[int] = []
    for wall in rule.members(low, low + 4 * DAY):
        found = resolve(zone, wall).instants
        if found:
            expected.append(found[0])
        else:
            after = zone.segment(wall - zone.segment(wall - 2 * DAY).offset)
            assert after.floor <= wall < after.wall_start
            expected.append(after.start)
    actual = _all(rule, zone, "next", "first", expected[0], expected[-1] + 1)

    assert sorted(set(expected)) == actual


@many
@given(st.data(), keys)
def test_a_wall_time_resolves_to_the_instants_that_show_it(data, key):
    """None in a gap, two in a fold, one otherwise."""
    zone, oracle = ZONES.zone(key), Oracle(ZONES, key)
    wall = data.draw(instants(key))
    offsets = {oracle.offset(wall + shift) for shift in range(-2 * DAY, 2 * DAY + 1, DAY // 8)}
    expected = sorted(wall - offset for offset in offsets if oracle.offset(wall - offset) == offset)
    found = resolve(zone, wall)

    assert tuple(expected) == found.instants
    assert {0: "gap", 1: "unique", 2: "fold"}[len(expected)] == found.kind


def _all(rule, zone, gap, fold, start, end) -> list[int]:
    found, instant = [], LocalRule(rule, zone, gap, fold).first_from(start)
    while instant is not None and instant < end:
        found.append(instant)
        instant = LocalRule(rule, zone, gap, fold).first_from(instant + 1)
    return found
