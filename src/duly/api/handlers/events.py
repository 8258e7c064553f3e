"""Events over HTTP: where somebody begins to follow them."""

from __future__ import annotations

from duly.api.events import PAGE, read_place
from duly.api.route import Answer, Received, Route
from duly.wire.audit import EventsAsked
from duly.wire.schedules import Entry


def follow_events(received: Received) -> Answer:
    """Return what happened after a number; the stream goes on from there."""
    return Answer(value=received.app.events.after(read_place(received), limit=PAGE))


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
