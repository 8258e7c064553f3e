"""Which schedules are shown first where not all are: those that need somebody, then the busiest.

An order for the eye and no verdict: what each lacks is told beside it, trigger and work apart (V4).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from duly.api.views import LATE, AlertKind

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from duly import App, Schedule
    from duly.api.views import ScheduleVitals

SCHEDULES_MAX = 100
"""So many are looked at by name,"""
SUSPECTS_MAX = 100
"""and so many more that an open alert is about, or a run in trouble: wherever they stand."""
ALERTS_MAX = 1000
RUNS_MAX = 100
"""So many of the newest runs that wait for somebody, or for another attempt, are looked at."""
TROUBLES = ("ambiguous", "dead", "retrying")
ORDER = ("late", "stale", *TROUBLES, "missing", "alerted", None, "paused")
"""What is first: a late trigger, stale work, runs in trouble, an open alert, all that is well."""
SUBJECT = "schedule "
"""How the subject of an alert begins that is about a schedule."""
STATUSES = ("active", "paused")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """The schedules that were looked at, those first that need somebody."""

    schedules: tuple[Schedule, ...]
    vitals: Mapping[UUID, ScheduleVitals]
    why: Mapping[UUID, str]
    """By the word of a state; of those that need nobody, nothing."""
    suspects: int
    """How many were looked at because of alerts and runs, behind the first by name."""
    is_cut: bool
    """Whether there are schedules that were not looked at."""


def look_for_attention(app: App, now: datetime) -> Attention:
    """Look at schedules that are active or paused, and at runs in trouble, a bounded number.

    The first by name are looked at in any case. Alerts go round over all schedules: whom they are
    about is looked at as well, however many there are before them by name.
    """
    first, is_cut = look_at_first(app)
    troubles, alerts = _troubles(app), _alerts(app)
    suspects = _suspects(app, first, troubles, alerts) if is_cut else []
    schedules = [*first, *suspects]
    vitals = {one.id: one for one in app.vitals.of_schedules([one.id for one in schedules])}
    why = {
        one.id: found
        for one in schedules
        if (found := _why(one, vitals.get(one.id), troubles.get(one.id), now))
        or (found := _told(alerts.get(one.name, ())))
    }
    schedules.sort(
        key=lambda one: (_rank(one, why, alerts), _cadence(vitals.get(one.id)), one.name)
    )
    return Attention(
        schedules=tuple(schedules),
        vitals=vitals,
        why=why,
        suspects=len(suspects),
        is_cut=is_cut,
    )


def look_at_first(app: App) -> tuple[list[Schedule], bool]:
    """Return the first by name: those that are active, then paused ones; say if there are more."""
    active = app.schedules.page(limit=SCHEDULES_MAX, status="active")
    if active.after is not None:
        return active.items, True
    room = SCHEDULES_MAX - len(active.items)
    # Also where there is no room left, one of them says that there are more.
    paused = app.schedules.page(limit=max(room, 1), status="paused")
    is_cut = paused.after is not None or len(paused.items) > room
    return [*active.items, *paused.items[:room]], is_cut


def _alerts(app: App) -> dict[str, set[str]]:
    """Return the kinds of open alerts about each of the tenant's schedules, by its name."""
    found: dict[str, set[str]] = {}
    # To whoever may look everywhere alerts of every tenant are told.
    for one in app.alerts.list(limit=ALERTS_MAX):
        if one.tenant == app.tenant and one.subject.startswith(SUBJECT):
            found.setdefault(one.subject.removeprefix(SUBJECT), set()).add(one.kind)
    return found


def _troubles(app: App) -> dict[UUID, str]:
    """Return the gravest trouble that each schedule has an open run in."""
    found: dict[UUID, str] = {}
    for run in app.runs.page(state=TROUBLES, limit=RUNS_MAX).items:
        if run.schedule_id is not None:
            before = found.get(run.schedule_id, run.state)
            found[run.schedule_id] = min(before, run.state, key=TROUBLES.index)
    return found


def _suspects(
    app: App,
    first: Sequence[Schedule],
    troubles: Mapping[UUID, str],
    alerts: Mapping[str, set[str]],
) -> list[Schedule]:
    """Return schedules that are not among the first, and that somebody or something points at."""
    known = {one.id for one in first}
    names = sorted(set(alerts) - {one.name for one in first})[:SUSPECTS_MAX]
    ids = sorted(set(troubles) - known, key=lambda one: TROUBLES.index(troubles[one]))
    wanted = ids[: SUSPECTS_MAX - len(names)]
    found = app.schedules.several(ids=wanted, names=names)
    return [one for one in found if one.id not in known and one.status in STATUSES]


def _why(
    schedule: Schedule, vitals: ScheduleVitals | None, trouble: str | None, now: datetime
) -> str | None:
    due = schedule.next_due
    if (due is not None and due < now - LATE) or (vitals and not vitals.trigger.is_well):
        return "late"
    if vitals and not vitals.completion.is_well:
        return "stale"
    return trouble or ("paused" if schedule.status == "paused" else None)


def _told(kinds: Collection[str]) -> str | None:
    """Return what an alert has seen that a look at the schedule alone does not show."""
    if not kinds:
        return None
    return "missing" if AlertKind.MISSING_RUN in kinds else "alerted"


def _rank(schedule: Schedule, why: Mapping[UUID, str], alerts: Mapping[str, set[str]]) -> int:
    found = why.get(schedule.id)
    # What the system has paused, and not a person, needs somebody.
    if found == "paused" and AlertKind.SCHEDULE_PAUSED in alerts.get(schedule.name, ()):
        return ORDER.index("missing")
    return ORDER.index(found)


def _cadence(vitals: ScheduleVitals | None) -> timedelta:
    """Return how often it fires: the busiest first. It stays so while one looks."""
    cadence = None if vitals is None else vitals.completion.cadence
    return timedelta.max if cadence is None else cadence
