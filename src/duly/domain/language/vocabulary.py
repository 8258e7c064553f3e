"""Every word that plain language knows, and what kind of word it is."""

from __future__ import annotations

from dataclasses import dataclass

from duly.domain.instants import DAY, HOUR, MINUTE
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


@dataclass(frozen=True, slots=True)
class DayPart:
    """A part of the day; a night ends in the morning. `usual` is a time that is surely in it."""

    name: str
    start: int
    end: int
    usual: int

    def includes(self, time: int) -> bool:
        """Say whether a second of the day is in it."""
        return (time - self.start) % DAY < self.end - self.start


DAY_PARTS = (
    DayPart("morning", 4 * HOUR, 12 * HOUR, 8 * HOUR),
    DayPart("afternoon", 12 * HOUR, 18 * HOUR, 15 * HOUR),
    DayPart("evening", 16 * HOUR, 24 * HOUR, 19 * HOUR),
    DayPart("night", 18 * HOUR, 30 * HOUR, 22 * HOUR),
)
PART_WORDS = {
    word: number for number, part in enumerate(DAY_PARTS) for word in (part.name, f"{part.name}s")
}

ADVERBS = {
    "secondly": "second",
    "minutely": "minute",
    "hourly": "hour",
    "daily": "day",
    "everyday": "day",
    "weekly": "week",
    "monthly": "month",
    "quarterly": "quarter",
    "yearly": "year",
    "annually": "year",
}

_REFUSED = (
    (
        "today tonight tomorrow yesterday now next this",
        "which means another day each day",
        "write the date, as in 'once on 2026-04-03 at 9:00'",
    ),
    (
        "few couple several some sometimes often regularly occasionally frequently",
        "which is no number",
        "say how many, as in 'every 2 hours'",
    ),
    (
        "around about approximately roughly circa ca",
        "which leaves the time open",
        "say the time, as in 'at 9:00'",
    ),
    (
        "biweekly bimonthly biannual biannually",
        "which has two meanings",
        "say 'every 2 weeks', or the days, as in 'on the 1st and 15th at 9:00'",
    ),
    (
        "christmas xmas easter thanksgiving halloween holiday holidays",
        "and a sentence can't name holidays",
        "say the date, as in 'every year on 24 december at 18:00'",
    ),
    (
        "est edt cst cdt mst mdt pst pdt cet cest bst ist jst aest",
        "which may be several zones",
        "write the name of the zone, such as Europe/Paris",
    ),
)
REFUSED = {word: (problem, remedy) for words, problem, remedy in _REFUSED for word in words.split()}
"""Words that people say but that no rule can keep: it means the same whenever it is read."""

_KEYWORDS = (
    "every each on at and or the of in to through between from until till starting since other"
    " once twice last business working work workday workdays day time times minute minutes nearest"
    " o'clock past half quarter fortnight fortnightly except but not during end start beginning"
    " per nightly"
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
    | PART_WORDS.keys()
    | ADVERBS.keys()
)
