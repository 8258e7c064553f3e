"""The backfill port: makes runs for past occurrences on request, a part at a time.

A backfill is a row with a cursor. Each step reads the next few occurrences as they are at that
moment, makes the runs that are still missing, and moves the cursor, in one transaction. A second
process that takes the same step finds the cursor moved and changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.domain.audit import Actor
    from duly.domain.backfill import (
        BackfillMode,
        BackfillOccurrenceKind,
        BackfillOrder,
        BackfillStatus,
        Planned,
        Slot,
    )
    from duly.domain.ids import BackfillId, RunId, ScheduleId
    from duly.store.ports.dispatch import Fence, FireResult

LISTED_MAX = 500
MAINTENANCE_SHARD = 0
"""Whoever holds the backfill lane of this shard tends the store, and does the steps."""
STEP_MAX = 100
"""How many occurrences a step looks at."""


class BackfillOccurrenceRecord(NamedTuple):
    """What a backfill has done about an occurrence."""

    scheduled_for: int
    kind: BackfillOccurrenceKind
    """What it was when its turn had come."""
    run_id: RunId | None
    """The run that was made; None if none was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillRecord:
    """A backfill as the store knows it."""

    id: BackfillId
    tenant: str
    schedule_id: ScheduleId
    schedule_name: str
    definition_number: int
    """The version of the schedule whose occurrences and call it uses."""
    since: int
    until: int
    """Not included."""
    mode: BackfillMode
    order: BackfillOrder
    classes: frozenset[BackfillOccurrenceKind]
    """Of which occurrences runs are made."""
    per_minute: int
    concurrency: int
    status: BackfillStatus
    version: int
    """Grows with every order about it; a step does not change it."""
    cursor: int | None
    """The next occurrence to look at; None when there is none left."""
    total: int
    """How many occurrences the span has."""
    looked_at: int
    made: int
    open: int
    """How many of its runs are not over, as of the last step."""
    reason: str | None
    """Why it was made, paused or called off: the last that somebody said."""
    created_at: int
    created_by: str
    updated_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateBackfill:
    """Write a backfill down; the same id again is the same one."""

    id: BackfillId
    tenant: str
    schedule_id: ScheduleId
    definition_number: int
    since: int
    until: int
    mode: BackfillMode
    order: BackfillOrder
    classes: frozenset[BackfillOccurrenceKind]
    per_minute: int
    concurrency: int
    cursor: int
    """The first occurrence to look at, by the order."""
    total: int
    actor: Actor
    resumes: BackfillId | None = None
    """The one that was called off, and what was left of which this one does; the trail says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeBackfill:
    """Pause, resume, throttle or call off a backfill, if nobody was faster."""

    tenant: str
    id: BackfillId
    expected_version: int
    status: BackfillStatus
    per_minute: int
    concurrency: int
    actor: Actor


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBackfill:
    """Do a part of a backfill: make runs of these occurrences, and go on behind them."""

    fence: Fence
    id: BackfillId
    expected_cursor: int
    slots: tuple[Planned, ...]
    cursor: int | None
    """Where the next step begins; None when this one is the last."""
    runs_max: int
    """What the rate allows. A step that has made as many goes no further; so does one that has
    filled the backfill's concurrency."""


@dataclass(frozen=True, slots=True)
class Stepped:
    """What became of a step."""

    result: FireResult
    """FIRED; FENCED when the lease is not ours; GONE when the backfill is elsewhere by now; BUSY
    when as many of its runs are open as may be."""
    record: BackfillRecord | None
    """The backfill afterwards."""
    made: int = 0


class BackfillStore(Protocol):
    """What is done about backfills."""

    def create_backfill(self, command: CreateBackfill) -> BackfillRecord:
        """Write a backfill down, audited as `backfill.created`. Its runs are made by steps.

        The same id again is the same order: what is there is returned, if it is of the same
        schedule; else Conflict. NotFound when there is no such schedule in the tenant; Conflict
        when it is deleted.
        """
        ...

    def get_backfill(self, tenant: str, backfill_id: BackfillId) -> BackfillRecord | None:
        """Return a backfill."""
        ...

    def list_backfills(
        self, tenant: str, schedule_id: ScheduleId | None, limit: int
    ) -> list[BackfillRecord]:
        """Return backfills, newest first; of one schedule, or of all."""
        ...

    def list_slots(
        self, backfill_id: BackfillId, after: int | None, limit: int
    ) -> list[BackfillOccurrenceRecord]:
        """Return what was done about occurrences, by their time, those later than `after`."""
        ...

    def classify_slots(self, schedule_id: ScheduleId, instants: Sequence[int]) -> list[Slot]:
        """Say what is known about occurrences, in the order given."""
        ...

    def change_backfill(self, command: ChangeBackfill) -> BackfillRecord:
        """Apply an order; audited as `backfill.paused`, `.resumed`, `.throttled`, `.cancelled`.

        Conflict when its version is another by now, or it is over. Runs that were made stay.
        """
        ...

    def load_backfills(self, limit: int) -> list[BackfillRecord]:
        """Return active backfills, oldest first."""
        ...

    def step_backfill(self, command: StepBackfill) -> Stepped:
        """Do a part, under the maintenance lease (the backfill lane of shard 0).

        Each occurrence is looked at anew: one that is in flight, or of a class that was not chosen,
        is passed over, and so is one that has a run already under `fill`, unless that failed. Runs
        are made for origin and lane `backfill`. When the schedule was deleted meanwhile, the
        backfill is cancelled, with the reason. DONE when the cursor is None.
        """
        ...
