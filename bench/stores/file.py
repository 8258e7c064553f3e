"""Files of SQLite for the engine's benchmark: filled by the hundred thousand, and counted."""

from __future__ import annotations

import json
import random
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property, partial
from time import sleep
from typing import TYPE_CHECKING, Any, cast

import apsw

from bench.stores.places import CLOCK, EPOCH, QUARTER_US, Promise, Rows, make_templates
from duly.domain.ids import schedule_id, shard_of
from duly.engine.manual_clock import ManualClock
from duly.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from duly.store.ports import Store

SHARDS = 8
CHUNK = 50_000
TELL = "CREATE TEMP TABLE told (number INTEGER PRIMARY KEY, due_at INTEGER, low INTEGER)"
# As in `ordered_run_id`: when it is due, the version, and the rest as good as drawn.
TELL_IDS = f"""
CREATE TEMP TABLE promised AS
SELECT number, due_at, low % {SHARDS} AS shard, unhex(
    printf('%012x8%x', due_at / 1000, abs(random() % 8)) || hex(randomblob(1))
    || printf('%x', 8 + abs(random() % 4)) || substr(hex(randomblob(4)), 2)
    || printf('%08x', low)) AS id FROM told"""  # noqa: S608 - a number of ours
INDEXES = "SELECT name, sql FROM sqlite_master WHERE tbl_name = ? AND type = 'index' AND sql <> ''"
DELAYED_CHANGED = {"id": "id", "due_at": "due_at", "shard": "shard", "key": "'d' || number"}
TIMERS_CHANGED = {"shard": "shard", "due_at": "due_at", "ref": "id"}


class SqliteFile:
    """A file that is a place for promises."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = f"sqlite:///{path}"

    def fill(self, schedules: Iterable[Promise] = (), delayed: Iterable[Promise] = ()) -> None:
        make_templates(self.url)
        connection = apsw.Connection(str(self.path))
        connection.pragma("synchronous", "off")
        connection.pragma("journal_mode", "off")
        connection.pragma("cache_size", -500_000)
        loader = _Loader(connection)
        with connection:
            loader.forget_templates()
            counts = loader.add_schedules(schedules), loader.add_delayed(delayed)
            connection.execute("DELETE FROM duly_arrivals; DELETE FROM duly_audit")
            connection.executemany(
                "UPDATE duly_tallies SET count = ? WHERE name = ?",
                zip(counts, ("active", "delayed"), strict=True),
            )
        connection.pragma("journal_mode", "wal")
        connection.close()

    def shift(self, by_us: int, only_at: int | None = None) -> None:
        connection = apsw.Connection(str(self.path))
        connection.pragma("synchronous", "off")
        with connection:
            for table, column, also in (
                ("duly_schedule_state", "next_due", f", next_for = next_for + {by_us:d}"),
                ("duly_delayed", "due_at", ""),
                ("duly_timers", "due_at", ""),
            ):
                sql = f"""
                    UPDATE {table} SET {column} = {column} + ?1{also}
                    WHERE {column} = ?2 OR ?2 IS NULL"""  # noqa: S608
                connection.execute(sql, (by_us, only_at))
            if only_at is None:
                # Nothing was promised for the time before: whoever watches would tell of it.
                moved = "UPDATE duly_schedule_definitions SET made_at = made_at + ?"
                connection.execute(moved, (by_us,))
        connection.pragma("wal_checkpoint", "truncate")
        connection.close()

    def rows(self, sql: str) -> Rows:
        found = self._look.execute(sql.replace("duly.", "duly_")).fetchall()
        return cast("Rows", found)

    def counting(self) -> AbstractContextManager[Counted]:
        return counting()

    @contextmanager
    def clock(self, now_us: int) -> Iterator[ManualClock]:
        yield ManualClock(now_us)

    def store(self, clock: ManualClock) -> Store:
        return SqliteStore(self.path, clock)

    def remove(self) -> None:
        self._look.close()
        del self._look
        for one in self.path.parent.glob(f"{self.path.name}*"):
            one.unlink()

    @property
    def size_mb(self) -> float:
        found = self.path.parent.glob(f"{self.path.name}*")
        return sum(one.stat().st_size for one in found) / 1e6

    @cached_property
    def _look(self) -> apsw.Connection:
        return apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READONLY)


class _Loader:
    """Repeats the rows of one schedule and one delayed run."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._draw = random.Random(20_260_403)
        self._now = CLOCK.now_us()
        self._templates = {
            table: self._template(table)
            for table in (
                "duly_schedules",
                "duly_schedule_definitions",
                "duly_schedule_state",
                "duly_delayed",
                "duly_timers",
            )
        }

    def forget_templates(self) -> None:
        for table in self._templates:
            self._connection.execute(f"DELETE FROM {table}")  # noqa: S608

    def add_schedules(self, promises: Iterable[Promise]) -> int:
        definition = json.loads(self._templates["duly_schedule_definitions"]["definition"])
        definition["timetable"] |= {"period": "PERIOD", "anchor": "ANCHOR"}
        definition["arguments"] = {"number": "NUMBER"}
        text = json.dumps(definition, separators=(",", ":"))  # as Duly writes it
        rows: dict[str, list[dict[str, Any]]] = {}
        count = 0
        for count, promise in enumerate(promises, 1):
            made_at = self._now - self._draw.randrange(QUARTER_US)
            identity = schedule_id(made_at, self._draw.randbytes(10))
            anchor = EPOCH + timedelta(microseconds=promise.due_at % promise.period_us)
            said = text.replace("PERIOD", f"{promise.period_us}us")
            said = said.replace("ANCHOR", anchor.isoformat()).replace('"NUMBER"', str(count))
            rows.setdefault("duly_schedules", []).append({"id": identity, "name": f"s{count}"})
            rows.setdefault("duly_schedule_definitions", []).append(
                {"schedule_id": identity, "definition": said}
            )
            rows.setdefault("duly_schedule_state", []).append(
                {
                    "schedule_id": identity,
                    "shard": shard_of(identity, SHARDS),
                    "next_for": promise.due_at,
                    "next_due": promise.due_at,
                    "name": f"s{count}",
                    "arguments": f'{{"number":{count}}}',
                }
            )
            if count % CHUNK == 0:
                self._flush(rows)
        self._flush(rows)
        return count

    def add_delayed(self, promises: Iterable[Promise]) -> int:
        """Insert them in order, and make indexes afterwards: there may be ten million."""
        connection, bits = self._connection, self._draw.getrandbits
        connection.execute(TELL)
        told = ((one.due_at, bits(32)) for one in promises)
        connection.executemany("INSERT INTO told (due_at, low) VALUES (?, ?)", told)
        connection.execute(TELL_IDS)
        made_by = connection.execute(INDEXES, ("duly_delayed",)).fetchall()
        for name, _ in made_by:
            connection.execute(f"DROP INDEX {name}")
        for table, changed in (
            ("duly_delayed", DELAYED_CHANGED),
            ("duly_timers", TIMERS_CHANGED),
        ):
            template = self._templates[table]
            same = [name for name in template if name not in changed]
            names, values = ", ".join((*changed, *same)), ", ".join(changed.values())
            places = "".join(", ?" for _ in same)
            sql = f"""
                INSERT INTO {table} ({names}) SELECT {values}{places} FROM promised
                ORDER BY {values}"""  # noqa: S608
            connection.execute(sql, [template[name] for name in same])
        for _, made in made_by:
            connection.execute(str(made))
        return int(connection.execute("SELECT count(*) FROM promised").get)

    def _flush(self, rows: dict[str, list[dict[str, Any]]]) -> None:
        for table, changed in rows.items():
            template = self._templates[table]
            same = [name for name in template if name not in changed[0]]
            names = ", ".join((*changed[0], *same))
            places = ", ".join("?" * len(template))
            sql = f"INSERT INTO {table} ({names}) VALUES ({places})"  # noqa: S608
            rest = tuple(template[name] for name in same)
            whole = [(*one.values(), *rest) for one in changed]
            self._connection.executemany(sql, sorted(whole))
        rows.clear()

    def _template(self, table: str) -> dict[str, Any]:
        cursor = self._connection.execute(f"SELECT * FROM {table} LIMIT 1")  # noqa: S608
        names = [column[0] for column in cursor.get_description()]
        return dict(zip(names, next(iter(cursor)), strict=True))


PAGES = {
    "page reads": apsw.SQLITE_DBSTATUS_CACHE_MISS,
    "page hits": apsw.SQLITE_DBSTATUS_CACHE_HIT,
    "page writes": apsw.SQLITE_DBSTATUS_CACHE_WRITE,
}


PATIENCE = 10_000
"""So many times a counter is asked for that another thread keeps from us."""


@dataclass
class Counted:
    """What SQLite did on every connection that was opened meanwhile."""

    totals: Counter[str] = field(default_factory=Counter)
    connections: list[apsw.Connection] = field(default_factory=list)

    def attach(self, connection: apsw.Connection) -> None:
        self.connections.append(connection)
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, self._note)

    def _note(self, event: dict[str, Any]) -> None:
        self.totals["statements"] += 1
        status = event["stmt_status"]
        self.totals["VM steps"] += status["SQLITE_STMTSTATUS_VM_STEP"]
        self.totals["full scan steps"] += status["SQLITE_STMTSTATUS_FULLSCAN_STEP"]

    def read(self) -> Counter[str]:
        """Return the counts so far."""
        found = Counter(self.totals)
        for connection in self.connections:
            with suppress(apsw.ConnectionClosedError):
                for name, operation in PAGES.items():
                    found[name] += _seen(lambda: connection.status(operation)[0])  # noqa: B023
                found["rows written"] += _seen(connection.total_changes)
        return found


def _seen(counter: Callable[[], int]) -> int:
    """Return a connection's counter, as soon as the thread that works with it lets us see it."""
    for _ in range(PATIENCE):
        try:
            return counter()
        except apsw.ThreadingViolationError:
            sleep(0.001)
    return counter()


@contextmanager
def counting() -> Iterator[Counted]:
    """Count what SQLite does on connections that are opened within."""
    counted = Counted()
    hook = partial(Counted.attach, counted)
    apsw.connection_hooks.append(hook)
    try:
        yield counted
    finally:
        apsw.connection_hooks.remove(hook)
        for connection in counted.connections:
            with suppress(apsw.ConnectionClosedError):
                connection.trace_v2(0, None)
