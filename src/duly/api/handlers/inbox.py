"""The inbox over HTTP: runs of which nobody knows what they did, and what is safest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.api.handlers.parts import look, reference_of, whole
from duly.client.parameters import read_limit
from duly.interface.inbox import InboxItem, InboxQuery
from duly.interface.shapes import Page

if TYPE_CHECKING:
    from duly.api.route import ApiRequest, Route

INBOX_DEFAULT = 100
INBOX_MAX = 200
"""Each of them is looked at from every side."""


def list_inbox(received: ApiRequest) -> Page[InboxItem]:
    """Return runs that are in doubt, oldest first, each with what is safest."""
    asked: InboxQuery = received.query
    limit = INBOX_DEFAULT if asked.limit is None else read_limit(asked.limit, INBOX_MAX)
    return whole(InboxItem, received.app.inbox.list(limit=limit))


def get_inbox_item(received: ApiRequest) -> InboxItem:
    """Return one that is in doubt, all that is known of it, and what each choice risks."""
    return InboxItem.from_view(received.app.inbox.get(reference_of(received.path["run"])))


ROUTES: tuple[Route, ...] = (
    look("/inbox", list_inbox, Page[InboxItem], InboxQuery),
    look("/inbox/{run}", get_inbox_item, InboxItem, errors=frozenset({404, 409})),
)
