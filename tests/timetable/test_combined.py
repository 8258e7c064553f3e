"""Timetables made of others: union, exclusion, validity, limits."""

from __future__ import annotations

import copy
import pickle
from datetime import UTC, date, datetime, timedelta
from functools import reduce, wraps
from operator import or_

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from duly import Timetable, UsageError, at, cron, default_zones, every, timetable_from_json
from tests.each_row import each_row

MICROSECOND = timedelta(microseconds=1)
NINE = cron("0 9 * * *", "Europe/Paris")
EARLY, LATE = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


def moment(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


NEW_YEAR = moment("2026-01-01T00:00+01:00")  # a Thursday, in Paris


def moments(*texts: str) -> list[datetime]:
    return [moment(text) for text in texts]


def days(timetable: Timetable, n: int, after: datetime = NEW_YEAR) -> list[str]:
    return [f"{found:%m-%d}" for found in timetable.upcoming(after, n)]


# Union


def test_a_union_fires_whenever_either_does():
    both = cron("0 6 * * *") | cron("0 18 * * *")

    assert moments("2026-01-01T06:00", "2026-01-01T18:00", "2026-01-02T06:00") == both.upcoming(
        NEW_YEAR, 3
    )
    assert moment("2025-12-31T18:00") == both.previous(NEW_YEAR)


def test_a_union_fires_once_where_both_do():
    both = every("1h") | cron("*/30 * * * *")

    assert moments("2026-01-01T00:30", "2026-01-01T01:00", "2026-01-01T01:30") == both.upcoming(
        moment("2026-01-01"), 3
    )


def test_a_union_outlives_a_part_that_ends():
    both = at("2026-01-02T10:00", tz="UTC") | at("2026-01-01T10:00", tz="UTC")

    assert moments("2026-01-01T10:00", "2026-01-02T10:00") == both.upcoming(NEW_YEAR, 5)
    assert both.next(moment("2026-01-02T10:00")) is None


def test_parts_may_lie_in_different_zones():
    """Nine in Paris, and nine in New York, across the weeks when they are five hours apart."""
    both = NINE | cron("0 9 * * *", "America/New_York")

    assert moments("2026-03-20T09:00+01:00", "2026-03-20T09:00-04:00") == both.upcoming(
        moment("2026-03-20"), 2
    )


def test_unions_of_unions_are_one():
    """The grouping leaves no trace."""
    one, two, three = (every(period) for period in ("1h", "2h", "3h"))

    assert (one | two) | three == one | (two | three)


# Exclusion


def test_an_exclusion_leaves_out_what_the_other_says():
    timetable = cron("0 * * * *").excluding(cron("0 2-22 * * *"))

    assert moments(
        "2026-01-01T01:00", "2026-01-01T23:00", "2026-01-02T00:00"
    ) == timetable.upcoming(moment("2026-01-01"), 3)
    assert moment("2026-01-01T01:00") == timetable.previous(moment("2026-01-01T23:00"))


def test_several_may_be_excluded_at_once():
    timetable = NINE.excluding(
        cron("0 9 2 * *", "Europe/Paris"),
        "2026-01-03",
        date(2026, 1, 5),
        cron("0 9 6 * *", "Europe/Paris"),
    )

    assert ["01-01", "01-04", "01-07"] == days(timetable, 3)
    assert moment("2026-01-04T09:00+01:00") == timetable.previous(moment("2026-01-07T09:00+01:00"))


def test_an_excluded_day_lies_in_the_timetables_own_zone():
    """Half past eleven in the evening of the 1st in New York is the 2nd for the world."""
    timetable = cron("30 23 * * *", "America/New_York").excluding("2026-01-02")

    assert moments("2026-01-01T23:30-05:00", "2026-01-03T23:30-05:00") == timetable.upcoming(
        moment("2026-01-01T12:00-05:00"), 2
    )


def test_an_excluded_day_may_lie_in_another_zone():
    timetable = cron("30 23 * * *", "America/New_York").excluding("2026-01-02", tz="UTC")

    assert moments("2026-01-02T23:30-05:00") == timetable.upcoming(
        moment("2026-01-01T12:00-05:00"), 1
    )


def test_an_excluded_day_of_23_or_25_hours_is_excluded_whole():
    """And neither the hour before nor the hour after it."""
    for day, first, last in [
        ("2026-03-29", "2026-03-28T23:30+01:00", "2026-03-30T00:00+02:00"),
        ("2026-10-25", "2026-10-24T23:30+02:00", "2026-10-26T00:00+01:00"),
    ]:
        timetable = cron("*/30 * * * *", "Europe/Berlin").excluding(day)

        assert moment(last) == timetable.next(moment(first))
        assert moment(first) == timetable.previous(moment(last))


def test_a_day_that_starts_twice_is_excluded_whole():
    """In Havana the clocks go back at one o'clock to midnight."""
    timetable = cron("*/30 * * * *", "America/Havana").excluding("2025-11-02")

    assert moment("2025-11-03T00:00-05:00") == timetable.next(moment("2025-11-01T23:30-04:00"))
    assert moment("2025-11-01T23:30-04:00") == timetable.previous(moment("2025-11-03T00:00-05:00"))


def test_an_excluded_day_that_comes_back_is_excluded_on_both_sides():
    """In Santiago the clocks go back at midnight, into the evening of the day before."""
    timetable = cron("*/30 * * * *", "America/Santiago").excluding("2026-04-04")

    assert moment("2026-04-05T00:00-04:00") == timetable.next(moment("2026-04-03T23:30-03:00"))
    assert moment("2026-04-03T23:30-03:00") == timetable.previous(moment("2026-04-05T00:00-04:00"))


def test_a_day_that_a_zone_never_had_excludes_nothing():
    """Apia had no 30 December 2011."""
    timetable = cron("0 9 * * *", "Pacific/Apia").excluding("2011-12-30")

    assert moments("2011-12-31T00:00+14:00", "2011-12-31T09:00+14:00") == timetable.upcoming(
        moment("2011-12-29T12:00-10:00"), 2
    )


def test_an_interval_has_no_zone_to_take_days_from():
    with pytest.raises(UsageError, match=r"is missing; .*tz=") as caught:
        every("1h").excluding("2026-01-01")

    assert caught.value.field == "tz"


def test_an_excluded_day_is_found_from_far_away():
    """The question may lie long before the first occurrence."""
    timetable = NINE.between(NEW_YEAR, None).excluding("2026-01-01")

    assert moment("2026-01-02T09:00+01:00") == timetable.next(EARLY)


def test_a_rare_day_may_be_excluded():
    """29 February on a Sunday, 28 years apart."""
    timetable = cron("0 0 29 2 */7").excluding("2032-02-29", "2060-02-29")

    assert moments("2088-02-29") == timetable.upcoming(NEW_YEAR, 1)


@each_row("wrong", [5, None, datetime(2026, 1, 1), "2026-02-30", "1 January", b"2026-01-01"])
def test_only_timetables_and_dates_are_excluded(wrong):
    with pytest.raises(UsageError, match="is not a date; give a timetable, or a date") as caught:
        NINE.excluding(wrong)

    assert caught.value.field == "excluding"


def test_nothing_can_not_be_excluded():
    with pytest.raises(UsageError, match="is empty"):
        NINE.excluding()


# Validity


def test_validity_includes_both_its_ends():
    first, last = moment("2026-01-02T09:00+01:00"), moment("2026-01-04T09:00+01:00")
    timetable = NINE.between(first, last)

    assert ["01-02", "01-03", "01-04"] == days(timetable, 9, EARLY)
    assert last == timetable.previous(LATE)
    assert timetable.previous(first) is None
    assert timetable.next(last) is None
    assert ["01-03"] == days(NINE.between(first + MICROSECOND, last - MICROSECOND), 9, EARLY)


def test_validity_may_be_open_on_either_side():
    first = moment("2026-01-02T09:00+01:00")

    assert ["01-02", "01-03"] == days(NINE.between(first, None), 2, EARLY)
    assert first == NINE.between(None, first).previous(LATE)
    assert ["01-01", "01-02"] == days(NINE.between(None, first), 9)


def test_a_validity_of_one_instant_is_possible():
    only = moment("2026-01-02T09:00+01:00")

    assert [only] == NINE.between(only, only).upcoming(EARLY, 3)


@pytest.mark.parametrize(
    ("start", "end", "field"),
    [
        (NEW_YEAR, NEW_YEAR - MICROSECOND, "end"),
        (datetime(2026, 1, 1), None, "start"),
        (None, "someday", "end"),
        (NEW_YEAR, date(2027, 1, 1), "start"),
    ],
)
def test_validity_needs_instants_in_order(start, end, field):
    with pytest.raises(UsageError) as caught:
        NINE.between(start, end)

    assert field == caught.value.field
    assert caught.value.remedy


# Limits


def test_a_limit_counts_from_its_start():
    """The start is included, and what lies before it is not there."""
    timetable = NINE.limited(3, start=moment("2026-01-02T09:00+01:00"))

    assert ["01-02", "01-03", "01-04"] == days(timetable, 9, EARLY)
    assert ["01-04"] == days(timetable, 9, moment("2026-01-03T09:00+01:00"))
    assert moment("2026-01-04T09:00+01:00") == timetable.previous(moment("2030-01-01"))
    assert timetable.previous(moment("2026-01-02T09:00+01:00")) is None


def test_a_limit_counts_alike_before_1970():
    """Also from a start between two whole seconds."""
    timetable = cron("0 0 * * *").limited(2, start=moment("1939-12-31T23:59:59.999999"))

    assert moments("1940-01-01", "1940-01-02") == timetable.upcoming(EARLY, 5)


def test_a_limit_larger_than_what_there_is_changes_nothing():
    timetable = cron("0 0 0 1 1 ? 2028-2030").limited(1000, start=NEW_YEAR)

    assert moments("2028-01-01", "2029-01-01", "2030-01-01") == timetable.upcoming(EARLY, 9)


def test_a_limit_of_what_never_comes_is_empty():
    timetable = cron("0 0 30 2 *").limited(3, start=NEW_YEAR)

    assert [] == timetable.upcoming(EARLY, 9)
    assert timetable.previous(NEW_YEAR) is None


@pytest.mark.parametrize(("start", "size"), [(EARLY, 3), (LATE, 0)])
def test_a_limit_may_start_at_either_end_of_the_calendar(start, size):
    assert size == len(every("1h").limited(3, start=start).upcoming(EARLY, 9))


@each_row("n", [0, -1, 1001, 2.0, True, None, "3"])
def test_a_limit_is_a_number_with_bounds(n):
    with pytest.raises(UsageError, match="is out of range; give 1 to 1,000") as caught:
        NINE.limited(n, start=NEW_YEAR)

    assert caught.value.field == "limited"


def test_a_limit_needs_an_aware_start():
    with pytest.raises(UsageError, match="has no time zone"):
        NINE.limited(3, start=datetime(2026, 1, 1))


# Nesting


def test_combinations_nest():
    working = (NINE | cron("0 17 * * *", "Europe/Paris")).excluding(
        cron("0 9,17 * * sat-sun", "Europe/Paris")
    )
    timetable = working.excluding("2026-01-01").between(NEW_YEAR, None).limited(3, start=NEW_YEAR)

    assert moments(
        "2026-01-02T09:00+01:00", "2026-01-02T17:00+01:00", "2026-01-05T09:00+01:00"
    ) == timetable.upcoming(EARLY, 9)


def test_days_are_told_apart_in_the_zone_that_the_parts_agree_on():
    one_zone = (NINE | every("6h")).excluding("2026-01-02")
    assert moment("2026-01-01T23:00+00:00") < (one_zone.next(moment("2026-01-01T20:00Z")) or EARLY)

    with pytest.raises(UsageError, match="is missing"):
        (NINE | cron("0 9 * * *", "America/New_York")).excluding("2026-01-02")


def test_excluding_everything_is_told_and_not_tried_for_ever():
    timetable = every("1s").excluding(every("1s"))
    for ask in (timetable.next, timetable.previous):
        with pytest.raises(UsageError, match=r"too many occurrences in a row; exclude less"):
            ask(NEW_YEAR)


def test_exclusions_within_exclusions_share_one_patience():
    """A second in a day's 86,400 is left, behind four exclusions of sixty and more."""
    timetable: Timetable = every("1s")
    for excluded in ("1-59 * * * * *", "0 1-59 * * * *", "0 0 1-23 * * *", "0 0 0 2-31 * *"):
        timetable = timetable.excluding(cron(excluded)).between(None, None)

    with pytest.raises(UsageError, match="too many occurrences in a row"):
        timetable.next(moment("2026-01-01"))


def test_excluding_every_day_is_told():
    year = [date(2026, 1, 1) + timedelta(days=number) for number in range(5000)]

    with pytest.raises(UsageError, match="12 years"):
        NINE.excluding(*year).next(NEW_YEAR)


def test_upcoming_looks_no_further_than_it_must():
    """What was found is told, though the search for one more would fail."""
    timetable = every("1s").excluding(every("1s").between(NEW_YEAR + timedelta(seconds=3), None))

    assert 2 == len(timetable.upcoming(NEW_YEAR, 2))


def test_a_combination_has_a_largest_size():
    parts = [every(f"{seconds}s") for seconds in range(1, 200)]

    with pytest.raises(UsageError, match="combine at most 150") as caught:
        reduce(or_, parts)

    assert caught.value.field == "union"


def test_a_combination_of_shared_parts_has_the_same_largest_size():
    """Doubled again and again, it is small as an object and large as a timetable."""

    def doubled(timetable: Timetable, _: int) -> Timetable:
        return timetable.between(None, None) | timetable.between(NEW_YEAR, None)

    with pytest.raises(UsageError, match="combine at most 150"):
        reduce(doubled, range(8), NINE.between(None, None))


def test_a_combination_has_a_largest_depth_which_can_still_be_stored():
    """And whatever can be made can be read back."""
    timetable: Timetable = NINE
    for _ in range(19):
        timetable = timetable.between(None, None)

    assert timetable == timetable_from_json(timetable.to_json())
    with pytest.raises(UsageError, match="nest at most 20"):
        timetable.between(None, None)


COMBINATIONS = [
    NINE | every("1h"),
    NINE.excluding(cron("0 9 * * 6", "Europe/Paris")),
    NINE.excluding("2026-01-02"),
    NINE.between(NEW_YEAR, None),
    NINE.limited(3, start=NEW_YEAR),
]


@each_row("timetable", COMBINATIONS)
def test_a_combination_is_a_value(timetable):
    stored = pickle.dumps(timetable)
    again = [copy.copy(timetable), copy.deepcopy(timetable), pickle.loads(stored)]

    assert [timetable] * 3 == again
    assert {hash(timetable)} == {hash(one) for one in again}
    assert all(one.next(NEW_YEAR) == timetable.next(NEW_YEAR) for one in again)
    assert len(stored) < 2000


# Any combination is what sets of instants say.

SPAN = 4 * 86_400
START = datetime(2026, 3, 27, tzinfo=UTC)  # with a change of clocks inside, in Europe
END = START + timedelta(seconds=SPAN)
leaves = st.one_of(
    st.integers(30, 300).map(lambda minutes: every(f"{minutes}m")),
    st.tuples(
        st.sampled_from(["*/30 * * * *", "30 2 * * *", "0,30 1-4 * * *", "15 */5 * * *"]),
        st.sampled_from(["UTC", "Europe/Berlin", "America/New_York"]),
    ).map(lambda drawn: cron(*drawn)),
).map(lambda timetable: timetable.between(START, END))
instants = st.integers(0, SPAN).map(lambda seconds: START + timedelta(seconds=seconds))


def members(timetable: Timetable) -> set[datetime]:
    return set(timetable.upcoming(EARLY, 5000))


@st.composite
def combined(draw) -> tuple[Timetable, set[datetime]]:
    """Draw a combination together with the set of its instants in the span."""
    timetable: Timetable = draw(leaves)
    expected = members(timetable)
    for _ in range(draw(st.integers(0, 4))):
        other = draw(leaves)
        start, end = sorted([draw(instants), draw(instants)])
        match draw(st.sampled_from(["union", "excluding", "dates", "between"])):
            case "union":
                timetable, expected = timetable | other, expected | members(other)
            case "excluding":
                timetable, expected = timetable.excluding(other), expected - members(other)
            case "dates":
                timetable = timetable.excluding(start.date(), tz="UTC")
                expected = {one for one in expected if one.date() != start.date()}
            case _:
                timetable = timetable.between(start, end)
                expected = {one for one in expected if start <= one <= end}
    return timetable, expected


def unless_given_up(test):
    """Leave out what is nested so that an answer would cost too much; that is tested elsewhere."""

    @wraps(test)
    def tested(*drawn, **named):
        try:
            test(*drawn, **named)
        except UsageError as error:
            if "too many occurrences in a row" not in str(error):
                raise
            reject()

    return tested


@settings(max_examples=60)
@given(combined())
@unless_given_up
def test_a_combination_is_what_sets_of_instants_say(drawn):
    timetable, expected = drawn
    backward, before = [], LATE
    while (earlier := timetable.previous(before)) is not None:
        backward.append(earlier)
        before = earlier

    assert sorted(expected) == sorted(members(timetable))
    assert sorted(expected) == backward[::-1]


@settings(max_examples=40)
@given(combined(), st.integers(1, 30), instants)
@unless_given_up
def test_a_limit_is_the_first_of_them(drawn, n, start):
    timetable, _ = drawn
    expected = timetable.upcoming(start - MICROSECOND, n)

    assert expected == timetable.limited(n, start=start).upcoming(EARLY, n + 1)


# Whole stretches may be left out, of rules that fire every minute or second.


@pytest.mark.parametrize(
    ("timetable", "asked", "expected"),
    [
        (
            cron("* * * * *", "Europe/Berlin").excluding(cron("* * * * 0,6", "Europe/Berlin")),
            "2026-04-03T21:59:30Z",
            "2026-04-05T22:00:00Z",
        ),
        (
            cron("* * * * * *").excluding(cron("* * 0-22 * * *")),
            "2026-04-03T00:00:00Z",
            "2026-04-03T23:00:00Z",
        ),
        (
            cron("*/5 * * * *", "Europe/Berlin").excluding(
                cron("* 22-23 * * *", "Europe/Berlin"), cron("* 0-5 * * *", "Europe/Berlin")
            ),
            "2026-03-28T20:55:00Z",
            "2026-03-29T04:00:00Z",
        ),
        (
            cron("* * * * *", "Europe/Berlin").excluding(cron("* * * 10 *", "Europe/Berlin")),
            "2026-09-30T21:59:00Z",
            "2026-10-31T23:00:00Z",
        ),
    ],
)
def test_a_stretch_that_is_left_out_is_leapt_over(timetable, asked, expected):
    """A weekend of minutes is one step and not thousands, also across a clock change."""
    before, after = (datetime.fromisoformat(text) for text in (asked, expected))

    assert after == timetable.next(before)
    assert timetable.previous(after) <= before + timedelta(minutes=1)
    assert after == timetable.next(timetable.previous(after))


def test_a_rule_without_all_its_own_occurrences_is_given_up():
    """At a bounded price, and not by saying that there are none."""
    every_second = cron("* * * * * *")

    with pytest.raises(UsageError, match="too many occurrences in a row"):
        every_second.excluding(every_second).next(NEW_YEAR)


def test_a_validity_of_dates_includes_both_days_in_the_zone():
    """It is stored as the days that were said."""
    timetable = every("6h").between("2026-03-29", date(2026, 3, 29), tz="Europe/Berlin")

    assert ["03-29"] * 4 == [f"{one:%m-%d}" for one in timetable.upcoming(NEW_YEAR, 9)]
    assert timetable.next(NEW_YEAR) == moment("2026-03-29T00:00Z")
    assert "2026-03-29" == timetable.to_json()["start"]
    assert timetable == timetable_from_json(timetable.to_json())


def test_dates_lie_in_the_timetables_own_zone():
    assert ["01-02"] == days(NINE.between("2026-01-02", "2026-01-02"), 9)
    with pytest.raises(UsageError, match="say in which zone"):
        every("6h").between("2026-01-02", None)


def test_a_day_of_a_validity_begins_when_the_newer_release_says():
    """Bounds that were said as days move with the zone's rules, as everything else does."""
    timetable = every("1h").between("2026-01-02", None, tz="Europe/Berlin")

    assert timetable == timetable.under(default_zones())
    assert moment("2026-01-01T23:00Z") == timetable.under(default_zones()).next(NEW_YEAR)
