"""Gates in the file: who has gone through and who waits, while nobody else writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.enums import Lane, RunState
from duly.domain.ids import RunId
from duly.domain.limits import capped_place
from duly.domain.runs import AttemptCounts
from duly.store.gates import OVERLAP, Gates
from duly.store.gathering import LANE_OFFSETS, share_of
from duly.store.sqlite.limiting import SqliteOpening, leave_limits, standing_places
from duly.store.sqlite.rows import one

if TYPE_CHECKING:
    from collections.abc import Iterable

    from duly.store.gates import GateDecision
    from duly.store.records import Row
    from duly.store.sqlite.work import Work

HAS_RUN = "SELECT 1 FROM duly_runs WHERE id = ?"
IS_OPEN = """
SELECT 1 FROM duly_runs r
WHERE r.id = ? AND NOT EXISTS (SELECT 1 FROM duly_outcomes o WHERE o.run_id = r.id)
    AND NOT EXISTS (SELECT 1 FROM duly_dead x WHERE x.run_id = r.id)"""
HOLDER = "SELECT run_id FROM duly_held_gates WHERE gate = ?"
# Who stands at a limit has gone ahead.
WAITS = "SELECT 1 FROM duly_blocked WHERE run_id = ? AND substr(gate, 1, 4) <> 'cap:'"
HOLDS = "SELECT 1 FROM duly_held_gates WHERE run_id = ?"
WAITING = "SELECT run_id FROM duly_blocked WHERE gate = ? ORDER BY priority, number"
LAST_LET_GO = """
SELECT nullif(coalesce(t.active_run, t.last_run), x'')
FROM duly_runs r JOIN duly_schedule_state t ON t.schedule_id = r.schedule_id WHERE r.id = ?"""
TAKE = "INSERT INTO duly_held_gates (run_id, gate) VALUES (?, ?)"
MARK_CLAIM = "UPDATE duly_claims SET is_gated = 1 WHERE run_id = ?"
READ_PLACE = "SELECT queue, priority, lane, tenant, not_before FROM duly_runs WHERE id = ?"
MARK_READY = """
UPDATE duly_ready SET is_gated = 1
WHERE run_id = ?5
    AND ((queue = ?1 AND priority = ?2 AND tenant IN ('', ?3) AND rank = ?4) OR fence > 0)"""
GO_AHEAD = """
UPDATE duly_schedule_state AS t SET active_run = ?1
WHERE schedule_id = (SELECT schedule_id FROM duly_runs WHERE id = ?1)
    AND NOT EXISTS (
        SELECT 1 FROM duly_runs r
        WHERE r.id = coalesce(t.active_run, t.last_run)
            AND NOT EXISTS (SELECT 1 FROM duly_outcomes o WHERE o.run_id = r.id)
            AND NOT EXISTS (SELECT 1 FROM duly_dead x WHERE x.run_id = r.id)
            AND NOT EXISTS (SELECT 1 FROM duly_blocked b
                WHERE b.run_id = r.id AND substr(b.gate, 1, 4) <> 'cap:'))"""
NEXT_NUMBER = "SELECT coalesce(max(number), 0) + 1 FROM duly_blocked WHERE gate = ?"
STAND = """
INSERT INTO duly_blocked (run_id, gate, priority, number, since, fence, attempt, charged, begun_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"""
LEAVE = "DELETE FROM duly_blocked WHERE run_id = ? RETURNING fence, attempt, charged, begun_at"
INSERT_READY_GATED = """
INSERT INTO duly_ready (queue, priority, tenant, rank, run_id, fired_at, not_before, fence, attempt,
    charged, begun_at, is_gated)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1)"""
CLOSE_INTO = """
INSERT INTO duly_outcomes (run_id, state, reason, finished_at, fence, attempt, charged, begun_at,
    into_run)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"""
ASK_FOR_WAY = """
UPDATE duly_claims SET cancel_asked_at = coalesce(cancel_asked_at, ?), replaced_by = ?
WHERE run_id = ? RETURNING 1"""
TAKE_OUT_READY = """
DELETE FROM duly_ready WHERE run_id = ? AND is_gated
RETURNING fence, attempt, charged, begun_at"""
TAKE_OUT_WAITING = """
DELETE FROM duly_waiting WHERE run_id = ? RETURNING fence, attempt, charged, begun_at"""
GIVE_BACK = "DELETE FROM duly_held_gates WHERE run_id = ? RETURNING gate"
HURRY = "UPDATE duly_ready SET priority = ? WHERE run_id = ? AND is_gated AND priority > ?"
HURRY_STANDING = "UPDATE duly_blocked SET priority = ? WHERE run_id = ? AND priority > ?"
FREE_GATES = """
SELECT DISTINCT b.gate FROM duly_blocked b
WHERE substr(b.gate, 1, 4) <> 'cap:'
    AND NOT EXISTS (SELECT 1 FROM duly_held_gates h WHERE h.gate = b.gate)
ORDER BY b.gate LIMIT ?"""
_UNTRIED = AttemptCounts()


class SqliteGates(Gates):
    """All gates, alone for as long as the lock is held."""

    def __init__(self, work: Work) -> None:
        super().__init__()
        self._work = work

    def _is(self, question: str, value: object) -> bool:
        return self._work.connection.execute(question, (value,)).fetchone() is not None

    def exists(self, run_id: RunId) -> bool:
        """Say whether there is such a run."""
        return self._is(HAS_RUN, run_id)

    def is_stored_open(self, run_id: RunId) -> bool:
        """Say whether a run is still to end."""
        return self._is(IS_OPEN, run_id)

    def lock(self, gate: str) -> None:
        """Nothing: nobody else writes."""

    def holder(self, gate: str) -> RunId | None:
        """Return the open run that has gone through."""
        row = self._work.connection.execute(HOLDER, (gate,)).fetchone()
        return None if row is None else RunId(row[0])

    def waiting(self, gate: str) -> list[RunId]:
        """Return who waits, the first to go first."""
        return [RunId(run_id) for (run_id,) in self._work.connection.execute(WAITING, (gate,))]

    def waits(self, run_id: RunId) -> bool:
        """Say whether a run waits for another one."""
        return self._is(WAITS, run_id)

    def holds(self, run_id: RunId) -> bool:
        """Say whether a run holds any gate."""
        return self._is(HOLDS, run_id)

    def last_let_go(self, run_id: RunId) -> RunId | None:
        """Return the run of the same schedule that went ahead last."""
        row = self._work.connection.execute(LAST_LET_GO, (run_id,)).fetchone()
        return None if row is None or row[0] is None else RunId(row[0])

    def take(self, gate: str, run_id: RunId) -> None:
        """Note that a run has gone through; it may have gone before there was a gate."""
        connection = self._work.connection
        connection.execute(TAKE, (run_id, gate))
        connection.execute(MARK_CLAIM, (run_id,))
        if not connection.changes() and self.exists(run_id):
            queue, priority, lane, tenant, not_before = one(connection, READ_PLACE, (run_id,))
            line = (queue, priority + LANE_OFFSETS[Lane(lane)], share_of(tenant))
            connection.execute(MARK_READY, (*line, not_before, run_id))

    def let_go(self, gate: str, run_id: RunId) -> None:
        """Queue one that has waited."""
        connection, now = self._work.connection, self._work.now
        tries = one(connection, LEAVE, (run_id,))
        connection.execute(TAKE, (run_id, gate))
        queue, priority, lane, tenant, not_before = one(connection, READ_PLACE, (run_id,))
        line = (queue, priority + LANE_OFFSETS[Lane(lane)], share_of(tenant))
        row = (*line, not_before, run_id, now, not_before, *tries)
        connection.execute(INSERT_READY_GATED, row)
        go_ahead(self._work, run_id)
        self._work.has_orders = True

    def stand(
        self, run_id: RunId, arrival: GateDecision, priority: int, tries: AttemptCounts
    ) -> None:
        """Let a run wait at its gate."""
        connection = self._work.connection
        assert arrival.gate is not None, "who waits has a gate"
        (number,) = one(connection, NEXT_NUMBER, (arrival.gate,))
        place = (run_id, arrival.gate, priority, number, self._work.now)
        connection.execute(STAND, (*place, *tries))
        if arrival.in_the_way is not None:
            connection.execute(HURRY, (priority, arrival.in_the_way, priority))
            connection.execute(HURRY_STANDING, (priority, arrival.in_the_way, priority))

    def close_waiting(self, run_id: RunId, state: RunState, into: RunId) -> None:
        """Close one that waits, because another stands for it."""
        tries = one(self._work.connection, LEAVE, (run_id,))
        self._close(run_id, state, tries, into)

    def stop(self, run_id: RunId, into: RunId) -> bool:
        """Close an open run as replaced, or ask its worker to stop."""
        connection, now = self._work.connection, self._work.now
        if connection.execute(ASK_FOR_WAY, (now, into, run_id)).fetchall():
            self._work.has_orders = True
            return False
        tries = connection.execute(TAKE_OUT_READY, (run_id,)).fetchone()
        if tries is None:
            tries = connection.execute(TAKE_OUT_WAITING, (run_id,)).fetchone()
            if tries is not None:
                self._work.count_on("retrying", -1)
        if tries is None:
            tries = connection.execute(LEAVE, (run_id,)).fetchone()  # it stands at a limit
            if tries is None:
                return False  # nobody knows what it did, and it keeps its gate
        connection.execute(GIVE_BACK, (run_id,)).fetchall()
        leave_limits(self._work, run_id)
        self._close(run_id, RunState.REPLACED, tries, into)
        return True

    def _close(self, run_id: RunId, state: RunState, tries: Iterable[object], into: RunId) -> None:
        row = (run_id, state, OVERLAP, self._work.now, *tries, into)
        self._work.connection.execute(CLOSE_INTO, row)


def go_ahead(work: Work, run_id: RunId) -> None:
    """Note on its schedule that a run has gone ahead, unless it goes beside one that is open.

    A person may order that; whoever comes then still finds the one that was there before.
    """
    work.connection.execute(GO_AHEAD, (run_id,))


def give_back(work: Work, run_id: RunId) -> None:
    """Give back the gate that a run held: it is closed, or dead."""
    freed = work.connection.execute(GIVE_BACK, (run_id,)).fetchall()
    work.freed += [str(gate) for (gate,) in freed]


def open_gates(work: Work, gates: Iterable[str] | None, limit: int) -> int:
    """Let those go that may, at gates: at those that are named, or at any."""
    if gates is None:
        rows: list[Row] = work.connection.execute(FREE_GATES, (limit,)).fetchall()
        found = [gate for (gate,) in rows]
        places = standing_places(work)
    else:
        capped = {gate: capped_place(gate) for gate in sorted(set(gates))}
        found = [gate for gate, place in capped.items() if place is None]
        places = [place for place in capped.values() if place is not None]
    opener = SqliteGates(work)
    opened = sum(opener.open(gate) for gate in found)
    return opened + (SqliteOpening(work).open(places, limit) if places else 0)
