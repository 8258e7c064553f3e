"""Durations as people write them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly import UsageError
from duly.timetable.instants import duration_microseconds, duration_text, duration_words
from tests.each_row import each_row

SECOND = 1_000_000


@each_row(
    ("text", "expected"),
    [
        ("1us", 1),
        ("250ms", 250_000),
        ("90s", 90 * SECOND),
        ("15m", 900 * SECOND),
        ("1h30m", 5400 * SECOND),
        ("1h 30m", 5400 * SECOND),
        (" 15 m ", 900 * SECOND),
        ("2d", 172_800 * SECOND),
        ("1w", 604_800 * SECOND),
        ("1w2d3h4m5s6ms7us", 788_645_006_007),
        ("-24h", -86_400 * SECOND),
        ("-1h30m", -5400 * SECOND),
        ("0s", 0),
        ("36600d", 36_600 * 86_400 * SECOND),
    ],
)
def test_a_duration_is_numbers_with_units(text, expected):
    assert expected == duration_microseconds(text, "delay")


@each_row(
    "text",
    [
        "",
        "-",
        "15",
        "m",
        "15 minutes",
        "15M",
        "1.5h",
        "1h,30m",
        "1 5m",  # 15 minutes, or a slip of the finger?
        "--5m",
        "1h-5m",
        "+5m",
        "5m\n",
        "\u0663m",  # an Arabic three
        "5\u00a0m",
        "1m " * 50,
        "1" * 13 + "us",
        "5m\0",
    ],
)
def test_anything_else_is_refused(text):
    with pytest.raises(UsageError, match="is not a duration; write for example") as caught:
        duration_microseconds(text, "delay")

    assert ("delay", text) == (caught.value.field, caught.value.value)


@each_row("value", [None, 5, 1.5, True, b"5m", ["5m"]])
def test_what_is_no_text_is_refused(value):
    with pytest.raises(UsageError, match="is not a duration"):
        duration_microseconds(value, "delay")


@each_row("value", ["36601d", "-36601d", "999999999999w", timedelta.max, timedelta.min])
def test_a_duration_ends_with_a_century(value):
    with pytest.raises(UsageError, match="is longer than a century"):
        duration_microseconds(value, "delay")


@given(st.timedeltas(timedelta(days=-36_600), timedelta(days=36_600)))
def test_a_timedelta_is_taken_to_the_microsecond(value):
    assert value == timedelta(microseconds=duration_microseconds(value, "delay"))


@each_row(
    ("microseconds", "expected"),
    [
        (0, "no time"),
        (1, "1 microsecond"),
        (90 * SECOND, "1 minute 30 seconds"),
        (-5400 * SECOND, "1 hour 30 minutes"),
        (172_800 * SECOND + 2000, "2 days 2 milliseconds"),
    ],
)
def test_a_duration_is_said_in_words(microseconds, expected):
    assert expected == duration_words(microseconds)


UNITS = {
    "day": "d",
    "hour": "h",
    "minute": "m",
    "second": "s",
    "millisecond": "ms",
    "microsecond": "us",
}


@given(st.integers(1, 36_600 * 86_400 * SECOND))
def test_the_words_add_up(microseconds):
    words = duration_words(microseconds).split()
    text = "".join(
        number + UNITS[unit.removesuffix("s")]
        for number, unit in zip(words[::2], words[1::2], strict=True)
    )

    assert microseconds == duration_microseconds(text, "delay")


@given(st.integers(-36_600 * 86_400 * SECOND, 36_600 * 86_400 * SECOND))
def test_a_duration_is_written_as_it_is_read(microseconds):
    assert microseconds == duration_microseconds(duration_text(microseconds), "delay")


def test_a_duration_is_written_in_its_largest_units():
    assert ["0s", "-90us", "1h30m", "12d"] == [
        duration_text(number) for number in (0, -90, 5400 * SECOND, 12 * 86_400 * SECOND)
    ]
