"""The least that a durable fire takes on SQLite, in a bare loop: what a dispatcher is held to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import apsw

from bench.stores.file import SqliteFile
from bench.stores.places import CLOCK, DAY_US, SECOND_US, Promise
from duly.domain.identity import occurrence_run_id

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BATCH = 1000

INSERT_RUN = """
INSERT INTO duly_runs (id, tenant, schedule_id, definition_number, task, queue, priority, origin,
    lane, scheduled_for, not_before, created_at, fired_at)
VALUES (?, 'default', ?, 1, 'ping', 'default', 4, 'schedule', 'live', ?, ?, ?, ?)"""
INSERT_READY = "INSERT INTO duly_ready VALUES ('default', 4, ?, ?, ?, ?)"
ADVANCE = """
UPDATE duly_schedule_state SET next_for = ?, next_due = ?, last_for = ?, last_run = ?,
    last_fired_at = ?, fires = fires + 1
WHERE schedule_id = ?"""


def bare(folder: Path, count: int) -> float:
    """Do the least that a durable fire takes, in a bare loop; return fires a second."""
    due_at = CLOCK.now_us()
    file = SqliteFile(folder / "bare.db")
    file.fill(Promise(due_at=due_at) for _ in range(count))
    connection = apsw.Connection(str(file.path))
    connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", "full")
    connection.pragma("cache_size", -65_536)
    connection.pragma("wal_autocheckpoint", 10_000)
    order = "SELECT schedule_id FROM duly_schedule_state ORDER BY shard, schedule_id"
    rows = list(_rows([one for (one,) in connection.execute(order)], due_at))
    began = CLOCK.monotonic_us()
    for start in range(0, count, BATCH):
        part = rows[start : start + BATCH]
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(INSERT_RUN, [one[0] for one in part])
        connection.executemany(INSERT_READY, [one[1] for one in part])
        connection.executemany(ADVANCE, [one[2] for one in part])
        connection.execute("COMMIT")
    took = CLOCK.monotonic_us() - began
    connection.close()
    file.remove()
    return count / took * SECOND_US


def _rows(schedules: list[bytes], due_at: int) -> Iterator[tuple[tuple[object, ...], ...]]:
    next_at = due_at + DAY_US
    for one in schedules:
        run = occurrence_run_id(one, due_at)  # type: ignore[arg-type]
        yield (
            (run, one, due_at, due_at, due_at, due_at),
            (due_at, run, due_at, due_at),
            (next_at, next_at, due_at, run, due_at, one),
        )
