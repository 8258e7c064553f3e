"""Owners on a server: who is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.interface.owners import GoneOwner
from duly.interface.runs import Justified, ReasonBody
from duly.interface.shapes import Page
from duly.remote.operation import look, order
from duly.remote.transport import said

if TYPE_CHECKING:
    from duly.remote.transport import Transport

OWNERS_DEFAULT = 100
LIST_OWNERS = look("list_gone_owners", "/owners", Page[GoneOwner])
GONE = order("mark_owner_gone", "/owners/{owner}/gone", GoneOwner)
BACK = order("mark_owner_back", "/owners/{owner}/back", GoneOwner)


class Owners:
    """The owners of a tenant's schedules."""

    def __init__(self, asking: Transport) -> None:
        self._asking = asking

    def list(self, *, limit: int = OWNERS_DEFAULT) -> list[GoneOwner]:
        """Return who is gone, by name."""
        return self._asking.items(LIST_OWNERS, limit=limit)

    def gone(self, owner: str, *, reason: str) -> GoneOwner:
        """Say that an owner is gone; given again, it goes on with what is still active."""
        return self._asking.ask(GONE, owner, body=said(Justified, reason=reason))

    def back(self, owner: str, *, reason: str | None = None) -> GoneOwner:
        """Say that an owner is back."""
        return self._asking.ask(BACK, owner, body=said(ReasonBody, reason=reason))
