"""Queues over HTTP: what waits in them, and whether anything is handed out.

To drain one, pause it and look until nothing of it runs: no request waits that long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.api.handlers.parts import look, order, whole
from duly.interface.queues import Queue
from duly.interface.runs import ReasonBody
from duly.interface.shapes import Page

if TYPE_CHECKING:
    from duly.api.route import ApiRequest, Route


def list_queues(received: ApiRequest) -> Page[Queue]:
    """Return queues that hold something or are paused, by name."""
    return whole(Queue, received.app.queues.list())


def get_queue(received: ApiRequest) -> Queue:
    """Return a queue; one that nobody has used is empty."""
    return Queue.from_view(received.app.queues.get(received.path["queue"]))


def pause_queue(received: ApiRequest) -> Queue:
    """Hand out nothing from a queue, until it is resumed; what runs goes on."""
    reason = received.body.reason
    return Queue.from_view(received.app.queues.pause(received.path["queue"], reason=reason))


def resume_queue(received: ApiRequest) -> Queue:
    """Hand out from a queue again."""
    reason = received.body.reason
    return Queue.from_view(received.app.queues.resume(received.path["queue"], reason=reason))


ROUTES: tuple[Route, ...] = (
    look("/queues", list_queues, Page[Queue]),
    look("/queues/{queue}", get_queue, Queue),
    order("/queues/{queue}/pause", pause_queue, ReasonBody, Queue),
    order("/queues/{queue}/resume", resume_queue, ReasonBody, Queue),
)
