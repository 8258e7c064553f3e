"""Owners who are gone: what would be paused, the order, and how to take it back (S6, UX 38)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import msgspec

from duly import UsageError
from duly.api.views import CONFIRMED_ABOVE
from duly_web.page import Asked, Moved, Page, Said, Shown, Undo

if TYPE_CHECKING:
    from duly import App
    from duly.api.views import GoneOwner

GONE_SHOWN_MAX = 100
GONE_LOOKED_AT_MAX = 1_000
"""Among so many somebody is looked for who is not on the page."""
FIRING_MAX = 1_000
"""So many of an owner's schedules are looked at, as many as one order pauses."""
NAMES_SHOWN_MAX = 20
PLACE = "/owners"
UNDONE = "undone"


class OwnersQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Who is looked at, and after whom the list goes on."""

    owner: str | None = None
    cursor: str | None = None


class OwnerOrder(msgspec.Struct, forbid_unknown_fields=True):
    """What is said of an owner."""

    owner: str
    reason: str | None = None
    typed: str = ""
    """How many schedules they are, where they are many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Firing:
    """An owner's schedules that fire, or will again by themselves: an order would pause them."""

    names: tuple[str, ...]
    count: int
    is_cut: bool
    """Whether there may be more."""

    @property
    def more(self) -> int:
        """How many are not named."""
        return self.count - len(self.names)

    @property
    def is_typed(self) -> bool:
        """Whether their number must be typed."""
        return self.count > CONFIRMED_ABOVE


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnersModel:
    """The page."""

    query: OwnersQuery
    rows: tuple[GoneOwner, ...]
    next_cursor: str | None
    owner: str | None
    """Who is looked at,"""
    gone: GoneOwner | None
    """what was said of them,"""
    firing: Firing | None
    """and what goes on for them."""


def show_owners(asked: Asked) -> Shown:
    """Show who is gone, and what would be paused if one more were."""
    query: OwnersQuery = asked.query
    page = asked.app.owners.page(limit=GONE_SHOWN_MAX, after=query.cursor or None)
    owner = (query.owner or "").strip() or None
    model = OwnersModel(
        query=query,
        rows=tuple(page.items),
        next_cursor=page.after,
        owner=owner,
        gone=None if owner is None else _find(asked.app, page.items, owner),
        firing=None if owner is None else look_at_firing(asked.app, owner),
    )
    title = "Owners" if owner is None else f"Owner {owner}"
    return Shown(template="owners.html", model=model, title=title)


def look_at_firing(app: App, owner: str) -> Firing:
    """Look at what goes on for an owner, a bounded number."""
    active = app.schedules.page(owner=owner, status="active", limit=FIRING_MAX)
    paused = app.schedules.page(owner=owner, status="paused", limit=FIRING_MAX)
    found = [*active.items, *(one for one in paused.items if one.resume_at is not None)]
    return Firing(
        names=tuple(one.name for one in found[:NAMES_SHOWN_MAX]),
        count=len(found),
        is_cut=active.after is not None or paused.after is not None,
    )


def mark_gone(asked: Asked) -> Moved:
    """Say that somebody is gone: what fires for them is paused, and nothing new is made."""
    form: OwnerOrder = asked.form
    firing = look_at_firing(asked.app, form.owner)
    if firing.is_typed and form.typed.strip().replace(",", "") != str(firing.count):
        remedy = f"type {firing.count}, which is how many schedules would be paused"
        raise UsageError("typed", form.typed, "is not the number of schedules", remedy)
    gone = asked.app.owners.gone(form.owner, reason=form.reason or "")
    text = f"{gone.owner} is gone: {_schedules(gone.paused)} paused, and nothing new is made"
    if gone.active:
        text += f"; {_schedules(gone.active)} left: say it again"
    fields = {"owner": gone.owner, "reason": UNDONE}
    undo = Undo(label="They are back", path=f"{PLACE}/back", fields=fields)
    return Moved(to=place_of(gone.owner), said=Said(text=text, undo=undo))


def mark_back(asked: Asked) -> Moved:
    """Say that somebody is back; the next page has what was paused, to be chosen and resumed."""
    form: OwnerOrder = asked.form
    was = asked.app.owners.back(form.owner, reason=form.reason or None)
    text = f"{was.owner} is back; what was paused stays so until somebody resumes it"
    fields = {"owner": was.owner, "reason": UNDONE}
    undo = Undo(label="Gone after all", path=f"{PLACE}/gone", fields=fields)
    paused = urlencode({"owner": was.owner, "status": "paused"})
    return Moved(to=f"/schedules?{paused}", said=Said(text=text, undo=undo))


def place_of(owner: str) -> str:
    """Return where an owner is looked at."""
    return f"{PLACE}?{urlencode({'owner': owner})}"


def _find(app: App, shown: list[GoneOwner], owner: str) -> GoneOwner | None:
    found = next((one for one in shown if one.owner == owner), None)
    if found is None and len(shown) == GONE_SHOWN_MAX:
        everybody = app.owners.list(limit=GONE_LOOKED_AT_MAX)
        found = next((one for one in everybody if one.owner == owner), None)
    return found


def _schedules(count: int) -> str:
    return "1 schedule is" if count == 1 else f"{count:,} schedules are"


PAGES = (
    Page(
        method="GET",
        path=PLACE,
        name="owners",
        scope="read",
        handler=show_owners,
        query=OwnersQuery,
    ),
    Page(
        method="POST",
        path=f"{PLACE}/gone",
        name="mark_owner_gone",
        scope="edit",
        handler=mark_gone,
        form=OwnerOrder,
    ),
    Page(
        method="POST",
        path=f"{PLACE}/back",
        name="mark_owner_back",
        scope="edit",
        handler=mark_back,
        form=OwnerOrder,
    ),
)
