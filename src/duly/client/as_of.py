"""What was so at an earlier instant, as far as what is stored can tell it truly. Pure.

A run's outcome, its attempts and every order about a schedule are kept with their times. In which
place an open run waited is not kept: it is told as waiting, and never guessed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.literals import RunState

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from duly.client.attempt_view import Attempt
    from duly.client.history import HistoryEntry
    from duly.client.run_view import Run

WAITING = "waiting"
"""It was open, and nobody ran it: queued, blocked, or before another attempt."""
LEFT_BY_AN_ATTEMPT = {
    str(RunState.DEAD): str(RunState.DEAD),
    str(RunState.AMBIGUOUS): str(RunState.AMBIGUOUS),
    str(RunState.DISCARDED): str(RunState.DEAD),
}
"""By what a run is now: what the end of its last attempt made it, until somebody orders otherwise.
What is discarded was dead all that time: nothing else can be."""


def run_state_as_of(run: Run, attempts: Sequence[Attempt], at: datetime) -> str | None:
    """Return in which state a run was at an instant; None if there was no such run yet."""
    if (run.fired_at or run.created_at) > at:
        return None
    if run.finished_at is not None and run.finished_at <= at:
        return run.state
    begun = [one for one in attempts if one.claimed_at <= at]
    if any(one.ended_at is None or one.ended_at > at for one in begun):
        return str(RunState.RUNNING)
    # Whoever brings it back has it tried again: there would be a later attempt.
    if begun and len(begun) == len(attempts) and run.state in LEFT_BY_AN_ATTEMPT:
        return LEFT_BY_AN_ATTEMPT[run.state]
    return WAITING


def entry_as_of(entries: Sequence[HistoryEntry], at: datetime) -> HistoryEntry | None:
    """Return the newest entry by an instant that says how a schedule was after it."""
    told = (one for one in entries if one.at <= at and "definition" in (one.after or {}))
    return max(told, key=lambda one: one.number, default=None)
