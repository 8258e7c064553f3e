"""Writing settlements: runs with their places in the queue, skips, and what stays owed.

Shared by firing, draining and orders that settle something. Runs are gathered and written in one
go, because a batch of a thousand is the usual case.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from duly.domain.literals import Lane

if TYPE_CHECKING:
    from duly.domain.identity import RunId, ScheduleId
    from duly.domain.schedules import Call
    from duly.domain.settling import Settlement
    from duly.store.records import Row
    from duly.store.sqlite.work import Work

LANE_OFFSETS = {Lane.LIVE: 0, Lane.CATCH_UP: 100, Lane.BACKFILL: 200}
"""Added to the priority in the queue, so that one order expresses lanes and priorities."""

# A run that exists is left alone: its id says that it is the same occurrence's.
INSERT_RUN = """
INSERT INTO duly_runs (id, tenant, schedule_id, definition_number, key, task, arguments, queue,
    priority, origin, lane, scheduled_for, not_before, window_from, created_at, fired_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO NOTHING RETURNING id"""
INSERT_READY = """
INSERT INTO duly_ready (queue, priority, rank, run_id, fired_at, not_before)
VALUES (?, ?, ?, ?, ?, ?)"""
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


@dataclass(slots=True)
class Ground:
    """What of a schedule's row a settlement builds on, and leaves changed."""

    schedule_id: ScheduleId
    tenant: str
    shard: int
    number: int
    """Of the definition that the runs refer to, and below what it says is run."""
    task: str
    queue: str
    priority: int
    last_for: int | None
    last_run: RunId | None
    last_fired_at: int | None
    fires: int

    def under(self, number: int, call: Call) -> None:
        """Settle under another definition than the one in force."""
        self.number, self.task = number, call.task
        self.queue, self.priority = call.queue, call.priority


@dataclass(slots=True)
class Settlements:
    """What is gathered in one transaction, to be written together."""

    work: Work
    runs: list[Row] = field(default_factory=list)
    grounds: list[Ground] = field(default_factory=list)
    """The ground of each run."""
    skips: list[Row] = field(default_factory=list)
    owed: list[Row] = field(default_factory=list)

    def add(self, ground: Ground, settlement: Settlement) -> None:
        """Take a settlement up."""
        now, last_for = self.work.now, ground.last_for
        for run in settlement.runs:
            window_from = last_for
            if last_for is not None and last_for >= run.scheduled_for:
                window_from = self._ran_before(ground, run.run_id, run.scheduled_for)
            else:
                last_for = run.scheduled_for
            self.grounds.append(ground)
            self.runs.append(
                (
                    run.run_id,
                    ground.tenant,
                    ground.schedule_id,
                    ground.number,
                    None,
                    ground.task,
                    None,
                    ground.queue,
                    ground.priority,
                    run.origin,
                    run.lane,
                    run.scheduled_for,
                    run.not_before,
                    window_from,
                    now,
                    now,
                )
            )
        for skip in settlement.skips:
            ends = (ground.schedule_id, skip.first_for, skip.last_for)
            self.skips.append((*ends, skip.count, skip.reason, skip.into, now))
        if settlement.owed is not None:
            owed = settlement.owed
            ends = (owed.schedule_id, owed.first_for, owed.last_for)
            self.owed.append((*ends, owed.definition_number, ground.shard, now))

    def write(self) -> int:
        """Write everything; return how many runs were made, and note them on their grounds."""
        connection, now = self.work.connection, self.work.now
        made = write_runs(self.work, self.runs)
        for ground, row in zip(self.grounds, self.runs, strict=True):
            if row[0] not in made:
                continue
            ground.fires += 1
            ground.last_fired_at = now
            if ground.last_for is None or ground.last_for < row[11]:
                ground.last_for, ground.last_run = row[11], row[0]
        if self.skips:
            connection.executemany(INSERT_SKIP, self.skips)
        if self.owed:
            connection.executemany(INSERT_OWED, self.owed)
        return len(made)

    def _ran_before(self, ground: Ground, run_id: RunId, scheduled_for: int) -> int | None:
        # What this transaction has gathered is not in the table yet.
        gathered = [
            row[11] for row in self.runs if row[2] == ground.schedule_id and row[11] < scheduled_for
        ]
        bindings = (ground.schedule_id, run_id, scheduled_for)
        found = self.work.connection.execute(LAST_RUN_BEFORE, bindings).fetchone()
        if found is not None:
            gathered.append(found[0])
        return max(gathered, default=None)


def write_runs(work: Work, rows: list[Row]) -> set[bytes]:
    """Insert runs and queue those that are new; return their ids."""
    if not rows:
        return set()
    connection = work.connection
    made = {run_id for (run_id,) in connection.executemany(INSERT_RUN, rows)}
    connection.executemany(
        INSERT_READY,
        [
            (row[7], row[8] + LANE_OFFSETS[row[10]], row[12], row[0], row[15], row[12])
            for row in rows
            if row[0] in made
        ],
    )
    return made
