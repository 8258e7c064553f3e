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


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalModel:
    """The page."""

    problem: Problem
    back: str | None
    """The page that somebody came from, where it is one of ours."""


def heading(problem: Problem) -> str:
    """Return what stands over a problem."""
    return HEADINGS.get(problem.status, problem.title)
