"""The audit trail: who did what, when, why, from where, before and after (UX 37, A2)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from duly_web.page import Asked, Page, Shown
from duly_web.pages.owners import place_of

if TYPE_CHECKING:
    from datetime import datetime

    from duly.api.views import HistoryEntry

PAGE_SIZE = 50
CHANGES_MAX = 40
"""So many changed fields of an entry are shown."""
TEXT_MAX = 300
"""A value is shown so far."""
PLACES = {
    "queue": "/fleet",
    "worker": "/fleet",
    "member": "/fleet",
    "alert": "/alerts",
    "backfill": "/backfills",
}
"""Where what has no page of its own is listed, by the kind of an action."""
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
SYSTEM = "duly"
"""As whom the system decides by itself."""


class AuditQuery(msgspec.Struct, forbid_unknown_fields=True):
    """What the trail is narrowed by; all of it stands in the address."""

    subject: str | None = None
    action: str | None = None
    actor: str | None = None
    since: str | None = None
    until: str | None = None
    scope: str | None = None
    """`all`: what is of no tenant, too."""
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """One field, before and after."""

    field: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    """One entry."""

    number: int
    at: datetime
    actor: str
    source: str
    address: str | None
    credential: str | None
    action: str
    subject: str
    name: str
    """What people call it."""
    id: str | None
    """Beside the name of a run."""
    path: str | None
    """Where it is shown; None for what has no page, or is forgotten."""
    reason: str | None
    changes: tuple[Change, ...]
    is_automatic: bool
    """Whether the system decided it, and nobody ordered it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditModel:
    """The page."""

    query: AuditQuery
    rows: tuple[AuditRow, ...]
    next_cursor: str | None

    @property
    def is_filtered(self) -> bool:
        """Whether nothing to be seen may mean that there is something else."""
        return any(msgspec.structs.astuple(self.query))


def show_audit(asked: Asked) -> Shown:
    """Show entries, newest first."""
    query: AuditQuery = asked.query
    page = asked.app.audit.page(
        subject=query.subject,
        action=query.action,
        actor=query.actor,
        since=query.since,
        until=query.until,
        all_tenants=query.scope == "all",
        limit=PAGE_SIZE,
        cursor=query.cursor,
    )
    rows = tuple(audit_row(one) for one in page.items)
    model = AuditModel(query=query, rows=rows, next_cursor=page.next_cursor)
    return Shown(template="audit.html", model=model, title="Audit")


def audit_row(entry: HistoryEntry) -> AuditRow:
    """Show one entry."""
    run = None if entry.label is None else _id(entry.subject)
    return AuditRow(
        number=entry.number,
        at=entry.at,
        actor=entry.actor,
        source=entry.source,
        address=entry.address,
        credential=entry.credential,
        action=entry.action,
        subject=entry.subject,
        name=entry.label or entry.subject,
        id=run,
        path=_path(entry, run),
        reason=entry.reason,
        changes=changes_of(entry.before, entry.after),
        is_automatic=entry.actor == SYSTEM,
    )


def _id(subject: str) -> str | None:
    found = _ID.search(subject)
    return None if found is None else found[0]


def _path(entry: HistoryEntry, run: str | None) -> str | None:
    """Return where the thing is shown that an entry is about."""
    if run is not None:
        return f"/runs/{run}"
    kind = entry.action.partition(".")[0]
    if kind == "schedule" and _id(entry.subject) is None:
        return f"/schedules/{quote(entry.subject, safe='')}"
    if kind == "owner":
        return place_of(entry.subject)
    return PLACES.get(kind)


def changes_of(
    before: dict[str, object] | None, after: dict[str, object] | None
) -> tuple[Change, ...]:
    """Return the fields that differ, by name."""
    old, new = before or {}, after or {}
    fields = [one for one in dict.fromkeys((*old, *new)) if old.get(one) != new.get(one)]
    return tuple(
        Change(one, _text(old.get(one)), _text(new.get(one))) for one in fields[:CHANGES_MAX]
    )


def _text(value: object) -> str | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}…"


PAGES = (
    Page(
        method="GET",
        path="/audit",
        name="audit",
        scope="read",
        handler=show_audit,
        query=AuditQuery,
    ),
)
