"""Migrations: applied once, in order, by one of many; other ages are refused or go on."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import apsw
import pytest

from duly.errors import SchemaMismatch
from duly.store.migrating import compatible_with, make_migration
from duly.store.sqlite import SqliteSettings, SqliteStore
from duly.store.sqlite.schema import known_migrations
from duly_conformance import steps

NUMBER = known_migrations()[-1].number + 1
NEXT = make_migration(
    NUMBER, "pre", "colour", "-- compatible-with: 1\nALTER TABLE duly_tasks ADD COLUMN colour TEXT;"
)
ADDED = "ALTER TABLE duly_tasks ADD COLUMN colour TEXT;"
BREAKING = make_migration(NUMBER, "pre", "rebuilt", f"-- compatible-with: {NUMBER}\n{ADDED}")
LATER = make_migration(NUMBER, "post", "cleaned", f"-- compatible-with: {NUMBER}\n{ADDED}")

OPEN_AND_MIGRATE = """
import sys
from tests.store.sqlite.test_schema import NEXT, knowing
from duly.store.sqlite import SqliteStore

sys.stdin.readline()
store = SqliteStore(sys.argv[1], settings=knowing(NEXT))
print(len(store.migrate()))
store.close()
"""


def knowing(*more):
    return SqliteSettings(migrations=(*known_migrations(), *more))


def race(path, count=3):
    """Start processes that all open and migrate a file as soon as they are told; add up."""
    command = [sys.executable, "-c", OPEN_AND_MIGRATE, str(path)]
    running = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(count)
    ]
    for process in running:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return sum(int(process.communicate(timeout=120)[0]) for process in running)


def test_an_empty_file_gets_the_whole_schema(store):
    status = store.schema_status()

    assert ((), (), True, None) == (
        status.missing,
        status.unknown,
        status.is_usable,
        status.problem,
    )
    assert [one.number for one in known_migrations()] == [one.number for one in status.applied]
    assert {store.now()} == {one.applied_at for one in status.applied}


def test_a_file_with_tables_of_its_own_gets_ours_beside_them(path, clock):
    """The caller's database may be there first."""
    theirs = apsw.Connection(str(path))
    theirs.execute("CREATE TABLE orders (number INTEGER); INSERT INTO orders VALUES (7)")
    store = SqliteStore(path, clock)

    assert steps.create(store).version == 1
    assert [(7,)] == theirs.execute("SELECT number FROM orders").fetchall()
    theirs.close()
    store.close()


def test_an_older_schema_is_refused_at_the_first_operation_until_it_is_migrated(store, path, clock):
    newer = SqliteStore(path, clock, settings=knowing(NEXT))

    with pytest.raises(SchemaMismatch, match=r"an older schema .*; run `duly db migrate`"):
        newer.status()
    with pytest.raises(SchemaMismatch, match="an older schema"):
        steps.create(newer)
    assert [NEXT] == [replace(one, applied_at=None) for one in newer.migrate()]
    assert [] == newer.migrate()
    assert newer.schema_status().is_usable
    assert steps.create(newer).version == 1
    newer.close()


def test_a_program_one_version_old_goes_on(store, path, clock):
    """Safe while old processes still run."""
    newer = SqliteStore(path, clock, settings=knowing(NEXT))
    newer.migrate()
    older = SqliteStore(path, clock)

    assert steps.create(store).version == 1
    assert steps.create(older, "weekly").version == 1
    assert ((f"{NUMBER:04}_pre_colour",), True) == (
        older.schema_status().unknown,
        older.schema_status().is_usable,
    )
    newer.close()
    older.close()


def test_a_schema_that_leaves_old_programs_behind_refuses_them(store, path, clock):
    """INV-25: mismatch is refused, also by a store that was open before."""
    steps.create(store)
    newer = SqliteStore(path, clock, settings=knowing(BREAKING))
    newer.migrate()
    older = SqliteStore(path, clock)

    with pytest.raises(SchemaMismatch, match=r"a newer schema .*; bring the newer program"):
        older.status()
    with pytest.raises(SchemaMismatch, match="a newer schema"):
        steps.create(store, "weekly")
    assert not older.schema_status().is_usable
    newer.close()
    older.close()


def test_a_post_migration_can_wait(store, path, clock):
    """New code runs on what is there before the old is gone."""
    newer = SqliteStore(path, clock, settings=knowing(LATER))

    assert newer.schema_status().is_usable
    assert [] == newer.migrate(phase="pre")
    assert [NUMBER] == [one.number for one in newer.migrate(phase="post")]
    newer.close()


def test_a_post_migration_is_refused_before_the_pre_that_it_builds_on(store, path, clock):
    """In order, whichever phase is asked for."""
    cleaned = make_migration(NUMBER + 1, "post", "cleaned", "-- compatible-with: 2\nSELECT 1;")
    newer = SqliteStore(path, clock, settings=knowing(NEXT, cleaned))

    with pytest.raises(
        SchemaMismatch, match=rf"lacks {NUMBER:04}_pre_colour, .*; run `duly db migrate"
    ):
        newer.migrate(phase="post")
    assert known_migrations() == tuple(
        replace(one, applied_at=None) for one in newer.schema_status().applied
    )
    newer.migrate(phase="pre")
    assert [NUMBER + 1] == [one.number for one in newer.migrate(phase="post")]
    newer.close()


def test_a_file_that_is_too_new_is_not_said_to_be_migrated(store, path, clock):
    """INV-25."""
    newer = SqliteStore(path, clock, settings=knowing(BREAKING))
    newer.migrate()

    with pytest.raises(SchemaMismatch, match=r"a newer schema .*; bring the newer program"):
        store.migrate()
    newer.close()


def test_a_migration_that_fails_leaves_nothing(store, path, clock):
    failing = "CREATE TABLE duly_x (y); SELECT nonsense FROM y;"
    broken = make_migration(NUMBER, "pre", "broken", failing)
    newer = SqliteStore(path, clock, settings=knowing(broken))

    with pytest.raises(SchemaMismatch):
        newer.migrate()
    connection = apsw.Connection(str(path))
    assert [] == connection.execute("SELECT * FROM sqlite_schema WHERE name = 'duly_x'").fetchall()
    assert steps.create(store).version == 1
    connection.close()
    newer.close()


def test_of_processes_that_migrate_at_once_one_does_it(store, path):
    steps.create(store)

    assert 1 == race(path)
    assert [f"{NUMBER:04}_pre_colour"] == list(store.schema_status().unknown)
    assert [] == store.check()


def test_of_processes_that_open_a_new_file_at_once_one_makes_it(path, clock):
    assert 0 == race(path)
    store = SqliteStore(path, clock, settings=knowing(NEXT))
    assert list(range(1, NUMBER + 1)) == [one.number for one in store.schema_status().applied]
    assert 24 == len(store.status().leases)
    store.close()


def test_a_migration_that_was_changed_afterwards_is_found(store, path, clock):
    first, *rest = known_migrations()
    edited = make_migration(1, "pre", "first", f"{first.sql}\n-- a little better")
    other = SqliteStore(path, clock, settings=SqliteSettings(migrations=(edited, *rest)))

    (finding,) = other.check()

    assert ("migration", "0001_pre_first is not as it was when it was applied") == (
        finding.what,
        finding.detail,
    )
    other.close()


def test_every_migration_says_whom_it_leaves_behind():
    for migration in known_migrations():
        assert "-- compatible-with: " in migration.sql
        assert compatible_with(migration) <= migration.number


def test_migrations_are_numbered_without_holes():
    numbers = [migration.number for migration in known_migrations()]

    assert list(range(1, len(numbers) + 1)) == numbers
