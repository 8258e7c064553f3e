"""The list of schedules: what each promises, when it comes next, and how its runs go (UX 14)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import msgspec

from duly import NotFound, UsageError
from duly.api.views import zone_of
from duly_web.page import Asked, Page, Shown
from duly_web.paging import read_place, write_place
from duly_web.selecting import write_one
from duly_web.strips import RUNS, Spark, Strip, lateness_spark, run_strip

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from duly import Run, Schedule

PAGE_SIZE = 30
"""So many rows make a page of less than 150 kB; no form has more boxes than one form may have."""
UPCOMING = 3
SECOND = timedelta(seconds=1)
STATUSES = ("active", "paused", "ended", "deleted")


class SchedulesQuery(msgspec.Struct, forbid_unknown_fields=True):
    """What the list is narrowed by; all of it stands in the address."""

    status: str | None = None
    task: str | None = None
    owner: str | None = None
    search: str | None = None
    """How its name begins."""
    cursor: str | None = None
    made: str | None = None
    """One that was just made: it stands first, whatever page it belongs to."""

    def filters(self) -> dict[str, Any]:
        """Return what `app.schedules.page` is to be narrowed by."""
        return {
            "status": self.status,
            "task": self.task,
            "owner": self.owner,
            "name_prefix": self.search,
            "include_deleted": self.status == "deleted",
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LastResult:
    """How its newest run stands, or why its last occurrence has none."""

    run: str | None
    state: str
    reason: str | None
    at: datetime


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
    owner: str | None
    upcoming: tuple[datetime, ...]
    last: LastResult | None
    strip: Strip | None
    spark: Spark | None
    overlap: str
    overlaps: int
    misfire: str
    load: float | None
    """Run time divided by interval (O2)."""
    warning: str | None
    is_new: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulesModel:
    """The page."""

    query: SchedulesQuery
    rows: tuple[ScheduleRow, ...]
    next_cursor: str | None
    statuses: tuple[str, ...] = STATUSES

    def chosen(self, row: ScheduleRow) -> str:
        """Return a row as a set that it is chosen for holds it."""
        return write_one(UUID(row.id), row.version)

    @property
    def is_filtered(self) -> bool:
        """Whether nothing to be seen may mean that there is something else."""
        query = self.query
        return any((query.status, query.task, query.owner, query.search, query.cursor))


def show_schedules(asked: Asked) -> Shown:
    """Show schedules in order of name."""
    query: SchedulesQuery = asked.query
    page = asked.app.schedules.page(
        after=read_place(query.cursor),
        limit=PAGE_SIZE,
        with_run_times=True,
        **query.filters(),
    )
    made = _made(asked, query.made)
    shown = [one for one in page.items if made is None or one.id != made.id]
    if made is not None:
        shown.insert(0, made)
    rows = schedule_rows(asked, shown, made)
    model = SchedulesModel(query=query, rows=rows, next_cursor=write_place(page.after))
    return Shown(template="schedules.html", model=model, title="Schedules")


def _made(asked: Asked, made: str | None) -> Schedule | None:
    if made is None:
        return None
    try:
        found = asked.app.schedules.get(made)
    except NotFound:
        return None
    return None if found.status == "deleted" else found


def schedule_rows(
    asked: Asked, schedules: Sequence[Schedule], made: Schedule | None = None
) -> tuple[ScheduleRow, ...]:
    """Show schedules, each with its last few runs, by a few questions about all of them."""
    runs = asked.app.runs.newest([one.id for one in schedules], limit=RUNS)
    skipped = _skipped(asked, schedules)
    rows = (_row(asked, one, runs.get(one.id, []), skipped.get(one.id)) for one in schedules)
    return tuple(replace(row, is_new=one is made) for one, row in zip(schedules, rows, strict=True))


def _row(
    asked: Asked, schedule: Schedule, runs: list[Run], skipped: LastResult | None
) -> ScheduleRow:
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
        owner=schedule.owner,
        upcoming=tuple(one.utc for one in schedule.upcoming(UPCOMING)),
        last=skipped or last_result(runs),
        strip=run_strip(runs, asked.now),
        spark=lateness_spark(runs),
        overlap=schedule.overlap,
        overlaps=schedule.overlaps,
        misfire=misfire_words(schedule),
        load=None if times is None else times.ratio,
        warning=schedule.warning,
    )


def last_result(runs: list[Run]) -> LastResult | None:
    """Return how the newest run stands."""
    if not runs:
        return None
    run = runs[0]
    at = run.finished_at or run.started_at or run.scheduled_for
    return LastResult(run=str(run.id), state=run.state, reason=run.reason, at=at)


def _skipped(asked: Asked, schedules: Sequence[Schedule]) -> dict[UUID, LastResult]:
    """Return whose last occurrence was skipped, and why; looked for where it was not run."""
    last = {one.id: due for one in schedules if (due := _unrun(one, asked.now)) is not None}
    spans = {one: (due, due + SECOND) for one, due in last.items()}
    found = asked.app.schedules.many_occurrences(spans) if spans else {}
    return {
        schedule: LastResult(
            run=None if one.run is None else str(one.run),
            state="skipped",
            reason=one.reason,
            at=one.scheduled_for,
        )
        for schedule, occurrences in found.items()
        for one in occurrences[-1:]
        if one.verdict == "skipped"
    }


def _unrun(schedule: Schedule, now: datetime) -> datetime | None:
    """Return when its last occurrence was, unless that was run."""
    try:
        due = schedule.timetable.previous(now)
    except UsageError:  # a rule that can't be computed is told elsewhere
        return None
    last = schedule.last_for
    if due is None or due < schedule.created_at or (last is not None and last >= due):
        return None
    return due


def misfire_words(schedule: Schedule) -> str:
    """Say the catch-up policy with its bound: "latest, up to 1d"."""
    said = schedule.misfire.to_json()
    if said["policy"] == "skip":
        return "skip"
    bound = f", up to {said['not_older']}" if said["not_older"] else ""
    most = f", at most {said['at_most']}" if said["at_most"] else ""
    return f"{said['policy']}{bound}{most}"


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
