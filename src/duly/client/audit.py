"""The audit trail in a program's hands: who did what, when, why and from where (A2)."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID

from duly.client.history import HistoryEntry, entry_view
from duly.client.paging import PAGE_DEFAULT, Page, read_cursor, read_page_limit, write_cursor
from duly.client.reading import read_instant, read_looked_for
from duly.client.runs import run_views
from duly.client.sealing import export_trail, verify_store
from duly.domain.identity import RunId, read_identity
from duly.store.reading import AuditFilter

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import BinaryIO

    from duly.client.caller import Caller
    from duly.client.counting import Tell
    from duly.client.reading import Instant
    from duly.client.sealing import ExportedTrail, Verified

_NUMBER_BYTES = 8
_ID = re.compile(r"(?<![\w-])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![\w-])")


class Audit:
    """The audit trail of an application."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def page(  # noqa: PLR0913 - each filter is an argument
        self,
        *,
        subject: str | None = None,
        subject_id: UUID | str | None = None,
        action: str | None = None,
        actor: str | None = None,
        since: Instant | None = None,
        until: Instant | None = None,
        all_tenants: bool = False,
        limit: int = PAGE_DEFAULT,
        cursor: str | None = None,
    ) -> Page[HistoryEntry]:
        """Return a page of entries, newest first: recorded at `since` or later, before `until`.

        By the name or id of what was ordered about, by the action, and by who ordered it. With
        `all_tenants` also what is of no tenant: members, leases, the store itself.
        """
        if all_tenants:
            self._caller.require_operator("look at what others did")
        command = AuditFilter(
            tenant=None if all_tenants else self._caller.tenant,
            subject=read_looked_for("subject", subject),
            subject_id=None if subject_id is None else read_identity(subject_id, "subject_id"),
            action=read_looked_for("action", action),
            actor=read_looked_for("actor", actor),
            since=None if since is None else read_instant("since", since),
            until=None if until is None else read_instant("until", until),
            limit=read_page_limit(limit),
        )
        position = read_cursor(command, cursor, _NUMBER_BYTES)
        if position is not None:
            command = replace(command, before_number=int.from_bytes(position, signed=True))
        found = self._caller.store.search_audit(command)
        goes_on = None if found.next is None else found.next.to_bytes(_NUMBER_BYTES, signed=True)
        items = self._labelled([entry_view(one) for one in found.entries], command.tenant)
        return Page(items, write_cursor(command, goes_on))

    def _labelled(self, entries: Sequence[HistoryEntry], tenant: str | None) -> list[HistoryEntry]:
        """Call runs by their labels, all in one look: a subject has the bare id of most."""
        named = {found for one in entries for found in _ID.findall(one.subject)}
        ids = [RunId(UUID(one).bytes) for one in sorted(named)]
        runs = self._caller.store.get_runs(ids).values() if ids else ()
        ours = [one for one in runs if tenant is None or one.tenant == tenant]
        labels = {str(one.id): one.label for one in run_views(self._caller, ours)}

        def labelled(entry: HistoryEntry) -> HistoryEntry:
            text = _ID.sub(lambda found: labels.get(found[0], found[0]), entry.subject)
            return entry if text == entry.subject else replace(entry, label=text)

        return [labelled(one) for one in entries]

    def verify(self, *, known: str | None = None, tell: Tell | None = None) -> Verified:
        """Compare every seal with the entries that it names: what was tampered with shows.

        With `known`, the head that an earlier look told, also that the chain was not made anew.
        `tell` is told how many entries were looked at so far.
        """
        self._caller.require_operator("verify what others did")
        return verify_store(self._caller.store, known, tell)

    def export(self, file: str | Path | BinaryIO, *, tell: Tell | None = None) -> ExportedTrail:
        """Write the whole trail with its seals to a file, which can be verified without a store."""
        self._caller.require_operator("export what others did")
        return export_trail(self._caller.store, file, tell)
