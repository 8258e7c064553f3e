"""Refusals: what stands over a page that could not be shown, in words rather than HTTP's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duly.api.views import Problem

HEADINGS = {
    403: "This is not yours to do",
    404: "There is no such thing",
    409: "It is not as you saw it",
    412: "It is not as you saw it",
    422: "It can't be done like this",
    429: "Too much at once",
    500: "Something went wrong here",
    503: "The store does not answer",
}


PLACES = {
    "run": ("All runs", "/runs"),
    "delayed run": ("All runs", "/runs"),
    "schedule": ("All schedules", "/schedules"),
    "backfill": ("All backfills", "/backfills"),
    "destination": ("The fleet", "/fleet"),
    "alert": ("All alerts", "/alerts"),
    "alert rule": ("All rules", "/alerts/rules"),
    "alert channel": ("All channels", "/alerts/channels"),
}
"""Where those are listed that there are, by what was looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalModel:
    """The page."""

    problem: Problem
    back: str | None
    """The page that somebody came from, where it is one of ours."""

    @property
    def plain(self) -> str | None:
        """What was not found, for who looks at a page: remedies are for programs (L6)."""
        problem = self.problem
        if problem.status != 404:
            return None
        if not problem.value:
            return "There is no such page here."
        return f"There is no {problem.field} {problem.value} here: it was never made, or is gone."

    @property
    def place(self) -> tuple[str, str] | None:
        """Where to look instead."""
        if self.problem.status != 404:
            return None
        return PLACES.get(self.problem.field or "", ("The overview", "/"))


def heading(problem: Problem) -> str:
    """Return what stands over a problem."""
    return HEADINGS.get(problem.status, problem.title)
