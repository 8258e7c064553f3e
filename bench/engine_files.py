"""Files for the engine's benchmark: filled with promises by the hundred thousand, and counted.

A file is filled by direct inserts that repeat rows which Duly itself has made: through the front
door a million promises would take longer than everything that is measured. Promises are made at
random moments of the past quarter, so that what falls due together does not lie together.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import apsw

import duly
from duly.clock import SystemClock
from duly.domain.identity import ordered_run_id, schedule_id, shard_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

SECOND_US = 1_000_000
QUARTER_US = 90 * 86_400 * SECOND_US
YEAR_US = 365 * 86_400 * SECOND_US
SHARDS = 8
CLOCK = SystemClock()
CHUNK = 50_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Promise:
    """What a row of the file is to promise."""

    due_at: int
    period_us: int = 86_400 * SECOND_US
    """Of a schedule; counted from its due."""


def new_app(path: Path) -> duly.App:
    app = duly.App(f"sqlite:///{path}", name="bench")

    @app.task
    def ping() -> None:
        """Do nothing."""

    return app


def make_file(
    path: Path, schedules: Iterable[Promise] = (), delayed: Iterable[Promise] = ()
) -> Path:
    """Make a file that holds these promises, and nothing else."""
    with new_app(path) as app:
        call = app.call("ping")
        app.schedules.create("template", call, duly.every("1d"))
        app.enqueue(call, delay="1d", key="template")
        # As in any store that has been in use: nothing is to be recomputed when it is opened.
        app.store.note_tzdata(duly.default_zones().version)
    connection = apsw.Connection(str(path))
    connection.pragma("synchronous", "off")
    loader = _Loader(connection)
    with connection:
        loader.forget_templates()
        counts = loader.add_schedules(schedules), loader.add_delayed(delayed)
        connection.execute("DELETE FROM duly_arrivals; DELETE FROM duly_audit")
        connection.executemany(
            "UPDATE duly_tallies SET count = ? WHERE name = ?",
            zip(counts, ("active", "delayed"), strict=True),
        )
    connection.pragma("wal_checkpoint", "truncate")
    connection.close()
    return path


def shift(path: Path, by_us: int, only_at: int | None = None) -> None:
    """Let what is promised fall due later or sooner: all of it, or what is due at one instant.

    A file takes time to fill; what is to be due soon is promised for then once it is full.
    """
    connection = apsw.Connection(str(path))
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
    connection.pragma("wal_checkpoint", "truncate")
    connection.close()


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
        text = json.dumps(definition)
        rows: dict[str, list[dict[str, Any]]] = {}
        count = 0
        for count, promise in enumerate(promises, 1):
            made_at = self._now - self._draw.randrange(QUARTER_US)
            identity = schedule_id(made_at, self._draw.randbytes(10))
            anchor = EPOCH + timedelta(microseconds=promise.due_at % promise.period_us)
            said = text.replace("PERIOD", f"{promise.period_us}us")
            said = said.replace("ANCHOR", anchor.isoformat())
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
                }
            )
            if count % CHUNK == 0:
                self._flush(rows)
        self._flush(rows)
        return count

    def add_delayed(self, promises: Iterable[Promise]) -> int:
        rows: dict[str, list[dict[str, Any]]] = {}
        count = 0
        for count, promise in enumerate(promises, 1):
            identity = ordered_run_id("once", promise.due_at, self._draw.randbytes(16))
            shard, due_at = shard_of(identity, SHARDS), promise.due_at
            rows.setdefault("duly_delayed", []).append(
                {"id": identity, "key": f"d{count}", "shard": shard, "due_at": due_at}
            )
            rows.setdefault("duly_timers", []).append(
                {"ref": identity, "shard": shard, "due_at": due_at}
            )
            if count % CHUNK == 0:
                self._flush(rows)
        self._flush(rows)
        return count

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


def far_away(count: int) -> Iterator[Promise]:
    """Return promises for any time of the year after next week."""
    draw, now = random.Random(count), CLOCK.now_us()
    for _ in range(count):
        yield Promise(due_at=now + 7 * 86_400 * SECOND_US + draw.randrange(YEAR_US))


def file_mb(path: Path) -> float:
    return sum(one.stat().st_size for one in path.parent.glob(f"{path.name}*")) / 1e6


PAGES = {
    "page reads": apsw.SQLITE_DBSTATUS_CACHE_MISS,
    "page hits": apsw.SQLITE_DBSTATUS_CACHE_HIT,
    "page writes": apsw.SQLITE_DBSTATUS_CACHE_WRITE,
}


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
                    found[name] += connection.status(operation)[0]
        return found


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
