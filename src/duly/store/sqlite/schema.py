"""The schema of the file: migrations, what it has of them, and applying what is missing (D5)."""

from __future__ import annotations

import re
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING

from duly.domain.literals import Lane
from duly.errors import SchemaMismatch
from duly.store.schema import Migration, SchemaStatus
from duly.store.sqlite.rows import one

if TYPE_CHECKING:
    from collections.abc import Sequence

    import apsw

    from duly.clock import Clock

_FILE_NAME = re.compile(r"(\d{4})_(pre|post)_(\w+)\.sql")
_COMPATIBLE = re.compile(r"^-- compatible-with: (\d+)$", re.MULTILINE)

TOO_NEW = "has a newer schema than this program can use"

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
    found: list[Migration] = []
    for file in files("duly.store.sqlite").joinpath("migrations").iterdir():
        match = _FILE_NAME.fullmatch(file.name)
        if match:
            number, phase, name = match.groups()
            sql = file.read_text(encoding="utf-8")
            found.append(make_migration(int(number), phase, name, sql))
    return tuple(sorted(found, key=lambda migration: migration.number))


def make_migration(number: int, phase: str, name: str, sql: str) -> Migration:
    """Return a migration with the checksum of its text."""
    checksum = sha256(sql.encode()).hexdigest()
    return Migration(number, phase, name, sql, checksum, None)


def compatible_with(migration: Migration) -> int:
    """Return the oldest schema number that a program may know and still use the result."""
    match = _COMPATIBLE.search(migration.sql)
    return int(match.group(1)) if match else migration.number


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


def refuse_untimely(
    connection: apsw.Connection, known: Sequence[Migration], name: str, phase: str | None
) -> None:
    """Refuse to migrate a file that is too new for us, and a `post` before its `pre`."""
    status = read_status(connection, known, name)
    if status.problem == TOO_NEW:
        raise SchemaMismatch(name, TOO_NEW, "bring the newer program")
    if phase != "post":
        return
    posts = [migration.number for migration in status.missing if migration.phase == "post"]
    last = max(posts, default=0)
    for migration in status.missing:
        if migration.phase == "pre" and migration.number < last:
            problem = f"lacks {migration.number:04}_pre_{migration.name}, which comes before"
            raise SchemaMismatch(name, problem, "run `duly db migrate --phase pre` first")


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
            done.append(_applied(migration, now))
        connection.execute("COMMIT")
    return done


def read_applied(connection: apsw.Connection) -> list[tuple[int, str, str, str, int]]:
    """Return number, phase, name, checksum and time of what a file has."""
    return list(connection.execute(LIST_APPLIED)) if _has_schema(connection) else []


def read_status(connection: apsw.Connection, known: Sequence[Migration], name: str) -> SchemaStatus:
    """Compare what a file has with what this program knows."""
    rows = {row[0]: row for row in read_applied(connection)}
    numbers = {migration.number for migration in known}
    applied = [_applied(m, rows[m.number][4]) for m in known if m.number in rows]
    missing = [migration for migration in known if migration.number not in rows]
    unknown = [f"{row[0]:04}_{row[1]}_{row[2]}" for row in rows.values() if row[0] not in numbers]
    problem = None
    if rows and one(connection, READ_PROGRAM_MIN)[0] > max(numbers):
        problem = TOO_NEW
    elif any(migration.phase == "pre" for migration in missing):
        problem = "has an older schema than this program needs"
    return SchemaStatus(
        name, tuple(applied), tuple(missing), tuple(unknown), problem is None, problem
    )


def require_usable(connection: apsw.Connection, known: Sequence[Migration], name: str) -> None:
    """Refuse a file of another age."""
    status = read_status(connection, known, name)
    if status.problem is not None:
        is_older = bool(status.missing)
        remedy = "run `duly db migrate`" if is_older else "bring the newer program"
        raise SchemaMismatch(name, status.problem, remedy)


def _has_schema(connection: apsw.Connection) -> bool:
    return connection.execute(HAS_SCHEMA).fetchone() is not None


def _note(connection: apsw.Connection, migration: Migration, now: int) -> None:
    row = (migration.number, migration.phase, migration.name, migration.checksum, now)
    connection.execute(INSERT_APPLIED, row)
    connection.execute(RAISE_PROGRAM_MIN, (compatible_with(migration),))


def _applied(migration: Migration, at: int) -> Migration:
    return Migration(
        migration.number,
        migration.phase,
        migration.name,
        migration.sql,
        migration.checksum,
        at,
    )
