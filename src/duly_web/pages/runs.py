"""The list of runs: newest first, by any filter that the address says (A4, UX 5)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from duly import UsageError
from duly_web.page import Asked, Page, Shown
from duly_web.pages.noticed import NOTICED, Noticed, find_noticed
from duly_web.states import ORIGINS, RUN_STATES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from duly import Run

PAGE_SIZE = 50
LANES = ("live", "catch-up", "backfill")


class RunFilters(msgspec.Struct, forbid_unknown_fields=True):
    """What runs are found by, as an address or a form says it: what is empty says nothing."""

    state: list[str] = []
    schedule: str | None = None
    task: str | None = None
    queue: str | None = None
    reason: str | None = None
    origin: str | None = None
    lane: str | None = None
    key: str | None = None
    error: str | None = None
    root: str | None = None
    worker: int | None = None
    since: str | None = None
    until: str | None = None

    def filters(self) -> dict[str, Any]:
        """Return what `app.runs.page` is to be narrowed by."""
        said = {name: getattr(self, name) for name in RunFilters.__struct_fields__}
        return {name: None if value in ("", []) else value for name, value in said.items()}


class RunsQuery(RunFilters):
    """What the list is narrowed by; all of it stands in the address."""

    only: str | None = None
    """What is noticed by more than its state: stuck, overlapping, late."""
    cursor: str | None = None

    @property
    def said(self) -> dict[str, Any]:
        """Return the filters that say something, for a form that acts on what they found."""
        return {name: value for name, value in self.filters().items() if value is not None}


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
    due_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    lateness: timedelta | None
    took: timedelta | None
    attempt: int
    next_at: datetime | None
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsModel:
    """The page."""

    query: RunsQuery
    rows: tuple[RunRow, ...]
    next_cursor: str | None
    is_cut: bool = False
    states: tuple[str, ...] = RUN_STATES
    origins: tuple[str, ...] = tuple(ORIGINS)
    lanes: tuple[str, ...] = LANES
    noticed: tuple[str, ...] = NOTICED

    @property
    def is_filtered(self) -> bool:
        """Whether nothing to be seen may mean that there is something else."""
        return bool(self.query.said or self.query.only or self.query.cursor)


def show_runs(asked: Asked) -> Shown:
    """Show runs, newest first."""
    query: RunsQuery = asked.query
    model = _noticed(asked, query) if query.only else _listed(asked, query)
    return Shown(template="runs.html", model=model, title="Runs")


def _listed(asked: Asked, query: RunsQuery) -> RunsModel:
    page = asked.app.runs.page(limit=PAGE_SIZE, cursor=query.cursor, **query.filters())
    rows = run_rows(page.items, asked.now)
    return RunsModel(query=query, rows=rows, next_cursor=page.next_cursor)


def _noticed(asked: Asked, query: RunsQuery) -> RunsModel:
    what = _read_noticed(query.only)
    if query.said:
        remedy = "take the other filters away, or this one"
        raise UsageError("only", query.only, "stands alone", remedy)
    found = find_noticed(asked.app, what, asked.now)
    return RunsModel(
        query=query, rows=run_rows(found.runs, asked.now), next_cursor=None, is_cut=found.is_cut
    )


def _read_noticed(text: str | None) -> Noticed:
    for one in NOTICED:
        if one == text:
            return one
    remedy = f"use one of {', '.join(NOTICED)}"
    raise UsageError("only", text, "is not what runs are noticed by", remedy)


def run_rows(runs: Sequence[Run], now: datetime | None = None) -> tuple[RunRow, ...]:
    """Show runs, as `run_row` does."""
    return tuple(run_row(one, now) for one in runs)


def run_row(run: Run, now: datetime | None = None) -> RunRow:
    """Show one run; with `now`, how long one that waits is late by then."""
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
        zone=run.tz,
        scheduled_for=run.scheduled_for,
        due_at=run.due_at,
        started_at=run.started_at,
        finished_at=run.finished_at,
        lateness=_lateness(run, now),
        took=took,
        attempt=run.attempt,
        next_at=run.next_at,
        error=run.error,
    )


def _lateness(run: Run, now: datetime | None) -> timedelta | None:
    """Return how long after its due a run began, or how long it waits by now; None if unknown."""
    if run.started_at is not None and run.attempt == 1:
        return run.started_at - run.due_at
    if now is not None and run.state in {"queued", "blocked"} and run.attempt == 0:
        return max(now - run.due_at, timedelta())
    return None


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
