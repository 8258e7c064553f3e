"""Delayed runs over HTTP, while they are pending: look at, move and cancel them."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from duly.api.handlers.parts import look, order
from duly.api.requests import read_cursor, read_limit, write_cursor
from duly.errors import NotFound
from duly.interface import delayed as wire
from duly.interface.runs import ReasonBody, Run
from duly.interface.shapes import Page

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.api.route import ApiRequest, Route

ONE = "/delayed/{key_or_id}"
T = TypeVar("T")


def list_delayed(received: ApiRequest) -> Page[wire.DelayedRun]:
    """List delayed runs that are pending, in the order in which they fall due."""
    asked: wire.DelayedAsked = received.query
    after = read_cursor(asked.cursor, tuple[datetime, UUID])
    page = received.app.delayed.page(limit=read_limit(asked.limit), after=after)
    return Page(
        items=[wire.DelayedRun.from_view(one) for one in page.items],
        next_cursor=None if page.after is None else write_cursor(*page.after),
    )


def get_delayed(received: ApiRequest) -> wire.DelayedRun:
    """Look at a pending delayed run, by its key or id."""
    return wire.DelayedRun.from_view(_by_either(received, received.app.delayed.get))


def move_delayed(received: ApiRequest) -> wire.DelayedRun:
    """Have a pending delayed run fall due at another time."""
    asked: wire.Move = received.body

    def move(key_or_id: str | UUID) -> wire.DelayedRun:
        moved = received.app.move(
            key_or_id, at=asked.at, delay=asked.delay, past=asked.past, reason=asked.reason
        )
        return wire.DelayedRun.from_view(moved)

    return _by_either(received, move)


def cancel_delayed(received: ApiRequest) -> Run:
    """Cancel a pending delayed run."""
    asked: ReasonBody = received.query
    cancelled = _by_either(
        received, lambda key_or_id: received.app.cancel(key_or_id, reason=asked.reason)
    )
    return Run.from_view(cancelled)


def _by_either(received: ApiRequest, function: Callable[[str | UUID], T]) -> T:
    """Take what the path says for an id if it can be one, and for a key if it is none."""
    said = received.path["key_or_id"]
    try:
        identity = UUID(said)
    except ValueError:
        return function(said)
    try:
        return function(identity)
    except NotFound:
        return function(said)


_ORDERED = {"is_body_optional": False, "is_idempotent": True}
ROUTES: tuple[Route, ...] = (
    look("/delayed", list_delayed, Page[wire.DelayedRun], wire.DelayedAsked),
    look(ONE, get_delayed, wire.DelayedRun),
    order(
        ONE,
        move_delayed,
        wire.Move,
        wire.DelayedRun,
        method="PATCH",
        is_once_only=True,
        **_ORDERED,
    ),
    order(ONE, cancel_delayed, None, Run, method="DELETE", query=ReasonBody, **_ORDERED),
)
