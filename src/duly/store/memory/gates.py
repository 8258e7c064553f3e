"""Gates on the memory store: who has gone ahead, and who waits."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from duly.domain.enums import RunState
from duly.domain.limits import capped_place
from duly.domain.runs import AttemptCounts
from duly.store.gates import OVERLAP, Gates
from duly.store.gathering import LANE_OFFSETS
from duly.store.memory.attempts import call_of
from duly.store.memory.limiting import MemoryOpening, leave_limits
from duly.store.memory.tables import Blocked, Outcome
from duly.store.ports.dispatch import MemberKind

if TYPE_CHECKING:
    from duly.domain.ids import RunId
    from duly.store.gates import GateDecision
    from duly.store.memory.tables import Journal, Ready, Waiting

_UNTRIED = AttemptCounts()


class MemoryGates(Gates):
    """All gates, alone for as long as the journal is open."""

    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self._journal = journal
        self._tables = journal.tables

    def exists(self, run_id: RunId) -> bool:
        """Say whether there is such a run."""
        return run_id in self._tables.runs

    def is_stored_open(self, run_id: RunId) -> bool:
        """Say whether a run is still to end."""
        tables = self._tables
        is_over = run_id in tables.outcomes or run_id in tables.dead
        return run_id in tables.runs and not is_over

    def lock(self, gate: str) -> None:
        """Nothing: a journal is alone."""

    def holder(self, gate: str) -> RunId | None:
        """Return the open run that has gone through."""
        found = [run_id for run_id, taken in self._tables.held_gates.items() if taken == gate]
        assert len(found) <= 1, f"{gate} is taken by {len(found)}"
        return found[0] if found else None

    def waiting(self, gate: str) -> list[RunId]:
        """Return who waits, the first to go first."""
        blocked = self._tables.blocked
        there = [run_id for run_id, row in blocked.items() if row.gate == gate]
        return sorted(there, key=lambda run_id: blocked[run_id].place)

    def waits(self, run_id: RunId) -> bool:
        """Say whether a run waits for another one; one that stands at a limit has gone ahead."""
        row = self._tables.blocked.get(run_id)
        return row is not None and capped_place(row.gate) is None

    def holds(self, run_id: RunId) -> bool:
        """Say whether a run holds any gate."""
        return run_id in self._tables.held_gates

    def last_let_go(self, run_id: RunId) -> RunId | None:
        """Return the run of the same schedule that went ahead last."""
        schedule_id = self._tables.runs[run_id].schedule_id
        return None if schedule_id is None else self._tables.schedules[schedule_id].active_run

    def take(self, gate: str, run_id: RunId) -> None:
        """Note that a run has gone through."""
        self._journal.insert(self._tables.held_gates, run_id, gate)

    def let_go(self, gate: str, run_id: RunId) -> None:
        """Queue one that has waited."""
        row = self._tables.blocked[run_id]
        self._journal.remove(self._tables.blocked, run_id)
        self.take(gate, run_id)
        self._journal.queue(run_id, self._tables.runs[run_id].not_before, row.tries)
        go_ahead(self._journal, run_id)

    def close_waiting(self, run_id: RunId, state: RunState, into: RunId) -> None:
        """Close one that waits, because another stands for it."""
        tries = self._tables.blocked[run_id].tries
        self._journal.remove(self._tables.blocked, run_id)
        outcome = Outcome(state, OVERLAP, self._journal.now, tries, into=into)
        self._journal.insert(self._tables.outcomes, run_id, outcome)

    def stop(self, run_id: RunId, into: RunId) -> bool:
        """Close an open run as replaced, or ask its worker to stop."""
        journal, tables = self._journal, self._tables
        claim = tables.claims.get(run_id)
        if claim is not None:
            asked_at = claim.cancel_asked_at or journal.now
            asked = replace(claim, cancel_asked_at=asked_at, replaced_by=into)
            journal.put(tables.claims, run_id, asked)
            journal.wakes.add(MemberKind.WORKER)
            return False
        place: Ready | Waiting | Blocked | None
        place = tables.ready.get(run_id) or tables.waiting.get(run_id)
        place = place or tables.blocked.get(run_id)  # it stands at a limit
        if place is None:
            return False  # ambiguous: nobody knows what it did, and it keeps its gate
        journal.remove(tables.ready, run_id)
        journal.remove(tables.waiting, run_id)
        journal.remove(tables.blocked, run_id)
        leave_limits(journal, run_id)
        journal.remove(tables.held_gates, run_id)
        outcome = Outcome(RunState.REPLACED, OVERLAP, journal.now, place.tries, into=into)
        journal.insert(tables.outcomes, run_id, outcome)
        return True

    def stand(
        self, run_id: RunId, arrival: GateDecision, priority: int, tries: AttemptCounts
    ) -> None:
        """Let a run wait at its gate, and hurry whoever is in its way."""
        journal, tables = self._journal, self._tables
        assert arrival.gate is not None, "who waits has a gate"
        tables.gate_number += 1
        row = Blocked(arrival.gate, priority, tables.gate_number, journal.now, tries)
        journal.insert(tables.blocked, run_id, row)
        before = arrival.in_the_way
        if before is not None and before in tables.ready:
            hurried = min(queue_priority(journal, before), priority)
            journal.put(tables.ready, before, replace(tables.ready[before], priority=hurried))
        elif before is not None and before in tables.blocked:
            stands = tables.blocked[before]
            hurried = min(stands.priority, priority)
            journal.put(tables.blocked, before, replace(stands, priority=hurried))


def queue_priority(journal: Journal, run_id: RunId) -> int:
    """Return where a run stands at its queue: by what it was hurried to, or its own priority."""
    ready = journal.tables.ready.get(run_id)
    if ready is not None and ready.priority is not None:
        return ready.priority
    row = journal.tables.runs[run_id]
    return call_of(journal, row).priority + LANE_OFFSETS[row.lane]


def stand(
    journal: Journal, run_id: RunId, arrival: GateDecision, tries: AttemptCounts = _UNTRIED
) -> None:
    """Let a run wait at its gate."""
    MemoryGates(journal).stand(run_id, arrival, queue_priority(journal, run_id), tries)


def go_ahead(journal: Journal, run_id: RunId) -> None:
    """Note on its schedule that a run has gone ahead, unless it goes beside one that is open.

    A person may order that; whoever comes then still finds the one that was there before.
    """
    tables = journal.tables
    schedule_id = tables.runs[run_id].schedule_id
    record = None if schedule_id is None else tables.schedules.get(schedule_id)
    if record is None:
        return
    before = record.active_run
    if before is None or not MemoryGates(journal).has_gone(before):
        journal.put(tables.schedules, record.id, replace(record, active_run=run_id))


def begin_earlier(journal: Journal, run_id: RunId, arrival: GateDecision) -> None:
    """Let a run's window begin where those begin whose places it has taken."""
    runs = journal.tables.runs
    if not arrival.stands_for:
        return
    begins = [runs[one].window_from for one in (run_id, *arrival.stands_for)]
    known = [one for one in begins if one is not None]
    window_from = min(known) if len(known) == len(begins) else None
    journal.put(runs, run_id, replace(runs[run_id], window_from=window_from))


def give_back(journal: Journal, run_id: RunId) -> None:
    """Give back the gate that a run had taken: it is closed, or dead."""
    gate = journal.tables.held_gates.get(run_id)
    if gate is not None:
        journal.remove(journal.tables.held_gates, run_id)
        journal.freed.add(gate)


def open_gates(journal: Journal, gates: set[str] | None, limit: int) -> int:
    """Let the first go in gates that are free: in those that are named, or in any."""
    waiting = {row.gate for row in journal.tables.blocked.values()}
    found = sorted(waiting if gates is None else waiting & gates)
    places = [place for place in map(capped_place, found) if place is not None]
    opened = MemoryOpening(journal).open(places, limit) if places else 0
    opener = MemoryGates(journal)
    for gate in found:
        if opened >= limit:
            break
        if capped_place(gate) is None:
            opened += opener.open(gate)
    return opened
