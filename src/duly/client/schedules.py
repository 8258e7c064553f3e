"""Create, edit, pause, resume, delete, restore, trigger; list, get, preview."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from duly.client.caller import joins
from duly.client.enqueue import add_runs, read_order_id
from duly.client.last_ends import endings_view
from duly.client.parameters import (
    read_choice,
    read_instant,
    read_key,
    read_limit,
    read_looked_for,
    read_name,
    read_owner,
    read_reason,
    require_at_most,
    require_future,
)
from duly.client.schedule_history import (
    HistoryEntry,
    Occurrence,
    OwedRange,
    SkippedRange,
    read_history,
    read_many_occurrences,
    read_occurrences,
    read_owed,
    read_skips,
)
from duly.client.schedule_orders import (
    EDITABLE,
    NewSchedule,
    ScheduleOrder,
    ScheduleSpec,
    apply_order,
    create_schedule,
    decide_new,
    edited_definition,
    find_schedule,
    list_records,
    read_definition,
    read_timetable,
)
from duly.client.schedule_view import Schedule, schedule_view
from duly.domain.enums import Lane, Missed, Origin, Overlap, ScheduleStatus
from duly.domain.ids import ScheduleId, ordered_run_id
from duly.domain.schedule_changes import (
    ScheduleChange,
    decide_delete,
    decide_pause,
    decide_restore,
    decide_resume,
    decide_skip_next,
)
from duly.domain.vitals import NO_ENDS, RUN_TIMES_LOOKED_AT, run_times
from duly.domain.vitals import RUNS_LOOKED_AT as ENDS_LOOKED_AT
from duly.domain.vitals import RUNS_LOOKED_AT_EACH as ENDS_LOOKED_AT_EACH
from duly.errors import Conflict, UsageError
from duly.store.ports.queries import PAGE_MAX, ScheduleFilter, ScheduleSnapshot
from duly.store.ports.schedules import NewRun
from duly.timetable.combinators import zone_of
from duly.timetable.instants import from_microseconds
from duly.timetable.preview import Preview, preview

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

    from duly.client.caller import Caller
    from duly.client.parameters import Delay, Instant
    from duly.client.run_view import EnqueuedRun
    from duly.client.schedule_orders import Decide, Reference
    from duly.client.tasks import AnyTask, BoundCall
    from duly.domain.ids import RunId
    from duly.domain.policies import Misfire
    from duly.domain.schedules import ScheduleRecord
    from duly.timetable.timetable import Timetable

    Place = tuple[str, UUID]


# A class that has a method `list` can't name the type below it.
ListedSchedules = list[Schedule]
Entries = list[HistoryEntry]
Occurrences = list[Occurrence]
OwedRanges = list[OwedRange]
SkippedRanges = list[SkippedRange]
TIMED_MAX = 500
"""How many schedules of a list tell their run times: for each, coming occurrences are looked at."""
SPANS_MAX = 100
"""So many schedules are asked about their occurrences at once,"""
OCCURRENCES_EACH_MAX = 300
"""and of each the newest so many."""
SEVERAL_MAX = 200
"""So many schedules are named at once."""
_FILTERS = ("status", "task", "owner", "declared_by", "name_prefix")


class SchedulePage(NamedTuple):
    """A part of the schedules there are, and after which one the next part begins."""

    items: ListedSchedules
    after: Place | None


class ScheduleQueries:
    """The part of `app.schedules` that changes nothing."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def get(self, schedule: Reference) -> Schedule:
        """Return a schedule by its id or name; a deleted one too, as long as it is kept."""
        seen = self._seen(schedule)
        timed = self._timed([schedule_view(seen.record)], seen.now)
        return self._ended(timed, ENDS_LOOKED_AT)[0]

    def list(  # noqa: PLR0913 - each filter is an argument
        self,
        *,
        status: str | None = None,
        task: str | None = None,
        owner: str | None = None,
        declared_by: str | None = None,
        name_prefix: str | None = None,
        include_deleted: bool = False,
        with_run_times: bool = False,
        with_last_ends: bool = False,
    ) -> ListedSchedules:
        """Return schedules in order of name; deleted ones when asked for.

        With run times the first few hundred tell how long their runs take, as one by `get` does;
        with last ends they tell when they last succeeded, were verified, and went wrong.
        """
        command = self._filter(
            {
                "status": status,
                "task": task,
                "owner": owner,
                "declared_by": declared_by,
                "name_prefix": name_prefix,
            },
            include_deleted=include_deleted,
        )
        found = [schedule_view(one) for one in list_records(self._caller, command)]
        told, others = found[:TIMED_MAX], found[TIMED_MAX:]
        if with_run_times:
            told = self._timed(told, self._caller.store.now())
        if with_last_ends:
            told = self._ended(told, ENDS_LOOKED_AT_EACH)
        return told + others

    def page(  # noqa: PLR0913 - as above
        self,
        *,
        after: Place | None = None,
        limit: int = PAGE_MAX,
        with_run_times: bool = False,
        with_last_ends: bool = False,
        include_deleted: bool = False,
        **filters: str | None,
    ) -> SchedulePage:
        """Return a page of what `list` returns by the same filters, and where the next begins."""
        most = read_limit(limit, PAGE_MAX)
        tenant = self._caller.tenant
        place = None if after is None else (tenant, after[0], ScheduleId(after[1].bytes))
        command = self._filter(filters, include_deleted=include_deleted)
        # One more than is asked for tells whether there is a next page.
        records = self._caller.store.list_schedules(replace(command, after=place, limit=most + 1))
        found = [schedule_view(one) for one in records[:most]]
        last = found[-1] if len(records) > most else None
        if with_run_times:
            found = self._timed(found, self._caller.store.now())
        if with_last_ends:
            found = self._ended(found, ENDS_LOOKED_AT_EACH)
        return SchedulePage(found, None if last is None else (last.name, last.id))

    def several(self, *, ids: Sequence[UUID] = (), names: Sequence[str] = ()) -> ListedSchedules:
        """Return those schedules that go by some ids or names, in order of name.

        Deleted ones are left out, and those that are not of this tenant.
        """
        require_at_most("schedules", len(ids) + len(names), SEVERAL_MAX)
        store, tenant = self._caller.store, self._caller.tenant
        found = store.get_schedules([ScheduleId(one.bytes) for one in ids]) if ids else {}
        if names:
            named = ScheduleFilter(tenant=tenant, names=frozenset(names))
            found |= {one.id: one for one in store.list_schedules(named)}
        own = [
            one
            for one in found.values()
            if one.tenant == tenant and one.status is not ScheduleStatus.DELETED
        ]
        return [schedule_view(one) for one in sorted(own, key=lambda one: (one.name, one.id))]

    def _filter(self, given: Mapping[str, str | None], *, include_deleted: bool) -> ScheduleFilter:
        unknown = sorted(set(given) - set(_FILTERS))
        if unknown:
            remedy = f"use {', '.join(_FILTERS)}"
            raise UsageError(unknown[0], given[unknown[0]], "is not a filter", remedy)
        statuses = frozenset(ScheduleStatus) if include_deleted else None
        if given.get("status") is not None:
            statuses = frozenset({read_choice("status", given["status"], ScheduleStatus)})
        return ScheduleFilter(
            tenant=self._caller.tenant,
            statuses=statuses,
            task=read_looked_for("task", given.get("task")),
            owner=read_looked_for("owner", given.get("owner")),
            declared_by=read_looked_for("declared_by", given.get("declared_by")),
            name_prefix=read_looked_for("name_prefix", given.get("name_prefix")),
        )

    def history(self, schedule: Reference, *, limit: int = PAGE_MAX) -> Entries:
        """Return who did what to it, newest first."""
        return read_history(self._caller, self._seen(schedule).record, limit)

    def owed(self, schedule: Reference, *, limit: int = PAGE_MAX) -> OwedRanges:
        """Return the ranges of occurrences that it still owes, oldest first."""
        return read_owed(self._caller, self._seen(schedule).record.id, limit)

    def skips(self, schedule: Reference, *, limit: int = PAGE_MAX) -> SkippedRanges:
        """Return the ranges of occurrences that were skipped, newest first, with the reason."""
        return read_skips(self._caller, self._seen(schedule).record.id, limit)

    def occurrences(self, schedule: Reference, start: Instant, end: Instant) -> Occurrences:
        """Return what became of each expected occurrence from `start` on, before `end`."""
        span = read_instant("start", start), read_instant("end", end)
        return read_occurrences(self._caller, self._seen(schedule), span)

    def many_occurrences(
        self, spans: Mapping[UUID, tuple[Instant, Instant]], *, most: int = OCCURRENCES_EACH_MAX
    ) -> dict[UUID, Occurrences]:
        """Return what became of each occurrence of several schedules, by their ids.

        From an instant on and before another for each; of more than `most`, the newest. Schedules
        that are not of this tenant are left out.
        """
        require_at_most("spans", len(spans), SPANS_MAX)
        asked = {
            ScheduleId(one.bytes): (read_instant("start", start), read_instant("end", end))
            for one, (start, end) in spans.items()
        }
        found = read_many_occurrences(self._caller, asked, read_limit(most, OCCURRENCES_EACH_MAX))
        return {UUID(bytes=one): listed for one, listed in found.items()}

    def preview(self, timetable: Timetable, after: Instant | None = None, n: int = 3) -> Preview:
        """Show what a timetable would do next: local time, zone and UTC."""
        shown = read_timetable(timetable)
        at = self._caller.store.now() if after is None else read_instant("after", after)
        return preview(shown, from_microseconds(at), n)

    def _timed(self, schedules: ListedSchedules, now: int) -> ListedSchedules:
        """Return schedules with how long their runs take."""
        ids = [ScheduleId(one.id.bytes) for one in schedules]
        spans = self._caller.store.list_run_times(ids, RUN_TIMES_LOOKED_AT)
        moment = from_microseconds(now)
        return [
            replace(one, run_times=run_times(one.timetable, spans.get(key, []), moment, now))
            for one, key in zip(schedules, ids, strict=True)
        ]

    def _ended(self, schedules: ListedSchedules, looked_at: int) -> ListedSchedules:
        """Return schedules with how their newest runs ended."""
        ids = [ScheduleId(one.id.bytes) for one in schedules]
        ends = self._caller.store.list_last_ends(ids, looked_at)
        return [
            # One that was removed meanwhile is told as it was.
            replace(one, last_ends=endings_view(ends.get(key, NO_ENDS)))
            for one, key in zip(schedules, ids, strict=True)
        ]

    def _seen(self, schedule: Reference) -> ScheduleSnapshot:
        return find_schedule(self._caller, schedule)


_NONCE_BYTES = 16


class Schedules(ScheduleQueries):
    """The schedules of an application: make, look at, change, stop and bring them back."""

    @joins
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
        return schedule_view(create_schedule(self._caller, new).record)

    @joins
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
        connection: object | None = None,
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

        def decide(record: ScheduleRecord, now: int) -> ScheduleChange | None:
            definition = edited_definition(record.definition, changes, new_name or record.name)
            wanted = ScheduleSpec(definition, new_name, new_owner, reason=read_reason(reason))
            return decide_new(self._caller, record, wanted, now)

        return self._order(schedule, decide, version=version, reason=reason)

    @joins
    def pause(  # noqa: PLR0913 - each choice is an argument
        self,
        schedule: Reference,
        *,
        reason: str | None = None,
        until: Instant | None = None,
        missed: str = "skip",
        version: int | None = None,
        connection: object | None = None,
    ) -> Schedule:
        """Stop it and keep everything; with `until` it resumes by itself.

        `missed` says what becomes of its occurrences then: `skip`, or by the `misfire` policy. With
        `version`, as every order about a schedule, only if nobody was faster.
        """
        until_at = None if until is None else read_instant("until", until)
        choice = read_choice("missed", missed, Missed)

        def decide(record: ScheduleRecord, now: int) -> ScheduleChange:
            if until_at is not None:
                require_future("until", until, until_at, now)
            return decide_pause(record, reason=read_reason(reason), until=until_at, missed=choice)

        return self._order(schedule, decide, version=version, reason=reason)

    @joins
    def resume(  # noqa: PLR0913 - each choice is an argument
        self,
        schedule: Reference,
        *,
        missed: str = "skip",
        reason: str | None = None,
        version: int | None = None,
        connection: object | None = None,
    ) -> Schedule:
        """Go on: `skip` what fell into the pause, or treat it by the `misfire` policy."""
        choice = read_choice("missed", missed, Missed)
        return self._order(
            schedule,
            lambda record, now: decide_resume(record, now, choice, read_reason(reason)),
            version=version,
            reason=reason,
        )

    @joins
    def delete(
        self,
        schedule: Reference,
        *,
        reason: str | None = None,
        version: int | None = None,
        connection: object | None = None,
    ) -> Schedule:
        """Stop it at once and give up what it owes; it can be restored for a while."""
        return self._order(
            schedule,
            lambda record, _now: decide_delete(record, read_reason(reason)),
            version=version,
            reason=reason,
        )

    @joins
    def restore(
        self,
        schedule: Reference,
        *,
        reason: str | None = None,
        version: int | None = None,
        connection: object | None = None,
    ) -> Schedule:
        """Bring back a deleted one; what fell in between is recorded as skipped."""
        return self._order(
            schedule,
            lambda record, now: decide_restore(record, now, read_reason(reason)),
            version=version,
            reason=reason,
        )

    @joins
    def skip_next(
        self,
        schedule: Reference,
        *,
        reason: str | None = None,
        version: int | None = None,
        connection: object | None = None,
    ) -> Schedule:
        """Skip the one pending occurrence, on record."""
        return self._order(
            schedule,
            lambda record, _now: decide_skip_next(record, read_reason(reason)),
            version=version,
            reason=reason,
        )

    @joins
    def trigger(  # noqa: PLR0913 - each choice is an argument
        self,
        schedule: Reference,
        *,
        reason: str | None = None,
        key: str | None = None,
        overlap: str | None = None,
        id: UUID | None = None,  # noqa: A002 - as `enqueue` has it
        connection: object | None = None,
    ) -> EnqueuedRun:
        """Run it now, besides its timetable: also while it is paused, not when it is deleted.

        While an earlier run is open its overlap policy holds for this one as well; `overlap` is
        another policy for this one run, on record; a Conflict if it would be skipped. The
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

    def _manual_id(self, seen: ScheduleSnapshot) -> RunId:
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
        return schedule_view(
            apply_order(self._caller, seen, decide, ScheduleOrder(version, reason))
        )
