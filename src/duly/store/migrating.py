"""Migrations: reading those that a program brings, and comparing them with what a store has.

What it takes to apply one is each database's own; what it means to lack one is the same for all.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING

from duly.errors import SchemaMismatch
from duly.store.ports.maintenance import IntegrityFinding, Migration, SchemaStatus

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_FILE_NAME = re.compile(r"(\d{4})_(pre|post)_(\w+)\.sql")
_COMPATIBLE = re.compile(r"^-- compatible-with: (\d+)$", re.MULTILINE)

TOO_NEW = "has a newer schema than this program can use"
TOO_OLD = "has an older schema than this program needs"
CHANGED = "restore the program's own files; a migration that was applied must never be edited"

AppliedRow = tuple[int, str, str, str, int]
"""Number, phase, name, checksum and time of a migration that a store has."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What a store has, and the oldest schema number that a program may know and still use it."""

    rows: tuple[AppliedRow, ...]
    program_min: int


NOTHING_APPLIED = Applied((), 0)


def read_migrations(package: str) -> tuple[Migration, ...]:
    """Return the migrations in a package's folder of that name, in order."""
    found: list[Migration] = []
    for file in files(package).joinpath("migrations").iterdir():
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


def applied_at(migration: Migration, instant: int) -> Migration:
    """Return a migration as one that a store has."""
    return replace(migration, applied_at=instant)


def compare(known: Sequence[Migration], has: Applied, name: str) -> SchemaStatus:
    """Compare what a store has with what this program knows."""
    rows = {row[0]: row for row in has.rows}
    numbers = {migration.number for migration in known}
    applied = [applied_at(one, rows[one.number][4]) for one in known if one.number in rows]
    missing = [migration for migration in known if migration.number not in rows]
    unknown = [f"{row[0]:04}_{row[1]}_{row[2]}" for row in rows.values() if row[0] not in numbers]
    problem = None
    if rows and has.program_min > max(numbers):
        problem = TOO_NEW
    elif any(migration.phase == "pre" for migration in missing):
        problem = TOO_OLD
    return SchemaStatus(
        name, tuple(applied), tuple(missing), tuple(unknown), problem is None, problem
    )


def require_usable(status: SchemaStatus) -> None:
    """Refuse a store of another age."""
    if status.problem is not None:
        is_older = bool(status.missing)
        remedy = "run `duly db migrate`" if is_older else "bring the newer program"
        raise SchemaMismatch(status.store, status.problem, remedy)


def refuse_untimely(status: SchemaStatus, phase: str | None) -> None:
    """Refuse to migrate a store that is too new for us, and a `post` before its `pre`."""
    if status.problem == TOO_NEW:
        raise SchemaMismatch(status.store, TOO_NEW, "bring the newer program")
    if phase != "post":
        return
    posts = [migration.number for migration in status.missing if migration.phase == "post"]
    last = max(posts, default=0)
    for migration in status.missing:
        if migration.phase == "pre" and migration.number < last:
            problem = f"lacks {migration.number:04}_pre_{migration.name}, which comes before"
            raise SchemaMismatch(status.store, problem, "run `duly db migrate --phase pre` first")


def changed_migrations(known: Sequence[Migration], has: Applied) -> Iterator[IntegrityFinding]:
    """Find migrations whose text is not what was applied."""
    ours = {migration.number: migration for migration in known}
    for number, phase, title, checksum, _ in has.rows:
        migration = ours.get(number)
        if migration is not None and migration.checksum != checksum:
            detail = f"{number:04}_{phase}_{title} is not as it was when it was applied"
            yield IntegrityFinding("migration", detail, CHANGED)
