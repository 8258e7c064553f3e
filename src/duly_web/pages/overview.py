"""The overview: what waits for somebody, and each schedule's trigger and work side by side (V4)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from duly.api.views import zone_of
from duly_web.page import Asked, Page, Shown

if TYPE_CHECKING:
    from duly import Schedule
    from duly.api.views import Status

SCHEDULES_MAX = 50


@dataclass(frozen=True, slots=True)
class Tile:
    """A number, and the exact list behind it."""

    label: str
    number: int
    state: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A schedule: when it was last triggered, and when it last did useful work."""

    name: str
    status: str
    zone: str | None
    last_for: datetime | None
    last_error_at: datetime | None
    last_success_at: datetime | None
    last_verified_at: datetime | None
    next_due: datetime | None
    age_ratio: float | None
    """Age of the last useful completion, in intervals; above one, it is overdue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The page."""

    tiles: tuple[Tile, ...]
    sides: tuple[Side, ...]
    is_cut: bool


def show_overview(asked: Asked) -> Shown:
    """Show how things are."""
    status = asked.app.status()
    page = asked.app.schedules.page(limit=SCHEDULES_MAX, with_last_ends=True)
    model = Overview(
        tiles=_tiles(status),
        sides=tuple(_side(one, asked.now) for one in page.items),
        is_cut=page.after is not None,
    )
    return Shown(template="overview.html", model=model, title="Overview")


def _tiles(status: Status) -> tuple[Tile, ...]:
    return (
        Tile("Ambiguous", status.ambiguous, "ambiguous", "/runs?state=ambiguous"),
        Tile("Dead", status.dead, "dead", "/runs?state=dead"),
        Tile("Retrying", status.retrying, "retrying", "/runs?state=retrying"),
        Tile("Running", status.running, "running", "/runs?state=running"),
        Tile("Queued", status.queued, "queued", "/runs?state=queued"),
        Tile("Overdue timers", status.overdue, "late", "/health#dispatch"),
    )


def _side(schedule: Schedule, now: datetime) -> Side:
    useful = schedule.last_verified_at or schedule.last_success_at
    return Side(
        name=schedule.name,
        status=schedule.status,
        zone=zone_of(schedule.timetable),
        last_for=schedule.last_for,
        last_error_at=schedule.last_error_at,
        last_success_at=schedule.last_success_at,
        last_verified_at=schedule.last_verified_at,
        next_due=schedule.next_due,
        age_ratio=_ratio(schedule, useful, now),
    )


def _ratio(schedule: Schedule, useful: datetime | None, now: datetime) -> float | None:
    """Return how many intervals ago useful work was done, as far as both are known."""
    if useful is None or schedule.next_for is None:
        return None
    before = schedule.timetable.previous(schedule.next_for)
    interval = schedule.next_for - before if before is not None else timedelta()
    return (now - useful) / interval if interval else None


PAGES = (Page(method="GET", path="/", name="overview", scope="read", handler=show_overview),)
