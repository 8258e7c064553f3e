"""Missing runs: what was expected and has no run, each with what is known of why (UX 32)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec

from duly import UsageError
from duly.api.views import zone_of
from duly_web.page import Asked, Page, Shown

if TYPE_CHECKING:
    from datetime import datetime

    from duly import Schedule
    from duly.api.views import Occurrence

SPANS = {"1h": timedelta(hours=1), "1d": timedelta(days=1), "7d": timedelta(days=7)}
SCHEDULES_MAX = 200
ROWS_MAX = 300
MEANINGS = {
    "missing": "Nothing is recorded of it, which must never be: run duly db check.",
    "owed": "It was missed while nobody fired, and waits to be caught up with.",
    "pending": "Its time has come, and nobody has fired it yet.",
}
PAUSED = "Its schedule rests: what becomes of it is decided when it goes on."


class MissingQuery(msgspec.Struct, forbid_unknown_fields=True):
    """How far back is looked, and at which schedule."""

    span: str = "1d"
    schedule: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingRow:
    """One occurrence that has no run."""

    schedule: str
    zone: str | None
    expected_at: datetime
    verdict: str
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingModel:
    """The page."""

    query: MissingQuery
    rows: tuple[MissingRow, ...]
    left_out: tuple[str, ...]
    """Schedules that fire too often for this span."""
    is_cut: bool
    spans: tuple[str, ...] = tuple(SPANS)


def show_missing(asked: Asked) -> Shown:
    """Show what should exist by the timetables, and does not."""
    query: MissingQuery = asked.query
    if query.span not in SPANS:
        raise UsageError("span", query.span, "is no span", f"choose of {', '.join(SPANS)}")
    since = asked.now - SPANS[query.span]
    if query.schedule is None:
        schedules = asked.app.schedules.page(limit=SCHEDULES_MAX).items
    else:
        schedules = [asked.app.schedules.get(query.schedule)]
    rows: list[MissingRow] = []
    left_out: list[str] = []
    for one in schedules:
        try:
            found = asked.app.schedules.occurrences(one.id, since, asked.now)
        except UsageError:
            left_out.append(one.name)
            continue
        rows += [_row(one, each) for each in found if each.verdict in MEANINGS]
    rows.sort(key=lambda row: row.expected_at, reverse=True)
    model = MissingModel(
        query=query,
        rows=tuple(rows[:ROWS_MAX]),
        left_out=tuple(left_out),
        is_cut=len(rows) > ROWS_MAX or len(schedules) == SCHEDULES_MAX,
    )
    return Shown(template="missing.html", model=model, title="Missing runs")


def _row(schedule: Schedule, occurrence: Occurrence) -> MissingRow:
    rests = occurrence.verdict == "pending" and schedule.status == "paused"
    return MissingRow(
        schedule=schedule.name,
        zone=zone_of(schedule.timetable),
        expected_at=occurrence.scheduled_for,
        verdict=occurrence.verdict,
        meaning=PAUSED if rests else MEANINGS[occurrence.verdict],
    )


PAGES = (
    Page(
        method="GET",
        path="/missing",
        name="missing",
        scope="read",
        handler=show_missing,
        query=MissingQuery,
    ),
)
