"""Triggers beside useful completions, schedule by schedule (V1, V4, UX 8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from duly import UsageError
from duly.api.views import zone_of

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from duly import Schedule
    from duly.api.views import ScheduleVitals
    from duly_web.pages.attention import Attention

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
    looked_at: int
    suspects: int
    """How many of those that were looked at stand behind the first by name."""
    is_cut: bool
    """Whether there are schedules that were not looked at."""


def read_show(text: str | None) -> str | None:
    """Return which schedules are meant; refuse what is no choice."""
    if text not in (None, *SHOWN):
        raise UsageError("show", text, "is no choice", f"use {', '.join(SHOWN)}")
    return text


def look_at_sides(found: Attention, show: str | None) -> Sides:
    """Look at both sides of those that need somebody first, or of those that are chosen."""
    known = [(one, found.vitals[one.id]) for one in found.schedules if one.id in found.vitals]
    chosen = [side for one, vitals in known if _is_shown(side := _side(vitals, one), show)]
    rows = chosen if show == "all" else chosen[:SIDES_MAX]
    more = len(chosen) - len(rows)
    return Sides(
        show=show,
        rows=tuple(rows),
        more=more,
        looked_at=len(found.schedules),
        suspects=found.suspects,
        is_cut=found.is_cut,
    )


def _is_shown(side: Side, show: str | None) -> bool:
    match show:
        case "late":
            return not side.is_trigger_well
        case "stale":
            return not side.is_work_well
        case _:
            return True


def _side(vitals: ScheduleVitals, known: Schedule) -> Side:
    trigger, work = vitals.trigger, vitals.completion
    ratio = work.ratio
    return Side(
        id=str(vitals.id),
        name=vitals.name,
        status=vitals.status,
        zone=zone_of(known.timetable),
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
