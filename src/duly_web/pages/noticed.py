"""Runs that are noticed by more than their state: stuck, overlapping, or late to begin (UX 9)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from duly import NotFound
from duly.api.views import LATE

if TYPE_CHECKING:
    from datetime import datetime

    from duly import App, Run

Noticed = Literal["stuck", "overlapping", "late"]
NOTICED: tuple[Noticed, ...] = ("stuck", "overlapping", "late")
LOOKED_AT_MAX = 100
"""So many runs are looked at, the newest first."""
STUCK_SHOWN_MAX = 50


@dataclass(frozen=True, slots=True)
class Found:
    """What was noticed, newest first."""

    runs: tuple[Run, ...]
    is_cut: bool
    """Whether there may be more."""


def find_noticed(app: App, what: Noticed, now: datetime) -> Found:
    """Find runs of one kind."""
    match what:
        case "stuck":
            return _stuck(app)
        case "overlapping":
            return _overlapping(app)
        case "late":
            return _late(app, now)


def _stuck(app: App) -> Found:
    """Find runs whose worker is heard of, and which have not advanced for too long."""
    page = app.attempts.page(state="stalled", limit=STUCK_SHOWN_MAX)
    found = []
    for one in page.items:
        try:
            found.append(app.runs.get(one.run))
        except NotFound:
            continue  # it ended and was pruned in between
    return Found(tuple(found), page.next_cursor is not None)


def _overlapping(app: App) -> Found:
    """Find runs that go on beside another of the same schedule."""
    page = app.runs.page(state="running", limit=LOOKED_AT_MAX)
    beside = Counter(run.schedule_id for run in page.items if run.schedule_id is not None)
    several = {schedule for schedule, count in beside.items() if count > 1}
    found = tuple(run for run in page.items if run.schedule_id in several)
    return Found(found, page.next_cursor is not None)


def _late(app: App, now: datetime) -> Found:
    """Find runs that should have begun longer ago than anybody's grace."""
    page = app.runs.page(state=["queued", "blocked"], until=now - LATE, limit=LOOKED_AT_MAX)
    found = tuple(run for run in page.items if run.due_at < now - LATE)
    return Found(found, page.next_cursor is not None)
