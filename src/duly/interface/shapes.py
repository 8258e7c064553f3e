"""What all shapes share: how a view becomes one, and how instants, ids and durations are written.

What is shown has the fields of the client's view, as its `to_json` writes them: the API, --json and
the library say the same of a thing. A reader ignores fields it does not know, so that a newer
server may say more. What is asked for is read strictly: a field that nobody knows is a mistake that
would otherwise change what was meant.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Generic, Protocol, Self, TypeVar
from uuid import UUID

import msgspec
from msgspec import Meta, Struct

Instant = Annotated[datetime, Meta(description="An instant, in UTC.", tz=True)]
Identity = UUID
InstantText = Annotated[
    str,
    Meta(
        description="An instant with its offset from UTC, in ISO 8601.",
        examples=["2026-04-03T02:00:00+02:00"],
        extra_json_schema={"format": "date-time"},
    ),
]
"""As it is asked for: the client reads it, and says what is wrong with it."""
Duration = Annotated[str, Meta(description="A duration, such as 90s, 15m or 2h.")]
Reason = Annotated[str, Meta(description="Why; it is recorded with the order.", max_length=1000)]

Item = TypeVar("Item")


class View(Protocol):
    """What the client shows."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        ...


class Shown(Struct, frozen=True, kw_only=True):
    """What is answered; a newer server may say more."""

    @classmethod
    def from_view(cls, view: View) -> Self:
        """Return what is sent of what the client shows."""
        return msgspec.convert(view.to_json(), cls)


class Asked(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is asked for; nothing in it goes unread."""


class Page(Struct, Generic[Item], frozen=True, kw_only=True):
    """A part of a list, and where the next begins."""

    items: list[Item]
    next_cursor: str | None
    """To be given back as `cursor`; none after the last."""
