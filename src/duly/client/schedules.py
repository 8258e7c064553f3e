"""Schedules in a program's hands: make, look at, change, stop and bring them back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.client.definitions import (
    EDITABLE,
    edited_definition,
    read_definition,
)
from duly.client.ordering import add_runs, read_order_id
from duly.client.reading import (
    read_choice,
    read_instant,
    read_key,
    read_name,
    read_owner,
    read_reason,
    require_future,
)
from duly.client.schedule_looks import ScheduleLooks
from duly.client.schedule_orders import (
    NewSchedule,
    Order,
    Wanted,
    apply_order,
    create_schedule,
    decide_new,
)
from duly.client.schedule_view import Schedule, schedule_view
from duly.domain.identity import ordered_run_id
from duly.domain.literals import Lane, Missed, Origin, Overlap, ScheduleStatus
from duly.domain.planning import (
    Change,
    decide_delete,
    decide_pause,
    decide_restore,
    decide_resume,
    decide_skip_next,
)
from duly.domain.timetable.combined import zone_of
from duly.errors import Conflict, UsageError
from duly.store.planning import NewRun

if TYPE_CHECKING:
    from datetime import timedelta
    from uuid import UUID

    from duly.client.reading import Delay, Instant
    from duly.client.run_view import EnqueuedRun
    from duly.client.schedule_orders import Decide, Reference
    from duly.client.tasks import AnyTask, BoundCall
    from duly.domain.identity import RunId
    from duly.domain.misfire import Misfire
    from duly.domain.schedules import ScheduleRecord
    from duly.domain.timetable.timetable import Timetable
    from duly.store.reading import Seen

_NONCE_BYTES = 16


class Schedules(ScheduleLooks):
    """The schedules of an application: make, look at, change, stop and bring them back."""

    def create(  # noqa: PLR0913 - a schedule has that many choices, each with its default
        self,
        name: str,
        call: BoundCall | AnyTask,
        timetable: Timetable,
        *,
        preset: str | None = None,
        misfire: str | Misfire | None = None,
        jitter: Delay | None = None,
        overlap: str | None = None,
        serialize_by: str | None = None,
        owner: str | None = None,
        queue: str | None = None,
        priority: int | None = None,
        connection: object | None = None,
    ) -> Schedule:
        """Make a schedule; durable, with its first instant pending, when this returns.

        The same schedule made again is the same one. Another one of that name is a Conflict. A
        `preset` names the policies of a kind of work; those that are given win over it.
        """
        policies = {
            "preset": preset,
            "misfire": misfire,
            "jitter": jitter,
            "overlap": overlap,
            "serialize_by": serialize_by,
            "queue": queue,
            "priority": priority,
        }
        known_as = read_name(name)
        new = NewSchedule(
            name=known_as,
            definition=read_definition(call, timetable, policies, known_as),
            owner=read_owner(owner),
        )
        return schedule_view(create_schedule(self._caller, new, connection).record)

    def edit(  # noqa: PLR0913 - as above
        self,
        schedule: Reference,
        *,
        version: int | None = None,
        call: BoundCall | AnyTask | None = None,
        timetable: Timetable | None = None,
        preset: str | None = None,
        misfire: str | Misfire | None = None,
        jitter: str | timedelta | None = None,
        overlap: str | None = None,
        serialize_by: str | None = None,
        queue: str | None = None,
        priority: int | None = None,
        name: str | None = None,
        owner: str | None = None,
        reason: str | None = None,
    ) -> Schedule:
        """Change what is given and keep the rest; with `version`, only if nobody was faster.

        What fell due before the edit stays owed by the old definition. The preset "none" takes the
        name of one away, and leaves its policies.
        """
        given = {
            "preset": preset,
            "call": call,
            "timetable": timetable,
            "misfire": misfire,
            "jitter": jitter,
            "overlap": overlap,
            "serialize_by": serialize_by,
            "queue": queue,
            "priority": priority,
        }
        changes = {key: value for key, value in given.items() if value is not None}
        if not changes and name is None and owner is None:
            remedy = f"give one of {', '.join(EDITABLE)}"
            raise UsageError("edit", str(schedule), "is asked to change nothing", remedy)
        new_name = None if name is None else read_name(name)
        new_owner = read_owner(owner)

        def decide(record: ScheduleRecord, now: int) -> Change | None:
            definition = edited_definition(record.definition, changes, new_name or record.name)
            wanted = Wanted(definition, new_name, new_owner, reason=read_reason(reason))
            return decide_new(self._caller, record, wanted, now)

        return self._order(schedule, decide, version=version, reason=reason)

    def pause(  # noqa: PLR0913 - each choice is an argument
        self,
        schedule: Reference,
        *,
        reason: str | None = None,
        until: Instant | None = None,
        missed: str = "skip",
        version: int | None = None,
    ) -> Schedule:
        """Stop it and keep everything; with `until` it resumes by itself.

        `missed` says what becomes of its occurrences then: `skip`, or by the `misfire` policy. With
        `version`, as every order about a schedule, only if nobody was faster.
        """
        until_at = None if until is None else read_instant("until", until)
        choice = read_choice("missed", missed, Missed)

        def decide(record: ScheduleRecord, now: int) -> Change:
            if until_at is not None:
                require_future("until", until, until_at, now)
            return decide_pause(record, reason=read_reason(reason), until=until_at, missed=choice)

        return self._order(schedule, decide, version=version, reason=reason)

    def resume(
        self,
        schedule: Reference,
        *,
        missed: str = "skip",
        reason: str | None = None,
        version: int | None = None,
    ) -> Schedule:
        """Go on: `skip` what fell into the pause, or treat it by the `misfire` policy."""
        choice = read_choice("missed", missed, Missed)
        return self._order(
            schedule,
            lambda record, now: decide_resume(record, now, choice, read_reason(reason)),
            version=version,
            reason=reason,
        )

    def delete(
        self, schedule: Reference, *, reason: str | None = None, version: int | None = None
    ) -> Schedule:
        """Stop it at once and give up what it owes; it can be restored for a while."""
        return self._order(
            schedule,
            lambda record, _now: decide_delete(record, read_reason(reason)),
            version=version,
            reason=reason,
        )

    def restore(
        self, schedule: Reference, *, reason: str | None = None, version: int | None = None
    ) -> Schedule:
        """Bring back a deleted one; what fell in between is recorded as skipped."""
        return self._order(
            schedule,
            lambda record, now: decide_restore(record, now, read_reason(reason)),
            version=version,
            reason=reason,
        )

    def skip_next(
        self, schedule: Reference, *, reason: str | None = None, version: int | None = None
    ) -> Schedule:
        """Skip the one pending occurrence, on record."""
        return self._order(
            schedule,
            lambda record, _now: decide_skip_next(record, read_reason(reason)),
            version=version,
            reason=reason,
        )

    def trigger(  # noqa: PLR0913 - each choice is an argument
        self,
        schedule: Reference,
        *,
        reason: str | None = None,
        key: str | None = None,
        overlap: str | None = None,
        id: UUID | None = None,  # noqa: A002 - as `enqueue` has it
    ) -> EnqueuedRun:
        """Run it now, besides its timetable: also while it is paused, not when it is deleted.

        While an earlier run is open its overlap policy holds for this one as well; `overlap` is
        another policy for this one run, on record (O3); a Conflict if it would be skipped. The
        same `id` given again is the same order.
        """
        seen = self._seen(schedule)
        record = seen.record
        if record.status is ScheduleStatus.DELETED:
            raise Conflict("schedule", record.name, "is deleted", "restore it first")
        run = NewRun(
            id=self._manual_id(seen) if id is None else read_order_id(id),
            tenant=self._caller.tenant,
            call=record.definition.call,
            origin=Origin.MANUAL,
            lane=Lane.LIVE,
            due_at=None,
            key=read_key(key),
            schedule_id=record.id,
            definition_number=record.definition_number,
            overlap=None if overlap is None else read_choice("overlap", overlap, Overlap),
            is_drawn=id is None,
        )
        made = add_runs(self._caller, [run], reason=reason)[0]
        return made.called(record.name, zone_of(record.definition.timetable))

    def _manual_id(self, seen: Seen) -> RunId:
        nonce = self._caller.draws.draw(_NONCE_BYTES)
        return ordered_run_id("manual", seen.now, nonce, seen.record.id)

    def _order(
        self,
        schedule: Reference,
        decide: Decide,
        *,
        version: int | None = None,
        reason: str | None = None,
    ) -> Schedule:
        seen = self._seen(schedule)
        return schedule_view(apply_order(self._caller, seen, decide, Order(version, reason)))
