"""The overview: what needs a look, and triggers beside useful completions (V1, V4, UX 8-13)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from duly import UsageError
from duly.api.views import zone_of
from duly_web.page import Asked, Page, Shown
from duly_web.pages.lateness import LatenessPart, look_at_lateness
from duly_web.pages.planned_load import PlannedLoad, plan_load
from duly_web.pages.tiles import Tile, make_tiles
from duly_web.pages.timeline import LANES_MAX, SPANS, Axis, SpanName, Timeline, draw_timeline

if TYPE_CHECKING:
    from datetime import datetime, timedelta
    from uuid import UUID

    from duly import Schedule
    from duly.api.views import Queue, ScheduleVitals

SCHEDULES_MAX = 100
LOADED_MAX = 500
"""So many schedules are counted for the planned load."""
SIDES_MAX = 15
RATIO_SHOWN_MAX = 3.0
SHOWN = ("late", "stale", "all")
TIMELINE_SECONDS, LATENESS_SECONDS, LOAD_SECONDS = 2, 60, 60


class OverviewQuery(msgspec.Struct, forbid_unknown_fields=True):
    """What the overview shows."""

    show: str | None = None
    """Of the schedules: late, stale, all; else the first."""
    span: str = "12h"
    of: str | None = None
    """Whose lateness is drawn: a schedule's, or everybody's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One schedule: what was triggered beside what was useful, and how old that is."""

    id: str
    name: str
    status: str
    zone: str | None
    fired_at: datetime | None
    overdue: timedelta | None
    finished_at: datetime | None
    useful_at: datetime | None
    useful_by: str
    unknown_through: datetime | None
    cadence: timedelta | None
    ratio: float | None
    """The age of the last useful completion divided by the cadence."""
    gauge: float
    """The same in percent of a bar of three cadences."""
    tone: str
    behind: int
    next_due: datetime | None
    is_trigger_well: bool
    is_work_well: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The page."""

    query: OverviewQuery
    tiles: tuple[Tile, ...]
    sides: tuple[Side, ...]
    sides_more: int
    has_schedules: bool
    timeline: Timeline
    lateness: LatenessPart
    queues: tuple[Queue, ...]
    load: PlannedLoad
    spans: tuple[str, ...] = tuple(SPANS)


def show_overview(asked: Asked) -> Shown:
    """Show how things are."""
    query, app, kept = asked.query, asked.app, asked.kept
    span = _read_span(query)
    vitals = app.vitals.schedules(limit=SCHEDULES_MAX, status=None)
    schedules = _schedules(asked)
    by_id = {one.id: one for one in schedules}
    sides = [_side(one, by_id) for one in vitals.items]
    chosen = [one for one in sides if _is_shown(one, query.show)]
    shown = chosen if query.show == "all" else chosen[:SIDES_MAX]
    first = schedules[: LANES_MAX + 1]
    names = [one.name for one in schedules]
    axis = Axis.around(asked.now, span)
    model = Overview(
        query=query,
        tiles=make_tiles(asked, sides),
        sides=tuple(shown),
        sides_more=len(chosen) - len(shown),
        has_schedules=bool(sides),
        timeline=kept.get(
            ("timeline", span, asked.clocks),
            TIMELINE_SECONDS,
            lambda: draw_timeline(app, first, axis, asked.clocks),
        ),
        lateness=kept.get(
            ("lateness", query.of),
            LATENESS_SECONDS,
            lambda: look_at_lateness(app, names, query.of),
        ),
        queues=tuple(app.queues.list()),
        load=kept.get(("load", asked.clocks.mine), LOAD_SECONDS, lambda: _load(asked)),
    )
    return Shown(template="overview.html", model=model, title="Overview")


def _read_span(query: OverviewQuery) -> SpanName:
    for name in SPANS:
        if name == query.span:
            return name
    raise UsageError("span", query.span, "is no span of the timeline", f"use {', '.join(SPANS)}")


def _schedules(asked: Asked) -> list[Schedule]:
    page = asked.app.schedules.page(limit=SCHEDULES_MAX)
    return [one for one in page.items if one.status in {"active", "paused"}]


def _load(asked: Asked) -> PlannedLoad:
    page = asked.app.schedules.page(limit=LOADED_MAX, status="active")
    return plan_load(page.items, asked.now, asked.clocks, is_cut=page.after is not None)


def _is_shown(side: Side, show: str | None) -> bool:
    match show:
        case None | "all":
            return True
        case "late":
            return not side.is_trigger_well
        case "stale":
            return not side.is_work_well
        case _:
            raise UsageError("show", show, "is no choice", f"use {', '.join(SHOWN)}")


def _side(vitals: ScheduleVitals, by_id: dict[UUID, Schedule]) -> Side:
    trigger, work = vitals.trigger, vitals.completion
    known = by_id.get(vitals.id)
    ratio = work.ratio
    return Side(
        id=str(vitals.id),
        name=vitals.name,
        status=vitals.status,
        zone=None if known is None else zone_of(known.timetable),
        fired_at=trigger.last_fired_at,
        overdue=trigger.overdue,
        finished_at=work.last_finished_at,
        useful_at=None if work.last_useful is None else work.last_useful.at,
        useful_by=work.useful_by,
        unknown_through=work.unknown_through,
        cadence=work.cadence,
        ratio=ratio,
        gauge=round(min(ratio or 0.0, RATIO_SHOWN_MAX) / RATIO_SHOWN_MAX * 100, 1),
        tone="bad" if not work.is_well else "warn" if (ratio or 0) > 1.25 else "good",
        behind=work.behind,
        next_due=trigger.next_due_at,
        is_trigger_well=trigger.is_well,
        is_work_well=work.is_well,
    )


PAGES = (
    Page(
        method="GET",
        path="/",
        name="overview",
        scope="read",
        handler=show_overview,
        query=OverviewQuery,
    ),
)
