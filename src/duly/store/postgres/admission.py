"""Admission: whether claims that fall under limits may begin, for a batch in one transaction.

The claims are locked first, in the order of their runs; then the gates of all places that they may
take, in the order of their names: from there on nobody else takes or gives out one of these, and
what is read is as it will be at the commit, but for places that are given back meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.admission import AdmissionState, BreakerState
from duly.domain.ids import RunId, shard_of
from duly.domain.limits import RateState, cap_gate
from duly.domain.outcomes import not_begun
from duly.domain.runs import Reason
from duly.store.admission import Admission, AskingClaim
from duly.store.limit_rows import breaker_of
from duly.store.ports.limits import Admitted
from duly.store.postgres.arrays import Int4s, Int8s, OptionalInt8s, Texts, Uuids
from duly.store.postgres.destinations import (
    BREAKERS_OF,
    count_held,
    lock_breakers,
    write_breakers,
)
from duly.store.postgres.ending import (
    DELETE_CLAIMS,
    INSERT_WAITING,
    Endings,
    columns_of,
    encoded,
    lock_claims,
    read_facts,
)
from duly.store.postgres.gate_locks import lock_gates
from duly.store.postgres.limiting import (
    FORGET_TURNS,
    leave_places,
    limits_of,
    mark_claims,
    note_turns,
    take_places,
    write_paces,
)
from duly.store.postgres.rows import RANKED
from duly.store.work_rulings import put_off_tries

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from duly.domain.admission import AdmissionDecision, Breaker
    from duly.domain.limits import Limits
    from duly.domain.runs import AttemptCounts
    from duly.store.ports.dispatch import MemberId
    from duly.store.ports.execution import ClaimRef
    from duly.store.ports.limits import Request
    from duly.store.postgres.ending import Claim
    from duly.store.postgres.work import Work
    from duly.store.records import Row

HELD_BY = """
SELECT uuid_send(run_id), place, fence FROM duly.held_places WHERE run_id = ANY($1::uuid[])"""
TURNS_OF = "SELECT uuid_send(run_id), at FROM duly.turns WHERE run_id = ANY($1::uuid[])"
# Of a crowd no more are counted than there are places: from there on it makes no difference.
COUNT_WAITING = """
SELECT u.place, (SELECT count(*) FROM (
    SELECT 1 FROM duly.blocked b WHERE b.gate = u.gate LIMIT u.most) b)
FROM unnest($1::text[], $2::text[], $3::int4[]) u(place, gate, most)"""
# One by one, by their ids: of who is queued at gates there may be a crowd.
COUNT_KEPT = """
SELECT h.place, count(*) FROM duly.held_places h
CROSS JOIN LATERAL (
    SELECT 1 FROM duly.ready y WHERE y.run_id = h.run_id AND y.is_gated LIMIT 1) y
WHERE h.place = ANY($1::text[])
GROUP BY h.place"""
PACES_OF = """
SELECT place, promised_at, begun_at, again_at FROM duly.paces WHERE place = ANY($1::text[])"""
# Numbers are drawn in the order in which the runs are given.
STAND_ALL = f"""
INSERT INTO duly.blocked (run_id, gate, priority, since, fence, attempt, charged, begun_at)
SELECT u.run_id, u.gate, r.ranked, $1::int8, u.fence, u.attempt, u.charged, u.begun_at
FROM unnest($2::uuid[], $3::text[], $4::int4[], $5::int4[], $6::int4[], $7::int8[])
    WITH ORDINALITY u(run_id, gate, fence, attempt, charged, begun_at, place)
CROSS JOIN LATERAL (SELECT {RANKED} AS ranked FROM duly.runs WHERE id = u.run_id OFFSET 0) r
ORDER BY u.place"""  # noqa: S608 - an expression of ours


def admit(work: Work, worker: MemberId, requests: Sequence[Request]) -> Admitted:
    """Decide about claims that ask to begin."""
    verdicts = PostgresAdmission(work).admit(worker, requests)
    return Admitted(work.now, verdicts)


class PostgresAdmission(Admission):
    """Limits that one batch falls under, locked for as long as it takes."""

    def __init__(self, work: Work) -> None:
        self.now = work.now
        self._work = work
        self._session = work.session
        self._claims: dict[RunId, Claim] = {}
        self._limits: Limits | None = None
        self._held: dict[RunId, dict[str, int]] = {}
        self._turns: dict[RunId, int] = {}

    def claims(self, worker: MemberId, holds: Sequence[ClaimRef]) -> Mapping[ClaimRef, AskingClaim]:
        """Return those claims that are the worker's under that fence, and keep them so."""
        self._claims = lock_claims(self._work, [run_id for run_id, _ in holds])
        self.now = self._work.look_at_the_clock()
        found = {hold: self._claims.get(hold.run_id) for hold in holds}
        return {
            hold: AskingClaim(claim.deadline_at, claim.cancel_asked_at is not None)
            for hold, claim in found.items()
            if claim is not None and (claim.worker, claim.fence) == (worker, hold.fence)
        }

    def limits(self, scopes: Iterable[str]) -> Limits:
        """Return the limits that have to do with some scopes."""
        self._limits = limits_of(self._session, scopes)
        return self._limits

    def lock(self, places: Sequence[str]) -> None:
        """Wait for whoever decides about places, and let nobody else until the end."""
        if places:
            lock_gates(self._session, map(cap_gate, places))
        self.now = self._work.look_at_the_clock()

    def held_by(self, run_ids: Sequence[RunId]) -> Mapping[RunId, Mapping[str, int]]:
        """Return the places that runs hold."""
        for run_id, place, fence in self._session.rows(HELD_BY, (Uuids(run_ids),)):
            self._held.setdefault(RunId(run_id), {})[place] = fence
        return self._held

    def given_turns(self, run_ids: Sequence[RunId]) -> Mapping[RunId, int]:
        """Return turns at rates that runs were given."""
        found = self._session.rows(TURNS_OF, (Uuids(run_ids),))
        self._turns = {RunId(run_id): at for run_id, at in found}
        return self._turns

    def books(self, places: Sequence[str], destinations: Sequence[str]) -> AdmissionState:
        """Return places, paces and breakers as they are now."""
        names = Texts(places)
        assert self._limits is not None, "limits are asked for first"
        most = [self._limits.of_place(place) or 0 for place in places]
        gates = Texts([cap_gate(place) for place in places])
        waiting = self._session.rows(COUNT_WAITING, (names, gates, Int4s(most)))
        paces = self._session.rows(PACES_OF, (names,))
        return AdmissionState(
            held=count_held(self._session, places),
            waiting=dict(waiting),
            paces={place: RateState(*instants) for place, *instants in paces},
            breakers=self._breakers(destinations) if destinations else {},
        )

    def kept(self, places: Sequence[str]) -> Mapping[str, int]:
        """Return how many hold places who were let go, and are queued since then."""
        return dict(self._session.rows(COUNT_KEPT, (Texts(places),)))

    def _breakers(self, destinations: Sequence[str]) -> dict[str, Breaker]:
        """Return what is known of destinations; those that are not well stay as they are."""
        found = self._session.rows(BREAKERS_OF, (Texts(destinations),))
        known = {row[10]: breaker_of(row) for row in found}
        unwell = [name for name, one in known.items() if one.state is not BreakerState.CLOSED]
        return known | lock_breakers(self._work, unwell) if unwell else known

    def go(self, going: Sequence[tuple[ClaimRef, tuple[str, ...]]]) -> None:
        """Write places of claims that begin, over those they have."""
        if not going:
            return
        taken = {(hold.run_id, place): hold.fence for hold, places in going for place in places}
        ids = [hold.run_id for hold, _ in going]
        leave_places(self._work, [run_id for run_id in ids if self._held.get(run_id)], taken)
        take_places(self._work, [(*place, fence) for place, fence in taken.items()])
        mark_claims(self._work, ids)
        begun = [run_id for run_id in ids if run_id in self._turns]
        if begun:
            self._session.run(FORGET_TURNS, (Uuids(begun),))

    def put_off(
        self, later: Sequence[tuple[ClaimRef, AdmissionDecision]], turns: Mapping[RunId, int]
    ) -> None:
        """Let runs wait for their timers."""
        tries = self._end_unbegun([hold.run_id for hold, _ in later])
        rows: list[Row] = []
        for (run_id, _), verdict in later:
            assert verdict.at is not None, "who comes later knows when"
            place = (run_id, shard_of(run_id, self._work.shards), verdict.at)
            rows.append((*place, *columns_of(tries[run_id]), verdict.why))
        if rows:
            kinds = (Uuids, Int4s, Int8s, Int4s, Int4s, Int4s, OptionalInt8s, Texts)
            self._session.run(INSERT_WAITING, encoded(rows, kinds))
            self._work.announce_all("retry", [(row[0], row[2], row[1]) for row in rows])
        note_turns(self._work, turns)

    def stand(self, standing: Sequence[tuple[ClaimRef, str]]) -> None:
        """Let runs stand at the gates of places."""
        tries = self._end_unbegun([hold.run_id for hold, _ in standing])
        rows = [
            (run_id, cap_gate(place), *columns_of(tries[run_id])) for (run_id, _), place in standing
        ]
        if rows:
            kinds = (Uuids, Texts, Int4s, Int4s, Int4s, OptionalInt8s)
            self._session.run(STAND_ALL, (self._work.now, *encoded(rows, kinds)))

    def _end_unbegun(self, run_ids: Sequence[RunId]) -> dict[RunId, AttemptCounts]:
        """End claims that have not begun, and leave no record; return their runs' tries."""
        if run_ids:
            self._session.run(DELETE_CLAIMS, (Uuids(sorted(run_ids)),))
            leave_places(self._work, [run_id for run_id in run_ids if self._held.get(run_id)])
        return {run_id: put_off_tries(self._claims[run_id].tries) for run_id in run_ids}

    def cancel(self, holds: Sequence[ClaimRef]) -> None:
        """Close runs as cancelled, which somebody has asked for."""
        ids = [run_id for run_id, _ in holds]
        endings = Endings(self._work, read_facts(self._work, ids))
        for run_id in ids:
            endings.end(self._claims[run_id], not_begun(Reason.NOT_STARTED))
        endings.write()

    def write_books(self, paces: Mapping[str, RateState], breakers: Mapping[str, Breaker]) -> None:
        """Write paces and breakers that have changed."""
        write_paces(self._work, paces)
        write_breakers(self._work, breakers)
