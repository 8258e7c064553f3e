"""Looking at a store from outside: a connection of one's own, and SQL that Duly never sees.

The statements are the same for both stores, but for what their tables are called: `duly.runs` in
PostgreSQL is `duly_runs` in a SQLite file.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

import apsw
import psycopg

from duly.clock import SystemClock
from tests.system.evidence import Sight, Span, Standing

if TYPE_CHECKING:
    from collections.abc import Iterable

Row = tuple[Any, ...]
SQLITE = "sqlite:///"
TRIES_MAX = 400
TRY_EVERY_SECONDS = 0.1

# The first row fixes the snapshot; the clock is read after it, so that nothing in it is younger.
FIRST_ROW = "SELECT 1 FROM duly.public_runs LIMIT 1"
LIST_RUNS = """
SELECT id, schedule_id, key, scheduled_for, not_before, fired_at, state, lane
FROM duly.public_runs WHERE coalesce(fired_at, finished_at) >= $1"""
LIST_SCHEDULES = """
SELECT s.id, s.name, s.status, s.created_at, coalesce(t.next_for, t.held_for)
FROM duly.public_schedules s JOIN duly.schedule_state t ON t.schedule_id = s.id"""
COUNT_DEAD = "SELECT count(DISTINCT subject) FROM duly.audit WHERE action = 'member.declared-dead'"
LIST_OWNERS = """
SELECT l.shard, m.process FROM duly.leases l JOIN duly.members m ON m.id = l.owner
WHERE l.lane = 'live'"""
HAVE_RENEWED = """
SELECT count(*) > 0 AND min(renewed_at) >= $1 FROM duly.members
WHERE kind = 'dispatcher' AND ended_at IS NULL"""
FIND_DEAD = """
SELECT 1 FROM duly.audit WHERE action = 'member.declared-dead' AND subject =
    (SELECT 'member ' || max(id) FROM duly.members WHERE process = $1)"""

# What a schedule owes that is paused or deleted waits until somebody resumes or restores it.
HAS_UNSETTLED = """
SELECT EXISTS (SELECT 1 FROM duly.schedule_state WHERE next_due <= $1)
    OR EXISTS (SELECT 1 FROM duly.timers WHERE due_at <= $1)
    OR EXISTS (SELECT 1 FROM duly.owed o JOIN duly.schedules s
        ON s.id = o.schedule_id AND s.status = 'active')"""


class View(Protocol):
    """A store as somebody else's program sees it."""

    def ask(self, sql: str, *values: object) -> list[Row]:
        """Ask the store something; a store that is away is asked again, for a while."""
        ...

    def look(self, since: int) -> list[Sight]:
        """Return the runs that were made since, as they are now; none, if nobody answers."""
        ...

    def has_unsettled(self, until: int) -> bool:
        """Say whether anything that was due by an instant has no verdict yet."""
        ...

    def close(self) -> None:
        """Let go of the store."""
        ...


def open_view(url: str) -> View:
    """Open a connection for looking."""
    return SqliteView(url) if url.startswith(SQLITE) else PostgresView(url)


def hex_of(identity: bytes | UUID | None) -> str | None:
    """Return an id as evidence has it."""
    if identity is None:
        return None
    return identity.hex if isinstance(identity, UUID) else identity.hex()


def sights(rows: Iterable[Row], seen_at: int) -> list[Sight]:
    """Return runs as the observer writes them down."""
    names = ("scheduled_for", "not_before", "fired_at", "state", "lane")
    return [
        Sight(
            id=hex_of(row[0]) or "",
            schedule=hex_of(row[1]) or None,
            key=row[2],
            seen_at=seen_at,
            **dict(zip(names, row[3:], strict=True)),
        )
        for row in rows
    ]


def spans(view: View, table: str) -> list[Span]:
    """Return the ranges in a table: those that were skipped, or those that are owed."""
    rows = view.ask(f"SELECT schedule_id, first_for, last_for FROM {table}")  # noqa: S608
    return [Span(hex_of(row[0]) or "", *row[1:]) for row in rows]


def standings(view: View) -> list[Standing]:
    """Return the schedules as they are."""
    return [Standing(hex_of(row[0]) or "", *row[1:]) for row in view.ask(LIST_SCHEDULES)]


class SqliteView:
    """A file, opened for reading alone."""

    def __init__(self, url: str) -> None:
        path = url.removeprefix(SQLITE)
        self._connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
        self._connection.set_busy_timeout(1000)

    def ask(self, sql: str, *values: Any) -> list[Row]:
        return self._connection.execute(sql.replace("duly.", "duly_"), values).fetchall()

    def look(self, since: int) -> list[Sight]:
        # Busy, or its disk is full: whoever only looks comes back in a moment.
        with (
            suppress(apsw.BusyError, apsw.FullError, apsw.IOError, apsw.CantOpenError),
            self._connection,
        ):
            self.ask(FIRST_ROW)
            seen_at = SystemClock().now_us()
            return sights(self.ask(LIST_RUNS, since), seen_at)
        return []

    def has_unsettled(self, until: int) -> bool:
        return bool(self.ask(HAS_UNSETTLED, until)[0][0])

    def close(self) -> None:
        self._connection.close()


class PostgresView:
    """A database; a connection that was lost is made again."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: psycopg.Connection[Any] | None = None

    def ask(self, sql: str, *values: object) -> list[Row]:
        for _ in range(TRIES_MAX):
            try:
                return self._rows(self._open(), sql, values)
            except psycopg.OperationalError:
                self.close()
                threading.Event().wait(TRY_EVERY_SECONDS)
        return self._rows(self._open(), sql, values)

    def look(self, since: int) -> list[Sight]:
        # Ids sort by time, so those of the last moments are found without reading all the others.
        first = UUID(bytes=(since // 1000).to_bytes(6, "big") + bytes(10))
        try:
            connection = self._open()
            with connection.transaction():
                self._rows(connection, FIRST_ROW)
                seen_at = SystemClock().now_us()
                rows = self._rows(connection, f"{LIST_RUNS} AND id >= $2", (since, first))
            return sights(rows, seen_at)
        except psycopg.OperationalError:
            self.close()
            return []

    def has_unsettled(self, until: int) -> bool:
        sql = HAS_UNSETTLED.replace("duly.timers", "duly.delayed")
        return bool(self.ask(sql, until)[0][0])

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _open(self) -> psycopg.Connection[Any]:
        if self._connection is None:
            opened = psycopg.connect(self._url, autocommit=True, connect_timeout=2)
            opened.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            opened.read_only = True
            self._connection = opened
        return self._connection

    @staticmethod
    def _rows(
        connection: psycopg.Connection[Any], sql: str, values: tuple[object, ...] = ()
    ) -> list[Row]:
        with psycopg.RawCursor(connection) as cursor:
            return cursor.execute(sql.encode(), values).fetchall()
