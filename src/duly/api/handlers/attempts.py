"""Attempts of all runs over HTTP, for looking for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.api.handlers.parts import given, look
from duly.interface.attempts import Attempt, AttemptQuery
from duly.interface.shapes import Page

if TYPE_CHECKING:
    from duly.api.route import ApiRequest, Route


def search_attempts(received: ApiRequest) -> Page[Attempt]:
    """Find attempts by worker, state, reason or error; those of the newest runs first."""
    found = received.app.attempts.page(**given(received.query))
    items = [Attempt.from_view(one) for one in found.items]
    return Page(items=items, next_cursor=found.next_cursor)


ROUTES: tuple[Route, ...] = (look("/attempts", search_attempts, Page[Attempt], AttemptQuery),)
