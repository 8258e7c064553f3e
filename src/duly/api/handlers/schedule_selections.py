"""Orders about many schedules over HTTP: choose and look, then order about exactly these."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.api.handlers.parts import given, look, order, reference_of
from duly.interface.selections import (
    NewScheduleSelection,
    OrderedSchedule,
    OrderedSchedules,
    OrderPreview,
    PauseSelection,
    ResumeSelection,
    ScheduleSelection,
    SchedulesPreviewAsked,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from duly.api.route import ApiRequest, Route
    from duly.client.selections import OrderedSchedule as Done


def create_schedule_selection(received: ApiRequest) -> ScheduleSelection:
    """Find schedules by a filter, and freeze which they are and how; nothing is done."""
    terms = given(received.body)
    if "schedules" in terms:
        terms["schedules"] = [reference_of(one) for one in terms["schedules"]]
    return ScheduleSelection.from_view(received.app.schedule_selections.freeze(**terms))


def get_schedule_selection(received: ApiRequest) -> ScheduleSelection:
    """Return a selection, with the first of its schedules as they are now."""
    return ScheduleSelection.from_view(received.app.schedule_selections.get(_selection(received)))


def preview_schedule_selection(received: ApiRequest) -> OrderPreview:
    """Say what an order would do to each schedule of a selection, if it were given now."""
    asked: SchedulesPreviewAsked = received.query
    found = received.app.schedule_selections.preview(_selection(received), asked.order)
    return OrderPreview.from_view(found)


def pause_schedule_selection(received: ApiRequest) -> OrderedSchedules:
    """Pause the schedules of a selection that nobody has changed since."""
    selections = received.app.schedule_selections
    return _told(selections.pause(_selection(received), **given(received.body)))


def resume_schedule_selection(received: ApiRequest) -> OrderedSchedules:
    """Resume the schedules of a selection that nobody has changed since."""
    selections = received.app.schedule_selections
    return _told(selections.resume(_selection(received), **given(received.body)))


def _selection(received: ApiRequest) -> UUID | str:
    return reference_of(received.path["selection"])


def _told(done: Sequence[Done]) -> OrderedSchedules:
    told = [OrderedSchedule.from_view(one) for one in done]
    return OrderedSchedules(done=sum(one.is_done for one in done), schedules=told)


# Not below /schedules: a schedule may have any name, "selections" too.
_ALL = "/schedule-selections"
_ONE = f"{_ALL}/{{selection}}"
ROUTES: tuple[Route, ...] = (
    order(_ALL, create_schedule_selection, NewScheduleSelection, ScheduleSelection, status=201),
    look(_ONE, get_schedule_selection, ScheduleSelection),
    look(f"{_ONE}/preview", preview_schedule_selection, OrderPreview, SchedulesPreviewAsked),
    order(f"{_ONE}/pause", pause_schedule_selection, PauseSelection, OrderedSchedules),
    order(f"{_ONE}/resume", resume_schedule_selection, ResumeSelection, OrderedSchedules),
)
