"""Vitals of a server: how schedules, tasks and the tenant are doing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.interface.shapes import Page
from duly.interface.vitals import MissingFound, ScheduleVitals, VitalsAsked, VitalSigns
from duly.remote.operation import look
from duly.remote.transport import said

if TYPE_CHECKING:
    from uuid import UUID

    from duly.remote.transport import Transport

Listed = list[ScheduleVitals]
OF_TENANT = look("get_tenant_vitals", "/vitals", VitalSigns)
OF_SCHEDULE = look("get_schedule_vitals", "/schedules/{schedule}/vitals", VitalSigns)
OF_TASK = look("get_task_vitals", "/tasks/{task}/vitals", VitalSigns)
SCHEDULES = look("list_schedule_vitals", "/vitals/schedules", Page[ScheduleVitals])
MISSING = look("list_missing", "/missing", MissingFound)


class Vitals:
    """How what a server has promised is doing."""

    def __init__(self, asking: Transport) -> None:
        self._asking = asking

    def of_schedule(self, schedule: UUID | str) -> VitalSigns:
        """Return all that is known of how one schedule is doing."""
        return self._asking.ask(OF_SCHEDULE, schedule)

    def of_task(self, name: str) -> VitalSigns:
        """Return how a task is doing, by all its schedules and whoever else asks for it."""
        return self._asking.ask(OF_TASK, name)

    def of_tenant(self) -> VitalSigns:
        """Return how the token's tenant is doing."""
        return self._asking.ask(OF_TENANT)

    def schedules(self, *, limit: int | None = None, **filters: str | None) -> Listed:
        """Return schedules by name, each with what its trigger does and what comes of it."""
        query = said(VitalsAsked, **filters)
        return self._asking.items(SCHEDULES, query=query, limit=limit)
