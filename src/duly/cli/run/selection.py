"""Which runs are meant: by schedule, task, queue, cause, error, origin, lane, worker and time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any

from cyclopts import Parameter

from duly.app import App
from duly.cli.moments import read_moment
from duly.cli.references import find_schedule
from duly.client.paging import Page
from duly.client.run_view import Run
from duly.clock import SystemClock


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Which runs; those that fit all that is said."""

    schedule: str | None = None
    """Only those of this schedule, by its name or id."""
    key: str | None = None
    """Only those with this key."""
    task: str | None = None
    """Only those of this task."""
    queue: str | None = None
    """Only those in this queue."""
    cause: str | None = None
    """Only those with this reason code, such as budget, timeout or lost."""
    error: str | None = None
    """Only those whose last error holds this text; upper and lower case differ."""
    origin: str | None = None
    """Only those that came about so: schedule, delay, now, manual, rerun, repair and the like."""
    lane: str | None = None
    """Only those of this lane: live, catch-up or backfill."""
    root: str | None = None
    """Only this run and those that repeat it, by its id."""
    worker: int | None = None
    """Only those that this worker holds or has closed, by its number."""
    since: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None
    """Only those scheduled for this moment or later: an ISO time, today, -2h."""
    until: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None
    """Only those scheduled before this moment."""

    @property
    def is_given(self) -> bool:
        """Whether anything is said."""
        return any(getattr(self, one.name) is not None for one in fields(self))

    def terms(self, app: App) -> dict[str, Any]:
        """Return what a list of runs is narrowed by."""
        schedule = None
        if self.schedule is not None:
            schedule = find_schedule(app, self.schedule, by_beginning=True).id
        return {
            "schedule": schedule,
            "key": self.key,
            "task": self.task,
            "queue": self.queue,
            "reason": self.cause,
            "error": self.error,
            "origin": self.origin,
            "lane": self.lane,
            "root": self.root,
            "worker": self.worker,
            "since": _moment(self.since, "since"),
            "until": _moment(self.until, "until"),
        }


def select_runs(app: App, options: RunOptions, states: Sequence[str], limit: int) -> list[Run]:
    """Return the runs that fit, newest first; of every state if none is named."""
    return app.runs.list(state=list(states) or None, limit=limit, **options.terms(app))


def page_of_runs(
    app: App, options: RunOptions, states: Sequence[str], page: tuple[int, str | None]
) -> Page[Run]:
    """Return a page of them: so many at the most, from a cursor on."""
    limit, cursor = page
    terms = options.terms(app)
    return app.runs.page(state=list(states) or None, limit=limit, cursor=cursor, **terms)


def _moment(text: str | None, field: str) -> Any:  # noqa: ANN401 - a datetime or nothing
    return None if text is None else read_moment(text, "UTC", SystemClock(), field)
