"""Which schedules are shown first where not all are: those that need somebody, then the busiest.

An order for the eye and no verdict: what each lacks is told beside it, trigger and work apart (V4).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from duly.api.views import LATE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from uuid import UUID

    from duly import App, Schedule
    from duly.api.views import ScheduleVitals

SCHEDULES_MAX = 100
"""So many are looked at, by name."""
RUNS_MAX = 100
"""So many of the newest runs that wait for somebody, or for another attempt, are looked at."""
TROUBLES = ("ambiguous", "dead", "retrying")
ORDER = ("late", "stale", *TROUBLES, None, "paused")
"""What is first: a trigger that is late, work that is stale, runs in trouble, all that is well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """The schedules that were looked at, those first that need somebody."""

    schedules: tuple[Schedule, ...]
    vitals: Mapping[UUID, ScheduleVitals]
    why: Mapping[UUID, str]
    """By the word of a state; of those that need nobody, nothing."""
    is_cut: bool
    """Whether there are schedules that were not looked at."""


def look_for_attention(app: App, now: datetime) -> Attention:
    """Look at schedules that are active or paused, and at runs in trouble, a bounded number."""
    page = app.schedules.page(limit=SCHEDULES_MAX)
    vitals = {
        one.id: one
        for one in app.vitals.schedules(limit=SCHEDULES_MAX, status=None, with_errors=False).items
    }
    troubles = _troubles(app)
    schedules = [one for one in page.items if one.status in {"active", "paused"}]
    why = {
        one.id: found
        for one in schedules
        if (found := _why(one, vitals.get(one.id), troubles.get(one.id), now)) is not None
    }
    schedules.sort(
        key=lambda one: (
            ORDER.index(why.get(one.id)),
            _cadence(vitals.get(one.id)),
            one.name,
        )
    )
    return Attention(
        schedules=tuple(schedules), vitals=vitals, why=why, is_cut=page.after is not None
    )


def _troubles(app: App) -> dict[UUID, str]:
    """Return the gravest trouble that each schedule has an open run in."""
    found: dict[UUID, str] = {}
    for run in app.runs.page(state=TROUBLES, limit=RUNS_MAX).items:
        if run.schedule_id is not None:
            before = found.get(run.schedule_id, run.state)
            found[run.schedule_id] = min(before, run.state, key=TROUBLES.index)
    return found


def _why(
    schedule: Schedule, vitals: ScheduleVitals | None, trouble: str | None, now: datetime
) -> str | None:
    due = schedule.next_due
    if (due is not None and due < now - LATE) or (vitals and not vitals.trigger.is_well):
        return "late"
    if vitals and not vitals.completion.is_well:
        return "stale"
    return trouble or ("paused" if schedule.status == "paused" else None)


def _cadence(vitals: ScheduleVitals | None) -> timedelta:
    """Return how often it fires: the busiest first. It stays so while one looks."""
    cadence = None if vitals is None else vitals.completion.cadence
    return timedelta.max if cadence is None else cadence
