"""Last ends: when a schedule's work last succeeded, was last found to be done, and last went wrong.

Success is what a run says of itself; a check of its result is another fact (E6), so both are told.
They are read when somebody asks, from its newest runs, so that no run pays for it. How far back it
reaches is told as well: what is no longer kept, or was not looked at, is unknown and not "never".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from duly.domain.literals import AttemptState

if TYPE_CHECKING:
    from duly.domain.identity import RunId

RUNS_LOOKED_AT = 1_000
"""Of one schedule: so many of its newest runs."""
RUNS_LOOKED_AT_EACH = 100
"""Of each of many."""
ERRORS = frozenset((AttemptState.FAILED, AttemptState.TIMED_OUT, AttemptState.LOST))
"""How an attempt ends that went wrong, also where a later one made it good."""


class LastEnd(NamedTuple):
    """A run that ended well, or was found to have."""

    run_id: RunId
    scheduled_for: int
    at: int


class LastError(NamedTuple):
    """An attempt that went wrong, or the end of a run that failed."""

    run_id: RunId
    scheduled_for: int
    at: int
    reason: str | None
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LastEnds:
    """How the newest runs of a schedule ended: of each sort the newest run."""

    success: LastEnd | None = None
    verified: LastEnd | None = None
    """The newest success whose last check found everything in place, and when that was found."""
    error: LastError | None = None
    unknown_through: int | None = None
    """Of what fell due up to this instant not every run was looked at; None: no run is missing."""


NO_ENDS = LastEnds()


def unknown_through(pruned_through: int | None, beyond: int | None) -> int | None:
    """Return up to when history is unknown: removed, or beyond the newest runs that were read."""
    known = [one for one in (pruned_through, beyond) if one is not None]
    return max(known, default=None)
