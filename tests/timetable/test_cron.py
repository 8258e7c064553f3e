"""What a cron expression means, one sentence at a time."""

from __future__ import annotations

import pytest

from duly import UsageError, cron, timetable_from_json
from duly.timetable.combinators import require_spread, spread
from tests.each_row import each_row
from tests.timetable.instants import NOON, moment, moments, upcoming


def days(expression: str, n: int, after: str = NOON, **given: str) -> list[str]:
    return [
        f"{found:%m-%d}"
        for found in cron(expression, **given).upcoming(moment(after), n)  # type: ignore[arg-type]
    ]


def times(expression: str, n: int, **given: str) -> list[str]:
    return [f"{found:%H:%M:%S}" for found in cron(expression, **given).upcoming(moment(NOON), n)]  # type: ignore[arg-type]


MEANINGS = [
    ("a number is itself", "30 9 * * *", ["2026-01-02T09:30", "2026-01-03T09:30"]),
    ("a list is each of its items", "0 8,20 * * *", ["2026-01-01T20:00", "2026-01-02T08:00"]),
    (
        "a range includes both ends",
        "0 13-14 * * *",
        ["2026-01-01T13:00", "2026-01-01T14:00", "2026-01-02T13:00"],
    ),
    (
        "a range runs over the end of its field",
        "0 23-1 * * *",
        ["2026-01-01T23:00", "2026-01-02T00:00", "2026-01-02T01:00", "2026-01-02T23:00"],
    ),
    (
        "a step counts from the field's start",
        "*/25 12 * * *",
        ["2026-01-01T12:25", "2026-01-01T12:50", "2026-01-02T12:00"],
    ),
    (
        "a step counts from a range's start",
        "5-40/15 13 * * *",
        ["2026-01-01T13:05", "2026-01-01T13:20", "2026-01-01T13:35", "2026-01-02T13:05"],
    ),
    (
        "a step after a number runs to the field's end",
        "50/4 12 * * *",
        ["2026-01-01T12:50", "2026-01-01T12:54", "2026-01-01T12:58", "2026-01-02T12:50"],
    ),
    (
        "a step counts on over the field's end",
        "0 22-3/2 * * *",
        ["2026-01-01T22:00", "2026-01-02T00:00", "2026-01-02T02:00", "2026-01-02T22:00"],
    ),
    ("months have names", "0 0 1 MAR,oct *", ["2026-03-01T00:00", "2026-10-01T00:00"]),
    (
        "months range over the new year",
        "0 0 1 nov-jan *",
        ["2026-11-01T00:00", "2026-12-01T00:00", "2027-01-01T00:00", "2027-11-01T00:00"],
    ),
    (
        "weekdays have names",
        "0 0 * * Mon-Wed",
        ["2026-01-05T00:00", "2026-01-06T00:00", "2026-01-07T00:00", "2026-01-12T00:00"],
    ),
    (
        "weekdays range over the week's end",
        "0 0 * * sat-mon",
        ["2026-01-03T00:00", "2026-01-04T00:00", "2026-01-05T00:00", "2026-01-10T00:00"],
    ),
    (
        "a week may start with 7",
        "0 0 * * 7-2",
        ["2026-01-04T00:00", "2026-01-05T00:00", "2026-01-06T00:00", "2026-01-11T00:00"],
    ),
    ("Sunday is 0", "0 0 * * 0", ["2026-01-04T00:00", "2026-01-11T00:00"]),
    ("Sunday is 7", "0 0 * * 7", ["2026-01-04T00:00", "2026-01-11T00:00"]),
    (
        "L is the last day of the month",
        "0 0 L * *",
        ["2026-01-31T00:00", "2026-02-28T00:00", "2026-03-31T00:00"],
    ),
    ("L-n counts back from it", "0 0 L-3 * *", ["2026-01-28T00:00", "2026-02-25T00:00"]),
    (
        "LW is the last weekday of the month",
        "0 0 LW * *",
        ["2026-01-30T00:00", "2026-02-27T00:00", "2026-03-31T00:00"],
    ),
    (
        "L-nW is the weekday nearest to that day",
        "0 0 L-3W * *",
        ["2026-01-28T00:00", "2026-02-25T00:00", "2026-03-27T00:00"],
    ),
    (
        "nW is the weekday nearest to a day",
        "0 0 15W * *",
        ["2026-01-15T00:00", "2026-02-16T00:00", "2026-03-16T00:00"],
    ),
    (
        "nW stays in its month",
        "0 0 1W * *",
        [
            "2026-02-02T00:00",
            "2026-03-02T00:00",
            "2026-04-01T00:00",
            "2026-05-01T00:00",
            "2026-06-01T00:00",
            "2026-07-01T00:00",
            "2026-08-03T00:00",
        ],
    ),
    (
        "nW leaves out a month without the day",
        "0 0 31W * *",
        ["2026-01-30T00:00", "2026-03-31T00:00"],
    ),
    ("n#k is the k-th such weekday", "0 0 * * MON#2", ["2026-01-12T00:00", "2026-02-09T00:00"]),
    (
        "a fifth weekday is left out where there is none",
        "0 0 * * 4#5",
        ["2026-01-29T00:00", "2026-04-30T00:00"],
    ),
    ("nL is the last such weekday", "0 0 * * 5L", ["2026-01-30T00:00", "2026-02-27T00:00"]),
    (
        "specials stand in lists",
        "0 0 1,L * *",
        ["2026-01-31T00:00", "2026-02-01T00:00", "2026-02-28T00:00"],
    ),
    ("? is no specific day", "0 0 ? * 1", ["2026-01-05T00:00", "2026-01-12T00:00"]),
    (
        "six fields start with seconds",
        "30 0 13 * * *",
        ["2026-01-01T13:00:30", "2026-01-02T13:00:30"],
    ),
    (
        "six fields may put a name before L",
        "0 0 0 * * FRIL",
        ["2026-01-30T00:00", "2026-02-27T00:00"],
    ),
    (
        "seven fields end with years",
        "0 0 0 1 1 ? 2028,2030-2031",
        ["2028-01-01T00:00", "2030-01-01T00:00", "2031-01-01T00:00"],
    ),
    ("white space is of no account", "  0\t0  1 *   * ", ["2026-02-01T00:00"]),
    ("@yearly", "@yearly", ["2027-01-01T00:00"]),
    ("@annually", "@annually", ["2027-01-01T00:00"]),
    ("@monthly", "@monthly", ["2026-02-01T00:00"]),
    ("@weekly", "@weekly", ["2026-01-04T00:00"]),
    ("@daily", "@daily", ["2026-01-02T00:00"]),
    ("@midnight", "@midnight", ["2026-01-02T00:00"]),
    ("@hourly", "@Hourly", ["2026-01-01T13:00"]),
    ("@every_minute", "@every_minute", ["2026-01-01T12:01"]),
    ("@every_second", "@every_second", ["2026-01-01T12:00:01"]),
    ("29 February waits for a leap year", "0 0 29 2 *", ["2028-02-29T00:00", "2032-02-29T00:00"]),
    ("29 February skips 2100", "0 0 0 29 2 ? 2096-2099", ["2096-02-29T00:00"]),
]


@each_row(("expression", "expected"), [case[1:] for case in MEANINGS])
def test_the_fields_mean(expression, expected):
    assert moments(*expected) == upcoming(cron(expression), NOON, len(expected))


def test_years_end_a_timetable():
    """A rule that is over says so."""
    timetable = cron("0 0 0 1 1 ? 2028,2030-2031")

    assert timetable.next(moment("2031-01-01")) is None


@each_row(
    ("expression", "expected"),
    [
        ("0 0 13 * 5", ["01-02", "01-09", "01-13", "01-16"]),  # either: neither starts with a star
        ("0 0 13 * *", ["01-13", "02-13", "03-13", "04-13"]),
        ("0 0 */2 * 5", ["01-09", "01-23", "02-13", "02-27"]),  # both: odd days that are Fridays
        ("0 0 13 * */5", ["02-13", "03-13", "09-13", "11-13"]),  # both: Sundays and Fridays
        ("0 0 1-31 * 5", ["01-02", "01-03", "01-04", "01-05"]),  # either, and all days are named
        ("0 0 L * MON#1", ["01-05", "01-31", "02-02", "02-28"]),
    ],
)
def test_days_and_weekdays_join_by_or_unless_one_starts_with_a_star(expression, expected):
    """Debian's rule."""
    assert expected == days(expression, 4)


def test_quartz_counts_weekdays_from_sunday():
    assert days("0 0 0 ? * 1", 2, dialect="quartz") == ["01-04", "01-11"]
    assert days("0 0 0 ? * 7", 2, dialect="quartz") == ["01-03", "01-10"]
    assert days("0 0 0 ? * 6#2", 2, dialect="quartz") == ["01-09", "02-13"]
    assert days("0 0 0 ? * 6L", 2, dialect="quartz") == ["01-30", "02-27"]
    assert days("0 0 0 ? * MON-FRI", 2, dialect="quartz") == ["01-02", "01-05"]


@each_row("weekday", ["0", "8", "2-8", "8L", "0#1"])
def test_quartz_has_no_weekday_beyond_saturday(weekday):
    with pytest.raises(UsageError, match="give 1 to 7") as caught:
        cron(f"0 0 0 ? * {weekday}", dialect="quartz")

    assert caught.value.field == "day of week"


def test_quartz_needs_seconds():
    with pytest.raises(UsageError, match="has 5 fields"):
        cron("0 0 ? * 1", dialect="quartz")


SEEDS = [f"schedule-{number}" for number in range(200)]


def test_h_is_stable():
    """The same seed has the same place for ever; the literal guards the hash itself."""
    timetable = cron("H H * * *", seed="nightly-report")

    assert moments("2026-01-02T00:18") == upcoming(timetable, NOON, 1)


def test_h_spreads():
    """200 schedules leave few of the 60 minutes empty, and crowd none."""
    minutes = [cron("H * * * *", seed=seed).fields.minute.mask for seed in SEEDS]
    crowds = [minutes.count(1 << minute) for minute in range(60)]

    assert sum(crowds) == 200
    assert max(crowds) <= 12
    assert crowds.count(0) <= 12


def test_h_places_each_field_by_itself():
    read = [cron("H H * * *", seed=seed).fields for seed in SEEDS]
    pairs = {(one.minute.mask, one.hour.mask) for one in read}

    assert len(pairs) > 180


@each_row(
    ("field", "low", "high"),
    [
        ("minute", 0, 59),
        ("hour", 0, 23),
        ("day_of_month", 1, 28),
        ("month", 1, 12),
        ("day_of_week", 0, 6),
    ],
)
def test_h_stays_in_its_field_and_in_every_month(field, low, high):
    masks = {getattr(cron("H H H H H", seed=seed).fields, field).mask for seed in SEEDS}
    places = {mask.bit_length() - 1 for mask in masks}

    assert all(mask.bit_count() == 1 for mask in masks)
    assert low == min(places)
    assert high == max(places)


def test_h_stays_in_its_range():
    masks = {cron("H(10-14) * * * *", seed=seed).fields.minute.mask for seed in SEEDS}

    assert {1 << minute for minute in range(10, 15)} == masks


def test_h_with_a_step_shifts_the_whole_row():
    for seed in SEEDS[:20]:
        found = sorted(int(time[3:5]) for time in times("H/20 * * * *", 3, seed=seed))

        assert found[0] < 20
        assert [found[0], found[0] + 20, found[0] + 40] == found


def test_h_counts_weekdays_as_quartz_does():
    assert days("0 0 0 ? * H(7-7)", 2, seed="a", dialect="quartz") == ["01-03", "01-10"]


def test_h_may_be_sunday_by_either_number():
    assert days("0 0 * * H(7-7)", 2, seed="a") == ["01-04", "01-11"]


@each_row(
    "ask",
    [
        lambda one: one.next(moment(NOON)),
        lambda one: one.previous(moment(NOON)),
        lambda one: one.upcoming(moment(NOON), 2),
        lambda one: one.fields,
        lambda one: one.count(0, 10**15),
        lambda one: one.limited(3, start=moment(NOON)),
        lambda one: (one | cron("0 4 * * *")).next(moment(NOON)),
    ],
)
def test_h_needs_a_seed_to_say_when(ask):
    """Until then it is kept open."""
    with pytest.raises(UsageError, match=r"needs a seed.*seed=") as caught:
        ask(cron("H 3 * * *"))

    assert (caught.value.field, caught.value.value) == ("minute", "H")


def test_h_that_is_open_is_checked_described_and_kept_as_it_was_said():
    timetable = cron("H 3 * * *", tz="Europe/Paris")

    assert timetable.is_open
    assert not cron("H 3 * * *", seed="a").is_open
    assert not cron("0 3 * * THU").is_open
    assert "H 3 * * *, spread by the name of its schedule (Europe/Paris)" == timetable.describe()
    assert timetable == timetable_from_json(timetable.to_json())
    with pytest.raises(UsageError, match="give 0 to 23"):
        cron("H 24 * * *")


def test_h_is_spread_wherever_it_stands_in_a_timetable():
    """In unions and exclusions, within a validity; what is not open stays the very same."""
    whole = (cron("H 3 * * *") | cron("0 4 * * *")).excluding("2026-12-25", tz="UTC")
    known = (cron("H 3 * * *", seed="a") | cron("0 4 * * *")).excluding("2026-12-25", tz="UTC")
    limited = cron("H 3 * * *").between("2026-01-01", None)

    assert known == spread(whole, "a")
    assert known is spread(known, "b")
    assert cron("H 3 * * *", seed="a").between("2026-01-01", None) == spread(limited, "a")
    with pytest.raises(UsageError, match="needs a seed"):
        require_spread(whole)
    require_spread(known)


REFUSALS = [
    ("60 * * * *", "minute", "60", "give 0 to 59"),
    ("* 24 * * *", "hour", "24", "give 0 to 23"),
    ("* * 0 * *", "day of month", "0", "give 1 to 31"),
    ("* * 32 * *", "day of month", "32", "give 1 to 31"),
    ("* * * 13 *", "month", "13", "give 1 to 12"),
    ("* * * foo *", "month", "foo", "JAN-MAR"),
    ("* * * * 8", "day of week", "8", "give 0 to 7"),
    ("* * * * mon#6", "day of week", "mon#6", "MON#2"),
    ("* * * * FRIL", "day of week", "FRIL", "5L"),
    ("61 * * * * *", "second", "61", "give 0 to 59"),
    ("0 0 0 ? * 1 1969", "year", "1969", "give 1970 to 2099"),
    ("*/0 * * * *", "minute", "*/0", "1 or more"),
    ("*/90 * * * *", "minute", "*/90", "every('90m')"),
    ("0/90 * * * *", "minute", "0/90", "every('90m')"),
    ("1,,2 * * * *", "minute", "1,,2", "write items"),
    ("? * * * *", "minute", "?", "write '*'"),
    ("0 0 L-31 * *", "day of month", "L-31", "L-30"),
    ("0 0 1,15W * *", "day of month", "1,15W", "15W"),
    ("H(9-5) * * * *", "minute", "H(9-5)", "H(low-high)"),
    ("H(0-4)/9 * * * *", "minute", "H(0-4)/9", "1 to 5"),
    ("* * * *", "cron", "* * * *", "give five"),
    ("* * * * * * *", "cron", "* * * * * * *", "'?'"),
    ("", "cron", "", "give five"),
    ("@fortnightly", "cron", "@fortnightly", "@weekly"),
    ("@wee\u212aly", "cron", "@wee\u212aly", "@weekly"),  # a Kelvin sign
    ("\u0661 * * * *", "minute", "\u0661", "write items"),  # an Arabic one
]


@each_row(("expression", "field", "value", "remedy"), REFUSALS)
def test_a_refusal_names_the_field_the_value_and_the_remedy(expression, field, value, remedy):
    with pytest.raises(UsageError) as caught:
        cron(expression, seed="a")
    error = caught.value

    assert (field, value) == (error.field, error.value)
    assert remedy in error.remedy
    assert str(error).startswith(f"{field}: {value!r} ")
    assert str(error).endswith(error.remedy)


@each_row(
    ("given", "field", "remedy"),
    [
        ({"tz": "Europe/Pariss"}, "tz", "Europe/Paris"),
        ({"tz": None}, "tz", "IANA"),
        ({"gap": "ignore"}, "gap", "next, shift, skip"),
        ({"fold": []}, "fold", "first, second, both"),
        ({"dialect": "vixie"}, "dialect", "cron, quartz"),
        ({"seed": 7}, "seed", "str"),
        ({"seed": "\ud800"}, "seed", "UTF-8"),
        ({"expr": None}, "cron", "str"),
        ({"expr": ["* * * * *"]}, "cron", "str"),
    ],
)
def test_other_words_are_checked_too(given, field, remedy):
    with pytest.raises(UsageError) as caught:
        cron(**({"expr": "* * * * *"} | given))

    assert field == caught.value.field
    assert remedy in caught.value.remedy


def test_white_space_round_and_between_fields_does_not_matter():
    """A line of a file ends with a line's end."""
    asked = moment("2026-04-03T00:00Z")

    assert cron("0 9 * * *").next(asked) == cron("\t0  9 * * *\r\n").next(asked)
