"""The fields of a cron expression: text in, bitmasks and special days out.

What can't be read is refused with an error that names the field.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import NoReturn

from duly.errors import UsageError

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
class Dialect:
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
def read_field(text: str, kind: FieldKind, dialect: Dialect, seed: str | None) -> FieldValue:
    """Read one field; `seed` decides where `H` falls."""
    return _FieldReader(text, kind, dialect, seed).read()


class _FieldReader:
    """Reads one field item by item, and knows what to say if it can't."""

    def __init__(self, text: str, kind: FieldKind, dialect: Dialect, seed: str | None) -> None:
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
