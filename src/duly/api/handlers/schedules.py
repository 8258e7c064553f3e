"""Schedules over HTTP: make, look at, change, stop and bring them back."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import msgspec

from duly.api.handlers.parts import whole
from duly.api.reading import read_cursor, read_limit, require_version, write_cursor
from duly.api.route import Answer, Received, Route
from duly.api.rules import is_rule_given, read_count, read_rule
from duly.client.definitions import POLICIES
from duly.client.reading import read_name
from duly.wire import schedules as wire
from duly.wire.runs import Because, EnqueuedRun
from duly.wire.shapes import Page

if TYPE_CHECKING:
    from duly.client.schedule_view import Schedule

ONE = "/schedules/{schedule}"
UPCOMING_SHOWN = 3


def list_schedules(received: Received) -> Page[wire.Schedule]:
    """Return schedules in order of name, a page at a time."""
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


def create_schedule(received: Received) -> Answer:
    """Make a schedule; the same one made again is the same one."""
    asked: wire.NewSchedule = received.body
    made = received.app.schedules.create(
        asked.name,
        received.app.call(asked.task, asked.arguments),
        read_rule(asked, read_name(asked.name)),
        owner=asked.owner,
        **_policies(asked),
    )
    return _planned(received, made)


def get_schedule(received: Received) -> Answer:
    """Return a schedule by its name or id."""
    return _shown(received.app.schedules.get(_reference(received)))


def edit_schedule(received: Received) -> Answer:
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
    return _planned(received, edited)


def delete_schedule(received: Received) -> Answer:
    """Stop it at once; it can be restored for a while."""
    asked: Because = received.query
    return _shown(
        received.app.schedules.delete(
            _reference(received), reason=asked.reason, version=received.version
        )
    )


def pause_schedule(received: Received) -> Answer:
    """Stop it and keep everything."""
    asked: wire.Pause = received.body
    paused = received.app.schedules.pause(
        _reference(received),
        reason=asked.reason,
        until=asked.until,
        missed=asked.missed,
        version=received.version,
    )
    return _shown(paused)


def resume_schedule(received: Received) -> Answer:
    """Let it go on."""
    asked: wire.Resume = received.body
    resumed = received.app.schedules.resume(
        _reference(received), missed=asked.missed, reason=asked.reason, version=received.version
    )
    return _shown(resumed)


def restore_schedule(received: Received) -> Answer:
    """Bring back a deleted one."""
    asked: Because = received.body
    return _shown(
        received.app.schedules.restore(
            _reference(received), reason=asked.reason, version=received.version
        )
    )


def skip_schedule(received: Received) -> Answer:
    """Skip the one pending occurrence, on record."""
    asked: Because = received.body
    return _shown(
        received.app.schedules.skip_next(
            _reference(received), reason=asked.reason, version=received.version
        )
    )


def trigger_schedule(received: Received) -> EnqueuedRun:
    """Run it now, besides its timetable."""
    asked: wire.Trigger = received.body
    made = received.app.schedules.trigger(
        _reference(received),
        reason=asked.reason,
        key=asked.key,
        overlap=asked.overlap,
        id=received.order_id(),
    )
    return EnqueuedRun.from_view(made)


def get_history(received: Received) -> Page[wire.Entry]:
    """Return who did what to it, newest first."""
    limit = read_limit(received.query.limit)
    found = received.app.schedules.history(_reference(received), limit=limit)
    return Page(items=[wire.Entry.from_view(one) for one in found], next_cursor=None)


def get_occurrences(received: Received) -> Page[wire.Occurrence]:
    """Return what became of each expected occurrence in a span."""
    asked: wire.OccurrencesAsked = received.query
    found = received.app.schedules.occurrences(_reference(received), asked.start, asked.end)
    return Page(items=[wire.Occurrence.from_view(one) for one in found], next_cursor=None)


def get_owed(received: Received) -> Page[wire.OwedRange]:
    """Return what it still owes."""
    return whole(wire.OwedRange, received.app.schedules.owed(_reference(received)))


def get_skips(received: Received) -> Page[wire.SkippedRange]:
    """Return what was skipped, newest first."""
    limit = read_limit(received.query.limit)
    return whole(wire.SkippedRange, received.app.schedules.skips(_reference(received), limit=limit))


def get_next(received: Received) -> Page[wire.PreviewedOccurrence]:
    """Return its next occurrences; none unless it is active."""
    count = read_count(received.query.count)
    found = received.app.schedules.get(_reference(received)).upcoming(count)
    return Page(items=[wire.PreviewedOccurrence.from_view(one) for one in found], next_cursor=None)


def preview_rule(received: Received) -> wire.Preview:
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


def _reference(received: Received) -> str:
    return received.path["schedule"]


def _planned(received: Received, schedule: Schedule) -> Answer:
    """Show a schedule that was made or edited, with when it runs next (T5)."""
    coming: list[Any] = []
    if schedule.next_for is not None:
        after = schedule.next_for - timedelta(microseconds=1)
        shown = received.app.schedules.preview(schedule.timetable, after, UPCOMING_SHOWN)
        coming = shown.to_json()["occurrences"]
    told = {**schedule.to_json(), "upcoming": coming}
    return Answer(value=msgspec.convert(told, wire.PlannedSchedule), version=schedule.version)


def _shown(schedule: Schedule) -> Answer:
    return Answer(value=wire.Schedule.from_view(schedule), version=schedule.version)


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/schedules",
        operation_id="list_schedules",
        summary="List schedules in order of name.",
        scope="read",
        handler=list_schedules,
        query=wire.SchedulesAsked,
        answer=Page[wire.Schedule],
    ),
    Route(
        method="POST",
        path="/schedules",
        operation_id="create_schedule",
        summary="Make a schedule: it owes a run of a task at every occurrence of a rule.",
        scope="edit",
        handler=create_schedule,
        body=wire.NewSchedule,
        answer=wire.PlannedSchedule,
        status=201,
        errors=frozenset({404, 409}),
        is_idempotent=True,
    ),
    Route(
        method="GET",
        path=ONE,
        operation_id="get_schedule",
        summary="Look at a schedule, by its name or id.",
        scope="read",
        handler=get_schedule,
        answer=wire.Schedule,
    ),
    Route(
        method="PATCH",
        path=ONE,
        operation_id="edit_schedule",
        summary="Change what is given and keep the rest, unless somebody else was faster.",
        scope="edit",
        handler=edit_schedule,
        body=wire.ScheduleEdit,
        answer=wire.PlannedSchedule,
        errors=frozenset({428}),
        is_idempotent=True,
        has_version=True,
    ),
    Route(
        method="POST",
        path="/schedules/preview",
        operation_id="preview_rule",
        summary="Show what a rule means and when it fires; nothing is stored.",
        scope="read",
        handler=preview_rule,
        body=wire.PreviewAsked,
        answer=wire.Preview,
    ),
    Route(
        method="DELETE",
        path=ONE,
        operation_id="delete_schedule",
        summary="Stop a schedule at once and give up what it owes; it can be restored for a while.",
        scope="edit",
        handler=delete_schedule,
        query=Because,
        answer=wire.Schedule,
        is_idempotent=True,
        has_version=True,
    ),
    Route(
        method="POST",
        path=f"{ONE}/pause",
        operation_id="pause_schedule",
        summary="Stop a schedule and keep everything.",
        scope="edit",
        handler=pause_schedule,
        body=wire.Pause,
        is_body_optional=True,
        answer=wire.Schedule,
        is_idempotent=True,
        has_version=True,
    ),
    Route(
        method="POST",
        path=f"{ONE}/resume",
        operation_id="resume_schedule",
        summary="Let a paused schedule go on.",
        scope="edit",
        handler=resume_schedule,
        body=wire.Resume,
        is_body_optional=True,
        answer=wire.Schedule,
        is_idempotent=True,
        has_version=True,
    ),
    Route(
        method="POST",
        path=f"{ONE}/restore",
        operation_id="restore_schedule",
        summary="Bring back a deleted schedule.",
        scope="edit",
        handler=restore_schedule,
        body=Because,
        is_body_optional=True,
        answer=wire.Schedule,
        is_idempotent=True,
        has_version=True,
    ),
    Route(
        method="POST",
        path=f"{ONE}/skip",
        operation_id="skip_schedule",
        summary="Skip the one pending occurrence, on record.",
        scope="edit",
        handler=skip_schedule,
        body=Because,
        is_body_optional=True,
        answer=wire.Schedule,
        is_idempotent=True,
        is_once_only=True,
        has_version=True,
    ),
    Route(
        method="POST",
        path=f"{ONE}/trigger",
        operation_id="trigger_schedule",
        summary="Run a schedule now, besides its timetable.",
        scope="trigger",
        handler=trigger_schedule,
        body=wire.Trigger,
        is_body_optional=True,
        answer=EnqueuedRun,
        status=201,
        is_idempotent=True,
    ),
    Route(
        method="GET",
        path=f"{ONE}/history",
        operation_id="get_schedule_history",
        summary="Who did what to a schedule, newest first.",
        scope="read",
        handler=get_history,
        query=wire.HistoryAsked,
        answer=Page[wire.Entry],
    ),
    Route(
        method="GET",
        path=f"{ONE}/occurrences",
        operation_id="get_schedule_occurrences",
        summary="What became of each expected occurrence of a schedule.",
        scope="read",
        handler=get_occurrences,
        query=wire.OccurrencesAsked,
        answer=Page[wire.Occurrence],
    ),
    Route(
        method="GET",
        path=f"{ONE}/owed",
        operation_id="get_schedule_owed",
        summary="The ranges of occurrences that a schedule still owes, oldest first.",
        scope="read",
        handler=get_owed,
        answer=Page[wire.OwedRange],
    ),
    Route(
        method="GET",
        path=f"{ONE}/skips",
        operation_id="get_schedule_skips",
        summary="The ranges of occurrences of a schedule that were skipped, newest first.",
        scope="read",
        handler=get_skips,
        query=wire.SkipsAsked,
        answer=Page[wire.SkippedRange],
    ),
    Route(
        method="GET",
        path=f"{ONE}/next",
        operation_id="get_schedule_next",
        summary="The next occurrences of a schedule, in local time and UTC.",
        scope="read",
        handler=get_next,
        query=wire.NextAsked,
        answer=Page[wire.PreviewedOccurrence],
    ),
)
