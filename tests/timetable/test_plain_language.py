"""Plain language in: what is understood, what is refused and with which remedy."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duly.errors import UsageError
from duly.timetable.combinators import BetweenDates, Limited, Union
from duly.timetable.cron import cron
from duly.timetable.interval import every
from duly.timetable.language.detect import kind_of
from duly.timetable.language.english import (
    EXAMPLES,
    GENERAL,
    examples_for,
    mended_sentence,
    read_plain,
)
from duly.timetable.language.tokens import KNOWN, TEXT_LENGTH_MAX, NotUnderstoodError, tokenise
from duly.timetable.monthly import monthly
from duly.timetable.once import at
from duly.timetable.rrule import rrule
from duly.timetable.serialization import timetable_from_json
from duly.timetable.timetable import Timetable
from tests.each_row import each_row

AFTER = datetime(2026, 4, 1, tzinfo=UTC)  # a Wednesday
REPAIRS_MAX = 8
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "say-when.md"
ROW = re.compile(r"\| `(.+?)` \| (.+) \|")

MEANINGS = [
    # times of day
    ("every weekday at 9", cron("0 9 * * 1-5")),
    ("Every Weekday at 09:00.", cron("0 9 * * 1-5")),
    ("each day at 9:05:30", cron("30 5 9 * * *")),
    ("daily at noon", cron("0 12 * * *")),
    ("noon", cron("0 12 * * *")),
    ("at midnight", cron("0 0 * * *")),
    ("every day at 12am", cron("0 0 * * *")),
    ("every day at 12pm", cron("0 12 * * *")),
    ("every day at 12:30 a.m.", cron("30 0 * * *")),
    ("every day at 9.30 pm", cron("30 21 * * *")),
    ("every day at nine o'clock", cron("0 9 * * *")),
    ("every day at 9, 12 and 18", cron("0 9,12,18 * * *")),
    ("every day at 9:00, and 18:00", cron("0 9,18 * * *")),
    ("every day at 9:00 & 9:30", cron("0,30 9 * * *")),
    ("every day at 9:15pm and 18:00", Union((cron("0 18 * * *"), cron("15 21 * * *")))),
    ("every day at 9 and at 18", cron("0 9,18 * * *")),
    ("every noon", cron("0 12 * * *")),
    ("at half past 9 every day", cron("30 9 * * *")),
    ("every day at a quarter past nine", cron("15 9 * * *")),
    ("quarter to 9", cron("45 8 * * *")),
    ("10 minutes past 9pm", cron("10 21 * * *")),
    ("once a day at 9", cron("0 9 * * *")),
    ("everyday at 9", cron("0 9 * * *")),
    ("every day of the week at 9", cron("0 9 * * *")),
    # parts of the day
    ("every night at 2:30", cron("30 2 * * *")),
    ("nightly at 2", cron("0 2 * * *")),
    ("every night at midnight", cron("0 0 * * *")),
    ("every morning at 7", cron("0 7 * * *")),
    ("mornings at 4:00", cron("0 4 * * *")),
    ("every morning at 11:59", cron("59 11 * * *")),
    ("every afternoon at noon", cron("0 12 * * *")),
    ("every evening at 19:30", cron("30 19 * * *")),
    ("every evening at 7pm", cron("0 19 * * *")),
    ("every day at 8 in the morning", cron("0 8 * * *")),
    ("at 23 at night", cron("0 23 * * *")),
    ("every morning and evening at 8 and 18", cron("0 8,18 * * *")),
    ("every monday morning at 9", cron("0 9 * * 1")),
    ("weekday mornings at 8", cron("0 8 * * 1-5")),
    ("friday night at 23", cron("0 23 * * 5")),
    ("once on 2026-04-03 at 9 in the morning", at("2026-04-03T09:00", "UTC")),
    # business days
    ("every business day at 9", cron("0 9 * * *").on_business_days(None)),
    ("on business days at 8 and 17", cron("0 8,17 * * *").on_business_days(None)),
    ("every working day at 9", cron("0 9 * * *").on_business_days(None)),
    ("workdays at 9", cron("0 9 * * *").on_business_days(None)),
    ("every business day in may at 9", cron("0 9 * 5 *").on_business_days(None)),
    (
        "every 15 minutes on business days",
        cron("*/15 * * * *").on_business_days(None),
    ),
    # weekdays
    ("9:00 mon wed fri", cron("0 9 * * 1,3,5")),
    ("mon/wed/fri at 9", cron("0 9 * * 1,3,5")),
    ("daily on weekdays at 9", cron("0 9 * * 1-5")),
    ("every day except sunday at 9", cron("0 9 * * 1-6")),
    ("every weekday at 9 but not on fridays", cron("0 9 * * 1-4")),
    ("every hour except on weekends", cron("0 * * * 1-5")),
    ("once a week on friday at 9", cron("0 9 * * 5")),
    ("every monday and friday at 10:30", cron("30 10 * * 1,5")),
    ("on mondays at 9", cron("0 9 * * 1")),
    ("at 9 on mondays", cron("0 9 * * 1")),
    ("mon, wed & fri at 9", cron("0 9 * * 1,3,5")),
    ("mon-fri at 9", cron("0 9 * * 1-5")),
    ("monday through thursday at 9", cron("0 9 * * 1-4")),
    ("friday to monday at 9", cron("0 9 * * 1,5-7")),
    ("weekends at 11", cron("0 11 * * 6-7")),
    ("weekly on friday at 9", cron("0 9 * * 5")),
    ("every week on friday at 9", cron("0 9 * * 5")),
    ("every sunday in june to august at 9", cron("0 9 * 6-8 7")),
    # days of the month
    ("on the 1st and 15th at 9", cron("0 9 1,15 * *")),
    ("every month on the 3rd at 12:00", cron("0 12 3 * *")),
    ("on day 15 of the month at 9", cron("0 9 15 * *")),
    ("on the first at 9", cron("0 9 1 * *")),
    ("the second day of the month at 9", cron("0 9 2 * *")),
    ("on the 1st to 7th of january at 9", cron("0 9 1-7 1 *")),
    ("on the last day of every month at 18:00", cron("0 18 L * *")),
    ("2nd last day of the month at 18:00", cron("0 18 L-1 * *")),
    ("first and last day of the month at 18:00", cron("0 18 1,L * *")),
    ("first monday of the month at 8", cron("0 8 * * 1#1")),
    ("every first monday at 8", cron("0 8 * * 1#1")),
    ("every 2nd tuesday of the month at 8", cron("0 8 * * 2#2")),
    ("every second tuesday of the month at 8", cron("0 8 * * 2#2")),
    ("1st and 3rd monday of the month at 8", cron("0 8 * * 1#1,1#3")),
    ("monthly on the last friday at 17:00", cron("0 17 * * 5L")),
    ("last sunday of march and october at 1", cron("0 1 * 3,10 0L")),
    ("on the first weekday of the month at 9", cron("0 9 1W * *")),
    ("on the last weekday of the month at 9", cron("0 9 LW * *")),
    ("on the weekday nearest the 15th at 9", cron("0 9 15W * *")),
    ("on monday or the 13th at 9", cron("0 9 13 * 1")),
    ("on mondays and the 13th at 9", cron("0 9 13 * 1")),
    ("last business day of the month at 18:00", monthly("last business day", "18:00")),
    ("5th working day of the month at 9", monthly("5th business day", "09:00")),
    (
        "3rd last business day at 9 and 18:30",
        monthly("3rd last business day", ("09:00", "18:30")),
    ),
    ("end of month at 18:00", cron("0 18 L * *")),
    ("at the end of february at 18:00", cron("0 18 L 2 *")),
    ("start of the month at 9", cron("0 9 1 * *")),
    ("second to last day of the month at 9", cron("0 9 L-1 * *")),
    ("third and last friday of the month at 9", cron("0 9 * * 5L,5#3")),
    # quarters
    ("quarterly on the 1st at 9", cron("0 9 1 1,4,7,10 *")),
    ("first monday of every quarter at 9", cron("0 9 * 1,4,7,10 1#1")),
    ("last day of the quarter at 18:00", cron("0 18 L 3,6,9,12 *")),
    ("last friday of the year at 12", cron("0 12 * 12 5L")),
    # days of the year
    ("every january 1st at 0:00", cron("0 0 1 1 *")),
    ("every year on 24 december at 18:00", cron("0 18 24 12 *")),
    ("yearly on december the 24th at 18:00", cron("0 18 24 12 *")),
    ("every 24th december at 18:00", cron("0 18 24 12 *")),
    ("every year on the 1st of january at 9", cron("0 9 1 1 *")),
    ("on 24 dec and 1 jan at 9", Union((cron("0 9 1 1 *"), cron("0 9 24 12 *")))),
    ("every 29 february at 9", cron("0 9 29 2 *")),
    # every so often
    ("every minute", cron("* * * * *")),
    ("every second", cron("* * * * * *")),
    ("every 30 seconds", cron("*/30 * * * * *")),
    ("every fifteen minutes", cron("*/15 * * * *")),
    ("every 15 min", cron("*/15 * * * *")),
    ("every hour", cron("0 * * * *")),
    ("hourly", cron("0 * * * *")),
    ("every 2 hours", cron("0 */2 * * *")),
    ("every other hour", cron("0 */2 * * *")),
    ("every second hour", cron("0 */2 * * *")),
    ("once every 15 minutes", cron("*/15 * * * *")),
    ("every half hour", cron("*/30 * * * *")),
    ("every quarter of an hour", cron("*/15 * * * *")),
    ("every hour on the hour", cron("0 * * * *")),
    ("every hour on the half hour", cron("30 * * * *")),
    ("every hour at :15", cron("15 * * * *")),
    ("at :15 and :45", cron("15,45 * * * *")),
    ("10 past every hour", cron("10 * * * *")),
    ("half past every hour on mondays", cron("30 * * * 1")),
    ("every hour at 10 minutes past", cron("10 * * * *")),
    ("every hour at minute 10", cron("10 * * * *")),
    ("at minute 5 of every hour", cron("5 * * * *")),
    ("at minutes 5 and 35 of every hour on weekdays", cron("5,35 * * * 1-5")),
    ("every 15 minutes on mondays", cron("*/15 * * * 1")),
    ("every hour in january", cron("0 * * 1 *")),
    ("every 90 minutes", every("90m")),
    ("every 1 hour and 30 minutes", every("90m")),
    ("every 7 minutes", every("7m")),
    ("every 24 hours", every("24h")),
    ("every 100 seconds", every("100s")),
    # one date
    ("once on 2026-04-03 at 9:00", at("2026-04-03T09:00", "UTC")),
    ("on 2026-04-03 at 9pm", at("2026-04-03T21:00", "UTC")),
    ("on april 3rd, 2026 at 9", at("2026-04-03T09:00", "UTC")),
    ("once on 24/12/2026 at 9", at("2026-12-24T09:00", "UTC")),
    ("once on 12/24/2026 at 9", at("2026-12-24T09:00", "UTC")),
    # shorthands, as systemd has them
    ("weekly", cron("0 0 * * 1")),
    ("monthly", cron("0 0 1 * *")),
    ("quarterly", cron("0 0 1 1,4,7,10 *")),
    ("yearly", cron("0 0 1 1 *")),
    # counted from a start
    (
        "every 2 weeks on monday at 9 from 2026-04-06",
        rrule(
            "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO;BYHOUR=9;BYMINUTE=0", dtstart=datetime(2026, 4, 6, 9)
        ),
    ),
]


@each_row(("sentence", "meaning"), MEANINGS)
def test_a_sentence_means_one_timetable(sentence, meaning):
    assert meaning == read_plain(sentence)


OCCURRENCES = [
    (
        "every 15 minutes between 16:30 and 17 on wednesdays",
        "01 16:30, 01 16:45, 01 17:00, 08 16:30",
    ),
    ("every 20 minutes from 8:10 to 9:00", "01 08:10, 01 08:30, 01 08:50, 02 08:10"),
    ("every 90 minutes between 9 and 12 on mondays", "06 09:00, 06 10:30, 06 12:00, 13 09:00"),
    ("every 2 hours 9-12 on mondays", "06 09:00, 06 11:00, 13 09:00, 13 11:00"),
    ("every hour at :30 between 9 and 11", "01 09:30, 01 10:30, 02 09:30, 02 10:30"),
    ("every business day at 9", "01 09:00, 02 09:00, 03 09:00, 06 09:00"),
    (
        "every 2 weeks on monday morning at 9 from 2026-04-06",
        "06 09:00, 20 09:00, 04 09:00, 18 09:00",
    ),
    ("every 7 hours on mondays", "06 00:00, 06 07:00, 06 14:00, 06 21:00"),
    ("every 40 minutes between 23:00 and 01:00", "01 00:20, 01 01:00, 01 23:00, 01 23:40"),
    ("every 3 days at 9 from 2026-04-05", "05 09:00, 08 09:00, 11 09:00, 14 09:00"),
    ("every other evening at 19 from 2026-04-05", "05 19:00, 07 19:00, 09 19:00, 11 19:00"),
    ("every second day at 9 from 2026-04-05", "05 09:00, 07 09:00, 09 09:00, 11 09:00"),
    ("every other monday at 9 from 2026-04-13", "13 09:00, 27 09:00, 11 09:00, 25 09:00"),
    ("every 2 weeks on mon and wed at 9 from 2026-04-08", "08 09:00, 20 09:00, 22 09:00, 04 09:00"),
    (
        "every 2 months on the last friday at 9 from 2026-04-24",
        "24 09:00, 26 09:00, 28 09:00, 30 09:00",
    ),
    ("every 3 months at 9 and 10:30 from 2026-04-02", "02 09:00, 02 10:30, 02 09:00, 02 10:30"),
]


@each_row(("sentence", "expected"), OCCURRENCES)
def test_a_sentence_fires_when_it_says(sentence, expected):
    found = read_plain(sentence).upcoming(AFTER, 4)

    assert expected == ", ".join(f"{one:%d %H:%M}" for one in found)


REFUSALS = [
    ("", "is empty"),
    ("hello world", "for example 'every weekday at 9' or 'last friday of the month at 17:00'"),
    ("every full moon", "for example 'every weekday at 9' or 'last friday of the month at 17:00'"),
    ("not on sundays", "for example 'every weekday at 9' or 'last friday of the month at 17:00'"),
    ("every penultimate business day at 9", "say for example 'every business day at 09:00'"),
    ("every evning at 19", "did you mean 'every evening at 19:00'?"),
    ("every day at 9h30", "did you mean 'every day at 09:30'?"),
    ("every day at 0930", "did you mean 'every day at 09:30'?"),
    ("   ", "is empty"),
    ("evry weekday at 9", "did you mean 'every weekday at 09:00'?"),
    ("every wekday at 9", "did you mean 'every weekday at 09:00'?"),
    ("on mondys at 9 and 9:30", "did you mean 'on mondays at 09:00 and 09:30'?"),
    ("every weekday 9", "did you mean 'every weekday at 09:00'?"),
    ("please do it every monday at 9am", "did you mean 'every monday at 9am'?"),
    ("every monday", "did you mean 'every monday at 09:00'?"),
    ("15 minutes", "did you mean 'every 15 minutes'?"),
    ("at 9 or 10", "say 'and' for both"),
    ("on monday or friday at 9", "say 'and' for both"),
    ("every day at 24:00", "names a time that no day has, 24:00"),
    ("every day at 13pm", "names a time that no day has, 13pm"),
    ("every day at 930", "an hour from 0 to 23"),
    ("every day at 9 and every monday at 10", "say one rule at a time"),
    ("at 10 past 9 and 17", "write them, as in 'at 9:10 and 17:10'"),
    ("every 1.5 hours", "use whole numbers"),
    ("twice a day", "say when, as in 'every day at 9:00 and 17:00'"),
    ("3 times a week", "say when, as in 'every monday and thursday at 9:00'"),
    ("3 times every hour from 2026-04-06", "says how many times, but not when"),
    ("every evening", "did you mean 'every evening at 19:00'?"),
    ("nightly", "says no time of day"),
    ("every evening at 7", "did you mean 'every day at 19:00'?"),
    ("every monday evening at 7 and 8", "did you mean 'every monday at 19:00 and 20:00'?"),
    ("every day at 9 at night", "did you mean 'every day at 21:00'?"),
    ("nightly at 11", "did you mean 'daily at 23:00'?"),
    ("every morning at 3:59", "give a time from 04:00 to 11:59 for the morning"),
    ("every morning at 12", "give a time from 04:00 to 11:59 for the morning"),
    ("every evening at 7am", "give a time from 16:00 to 23:59 for the evening"),
    ("every night at 6:00", "did you mean 'every day at 18:00'?"),
    ("every morning and evening at 8", "has no time for the evening"),
    ("every 15 minutes in the morning", "say from when to when"),
    ("every friday night at 1", "which may be the day after"),
    ("3rd night at 22", "which may be of a month or on and on"),
    ("every third noon", "which may be of a month or on and on"),
    ("every third night at 22", "does not say when the first day is"),
    ("weekends except monday at 9", "leaves out a day that was not among the others"),
    ("once on 2026-04-03 at 2 at night", "which may be the day after"),
    ("every night except sunday at 2", "which may be the day after"),
    ("every other business day at 9", "say for example 'every business day at 09:00'"),
    ("every second business day at 9", "which may be of a month or on and on"),
    ("business days and saturdays at 9", "make a timetable for each"),
    ("every business day except friday at 9", "leave days out with .excluding(…)"),
    ("monthly on business days at 9", "not days of a month"),
    ("every 15 minutes during business hours", "say the hours"),
    ("every monday at 9 except holidays", "name weekdays, as in 'except sundays'"),
    ("every day at 9 except 2026-12-24", ".excluding(…)"),
    ("every day except weekdays and weekends at 9", "leaves no day"),
    ("christmas eve at 18:00", "say the date"),
    ("every few minutes", "say how many"),
    ("biweekly on monday at 9", "which has two meanings"),
    ("every day at 9 EST", "write the name of the zone"),
    ("in 5 minutes", "write the date"),
    ("this friday at 9", "write the date"),
    ("every quarter", "does not say which day of the quarter"),
    ("first and last day of the quarter at 9", "counts from both ends of a quarter"),
    ("31st day of the quarter at 9", "counts beyond the first month of a quarter"),
    ("5th monday of the quarter at 9", "counts beyond the first month of a quarter"),
    ("monthly on the last day of the quarter at 9", "in another way"),
    ("every 2 months on the last day of the quarter at 9 from 2026-03-31", "don't go with it"),
    ("last business day of the quarter at 9", "can't be counted in a quarter"),
    ("end of the week at 9", "without its name"),
    ("on the half hour", "has a minute without its hours"),
    ("every 2 hours at :15", "says both a distance and a minute of the hour"),
    ("every hour at 15", "say 'every hour at :15' for a minute"),
    ("at :60", "names a minute that no hour has"),
    ("every hour at :15 between 22:00 and 02:00", "runs past midnight"),
    ("every 10 minutes until 18:00", "write 'from 8:00 to 17:00'"),
    ("every day at 9 at 10", "says the time of day twice"),
    ("friday the 13th at 9", "use an RRULE"),
    ("every monday on the 1st at 9", "says which days twice"),
    ("every second monday at 9", "'every 2 weeks on monday' with the date of the first"),
    ("every other week", "from 2026-04-06"),
    ("every 2 weeks on monday at 9", "from 2026-04-06"),
    (
        "every 2 weeks on monday at 9 from 2026-04-07",
        "starts on 2026-04-07, which is not one of its days",
    ),
    ("every 2 months at 9 from 2026-01-31", "not every month has"),
    ("every 30 february at 9", "February has 29 days at most"),
    ("on the 31st of april at 9", "names a 31st that no such month has"),
    ("on the 15 at 9", "write 'the 15th' for a day of the month"),
    ("on the 32nd at 9", "give a day from 1 to 31"),
    ("6th monday of the month at 9", "from the 1st to the 5th"),
    ("weekly at 9", "does not say which day of the week"),
    ("every month at 9", "does not say which day of the month"),
    ("every year at 9", "does not say which day of the year"),
    ("every week on the 1st at 9", "say weekdays"),
    ("last business day in january at 9", "leave the months out"),
    ("last at 9", "say 'last day' or 'last friday'"),
    ("tomorrow at 9", "write the date"),
    ("every day at 9 next week", "write the date"),
    ("once at 9", "says 'once' without a date"),
    ("once on 2026-04-03", "say the time"),
    ("once on 2026-02-30 at 9", "names a date that does not exist"),
    ("once on 03/04/2026 at 9", "write 2026-03-04 or 2026-04-03"),
    ("every 15 minutes between 9 and 5", "ends before it starts"),
    ("every 15 minutes between 22:00 and 02:00 on mondays", "ends before it starts"),
    ("every 15 minutes at 9", "says both a distance and a time of day"),
    ("between 9 and 17", "say how often"),
    ("every 0 minutes", "a distance of zero"),
    ("every 0 days at 9 from 2026-01-01", "a period of zero"),
    ("every 7 seconds on mondays", "step by whole minutes"),
    ("every 9999999 hours", "longer than a century"),
    ("every day at 9 10 times", "say from when"),
    ("every day at 9 from 2026-02-01 until 2026-01-01", "ends before it starts"),
    ("every day at 9 Berlin time", "write 'Europe/Berlin'"),
    ("every day at 9 in Europe/Pariss", "did you mean 'Europe/Paris'?"),
    ("every day at 9 in narnia", "is not the name of a zone"),
    ("every day at 9 in november to february", "months that run backwards"),
    ("every day at 9 ☃", "has a character that no sentence has"),
    ("every d\u0430y at 9", "has a character that no sentence has"),
    ("every day at ٩", "has a character that no sentence has"),
    ("every day at 9\u202e", "has a character that no sentence has"),
]


@each_row(("sentence", "said"), REFUSALS)
def test_what_is_not_understood_is_refused_with_a_remedy(sentence, said):
    with pytest.raises(UsageError) as caught:
        read_plain(sentence)

    assert caught.value.field == "when"
    assert said in str(caught.value)


def test_too_long_a_text_is_refused_before_it_is_read():
    with pytest.raises(UsageError, match="give at most 200 characters"):
        read_plain("every day at 9 " * 1000)


@pytest.mark.parametrize("value", [None, 9, b"daily", ["daily"]])
def test_what_is_no_text_is_refused(value):
    with pytest.raises(UsageError, match="is not a text"):
        read_plain(value)


@each_row(
    "sentence",
    [
        "every weekday at 9",
        "every night at 2:30",
        "every 90 minutes",
        "once on 2026-04-03 at 9",
        "last business day at 9",
    ],
)
def test_a_persons_own_words_are_kept(sentence):
    stored = read_plain(sentence).to_json()

    assert sentence == stored["words"]
    assert sentence == timetable_from_json(stored).to_json()["words"]


def test_words_are_kept_in_every_part():
    sentence = "every day at 9:15 and 18:00 until 2026-12-31"
    stored = read_plain(sentence).to_json()

    assert [sentence] * 2 == [part["words"] for part in stored["timetable"]["parts"]]


def test_words_are_kept_inside_what_business_days_limit():
    stored = read_plain("every business day at 9").to_json()

    assert stored["timetable"]["words"] == "every business day at 9"


def test_business_days_are_those_of_the_zone():
    expected = cron("0 9 * * *", "Asia/Tokyo").on_business_days(None)

    assert expected == read_plain("every business day at 9 in Asia/Tokyo")


def test_a_zone_in_the_sentence_wins_over_the_default():
    assert cron("0 9 * * *", "Europe/Paris") == read_plain("every day at 9 in Europe/Paris")


@pytest.mark.parametrize("form", ["in Asia/Tokyo", "Asia/Tokyo", "Asia/Tokyo time", "(Asia/Tokyo)"])
def test_a_zone_may_be_said_in_several_ways(form):
    assert cron("0 9 * * *", "Asia/Tokyo") == read_plain(f"every day at 9 {form}")


def test_two_zones_that_disagree_are_refused():
    with pytest.raises(UsageError, match="says Asia/Tokyo, but the zone was given as Europe/Paris"):
        read_plain("every day at 9 in Asia/Tokyo", tz="Europe/Paris")


@pytest.mark.parametrize(("keyword", "value"), [("tz", "Mars"), ("gap", "leap"), ("fold", "third")])
def test_what_is_given_beside_the_sentence_is_checked(keyword, value):
    with pytest.raises(UsageError) as caught:
        read_plain("every 90 minutes", **{keyword: value})

    assert keyword == caught.value.field


def test_policies_reach_the_timetable():
    expected = cron("30 2 * * *", "Europe/Paris", "shift", "second")

    assert expected == read_plain("every day at 2:30", "Europe/Paris", "shift", "second")


def test_two_named_times_in_one_gap_still_fire():
    """A list of minutes must not turn named times into an interval, which a gap swallows."""
    read = read_plain("every day at 2:00 and 2:30", "Europe/Paris")

    found = read.upcoming(datetime(2026, 3, 29, tzinfo=UTC), 1)

    assert [datetime(2026, 3, 29, 1, tzinfo=UTC)] == found


def test_an_interval_in_a_stretch_runs_through_both_hours_of_a_fold():
    read = read_plain("every 30 minutes between 2:00 and 2:30", "Europe/Paris")

    found = read.upcoming(datetime(2026, 10, 24, 22, tzinfo=UTC), 4)

    assert [f"{one:%H:%M}" for one in found] == ["00:00", "00:30", "01:00", "01:30"]


def test_an_interval_in_a_stretch_inside_a_gap_does_not_fire_that_day():
    read = read_plain("every 30 minutes between 2:00 and 2:30", "Europe/Paris")

    (found,) = read.upcoming(datetime(2026, 3, 29, tzinfo=UTC), 1)

    assert datetime(2026, 3, 30, tzinfo=UTC) == found


def test_from_and_until_include_their_days_in_the_zone():
    read = read_plain("every 12 hours from 2026-05-01 until 2026-05-01", "America/New_York")

    assert isinstance(read, BetweenDates)
    assert [f"{one:%d %H:%M}" for one in read.upcoming(AFTER, 9)] == ["01 04:00", "01 16:00"]


def test_a_number_of_times_counts_from_the_start():
    read = read_plain("10 times every day at 9 from 2026-04-06")

    assert isinstance(read, Limited)
    assert len(read.upcoming(AFTER, 20)) == 10


def rows_of_the_page() -> list[tuple[str, str]]:
    lines = map(ROW.fullmatch, PAGE.read_text(encoding="utf-8").splitlines())
    return [(found[1], found[2]) for found in lines if found]


def answer(sentence: str, expected: str) -> str:
    """Ask for what a row of the page promises: a description, times, a remedy or a kind."""
    if re.fullmatch("[a-z]+", expected):
        return kind_of(sentence)
    try:
        read = read_plain(sentence)
    except UsageError as error:
        return f"refused: {error.remedy}"
    if expected[0].isdigit():
        return ", ".join(f"{one:%Y-%m-%d %H:%M}" for one in read.upcoming(AFTER, 3))
    return read.describe()


@each_row(("sentence", "expected"), rows_of_the_page())
def test_every_example_on_the_page_holds(sentence, expected):
    assert expected == answer(sentence, expected)


def test_the_page_has_examples():
    """A page whose tables are no longer found would pass unread."""
    assert len(rows_of_the_page()) > 50


@each_row("example", [*EXAMPLES, *GENERAL])
def test_every_sentence_that_is_suggested_is_understood(example):
    assert isinstance(read_plain(example), Timetable)


def outcome(text: str) -> Timetable | None:
    """Read a text; nothing but a UsageError may come of a bad one, and what it suggests must read."""
    try:
        return read_plain(text)
    except UsageError as error:
        suggested = re.fullmatch(r"did you mean '(.*)'\?", error.remedy)
        if suggested and "the name of a zone" not in error.problem:
            return read_plain(suggested[1])
        return None


sentences = st.sampled_from([one for one, _ in MEANINGS] + [one for one, _ in OCCURRENCES])
words = st.one_of(
    st.sampled_from(KNOWN),
    st.integers(0, 99).map(str),
    st.sampled_from(
        ["1st", "31st", "9:30", "9pm", ",", "-", "(", ")", "Europe/Paris", "2026-04-06"]
    ),
)


@settings(max_examples=150)
@given(st.text(max_size=TEXT_LENGTH_MAX))
def test_any_text_is_a_timetable_or_a_usage_error(text):
    outcome(text)


@settings(max_examples=300)
@given(st.lists(words, min_size=1, max_size=12).map(" ".join))
def test_any_row_of_known_words_is_a_timetable_or_a_usage_error(text):
    outcome(text)


@settings(max_examples=200)
@given(sentences, st.data())
def test_a_sentence_with_words_swapped_is_a_timetable_or_a_usage_error(sentence, data):
    pieces = sentence.split(" ")
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(pieces) - 1))
        pieces[place : place + data.draw(st.integers(0, 2))] = data.draw(
            st.lists(words, max_size=2)
        )
        pieces = pieces or ["every"]
    outcome(" ".join(pieces))


@settings(max_examples=150)
@given(sentences, st.data())
def test_what_is_understood_has_a_next_instant_that_is_later(sentence, data):
    after = data.draw(
        st.datetimes(datetime(1980, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))
    )
    found = read_plain(sentence, "America/Sao_Paulo").next(after)

    assert found is None or found > after


@settings(max_examples=150)
@given(st.text("0123456789 every,-/:'()amp.&th", max_size=TEXT_LENGTH_MAX))
def test_a_text_gives_no_more_tokens_than_characters_and_few_repairs(text):
    """The work is bounded by the length of the text, and by a number of repairs."""
    attempts: list[str] = []

    def refuse(attempt: str) -> bool:
        attempts.append(attempt)
        return False

    assert mended_sentence(text, refuse) is None
    assert examples_for(text) == GENERAL or examples_for(text)[0] in EXAMPLES
    assert len(attempts) <= REPAIRS_MAX
    assert all(len(attempt) <= TEXT_LENGTH_MAX for attempt in attempts)
    with suppress(NotUnderstoodError):
        assert len(tokenise(text)) <= len(text)
