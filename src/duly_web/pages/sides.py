"""Triggers beside useful completions, schedule by schedule (V1, V4, UX 8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from duly import UsageError
from duly.api.views import zone_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta
    from uuid import UUID

    from duly import App, Schedule
    from duly.api.views import ScheduleVitals

LOOKED_AT_MAX = 100
"""So many schedules are looked at where some of them are chosen."""
SIDES_MAX = 15
RATIO_SHOWN_MAX = 3.0
SHOWN = ("late", "stale", "all")


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
class Sides:
    """Those that are shown, and how many there are besides."""

    show: str | None
    rows: tuple[Side, ...]
    more: int


def read_show(text: str | None) -> str | None:
    """Return which schedules are meant; refuse what is no choice."""
    if text not in (None, *SHOWN):
        raise UsageError("show", text, "is no choice", f"use {', '.join(SHOWN)}")
    return text


def look_at_sides(app: App, schedules: Sequence[Schedule], show: str | None) -> Sides:
    """Look at both sides of the first schedules by name, or of those of them that are chosen."""
    most = SIDES_MAX if show is None else LOOKED_AT_MAX
    vitals = app.vitals.schedules(limit=most, status=None, with_errors=False)
    by_id = {one.id: one for one in schedules}
    chosen = [side for one in vitals.items if _is_shown(side := _side(one, by_id), show)]
    rows = chosen if show == "all" else chosen[:SIDES_MAX]
    found = len(schedules) if show is None else len(chosen)
    return Sides(show=show, rows=tuple(rows), more=max(0, found - len(rows)))


def _is_shown(side: Side, show: str | None) -> bool:
    match show:
        case "late":
            return not side.is_trigger_well
        case "stale":
            return not side.is_work_well
        case _:
            return True


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
