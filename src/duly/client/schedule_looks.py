"""Looking at schedules: one or many, what became of their occurrences, and what a rule means."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from duly.client.definitions import (
    read_timetable,
)
from duly.client.history import (
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
from duly.client.last_ends import endings_view
from duly.client.reading import (
    read_choice,
    read_instant,
    read_limit,
    read_looked_for,
    require_at_most,
)
from duly.client.schedule_orders import (
    find_schedule,
    list_records,
)
from duly.client.schedule_view import Schedule, schedule_view
from duly.domain.identity import ScheduleId
from duly.domain.instants import from_microseconds
from duly.domain.last_ends import NO_ENDS
from duly.domain.last_ends import RUNS_LOOKED_AT as ENDS_LOOKED_AT
from duly.domain.last_ends import RUNS_LOOKED_AT_EACH as ENDS_LOOKED_AT_EACH
from duly.domain.literals import ScheduleStatus
from duly.domain.run_times import RUNS_LOOKED_AT, run_times
from duly.domain.timetable.preview import Preview, preview
from duly.errors import UsageError
from duly.store.reading import PAGE_MAX, ScheduleFilter, Seen

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duly.client.caller import Caller
    from duly.client.reading import Instant
    from duly.client.schedule_orders import Reference
    from duly.domain.timetable.timetable import Timetable

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


class ScheduleLooks:
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
        """Show what a timetable would do next: local time, zone and UTC (T5)."""
        shown = read_timetable(timetable)
        at = self._caller.store.now() if after is None else read_instant("after", after)
        return preview(shown, from_microseconds(at), n)

    def _timed(self, schedules: ListedSchedules, now: int) -> ListedSchedules:
        """Return schedules with how long their runs take."""
        ids = [ScheduleId(one.id.bytes) for one in schedules]
        spans = self._caller.store.list_run_times(ids, RUNS_LOOKED_AT)
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

    def _seen(self, schedule: Reference) -> Seen:
        return find_schedule(self._caller, schedule)
