"""Admission on the memory store: one batch after the other."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from duly.domain.admission import AdmissionState
from duly.domain.limits import cap_gate
from duly.domain.outcomes import not_begun
from duly.domain.runs import Reason
from duly.store.admission import Admission, AskingClaim
from duly.store.memory.ending import end_claim
from duly.store.memory.execution import held
from duly.store.memory.gates import queue_priority
from duly.store.memory.limiting import (
    MemoryOpening,
    leave_places,
    list_limits,
    places_of,
    take_in,
)
from duly.store.memory.tables import Blocked, Waiting
from duly.store.work_rulings import put_off_tries

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from duly.domain.admission import AdmissionDecision, Breaker
    from duly.domain.ids import RunId
    from duly.domain.limits import Limits, RateState
    from duly.domain.runs import AttemptCounts
    from duly.store.memory.tables import Journal
    from duly.store.ports.dispatch import MemberId
    from duly.store.ports.execution import ClaimRef


class MemoryAdmission(Admission):
    """All limits, alone for as long as the journal is open."""

    def __init__(self, journal: Journal) -> None:
        self.now = journal.now
        self._journal = journal
        self._tables = journal.tables

    def claims(self, worker: MemberId, holds: Sequence[ClaimRef]) -> Mapping[ClaimRef, AskingClaim]:
        """Return those claims that are the worker's under that fence."""
        claims = {hold: held(self._journal, worker, hold) for hold in holds}
        return {
            hold: AskingClaim(claim.deadline, claim.cancel_asked_at is not None)
            for hold, claim in claims.items()
            if claim is not None
        }

    def limits(self, scopes: Iterable[str]) -> Limits:
        """Return all limits."""
        return list_limits(self._journal)

    def lock(self, places: Sequence[str]) -> None:
        """Nothing: a journal is alone."""

    def held_by(self, run_ids: Sequence[RunId]) -> Mapping[RunId, Mapping[str, int]]:
        """Return the places that runs hold."""
        return {run_id: places_of(self._journal, run_id) for run_id in run_ids}

    def given_turns(self, run_ids: Sequence[RunId]) -> Mapping[RunId, int]:
        """Return turns at rates that runs were given."""
        turns = self._tables.turns
        return {run_id: turns[run_id] for run_id in run_ids if run_id in turns}

    def books(self, places: Sequence[str], destinations: Sequence[str]) -> AdmissionState:
        """Return places, paces and breakers as they are now."""
        opening, gates = (
            MemoryOpening(self._journal),
            [row.gate for row in self._tables.blocked.values()],
        )
        paces, breakers = self._tables.paces, self._tables.breakers
        return AdmissionState(
            held={place: opening.count_held(place) for place in places},
            waiting={place: gates.count(cap_gate(place)) for place in places},
            paces={place: paces[place] for place in places if place in paces},
            breakers={name: breakers[name][0] for name in destinations if name in breakers},
        )

    def kept(self, places: Sequence[str]) -> Mapping[str, int]:
        """Return how many hold places who were let go, and are queued since then."""
        held, ready = self._tables.held_places, self._tables.ready
        return Counter(place for run_id, place in held if run_id in ready)

    def go(self, going: Sequence[tuple[ClaimRef, tuple[str, ...]]]) -> None:
        """Write places of claims that begin."""
        for (run_id, fence), places in going:
            leave_places(self._journal, run_id, but=places)
            for place in places:
                self._journal.put(self._tables.held_places, (run_id, place), fence)
            self._journal.remove(self._tables.turns, run_id)

    def put_off(
        self, later: Sequence[tuple[ClaimRef, AdmissionDecision]], turns: Mapping[RunId, int]
    ) -> None:
        """Let runs wait for their timers."""
        for (run_id, _), verdict in later:
            assert verdict.at is not None, "who comes later knows when"
            tries = self._end_unbegun(run_id)
            row = Waiting(verdict.at, tries, verdict.why)
            self._journal.insert(self._tables.waiting, run_id, row)
            self._journal.announce("retry", run_id, verdict.at)
        for run_id, at in turns.items():
            self._journal.put(self._tables.turns, run_id, at)

    def stand(self, standing: Sequence[tuple[ClaimRef, str]]) -> None:
        """Let runs stand at the gates of places."""
        tables = self._tables
        for (run_id, _), place in standing:
            tries = self._end_unbegun(run_id)
            tables.gate_number += 1
            priority = queue_priority(self._journal, run_id)
            row = Blocked(cap_gate(place), priority, tables.gate_number, self.now, tries)
            self._journal.insert(tables.blocked, run_id, row)

    def _end_unbegun(self, run_id: RunId) -> AttemptCounts:
        """End a claim that has not begun, and leaves no record."""
        journal, tables = self._journal, self._tables
        tries = put_off_tries(tables.claims[run_id].tries)
        journal.remove(tables.claims, run_id)
        journal.put(tables.unbegun, run_id, tables.unbegun.get(run_id, 0) + 1)
        leave_places(journal, run_id)
        return tries

    def cancel(self, holds: Sequence[ClaimRef]) -> None:
        """Close runs as cancelled, which somebody has asked for."""
        for run_id, _ in holds:
            claim = self._tables.claims[run_id]
            end_claim(self._journal, run_id, claim, not_begun(Reason.NOT_STARTED))
        take_in(self._journal)

    def write_books(self, paces: Mapping[str, RateState], breakers: Mapping[str, Breaker]) -> None:
        """Write paces and breakers that have changed."""
        for place, pace in paces.items():
            self._journal.put(self._tables.paces, place, pace)
        for destination, breaker in breakers.items():
            self._journal.put(self._tables.breakers, destination, (breaker, self.now))
