"""Cron expressions mean what brute force and cronsim say, for any expression and zone."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from itertools import islice, pairwise, product
from typing import TYPE_CHECKING

from cronsim import CronSim, CronSimError
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from duly import cron, default_zones
from duly.timetable.instants import from_seconds, to_microseconds
from duly.timetable.local_time import FOLDS, GAPS
from tests.timetable.cron_meanings import Expression, Field, five_fields, hours, minutes, six_fields
from tests.timetable.local_time_oracle import DAY, Oracle, Window, distinct_keys

if TYPE_CHECKING:
    from duly.timetable.cron import Cron

ZONES = default_zones()
FIRST, LAST = 0, int(datetime(2040, 1, 1, tzinfo=UTC).timestamp())
MICROSECOND = timedelta(microseconds=1)
START = datetime(2000, 1, 1)
ONE_VALUE_STEPPED = re.compile(r"\b(\w+)-\1/")

policies = st.sampled_from(list(product(GAPS, FOLDS)))
keys = st.sampled_from(distinct_keys(ZONES))
ANY_DAY = tuple(Field("*", lambda _: True) for _ in range(3))
daily = st.tuples(minutes, hours, *(st.just(field) for field in ANY_DAY)).map(Expression)


@st.composite
def places(draw) -> tuple[str, int]:
    """Draw a zone and an instant, most often one of its changes between 1970 and 2040."""
    key = draw(keys)
    zone = ZONES.zone(key)
    at = draw(st.integers(FIRST, LAST))
    change = zone.segment(at).end
    return key, change if FIRST < change < LAST and draw(st.integers(0, 3)) else at


def forward(timetable: Cron, start: int, end: int) -> list[int]:
    """Return the occurrences in [start, end) by asking for the next, again and again."""
    found, after = [], from_seconds(start) - MICROSECOND
    while (later := timetable.next(after)) is not None and later < from_seconds(end):
        assert later > after
        found.append(int(later.timestamp()))
        after = later
    return found


def backward(timetable: Cron, start: int, end: int) -> list[int]:
    """Return the same by asking for the previous, again and again."""
    found, before = [], from_seconds(end)
    while (earlier := timetable.previous(before)) is not None and earlier >= from_seconds(start):
        assert earlier < before
        found.append(int(earlier.timestamp()))
        before = earlier
    return found[::-1]


@settings(max_examples=30)
@given(st.one_of(daily, five_fields), places())
def test_an_expression_round_a_change_of_clocks_is_what_brute_force_says(expression, place):
    """Any zone, any change from 1970 to 2040, all nine pairs of policies."""
    key, at = place
    start, end = at - DAY - 7, at + DAY + 11
    window = Window(Oracle(ZONES, key), expression, start, end)
    for gap, fold in product(GAPS, FOLDS):
        timetable = cron(expression.text, key, gap, fold)
        meant = ("skip", "both") if expression.is_interval else (gap, fold)
        expected = window.instants(*meant)
        soon = timetable.upcoming(from_seconds(start) - MICROSECOND, len(expected))

        assert expected == forward(timetable, start, end), (gap, fold)
        assert expected == backward(timetable, start, end), (gap, fold)
        assert expected == [int(found.timestamp()) for found in soon], (gap, fold)
        assert len(expected) == timetable.count(start * 1_000_000, end * 1_000_000), (gap, fold)


@settings(max_examples=100)
@given(five_fields, st.integers(2, 9998))
def test_the_days_of_any_year_are_those_a_calendar_shows(expression, year):
    """From one end of the calendar to the other."""
    at_midnight = f"0 0 {' '.join(field.text for field in expression.fields[2:])}"
    first = datetime(year, 1, 1)
    length = (date(year + 1, 1, 1) - date(year, 1, 1)).days
    walls = [first + timedelta(days=number) for number in range(length)]
    expected = [wall.replace(tzinfo=UTC) for wall in walls if expression.matches_day(wall)]
    start, end = first.replace(tzinfo=UTC), first.replace(year=year + 1, tzinfo=UTC)
    timetable = cron(at_midnight)
    found = timetable.upcoming(start - MICROSECOND, len(expected) + 1)

    assert expected == [day for day in found if day < end]
    assert len(expected) == timetable.count(to_microseconds(start), to_microseconds(end))
    assert (expected[-1] if expected else None) == last_from(timetable, end, start)


def last_from(timetable: Cron, end: datetime, start: datetime) -> datetime | None:
    found = timetable.previous(end)
    return found if found is not None and found >= start else None


@settings(max_examples=100)
@given(six_fields, st.integers(FIRST, LAST), st.integers(1, 20))
def test_seconds_are_what_the_fields_say(expression, at, n):
    """Each second of the day is tried."""
    *times, _, _, _ = expression.fields
    second, minute, hour = (
        [number for number in range(size) if field.matches(START.replace(**{part: number}))]  # type: ignore[arg-type]
        for field, part, size in zip(times, ("second", "minute", "hour"), (60, 60, 24), strict=True)
    )
    midnight = at // DAY * DAY
    expected = [
        moment
        for day in (midnight, midnight + DAY)
        for moment in (day + h * 3600 + m * 60 + s for h, m, s in product(hour, minute, second))
        if moment > at
    ]
    timetable = cron(f"{' '.join(field.text for field in times)} * * *")

    assert (
        expected[:n]
        == [int(f.timestamp()) for f in timetable.upcoming(from_seconds(at), n)][: len(expected)]
    )
    assert len(expected) == timetable.count((at + 1) * 1_000_000, (midnight + 2 * DAY) * 1_000_000)


@settings(max_examples=80)
@given(st.one_of(daily, five_fields), places(), st.integers(-2 * DAY, 2 * DAY))
def test_cronsim_agrees(expression, place, distance):
    """An independent reading of Debian's cron, wherever it can read the expression."""
    key, at = place
    start = from_seconds(at + distance).astimezone(Oracle(ZONES, key).info)
    assume(start.fold == 0)  # from within the second pass, cronsim goes back to the first
    assume(not is_read_otherwise_by_cronsim(expression, key, at))
    try:
        oracle = CronSim(expression.text, start)
    except CronSimError:
        assume(condition=False)
        raise
    expected = [found.astimezone(UTC) for found in islice(oracle, 3)]

    assert expected == cron(expression.text, key).upcoming(start, 3)[: len(expected)]


def is_read_otherwise_by_cronsim(expression: Expression, key: str, at: int) -> bool:
    """Say whether cronsim goes its own way, as it does in two places.

    A range of one value with a step, 7-7/2, is 7/2 to it, on to the field's end. And it walks by whole
    hours, so that it may miss a time where clocks change by less, or more, or lay beside the hour.
    """
    offsets = {ZONES.zone(key).segment(at + days * DAY).offset for days in (-3, 3)}
    texts = [field.text.lower() for field in expression.fields]
    has_odd_jump = len(offsets) > 1 and any(offset % 3600 for offset in offsets)
    return has_odd_jump or any(ONE_VALUE_STEPPED.search(text) for text in texts)


@settings(max_examples=100)
@given(
    st.one_of(daily, five_fields, six_fields), places(), policies, st.integers(-2 * DAY, 2 * DAY)
)
def test_upcoming_is_next_repeated_and_previous_is_its_mirror(expression, place, policy, distance):
    """The fast path of a list has the answers of the slow one, across changes of clocks."""
    key, at = place
    timetable = cron(expression.text, key, *policy)
    asked = from_seconds(at + distance)
    found = timetable.upcoming(asked, 40)
    stepped: list[datetime] = []
    after = asked
    while len(stepped) < 40 and (later := timetable.next(after)) is not None:
        stepped.append(later)
        after = later

    assert stepped == found
    assert all(earlier < later for earlier, later in pairwise([asked, *found]))
    assert found[:-1] == [timetable.previous(later) for later in found[1:]]
    for moment in found[:3]:
        instant = to_microseconds(moment)
        assert instant == timetable.first_from(instant) == timetable.last_until(instant)
        assert instant == timetable.first_from(instant - 1) == timetable.last_until(instant + 1)
    if found:
        span = to_microseconds(asked) + 1, to_microseconds(found[-1]) + 1
        assert len(found) == timetable.count(*span)
