"""Backfills in a program's hands: plan what is missing, have it made, and steer that (M2)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from duly.client.reading import Instant, read_choice, read_instant, read_reason
from duly.client.schedule_orders import find_schedule
from duly.client.spans import backfill_spans, told_order
from duly.domain.backfill_steps import first_of
from duly.domain.backfilling import (
    FILLED,
    NEVER,
    BackfillMode,
    BackfillOrder,
    BackfillStatus,
    SlotClass,
    slots_of,
)
from duly.domain.identity import BackfillId, backfill_id, read_identity
from duly.domain.instants import from_microseconds, iso_utc
from duly.domain.literals import ScheduleStatus
from duly.domain.settling import Template
from duly.errors import Conflict, NotFound, UsageError
from duly.store.backfilling import LISTED_MAX, ChangeBackfill, CreateBackfill
from duly.store.rulings import id_taken

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from duly.client.caller import Caller
    from duly.client.schedule_orders import Reference
    from duly.domain.backfilling import Slot
    from duly.store.backfilling import BackfillRecord
    from duly.store.reading import Seen

PER_MINUTE_DEFAULT = 60
PER_MINUTE_MAX = 60_000
CONCURRENCY_DEFAULT = 1
CONCURRENCY_MAX = 10_000
_DRAW_BYTES = 10
_PAGE = 1_000


@dataclass(frozen=True, slots=True)
class PlannedSlot:
    """One occurrence of a plan, and what is known about it."""

    scheduled_for: datetime
    kind: str
    """missing, failed, succeeded, ambiguous, in-flight or unknown."""
    run_id: UUID | None
    reason: str | None
    is_chosen: bool
    """Whether a run would be made of it now; it is looked at once more when its turn has come."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "scheduled_for": iso_utc(self.scheduled_for),
            "kind": self.kind,
            "run_id": None if self.run_id is None else str(self.run_id),
            "reason": self.reason,
            "is_chosen": self.is_chosen,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillPlan:
    """The exact occurrences of a span, before anything is made."""

    schedule: str
    since: datetime
    until: datetime
    slots: tuple[PlannedSlot, ...]

    @property
    def runs(self) -> int:
        """How many runs would be made."""
        return sum(slot.is_chosen for slot in self.slots)

    @property
    def counts(self) -> dict[str, int]:
        """How many occurrences there are of each kind."""
        return dict(Counter(slot.kind for slot in self.slots))

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "schedule": self.schedule,
            "since": iso_utc(self.since),
            "until": iso_utc(self.until),
            "runs": self.runs,
            "counts": self.counts,
            "slots": [slot.to_json() for slot in self.slots],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfill:
    """A backfill, as it was when it was looked at."""

    id: UUID
    schedule: str
    status: str
    version: int
    since: datetime
    until: datetime
    mode: str
    order: str
    classes: tuple[str, ...]
    per_minute: int
    concurrency: int
    total: int
    """How many occurrences its span has."""
    looked_at: int
    made: int
    open: int
    """How many of its runs are not over."""
    reason: str | None
    created_at: datetime
    created_by: str
    updated_at: datetime

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "id": str(self.id),
            "schedule": self.schedule,
            "status": self.status,
            "version": self.version,
            "since": iso_utc(self.since),
            "until": iso_utc(self.until),
            "mode": self.mode,
            "order": self.order,
            "classes": list(self.classes),
            "per_minute": self.per_minute,
            "concurrency": self.concurrency,
            "total": self.total,
            "looked_at": self.looked_at,
            "made": self.made,
            "open": self.open,
            "reason": self.reason,
            "created_at": iso_utc(self.created_at),
            "created_by": self.created_by,
            "updated_at": iso_utc(self.updated_at),
        }


# A class that has a method `list` can't name the type below it.
ListedBackfills = list[Backfill]
Identity = UUID | str | bytes


class Backfills:
    """The backfills of an application's schedules."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def plan(  # noqa: PLR0913 - each choice has its default
        self,
        schedule: Reference,
        *,
        since: Instant,
        until: Instant,
        classes: Iterable[str] | None = None,
        mode: str = BackfillMode.FILL,
    ) -> BackfillPlan:
        """Show the exact occurrences of a span and what is known about each; nothing is made."""
        seen = find_schedule(self._caller, schedule)
        span = _read_span(seen, since, until)
        chosen, how = _read_classes(classes), read_choice("mode", mode, BackfillMode)
        template = _template(seen)
        found: list[Slot] = []
        instants = slots_of(template, *span)
        for first in range(0, len(instants), _PAGE):
            part = instants[first : first + _PAGE]
            found += self._caller.store.classify_slots(seen.record.id, part)
        return BackfillPlan(
            schedule=seen.record.name,
            since=from_microseconds(span[0]),
            until=from_microseconds(span[1]),
            slots=tuple(_planned(slot, chosen, how) for slot in found),
        )

    def create(  # noqa: PLR0913 - each choice has its default
        self,
        schedule: Reference,
        *,
        since: Instant,
        until: Instant,
        classes: Iterable[str] | None = None,
        mode: str = BackfillMode.FILL,
        order: str = BackfillOrder.OLDEST,
        per_minute: int = PER_MINUTE_DEFAULT,
        concurrency: int = CONCURRENCY_DEFAULT,
        runs: int | None = None,
        reason: str | None = None,
        id: UUID | None = None,  # noqa: A002 - as `enqueue` has it
    ) -> Backfill:
        """Have the runs of a span made, at a rate, so many at a time, on a lane of their own.

        With `runs`, only if a plan still shows as many as it did when it was looked at. The same
        `id` given again is the same order.
        """
        if id is not None and (known := self._known(id, schedule)) is not None:
            return known
        plan = self.plan(schedule, since=since, until=until, classes=classes, mode=mode)
        if runs is not None and runs != plan.runs:
            problem = f"has {plan.runs} to be made now, not {runs}"
            raise Conflict("backfill", plan.schedule, problem, "look at the plan again")
        if not plan.slots:
            remedy = "give a span in which its rule has an occurrence"
            raise UsageError("since", str(since), "begins a span without an occurrence", remedy)
        seen = find_schedule(self._caller, schedule)
        if seen.record.status is ScheduleStatus.DELETED:
            raise Conflict("schedule", seen.record.name, "is deleted", "restore it first")
        span, how = _read_span(seen, since, until), read_choice("order", order, BackfillOrder)
        cursor = first_of(_template(seen), *span, how)
        assert cursor is not None, "a span with occurrences has a first"
        command = CreateBackfill(
            id=self._new_id(seen.now) if id is None else BackfillId(id.bytes),
            tenant=self._caller.tenant,
            schedule_id=seen.record.id,
            definition_number=seen.record.definition_number,
            since=span[0],
            until=span[1],
            mode=read_choice("mode", mode, BackfillMode),
            order=how,
            classes=_read_classes(classes),
            per_minute=_read_number("per_minute", per_minute, PER_MINUTE_MAX),
            concurrency=_read_number("concurrency", concurrency, CONCURRENCY_MAX),
            cursor=cursor,
            total=len(plan.slots),
            actor=self._caller.ordering(reason),
        )
        return self._told("backfill.created", lambda: self._caller.store.create_backfill(command))

    def get(self, backfill: Identity) -> Backfill:
        """Return a backfill by its id."""
        return _view(self._find(backfill))

    def list(self, schedule: Reference | None = None) -> ListedBackfills:
        """Return backfills, newest first; of one schedule, or of all."""
        of = None if schedule is None else find_schedule(self._caller, schedule).record.id
        found = self._caller.store.list_backfills(self._caller.tenant, of, LISTED_MAX)
        return [_view(record) for record in found]

    def pause(self, backfill: Identity, *, reason: str | None = None) -> Backfill:
        """Make no more runs until it is resumed; those that were made go on."""
        return self._change(backfill, reason, status=BackfillStatus.PAUSED)

    def resume(self, backfill: Identity, *, reason: str | None = None) -> Backfill:
        """Go on where it stands."""
        return self._change(backfill, reason, status=BackfillStatus.ACTIVE)

    def cancel(self, backfill: Identity, *, reason: str | None = None) -> Backfill:
        """Make no more runs, for good; those that were made go on."""
        return self._change(backfill, reason, status=BackfillStatus.CANCELLED)

    def throttle(
        self,
        backfill: Identity,
        *,
        per_minute: int | None = None,
        concurrency: int | None = None,
        reason: str | None = None,
    ) -> Backfill:
        """Let it go faster or slower from now on."""
        changes: dict[str, Any] = {}
        if per_minute is not None:
            changes["per_minute"] = _read_number("per_minute", per_minute, PER_MINUTE_MAX)
        if concurrency is not None:
            changes["concurrency"] = _read_number("concurrency", concurrency, CONCURRENCY_MAX)
        if not changes:
            remedy = "give per_minute or concurrency"
            raise UsageError("throttle", str(backfill), "is asked to change nothing", remedy)
        return self._change(backfill, reason, **changes)

    def _known(self, given: UUID, schedule: Reference) -> Backfill | None:
        """Return what an earlier order of the same id has made, if there was one."""
        identity = BackfillId(read_identity(given, "id"))
        found = self._caller.store.get_backfill(self._caller.tenant, identity)
        if found is None:
            return None
        if found.schedule_id != find_schedule(self._caller, schedule).record.id:
            raise id_taken(given.bytes)
        return _view(found)

    def _new_id(self, now: int) -> BackfillId:
        return backfill_id(now, self._caller.draws.draw(_DRAW_BYTES))

    def _find(self, backfill: Identity) -> BackfillRecord:
        identity = BackfillId(read_identity(backfill, "backfill"))
        found = self._caller.store.get_backfill(self._caller.tenant, identity)
        if found is None:
            remedy = "list the backfills to see their ids: app.backfills.list()"
            raise NotFound("backfill", str(backfill), remedy)
        return found

    def _change(self, backfill: Identity, reason: str | None, **changes: Any) -> Backfill:  # noqa: ANN401 - fields of the order
        """Change a backfill as it is now."""
        record = self._find(backfill)
        parts: dict[str, Any] = {
            "status": record.status,
            "per_minute": record.per_minute,
            "concurrency": record.concurrency,
        }
        command = ChangeBackfill(
            tenant=record.tenant,
            id=record.id,
            expected_version=record.version,
            actor=self._caller.ordering(read_reason(reason)),
            **parts | changes,
        )
        return self._told("backfill.changed", lambda: self._caller.store.change_backfill(command))

    def _told(self, name: str, give: Callable[[], BackfillRecord]) -> Backfill:
        """Give an order about a backfill, and tell of it in the trace of its schedule."""
        record = told_order(self._caller.tracing, give, lambda one: backfill_spans(one, name))
        return _view(record)


def _template(seen: Seen) -> Template:
    record = seen.record
    return Template(record.id, record.definition_number, record.definition)


def _read_span(seen: Seen, since: Instant, until: Instant) -> tuple[int, int]:
    first, end = read_instant("since", since), read_instant("until", until)
    if end > seen.now:
        remedy = f"end it at {iso_utc(from_microseconds(seen.now))} at the latest"
        raise UsageError("until", str(until), "lies in the future", remedy)
    return first, end


def _read_classes(classes: Iterable[str] | None) -> frozenset[SlotClass]:
    if classes is None:
        return FILLED
    chosen = frozenset(read_choice("classes", one, SlotClass) for one in classes)
    refused = chosen & NEVER
    if refused or not chosen:
        remedy = f"choose of {', '.join(one for one in SlotClass if one not in NEVER)}"
        value = ", ".join(sorted(refused)) or None
        raise UsageError("classes", value, "can't be made again while they are open", remedy)
    return chosen


def _read_number(field: str, value: object, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise UsageError(field, value, "is out of range", f"give a whole number, 1 to {most:,}")
    return value


def _planned(slot: Slot, chosen: frozenset[SlotClass], mode: BackfillMode) -> PlannedSlot:
    is_kept = mode is BackfillMode.FILL and slot.kind is SlotClass.SUCCEEDED
    return PlannedSlot(
        from_microseconds(slot.scheduled_for),
        str(slot.kind),
        None if slot.run_id is None else UUID(bytes=slot.run_id),
        slot.reason,
        slot.kind in chosen and not is_kept,
    )


def _view(record: BackfillRecord) -> Backfill:
    return Backfill(
        id=UUID(bytes=record.id),
        schedule=record.schedule_name,
        status=str(record.status),
        version=record.version,
        since=from_microseconds(record.since),
        until=from_microseconds(record.until),
        mode=str(record.mode),
        order=str(record.order),
        classes=tuple(sorted(str(one) for one in record.classes)),
        per_minute=record.per_minute,
        concurrency=record.concurrency,
        total=record.total,
        looked_at=record.looked_at,
        made=record.made,
        open=record.open,
        reason=record.reason,
        created_at=from_microseconds(record.created_at),
        created_by=record.created_by,
        updated_at=from_microseconds(record.updated_at),
    )
