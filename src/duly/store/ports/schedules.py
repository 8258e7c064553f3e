"""The planning port: orders of people and programs about schedules and delayed runs.

Each operation is one transaction: durable when it returns, without effect when it raises. No
command carries a `now`; the store reads its own clock inside the transaction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    from duly.domain.audit import Actor
    from duly.domain.enums import Lane, Origin, Overlap
    from duly.domain.ids import RunId, ScheduleId
    from duly.domain.runs import DelayedRecord, RunRecord
    from duly.domain.schedule_changes import ScheduleChange
    from duly.domain.schedules import Call, Definition, NextOccurrence, ScheduleRecord

NEAR_US = 120 * 1_000_000
"""What falls due within this time of being written is announced on the arrivals feed, because a
dispatcher may have loaded its window already. In a transaction that the caller commits, at whatever
time, anything may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSchedule:
    """Make a schedule with its one pending timer."""

    id: ScheduleId
    tenant: str
    name: str
    definition: Definition
    pending: NextOccurrence
    owner: str | None
    declared_by: str | None
    actor: Actor


@dataclass(frozen=True, slots=True)
class CreatedSchedule:
    """The schedule as it is now, and whether this call made it."""

    record: ScheduleRecord
    is_new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSchedule:
    """Apply a decided change, if the schedule is still as it was when it was decided."""

    id: ScheduleId
    expected_version: int
    expected_pending: NextOccurrence | None
    change: ScheduleChange
    actor: Actor
    tenant: str | None = None
    """Whose it must be; None for the system's own orders, which are about any."""


@dataclass(frozen=True, slots=True)
class Stale:
    """A decision came too late: the schedule has moved on. Nothing was changed."""

    record: ScheduleRecord
    now: int


@dataclass(slots=True, kw_only=True)
class NewRun:
    """A run that somebody asks for: at once, or at an instant.

    Not frozen, as that would treble what it takes to make one: there may be ten thousand at once.
    """

    id: RunId
    """Made by the caller, so that asking again after a lost answer makes no second one."""
    tenant: str
    call: Call
    origin: Origin
    lane: Lane
    due_at: int | None
    """None for at once. An instant that has passed by the store's clock: see `is_late_ok`."""
    delay_us: int | None = None
    """Instead of `due_at`: that long after the store's now."""
    is_late_ok: bool = False
    """Whether an instant in the past means at once."""
    key: str | None = None
    replaces: bool = False
    """Whether a pending run with the same key is replaced rather than a conflict."""
    fingerprint: str = ""
    schedule_id: ScheduleId | None = None
    definition_number: int | None = None
    overlap: Overlap | None = None
    """Of a run that a person asks of a schedule: the policy it comes under instead of the
    schedule's own."""
    root: RunId | None = None
    """Of a run at once that is about another: that one."""
    is_drawn: bool = False
    """Whether the id was drawn for this very order, so that nobody else can know it yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddRuns:
    """Make runs, all or none."""

    runs: Sequence[NewRun]
    actor: Actor


class AddedRun(NamedTuple):
    """What a new run has become, and whether this call made it."""

    id: RunId
    due_at: int
    is_new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveDelayed:
    """Move a pending delayed run, by its key or id, to another instant."""

    tenant: str
    key: str | None
    id: RunId | None
    due_at: int | None
    delay_us: int | None
    is_late_ok: bool
    actor: Actor


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelDelayed:
    """Cancel a pending delayed run, by its key or id; it keeps a record with outcome cancelled."""

    tenant: str
    key: str | None
    id: RunId | None
    actor: Actor


Parameters: TypeAlias = "Sequence[object] | Mapping[str, object]"
"""Values for a statement of the caller's: in order, or by name."""


class Transaction(Protocol):
    """A connection that Duly lends, for the caller's own tables beside ours."""

    def execute(self, sql: str, parameters: Parameters = ()) -> list[tuple[object, ...]]:
        """Run one statement of the caller's; the whole commits with ours, or nothing does."""
        ...


class PlanningStore(Protocol):
    """What clients may order."""

    def joined(self, within: object) -> Self:
        """Return this store as part of a caller's transaction: what it has lent, or his own.

        Each operation sees what the transaction has written. Refused or failed it leaves nothing,
        and the transaction goes on; its commit makes all of it durable, its rollback undoes it.
        UsageError for what can't be joined.
        """
        ...

    def create_schedule(self, command: CreateSchedule) -> CreatedSchedule:
        """Create a schedule, its definition, its timer, an arrival if near, and an audit entry.

        A schedule of that name (in the tenant, not deleted) with an equal definition, owner and
        declaration is the same one: it is returned, not made again. With another definition:
        Conflict. A known id is the same request again, and another tenant's a Conflict. One more
        than a quota allows: OverQuota.
        """
        ...

    def change_schedule(self, command: ChangeSchedule) -> ScheduleRecord | Stale:
        """Compare version and pending, then write the whole change, or nothing (Stale).

        Also stale when the store's clock has reached `change.before`. The version grows by one; a
        new definition gets that number. Runs of the settlement must be due (never early), and one
        that exists is left alone. Skips are inserted; what is owed is inserted; an arrival is
        written if the new pending is near; `drops_owed` turns what is owed into skips (deleted). A
        name that is taken raises Conflict; one more active schedule than a quota allows, OverQuota.
        NotFound when there is none, or it is another tenant's. One audit entry with before and
        after.
        """
        ...

    def add_runs(self, command: AddRuns) -> list[AddedRun]:
        """Make runs at once (run and queue row) or later (pending row, timer, arrival if near).

        All or none. A known id is the same request again and returns what it has become; with
        another tenant, call or (while it is pending) fingerprint it raises Conflict. With
        `replaces`, what is pending under the key ends (outcome replaced) in the same transaction.
        Without it, a pending key with the same fingerprint is the same request, and with another
        one it raises Conflict. An instant in the past raises UsageError, unless `is_late_ok`. A run
        of a deleted schedule raises Conflict, and of another tenant's NotFound, as of one that
        there is not; more pending than a quota allows, OverQuota. What a person orders,
        and not a program through the library, leaves one audit entry `runs.added` for the whole
        command.
        """
        ...

    def move_delayed(self, command: MoveDelayed) -> DelayedRecord:
        """Move a pending run: new due, next generation, old timer gone, arrival if near; audited.

        NotFound when nothing is pending under the key or id; Conflict when it has already fired.
        """
        ...

    def cancel_delayed(self, command: CancelDelayed) -> RunRecord:
        """Remove a pending run and its timer, record the run with outcome cancelled; audited.

        NotFound and Conflict as for moving; cancelling what is already cancelled returns it.
        """
        ...

    def register_tasks(self, names: Sequence[str]) -> None:
        """Remember which tasks programs know, so that a call by name can be checked."""
        ...

    def transaction(self, limit_us: int) -> AbstractContextManager[Transaction]:
        """Lend a connection: all that is done with it commits together, or not at all.

        Bounded: after `limit_us` the next use, or the commit, raises StoreUnavailable, and all is
        undone.
        """
        ...
