"""The broom: clears away what workers leave behind in the queue and among the claims.

Whatever is claimed leaves a dead entry at the very front of the queue's index, where every claim
begins to read: within a minute of a thousand runs a second each claim would pass sixty thousand of
them. The server's own vacuum comes round once a minute. So whoever has claimed some looks whether
there are many, and has them vacuumed, which takes less than a microsecond for each.

It is of no use while a transaction that was begun before is left open, wherever it is. What was
swept in vain still counts as dead afterwards: then the leaves of the queue have to rotate at once.
And it is never waited for.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import psycopg

from duly.errors import StoreError
from duly.store.postgres.errands import Errand
from duly.store.postgres.rotation import relieve
from duly.store.wakeups import SECOND_US

if TYPE_CHECKING:
    from duly.store.postgres.connection import Connections

LOOK_AFTER = 2000
"""Having claimed so many, we look."""
DEAD_MAX = 10_000
"""So many may lie about in a table."""
APART_US = (SECOND_US, SECOND_US)
LEAF = ".ready_"
SHARE = 20
"""Sweeping takes at most one part in so many of the time: it may be in vain, and long."""
# Who may not is not to fill the server's log with refusals.
COUNT_DEAD = """
SELECT pg_catalog.format('%I.%I', s.schemaname, s.relname)
FROM pg_catalog.pg_stat_all_tables s JOIN pg_catalog.pg_class c ON c.oid = s.relid
WHERE s.schemaname = 'duly' AND (s.relname ~ '^ready_[0-9]+$' OR s.relname = 'claims')
    AND s.n_dead_tup > $1::int8
    AND CASE WHEN pg_catalog.current_setting('server_version_num')::int4 >= 170000
        THEN pg_catalog.has_table_privilege(c.oid, 'MAINTAIN')
        ELSE pg_catalog.pg_has_role(c.relowner, 'USAGE') END"""
# Whoever wants the table for himself is not to wait, nor is anybody who reads: the space stays.
SWEEP = "VACUUM (SKIP_LOCKED, INDEX_CLEANUP on, TRUNCATE off, PARALLEL 0) {}"


class Broom:
    """Sweeps from time to time, if there is much to sweep."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._errand = Errand("duly broom", self._sweep, connections.clock, APART_US)
        self._taken = 0
        self._due_at: int | None = None
        """By the monotonic clock."""

    def note(self, taken: int) -> None:
        """Know that runs were claimed; returns at once and never fails."""
        self._taken += taken
        if self._taken >= LOOK_AFTER:
            self._taken = 0
            self._errand.call()

    def close(self) -> None:
        """Let go."""
        self._errand.close()

    def _sweep(self) -> None:
        clock = self._connections.clock
        began_at = clock.monotonic_us()
        if self._errand.is_closed or (self._due_at is not None and began_at < self._due_at):
            return
        with suppress(StoreError, psycopg.Error):
            tables = self._full()
            if not tables:
                return
            with self._connections.borrowed() as connection:
                for table in tables:
                    connection.execute(SWEEP.format(table).encode(), prepare=False)
            if any(LEAF in table for table in self._full()):
                relieve(self._connections)
        ended_at = clock.monotonic_us()
        self._due_at = ended_at + SHARE * (ended_at - began_at)

    def _full(self) -> list[str]:
        """Return the tables in which too many dead rows lie."""
        with self._connections.statement() as session:
            return [name for (name,) in session.rows(COUNT_DEAD, (DEAD_MAX,))]
