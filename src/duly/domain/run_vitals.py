"""What vitals are drawn from: of each of the newest runs, when it was due, begun and done (V1).

Read when somebody asks, by run, so that no run pays for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.domain.identity import RunId, ScheduleId
    from duly.domain.literals import Finding, Lane, Origin, RunState
    from duly.domain.schedules import Definition

ERROR_END_MAX = 300
"""How much of an error is read: its end, where its class stands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VitalsFilter:
    """Which runs: so many of the newest of each schedule, and those that are named."""

    schedule_ids: Sequence[ScheduleId] = ()
    limit: int = 0
    """Of each schedule, its newest by id."""
    run_ids: Sequence[RunId] = ()


class Fault(NamedTuple):
    """How a run's last attempt that went wrong did so, though a later one may have made it good."""

    state: str
    """Failed, timed-out or lost."""
    reason: str | None
    error_end: str | None
    at: int


class RunVital(NamedTuple):
    """One run: its own facts, each with its time."""

    run_id: RunId
    schedule_id: ScheduleId | None
    task: str
    origin: Origin
    lane: Lane
    scheduled_for: int
    due_at: int
    """Its nominal time plus jitter."""
    fired_at: int | None
    state: RunState
    reason: str | None
    finished_at: int | None
    attempt: int
    """How often it was started."""
    begun_at: int | None
    """When it was claimed for the first time."""
    worker: int | None
    claimed_at: int | None
    """Of the claim that holds it or closed it."""
    started_at: int | None
    progress_done: int | None
    progress_total: int | None
    progress_at: int | None
    next_at: int | None
    """While retrying: when its next attempt falls due."""
    heartbeat_at: int | None
    """When the worker that holds it was last heard of; None unless one does."""
    attempt_ended_at: int | None
    """When an attempt of it was last over, however it ended."""
    finding: Finding | None
    """What was found last of its result, and when."""
    found_at: int | None
    fault: Fault | None


class DefinitionRecord(NamedTuple):
    """One version of a schedule's template, and when it was written."""

    number: int
    made_at: int
    definition: Definition
