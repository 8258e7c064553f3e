"""Recognising what a person typed, by its shape, and answering with one error."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duly.errors import UsageError
from duly.timetable.cron import MACROS, cron
from duly.timetable.interval import every
from duly.timetable.language.detect import KIND_NAMES, kind_of, recognise
from duly.timetable.language.english import read_plain
from duly.timetable.oncalendar import oncalendar
from duly.timetable.once import at
from duly.timetable.rrule import rrule
from duly.timetable.timetable import Timetable, Zoned
from tests.each_row import each_row

KINDS = {
    "cron": [
        *MACROS,
        "0 9 * * 1-5",
        "  */15 * * * *  ",
        "0\t9 * * *",
        "0 0 9 ? * MON-FRI 2026",
        "30 5 9 * * *",
        "H H(0-7) * * *",
        "h h * * *",
        "0 0 LW * 5L",
        "0 0 1,15 JAN-MAR MON#2",
        # not correct, but nothing else
        "* * * *",
        "*/5",
        "61 * * * *",
        "0 9 * *",
        "1 2 3 4 5 6 7 8",
        "a * * * *",
        "0~30 * * * *",
        "30 9 1 1 mon",
        "@fortnightly",
    ],
    "rrule": [
        "FREQ=DAILY",
        "freq=weekly;byday=mo",
        "RRULE:FREQ=DAILY;COUNT=3",
        "INTERVAL=2;FREQ=WEEKLY",
        "DTSTART:20260101T090000\nRRULE:FREQ=DAILY",
        "DTSTART;TZID=Europe/Paris:20260101T090000 RRULE:FREQ=DAILY",
        "RRULE:nonsense",
    ],
    "oncalendar": [
        "Mon..Fri 09:00",
        "Mon 09:00",
        "mon,fri 10:00",
        "Mon-Fri 09:00",
        "Monday 9:00",
        "*-*-* 12:00",
        "*-*-01 00:00:00",
        "*-*~1",
        "*:0/15",
        "09:00",
        "Sat,Sun 11:30 Europe/Paris",
        "2026-*-01",
        "daily",
        "Weekly",
        "quarterly",
        "12..18:00",
        "12-24",
        "semi-annually",
    ],
    "every": ["15m", "1h30m", "every 15m", "every 1h 30m", "90s", "@every 5m", "2d", "250ms"],
    "at": [
        "2026-04-03",
        "2026-04-03T09:00",
        "2026-04-03 09:00",
        "2026-04-03T09:00:30Z",
        "2026-04-03T09:00+02:00",
        "2026-04-03 09:00 +02:00",
        "2026-02-30T09:00",
    ],
    "plain": [
        "every weekday at 9",
        "every 15 minutes",
        "every day at 9:00..",
        "monday at 9",
        "mon-fri at 9",
        "at 9",
        "noon",
        "9 in the morning on mondays",
        "9:00 mon wed fri",
        "9:00 weekdays",
        "2:30 nightly",
        "every hour at :15",
        "10 past every hour",
        "monday",
        "",
        "hello",
        "*** !!!",
    ],
}


@each_row(("kind", "text"), [(kind, text) for kind, texts in KINDS.items() for text in texts])
def test_a_text_is_known_by_its_shape(kind, text):
    assert kind == kind_of(text)


START = datetime(2026, 1, 1, 9)
MEANINGS = [
    ("0 9 * * 1-5", cron("0 9 * * 1-5", "Europe/Paris")),
    ("@weekly", cron("@weekly", "Europe/Paris")),
    ("FREQ=DAILY", rrule("FREQ=DAILY", dtstart=START, tz="Europe/Paris")),
    ("Mon..Fri 09:00", oncalendar("Mon..Fri 09:00", "Europe/Paris")),
    ("15m", every("15m")),
    ("every 1h30m", every("1h30m")),
    ("2026-04-03T09:00", at("2026-04-03T09:00", "Europe/Paris")),
    ("2026-04-03T09:00Z", at("2026-04-03T09:00Z")),
    ("2026-04-03 09:00 +02:00", at("2026-04-03T09:00+02:00")),
    ("every weekday at 9", read_plain("every weekday at 9", "Europe/Paris")),
]


@each_row(("text", "meaning"), MEANINGS)
def test_each_kind_goes_to_its_reader_with_the_zone(text, meaning):
    assert meaning == recognise(text, tz="Europe/Paris", dtstart=START)


@pytest.mark.parametrize("text", ["30 2 * * *", "02:30", "every day at 2:30", "2026-03-29T02:30"])
def test_policies_reach_each_reader(text):
    read = recognise(text, tz="Europe/Paris", gap="shift", fold="second")

    assert isinstance(read, Zoned)
    assert (read.gap, read.fold) == ("shift", "second")


def test_a_seed_spreads_cron():
    assert cron("H * * * *", seed="bill-42") == recognise("H * * * *", seed="bill-42")


def test_plain_words_are_kept_as_they_were_typed():
    assert recognise(" weekdays at nine ").to_json()["words"] == "weekdays at nine"


@each_row("word", ["hourly", "daily", "weekly", "monthly", "yearly"])
def test_a_word_of_two_kinds_means_the_same_in_both(word):
    after = datetime(2026, 1, 1, tzinfo=UTC)

    assert recognise(word).upcoming(after, 5) == read_plain(word).upcoming(after, 5)


def test_weekly_is_monday_and_crons_own_is_sunday():
    after = datetime(2026, 4, 1, tzinfo=UTC)

    assert [f"{recognise(text).next(after):%a}" for text in ("weekly", "@weekly")] == ["Mon", "Sun"]


@each_row(
    "text",
    [
        "DTSTART:20260101T090000\nRRULE:FREQ=DAILY",
        "DTSTART:20260101T090000\r\nRRULE:FREQ=DAILY",
        "DTSTART:20260101T090000 RRULE:FREQ=DAILY",
        "dtstart:20260101T090000\nrrule:freq=daily",
        "DTSTART;VALUE=DATE-TIME:20260101T090000\nFREQ=DAILY",
    ],
)
def test_a_block_says_where_its_rule_starts(text):
    (first,) = recognise(text, dtstart=date(2030, 1, 1)).upcoming(
        datetime(2025, 1, 1, tzinfo=UTC), 1
    )

    assert datetime(2026, 1, 1, 9, tzinfo=UTC) == first


def test_a_block_may_name_its_zone():
    read = recognise("DTSTART;TZID=Europe/Paris:20260101T090000\nRRULE:FREQ=DAILY")

    assert datetime(2026, 1, 1, 8, tzinfo=UTC) == read.next(datetime(2025, 1, 1, tzinfo=UTC))


REFUSALS = [
    ("61 * * * *", "minute", "(read as a cron expression); give 0 to 59"),
    ("* * * *", "cron", "has 4 fields (read as a cron expression)"),
    ("FREQ=DAILY", "dtstart", "write 'DTSTART:20260403T090000' before the rule"),
    ("DTSTART:20260101T090000", "rrule", "is not a start and one rule (read as a recurrence rule)"),
    (
        "DTSTART:20260101T090000\nRRULE:FREQ=DAILY\nEXDATE:20260102T090000",
        "rrule",
        ".excluding()",
    ),
    ("Mon..Xyz 09:00", "weekday", "(read as a calendar event of systemd)"),
    ("2026-02-30T09:00", "when", "is not a time (read as a date)"),
    ("50ms", "every", "is too short (read as an interval)"),
    ("evry day at 9", "when", "(read as plain language); did you mean 'every day at 09:00'?"),
    ("every day at 9 in Europe/Pariss", "when", "did you mean 'Europe/Paris'?"),
]


@each_row(("text", "field", "said"), REFUSALS)
def test_what_fits_nothing_gets_the_one_error_of_what_it_looked_like(text, field, said):
    with pytest.raises(UsageError) as caught:
        recognise(text)

    assert field == caught.value.field
    assert said in str(caught.value)


@each_row(
    "text",
    ["0 9 * * *", "09:00", "every day at 9", "2026-04-03T09:00", "FREQ=DAILY"],
)
def test_a_zone_that_does_not_exist_is_the_zones_fault(text):
    with pytest.raises(UsageError) as caught:
        recognise(text, tz="Mars/Olympus", dtstart=START)

    assert caught.value.field == "tz"
    assert "read as" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "every day at 9 in Asia/Tokyo",
        "09:00 Asia/Tokyo",
        "DTSTART;TZID=Asia/Tokyo:20260101T090000\nRRULE:FREQ=DAILY",
    ],
)
def test_a_zone_in_the_text_wins_over_the_default_and_must_agree_with_another(text):
    assert recognise(text).to_json()["tz"] == "Asia/Tokyo"
    with pytest.raises(UsageError, match="Europe/Paris"):
        recognise(text, tz="Europe/Paris")


@pytest.mark.parametrize("value", [None, 5, b"daily"])
def test_what_is_no_text_is_refused(value):
    with pytest.raises(UsageError, match="is not a text"):
        recognise(value)


def test_too_long_a_text_is_refused_before_it_is_looked_at():
    with pytest.raises(UsageError, match="is too long"):
        recognise("0," * 5000 + "0 9 * * *")


def outcome(text: str) -> Timetable | None:
    """Read a text; nothing but a UsageError may come of a bad one."""
    try:
        return recognise(text, dtstart=START, seed="fuzz")
    except UsageError:
        return None


@settings(max_examples=200)
@given(st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=60))
def test_any_text_is_a_timetable_or_a_usage_error(text):
    assert kind_of(text) in KIND_NAMES
    outcome(text)


@settings(max_examples=300)
@given(
    st.sampled_from([text for texts in KINDS.values() for text in texts]),
    st.integers(0, 60),
    st.integers(0, 3),
    st.text("0123456789*-/,:.~ @;=THZWLabdefhimnoruvy", max_size=4),
)
def test_a_rule_with_a_piece_replaced_is_a_timetable_or_a_usage_error(text, place, size, piece):
    found = outcome(text[:place] + piece + text[place + size :])
    after = datetime(2026, 1, 1, tzinfo=UTC)

    assert found is None or all(one > after for one in found.upcoming(after, 2))
