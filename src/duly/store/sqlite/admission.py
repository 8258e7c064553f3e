"""Admission in the file: one batch after the other, while nobody else writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.admission import AdmissionState
from duly.domain.enums import Lane
from duly.domain.ids import RunId, shard_of
from duly.domain.limits import RateState, cap_gate
from duly.domain.outcomes import not_begun
from duly.domain.runs import AttemptCounts, Reason
from duly.store.admission import Admission, AskingClaim
from duly.store.gathering import LANE_OFFSETS
from duly.store.ports.execution import ClaimRef, FinishAttempt
from duly.store.sqlite.finishing import TAKE_CLAIM
from duly.store.sqlite.gates import NEXT_NUMBER, STAND
from duly.store.sqlite.limiting import (
    COUNT_HELD,
    DROP_TURN,
    MARK_CLAIM,
    PUT_PACE,
    PUT_TURN,
    TAKE_PLACE,
    leave_places,
    read_breaker,
    read_limits,
    write_breaker,
)
from duly.store.sqlite.places import INSERT_WAITING, READ_CALL, Claim, Moving
from duly.store.sqlite.rows import one
from duly.store.work_rulings import put_off_tries

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from duly.domain.admission import AdmissionDecision, Breaker
    from duly.domain.limits import Limits
    from duly.store.ports.dispatch import MemberId
    from duly.store.records import Row
    from duly.store.sqlite.work import Work

READ_CLAIMS = """
SELECT run_id, fence, deadline_at, cancel_asked_at IS NOT NULL FROM duly_claims
WHERE run_id = ? AND fence = ? AND worker = ?"""
READ_HELD = "SELECT run_id, place, fence FROM duly_held_places WHERE run_id = ?"
READ_TURNS = "SELECT run_id, at FROM duly_turns WHERE run_id = ?"
COUNT_WAITING = "SELECT count(*) FROM duly_blocked WHERE gate = ?"
COUNT_KEPT = """
SELECT count(*) FROM duly_held_places h WHERE h.place = ?
    AND EXISTS (SELECT 1 FROM duly_ready y WHERE y.run_id = h.run_id AND y.is_gated)"""
READ_PACES = "SELECT place, promised_at, begun_at, again_at FROM duly_paces WHERE place = ?"
END_UNBEGUN = """
DELETE FROM duly_claims WHERE run_id = ? AND fence = ?
RETURNING fence, attempt, charged, begun_at, is_gated"""
READ_WORKER = "SELECT worker FROM duly_claims WHERE run_id = ? AND fence = ?"


class SqliteAdmission(Admission):
    """All limits, alone for as long as the lock is held."""

    def __init__(self, work: Work) -> None:
        self.now = work.now
        self._work = work
        self._connection = work.connection

    def claims(self, worker: MemberId, holds: Sequence[ClaimRef]) -> Mapping[ClaimRef, AskingClaim]:
        """Return those claims that are the worker's under that fence."""
        found = self._connection.executemany(READ_CLAIMS, [(*hold, worker) for hold in holds])
        return {
            ClaimRef(RunId(run_id), fence): AskingClaim(deadline_at, bool(is_cancel_asked))
            for run_id, fence, deadline_at, is_cancel_asked in found
        }

    def limits(self, scopes: Iterable[str]) -> Limits:
        """Return all limits."""
        return read_limits(self._connection)

    def lock(self, places: Sequence[str]) -> None:
        """Nothing: nobody else writes."""

    def held_by(self, run_ids: Sequence[RunId]) -> Mapping[RunId, Mapping[str, int]]:
        """Return the places that runs hold."""
        held: dict[RunId, dict[str, int]] = {}
        for run_id, place, fence in self._each(READ_HELD, run_ids):
            held.setdefault(RunId(run_id), {})[place] = fence
        return held

    def given_turns(self, run_ids: Sequence[RunId]) -> Mapping[RunId, int]:
        """Return turns at rates that runs were given."""
        return {RunId(run_id): at for run_id, at in self._each(READ_TURNS, run_ids)}

    def books(self, places: Sequence[str], destinations: Sequence[str]) -> AdmissionState:
        """Return places, paces and breakers as they are now."""
        breakers = {name: read_breaker(self._connection, name) for name in destinations}
        return AdmissionState(
            held={place: self._count(COUNT_HELD, place) for place in places},
            waiting={place: self._count(COUNT_WAITING, cap_gate(place)) for place in places},
            paces={place: RateState(*pace) for place, *pace in self._each(READ_PACES, places)},
            breakers={name: one for name, one in breakers.items() if one is not None},
        )

    def kept(self, places: Sequence[str]) -> Mapping[str, int]:
        """Return how many hold places who were let go, and are queued since then."""
        return {place: self._count(COUNT_KEPT, place) for place in places}

    def _each(self, statement: str, keys: Sequence[object]) -> list[Row]:
        return self._connection.executemany(statement, [(key,) for key in keys]).fetchall()

    def _count(self, statement: str, key: str) -> int:
        (count,) = one(self._connection, statement, (key,))
        return int(count)

    def go(self, going: Sequence[tuple[ClaimRef, tuple[str, ...]]]) -> None:
        """Write places of claims that begin."""
        for (run_id, fence), places in going:
            leave_places(self._work, run_id, but=places)
            rows = [(run_id, place, fence) for place in places]
            self._connection.executemany(TAKE_PLACE, rows)
            self._connection.execute(MARK_CLAIM, (run_id,))
            self._connection.execute(DROP_TURN, (run_id,))

    def put_off(
        self, later: Sequence[tuple[ClaimRef, AdmissionDecision]], turns: Mapping[RunId, int]
    ) -> None:
        """Let runs wait for their timers."""
        work = self._work
        for hold, verdict in later:
            assert verdict.at is not None, "who comes later knows when"
            tries, shard = self._end_unbegun(hold), shard_of(hold.run_id, work.shards)
            row = (hold.run_id, shard, verdict.at, *tries, verdict.why)
            self._connection.execute(INSERT_WAITING, row)
            work.announce("retry", hold.run_id, verdict.at, shard)
        work.count_on("retrying", len(later))
        self._connection.executemany(PUT_TURN, list(turns.items()))

    def stand(self, standing: Sequence[tuple[ClaimRef, str]]) -> None:
        """Let runs stand at the gates of places."""
        for hold, place in standing:
            tries, gate = self._end_unbegun(hold), cap_gate(place)
            *_, priority, lane = one(self._connection, READ_CALL, (hold.run_id,))
            (number,) = one(self._connection, NEXT_NUMBER, (gate,))
            rank = priority + LANE_OFFSETS[Lane(lane)]
            row = (hold.run_id, gate, rank, number, self.now, *tries)
            self._connection.execute(STAND, row)

    def _end_unbegun(self, hold: ClaimRef) -> AttemptCounts:
        """End a claim that has not begun, and leaves no record."""
        *tries, is_gated = one(self._connection, END_UNBEGUN, hold)
        if is_gated:
            leave_places(self._work, hold.run_id)
        return put_off_tries(AttemptCounts(*tries))

    def cancel(self, holds: Sequence[ClaimRef]) -> None:
        """Close runs as cancelled, which somebody has asked for."""
        moving, conclusion = Moving(self._work), not_begun(Reason.NOT_STARTED)
        for hold in holds:
            (worker,) = one(self._connection, READ_WORKER, hold)
            _, *claim = one(self._connection, TAKE_CLAIM, (None, *hold, worker))
            finish = FinishAttempt(hold=hold, started_at=None, conclusion=conclusion)
            moving.end(Claim(*claim), finish)
        moving.write()

    def write_books(self, paces: Mapping[str, RateState], breakers: Mapping[str, Breaker]) -> None:
        """Write paces and breakers that have changed."""
        rows = [(place, *pace) for place, pace in paces.items()]
        self._connection.executemany(PUT_PACE, rows)
        for destination, breaker in breakers.items():
            write_breaker(self._work, destination, breaker)
