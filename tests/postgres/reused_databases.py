"""Databases that are used again, and connections to them: most of a small test went into new ones.

A connection that nobody has used knows no table and no plan, and learns both for every test anew.
A test that has changed what a catalog holds (tables, triggers, rights, statistics), or left something
that can't be emptied, costs its database: the next test gets another. A test that measures sizes or
plans takes a database of its own, because pages that were emptied stay.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psycopg

from duly.store.postgres import PostgresStore
from tests.postgres.database_clock import DatabaseClock, install_clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from duly.store.postgres.session import BoundedConnection
    from tests.postgres.server import Databases

# What a new store holds is kept beside it. Whatever is made in a database has a higher number.
MAKE_CLEANER = """
CREATE SCHEMA duly_kept;
CREATE FUNCTION duly_kept.keep() RETURNS void LANGUAGE plpgsql AS $$
DECLARE one text; has_rows bool;
BEGIN
    FOR one IN SELECT tablename FROM pg_tables WHERE schemaname = 'duly' LOOP
        EXECUTE format('SELECT EXISTS (SELECT 1 FROM duly.%I)', one) INTO has_rows;
        IF has_rows THEN EXECUTE format('CREATE TABLE duly_kept.%I AS TABLE duly.%I', one, one); END IF;
    END LOOP;
END $$;
CREATE FUNCTION duly_kept.clean() RETURNS void LANGUAGE plpgsql AS $$
DECLARE one text;
BEGIN
    -- Twice, because a member that holds claims is not deleted; tables of the caller's own are public.
    FOR one IN SELECT format('%I.%I', schemaname, tablename) FROM pg_tables, generate_series(1, 2) round
        WHERE schemaname IN ('duly', 'public') ORDER BY round LOOP
        EXECUTE 'DELETE FROM ' || one;
    END LOOP;
    FOR one IN SELECT tablename FROM pg_tables WHERE schemaname = 'duly_kept' LOOP
        EXECUTE format('INSERT INTO duly.%I OVERRIDING SYSTEM VALUE SELECT * FROM duly_kept.%I', one, one);
    END LOOP;
    PERFORM setval(format('duly.%I', sequencename), start_value, false)
    FROM pg_sequences WHERE schemaname = 'duly';
END $$;
SELECT duly_kept.keep()"""
READ_CATALOGS = """
SELECT (SELECT md5(string_agg(concat_ws(' ', c.oid, relname, relnatts, relacl, reloptions,
        relrowsecurity, relforcerowsecurity, relpages, reltuples), ',' ORDER BY c.oid))
    FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname !~ '^pg_'),
  (SELECT count(*) FROM pg_db_role_setting JOIN pg_database d ON d.oid = setdatabase
    WHERE datname = current_database()),
  (SELECT array_agg((tableoid, number, changes)) FROM (
    SELECT tableoid, count(*) number, sum(xmin::text::int8) changes FROM (
        SELECT tableoid, xmin, oid FROM pg_namespace WHERE nspname !~ '^pg_'
        UNION ALL SELECT tableoid, xmin, oid FROM pg_attrdef
        UNION ALL SELECT tableoid, xmin, attrelid FROM pg_attribute
        UNION ALL SELECT tableoid, xmin, oid FROM pg_constraint
        UNION ALL SELECT tableoid, xmin, oid FROM pg_policy
        UNION ALL SELECT tableoid, xmin, oid FROM pg_proc
        UNION ALL SELECT tableoid, xmin, oid FROM pg_rewrite
        UNION ALL SELECT tableoid, xmin, starelid FROM pg_statistic
        UNION ALL SELECT tableoid, xmin, oid FROM pg_trigger) o
    WHERE oid >= 2200 GROUP BY tableoid ORDER BY tableoid) c)::text"""
"""What a test may have changed beside rows."""
REMOVE_TURNSTILE = "DROP FUNCTION IF EXISTS duly_testing.pass_the_turnstile CASCADE"
LOCK_LIMIT = "SET lock_timeout = '2s'"
END_OTHERS = """
SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity
WHERE backend_type = 'client backend' AND datname = current_database()
  AND pid <> pg_backend_pid() AND pid <> ALL(%s)"""


def with_store(url: str) -> None:
    """Make a store as a program does, whose clock is the server's own."""
    store = PostgresStore(url)
    store.now()
    store.close()


def with_store_and_clock(url: str) -> None:
    """Make the same, with a clock that is set by hand."""
    with_store(url)
    install_clock(url)


def with_schema(url: str) -> None:
    """Make a store of eight shards, with a clock that is set by hand."""
    store = PostgresStore(url, shards=8)
    store.status()
    store.close()
    install_clock(url)


@dataclass(eq=False, slots=True)
class Lent:
    """A database, lent to one test at a time."""

    url: str
    line: psycopg.Connection[Any]
    """For whoever empties it, and sets its clock."""
    left: list[BoundedConnection] = field(default_factory=list)
    """What the last store on it has left: idle, and in order as far as that store knew."""

    @contextmanager
    def clock(self) -> Iterator[DatabaseClock]:
        """Return the clock that it follows, at its beginning."""
        made = DatabaseClock(self.url, line=self.line)
        yield made
        if made.line is not self.line:
            made.close()

    @contextmanager
    def store(
        self, clock: DatabaseClock, kind: type[PostgresStore] = PostgresStore
    ) -> Iterator[PostgresStore]:
        """Open a store, on connections that the last one has left."""
        opened = kind(self.url, clock)
        stock = opened._connections.idle  # noqa: SLF001 - a store opens its own, and closes them
        for connection in self.left:
            connection.planned_at = clock.monotonic_us()
            stock[connection.is_for_dispatch].put(connection)
        self.left = []
        yield opened
        self.left = [connection for idle in stock.values() for connection in idle.empty()]
        opened.close()

    def close(self) -> None:
        """Disconnect."""
        for connection in (self.line, *self.left):
            connection.close()


class Reused:
    """Databases that one function has filled."""

    def __init__(self, databases: Databases, prepare: Callable[[str], object]) -> None:
        self._databases = databases
        self._prepare = prepare
        self._free: list[Lent] = []
        self._catalogs: tuple[Any, ...] | None = None

    def take(self) -> Lent:
        """Return a database as it was when it was filled."""
        if self._free:
            return self._free.pop()
        url = self._databases.create_database(self._databases.prepared(self._prepare_too))
        return Lent(url, _connect(url))

    def give_back(self, lent: Lent) -> None:
        """Empty a database for the next one; drop one that can't be."""
        kept = [one.info.backend_pid for one in lent.left if not one.closed]
        try:
            if _is_lost(lent.line):
                lent.line = _connect(lent.url)
            lent.line.execute(END_OTHERS, [kept])
            lent.line.execute(REMOVE_TURNSTILE)
            is_as_made = self._catalogs == lent.line.execute(READ_CATALOGS).fetchone()
            if is_as_made:
                lent.line.execute("SELECT duly_kept.clean()")
        except psycopg.Error:
            is_as_made = False
        if is_as_made:
            self._free.append(lent)
        else:
            self._drop(lent)

    def close(self) -> None:
        """Drop them all."""
        while self._free:
            self._drop(self._free.pop())

    def _drop(self, lent: Lent) -> None:
        lent.close()
        self._databases.drop_database(lent.url)

    def _prepare_too(self, url: str) -> None:
        self._prepare(url)
        with psycopg.connect(url, autocommit=True) as line:
            line.execute(MAKE_CLEANER)
            self._catalogs = line.execute(READ_CATALOGS).fetchone()


def _connect(url: str) -> psycopg.Connection[Any]:
    line = psycopg.connect(url, autocommit=True)
    line.execute(LOCK_LIMIT)
    return line


def _is_lost(line: psycopg.Connection[Any]) -> bool:
    """Say whether a connection was ended, as by a test that cuts all of a database's."""
    try:
        line.execute("SELECT 1")
    except psycopg.OperationalError:
        return True
    return False
