"""Spans of occurrences for tests of settling and planning, and how to tell that they are covered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from duly.domain.fire_planning import ScheduleVersion, Settlement
from duly.domain.ids import ScheduleId
from duly.domain.policies import Misfire
from duly.domain.schedules import Call, Definition
from duly.timetable.cron import cron
from duly.timetable.interval import every
from duly.timetable.timetable import Timetable

if TYPE_CHECKING:
    from collections.abc import Sequence

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
START = 1_806_192_000_000_000
"""2027-03-28 00:00 UTC: Paris loses an hour, one hour later."""

TIMETABLES = (
    every("1h"),
    every("7m"),
    cron("0 * * * *", tz="UTC"),
    cron("30 2 * * *", tz="Europe/Paris"),
    cron("*/20 * * * *", tz="Australia/Lord_Howe", fold="both"),
    every("1h") | every("25m"),
    every("10m").excluding(every("30m")),
)

durations = st.one_of(st.sampled_from([0, 1, SECOND, MINUTE, HOUR, DAY]), st.integers(0, 3 * HOUR))
schedule_ids = st.binary(min_size=16, max_size=16).map(ScheduleId)


@st.composite
def misfires(draw: st.DrawFn) -> Misfire:
    return Misfire(
        draw(st.sampled_from(["skip", "latest", "all"])),
        grace=f"{draw(durations)}us",
        at_most=draw(st.none() | st.integers(1, 5)),
        not_older=draw(st.none() | durations.map("{}us".format)),
        per_minute=draw(st.none() | st.integers(1, 60_000)),
    )


@st.composite
def definitions(draw: st.DrawFn) -> Definition:
    return definition(
        timetable=draw(st.sampled_from(TIMETABLES)),
        misfire=draw(misfires()),
        jitter_us=draw(st.just(0) | durations),
    )


@st.composite
def templates(draw: st.DrawFn) -> ScheduleVersion:
    return ScheduleVersion(draw(schedule_ids), draw(st.integers(1, 9)), draw(definitions()))


def definition(**parts: Any) -> Definition:
    given: dict[str, Any] = {"call": Call(task="report"), "timetable": every("1h")} | parts
    return Definition(**given)


def template(**parts: Any) -> ScheduleVersion:
    return ScheduleVersion(ScheduleId(bytes(16)), 1, definition(**parts))


def occurrences(timetable: Timetable, first: int, last: int) -> list[int]:
    """Return every occurrence of a span, asked for one by one."""
    found: list[int] = []
    cursor = timetable.first_from(first)
    while cursor is not None and cursor <= last:
        found.append(cursor)
        cursor = timetable.first_from(cursor + 1)
    return found


def places(settlement: Settlement, occurrence: int) -> list[str]:
    """Return where an occurrence is in a settlement; it ought to be in one place."""
    found = ["run" for run in settlement.runs if run.scheduled_for == occurrence]
    found += [
        str(skip.reason)
        for skip in settlement.skips
        if skip.first_for <= occurrence <= skip.last_for
    ]
    owed = settlement.owed
    if owed is not None and owed.first_for <= occurrence <= owed.last_for:
        found.append("owed")
    return found


def must_cover(settlement: Settlement, expected: Sequence[int]) -> None:
    """Require that a settlement is about these occurrences, each once, and about no other."""
    assert [1] * len(expected) == [len(places(settlement, one)) for one in expected]
    ends = [end for skip in settlement.skips for end in (skip.first_for, skip.last_for)]
    if settlement.owed is not None:
        ends += [settlement.owed.first_for, settlement.owed.last_for]
    assert set(ends) <= set(expected)
    assert {run.scheduled_for for run in settlement.runs} <= set(expected)


@dataclass(frozen=True)
class Counted(Timetable):
    """A timetable that counts the questions it is asked."""

    inner: Timetable
    questions: list[int]

    def first_from(self, instant: int) -> int | None:
        self.questions.append(instant)
        return self.inner.first_from(instant)

    def last_until(self, instant: int) -> int | None:
        self.questions.append(instant)
        return self.inner.last_until(instant)

    def describe(self) -> str:
        return self.inner.describe()

    def to_json(self) -> dict[str, Any]:
        return self.inner.to_json()

    def under(self, zones: object) -> Counted:
        return self
