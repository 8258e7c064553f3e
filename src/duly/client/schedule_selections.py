"""Selections of schedules: those that a filter found, kept as they were seen, to pause or resume.

An order touches each of them only if nobody has changed it since; what is made meanwhile is not in
the set (A1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

from duly.client.frozen_sets import (
    GONE,
    ONE_BY_ONE_MAX,
    SAMPLE_MAX,
    SCHEDULES,
    Chosen,
    Judged,
    Mark,
    find_set,
    freeze_set,
    frozen_view,
    preview_of,
    require_confirmed,
    shown_of,
)
from duly.client.reading import (
    one_or_several,
    read_choice,
    read_instant,
    read_limit,
    require_future,
    require_reason,
)
from duly.client.schedule_orders import find_schedule
from duly.client.schedule_view import schedule_view
from duly.domain.identity import ScheduleId
from duly.domain.literals import Missed, ScheduleStatus
from duly.errors import Conflict, NotFound, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.client.caller import Caller
    from duly.client.frozen_sets import Frozen, Kept, OrderPreview
    from duly.client.reading import Instant
    from duly.client.schedule_orders import Reference
    from duly.client.schedule_view import Schedule
    from duly.client.schedules import Schedules
    from duly.domain.schedules import ScheduleRecord

FITTING = {"pause": ScheduleStatus.ACTIVE, "resume": ScheduleStatus.PAUSED}
"""By order: what a schedule must be,"""
MADE = {"pause": ScheduleStatus.PAUSED, "resume": ScheduleStatus.ACTIVE}
"""and what it is made."""
Carry: TypeAlias = Callable[[UUID, int], "Schedule"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """An order as it is given about each schedule of a set."""

    order: str
    reason: str
    carry: Carry
    until: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderedSchedule:
    """What an order has done to one schedule."""

    id: UUID
    name: str
    """Its id where it is no longer there."""
    is_done: bool
    status: str | None
    """What it is now; None when there is no such schedule."""
    version: int | None
    """At which version it is now."""
    why: str | None = None
    """Why it was left alone."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "id": str(self.id),
            "name": self.name,
            "is_done": self.is_done,
            "status": self.status,
            "version": self.version,
            "why": self.why,
        }


class ScheduleSelections:
    """Selections of an application's schedules, kept for a quarter of an hour."""

    def __init__(self, caller: Caller, schedules: Schedules) -> None:
        self._caller = caller
        self._schedules = schedules

    def freeze(  # noqa: PLR0913 - each filter is an argument
        self,
        *,
        status: str | None = None,
        task: str | None = None,
        owner: str | None = None,
        declared_by: str | None = None,
        name_prefix: str | None = None,
        limit: int | None = None,
        schedules: Sequence[Reference] | None = None,
    ) -> Frozen[Schedule]:
        """Find schedules by the filters of `app.schedules.list`, and keep which and how they are.

        Nothing is done to them. With `limit` the first so many by name; without it more than one
        order takes are refused. With `schedules` it is these, by name or id, whatever else is said.
        """
        now = self._caller.store.now()
        terms: dict[str, Any] = {
            "status": status,
            "task": task,
            "owner": owner,
            "declared_by": declared_by,
            "name_prefix": name_prefix,
        }
        if schedules is None:
            found = self._found(terms, limit)
            terms["limit"] = limit
        else:
            found = self._named(schedules)
            terms = {"schedules": len(found)}
        items = [(one.id.bytes, Mark(one.status, one.version)) for one in found]
        chosen = Chosen(of=SCHEDULES, items=items, terms=terms, as_of=now)
        return frozen_view(freeze_set(self._caller, chosen), found)

    def _found(self, filters: dict[str, Any], limit: int | None) -> list[Schedule]:
        most = ONE_BY_ONE_MAX if limit is None else read_limit(limit, ONE_BY_ONE_MAX)
        page = self._schedules.page(limit=most, **filters)
        if limit is None and page.after is not None:
            remedy = "narrow the filter, or give a limit: the first so many are taken then"
            problem = f"is needed: there are more than {most:,} schedules"
            raise UsageError("limit", None, problem, remedy)
        return page.items

    def _named(self, schedules: object) -> list[Schedule]:
        named = one_or_several(schedules)
        if len(named) > ONE_BY_ONE_MAX:
            problem, remedy = "are more than one order takes", f"split them: {ONE_BY_ONE_MAX:,}"
            given = f"{len(named):,} schedules"
            raise UsageError("schedules", given, problem, f"{remedy} at a time")
        found = (find_schedule(self._caller, one).record for one in named)
        known = {one.id: one for one in map(schedule_view, found)}
        return sorted(known.values(), key=lambda one: (one.name, one.id))

    def get(self, selection: UUID | str) -> Frozen[Schedule]:
        """Return a selection by its id, with the first of its schedules as they are now."""
        kept = self._find(selection)
        first = [self._record(one) for one in kept.ids[:SAMPLE_MAX]]
        return frozen_view(kept, [schedule_view(one) for one in first if one is not None])

    def preview(self, selection: UUID | str, order: str) -> OrderPreview:
        """Say what an order, pause or resume, would do to each of them, if it were given now."""
        if order not in FITTING:
            remedy = f"use one of {', '.join(FITTING)}"
            raise UsageError("order", order, "is not what can be ordered about schedules", remedy)
        kept = self._find(selection)
        seen = [(one, mark, self._record(one)) for one, mark in kept.marked()]
        judged = [_judged(one, mark, record, order) for one, mark, record in seen]
        names = {UUID(bytes=record.id): record.name for _, _, record in seen if record is not None}
        listed = {one.id for part in shown_of(judged) for one in part}
        shown = {key: name for key, name in names.items() if key in listed}
        return preview_of(kept, order, judged, shown)

    def pause(  # noqa: PLR0913 - each choice is an argument
        self,
        selection: UUID | str,
        *,
        reason: str,
        until: Instant | None = None,
        missed: str = "skip",
        confirm: int | None = None,
    ) -> list[OrderedSchedule]:
        """Pause each of its schedules that is active and as it was seen; tell of the others.

        `until` and `missed` are those of `app.schedules.pause`. Given again, what it has done is
        done.
        """
        kept = self._meant(selection, reason, confirm)
        read_choice("missed", missed, Missed)
        until_at = None if until is None else read_instant("until", until)
        if until_at is not None:  # before any of them is touched
            require_future("until", until, until_at, self._caller.store.now())

        def pause(one: UUID, version: int) -> Schedule:
            return self._schedules.pause(
                one, reason=reason, until=until, missed=missed, version=version
            )

        return self._each(kept, Given(order="pause", reason=reason, carry=pause, until=until_at))

    def resume(
        self,
        selection: UUID | str,
        *,
        reason: str,
        missed: str = "skip",
        confirm: int | None = None,
    ) -> list[OrderedSchedule]:
        """Resume each of its schedules that is paused and as it was seen; tell of the others."""
        kept = self._meant(selection, reason, confirm)
        read_choice("missed", missed, Missed)

        def resume(one: UUID, version: int) -> Schedule:
            return self._schedules.resume(one, missed=missed, reason=reason, version=version)

        return self._each(kept, Given(order="resume", reason=reason, carry=resume))

    def _each(self, kept: Kept, given: Given) -> list[OrderedSchedule]:
        return [self._carried(one, mark, given) for one, mark in kept.marked()]

    def _carried(self, one: bytes, mark: Mark, given: Given) -> OrderedSchedule:
        record = self._record(one)
        if record is not None and self._has_done(record, mark, given):
            return _done(schedule_view(record))
        judged = _judged(one, mark, record, given.order)
        if judged.why is not None:
            return self._told(one, judged.why)
        try:
            return _done(given.carry(judged.id, mark.number))
        except (Conflict, UsageError) as error:
            # Somebody was faster by a moment, or its own rule lets it not go on.
            return self._told(one, error.problem)
        except NotFound:
            return self._told(one, GONE)

    def _has_done(self, record: ScheduleRecord, mark: Mark, given: Given) -> bool:
        """Say whether this order has made a schedule what it is: who got no answer asks again."""
        wanted = self._caller.actor, given.reason, MADE[given.order], given.until
        found = record.updated_by, record.reason, record.status, record.resume_at
        return record.version == mark.number + 1 and found == wanted

    def _told(self, one: bytes, why: str) -> OrderedSchedule:
        record, identity = self._record(one), UUID(bytes=one)
        return OrderedSchedule(
            id=identity,
            name=str(identity) if record is None else record.name,
            is_done=False,
            status=None if record is None else str(record.status),
            version=None if record is None else record.version,
            why=why,
        )

    def _meant(self, selection: UUID | str, reason: str, confirm: int | None) -> Kept:
        kept = self._find(selection)
        require_confirmed(kept, confirm)
        require_reason(reason)
        return kept

    def _find(self, selection: UUID | str) -> Kept:
        return find_set(self._caller, SCHEDULES, selection)

    def _record(self, identity: bytes) -> ScheduleRecord | None:
        seen = self._caller.store.get_schedule(ScheduleId(identity))
        is_ours = seen is not None and seen.record.tenant == self._caller.tenant
        return seen.record if seen is not None and is_ours else None


def _done(now: Schedule) -> OrderedSchedule:
    return OrderedSchedule(
        id=now.id, name=now.name, is_done=True, status=now.status, version=now.version
    )


def _judged(one: bytes, mark: Mark, record: ScheduleRecord | None, order: str) -> Judged:
    """Say what a schedule is now, and why an order leaves it alone."""
    identity, wanted = UUID(bytes=one), FITTING[order]
    if record is None:
        return Judged(identity, None, GONE)
    why = None
    if record.version != mark.number:
        why = f"was changed by {record.updated_by} since it was seen"
    elif record.status is not wanted:
        why = f"is {record.status}, not {wanted}"
    return Judged(identity, str(record.status), why)
