"""Whatever is typed: a timetable, or one clear error, at a bounded price."""

from __future__ import annotations

import json
import pickle
import sys
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from duly import Timetable, UsageError, after, at, cron, every, rrule, timetable_from_json
from duly.timetable.combinators import spread

if TYPE_CHECKING:
    from collections.abc import Callable

EARLY, LATE = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MESSAGE_LENGTH_MAX = 1000
CALLS_MAX = 60_000
"""Calls of functions, Python's or C's: a few milliseconds' worth. Time itself is not measured here."""

anything = st.text(st.characters(codec=None, categories=None), max_size=60)
HOSTILE = [
    "\ud800",
    "\u202e",
    "\0",
    "\n",
    "\u0661",
    "\u212a",
    "\uff0a",
    "\U0001f600",
    "\u0301",
    "İ",
]
cronish = st.lists(
    st.sampled_from(
        [*"0123456789*/,-?#LWHlwh() \t@", "mon", "DEC", "12-3", "*/5", "99999", *HOSTILE]
    ),
    max_size=30,
).map("".join)
fields = st.lists(cronish, min_size=4, max_size=8).map(" ".join)
durations = st.text(st.sampled_from([*"0123456789 -usmhdw.", *HOSTILE]), max_size=40)
times = st.text(st.sampled_from([*"0123456789-:T+Z. W", *HOSTILE]), max_size=40)
odd = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.binary(max_size=5), st.lists(st.none())
)


def assert_clear(error: UsageError) -> None:
    """An error names its field, problem and remedy in one printable line of bounded length."""
    message = str(error)

    assert error.field.strip()
    assert error.problem.strip()
    assert error.remedy.strip()
    assert message.startswith(f"{error.field}: ")
    assert message.endswith(error.remedy)
    assert message.isprintable()
    assert len(message) <= MESSAGE_LENGTH_MAX
    assert message == str(pickle.loads(pickle.dumps(error)))


def made(make: Callable[..., Timetable], *given: Any, **named: Any) -> Timetable | None:
    """Make a timetable, or see to it that the refusal is clear; anything else is a failure."""
    try:
        return make(*given, **named)
    except UsageError as error:
        assert_clear(error)
        return None


def assert_sound(timetable: Timetable, asked: datetime) -> None:
    """An accepted timetable answers, moves on, speaks, and can be stored and read back."""
    for moment in (asked, EARLY, LATE):
        with suppress(UsageError):
            later, earlier = timetable.next(moment), timetable.previous(moment)

            assert later is None or later > moment
            assert earlier is None or earlier < moment
            assert timetable.upcoming(moment, 2)[:1] == ([later] if later else [])
    assert timetable.describe().isprintable()
    assert timetable == timetable_from_json(json.dumps(timetable.to_json()))


moments = st.datetimes(timezones=st.just(UTC))


@settings(max_examples=300)
@given(st.one_of(fields, cronish, anything), moments, st.one_of(st.none(), anything))
@example("@" + "every_second" * 9, NOON, None)
@example("\ud83d \ud83d \ud83d \ud83d \ud83d", NOON, "\udc00")
@example("0 0 0 ? * * H", NOON, "")
@example("H(0-59)/59 H(23-23) H(31-31) H(12-12) H(7-7)", NOON, "a")
def test_any_expression_is_a_timetable_or_refused(expression, asked, seed):
    timetable = made(cron, expression, seed=seed)
    if timetable is not None and timetable is spread(timetable, "a"):
        assert_sound(timetable, asked)


@settings(max_examples=200)
@given(
    st.sampled_from(
        [
            "*",
            "?",
            "0",
            "1,2",
            "1-5",
            "*/2",
            "L",
            "LW",
            "L-3",
            "15W",
            "mon",
            "FRI#2",
            "5L",
            "jan",
            "2030",
            "H",
        ]
    ),
    st.data(),
    moments,
)
def test_any_field_in_any_place_is_a_timetable_or_refused(field, data, asked):
    size = data.draw(st.integers(5, 7))
    texts = ["*"] * size
    texts[data.draw(st.integers(0, size - 1))] = field
    texts[data.draw(st.integers(0, size - 1))] = "?"
    for dialect in ("cron", "quartz"):
        timetable = made(cron, " ".join(texts), seed="a", dialect=dialect)
        if timetable is not None:
            assert_sound(timetable, asked)


@given(
    st.one_of(anything, odd),
    st.sampled_from(["expr", "tz", "gap", "fold", "seed", "dialect"]),
)
def test_any_word_in_any_place_is_taken_or_refused(value, place):
    timetable = made(cron, **({"expr": "H 9 * * *", "seed": "a"} | {place: value}))
    if timetable is not None:
        assert_sound(timetable, NOON)


@settings(max_examples=200)
@given(st.one_of(durations, anything, odd, st.timedeltas()), moments)
def test_any_period_is_an_interval_or_refused(period, asked):
    timetable = made(every, period)
    if timetable is not None:
        assert_sound(timetable, asked)


@given(st.one_of(durations, anything, odd, st.timedeltas()), moments)
def test_any_delay_is_a_date_or_refused(delay, event):
    timetable = made(after, event, delay)
    if timetable is not None:
        assert_sound(timetable, NOON)


@settings(max_examples=200)
@given(
    st.one_of(
        times, anything, odd, st.datetimes().map(datetime.isoformat), st.datetimes(), moments
    ),
    st.sampled_from([None, "UTC", "America/New_York", "Asia/Tokyo", "../UTC", "\0"]),
)
def test_any_date_is_one_or_refused(when, tz):
    timetable = made(at, when, tz=tz)
    if timetable is not None:
        assert_sound(timetable, NOON)


@given(st.one_of(times, anything, odd, st.dates(), moments), st.one_of(st.none(), anything, odd))
def test_any_day_is_excluded_or_refused(day, tz):
    timetable = made(cron("0 9 * * *").excluding, day, tz=tz)
    if timetable is not None:
        assert_sound(timetable, NOON)


@given(
    st.one_of(odd, moments, st.datetimes(), anything),
    st.one_of(odd, moments, st.datetimes(), anything),
)
def test_any_bounds_are_taken_or_refused(start, end):
    hourly = every("1h")
    for timetable in (made(hourly.between, start, end), made(hourly.limited, 3, start=start)):
        if timetable is not None:
            assert_sound(timetable, NOON)


@pytest.mark.parametrize(
    "value",
    [
        10**5000,
        -(10**5000),
        float("nan"),
        "x" * 10**6,
        b"x" * 10**5,
        ["x"] * 10**4,
        object(),
        "\u202e" * 200,
    ],
    ids=["huge", "hugely negative", "nan", "long", "long bytes", "list", "object", "bidi"],
)
def test_any_value_can_be_shown_in_an_error(value):
    for make in (
        cron,
        every,
        at,
        lambda value: cron("* * * * *", tz=value),
        lambda value: every("1h").limited(value, start=NOON),
        lambda value: every("1h").excluding(value),
        lambda value: every("1h").between(value, None),
        lambda value: every("1h") | value,
    ):
        with pytest.raises(UsageError) as caught:
            make(value)
        message = str(caught.value)

        assert message.isprintable()
        assert len(message) <= MESSAGE_LENGTH_MAX


class Rude:
    """A value that does not even tell its name."""

    def __repr__(self) -> str:
        raise RuntimeError("no")


class Torn:
    """A value whose name has two lines."""

    def __repr__(self) -> str:
        return "one\ntwo\x1b[31m"


@pytest.mark.parametrize("value", [Rude(), Torn()], ids=["rude", "torn"])
def test_a_value_with_a_bad_name_is_refused_in_one_line(value):
    with pytest.raises(UsageError) as caught:
        cron(value)

    assert str(caught.value).isprintable()


# The price of an answer.


def calls(work: Callable[[], object]) -> int:
    """Count the calls of functions that some work takes; refusals are work, too."""
    counted = 0

    def count(_: object, event: str, __: object) -> None:
        nonlocal counted
        counted += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    except UsageError:
        pass
    finally:
        sys.setprofile(before)
    return counted


def asked_everything(make: Callable[[], Timetable]) -> None:
    timetable = make()
    timetable.describe()
    for moment in (NOON, EARLY, LATE):
        timetable.next(moment)
        timetable.previous(moment)


PRICEY_TEXTS = [
    "0 0 30 2 *",
    "59 59 23 31 2,4,6,9,11 ?",
    "0 0 0 29 2 ? 2097-2099",
    "0 0 29 2 */7",
    "0 0 L-30 2 *",
    "," * 10_000,
    "," * 999,
    "*," * 490 + "* * * * *",
    "0-59/1," * 120 + "0 * * * *",
    "* " * 5000,
    "*/" * 400,
    "9" * 900 + " * * * *",
    "H(" * 300,
    "-" * 999,
    "* * " + ",".join(f"L-{n}W" for n in range(31)) + " * *",
    "* * * * " + ",".join(f"{day}#{k}" for day in range(8) for k in range(1, 6)),
]


@pytest.mark.parametrize("text", PRICEY_TEXTS, ids=lambda text: text[:20])
@pytest.mark.parametrize("tz", ["UTC", "America/New_York"])
def test_no_expression_costs_more_than_a_bounded_price(text, tz):
    """Asked from both ends of the calendar, too."""
    cron("0 0 * * *", tz).next(LATE - timedelta(days=9))  # the zone itself is read once

    assert calls(lambda: asked_everything(lambda: cron(text, tz, seed="a"))) < CALLS_MAX


@pytest.mark.parametrize(
    "tz", ["x" * 80, "America/" * 10, "Europe/Pari", "/" * 80, "\u202e" * 80, "e" * 10**6]
)
def test_no_zone_costs_more_than_a_bounded_price(tz):
    """Looking for the nearest name included."""
    assert calls(lambda: cron("* * * * *", tz)) < CALLS_MAX


@pytest.mark.parametrize(
    "text", ["1m " * 33 + "x", "1" * 10**6, "1s" * 10**5, " " * 10**6 + "1s", "-" * 10**5]
)
def test_no_duration_costs_more_than_a_bounded_price(text):
    assert calls(lambda: every(text)) < 100


DAYS = [date(2026, 1, 1) + timedelta(days=number) for number in range(5000)]
SPARSE = [date(2026, 1, 1) + timedelta(days=2 * number) for number in range(5000)]
DAILY = cron("0 0 * * *", "Europe/Paris")


def nested_exclusions() -> Timetable:
    timetable: Timetable = every("1s")
    for excluded in ("1-59 * * * * *", "0 1-59 * * * *", "0 0 1-23 * * *", "0 0 0 2-31 * *"):
        timetable = timetable.excluding(cron(excluded)).between(None, None)
    return timetable


def union_of_many() -> Timetable:
    timetable: Timetable = cron("0 0 30 2 *")
    for month_day in range(1, 31):
        timetable = timetable | cron(f"0 0 {month_day} 2 *")
    return timetable


NEVER, SECONDLY = cron("0 0 30 2 *"), cron("* * * * * *")
PRICEY_COMBINATIONS = [
    lambda: every("100ms").excluding(every("100ms")),
    nested_exclusions,
    lambda: nested_exclusions().limited(1000, start=NOON),
    union_of_many,
    lambda: union_of_many().excluding(union_of_many()),
    lambda: (SECONDLY | NEVER).excluding(NEVER, SECONDLY, NEVER),
    lambda: DAILY.excluding(*DAYS),
    lambda: (DAILY | every("48h")).excluding(*SPARSE),
    lambda: cron("0 0 30 2 *").limited(1000, start=EARLY),
    lambda: every("100ms").limited(1000, start=EARLY).limited(1000, start=EARLY),
]


def answer(make: Callable[[], Timetable], ask: str, moment: datetime) -> object:
    return getattr(make(), ask)(moment)


@pytest.mark.parametrize("make", PRICEY_COMBINATIONS)
def test_no_combination_costs_more_than_a_bounded_price(make):
    for moment in (NOON, EARLY, LATE):
        for ask in ("next", "previous"):
            price = calls(partial(answer, make, ask, moment))

            assert price < 5 * CALLS_MAX


leaves = st.sampled_from(
    [
        cron("* * * * * *"),
        cron("0 0 30 2 *"),
        cron("30 2 * * *", "Europe/Berlin"),
        every("100ms"),
        every("36600d"),
        at("2026-03-29T02:30", tz="Europe/Berlin", gap="skip"),
    ]
)


def grown(inner: st.SearchStrategy[Timetable]) -> st.SearchStrategy[Timetable]:
    return st.one_of(
        st.tuples(inner, inner).map(lambda two: two[0] | two[1]),
        st.tuples(inner, inner).map(lambda two: two[0].excluding(two[1])),
        st.tuples(inner, st.dates()).map(lambda two: two[0].excluding(two[1], tz="Asia/Tokyo")),
        st.tuples(inner, moments).map(lambda two: two[0].between(two[1], None)),
        st.tuples(inner, moments).map(lambda two: two[0].between(None, two[1])),
        st.tuples(inner, moments).map(limited),
    )


def limited(drawn: tuple[Timetable, datetime]) -> Timetable:
    return made(drawn[0].limited, 1000, start=drawn[1]) or drawn[0]


@settings(max_examples=100)
@given(st.recursive(leaves, grown, max_leaves=12), moments)
def test_any_combination_answers_or_refuses_at_a_bounded_price(timetable, asked):
    assert_sound(timetable, asked)
    assert calls(lambda: timetable.next(asked)) < 5 * CALLS_MAX


@pytest.mark.parametrize("text", ["M,H\x00DAILYR=Y", "FREQ\x1b[31m=DAILY", "\u202eFREQ=DAILY"])
def test_what_was_typed_never_reaches_a_terminal_raw(text):
    """Found by the fuzzer in the name of an unknown part."""
    with pytest.raises(UsageError) as refused:
        rrule(text, dtstart="20260403T090000")

    assert str(refused.value).isprintable()
