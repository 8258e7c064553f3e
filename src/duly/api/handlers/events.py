"""Events over HTTP: where somebody begins to follow them."""

from __future__ import annotations

from duly.api.events import PAGE, is_of_all, read_place
from duly.api.route import ApiRequest, ApiResponse, Route
from duly.interface.audit import EventsAsked
from duly.interface.schedules import Entry


def follow_events(received: ApiRequest) -> ApiResponse:
    """Return what happened after a number; the stream goes on from there."""
    is_whole = is_of_all(received)
    place = read_place(received)
    return ApiResponse(value=received.app.events.after(place, limit=PAGE, all_tenants=is_whole))


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/events",
        operation_id="follow_events",
        summary="Follow what is ordered and decided, as it happens (server-sent events).",
        scope="read",
        handler=follow_events,
        query=EventsAsked,
        answer=Entry,
        is_stream=True,
    ),
)
