"""Overlap: what becomes of a run that falls due while an earlier one is open (O1).

A schedule's runs go through a gate of their own, or that of a business key which several share, one
at a time. What comes meanwhile waits or is skipped, by the policy. Pure: the store asks while it
holds the gate, so that no two decisions are made about the same state of it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, assert_never

from duly.domain.literals import Overlap, RunState, SkipReason

if TYPE_CHECKING:
    from duly.domain.identity import ScheduleId

WAITING_MAX = 1_000
"""How many may wait at one gate; a longer row says that something is wrong, and is not fed."""


class Coming(StrEnum):
    """What becomes of the run that comes."""

    GOES = "goes"
    WAITS = "waits"
    SKIPPED = "skipped"
    """It is not made; the occurrence is recorded as skipped, with the reason."""


class Gate(NamedTuple):
    """A gate as it is when a run comes to it."""

    is_held: bool
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
    stops_holder: bool = False
    """Whether the open one is asked to stop; it keeps the gate until it has."""


GOES = Entry(Coming.GOES)
WAITS = Entry(Coming.WAITS)
GATELESS = frozenset((Overlap.ALLOW, Overlap.SKIP))
"""Under these nobody ever waits, so that nothing need be kept of a gate."""


def enter(policy: Overlap, gate: Gate) -> Entry:
    """Decide about a run that comes to a gate."""
    if policy is Overlap.ALLOW or gate == (False, 0):
        return GOES
    match policy:
        case Overlap.SKIP:
            return _skipped(SkipReason.OVERLAP)
        case Overlap.QUEUE_ONE:
            return _skipped(SkipReason.OVERFLOW) if gate.waiting else WAITS
        case Overlap.QUEUE_ALL | Overlap.SERIALIZE:
            return WAITS if gate.waiting < WAITING_MAX else _skipped(SkipReason.OVERFLOW)
        case Overlap.COALESCE:
            return Entry(Coming.WAITS, closes_waiting=RunState.COALESCED)
        case Overlap.REPLACE:
            return Entry(Coming.WAITS, closes_waiting=RunState.REPLACED, stops_holder=True)
        case _:
            assert_never(policy)


def may_go_on(gate: Gate) -> bool:
    """Say whether the first that waits may go: asked anew whenever something has changed."""
    return not gate.is_held and gate.waiting > 0


def schedule_gate(schedule_id: ScheduleId) -> str:
    """Return the name of a schedule's own gate."""
    return f"schedule:{schedule_id.hex()}"


def key_gate(tenant: str, key: str) -> str:
    """Return the name of the gate of a business key, which belongs to one tenant."""
    return f"key:{len(tenant)}:{tenant}:{key}"


def gate_of(
    policy: Overlap, tenant: str, schedule_id: ScheduleId, serialize_by: str | None
) -> str | None:
    """Return the gate that a schedule's runs stand at; None if nobody ever waits there."""
    if policy in GATELESS:
        return None
    if policy is Overlap.SERIALIZE:
        assert serialize_by is not None, "who serializes says by what"
        return key_gate(tenant, serialize_by)
    return schedule_gate(schedule_id)


def _skipped(reason: SkipReason) -> Entry:
    return Entry(Coming.SKIPPED, reason)
