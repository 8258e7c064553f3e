"""Cron expressions describe themselves, truthfully and each meaning differently."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from itertools import product

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from duly.errors import UsageError
from duly.timetable.cron import Cron, CronDates, cron
from duly.timetable.language.english import read_plain
from tests.each_row import each_row

SENTENCES = [
    ("0 9 * * 1-5", "every weekday at 09:00"),
    ("*/15 * * * *", "every 15 minutes"),
    ("5 * * * *", "at minute 5 of every hour"),
    ("5,20 * * * *", "at minutes 5 and 20 of every hour"),
    ("5/15 * * * *", "every 15 minutes from 00:05 to 23:50"),
    ("*/7 * * * *", "at every 7th minute from 0 to 56 of every hour"),
    ("0 * * * *", "every hour"),
    ("0 */2 * * *", "every 2 hours"),
    ("30 1/2 * * *", "every 2 hours from 01:30 to 23:30"),
    ("* * * * *", "every minute"),
    ("0 9-17 * * *", "every hour from 09:00 to 17:00"),
    ("*/10 8-11,14-17 * * *", "every 10 minutes from 08:00 to 11:50 and from 14:00 to 17:50"),
    ("0 8-11,15 * * 6", "every Saturday at 08:00, 09:00, 10:00, 11:00 and 15:00"),
    ("0 2,14 * * *", "every day at 02:00 and 14:00"),
    ("0 0 1 * *", "on the 1st of every month at 00:00"),
    ("0 0 1,15 * *", "on the 1st and 15th of every month at 00:00"),
    ("0 0 */5 * *", "on every 5th day from the 1st to the 31st of every month at 00:00"),
    ("0 0 L * *", "on the last day of every month at 00:00"),
    ("0 0 L-2 2 *", "on the 3rd last day of February at 00:00"),
    ("0 0 15W * *", "on the weekday nearest the 15th of every month at 00:00"),
    ("0 0 1W * *", "on the first weekday of every month at 00:00"),
    ("0 0 LW * *", "on the last weekday of every month at 00:00"),
    ("0 0 L-3W * *", "on the weekday nearest the 4th last day of every month at 00:00"),
    ("0 0 * 1 MON#2", "on the 2nd Monday of January at 00:00"),
    (
        "0 0 * * MON#1,MON#3,5L",
        "on the 1st and 3rd Monday and the last Friday of every month at 00:00",
    ),
    ("0 0 * * MON,FRI#2", "on Monday and on the 2nd Friday of every month at 00:00"),
    ("0 0 13 * FRI", "on Friday or on the 13th of every month at 00:00"),
    ("0 0 13 1,3 FRI", "on Friday or on the 13th, in January and March, at 00:00"),
    ("0 0 1-7 * */7", "on the 1st to 7th of every month, if it is a Sunday, at 00:00"),
    ("0 12 * 6-8 *", "every day in June to August at 12:00"),
    ("0 12 * 6-8 MON", "every Monday in June to August at 12:00"),
    ("*/15 8 * * MON-FRI", "every weekday at 08:00, 08:15, 08:30 and 08:45"),
    ("0 0 1 * MON-FRI", "on weekdays or on the 1st of every month at 00:00"),
    ("*/5 8 * * MON-FRI", "every 5 minutes from 08:00 to 08:55 on weekdays"),
    ("0 0 * * 0-6", "every day at 00:00"),
    ("0 0 1-31 * MON", "every day at 00:00"),
    ("30 * * * * *", "at second 30 of every minute"),
    ("*/30 * * * * *", "every 30 seconds"),
    ("*/45 * * * * *", "at seconds 0 and 45 of every minute"),
    ("15 30 9 * * *", "every day at 09:30:15"),
    ("* 0 * * * *", "every second of minute 0 of every hour"),
    ("0 15 10 ? * * 2026", "every day in 2026 at 10:15"),
    ("0 15 10 ? * 2 2026-2028", "every Tuesday in 2026 to 2028 at 10:15"),
    ("* * * ? * * 2026", "every second in 2026"),
    ("@weekly", "every Sunday at 00:00"),
]


@each_row(("expression", "sentence"), SENTENCES)
def test_an_expression_is_said_as_a_person_would(expression, sentence):
    assert f"{sentence} (UTC)" == cron(expression).describe()


def test_the_zone_is_always_named():
    assert cron("0 9 * * 1-5", "Europe/Paris").describe() == "every weekday at 09:00 (Europe/Paris)"


def test_a_spread_expression_says_where_it_fell():
    spread = cron("H H * * *", seed="nightly-report")
    (at,) = spread.upcoming(datetime(2026, 1, 1, tzinfo=UTC), 1)

    assert f"every day at {at:%H:%M} (UTC)" == spread.describe()


def test_a_persons_own_words_do_not_replace_the_description():
    assert read_plain("weekdays at nine").describe() == "every weekday at 09:00 (UTC)"


def test_quartz_weekdays_are_said_by_name_and_not_by_number():
    assert cron("0 0 9 ? * 2", dialect="quartz").describe() == "every Monday at 09:00 (UTC)"


def test_times_of_one_union_are_said_together():
    union = cron("15 21 * * *") | cron("0 18 * * *")

    assert union.describe() == "every day at 18:00 and 21:15 (UTC)"


def test_a_union_of_different_days_is_said_one_after_the_other():
    union = cron("0 9 * * 1") | cron("0 10 * * 2")

    assert union.describe() == "every Monday at 09:00 (UTC); and every Tuesday at 10:00 (UTC)"


def number_items(low: int, high: int) -> st.SearchStrategy[str]:
    numbers = st.integers(low, high)
    ranges = st.tuples(numbers, numbers).map(lambda pair: f"{min(pair)}-{max(pair)}")
    steps = st.integers(1, high).map(lambda step: f"*/{step}")
    return st.one_of(st.just("*"), numbers.map(str), ranges, steps, numbers.map(str))


def number_fields(low: int, high: int) -> st.SearchStrategy[str]:
    return st.lists(number_items(low, high), min_size=1, max_size=3).map(",".join)


days = st.one_of(number_fields(1, 31), st.sampled_from(["L", "L-3", "LW", "15W", "1W", "1,L", "?"]))
weekdays = st.one_of(
    number_fields(0, 7), st.sampled_from(["MON#2", "5L", "MON-FRI", "1,FRI#2", "1#1,1#3", "6,0"])
)
expressions = st.tuples(
    number_fields(0, 59),
    number_fields(0, 59),
    number_fields(0, 23),
    days,
    number_fields(1, 12),
    weekdays,
).map(" ".join)


def meaning(timetable: Cron) -> tuple[object, ...]:
    """Return what an expression means: its times, and its days in each of the 14 kinds of year."""
    fields = timetable.fields
    dates = CronDates(fields)
    kinds = [dates.days_of_kind(first, leap=leap) for first in range(7) for leap in (False, True)]
    return fields.hour.mask, fields.minute.mask, fields.second.mask, *kinds


@settings(deadline=None, max_examples=150)
@given(expressions)
def test_every_expression_has_one_sentence_with_its_zone(expression):
    words = cron(expression).describe()

    assert words[0].islower()
    assert words.endswith(" (UTC)")
    assert words.isprintable()
    assert "  " not in words


@settings(deadline=None, max_examples=25)
@given(st.lists(expressions, min_size=20, max_size=40), st.data())
def test_equal_sentences_mean_equal_rules(many, data):
    """A sentence that fits two different rules would be untrue for one of them."""
    # Neighbours of an expression, with one field taken from another, are the likeliest to be confused.
    for one in list(many):
        other = data.draw(st.sampled_from(many)).split(" ")
        place = data.draw(st.integers(0, 5))
        many.append(" ".join([*one.split(" ")[:place], other[place], *one.split(" ")[place + 1 :]]))
    said: dict[str, Cron] = {}
    for expression in many:
        timetable = cron(expression)
        first = said.setdefault(timetable.describe(), timetable)

        assert first is timetable or meaning(first) == meaning(timetable), expression


def test_a_thousand_small_differences_are_all_heard():
    """Each expression differs from a plain one in a single field, and so must its sentence."""
    draw = random.Random(6)
    said: dict[str, Cron] = {}
    for _ in range(1000):
        fields = draw.choice(["0 0 0 1 * *", "* * * * * *", "0 */5 8 * 1 1", "1 2 3 4 5 6"]).split()
        place = draw.randrange(6)
        low, high = [(0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 6)][place]
        numbers = draw.sample(range(low, high + 1), draw.randint(1, high - low))
        fields[place] = ",".join(map(str, numbers))
        timetable = cron(" ".join(fields))
        first = said.setdefault(timetable.describe(), timetable)

        assert first is timetable or meaning(first) == meaning(timetable), timetable.expression


RANGES = {
    "{} 0 9 1 1 ? *": ("second", range(3), range(40, 60), range(1, 25)),
    "0 {} * 1 1 ? *": ("minute", range(3), range(40, 60), range(1, 25)),
    "0 {} 8-9 1 1 ? *": ("minute", range(3), range(40, 60), range(1, 25)),
    "0 0 {} 1 1 ? *": ("hour", range(8), range(8, 24), range(1, 8)),
    "0 * {} 1 1 ? *": ("hour", range(8), range(8, 24), range(1, 8)),
    "0 0 0 {} 1 ? *": ("day_of_month", range(1, 6), range(12, 32), range(1, 10)),
    "0 0 0 1 {} ? *": ("month", range(1, 6), range(6, 13), range(1, 6)),
    "0 0 0 ? 1 {} *": ("day_of_week", range(4), range(4, 7), range(1, 4)),
    "0 0 0 1 1 ? {}": ("year", range(2020, 2024), range(2030, 2050), range(1, 10)),
}


@each_row("form", RANGES)
def test_ranges_with_different_ends_or_steps_sound_different(form):
    """The closest relatives there are, all of them compared."""
    name, firsts, lasts, steps = RANGES[form]
    said: dict[str, int] = {}
    for first, last, step in product(firsts, lasts, steps):
        timetable = cron(form.format(f"{first}-{last}/{step}"))
        mask = getattr(timetable.fields, name).mask

        assert mask == said.setdefault(timetable.describe(), mask), timetable.expression


simple = st.tuples(
    st.one_of(st.integers(0, 59).map(str), st.sampled_from(["*/15", "*/5", "0,30", "0"])),
    st.one_of(st.integers(0, 23).map(str), st.sampled_from(["*", "*/2", "8-17", "2,14", "9,10"])),
    st.sampled_from(["*", "1", "1,15", "L", "L-1", "15W", "LW", "1W", "1-7", "31"]),
    st.sampled_from(["*", "1", "1,7", "6-8"]),
    st.sampled_from(["*", "1-5", "6,7", "1", "1,5", "MON#1", "5L", "1#1,1#3", "1-4"]),
).map(" ".join)


@settings(deadline=None, max_examples=250)
@given(simple)
def test_a_sentence_is_read_back_as_the_rule_it_describes(expression):
    """T6, both directions: for the sentences that the plain grammar has."""
    described = cron(expression, "America/New_York")
    words = described.describe()
    assume("if it is" not in words and "hour from" not in words)
    after = datetime(2026, 3, 1, tzinfo=UTC)
    try:
        read = read_plain(words)
    except UsageError as error:
        pytest.fail(f"{expression}: {error}")

    assert described.upcoming(after, 5) == read.upcoming(after, 5)
