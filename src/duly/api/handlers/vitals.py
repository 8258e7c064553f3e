"""Vitals over HTTP: how schedules, tasks and the tenant are doing, and what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from msgspec.structs import replace

from duly.api.handlers.parts import look, reference_of
from duly.api.requests import read_cursor, write_cursor
from duly.interface import vitals as wire
from duly.interface.shapes import Page

if TYPE_CHECKING:
    from duly.api.route import ApiRequest, Route


def get_tenant_vitals(received: ApiRequest) -> wire.VitalSigns:
    """Say how everything of the tenant is doing, triggers and completions apart."""
    return wire.VitalSigns.from_view(received.app.vitals.of_tenant())


def list_schedule_vitals(received: ApiRequest) -> Page[wire.ScheduleVitals]:
    """List schedules, each with what its trigger does and what comes of it."""
    asked: wire.VitalsAsked = received.query
    page = received.app.vitals.schedules(
        status=asked.status,
        task=asked.task,
        name_prefix=asked.name_prefix,
        limit=asked.limit,
        after=read_cursor(asked.cursor, tuple[str, UUID]),
    )
    next_cursor = None if page.after is None else write_cursor(*page.after)
    items = [wire.ScheduleVitals.from_view(one) for one in page.items]
    return Page(items=items, next_cursor=next_cursor)


def get_schedule_vitals(received: ApiRequest) -> wire.VitalSigns:
    """Say how a schedule is doing, its trigger and its completions apart."""
    found = received.app.vitals.of_schedule(reference_of(received.path["schedule"]))
    return wire.VitalSigns.from_view(found)


def get_task_vitals(received: ApiRequest) -> wire.VitalSigns:
    """Say how a task is doing, whoever asks for it."""
    return wire.VitalSigns.from_view(received.app.vitals.of_task(received.path["task"]))


def list_missing(received: ApiRequest) -> wire.MissingFound:
    """Return what timetables ask for and has no run: lost, owed, or held by a pause."""
    asked: wire.MissingAsked = received.query
    found = received.app.runs.missing(
        asked.since,
        asked.until,
        schedule=None if asked.schedule is None else reference_of(asked.schedule),
        after=read_cursor(asked.cursor, tuple[str, UUID]),
    )
    next_cursor = None if found.after is None else write_cursor(*found.after)
    return replace(wire.MissingFound.from_view(found), next_cursor=next_cursor)


ROUTES: tuple[Route, ...] = (
    look("/vitals", get_tenant_vitals, wire.VitalSigns),
    look("/vitals/schedules", list_schedule_vitals, Page[wire.ScheduleVitals], wire.VitalsAsked),
    look("/schedules/{schedule}/vitals", get_schedule_vitals, wire.VitalSigns),
    look("/tasks/{task}/vitals", get_task_vitals, wire.VitalSigns),
    look("/missing", list_missing, wire.MissingFound, wire.MissingAsked),
)
