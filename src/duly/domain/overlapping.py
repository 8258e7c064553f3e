"""Overlap: what becomes of a run that falls due while an earlier one of its line is open (O1).

A line is a schedule of its own, or a business key that several share. One run of a line goes on at
a time; what comes meanwhile goes, waits or is skipped by the policy. Pure: the store asks while it
holds the line, so that no two decisions are made about the same state of it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, assert_never

from duly.domain.literals import Overlap, RunState, SkipReason

if TYPE_CHECKING:
    from duly.domain.identity import ScheduleId

WAITING_MAX = 1_000
"""How many may wait in one line; a longer one says that something is wrong, and is not fed."""


class Coming(StrEnum):
    """What becomes of the run that comes."""

    GOES = "goes"
    WAITS = "waits"
    SKIPPED = "skipped"
    """It is not made; the occurrence is recorded as skipped, with the reason."""


class Line(NamedTuple):
    """A line as it is when a run comes to it."""

    is_taken: bool
    """Whether an earlier run has gone ahead and is still open: queued, running, waiting for another
    attempt, or ambiguous. One that is closed or dead is in nobody's way."""
    waiting: int


class Entry(NamedTuple):
    """What is decided about a run that comes, and about those that were there before."""

    coming: Coming
    reason: SkipReason | None = None
    """Why it is skipped."""
    closes_waiting: RunState | None = None
    """What those that wait are closed as, because the newcomer stands for them."""
    stops_taker: bool = False
    """Whether the open one is asked to stop; it keeps the line until it has."""


GOES = Entry(Coming.GOES)
WAITS = Entry(Coming.WAITS)
LINELESS = frozenset((Overlap.ALLOW, Overlap.SKIP))
"""Under these nobody ever waits, so that nothing need be kept of a line."""


def enter(policy: Overlap, line: Line) -> Entry:
    """Decide about a run that comes to a line."""
    if policy is Overlap.ALLOW or line == (False, 0):
        return GOES
    match policy:
        case Overlap.SKIP:
            return _skipped(SkipReason.OVERLAP)
        case Overlap.QUEUE_ONE:
            return _skipped(SkipReason.OVERFLOW) if line.waiting else WAITS
        case Overlap.QUEUE_ALL | Overlap.SERIALIZE:
            return WAITS if line.waiting < WAITING_MAX else _skipped(SkipReason.OVERFLOW)
        case Overlap.COALESCE:
            return Entry(Coming.WAITS, closes_waiting=RunState.COALESCED)
        case Overlap.REPLACE:
            return Entry(Coming.WAITS, closes_waiting=RunState.REPLACED, stops_taker=True)
        case _:
            assert_never(policy)


def may_go_on(line: Line) -> bool:
    """Say whether the first that waits may go: asked anew whenever something has changed."""
    return not line.is_taken and line.waiting > 0


def schedule_line(schedule_id: ScheduleId) -> str:
    """Return the name of a schedule's own line."""
    return f"schedule:{schedule_id.hex()}"


def key_line(tenant: str, key: str) -> str:
    """Return the name of the line of a business key, which belongs to one tenant."""
    return f"key:{len(tenant)}:{tenant}:{key}"


def line_of(
    policy: Overlap, tenant: str, schedule_id: ScheduleId, serialize_by: str | None
) -> str | None:
    """Return the line that a schedule's runs stand in; None if nobody ever waits there."""
    if policy in LINELESS:
        return None
    if policy is Overlap.SERIALIZE:
        assert serialize_by is not None, "who serializes says by what"
        return key_line(tenant, serialize_by)
    return schedule_line(schedule_id)


def _skipped(reason: SkipReason) -> Entry:
    return Entry(Coming.SKIPPED, reason)
