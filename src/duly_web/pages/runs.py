"""The list of runs: newest first, by any filter that the address says (A4, UX 5)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from duly_web.page import Asked, Page, Shown
from duly_web.states import RUN_STATES

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from duly import Run

PAGE_SIZE = 50
LANES = ("live", "catch-up", "backfill")
ORIGINS = (
    "schedule", "delay", "now", "manual", "catch-up", "backfill", "rerun", "repair", "verify",
)  # fmt: skip
_LABEL_OFFSET = re.compile(r"([+-]\d\d:\d\d)$")


class RunsQuery(msgspec.Struct, forbid_unknown_fields=True):
    """What the list is narrowed by; all of it stands in the address."""

    state: list[str] = []
    schedule: str | None = None
    task: str | None = None
    queue: str | None = None
    origin: str | None = None
    lane: str | None = None
    key: str | None = None
    error: str | None = None
    root: str | None = None
    since: str | None = None
    until: str | None = None
    cursor: str | None = None

    def filters(self) -> dict[str, str | list[str] | None]:
        """Return what `app.runs.page` is to be narrowed by."""
        given = msgspec.structs.asdict(self)
        del given["cursor"]
        return {name: value or None for name, value in given.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One run of the list."""

    id: str
    label: str
    name: str
    """The label without its time, which has a column of its own."""
    schedule: str | None
    state: str
    reason: str | None
    origin: str
    lane: str
    task: str
    queue: str
    zone: str | None
    scheduled_for: datetime
    started_at: datetime | None
    finished_at: datetime | None
    lateness: timedelta | None
    took: timedelta | None
    attempt: int
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsModel:
    """The page."""

    query: RunsQuery
    rows: tuple[RunRow, ...]
    next_cursor: str | None
    states: tuple[str, ...] = RUN_STATES
    origins: tuple[str, ...] = ORIGINS
    lanes: tuple[str, ...] = LANES

    @property
    def is_filtered(self) -> bool:
        """Whether nothing to be seen may mean that there is something else."""
        return any(self.query.filters().values()) or self.query.cursor is not None


def show_runs(asked: Asked) -> Shown:
    """Show runs, newest first."""
    query: RunsQuery = asked.query
    page = asked.app.runs.page(limit=PAGE_SIZE, cursor=query.cursor, **query.filters())
    rows = tuple(run_row(one) for one in page.items)
    model = RunsModel(query=query, rows=rows, next_cursor=page.next_cursor)
    return Shown(template="runs.html", model=model, title="Runs")


def run_row(run: Run) -> RunRow:
    """Show one run."""
    offset = _LABEL_OFFSET.search(run.label)
    took = None
    if run.started_at is not None and run.finished_at is not None:
        took = run.finished_at - run.started_at
    return RunRow(
        id=str(run.id),
        label=run.label,
        name=run.label.rpartition("@")[0] or run.label,
        schedule=run.schedule,
        state=run.state,
        reason=run.reason,
        origin=run.origin,
        lane=run.lane,
        task=run.task,
        queue=run.queue,
        zone=offset[1] if offset else None,
        scheduled_for=run.scheduled_for,
        started_at=run.started_at,
        finished_at=run.finished_at,
        lateness=run.lateness,
        took=took,
        attempt=run.attempt,
        error=run.error,
    )


PAGES = (
    Page(
        method="GET",
        path="/runs",
        name="runs",
        scope="read",
        handler=show_runs,
        query=RunsQuery,
    ),
)
