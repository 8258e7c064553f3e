"""Cron expressions: five fields as in Debian, six with seconds first, Quartz's with years."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from duly.domain.instants import YEAR_MAX
from duly.domain.timetable import cron_fields as fields
from duly.domain.timetable.cron_fields import Dialect, FieldKind, FieldValue, read_field
from duly.domain.timetable.dates import (
    MONTH_STARTS,
    CalendarDates,
    Dates,
    DaysAndTimes,
    EveryDay,
    YearlyDates,
    days_of_month_days,
    days_of_months,
    days_of_weekdays,
)
from duly.domain.timetable.times import TimesOfDay
from duly.domain.timetable.timetable import Zoned
from duly.errors import UsageError, require_text

if TYPE_CHECKING:
    from duly.domain.local_time import Fold, Gap, WallRule

CronDialect = Literal["cron", "quartz"]
DIALECTS: tuple[CronDialect, ...] = ("cron", "quartz")
SEED_LENGTH_MAX = 200
ANY_SEED = ""
"""Stands for one that is not known yet, to read an expression by."""
WHITE_SPACE = " \t\r\n"

MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
    "@every_minute": "* * * * *",
    "@every_second": "* * * * * *",
}
FIELDS = (
    fields.SECOND,
    fields.MINUTE,
    fields.HOUR,
    fields.DAY_OF_MONTH,
    fields.MONTH,
    fields.DAY_OF_WEEK,
    fields.YEAR,
)
_CRONTAB = Dialect()
_SIX = Dialect(named_last=True)
_QUARTZ_LIKE = Dialect(named_last=True, nearest_in_list=True)
_QUARTZ = Dialect(named_last=True, nearest_in_list=True, weekday_shift=1)


@dataclass(frozen=True, slots=True)
class CronFields:
    """A cron expression, field by field; `year` is None unless it was given."""

    second: FieldValue
    minute: FieldValue
    hour: FieldValue
    day_of_month: FieldValue
    month: FieldValue
    day_of_week: FieldValue
    year: FieldValue | None = None

    @property
    def is_interval(self) -> bool:
        """Whether it means "every such real instant": Debian looks for a leading star; so do we."""
        return self.minute.text[0] == "*" or self.hour.text[0] == "*"

    @property
    def is_every_day(self) -> bool:
        """Whether no day is left out."""
        return (
            self.day_of_month.text in "*?"
            and self.day_of_week.text in "*?"
            and self.month.text == "*"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cron(Zoned):
    """A cron expression in a zone.

    One that spreads by `H` and has no seed is open: it can be kept and given to a schedule, which
    spreads it by its name, and not asked when it fires.
    """

    kind: ClassVar[str] = "cron"
    expression: str
    seed: str | None = None
    dialect: CronDialect = "cron"

    @property
    def fields(self) -> CronFields:
        """The expression, field by field."""
        return read_cron(self.expression, self.seed, self.dialect)

    @property
    def is_open(self) -> bool:
        """Whether it is still to be spread."""
        return self.seed is None and isinstance(self.local.walls, OpenRule)

    def _compiled(self) -> WallRule:
        require_text("cron", self.expression, fields.TEXT_LENGTH_MAX)
        if self.seed is not None:
            require_text("seed", self.seed, SEED_LENGTH_MAX)
        if self.dialect not in DIALECTS:
            remedy = f"choose one of {', '.join(DIALECTS)}"
            raise UsageError("dialect", self.dialect, "is not a dialect", remedy)
        if self.seed is None and spreads(self.expression, self.dialect):
            return OpenRule(self.expression, self.dialect)
        return compile_cron(self.expression, self.seed, self.dialect)

    def _effective_policies(self) -> tuple[Gap, Fold]:
        # Where H falls does not matter to that.
        is_open = self.seed is None and spreads(self.expression, self.dialect)
        seed = ANY_SEED if is_open else self.seed
        is_interval = read_cron(self.expression, seed, self.dialect).is_interval
        return ("skip", "both") if is_interval else (self.gap, self.fold)

    def describe(self) -> str:
        """Say in words when this fires."""
        if self.is_open:
            return f"{self.expression}, spread by the name of its schedule ({self.tz})"
        from duly.domain.timetable.describe_cron import describe_cron

        return describe_cron(self)

    def to_json(self) -> dict[str, Any]:
        """Return the expression, zone and policies."""
        own: dict[str, object] = {"expression": self.expression}
        if self.seed is not None:
            own["seed"] = self.seed
        if self.dialect != "cron":
            own["dialect"] = self.dialect
        return self._stored(**own)


@dataclass(frozen=True, slots=True)
class OpenRule:
    """The wall times of an expression that is still to be spread: whoever asks needs a seed."""

    expression: str
    dialect: CronDialect

    def at_or_after(self, wall: int) -> int | None:
        """Refuse to say."""
        return compile_cron(self.expression, None, self.dialect).at_or_after(wall)

    def at_or_before(self, wall: int) -> int | None:
        """Refuse to say."""
        return compile_cron(self.expression, None, self.dialect).at_or_before(wall)

    def count(self, start: int, end: int) -> int:
        """Refuse to say."""
        return compile_cron(self.expression, None, self.dialect).count(start, end)


def spreads(expression: str, dialect: CronDialect) -> bool:
    """Say whether an expression has an `H`; refuse what can't be read, wherever it may fall."""
    if "h" not in expression.lower():
        return False
    read_cron(expression, ANY_SEED, dialect)
    try:
        read_cron(expression, None, dialect)
    except UsageError:
        return True
    return False


class CronDates(CalendarDates):
    """The days of a cron expression, without years."""

    def __init__(self, cron: CronFields) -> None:
        """Take the three day fields."""
        super().__init__()
        self._month = cron.month.mask
        self._day, self._weekday = cron.day_of_month, cron.day_of_week

    def days_of_kind(self, first_weekday: int, *, leap: bool) -> int:
        """Combine days and weekdays: both must match if one starts with a star, else either."""
        days = days_of_month_days(self._day.mask, leap=leap)
        sunday_first = self._weekday.mask
        monday_first = sunday_first >> 1 | (sunday_first & 1) << 6
        weekdays = days_of_weekdays(monday_first, first_weekday, leap=leap)
        if self._day.has_specials or self._weekday.has_specials:
            starts = MONTH_STARTS[leap]
            for month in range(12):
                start, length = starts[month], starts[month + 1] - starts[month]
                weekday = (first_weekday + start) % 7
                days |= _special_days(self._day, weekday, length) << start
                weekdays |= _special_weekdays(self._weekday, weekday, length) << start
        is_either = not (self._day.is_star or self._weekday.is_star)
        chosen = days | weekdays if is_either else days & weekdays
        return chosen & days_of_months(self._month, leap=leap)


class DatesInYears(YearlyDates):
    """Dates limited to a set of years."""

    years_ahead_max = YEAR_MAX
    """The years are known, and leapt to; however far they are."""

    def __init__(self, dates: YearlyDates, years: int) -> None:
        """Limit `dates` to the years of a bitmask."""
        super().__init__()
        self._dates, self._years = dates, years

    @property
    def is_possible(self) -> bool:
        """Whether any year, be it one of the years or not, has a member."""
        return self._dates.is_possible

    def days_of(self, year: int) -> int:
        """Return the year's days, if it is one of the years."""
        return self._dates.days_of(year) if self._years >> year & 1 else 0

    def first_year_from(self, year: int) -> int:
        """Leap to the next of the years."""
        left = self._years >> year
        return year + (left & -left).bit_length() - 1 if left else YEAR_MAX + 1


def _special_days(day: FieldValue, first_weekday: int, length: int) -> int:
    """Return a month's days for L, L-n, W and L-nW; a day that the month lacks is left out."""
    chosen = 0
    for back in day.from_end:
        if back < length:
            chosen |= 1 << length - back - 1
    for number in day.nearest:
        wanted = number if number > 0 else length + number + 1
        if 1 <= wanted <= length:
            chosen |= 1 << _nearest_weekday(wanted, first_weekday, length) - 1
    return chosen


def _nearest_weekday(day: int, first_weekday: int, length: int) -> int:
    """Return the day from Monday to Friday nearest to a day, in the same month."""
    weekday = (first_weekday + day - 1) % 7
    if weekday == 5:  # Saturday
        return day - 1 if day > 1 else day + 2
    if weekday == 6:  # Sunday
        return day + 1 if day < length else day - 2
    return day


def _special_weekdays(weekday: FieldValue, first_weekday: int, length: int) -> int:
    """Return a month's days for n#k and nL."""
    chosen = 0
    for from_sunday, number in weekday.ordinals:
        first = (from_sunday - 1 - first_weekday) % 7
        day = first + 7 * (number - 1) if number > 0 else first + (length - 1 - first) // 7 * 7
        if day < length:
            chosen |= 1 << day
    return chosen


@lru_cache(maxsize=4096)
def compile_cron(expression: str, seed: str | None, dialect: CronDialect) -> DaysAndTimes:
    """Compile an expression once, however many zones and schedules use it."""
    cron = read_cron(expression, seed, dialect)
    times = TimesOfDay(cron.hour.mask, cron.minute.mask, cron.second.mask)
    dates: Dates
    if cron.year is not None:
        dates = DatesInYears(CronDates(cron), cron.year.mask)
    else:
        dates = EveryDay() if cron.is_every_day else CronDates(cron)
    return DaysAndTimes(dates, times)


@lru_cache(maxsize=4096)
def read_cron(expression: str, seed: str | None, dialect: CronDialect) -> CronFields:
    """Read an expression into its fields."""
    texts = _split(expression, dialect)
    allows = _allowed(texts, dialect)
    kinds: tuple[FieldKind, ...] = FIELDS[1:6] if len(texts) == 5 else FIELDS
    values = [
        read_field(text, kind, allows, seed) for text, kind in zip(texts, kinds, strict=False)
    ]
    if len(values) == 5:  # no seconds were given
        values.insert(0, read_field("0", fields.SECOND, allows, seed))
    if dialect == "quartz" and len(values) == 6:  # Quartz knows the years 1970-2099
        values.append(read_field("*", fields.YEAR, allows, seed))
    return CronFields(*values)


def _split(expression: str, dialect: CronDialect) -> list[str]:
    text = expression.strip(WHITE_SPACE)
    if text.startswith("@"):
        if not text.isascii() or text.lower() not in MACROS:
            remedy = f"use one of {', '.join(MACROS)}"
            raise UsageError("cron", expression, "is not a known short form", remedy)
        text = MACROS[text.lower()]
    texts = [part for part in re.split(f"[{WHITE_SPACE}]+", text) if part]
    sizes = {"cron": (5, 6), "quartz": (6,)}[dialect]
    has_years = len(texts) == 7 and "?" in (texts[3], texts[5])  # Quartz's form
    if len(texts) not in sizes and not has_years:
        raise UsageError(
            "cron",
            expression,
            f"has {len(texts)} fields",
            "give five (minute, hour, day of month, month, day of week), six with seconds first,"
            " or seven with seconds, a '?' for one of the day fields and years last",
        )
    return texts


def _allowed(texts: list[str], dialect: CronDialect) -> Dialect:
    if dialect == "quartz":
        return _QUARTZ
    if len(texts) == 5:
        return _CRONTAB
    return _QUARTZ_LIKE if "?" in (texts[3], texts[5]) else _SIX


def cron(  # noqa: PLR0913 - an expression, and how to read it
    expr: str,
    tz: str = "UTC",
    gap: Gap = "next",
    fold: Fold = "first",
    *,
    seed: str | None = None,
    dialect: CronDialect = "cron",
) -> Cron:
    """Make a timetable of a cron expression: five fields, or six with seconds first.

    Days and weekdays combine as in Debian's cron: either may match unless one starts with `*`.
    An expression whose minute or hour starts with `*` means every such real instant; otherwise each
    named time fires once a day, and `gap` and `fold` decide what that means when clocks change.
    `H` is spread by `seed`, else by the name of the schedule that it is given to.
    `dialect="quartz"` counts weekdays from Sunday = 1.
    """
    try:
        return _cron(expr, tz, gap, fold, seed, dialect)
    except (
        TypeError
    ):  # an unhashable argument, which no cache can take, is a mistake like any other
        return Cron(expression=expr, tz=tz, gap=gap, fold=fold, seed=seed, dialect=dialect)


@lru_cache(maxsize=4096)
def _cron(  # noqa: PLR0913, PLR0917 - the cache's key
    expression: str, tz: str, gap: Gap, fold: Fold, seed: str | None, dialect: CronDialect
) -> Cron:
    return Cron(expression=expression, tz=tz, gap=gap, fold=fold, seed=seed, dialect=dialect)
