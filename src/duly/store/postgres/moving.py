"""Promises out of the database and into it, all of them at once.

Rows go in as JSON, a page at a time, and are read as rows of their table by the server.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING

from psycopg import errors

from duly.errors import Conflict
from duly.store.exporting import PAGED, Exporting, part_row
from duly.store.importing import PROBLEMS, SHARED, Importing
from duly.store.ports.transfer import IMPORTED, PAGE, ColumnKind, Exported
from duly.store.postgres import rows as columns_of
from duly.store.postgres.arrays import Texts, Uuids
from duly.store.postgres.leases import IS_CURRENT
from duly.store.postgres.session import first, one, uid

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from duly.domain.audit import AuditSubject
    from duly.store.ports.dispatch import TimerKind
    from duly.store.ports.transfer import Imported, ImportPromises, Part, PartRow, Value
    from duly.store.postgres.connection import Connections
    from duly.store.postgres.session import Session
    from duly.store.postgres.work import Work

_READ = {
    "active_run": f"uuid_send({columns_of.WENT_AHEAD.format('')})",
    "overlaps": "coalesce(overlap_count, 0)",
}
_WRITE = {
    ("schedule_state", "active_run"): f"coalesce(n.active_run, {columns_of.NOBODY})",
    ("schedule_state", "overlap"): "nullif(n.overlap, 'allow')",
    ("ready", "is_gated"): "nullif(n.is_gated, false)",
}
_NUMBERED = ("blocked", "progress", "lines")
"""Whose numbers the server draws: what comes brings its own, and the next ones are higher."""
IS_OPEN = """(is_open AND NOT EXISTS
    (SELECT 1 FROM duly.outcomes o WHERE o.run_id = duly_backfill_slots.run_id))"""
_WORKERS = """(SELECT id, host, process, started_at, renewed_at, expires_at, ended_at
    FROM duly.members WHERE kind = 'worker' UNION ALL
    SELECT id, host, process, started_at, renewed_at, expires_at, ended_at FROM duly.workers) w"""
READ_MOMENT = f"""
WITH n AS MATERIALIZED (SELECT duly.now_us() AS now)
SELECT n.now, (SELECT program_min FROM duly.cluster WHERE id = 1),
    (SELECT count(*) FROM duly.members m WHERE {IS_CURRENT})
FROM n"""  # noqa: S608 - a condition of ours
IS_IMPORTED = "SELECT 1 FROM duly.audit WHERE subject_id = $1::uuid AND action = $2"
INSERT_HOLDERS = """
INSERT INTO duly.members (id, kind, host, process, started_at, renewed_at, expires_at, ended_at,
    skew_us, is_holding, tzdata, wake_address) OVERRIDING SYSTEM VALUE
SELECT id, 'worker', host, process, started_at, renewed_at, expires_at, ended_at, 0, false, '', ''
FROM json_populate_recordset(NULL::duly.members, $1::text::json) ON CONFLICT DO NOTHING"""
FORGET_WORKERS = """
DELETE FROM duly.workers w USING json_populate_recordset(NULL::duly.members, $1::text::json) n
WHERE w.id = n.id"""
RAISE_PROGRAM = "UPDATE duly.cluster SET program_min = greatest(program_min, $1::int4) WHERE id = 1"
RAISE_LIMITS = "UPDATE duly.cluster SET limits_version = limits_version + 1 WHERE id = 1"
FIND_SLOTS = "SELECT DISTINCT task FROM duly.retry_slots WHERE task = ANY($1::text[])"
LOCK_SLOTS = """
INSERT INTO duly.retry_budgets (task) SELECT pg_catalog.unnest($1::text[]) ON CONFLICT DO NOTHING"""
GO_ON_COUNTING = """
SELECT setval(pg_get_serial_sequence('duly.{0}', 'number'), greatest(
    nextval(pg_get_serial_sequence('duly.{0}', 'number')), $1::int8))"""


@contextmanager
def export_promises(connections: Connections, *, has_history: bool) -> Iterator[Exported]:
    """Open a snapshot that may take its time: whoever reads it may write to something slow."""
    with connections.read():
        pass  # a schema that this program does not know is refused here
    with connections.failures(), connections.checking() as look:
        now, program_min, alive = one(look.session, READ_MOMENT)
        exporting = PostgresExporting(look.session, has_history=has_history, as_of=now)
        yield Exported(now, program_min, alive, exporting.bundles())


class PostgresExporting(Exporting):
    """Reads a snapshot of the database."""

    def __init__(self, session: Session, *, has_history: bool, as_of: int) -> None:
        super().__init__(has_history=has_history, as_of=as_of)
        self._session = session

    def page(self, part: Part, after: PartRow | None, condition: str | None) -> list[PartRow]:
        """Return the next rows of a part."""
        key = ", ".join(f'"{name}"' for name in part.key)
        values: list[object] = []
        condition = (condition or "true").replace("FROM duly_", "FROM duly.")
        if after is not None:
            places = ", ".join(
                f"${number}::{'uuid' if isinstance(after[name], bytes) else 'int8'}"
                for number, name in enumerate(part.key, start=1)
            )
            condition += f" AND ({key}) > ({places})"
            values = [_value(after[name]) for name in part.key]
        limit = f"LIMIT {PAGE}" if part.name in PAGED else ""
        table = _WORKERS if part.name == "workers" else f"duly.{part.name} AS duly_{part.name}"
        statement = f"SELECT {_columns(part)} FROM {table} WHERE {condition} ORDER BY {key} {limit}"  # noqa: S608 - names of ours
        return [part_row(part, row) for row in self._session.rows(statement, values)]

    def belonging(self, part: Part, column: str, keys: Sequence[Value]) -> list[PartRow]:
        """Return the rows of a part that belong to some heads."""
        ids = [key for key in keys if isinstance(key, bytes)]
        listed = Uuids(ids) if ids else Texts([str(key) for key in keys])
        key = ", ".join(f'"{name}"' for name in part.key)
        # Any other is found by its own row: it has no tries, and its own place.
        condition = "AND (fence > 0 OR is_gated)" if part.name == "ready" else ""
        statement = f"""SELECT {_columns(part)} FROM duly.{part.name}
            WHERE "{column}" = ANY($1::{"uuid" if ids else "text"}[]) {condition} ORDER BY {key}"""  # noqa: S608 - names of ours
        return [part_row(part, row) for row in self._session.rows(statement, (listed,))]


def import_promises(work: Work, command: ImportPromises) -> Imported:
    """Write all of an export; say so when somebody was faster who has made something of it."""
    work.look_at_the_clock()
    try:
        return PostgresImporting(work, command).carry_out()
    except errors.UniqueViolation as error:
        problem = "was overtaken by another order"
        remedy = "try again: what is in the way is named then"
        raise Conflict("import", command.source, problem, remedy) from error


class PostgresImporting(Importing):
    """Writes into the database, in one transaction."""

    def __init__(self, work: Work, command: ImportPromises) -> None:
        super().__init__(command, now=work.now, shards=work.shards)
        self._work = work
        self._session = work.session
        self._numbers: dict[str, int] = {}

    def is_known(self) -> bool:
        """Say whether this export was imported before."""
        return first(self._session, IS_IMPORTED, (uid(self._command.id), IMPORTED)) is not None

    def problems(self, part: str, rows: Sequence[PartRow]) -> list[str | None]:
        """Say what is in the way of each row."""
        expression = PROBLEMS[part].replace("duly_", "duly.")
        statement = f"""SELECT {expression} FROM ROWS FROM
            (json_populate_recordset(NULL::duly.{part}, $1::text::json)) WITH ORDINALITY h
            ORDER BY h.ordinality"""  # noqa: S608 - names of ours
        return [row[0] for row in self._session.rows(statement, (_text(rows),))]

    def write(self, part: str, rows: Sequence[PartRow]) -> int:
        """Write rows, unless they are there."""
        if part == "retry_slots":
            rows = self._without_slots(rows)
        if not rows:
            return 0
        rows = [_renamed(part, row) for row in rows]
        names = list(rows[0])
        values = [_WRITE.get((part, name), f'n."{name}"') for name in names]
        if part == "ready":
            names, values = (
                [*names, "era"],
                [*values, "(SELECT era FROM duly.cluster WHERE id = 1)"],
            )
        overriding = "OVERRIDING SYSTEM VALUE" if part in _NUMBERED else ""
        quoted = ", ".join(f'"{name}"' for name in names)
        conflict = "ON CONFLICT DO NOTHING" if part in SHARED else ""
        statement = f"""INSERT INTO duly.{part} ({quoted}) {overriding} SELECT {", ".join(values)}
            FROM json_populate_recordset(NULL::duly.{part}, $1::text::json) n {conflict}"""  # noqa: S608 - names of ours
        written = self._session.run(statement, (_text(rows),))
        if part in _NUMBERED:
            highest = max(int(row["number"] or 0) for row in rows)
            self._numbers[part] = max(self._numbers.get(part, 0), highest)
        if part == "limits" and written:
            self._session.run(RAISE_LIMITS)
        return written

    def _without_slots(self, rows: Sequence[PartRow]) -> list[PartRow]:
        """Return slots of tasks that have none here: two calendars are not laid over each other."""
        tasks = Texts(sorted({str(row["task"]) for row in rows}))
        self._session.run(LOCK_SLOTS, (tasks,))
        taken = {task for (task,) in self._session.rows(FIND_SLOTS, (tasks,))}
        return [row for row in rows if row["task"] not in taken]

    def write_holders(self, rows: Sequence[PartRow]) -> None:
        """Write workers that hold claims as members whose time is over."""
        self._session.run(INSERT_HOLDERS, (_text(rows),))
        self._session.run(FORGET_WORKERS, (_text(rows),))

    def announce(self, kind: str, timers: Sequence[tuple[bytes, int, int]]) -> None:
        """Tell dispatchers of timers that fall due soon."""
        told: TimerKind = "schedule" if kind == "schedule" else "delayed"
        self._work.announce_all(told, timers)

    def finish(self, subject: AuditSubject) -> None:
        """Write tallies, the oldest program that may go on, and the audit entry."""
        for part, number in self._numbers.items():
            self._session.rows(GO_ON_COUNTING.format(part), (number,))
        for name, count in self.tallies.items():
            if name not in {"retrying", "dead"}:
                self._work.count_on(name, count)
        self._session.run(RAISE_PROGRAM, (self._command.program_min,))
        self._work.record(self._command.actor, IMPORTED, subject)
        self._work.has_orders = self._work.has_arrivals = True


def _columns(part: Part) -> str:
    special = {"schedule_state": _READ, "backfill_slots": {"is_open": IS_OPEN}}.get(part.name, {})
    found = []
    for column in part.columns:
        own = f'"{column.name}"'
        if column.name in special:
            own = special[column.name]
        elif column.kind is ColumnKind.ID:
            own = f"uuid_send({own})"
        found.append(own)
    return ", ".join(found)


def _renamed(part: str, row: PartRow) -> PartRow:
    if part != "schedule_state":
        return row
    renamed = {name: value for name, value in row.items() if name != "overlaps"}
    return renamed | {"overlap_count": row["overlaps"] or None, "load_at": row["next_due"]}


def _value(value: Value) -> object:
    return uid(value) if isinstance(value, bytes) else value


def _text(rows: Sequence[PartRow]) -> str:
    found = [{name: _value(value) for name, value in row.items()} for row in rows]
    return json.dumps(found, ensure_ascii=False)
