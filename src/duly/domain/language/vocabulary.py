"""Every word that plain language knows, and what kind of word it is."""

from __future__ import annotations

from duly.domain.instants import HOUR, MINUTE
from duly.domain.timetable.phrases import MONTHS, WEEKDAYS, WEEKEND_MASK, WORKDAYS_MASK

UNIT_SECONDS = {"second": 1, "minute": MINUTE, "hour": HOUR}
CALENDAR_UNITS = ("day", "week", "month", "year")

_UNITS = {
    "second": "second seconds sec secs s",
    "minute": "minute minutes min mins m",
    "hour": "hour hours hr hrs h",
    "day": "day days",
    "week": "week weeks",
    "month": "month months",
    "year": "year years",
}
UNITS = {word: unit for unit, words in _UNITS.items() for word in words.split()}

_SHORT_WEEKDAYS = ("mon", "tue tues", "wed", "thu thur thurs", "fri", "sat", "sun")
_WEEKDAY_WORDS = [
    (f"{name} {name}s {short}".lower().split(), 1 << number)
    for number, (name, short) in enumerate(zip(WEEKDAYS, _SHORT_WEEKDAYS, strict=True))
]
WEEKDAY_NAMES = {word: mask for words, mask in _WEEKDAY_WORDS for word in words}
WEEKDAY_SETS = {
    "weekday": WORKDAYS_MASK,
    "weekdays": WORKDAYS_MASK,
    "weekend": WEEKEND_MASK,
    "weekends": WEEKEND_MASK,
}
MONTH_NAMES = {
    word: number
    for number, name in enumerate(MONTHS)
    if number
    for word in (name.lower(), name[:3].lower())
} | {"sept": 9}

_NUMBERS = "one two three four five six seven eight nine ten eleven twelve"
NUMBERS = {word: number for number, word in enumerate(_NUMBERS.split(), 1)} | {
    "fifteen": 15,
    "twenty": 20,
    "thirty": 30,
}
ORDINALS = {"first": 1, "third": 3, "fourth": 4, "fifth": 5}
"""Without "second", which is a unit too: where it stands decides."""

TIMES = {"noon": 12 * HOUR, "midday": 12 * HOUR, "midnight": 0}
ADVERBS = {
    "secondly": "second",
    "minutely": "minute",
    "hourly": "hour",
    "daily": "day",
    "weekly": "week",
    "monthly": "month",
    "yearly": "year",
    "annually": "year",
}
NEEDS_A_CLOCK = frozenset(["today", "tonight", "tomorrow", "yesterday", "now", "next"])
"""Words that mean another day each day; a rule must mean the same whenever it is read."""

_KEYWORDS = (
    "every each on at and or the of in to through between from until till starting since other"
    " once last business working workday day time times minute minutes nearest o'clock"
)
KEYWORDS = frozenset(_KEYWORDS.split())
KNOWN = sorted(
    KEYWORDS
    | UNITS.keys()
    | WEEKDAY_NAMES.keys()
    | WEEKDAY_SETS.keys()
    | MONTH_NAMES.keys()
    | NUMBERS.keys()
    | ORDINALS.keys()
    | TIMES.keys()
    | ADVERBS.keys()
)
