"""Promises out of the file and into it, all of them at once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from duly.store.exporting import PAGED, Exporting, part_row
from duly.store.importing import PROBLEMS, SHARED, Importing
from duly.store.ports.transfer import IMPORTED, PAGE, Exported
from duly.store.sqlite.rows import IS_ALIVE, one
from duly.store.sqlite.work import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.domain.audit import AuditSubject
    from duly.store.ports.dispatch import TimerKind
    from duly.store.ports.transfer import ImportPromises, Part, PartRow, Value
    from duly.store.sqlite.work import Look, Work

_READ = {
    "active_run": "nullif(coalesce(active_run, last_run), x'')",
}
"""Columns that say something else than what is moved."""
_WRITE = {"active_run": "coalesce(:active_run, x'')"}
IS_OPEN = """(is_open AND NOT EXISTS
    (SELECT 1 FROM duly_outcomes o WHERE o.run_id = duly_backfill_slots.run_id))"""
_WORKERS = """(SELECT id, host, process, started_at, renewed_at, expires_at, ended_at
    FROM duly_members WHERE kind = 'worker' UNION ALL
    SELECT id, host, process, started_at, renewed_at, expires_at, ended_at FROM duly_workers)"""
READ_CLUSTER = "SELECT program_min, judge_after FROM duly_cluster"
COUNT_ALIVE = f"SELECT count(*) FROM duly_members WHERE {IS_ALIVE}"  # noqa: S608 - ours
IS_IMPORTED = "SELECT 1 FROM duly_audit WHERE subject_id = ? AND action = ?"
INSERT_HOLDER = """
INSERT INTO duly_members (id, kind, host, process, started_at, renewed_at, expires_at, ended_at,
    skew_us, is_holding, tzdata, wake_address)
VALUES (:id, 'worker', :host, :process, :started_at, :renewed_at, :expires_at, :ended_at, 0, 0, '',
    '') ON CONFLICT DO NOTHING"""
FORGET_WORKER = "DELETE FROM duly_workers WHERE id = :id"
INSERT_TIMER = """
INSERT INTO duly_timers (shard, due_at, ref, generation)
VALUES (:shard, :due_at, :id, :generation)"""
RAISE_PROGRAM = "UPDATE duly_cluster SET program_min = max(program_min, ?)"
RAISE_LIMITS = "UPDATE duly_cluster SET limits_version = limits_version + 1"
HAS_SLOTS = "SELECT 1 FROM duly_retry_slots WHERE task = ?"


def export_promises(look: Look, *, has_history: bool) -> Exported:
    """Return all that is promised, as of a snapshot."""
    program_min, judge_after = one(look.connection, READ_CLUSTER)
    now = look.now
    (alive,) = one(look.connection, COUNT_ALIVE, (now, counted(judge_after, now)))
    exporting = SqliteExporting(look, has_history=has_history)
    return Exported(now, program_min, alive, exporting.bundles())


class SqliteExporting(Exporting):
    """Reads a snapshot of the file."""

    def __init__(self, look: Look, *, has_history: bool) -> None:
        super().__init__(has_history=has_history, as_of=look.now)
        self._look = look

    def page(self, part: Part, after: PartRow | None, condition: str | None) -> list[PartRow]:
        """Return the next rows of a part."""
        key = ", ".join(f'"{name}"' for name in part.key)
        bindings: list[Value] = []
        condition = condition or "true"
        if after is not None:
            condition += f" AND ({key}) > ({', '.join('?' * len(part.key))})"
            bindings = [after[name] for name in part.key]
        limit = f"LIMIT {PAGE}" if part.name in PAGED else ""
        table = _WORKERS if part.name == "workers" else f"duly_{part.name}"
        statement = f"SELECT {_columns(part)} FROM {table} WHERE {condition} ORDER BY {key} {limit}"  # noqa: S608 - names of ours
        found = self._look.connection.execute(statement, bindings)
        return [part_row(part, row) for row in found]

    def belonging(self, part: Part, column: str, keys: Sequence[Value]) -> list[PartRow]:
        """Return the rows of a part that belong to some heads."""
        is_id = any(isinstance(key, bytes) for key in keys)
        listed = json.dumps([key.hex() if isinstance(key, bytes) else key for key in keys])
        value = "unhex(value)" if is_id else "value"
        key = ", ".join(f'"{name}"' for name in part.key)
        statement = f"""SELECT {_columns(part)} FROM duly_{part.name}
            WHERE "{column}" IN (SELECT {value} FROM json_each(?1))"""  # noqa: S608 - names of ours
        if part.name == "ready":
            # Each by the index that has it: a run that nobody has claimed is found by its own row.
            statement = (
                f"{statement} AND fence > 0 UNION ALL {statement} AND is_gated AND fence = 0"
            )
        else:
            statement = f"{statement} ORDER BY {key}"
        found = self._look.connection.execute(statement, (listed,))
        return [part_row(part, row) for row in found]


class SqliteImporting(Importing):
    """Writes into the file, while nobody else does."""

    def __init__(self, work: Work, command: ImportPromises) -> None:
        super().__init__(command, now=work.now, shards=work.shards)
        self._work = work
        self._connection = work.connection

    def is_known(self) -> bool:
        """Say whether this export was imported before."""
        bindings = (self._command.id, IMPORTED)
        return self._connection.execute(IS_IMPORTED, bindings).fetchone() is not None

    def problems(self, part: str, rows: Sequence[PartRow]) -> list[str | None]:
        """Say what is in the way of each row."""
        statement = f"SELECT {PROBLEMS[part].replace('h.', ':')}"
        found = [self._connection.execute(statement, row).fetchone() for row in rows]
        return [None if row is None else row[0] for row in found]

    def write(self, part: str, rows: Sequence[PartRow]) -> int:
        """Write rows, unless they are there."""
        if part == "retry_slots":
            rows = self._without_slots(rows)
        if not rows:
            return 0
        columns = ", ".join(f'"{name}"' for name in rows[0])
        values = ", ".join(_WRITE.get(name, f":{name}") for name in rows[0])
        statement = f"INSERT INTO duly_{part} ({columns}) VALUES ({values})"  # noqa: S608 - ours
        if part in SHARED:
            statement += " ON CONFLICT DO NOTHING"
        before = self._connection.total_changes()
        self._connection.executemany(statement, rows)
        written = self._connection.total_changes() - before
        if part == "delayed":
            self._connection.executemany(INSERT_TIMER, rows)
        if part == "limits" and written:
            self._connection.execute(RAISE_LIMITS)
        return written

    def _without_slots(self, rows: Sequence[PartRow]) -> list[PartRow]:
        """Return slots of tasks that have none here: two calendars are not laid over each other."""
        taken = {
            row["task"]: self._connection.execute(HAS_SLOTS, (row["task"],)).fetchone()
            for row in rows
        }
        return [row for row in rows if taken[row["task"]] is None]

    def write_holders(self, rows: Sequence[PartRow]) -> None:
        """Write workers that hold claims as members whose time is over."""
        self._connection.executemany(INSERT_HOLDER, rows)
        self._connection.executemany(FORGET_WORKER, rows)

    def announce(self, kind: str, timers: Sequence[tuple[bytes, int, int]]) -> None:
        """Tell dispatchers of timers that fall due soon."""
        told: TimerKind = "schedule" if kind == "schedule" else "delayed"
        for ref, due_at, shard in timers:
            self._work.announce(told, ref, due_at, shard)

    def finish(self, subject: AuditSubject) -> None:
        """Write tallies, the oldest program that may go on, and the audit entry."""
        for name, count in self.tallies.items():
            self._work.count_on(name, count)
        self._connection.execute(RAISE_PROGRAM, (self._command.program_min,))
        self._work.record(self._command.actor, IMPORTED, subject)
        self._work.has_orders = self._work.has_arrivals = True


def _columns(part: Part) -> str:
    special = {"schedule_state": _READ, "backfill_slots": {"is_open": IS_OPEN}}.get(part.name, {})
    return ", ".join(special.get(column.name, f'"{column.name}"') for column in part.columns)
