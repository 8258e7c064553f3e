"""Missing runs: what timetables ask for and has no run, with what is known of why (UX 32)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec

from duly import UsageError
from duly_web.page import Asked, Page, Shown
from duly_web.paging import read_place, write_place

if TYPE_CHECKING:
    from duly.api.views import LookedFrom, MissingRun

SPANS = {"1h": timedelta(hours=1), "1d": timedelta(days=1), "7d": timedelta(days=7)}
ROWS_MAX = 120
"""So many rows make a page of less than 150 kB."""


class MissingQuery(msgspec.Struct, forbid_unknown_fields=True):
    """How far back is looked, and at which schedule."""

    span: str = "1d"
    schedule: str | None = None
    cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingModel:
    """The page."""

    query: MissingQuery
    rows: tuple[MissingRun, ...]
    """Newest first."""
    cut: tuple[LookedFrom, ...]
    more: int
    slots: int
    schedules: int
    next_cursor: str | None
    spans: tuple[str, ...] = tuple(SPANS)


def show_missing(asked: Asked) -> Shown:
    """Show what should exist by the timetables, and does not."""
    query: MissingQuery = asked.query
    if query.span not in SPANS:
        raise UsageError("span", query.span, "is no span", f"choose of {', '.join(SPANS)}")
    found = asked.app.runs.missing(
        asked.now - SPANS[query.span], schedule=query.schedule, after=read_place(query.cursor)
    )
    rows = sorted(found.items, key=lambda one: (one.is_missing, one.due_at), reverse=True)
    model = MissingModel(
        query=query,
        rows=tuple(rows[:ROWS_MAX]),
        cut=found.cut,
        more=max(0, len(rows) - ROWS_MAX),
        slots=found.slots,
        schedules=found.schedules,
        next_cursor=write_place(found.after),
    )
    return Shown(template="missing.html", model=model, title="Missing runs")


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
