"""Backfills in a program's hands: plan what is missing, have it made, and steer that."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any
from uuid import UUID

from duly.client.backfill_view import Backfill, BackfillPlan, PlannedSlot, backfill_view
from duly.client.caller import joins
from duly.client.enqueue import backfill_spans, with_order_span
from duly.client.parameters import (
    Instant,
    one_or_several,
    read_choice,
    read_instant,
    read_reason,
    require_reason,
)
from duly.client.schedule_orders import find_schedule
from duly.domain.backfill import (
    FILLED,
    NEVER,
    BackfillMode,
    BackfillOccurrenceKind,
    BackfillOrder,
    BackfillSpan,
    BackfillStatus,
    first_of,
    rest_of,
    slots_of,
)
from duly.domain.enums import ScheduleStatus
from duly.domain.fire_planning import ScheduleVersion
from duly.domain.ids import BackfillId, backfill_id, read_identity
from duly.errors import Conflict, NotFound, UsageError
from duly.store.backfill_rulings import RESUMES
from duly.store.ports.backfill import LISTED_MAX, ChangeBackfill, CreateBackfill
from duly.store.ports.queries import AuditFilter
from duly.store.rulings import id_taken
from duly.timetable.instants import from_microseconds, iso_utc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from duly.client.caller import Caller
    from duly.client.schedule_orders import Reference
    from duly.domain.backfill import Slot
    from duly.store.ports.backfill import BackfillRecord
    from duly.store.ports.queries import ScheduleSnapshot

PER_MINUTE_DEFAULT = 60
PER_MINUTE_MAX = 60_000
CONCURRENCY_DEFAULT = 1
CONCURRENCY_MAX = 10_000
_DRAW_BYTES = 10
_PAGE = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBackfill:
    """How a backfill is to go, beside the span that it is of."""

    order: str
    per_minute: int
    concurrency: int
    runs: int | None
    reason: str | None
    resumes: BackfillId | None = None


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

    @joins
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
        connection: object | None = None,
    ) -> Backfill:
        """Have the runs of a span made, at a rate, so many at a time, on a lane of their own.

        With `runs`, only if a plan still shows as many as it did when it was looked at. The same
        `id` given again is the same order.
        """
        chosen = None if classes is None else one_or_several(classes)  # looked at more than once
        terms = {"since": since, "until": until, "classes": chosen, "mode": mode}
        new = NewBackfill(
            order=order, per_minute=per_minute, concurrency=concurrency, runs=runs, reason=reason
        )
        return self._create({"schedule": schedule, **terms}, new, id)

    def _create(self, of: dict[str, Any], new: NewBackfill, identity: UUID | None) -> Backfill:
        schedule = of["schedule"]
        if identity is not None and (known := self._known(identity, schedule)) is not None:
            return known
        plan = self.plan(**of)
        if new.runs is not None and new.runs != plan.runs:
            problem = f"has {plan.runs} to be made now, not {new.runs}"
            raise Conflict("backfill", plan.schedule, problem, "look at the plan again")
        if not plan.slots:
            remedy = "give a span in which its rule has an occurrence"
            since = str(of["since"])
            raise UsageError("since", since, "begins a span without an occurrence", remedy)
        seen = find_schedule(self._caller, schedule)
        if seen.record.status is ScheduleStatus.DELETED:
            raise Conflict("schedule", seen.record.name, "is deleted", "restore it first")
        span = _read_span(seen, of["since"], of["until"])
        how = read_choice("order", new.order, BackfillOrder)
        cursor = first_of(_template(seen), *span, how)
        assert cursor is not None, "a span with occurrences has a first"
        command = CreateBackfill(
            id=self._new_id(seen.now) if identity is None else BackfillId(identity.bytes),
            tenant=self._caller.tenant,
            schedule_id=seen.record.id,
            definition_number=seen.record.definition_number,
            since=span[0],
            until=span[1],
            mode=read_choice("mode", of["mode"], BackfillMode),
            order=how,
            classes=_read_classes(of["classes"]),
            per_minute=_read_number("per_minute", new.per_minute, PER_MINUTE_MAX),
            concurrency=_read_number("concurrency", new.concurrency, CONCURRENCY_MAX),
            cursor=cursor,
            total=len(plan.slots),
            actor=self._caller.ordering(new.reason),
            resumes=new.resumes,
        )
        return self._told("backfill.created", lambda: self._caller.store.create_backfill(command))

    def plan_rest(self, backfill: Identity) -> BackfillPlan:
        """Show what a backfill that was called off has left undone, as `plan` shows a span.

        It is what nobody has looked at, from where it stood; by the schedule's rule as it is now.
        """
        return self.plan(**_rest(self._called_off(backfill)))

    @joins
    def resume_from(  # noqa: PLR0913 - each choice is an argument
        self,
        backfill: Identity,
        *,
        reason: str,
        runs: int | None = None,
        per_minute: int | None = None,
        concurrency: int | None = None,
        connection: object | None = None,
    ) -> Backfill:
        """Have another backfill do what one that was called off has left undone.

        It goes as that one did, unless another pace is given, and names it (`resumes`). With
        `runs`, only if its plan still shows as many. Given again, it is the same order.
        """
        require_reason(reason)
        old = self._called_off(backfill)
        identity = UUID(bytes=_follower_id(old))
        known = self._caller.store.get_backfill(old.tenant, BackfillId(identity.bytes))
        if known is not None and known.status is BackfillStatus.CANCELLED:
            problem = f"was gone on with by {identity}, which is cancelled, too"
            raise Conflict("backfill", str(UUID(bytes=old.id)), problem, "go on from that one")
        new = NewBackfill(
            order=old.order,
            per_minute=old.per_minute if per_minute is None else per_minute,
            concurrency=old.concurrency if concurrency is None else concurrency,
            runs=runs,
            reason=reason,
            resumes=old.id,
        )
        return self._create(_rest(old), new, identity)

    def _called_off(self, backfill: Identity) -> BackfillRecord:
        record = self._find(backfill)
        name = str(UUID(bytes=record.id))
        if record.status is BackfillStatus.DONE or record.cursor is None:
            raise Conflict("backfill", name, "has left nothing undone", "make another one")
        if record.status is not BackfillStatus.CANCELLED:
            remedy = "resume it, or cancel it first"
            raise Conflict("backfill", name, f"is {record.status}, not cancelled", remedy)
        return record

    def get(self, backfill: Identity) -> Backfill:
        """Return a backfill by its id."""
        return self._shown(self._find(backfill))

    def _shown(self, record: BackfillRecord) -> Backfill:
        """Show one alone: with the one that it goes on from, as the trail has it."""
        return replace(backfill_view(record), resumes=self._resumes(record))

    def _resumes(self, record: BackfillRecord) -> UUID | None:
        command = AuditFilter(
            tenant=record.tenant, subject_id=record.id, action="backfill.created", limit=1
        )
        for entry in self._caller.store.list_audit(command):
            link = (entry.after or {}).get(RESUMES)
            return None if link is None else UUID(link)
        return None

    def list(self, schedule: Reference | None = None) -> ListedBackfills:
        """Return backfills, newest first; of one schedule, or of all."""
        of = None if schedule is None else find_schedule(self._caller, schedule).record.id
        found = self._caller.store.list_backfills(self._caller.tenant, of, LISTED_MAX)
        return [backfill_view(record) for record in found]

    @joins
    def pause(
        self, backfill: Identity, *, reason: str | None = None, connection: object | None = None
    ) -> Backfill:
        """Make no more runs until it is resumed; those that were made go on."""
        return self._change(backfill, reason, status=BackfillStatus.PAUSED)

    @joins
    def resume(
        self, backfill: Identity, *, reason: str | None = None, connection: object | None = None
    ) -> Backfill:
        """Go on where it stands."""
        return self._change(backfill, reason, status=BackfillStatus.ACTIVE)

    @joins
    def cancel(
        self, backfill: Identity, *, reason: str | None = None, connection: object | None = None
    ) -> Backfill:
        """Make no more runs, for good; those that were made go on."""
        return self._change(backfill, reason, status=BackfillStatus.CANCELLED)

    @joins
    def throttle(  # noqa: PLR0913 - each choice is an argument
        self,
        backfill: Identity,
        *,
        per_minute: int | None = None,
        concurrency: int | None = None,
        reason: str | None = None,
        connection: object | None = None,
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
        return self._shown(found)

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
        record = with_order_span(self._caller.tracing, give, lambda one: backfill_spans(one, name))
        return self._shown(record)


def _rest(record: BackfillRecord) -> dict[str, Any]:
    """Return what a backfill has left undone, as the terms of another one."""
    assert record.cursor is not None, "who has left something stands somewhere"
    span = rest_of(BackfillSpan(record.since, record.until, record.order, record.cursor))
    return {
        "schedule": UUID(bytes=record.schedule_id),
        "since": from_microseconds(span[0]),
        "until": from_microseconds(span[1]),
        "classes": sorted(record.classes),
        "mode": str(record.mode),
    }


def _follower_id(record: BackfillRecord) -> BackfillId:
    """Return the id of what goes on from a backfill: there is one such."""
    draw = blake2b(b"duly.resume-from" + record.id, digest_size=_DRAW_BYTES).digest()
    return backfill_id(record.updated_at, draw)


def _template(seen: ScheduleSnapshot) -> ScheduleVersion:
    record = seen.record
    return ScheduleVersion(record.id, record.definition_number, record.definition)


def _read_span(seen: ScheduleSnapshot, since: Instant, until: Instant) -> tuple[int, int]:
    first, end = read_instant("since", since), read_instant("until", until)
    if end > seen.now:
        remedy = f"end it at {iso_utc(from_microseconds(seen.now))} at the latest"
        raise UsageError("until", str(until), "lies in the future", remedy)
    return first, end


def _read_classes(classes: Iterable[str] | None) -> frozenset[BackfillOccurrenceKind]:
    if classes is None:
        return FILLED
    chosen = frozenset(
        read_choice("classes", one, BackfillOccurrenceKind) for one in one_or_several(classes)
    )
    remedy = f"choose of {', '.join(one for one in BackfillOccurrenceKind if one not in NEVER)}"
    if not chosen:
        raise UsageError("classes", [], "are none", remedy)
    if refused := chosen & NEVER:
        value, problem = ", ".join(sorted(refused)), "can't be made again while they are open"
        raise UsageError("classes", value, problem, remedy)
    return chosen


def _read_number(field: str, value: object, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise UsageError(field, value, "is out of range", f"give a whole number, 1 to {most:,}")
    return value


def _planned(
    slot: Slot, chosen: frozenset[BackfillOccurrenceKind], mode: BackfillMode
) -> PlannedSlot:
    is_kept = mode is BackfillMode.FILL and slot.kind is BackfillOccurrenceKind.SUCCEEDED
    return PlannedSlot(
        from_microseconds(slot.scheduled_for),
        str(slot.kind),
        None if slot.run_id is None else UUID(bytes=slot.run_id),
        slot.reason,
        slot.kind in chosen and not is_kept,
    )
