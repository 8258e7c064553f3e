"""The list of schedules: what each promises, when it comes next, and how its runs go (UX 14)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from duly.api.views import zone_of
from duly_web.page import Asked, Page, Shown
from duly_web.paging import read_place, write_place

if TYPE_CHECKING:
    from datetime import datetime

    from duly import Schedule

PAGE_SIZE = 50
UPCOMING = 3
STATUSES = ("active", "paused", "ended", "deleted")


class SchedulesQuery(msgspec.Struct, forbid_unknown_fields=True):
    """What the list is narrowed by; all of it stands in the address."""

    status: str | None = None
    task: str | None = None
    search: str | None = None
    """How its name begins."""
    cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRow:
    """One schedule of the list."""

    id: str
    name: str
    status: str
    version: int
    reason: str | None
    resume_at: datetime | None
    description: str
    zone: str | None
    task: str
    upcoming: tuple[datetime, ...]
    last_for: datetime | None
    last_success_at: datetime | None
    last_error_at: datetime | None
    overlap: str
    misfire: str
    load: float | None
    """Run time divided by interval (O2)."""
    warning: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulesModel:
    """The page."""

    query: SchedulesQuery
    rows: tuple[ScheduleRow, ...]
    next_cursor: str | None
    statuses: tuple[str, ...] = STATUSES

    @property
    def is_filtered(self) -> bool:
        """Whether nothing to be seen may mean that there is something else."""
        return any((self.query.status, self.query.task, self.query.search, self.query.cursor))


def show_schedules(asked: Asked) -> Shown:
    """Show schedules in order of name."""
    query: SchedulesQuery = asked.query
    page = asked.app.schedules.page(
        after=read_place(query.cursor),
        limit=PAGE_SIZE,
        with_run_times=True,
        with_last_ends=True,
        include_deleted=query.status == "deleted",
        status=query.status,
        task=query.task,
        name_prefix=query.search,
    )
    model = SchedulesModel(
        query=query,
        rows=tuple(schedule_row(one) for one in page.items),
        next_cursor=write_place(page.after),
    )
    return Shown(template="schedules.html", model=model, title="Schedules")


def schedule_row(schedule: Schedule) -> ScheduleRow:
    """Show one schedule."""
    times = schedule.run_times
    return ScheduleRow(
        id=str(schedule.id),
        name=schedule.name,
        status=schedule.status,
        version=schedule.version,
        reason=schedule.reason,
        resume_at=schedule.resume_at,
        description=schedule.timetable.describe(),
        zone=zone_of(schedule.timetable),
        task=schedule.task,
        upcoming=tuple(one.utc for one in schedule.upcoming(UPCOMING)),
        last_for=schedule.last_for,
        last_success_at=schedule.last_success_at,
        last_error_at=schedule.last_error_at,
        overlap=schedule.overlap,
        misfire=str(schedule.misfire.to_json()["policy"]),
        load=None if times is None else times.ratio,
        warning=schedule.warning,
    )


PAGES = (
    Page(
        method="GET",
        path="/schedules",
        name="schedules",
        scope="read",
        handler=show_schedules,
        query=SchedulesQuery,
    ),
)
