"""Schedules over HTTP: make, look at, change, stop and bring them back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

import msgspec

from duly.api.handlers.parts import look, order, whole
from duly.api.requests import (
    is_rule_given,
    read_count,
    read_cursor,
    read_limit,
    read_rule,
    require_version,
    write_cursor,
)
from duly.api.route import ApiResponse
from duly.client.parameters import read_name
from duly.client.schedule_orders import POLICIES
from duly.interface import schedules as wire
from duly.interface.runs import EnqueuedRun, ReasonBody
from duly.interface.shapes import Page

if TYPE_CHECKING:
    from duly.api.route import ApiRequest, Route
    from duly.client.schedule_view import Schedule

ONE = "/schedules/{schedule}"
UPCOMING_SHOWN = 3


def list_schedules(received: ApiRequest) -> Page[wire.Schedule]:
    """List schedules in order of name."""
    asked: wire.SchedulesAsked = received.query
    page = received.app.schedules.page(
        status=asked.status,
        task=asked.task,
        owner=asked.owner,
        declared_by=asked.declared_by,
        name_prefix=asked.name_prefix,
        include_deleted=asked.include_deleted,
        with_run_times=asked.with_run_times,
        with_last_ends=asked.with_last_ends,
        after=read_cursor(asked.cursor, tuple[str, UUID]),
        limit=read_limit(asked.limit),
    )
    next_cursor = None if page.after is None else write_cursor(*page.after)
    return Page(items=[wire.Schedule.from_view(one) for one in page.items], next_cursor=next_cursor)


def create_schedule(received: ApiRequest) -> ApiResponse:
    """Make a schedule: it owes a run of a task at every occurrence of a rule."""
    asked: wire.NewSchedule = received.body
    made = received.app.schedules.create(
        asked.name,
        received.app.call(asked.task, asked.arguments),
        read_rule(asked, read_name(asked.name)),
        owner=asked.owner,
        **_policies(asked),
    )
    return _planned(made)


def get_schedule(received: ApiRequest) -> ApiResponse:
    """Look at a schedule, by its name or id."""
    return _shown(received.app.schedules.get(_reference(received)))


def edit_schedule(received: ApiRequest) -> ApiResponse:
    """Change what is given and keep the rest, unless somebody else was faster."""
    asked: wire.ScheduleEdit = received.body
    version = require_version(received.version, asked.version, is_any=received.is_any_version)
    changes: dict[str, Any] = _policies(asked)
    schedules = received.app.schedules
    if is_rule_given(asked) or asked.task is not None or asked.arguments is not None:
        before = schedules.get(_reference(received))
        if is_rule_given(asked):
            changes["timetable"] = read_rule(asked, asked.name or before.name)
        if asked.task is not None or asked.arguments is not None:
            arguments = before.arguments if asked.arguments is None else asked.arguments
            changes["call"] = received.app.call(asked.task or before.task, arguments)
            # The queue and the priority are the schedule's own, unless they are given too.
            changes = {"queue": before.queue, "priority": before.priority, **changes}
    edited = schedules.edit(
        _reference(received),
        version=version,
        name=asked.name,
        owner=asked.owner,
        reason=asked.reason,
        **changes,
    )
    return _planned(edited)


def delete_schedule(received: ApiRequest) -> ApiResponse:
    """Stop a schedule at once and give up what it owes; it can be restored for a while."""
    asked: ReasonBody = received.query
    return _shown(
        received.app.schedules.delete(
            _reference(received), reason=asked.reason, version=received.version
        )
    )


def pause_schedule(received: ApiRequest) -> ApiResponse:
    """Stop a schedule and keep everything."""
    asked: wire.Pause = received.body
    paused = received.app.schedules.pause(
        _reference(received),
        reason=asked.reason,
        until=asked.until,
        missed=asked.missed,
        version=received.version,
    )
    return _shown(paused)


def resume_schedule(received: ApiRequest) -> ApiResponse:
    """Let a paused schedule go on."""
    asked: wire.Resume = received.body
    resumed = received.app.schedules.resume(
        _reference(received), missed=asked.missed, reason=asked.reason, version=received.version
    )
    return _shown(resumed)


def restore_schedule(received: ApiRequest) -> ApiResponse:
    """Bring back a deleted schedule."""
    asked: ReasonBody = received.body
    return _shown(
        received.app.schedules.restore(
            _reference(received), reason=asked.reason, version=received.version
        )
    )


def skip_schedule(received: ApiRequest) -> ApiResponse:
    """Skip the one pending occurrence, on record."""
    asked: ReasonBody = received.body
    return _shown(
        received.app.schedules.skip_next(
            _reference(received), reason=asked.reason, version=received.version
        )
    )


def trigger_schedule(received: ApiRequest) -> EnqueuedRun:
    """Run a schedule now, besides its timetable."""
    asked: wire.Trigger = received.body
    made = received.app.schedules.trigger(
        _reference(received),
        reason=asked.reason,
        key=asked.key,
        overlap=asked.overlap,
        id=received.order_id(),
    )
    return EnqueuedRun.from_view(made)


def get_schedule_history(received: ApiRequest) -> Page[wire.Entry]:
    """Tell who did what to a schedule, newest first."""
    limit = read_limit(received.query.limit)
    found = received.app.schedules.history(_reference(received), limit=limit)
    return whole(wire.Entry, found)


def get_schedule_occurrences(received: ApiRequest) -> Page[wire.Occurrence]:
    """Tell what became of each expected occurrence of a schedule."""
    asked: wire.OccurrencesAsked = received.query
    found = received.app.schedules.occurrences(_reference(received), asked.start, asked.end)
    return whole(wire.Occurrence, found)


def get_schedule_owed(received: ApiRequest) -> Page[wire.OwedRange]:
    """Tell the ranges of occurrences that a schedule still owes, oldest first."""
    return whole(wire.OwedRange, received.app.schedules.owed(_reference(received)))


def get_schedule_skips(received: ApiRequest) -> Page[wire.SkippedRange]:
    """Tell the ranges of occurrences of a schedule that were skipped, newest first."""
    limit = read_limit(received.query.limit)
    return whole(wire.SkippedRange, received.app.schedules.skips(_reference(received), limit=limit))


def get_schedule_next(received: ApiRequest) -> Page[wire.PreviewedOccurrence]:
    """Tell the next occurrences of a schedule, in local time and UTC."""
    count = read_count(received.query.count)
    found = received.app.schedules.get(_reference(received)).upcoming(count)
    return whole(wire.PreviewedOccurrence, found)


def preview_rule(received: ApiRequest) -> wire.Preview:
    """Show what a rule means and when it fires; nothing is stored."""
    asked: wire.PreviewAsked = received.body
    timetable = read_rule(asked, asked.name)
    shown = received.app.schedules.preview(timetable, asked.after, read_count(asked.count))
    return wire.Preview.from_view(shown)


def _policies(asked: wire.Policies) -> dict[str, Any]:
    """Return the policies that are given."""
    found = {name: value for name in POLICIES if (value := getattr(asked, name)) is not None}
    if isinstance(found.get("misfire"), wire.MisfirePolicy):
        found["misfire"] = msgspec.to_builtins(found["misfire"])
    return found


def _reference(received: ApiRequest) -> str:
    return received.path["schedule"]


def _planned(schedule: Schedule) -> ApiResponse:
    """Show a schedule that was made or edited, with when it runs next."""
    coming = [one.to_json() for one in schedule.upcoming(UPCOMING_SHOWN)]
    told = {**schedule.to_json(), "upcoming": coming}
    return ApiResponse(value=msgspec.convert(told, wire.PlannedSchedule), version=schedule.version)


def _shown(schedule: Schedule) -> ApiResponse:
    return ApiResponse(value=wire.Schedule.from_view(schedule), version=schedule.version)


_VERSIONED = {"is_idempotent": True, "has_version": True}
ROUTES: tuple[Route, ...] = (
    look("/schedules", list_schedules, Page[wire.Schedule], wire.SchedulesAsked),
    order("/schedules", create_schedule, wire.NewSchedule, wire.PlannedSchedule, status=201),
    look(ONE, get_schedule, wire.Schedule),
    order(
        ONE,
        edit_schedule,
        wire.ScheduleEdit,
        wire.PlannedSchedule,
        method="PATCH",
        is_body_optional=False,
        errors=frozenset({428}),
        **_VERSIONED,
    ),
    order(
        "/schedules/preview",
        preview_rule,
        wire.PreviewAsked,
        wire.Preview,
        scope="read",
        is_body_optional=False,
        errors=frozenset(),
        is_idempotent=False,
    ),
    order(
        ONE, delete_schedule, None, wire.Schedule, method="DELETE", query=ReasonBody, **_VERSIONED
    ),
    order(f"{ONE}/pause", pause_schedule, wire.Pause, wire.Schedule, **_VERSIONED),
    order(f"{ONE}/resume", resume_schedule, wire.Resume, wire.Schedule, **_VERSIONED),
    order(f"{ONE}/restore", restore_schedule, ReasonBody, wire.Schedule, **_VERSIONED),
    order(f"{ONE}/skip", skip_schedule, ReasonBody, wire.Schedule, is_once_only=True, **_VERSIONED),
    order(
        f"{ONE}/trigger", trigger_schedule, wire.Trigger, EnqueuedRun, scope="trigger", status=201
    ),
    look(f"{ONE}/history", get_schedule_history, Page[wire.Entry], wire.NewestAsked),
    look(
        f"{ONE}/occurrences", get_schedule_occurrences, Page[wire.Occurrence], wire.OccurrencesAsked
    ),
    look(f"{ONE}/owed", get_schedule_owed, Page[wire.OwedRange]),
    look(f"{ONE}/skips", get_schedule_skips, Page[wire.SkippedRange], wire.NewestAsked),
    look(f"{ONE}/next", get_schedule_next, Page[wire.PreviewedOccurrence], wire.NextAsked),
)
