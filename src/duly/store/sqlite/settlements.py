"""Writing settlements to the file: runs with their places in the queue, skips, what stays owed."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import TYPE_CHECKING

from duly.domain.policies import GateEntryOutcome
from duly.store.gates import FREE
from duly.store.gathering import LANE_OFFSETS, SettlementBatch, share_of
from duly.store.sqlite.gates import SqliteGates

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duly.store.gates import GateDecision
    from duly.store.gathering import RunBefore
    from duly.store.records import Row
    from duly.store.sqlite.work import Work

# A run that exists is left alone: its id says that it is the same occurrence's.
INSERT_RUN = """
INSERT INTO duly_runs (id, tenant, schedule_id, definition_number, key, task, arguments, queue,
    priority, origin, lane, scheduled_for, not_before, window_from, created_at, fired_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO NOTHING RETURNING id"""
INSERT_READY = """
INSERT INTO duly_ready (queue, priority, tenant, rank, run_id, fired_at, not_before, is_gated)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)"""
# One that was claimed before brings its tries, and may hold a gate.
INSERT_READY_AGAIN = """
INSERT INTO duly_ready (queue, priority, tenant, rank, run_id, fired_at, not_before, fence, attempt,
    charged, begun_at, is_gated)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11,
    EXISTS (SELECT 1 FROM duly_held_gates WHERE run_id = ?5))"""
SET_ROOT = "UPDATE duly_runs SET root = ? WHERE id = ?"
# One that stands for others begins where the first of them does.
BEGIN_EARLIER = """
UPDATE duly_runs SET window_from = (
    SELECT CASE WHEN count(*) = count(b.window_from) THEN min(b.window_from) END
    FROM duly_runs b WHERE b.id IN (SELECT unhex(value) FROM json_each(?2)))
WHERE id = ?1"""
# Ranges that begin alike are the same promise told twice: the longer one holds.
INSERT_SKIP = """
INSERT INTO duly_skips (schedule_id, first_for, last_for, count, reason, into_run, at)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (schedule_id, first_for) DO UPDATE
SET last_for = excluded.last_for, count = excluded.count WHERE excluded.last_for > last_for"""
INSERT_OWED = """
INSERT INTO duly_owed (schedule_id, first_for, last_for, definition_number, shard, created_at)
VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (schedule_id, first_for) DO UPDATE SET last_for = max(last_for, excluded.last_for)"""
# Ids sort by the occurrence's time, so the one before is the neighbour in the index.
LAST_RUN_BEFORE = """
SELECT scheduled_for FROM duly_runs
WHERE schedule_id = ? AND id < ? AND scheduled_for < ?
    AND origin IN ('schedule', 'catch-up', 'backfill')
ORDER BY id DESC LIMIT 1"""


class Settlements(SettlementBatch):
    """What is gathered in one transaction, to be written together."""

    def __init__(self, work: Work) -> None:
        super().__init__(work.now)
        self._work = work
        self._gates: SqliteGates | None = None

    def ran_before(self, questions: Sequence[RunBefore]) -> list[int | None]:
        """Say which occurrence the store knows as the last that was run before each."""
        found: list[int | None] = []
        for question in questions:
            bindings = (question.schedule_id, question.run_id, question.scheduled_for)
            row = self._work.connection.execute(LAST_RUN_BEFORE, bindings).fetchone()
            found.append(None if row is None else row[0])
        return found

    def gates(self) -> SqliteGates:
        """Return the gates, within the transaction."""
        if self._gates is None:
            self._gates = SqliteGates(self._work)
        return self._gates

    def write_runs(self, rows: list[Row], arrivals: Mapping[bytes, GateDecision]) -> set[bytes]:
        """Insert runs and queue those that are new and do not wait at a gate; return their ids."""
        return write_runs(self._work, rows, arrivals)

    def write_ranges(self, skips: list[Row], owed: list[Row]) -> None:
        """Insert skips and what is owed."""
        self._work.connection.executemany(INSERT_SKIP, skips)
        self._work.connection.executemany(INSERT_OWED, owed)


def write_runs(
    work: Work, rows: list[Row], arrivals: Mapping[bytes, GateDecision] = MappingProxyType({})
) -> set[bytes]:
    """Insert runs and queue those that are new and do not wait at a gate; return their ids."""
    connection = work.connection
    made = {run_id for (run_id,) in connection.executemany(INSERT_RUN, rows)}
    ready: list[Row] = []
    for row in rows:
        arrival = arrivals.get(row[0], FREE)
        if row[0] not in made or arrival.coming is GateEntryOutcome.WAITS:
            continue
        line = (row[7], row[8] + LANE_OFFSETS[row[10]], share_of(row[1]))
        ready.append((*line, row[12], row[0], row[15], row[12], arrival.gate is not None))
    connection.executemany(INSERT_READY, ready)
    for run_id, arrival in arrivals.items():
        if arrival.stands_for:
            ids = json.dumps([one.hex() for one in (run_id, *arrival.stands_for)])
            connection.execute(BEGIN_EARLIER, (run_id, ids))
    work.has_orders = work.has_orders or bool(made)
    return made
