"""Cron expressions (Debian, Quartz, H for hash): parser, fields, timetable.

The parser refuses an invalid expression with an error that names the field.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn

from duly.errors import UsageError, require_text
from duly.timetable.day_sets import (
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
from duly.timetable.instants import YEAR_MAX
from duly.timetable.time_sets import TimesOfDay
from duly.timetable.timetable import Zoned

if TYPE_CHECKING:
    from duly.timetable.local_time import Fold, Gap, WallRule


TEXT_LENGTH_MAX = 1000
STEP_MAX = 9999

_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_WEEKDAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]


@dataclass(frozen=True, slots=True, eq=False)
class FieldKind:
    """One column of a cron expression: its name, bounds and names for values."""

    name: str
    low: int
    high: int
    names: dict[str, int] = field(default_factory=dict)


SECOND = FieldKind("second", 0, 59)
MINUTE = FieldKind("minute", 0, 59)
HOUR = FieldKind("hour", 0, 23)
DAY_OF_MONTH = FieldKind("day of month", 1, 31)
MONTH = FieldKind("month", 1, 12, {name: number for number, name in enumerate(_MONTHS, 1)})
DAY_OF_WEEK = FieldKind(
    "day of week", 0, 7, {name: number for number, name in enumerate(_WEEKDAYS)}
)
YEAR = FieldKind("year", 1970, 2099)
TIME_OF_DAY = (SECOND, MINUTE, HOUR)


@dataclass(frozen=True, slots=True)
class FieldValue:
    """What a field means: a bitmask, and for days what can't be said as one.

    `from_end` holds n for `L-n`; `nearest` holds the day n for `nW`, and -n - 1 for `L-nW`;
    `ordinals` holds (weekday, k) for `n#k`, and (weekday, -1) for `nL`. Weekdays count from Sunday.
    """

    text: str
    mask: int = 0
    from_end: tuple[int, ...] = ()
    nearest: tuple[int, ...] = ()
    ordinals: tuple[tuple[int, int], ...] = ()

    @property
    def has_specials(self) -> bool:
        """Whether some days depend on the month they are in."""
        return bool(self.from_end or self.nearest or self.ordinals)

    @property
    def is_star(self) -> bool:
        """Whether the field starts with `*` (or is `?`): Debian's mark for "no choice was made"."""
        return self.text[0] in "*?"


@dataclass(frozen=True, slots=True, eq=False)
class FieldDialect:
    """What the form of an expression allows beyond crontab's own grammar.

    Six fields come from Quartz's family: names before `L`; with a `?` also `W` in lists, and years.
    """

    named_last: bool = False
    nearest_in_list: bool = False
    weekday_shift: int = 0


_RANGE = re.compile(r"([a-z]{3}|\d{1,4})(?:-([a-z]{3}|\d{1,4}))?(?:/(\d{1,4}))?")
_STAR = re.compile(r"\*(?:/(\d{1,4}))?")
_SPREAD = re.compile(r"h(?:\((\d{1,2})-(\d{1,2})\))?(?:/(\d{1,4}))?")
_LAST_DAY = re.compile(r"l(?:-(\d{1,2}))?(w?)(?:/\d{1,4})?")
_NEAREST = re.compile(r"(\d{1,2})w")
_ORDINAL = re.compile(r"([a-z]{3}|\d)(?:#([1-5])|l)")


@lru_cache(maxsize=4096)
def read_field(text: str, kind: FieldKind, dialect: FieldDialect, seed: str | None) -> FieldValue:
    """Read one field; `seed` decides where `H` falls."""
    return _FieldReader(text, kind, dialect, seed).read()


class _FieldReader:
    """Reads one field item by item, and knows what to say if it can't."""

    def __init__(self, text: str, kind: FieldKind, dialect: FieldDialect, seed: str | None) -> None:
        self.text, self.kind, self.dialect, self.seed = text, kind, dialect, seed
        self.items = text.lower().split(",")
        self.from_end: list[int] = []
        self.nearest: list[int] = []
        self.ordinals: list[tuple[int, int]] = []

    def read(self) -> FieldValue:
        kind = self.kind
        if self.text == "?":
            if kind not in (DAY_OF_MONTH, DAY_OF_WEEK):
                self.refuse("means 'no specific day' and fits the two day fields only", "write '*'")
            return FieldValue(self.text, _span(kind, kind.low, kind.high, 1))
        mask = 0
        for item in self.items:
            mask |= self.mask_of(item)
        specials = tuple(self.from_end), tuple(self.nearest), tuple(self.ordinals)
        return FieldValue(self.text, mask, *specials)

    def mask_of(self, item: str) -> int:
        """Return the mask of an item; what can't be said as a mask is kept apart, and adds none."""
        if not item.isascii() or not item:
            self.refuse("has an empty or unreadable item", "write items such as 1,5-9,*/15")
        if found := _STAR.fullmatch(item):
            return _span(self.kind, self.kind.low, self.kind.high, self.step(found[1]))
        if found := _RANGE.fullmatch(item):
            return self.range(found)
        if self.kind is not YEAR and (found := _SPREAD.fullmatch(item)):
            return self.spread(found)
        if self.kind is DAY_OF_MONTH and (found := _LAST_DAY.fullmatch(item)):
            self.keep_last_day(found)
        elif self.kind is DAY_OF_MONTH and (found := _NEAREST.fullmatch(item)):
            if len(self.items) > 1 and not self.dialect.nearest_in_list:
                self.refuse("mixes W with other days", "let W stand alone, as in 15W")
            self.nearest.append(self.number(found[1]))
        elif self.kind is DAY_OF_WEEK and (found := _ORDINAL.fullmatch(item)):
            self.keep_ordinal(found)
        else:
            self.refuse("can't be read", _examples(self.kind))
        return 0

    def range(self, found: re.Match[str]) -> int:
        """Return the mask of `5`, `1-5`, `1-5/2` or `1/2`."""
        start = self.number(found[1])
        if found[2]:
            return _span(self.kind, start, self.number(found[2]), self.step(found[3]))
        if not found[3]:
            return _span(self.kind, start, start, 1)
        step = self.step(found[3])
        high = self.kind.high
        if step > high:
            remedy = f"give a step of 1 to {high}, or name the one value {found[1]}"
            self.refuse(f"steps by {step}, beyond the field", remedy)
        # Quartz's week ends with Saturday; cron's runs on to Sunday, its seventh day.
        is_shifted = self.kind is DAY_OF_WEEK and self.dialect.weekday_shift
        return _span(self.kind, start, high - 1 if is_shifted else high, step)

    def spread(self, found: re.Match[str]) -> int:
        """Place `H` by a hash of the seed: the same schedule always gets the same place."""
        if self.seed is None:
            remedy = "give a seed (seed=… or --seed), usually the schedule's name"
            self.refuse("spreads by H, which needs a seed", remedy)
        # Days after the 28th are left out, as they don't exist in every month.
        high = {DAY_OF_MONTH: 28, DAY_OF_WEEK: 6}.get(self.kind, self.kind.high)
        low = self.number(found[1]) if found[1] else self.kind.low
        high = self.number(found[2]) if found[2] else high
        size = high - low + 1
        if size < 1:
            self.refuse("has a range that runs backwards", "write H(low-high)")
        digest = blake2b(f"{self.kind.name}\0{self.seed}".encode(), digest_size=8).digest()
        place = int.from_bytes(digest, "big")
        if not found[3]:
            return 1 << low + place % size
        step = self.step(found[3])
        if step > size:
            self.refuse("steps further than its range", f"give a step of 1 to {size}")
        return _span(self.kind, low + place % step, high, step)

    def keep_last_day(self, found: re.Match[str]) -> None:
        """Keep `L`, `L-n`, `LW` or `L-nW`."""
        back = int(found[1] or 0)
        if back > 30:  # the longest month has 31 days
            self.refuse("counts back more than 30 days", "write L-0 to L-30")
        if found[2]:
            self.nearest.append(-back - 1)
        else:
            self.from_end.append(back)

    def keep_ordinal(self, found: re.Match[str]) -> None:
        """Keep `n#k` or `nL`."""
        if found[1].isalpha() and not found[2] and not self.dialect.named_last:
            self.refuse("puts a name before L", "write the number, as in 5L for Friday")
        self.ordinals.append((self.number(found[1]) % 7, int(found[2]) if found[2] else -1))

    def number(self, value: str) -> int:
        """Return a value by its number or name."""
        kind = self.kind
        if value.isalpha():
            if value not in kind.names:
                self.refuse(f"has no meaning for {value!r}", _examples(kind))
            return kind.names[value]
        shift = self.dialect.weekday_shift if kind is DAY_OF_WEEK else 0
        low, high = (1, 7) if shift else (kind.low, kind.high)
        if not low <= int(value) <= high or (len(value) > 2 and kind is not YEAR):
            where = "" if value == self.text else f" at {value}"
            self.refuse(f"is out of range{where}", f"give {low} to {high}")
        return int(value) - shift

    def step(self, value: str | None) -> int:
        """Return a step; in fields of time it may not lead out of the field."""
        step, kind = int(value or 1), self.kind
        if not 1 <= step <= STEP_MAX:
            self.refuse("has a step of zero", "give a step of 1 or more")
        if step > kind.high and kind in TIME_OF_DAY:
            distance = f"every('{step}{kind.name[0]}')"
            remedy = f"for a fixed distance use {distance}; otherwise step by 1 to {kind.high}"
            self.refuse(f"steps by {step}, beyond the field", remedy)
        return step

    def refuse(self, problem: str, remedy: str) -> NoReturn:
        raise UsageError(self.kind.name, self.text, problem, remedy)


def _span(kind: FieldKind, start: int, end: int, step: int) -> int:
    """Return the mask of a range, which may run over the field's end: 22-2 is 22, 23, 0, 1, 2."""
    if kind is not DAY_OF_WEEK and start <= end and step == 1:
        return (2 << end) - (1 << start)
    is_week = kind is DAY_OF_WEEK
    if start <= end:
        values = [*range(start, end + 1)]
    else:
        values = [*range(start, 7 if is_week else kind.high + 1), *range(kind.low, end + 1)]
    mask = 0
    for value in values[::step]:
        mask |= 1 << (value % 7 if is_week else value)
    return mask


def _examples(kind: FieldKind) -> str:
    extra = {
        DAY_OF_MONTH: ", L, L-3, LW or 15W",
        DAY_OF_WEEK: ", MON-FRI, 5L or MON#2",
        MONTH: " or JAN-MAR",
    }.get(kind, "")
    return f"give {kind.low} to {kind.high} as *, */2, 1-5 or 1,3{extra}"


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
    SECOND,
    MINUTE,
    HOUR,
    DAY_OF_MONTH,
    MONTH,
    DAY_OF_WEEK,
    YEAR,
)
_CRONTAB = FieldDialect()
_SIX = FieldDialect(named_last=True)
_QUARTZ_LIKE = FieldDialect(named_last=True, nearest_in_list=True)
_QUARTZ = FieldDialect(named_last=True, nearest_in_list=True, weekday_shift=1)


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
        require_text("cron", self.expression, TEXT_LENGTH_MAX)
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
        from duly.timetable.description import describe_cron

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
        values.insert(0, read_field("0", SECOND, allows, seed))
    if dialect == "quartz" and len(values) == 6:  # Quartz knows the years 1970-2099
        values.append(read_field("*", YEAR, allows, seed))
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


def _allowed(texts: list[str], dialect: CronDialect) -> FieldDialect:
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
