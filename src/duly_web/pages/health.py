"""Health: everything that is wrong, in the two lights, each with what to do about it (V4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from duly_web.page import Asked, Page, Shown
from duly_web.shell import NEGLECTED_SECONDS, OWN_SECONDS, look_at_all

if TYPE_CHECKING:
    from duly.api.views import Finding

_PLACES = {
    "alerts-open": "/alerts",
    "ambiguous-runs": "/runs?state=ambiguous",
    "dead-letters": "/runs?state=dead",
    "queue-without-worker": "/runs?state=queued",
    "queue-waits-long": "/runs?state=queued",
    "work-held-by-nobody": "/runs?state=running",
    "task-without-code": "/schedules?status=paused",
}
"""Where one sees what a finding is about."""


@dataclass(frozen=True, slots=True)
class Told:
    """A finding, and where to look."""

    problem: str
    remedy: str
    place: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthModel:
    """The two lights and what is worth knowing beside."""

    dispatch: tuple[Told, ...]
    work: tuple[Told, ...]
    alerts: tuple[Told, ...]
    """Those that page: of either light."""
    notes: tuple[Told, ...]
    seconds: int = NEGLECTED_SECONDS
    """How old it may be which schedules have no recent completion,"""
    own_seconds: int = OWN_SECONDS
    """and all else."""


def show_health(asked: Asked) -> Shown:
    """Show what is wrong."""
    looked = look_at_all(asked)
    health = looked.health
    model = HealthModel(
        dispatch=_told(health.dispatch),
        work=_told(health.work),
        alerts=_told(health.alerts),
        notes=_told(health.notes),
    )
    return Shown(template="health.html", model=model, title="Health", looked=looked)


def _told(findings: tuple[Finding, ...]) -> tuple[Told, ...]:
    return tuple(Told(one.problem, one.remedy, _PLACES.get(one.code)) for one in findings)


PAGES = (Page(method="GET", path="/health", name="health", scope="read", handler=show_health),)
