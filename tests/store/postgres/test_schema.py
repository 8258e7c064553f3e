"""Migrations: applied once, in order, by one of many; other ages are refused or go on."""

from __future__ import annotations

from dataclasses import replace
from threading import Barrier, Thread

import psycopg
import pytest

from duly.errors import SchemaMismatch
from duly.store.migrating import compatible_with, make_migration
from duly.store.postgres import PostgresSettings, PostgresStore
from duly.store.postgres.schema import known_migrations, statements_of
from duly_conformance import steps

ADD_COLOUR = "ALTER TABLE duly.tasks ADD COLUMN colour text;"
KNOWN = [migration.number for migration in known_migrations()]
NEXT = KNOWN[-1] + 1
NEWER = make_migration(NEXT, "pre", "colour", f"-- compatible-with: 1\n{ADD_COLOUR}")
NEWER_NAME = f"{NEXT:04}_pre_colour"
BREAKING = make_migration(NEXT, "pre", "rebuilt", f"-- compatible-with: {NEXT}\n{ADD_COLOUR}")
LATER = make_migration(NEXT, "post", "cleaned", f"-- compatible-with: {NEXT}\n{ADD_COLOUR}")
AT_ONCE = 6


def knowing(*more):
    return PostgresSettings(migrations=(*known_migrations(), *more))


def race(url, settings):
    """Open and migrate a database from several stores that start at the same moment; add up."""
    barrier, done = Barrier(AT_ONCE), []

    def migrate():
        store = PostgresStore(url, settings=settings)
        barrier.wait(120)
        done.append(len(store.migrate()))
        store.close()

    threads = [Thread(target=migrate) for _ in range(AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(done)


@pytest.fixture
def newer(timed_url, clock, open_store):
    """Open the database as a program would that knows more migrations."""
    return lambda *more: open_store(timed_url, clock, settings=knowing(*more))


def test_an_empty_database_gets_the_whole_schema_at_the_first_use(database, open_store):
    store = open_store(database, shards=5)

    assert [] == steps.audit(store)
    status = store.schema_status()
    assert ((), (), True, None) == (
        status.missing,
        status.unknown,
        status.is_usable,
        status.problem,
    )
    assert [one.number for one in known_migrations()] == [one.number for one in status.applied]
    assert (5, 15) == (store.status().shards, len(store.status().leases))


def test_a_look_at_the_schema_makes_none(database, open_store):
    status = open_store(database).schema_status()

    assert ([], False) == (list(status.applied), status.is_usable)


def test_a_database_with_tables_of_its_own_gets_ours_beside_them(database, open_store):
    """The caller's database may be there first."""
    with psycopg.connect(database) as theirs:
        theirs.execute("CREATE TABLE tasks (number integer)")
        theirs.execute("INSERT INTO tasks VALUES (7)")

    assert 1 == steps.create(open_store(database)).version
    with psycopg.connect(database) as theirs:
        assert [(7,)] == theirs.execute("SELECT number FROM tasks").fetchall()


def test_how_many_shards_there_are_is_settled_when_the_schema_is_made(database, open_store):
    assert 3 == open_store(database, shards=3).status().shards
    assert 3 == open_store(database, shards=64).status().shards


def test_an_older_schema_is_refused_until_it_is_migrated(store, newer):
    known = newer(NEWER)

    with pytest.raises(SchemaMismatch, match=r"an older schema .*; run `duly db migrate`"):
        known.status()
    with pytest.raises(SchemaMismatch, match="an older schema"):
        steps.create(known)
    assert [NEWER] == [replace(one, applied_at=None) for one in known.migrate()]
    assert [] == known.migrate()
    assert known.schema_status().is_usable
    assert 1 == steps.create(known).version


def test_a_program_one_version_old_goes_on(store, newer):
    """Safe while old processes still run."""
    steps.create(store, "before")
    newer(NEWER).migrate()
    older = newer()

    assert 1 == steps.create(store).version
    assert 1 == steps.create(older, "weekly").version
    assert ((NEWER_NAME,), True) == (
        older.schema_status().unknown,
        older.schema_status().is_usable,
    )


def test_a_schema_that_leaves_old_programs_behind_refuses_them(store, newer):
    """INV-25: mismatch is refused, also by a store that was open before."""
    steps.create(store)
    newer(BREAKING).migrate()
    older = newer()

    with pytest.raises(SchemaMismatch, match=r"a newer schema .*; bring the newer program"):
        older.status()
    with pytest.raises(SchemaMismatch, match="a newer schema"):
        steps.create(store, "weekly")
    assert not older.schema_status().is_usable
    with pytest.raises(SchemaMismatch, match=r"a newer schema .*; bring the newer program"):
        older.migrate()


def test_a_post_migration_can_wait(store, newer):
    """New code runs on what is there before the old is gone."""
    later = newer(LATER)

    assert later.schema_status().is_usable
    assert [] == later.migrate(phase="pre")
    assert [NEXT] == [one.number for one in later.migrate(phase="post")]


def test_a_post_migration_is_refused_before_the_pre_that_it_builds_on(store, newer):
    """In order, whichever phase is asked for."""
    cleaned = make_migration(NEXT + 1, "post", "cleaned", "-- compatible-with: 2\nSELECT 1;")
    known = newer(NEWER, cleaned)

    with pytest.raises(SchemaMismatch, match=rf"lacks {NEWER_NAME}, .*; run `duly db migrate"):
        known.migrate(phase="post")
    assert KNOWN == [one.number for one in known.schema_status().applied]
    known.migrate(phase="pre")
    assert [NEXT + 1] == [one.number for one in known.migrate(phase="post")]


def test_a_migration_that_fails_leaves_nothing(timed_url, store, newer):
    text = "CREATE TABLE duly.x (y int);\nSELECT z FROM y;"
    broken = make_migration(NEXT, "pre", "broken", text)

    with pytest.raises(SchemaMismatch):
        newer(broken).migrate()
    with psycopg.connect(timed_url) as line:
        assert [(None,)] == line.execute("SELECT to_regclass('duly.x')").fetchall()
    assert 1 == steps.create(store).version


def test_of_many_that_migrate_at_once_one_does_it(timed_url, store):
    steps.create(store)

    assert [0] * (AT_ONCE - 1) + [1] == race(timed_url, knowing(NEWER))
    assert [NEWER_NAME] == list(store.schema_status().unknown)
    assert [] == store.check()


def test_of_many_that_open_a_new_database_at_once_one_makes_it(database, open_store):
    assert [0] * (AT_ONCE - 1) + [NEXT] == race(database, knowing(NEWER))
    store = open_store(database, settings=knowing(NEWER))
    assert [*KNOWN, NEXT] == [one.number for one in store.schema_status().applied]
    assert 3 * store.status().shards == len(store.status().leases)


def test_a_migration_that_was_changed_afterwards_is_found(timed_url, store, open_store):
    first = known_migrations()[0]
    edited = make_migration(1, "pre", "first", f"{first.sql}\n-- a little better")
    migrations = (edited, *known_migrations()[1:])
    other = open_store(timed_url, settings=PostgresSettings(migrations=migrations))

    (finding,) = other.check()

    assert ("migration", "0001_pre_first is not as it was when it was applied") == (
        finding.what,
        finding.detail,
    )


def test_every_migration_says_whom_it_leaves_behind():
    for migration in known_migrations():
        assert "-- compatible-with: " in migration.sql
        assert compatible_with(migration) <= migration.number


def test_migrations_are_numbered_without_holes():
    numbers = [migration.number for migration in known_migrations()]

    assert list(range(1, len(numbers) + 1)) == numbers


def test_a_statement_of_a_migration_may_hold_semicolons_within_a_line():
    function = "CREATE FUNCTION f() AS $$\n    SELECT 1\n    ; SELECT 2 $$"

    assert [function, "SELECT 3"] == statements_of(f"-- first\n{function};\n\nSELECT 3;\n")
