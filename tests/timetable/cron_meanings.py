"""Random cron expressions, each drawn together with its meaning: no second parser can be wrong.

A field is drawn as a text and a predicate on a wall time, written in the plainest way there is: by
looking at a calendar. What the engine makes of the text is compared with the predicate.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from hypothesis import strategies as st

Meaning = Callable[[datetime], bool]
DAY = 86_400
EPOCH = datetime(1970, 1, 1)
WEEKDAYS = ("SUN", "mon", "Tue", "WED", "thu", "Fri", "SAT")
MONTHS = ("JAN", "feb", "Mar", "APR", "may", "Jun", "JUL", "aug", "Sep", "OCT", "nov", "Dec")


@dataclass(frozen=True)
class Field:
    """A text, and which wall times it means."""

    text: str
    matches: Meaning

    @property
    def is_star(self) -> bool:
        return self.text[0] in "*?"


@dataclass(frozen=True)
class Expression:
    """Five or six fields, and which wall times they mean."""

    fields: tuple[Field, ...]

    @property
    def text(self) -> str:
        return " ".join(field.text for field in self.fields)

    @property
    def is_interval(self) -> bool:
        """Whether it means every such real instant."""
        *_, minute, hour, _, _, _ = self.fields
        return minute.text[0] == "*" or hour.text[0] == "*"

    def matches_day(self, wall: datetime) -> bool:
        day, month, weekday = self.fields[-3:]
        if not month.matches(wall):
            return False
        if day.is_star or weekday.is_star:
            return day.matches(wall) and weekday.matches(wall)
        return day.matches(wall) or weekday.matches(wall)

    def matches(self, wall: datetime) -> bool:
        return all(field.matches(wall) for field in self.fields[:-3]) and self.matches_day(wall)

    def members(self, start: int, end: int) -> list[int]:
        """Try every minute in [start, end), as wall seconds since 1970."""
        found = []
        for midnight in range(start // DAY * DAY, end, DAY):
            day = EPOCH + timedelta(seconds=midnight)
            if self.matches_day(day):
                found += [
                    midnight + minute * 60
                    for minute in range(1440)
                    if start <= midnight + minute * 60 < end
                    and self.matches(day + timedelta(minutes=minute))
                ]
        return found


def _stepped(numbers: list[int], step: int) -> set[int]:
    return {number for place, number in enumerate(numbers) if place % step == 0}


@st.composite
def _item(draw, ring: range, turn: int, names: dict[int, str]) -> tuple[str, set[int]]:
    """Draw one item: a number, a range that may run over the end, either with a step, or a star.

    A range that runs over the end goes on at the ring's start after `turn`.
    """

    def name(number: int) -> str:
        return names.get(number, str(number)) if draw(st.booleans()) else str(number)

    first, last = draw(st.sampled_from(ring)), draw(st.sampled_from(ring))
    step = draw(st.integers(1, ring[-1]))
    spanned = [*range(first, last + 1)]
    if last < first:
        spanned = [*range(first, turn + 1), *range(ring[0], last + 1)]
    item: tuple[str, set[int]] = draw(
        st.sampled_from(
            [
                (name(first), {first}),
                (f"{name(first)}-{name(last)}", set(spanned)),
                (f"{name(first)}-{name(last)}/{step}", _stepped(spanned, step)),
                (f"{name(first)}/{step}", _stepped([*range(first, ring[-1] + 1)], step)),
                (f"*/{step}", _stepped([*ring], step)),
                ("*", set(ring)),
            ]
        )
    )
    return item


@st.composite
def numbered(draw, low: int, high: int, part: str, names: tuple[str, ...] = ()) -> Field:
    """Draw a list of items for a field that looks at one part of the wall time."""
    items = _item(range(low, high + 1), high, dict(enumerate(names, low)))
    drawn = draw(st.lists(items, min_size=1, max_size=3))
    chosen = set().union(*(numbers for _, numbers in drawn))
    return Field(",".join(text for text, _ in drawn), lambda wall: getattr(wall, part) in chosen)


def _month_length(wall: datetime) -> int:
    return monthrange(wall.year, wall.month)[1]


def _nearest_weekday(wall: datetime, day: int) -> int | None:
    """Return the day from Monday to Friday nearest to a day in the month, or None if it has none such."""
    length = _month_length(wall)
    if not 1 <= day <= length:
        return None
    candidates = [
        other for other in range(1, length + 1) if date(wall.year, wall.month, other).weekday() < 5
    ]
    return min(candidates, key=lambda other: abs(other - day))


def _back(n: int) -> Field:
    return Field(f"L-{n}", lambda wall: wall.day == _month_length(wall) - n)


def _back_nearest(n: int) -> Field:
    return Field(
        f"L-{n}W", lambda wall: wall.day == _nearest_weekday(wall, _month_length(wall) - n)
    )


def _nearest(n: int) -> Field:
    return Field(f"{n}W", lambda wall: wall.day == _nearest_weekday(wall, n))


special_days = st.one_of(
    st.just(Field("L", lambda wall: wall.day == _month_length(wall))),
    st.just(Field("LW", lambda wall: wall.day == _nearest_weekday(wall, _month_length(wall)))),
    st.just(Field("?", lambda _: True)),
    st.integers(0, 30).map(_back),
    st.integers(0, 30).map(_back_nearest),
    st.integers(1, 31).map(_nearest),
)


def _sunday_first(wall: datetime) -> int:
    return wall.isoweekday() % 7


@st.composite
def ordinal_weekdays(draw) -> Field:
    """Draw n#k or nL."""
    number = draw(st.integers(0, 7))
    if draw(st.booleans()):
        return Field(
            f"{number}L",
            lambda wall: (
                _sunday_first(wall) == number % 7 and (wall + timedelta(days=7)).month != wall.month
            ),
        )
    kth = draw(st.integers(1, 5))
    name = WEEKDAYS[number % 7] if draw(st.booleans()) else str(number)
    return Field(
        f"{name}#{kth}",
        lambda wall: _sunday_first(wall) == number % 7 and (wall.day - 1) // 7 + 1 == kth,
    )


@st.composite
def weekday_numbers(draw) -> Field:
    """Draw a list of weekdays, where Sunday is 0 and 7."""
    items = _item(range(8), 6, dict(enumerate(WEEKDAYS)))
    drawn = draw(st.lists(items, min_size=1, max_size=2))
    chosen = {number % 7 for _, numbers in drawn for number in numbers}
    return Field(",".join(text for text, _ in drawn), lambda wall: _sunday_first(wall) in chosen)


seconds = numbered(0, 59, "second")
minutes = numbered(0, 59, "minute")
hours = numbered(0, 23, "hour")
days = st.one_of(st.just(Field("*", lambda _: True)), numbered(1, 31, "day"), special_days)
months = st.one_of(st.just(Field("*", lambda _: True)), numbered(1, 12, "month", MONTHS))
weekdays = st.one_of(
    st.just(Field("*", lambda _: True)),
    st.just(Field("?", lambda _: True)),
    weekday_numbers(),
    ordinal_weekdays(),
)
five_fields = st.tuples(minutes, hours, days, months, weekdays).map(Expression)
six_fields = st.tuples(seconds, minutes, hours, days, months, weekdays).map(Expression)
