"""Following the audit trail on PostgreSQL, where entries may be committed out of order.

Who inserts an entry holds a lock on the table from before its number is drawn until its transaction
ends, and anybody can see who does. A number that is missing though a higher one is seen was drawn
before that look. So whoever may have drawn it is among those who hold the lock after the look; once
they all have ended, and it still is not there, it was given up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.store import records
from duly.store.ports.audit import NEWEST_LOOKED_AT, AuditAfter, TrailPage, decided_page
from duly.store.postgres import rows

if TYPE_CHECKING:
    from duly.domain.audit import AuditEntry
    from duly.store.postgres.connection import Connections

AFTER = f"{rows.AUDIT} WHERE number > $1::int8 ORDER BY number LIMIT $2::int8"
NEWEST = "SELECT coalesce(max(number), 0) FROM duly.audit"
WRITERS = """
SELECT DISTINCT virtualtransaction FROM pg_catalog.pg_locks
WHERE locktype = 'relation' AND mode = 'RowExclusiveLock' AND granted
    AND database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
    AND relation = 'duly.audit'::regclass"""
GAPS_MAX = 1000


class Trail:
    """Reads the trail of one database, and remembers on whom it waits; for every tenant's view."""

    def __init__(self) -> None:
        self._awaited: dict[int, frozenset[str]] = {}
        """By the number that follows a gap: who may still fill it."""

    def follow(self, connections: Connections, command: AuditAfter) -> TrailPage:
        """Return entries after a number, oldest first, without ever leaving one out."""
        after, limit = command.after, command.limit
        if after is None:
            after, limit = max(_newest(connections) - NEWEST_LOOKED_AT, 0), NEWEST_LOOKED_AT
        entries = read_entries(connections, after, limit)
        page = decided_page(command, entries, lambda _: True)
        if not entries or page.through == entries[-1].number:
            return page
        writers = _writers(connections)
        return decided_page(
            command,
            read_entries(connections, after, limit),
            lambda number: self._may_come(number, writers),
        )

    def _may_come(self, number: int, writers: frozenset[str]) -> bool:
        left = self._awaited.get(number, writers) & writers
        if not left:
            self._awaited.pop(number, None)
            return False
        if len(self._awaited) >= GAPS_MAX:
            self._awaited.clear()  # whoever is forgotten is waited for a little longer
        self._awaited[number] = left
        return True


def read_entries(connections: Connections, after: int, limit: int) -> list[AuditEntry]:
    """Return entries of higher numbers that are there, oldest first."""
    with connections.statement() as session:
        found = session.rows(AFTER, (after, limit))
    return [records.audit_entry(row) for row in found]


def _newest(connections: Connections) -> int:
    with connections.statement() as session:
        ((number,),) = session.rows(NEWEST)
    return int(number)


def _writers(connections: Connections) -> frozenset[str]:
    with connections.statement() as session:
        return frozenset(name for (name,) in session.rows(WRITERS))
