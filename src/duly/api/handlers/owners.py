"""Owners over HTTP: who is gone, so that nothing fires for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.api.handlers.parts import look, order
from duly.api.requests import read_cursor, read_limit, write_cursor
from duly.interface.owners import GoneOwner, OwnersAsked
from duly.interface.runs import Justified, ReasonBody
from duly.interface.shapes import Page

if TYPE_CHECKING:
    from duly.api.route import ApiRequest, Route


def list_gone_owners(received: ApiRequest) -> Page[GoneOwner]:
    """Return owners who are gone, by name, a page at a time."""
    asked: OwnersAsked = received.query
    cursor = read_cursor(asked.cursor, tuple[str])
    after = None if cursor is None else cursor[0]
    page = received.app.owners.page(limit=read_limit(asked.limit), after=after)
    next_cursor = None if page.after is None else write_cursor(page.after)
    return Page(items=[GoneOwner.from_view(one) for one in page.items], next_cursor=next_cursor)


def mark_owner_gone(received: ApiRequest) -> GoneOwner:
    """Say that an owner is gone: what fires for them is paused, a thousand by one order."""
    reason = received.body.reason
    return GoneOwner.from_view(received.app.owners.gone(received.path["owner"], reason=reason))


def mark_owner_back(received: ApiRequest) -> GoneOwner:
    """Say that an owner is back; what was paused stays paused until somebody resumes it."""
    reason = received.body.reason
    return GoneOwner.from_view(received.app.owners.back(received.path["owner"], reason=reason))


ROUTES: tuple[Route, ...] = (
    look("/owners", list_gone_owners, Page[GoneOwner], OwnersAsked, errors=frozenset()),
    order("/owners/{owner}/gone", mark_owner_gone, Justified, GoneOwner),
    order("/owners/{owner}/back", mark_owner_back, ReasonBody, GoneOwner),
)
