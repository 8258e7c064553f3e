"""Where another scheduler means something else by the same cron expression: classes, as predicates.

`dialect_differences.md` gives the reason for each. A class looks at the dialect, the expression, the
zone and the times of a question, never at which row it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from duly.timetable.cron import MACROS, Cron, cron
from duly.timetable.instants import to_microseconds
from duly.timetable.zones import default_zones
from tests.corpora.corpus import Row, instant, zone_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.timetable.zones import Segment

WRITTEN_LIST = Path(__file__).with_name("dialect_differences.md")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NAMES = {name: number for number, name in enumerate(_WEEKDAYS)} | {
    name: number for number, name in enumerate(_MONTHS, 1)
}
_VALUE = rf"\d+|{'|'.join(_NAMES)}"


@dataclass(frozen=True)
class Question:
    """One row that asks for the next instants, as far as a class may look at it."""

    dialect: str
    expression: str
    tz: str
    start: datetime
    is_inclusive: bool
    expected: tuple[datetime, ...]
    is_exhausted: bool
    policies: dict[str, str]

    @classmethod
    def of(cls, row: Row) -> Question:
        """Read a row that asks for next instants, or whether an instant is one."""
        is_every_instant = row.get("dst_policy") == "skip_gap_repeat_fold"
        if row["kind"] == "cron_matches":
            matched = [row["at"]] if row["expect"] else []
            row = row | {"start": row["at"], "start_exclusive": False, "expect": matched}
        return cls(
            dialect=row["dialect"],
            expression=row["expr"],
            tz=zone_key(row["tz"]),
            start=instant(row["start"]),
            is_inclusive=not row["start_exclusive"],
            expected=tuple(instant(text) for text in row["expect"]),
            is_exhausted=row.get("exhausted", False),
            policies={"gap": "skip", "fold": "both"} if is_every_instant else {},
        )

    @property
    def timetable(self) -> Cron:
        """Our reading of it."""
        dialect = "quartz" if "Quartz" in self.dialect else "cron"
        return cron(self.expression, self.tz, dialect=dialect, **self.policies)  # type: ignore[arg-type]

    @property
    def is_backwards(self) -> bool:
        """Whether it was asked of an iterator that runs backwards."""
        return bool(self.expected) and self.expected[0] < self.start

    def is_occurrence(self) -> bool:
        """Say whether we fire at the start itself."""
        return self.timetable.next(self.start - timedelta(microseconds=1)) == self.start

    def answer(self) -> list[datetime]:
        """Ask ourselves, for one more than expected where there should be none."""
        if self.is_backwards:
            return self._previous()
        start = self.start - timedelta(microseconds=1) if self.is_inclusive else self.start
        return self.timetable.upcoming(start, len(self.expected) + self.is_exhausted)

    def _previous(self) -> list[datetime]:
        found: list[datetime] = []
        before: datetime | None = self.start
        while len(found) < len(self.expected) and before:
            before = self.timetable.previous(before)
            found += [before] if before else []
        return found

    @property
    def fields(self) -> list[str]:
        """The fields, in lower case."""
        text = self.expression.lower().strip()
        return MACROS.get(text, text).split()

    @property
    def times(self) -> list[str]:
        """Second (if given), minute and hour."""
        return self.fields[: len(self.fields) - 3]

    @property
    def days(self) -> tuple[str, str]:
        """Day of month and day of week, of five fields or of six with seconds first."""
        return self.fields[-3], self.fields[-1]

    def segments(self) -> list[Segment]:
        """The stretches of one offset from the day before the start to the last answer expected."""
        zone = default_zones().zone(self.tz)
        at = _seconds(self.start) - 86_400
        end = _seconds(max((self.start, *self.expected)))
        found = []
        while at <= end:
            found.append(zone.segment(at))
            at = found[-1].end
        return found

    def crosses_change(self) -> bool:
        """Say whether clocks change on the way."""
        return len(self.segments()) > 1

    def is_end_of_gap(self, moment: datetime) -> bool:
        """Say whether an instant is the first one after a gap."""
        segment = default_zones().zone(self.tz).segment(_seconds(moment))
        return segment.has_gap and segment.start == _seconds(moment)


def _seconds(moment: datetime) -> int:
    return to_microseconds(moment.astimezone(UTC)) // 1_000_000


@dataclass(frozen=True)
class Difference:
    """A class of differences; its name is a heading in the written list."""

    name: str
    dialect: str
    is_met: Callable[[Question], bool]

    def covers(self, question: Question) -> bool:
        """Say whether a question is of this class."""
        return question.dialect.startswith(self.dialect) and self.is_met(question)


def _is_choice(text: str) -> bool:
    return text[0] not in "*?"


def _days_and_weekdays(question: Question) -> bool:
    return all(_is_choice(text) for text in question.days)


def _repeats(question: Question) -> bool:
    """Say whether Cronos would call it an interval: something other than numbers in a time field."""
    return any(not text.isdigit() for text in question.times)


def _cronos_interval_in_fold(question: Question) -> bool:
    is_ours = any(text.startswith("*") for text in question.times[-2:])
    return (
        not _days_and_weekdays(question)
        and _repeats(question)
        and not is_ours
        and any(one.start + one.offset < one.floor for one in question.segments()[1:])
    )


def _cronos_interval_in_gap(question: Question) -> bool:
    is_gap_end = bool(question.expected) and question.is_end_of_gap(question.expected[0])
    return not _days_and_weekdays(question) and _repeats(question) and is_gap_end


def _question_mark_for_time(question: Question) -> bool:
    return "?" in [*question.times, question.fields[-2]]


def _from_end_of_gap(question: Question) -> bool:
    return (
        question.is_inclusive
        and not _days_and_weekdays(question)
        and not _repeats(question)
        and question.is_end_of_gap(question.start)
    )


def _inclusive_in_name_only(question: Question) -> bool:
    """Say whether the start is an occurrence, and was nevertheless not expected, though asked for."""
    if not question.is_inclusive or question.is_end_of_gap(question.start):
        return False
    if _days_and_weekdays(question) or _question_mark_for_time(question):
        return False
    return question.is_occurrence() and question.start not in question.expected


def _seconds_across_change(question: Question) -> bool:
    return len(question.fields) == 6 and question.crosses_change()


def _stepped_star_is_choice(question: Question) -> bool:
    day, weekday = question.days
    stepped = re.compile(r"\*/\d+")
    return bool(
        (stepped.match(day) and _is_choice(weekday))
        or (stepped.match(weekday) and _is_choice(day))
        or (stepped.match(day) and stepped.match(weekday))
    )


def _seconds_or_years_last(question: Question) -> bool:
    return len(question.fields) > 5


def _ranges(text: str) -> list[tuple[int, int, bool]]:
    """Return the first, the last and whether there is a step, of each range between two values."""
    found = re.findall(rf"({_VALUE})-({_VALUE})(/)?", text)
    return [(_number(first), _number(last), bool(step)) for first, last, step in found]


def _number(text: str) -> int:
    return int(text) if text.isdigit() else _NAMES[text]


def _five(question: Question) -> bool:
    return len(question.fields) == 5


def _stepped_range_over_the_end(question: Question) -> bool:
    ranges = [one for text in question.fields for one in _ranges(text)]
    return _five(question) and any(step and first > last for first, last, step in ranges)


def _range_of_one_weekday(question: Question) -> bool:
    ranges = _ranges(question.days[1])
    return _five(question) and any(first % 7 == last % 7 for first, last, _ in ranges)


def _nearest_weekday_of_a_day_that_may_lack(question: Question) -> bool:
    return _five(question) and re.fullmatch(r"(29|30|31)w", question.days[0]) is not None


def _range_up_to_l(question: Question) -> bool:
    return _five(question) and re.search(r"\d-l", question.days[0]) is not None


def _w_before_the_day(question: Question) -> bool:
    return _five(question) and re.search(r"\bw\d", question.days[0]) is not None


def _seven_fields_without_question_mark(question: Question) -> bool:
    return len(question.fields) == 7 and "?" not in question.fields


DIFFERENCES = (
    Difference("Cronos: day of month and day of week", "Cronos", _days_and_weekdays),
    Difference("Cronos: repetition in a fold", "Cronos", _cronos_interval_in_fold),
    Difference("Cronos: repetition in a gap", "Cronos", _cronos_interval_in_gap),
    Difference("Cronos: `?` for a time or a month", "Cronos", _question_mark_for_time),
    Difference("Cronos: asked from the end of a gap", "Cronos", _from_end_of_gap),
    Difference("Cronos: inclusive in name only", "Cronos", _inclusive_in_name_only),
    Difference("cronsim: seconds while clocks change", "cronsim", _seconds_across_change),
    Difference("robfig: `*/n` is a choice of days", "robfig", _stepped_star_is_choice),
    Difference("croniter: seconds or years last", "croniter", _seconds_or_years_last),
    Difference("croniter: a step starts again", "croniter", _stepped_range_over_the_end),
    Difference("croniter: a range of one weekday", "croniter", _range_of_one_weekday),
    Difference(
        "croniter: `31W` in a short month", "croniter", _nearest_weekday_of_a_day_that_may_lack
    ),
    Difference("croniter: a range up to `L`", "croniter", _range_up_to_l),
    Difference("croniter: `W15`", "croniter", _w_before_the_day),
    Difference("Temporal: seven fields", "Temporal", _seven_fields_without_question_mark),
)


def classes_of(question: Question) -> list[str]:
    """Name the classes of differences that a question belongs to."""
    return [one.name for one in DIFFERENCES if one.covers(question)]
