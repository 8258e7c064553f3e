"""The schema of the file: what it has of the migrations, and applying what is missing."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from duly.domain.enums import Lane
from duly.store import migrating
from duly.store.migrating import Applied, applied_at, compare, compatible_with, read_migrations
from duly.store.sqlite.rows import one

if TYPE_CHECKING:
    from collections.abc import Sequence

    import apsw

    from duly.clock import Clock
    from duly.store.ports.maintenance import Migration, SchemaStatus

HAS_SCHEMA = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'duly_migrations'"
LIST_APPLIED = """
SELECT number, phase, name, checksum, applied_at FROM duly_migrations ORDER BY number"""
INSERT_APPLIED = "INSERT INTO duly_migrations VALUES (?, ?, ?, ?, ?)"
READ_PROGRAM_MIN = "SELECT program_min FROM duly_cluster"
RAISE_PROGRAM_MIN = "UPDATE duly_cluster SET program_min = max(program_min, ?)"
INSERT_CLUSTER = """
INSERT INTO duly_cluster (id, shards, incarnation, tzdata, judge_after, program_min)
VALUES (1, ?, 1, '', 0, 1)"""
INSERT_LEASE = "INSERT INTO duly_leases (shard, lane, epoch) VALUES (?, ?, 0)"


@cache
def known_migrations() -> tuple[Migration, ...]:
    """Return the migrations that this program brings, in order."""
    return read_migrations("duly.store.sqlite")


def create_if_empty(
    connection: apsw.Connection, known: Sequence[Migration], clock: Clock, shards: int
) -> None:
    """Give a file without our tables all of them, in one transaction; of two, one does it."""
    if _has_schema(connection):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        if not _has_schema(connection):
            first, *rest = known
            connection.execute(first.sql)
            connection.execute(INSERT_CLUSTER, (shards,))
            leases = [(shard, str(lane)) for shard in range(shards) for lane in Lane]
            connection.executemany(INSERT_LEASE, leases)
            _note(connection, first, clock.now_us())
            for migration in rest:
                connection.execute(migration.sql)
                _note(connection, migration, clock.now_us())
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def apply_missing(
    connection: apsw.Connection, known: Sequence[Migration], clock: Clock, phase: str | None
) -> list[Migration]:
    """Apply what is missing, each in its own transaction; what another has done is left alone."""
    done: list[Migration] = []
    for migration in known:
        if phase not in (None, migration.phase):
            continue
        connection.execute("BEGIN IMMEDIATE")
        applied = {row[0] for row in connection.execute(LIST_APPLIED)}
        if migration.number not in applied:
            now = clock.now_us()
            connection.execute(migration.sql)
            _note(connection, migration, now)
            done.append(applied_at(migration, now))
        connection.execute("COMMIT")
    return done


def read_applied(connection: apsw.Connection) -> Applied:
    """Return what a file has."""
    if not _has_schema(connection):
        return migrating.NOTHING_APPLIED
    rows = tuple(connection.execute(LIST_APPLIED))
    return Applied(rows, one(connection, READ_PROGRAM_MIN)[0])


def read_status(connection: apsw.Connection, known: Sequence[Migration], name: str) -> SchemaStatus:
    """Compare what a file has with what this program knows."""
    return compare(known, read_applied(connection), name)


def require_usable(connection: apsw.Connection, known: Sequence[Migration], name: str) -> None:
    """Refuse a file of another age."""
    migrating.require_usable(read_status(connection, known, name))


def _has_schema(connection: apsw.Connection) -> bool:
    return connection.execute(HAS_SCHEMA).fetchone() is not None


def _note(connection: apsw.Connection, migration: Migration, now: int) -> None:
    row = (migration.number, migration.phase, migration.name, migration.checksum, now)
    connection.execute(INSERT_APPLIED, row)
    connection.execute(RAISE_PROGRAM_MIN, (compatible_with(migration),))
