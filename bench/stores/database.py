"""A PostgreSQL server for the fleet's benchmark, its databases full of promises, and its counters.

The server is durable as in production: what it has acknowledged is on the disk.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import psycopg

from bench.stores.places import CLOCK, QUARTER_US, Rows, make_templates
from duly.store.postgres import PostgresStore
from tests.postgres.database_clock import DatabaseClock, install_clock
from tests.postgres.server import Server

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from bench.stores.places import Promise
    from duly.engine.manual_clock import ManualClock
    from duly.store.ports import Store

SETTINGS = {
    "shared_buffers": "1GB",
    "min_wal_size": "4GB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "15min",
    "shared_preload_libraries": "pg_stat_statements",
}
LOG_SEGMENTS = 256
"""As many files of its log as `min_wal_size` keeps."""
FILLED = ("schedules", "schedule_definitions", "schedule_state", "delayed")

# A schedule's id tells the moment it was made, a delayed run's the one it is due; the rest of an id
# is as good as drawn, and so is the order of rows.
TELL_IDS = """
CREATE TEMP TABLE promised_{kind} AS
SELECT number, due_at, period_us, lpad(to_hex(stamp_ms), 12, '0') || '{version}'
    || substr(digest, 1, 3) || '8' || substr(digest, 4, 15) AS id
FROM (
    SELECT p.*, md5('{kind}' || number) AS digest,
        ({stamp_us}) / 1000 AS stamp_ms FROM told_{kind} p) d"""
MADE_AT = f"{{now}} - ('x' || substr(md5(number::text), 1, 15))::bit(60)::int8 % {QUARTER_US}"
SHARD = """(('x' || right(p.id, 8))::bit(32)::int8
    % (SELECT shards FROM duly.cluster))::int4"""
ANCHOR = """to_char(to_timestamp((p.due_at % p.period_us) / 1000000.0) AT TIME ZONE 'UTC',
    'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"')"""
# By replacing text, so that it stays as Duly writes it: what reads it relies on that to be quick.
DEFINITION = f"""replace(replace(replace(t.definition,
    '"period":"1d"', '"period":"' || p.period_us || 'us"'),
    '"anchor":"1970-01-01T00:00:00+00:00"', '"anchor":"' || {ANCHOR} || '"'),
    '"arguments":{{}}', '"arguments":{{"number":' || p.number || '}}')"""
CHANGED = {
    "schedules": {"id": "p.id::uuid", "name": "'s' || p.number"},
    "schedule_definitions": {"schedule_id": "p.id::uuid", "definition": DEFINITION},
    "schedule_state": {
        "schedule_id": "p.id::uuid",
        "shard": SHARD,
        "next_for": "p.due_at",
        "next_due": "p.due_at",
        "load_at": "p.due_at",
        "name": "'s' || p.number",
        "arguments": """'{"number":' || p.number || '}'""",
    },
    "delayed": {
        "id": "p.id::uuid",
        "key": "'d' || p.number",
        "shard": SHARD,
        "due_at": "p.due_at",
    },
}
COUNTERS = """
SELECT sum(s.calls), sum(s.shared_blks_hit + s.shared_blks_read), sum(s.shared_blks_read),
    sum(s.wal_bytes), sum(s.wal_fpi)
FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid
WHERE d.datname = %s AND s.query <> 'SELECT count(*) FROM duly.claims'"""
"""Without what only looks when it is over (bench/peers/duly.py)."""
COUNTED = ("statements", "buffers", "buffers read", "WAL bytes of statements", "page images")


class Database:
    """A database that is a place for promises."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.url = server.create_database()
        self.is_counted_from_checkpoint = False
        """Whether counting begins with a checkpoint: what is written first then is whole pages."""

    def fill(self, schedules: Iterable[Promise] = (), delayed: Iterable[Promise] = ()) -> None:
        if not self.url:
            self.url = self._server.create_database()
        make_templates(self.url)
        with ExitStack() as stack:
            for table in FILLED:
                stack.enter_context(self.without_indexes(table))
            connection = stack.enter_context(psycopg.connect(self.url))
            execute(connection, "SET LOCAL synchronous_commit = off; SET LOCAL work_mem = '256MB'")
            counts = [
                self._tell(connection, kind, promises)
                for kind, promises in (("schedules", schedules), ("delayed", delayed))
            ]
            for table in FILLED:
                self._repeat(connection, table)
            for name, count in zip(("active", "delayed"), counts, strict=True):
                sql = f"UPDATE duly.tallies SET count = {count:d} WHERE name = '{name}'"  # noqa: S608
                execute(connection, sql)
            execute(connection, "DELETE FROM duly.tally_changes; DELETE FROM duly.audit")
            execute(connection, "TRUNCATE duly.arrivals")
        self._settle()

    def shift(self, by_us: int, only_at: int | None = None) -> None:
        where = "true" if only_at is None else f"{{}} = {only_at:d}"
        changes = ", ".join(f"{name} = {name} + {by_us:d}" for name in ("next_for", "load_at"))
        self.execute(
            f"UPDATE duly.schedule_state SET next_due = next_due + {by_us:d}, {changes}"  # noqa: S608
            f" WHERE {where.format('next_due')}"
        )
        self.execute(
            f"UPDATE duly.delayed SET due_at = due_at + {by_us:d}"  # noqa: S608
            f" WHERE {where.format('due_at')}"
        )
        if only_at is None:
            # Nothing was promised for the time before: whoever watches would tell of it.
            self.execute(f"UPDATE duly.schedule_definitions SET made_at = made_at + {by_us:d}")  # noqa: S608
            self.execute("VACUUM duly.schedule_definitions")
        for table in ("schedule_state", "delayed"):
            self.execute(f"VACUUM duly.{table}")

    def rows(self, sql: str) -> Rows:
        return self._look.execute(sql).fetchall()

    def execute(self, sql: str) -> None:
        """Do something beside."""
        execute(self._look, sql)

    @contextmanager
    def counting(self) -> Iterator[Counts]:
        with psycopg.connect(self._server.url("postgres"), autocommit=True) as connection:
            if self.is_counted_from_checkpoint:
                execute(connection, "CHECKPOINT")
            yield Counts(connection, self.url.rpartition("/")[2])

    @contextmanager
    def clock(self, now_us: int) -> Iterator[ManualClock]:
        install_clock(self.url)
        with DatabaseClock(self.url, now_us) as clock:
            yield clock

    def store(self, clock: ManualClock) -> Store:
        return PostgresStore(self.url, clock)

    def remove(self) -> None:
        self._look.close()
        del self._look
        self._server.drop_database(self.url)
        self.url = ""

    def _tell(
        self, connection: psycopg.Connection[Any], kind: str, promises: Iterable[Promise]
    ) -> int:
        """Tell the database what is to be promised; return how much that is."""
        execute(
            connection,
            f"CREATE TEMP TABLE told_{kind} (number int8, due_at int8, period_us int8)",
        )
        copy = f"COPY told_{kind} FROM STDIN"
        count = 0
        with connection.cursor().copy(copy) as rows:
            for count, promise in enumerate(promises, 1):
                rows.write(f"{count}\t{promise.due_at}\t{promise.period_us}\n")
        made_at = MADE_AT.format(now=CLOCK.now_us())
        version, stamp_us = ("7", made_at) if kind == "schedules" else ("8", "due_at")
        execute(connection, TELL_IDS.format(kind=kind, version=version, stamp_us=stamp_us))
        return count

    @contextmanager
    def without_indexes(self, table: str) -> Iterator[None]:
        """Fill a table first, and make its indexes when it is full; its primary key stays."""
        sql = f"""
            SELECT i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid) FROM pg_index i
            WHERE i.indrelid = 'duly.{table}'::regclass AND NOT i.indisprimary"""  # noqa: S608
        found = self.rows(sql)
        for name, _ in found:
            self.execute(f"DROP INDEX {name}")
        yield
        self.execute("SET maintenance_work_mem = '512MB'")
        for _, made_by in found:
            self.execute(str(made_by))

    def _repeat(self, connection: psycopg.Connection[Any], table: str) -> None:
        """Repeat the one row of a table for each promise, and leave the row itself out."""
        sql = f"""
            SELECT attname FROM pg_attribute
            WHERE attrelid = 'duly.{table}'::regclass AND attnum > 0 AND NOT attisdropped"""  # noqa: S608
        names = [name for (name,) in execute(connection, sql)]
        values = ", ".join(CHANGED[table].get(name, f"t.{name}") for name in names)
        kind = "delayed" if table == "delayed" else "schedules"
        sql = f"""
            WITH t AS (DELETE FROM duly.{table} RETURNING *)
            INSERT INTO duly.{table} ({", ".join(names)})
            SELECT {values} FROM t CROSS JOIN promised_{kind} p ORDER BY p.id"""  # noqa: S608
        execute(connection, sql)

    def _settle(self) -> None:
        """Clean up and take statistics, as autovacuum will have done in a store in use."""
        for table in FILLED:
            self.execute(f"VACUUM (ANALYZE) duly.{table}")

    @cached_property
    def _look(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self.url, autocommit=True)


class Counts:
    """What one database has done since counting began."""

    def __init__(self, connection: psycopg.Connection[Any], database: str) -> None:
        self._connection = connection
        self._database = database
        execute(connection, "CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        execute(connection, "SELECT pg_stat_statements_reset()")
        self._wal_at = self._wal()

    def read(self) -> Counter[str]:
        """Return the counts so far."""
        (found,) = self._connection.execute(COUNTERS, (self._database,)).fetchall()
        counts = Counter(
            {name: int(count or 0) for name, count in zip(COUNTED, found, strict=True)}
        )
        counts["WAL bytes"] = self._wal() - self._wal_at
        return counts

    def _wal(self) -> int:
        ((position,),) = execute(self._connection, "SELECT pg_current_wal_insert_lsn() - '0/0'")
        return int(position)


def execute(connection: psycopg.Connection[Any], sql: str) -> Rows:
    """Run a statement of ours; return its rows, if it has any."""
    cursor = connection.execute(sql)
    return cursor.fetchall() if cursor.description else []


def boot() -> Server:
    """Start the server, as one that has been at work for some hours."""
    server = Server.boot(SETTINGS, durable=True)
    try:
        _grow_log(server)
    except BaseException:
        server.stop()
        raise
    return server


def _grow_log(server: Server) -> None:
    """Have the files of the log made that a server in use has, and uses again and again.

    A new one is sixteen megabytes of zeros, for which every commit waits some fifty milliseconds:
    of a server that has just been made that would be a second of the lateness in each twenty.
    """
    with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
        for _ in range(LOG_SEGMENTS):
            execute(connection, "SELECT pg_logical_emit_message(false, 'bench', 'more')")
            execute(connection, "SELECT pg_switch_wal()")
