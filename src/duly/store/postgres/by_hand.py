"""Runs that people bring to gates: asked of a schedule, or brought back from the dead.

Whoever brings some has locked the states of their schedules. Their gates are locked together, in
the order of their names, before the first of them comes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.enums import Overlap
from duly.domain.policies import GateEntryOutcome
from duly.store.gates import FREE, comer_again, comer_by_hand
from duly.store.postgres.arrays import Uuids
from duly.store.postgres.gates import PostgresGates
from duly.store.postgres.planning import read_definition, read_schedule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.domain.ids import RunId, ScheduleId
    from duly.domain.runs import AttemptCounts, RunRecord
    from duly.domain.schedules import Definition, ScheduleRecord
    from duly.store.gates import GateDecision, IncomingRun
    from duly.store.ports.schedules import NewRun
    from duly.store.postgres.work import Work

NOTE_ACTIVE = """
UPDATE duly.schedule_state t SET active_run = u.run_id
FROM unnest($1::uuid[], $2::uuid[]) u(schedule_id, run_id)
WHERE t.schedule_id = u.schedule_id"""


class ByHand:
    """Runs that come one after the other, in one transaction."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._gates = PostgresGates(work)
        self._comers: dict[RunId, tuple[ScheduleId, IncomingRun]] = {}
        self._went_ahead: dict[ScheduleId, RunId] = {}
        self.schedules: dict[ScheduleId, ScheduleRecord] = {}
        self.arrivals: dict[bytes, GateDecision] = {}
        """What was decided about those that have come."""

    def expect_new(self, asked: Sequence[NewRun]) -> None:
        """Get ready for runs that are asked of schedules."""
        for new in asked:
            schedule = None if new.schedule_id is None else self._schedule(new.schedule_id)
            if schedule is not None:
                self._comers[new.id] = schedule.id, comer_by_hand(schedule, new)
        self._expect()

    def expect_again(self, dead: Sequence[RunRecord]) -> None:
        """Get ready for dead runs that are to go on."""
        definitions: dict[tuple[ScheduleId, int], Definition | None] = {}
        for record in dead:
            if record.schedule_id is None or record.definition_number is None:
                continue
            key = record.schedule_id, record.definition_number
            schedule = self._schedule(record.schedule_id)
            if key not in definitions:
                definitions[key] = read_definition(self._work.session, *key)
            definition = definitions[key]
            if schedule is not None and definition is not None:
                self._comers[record.id] = schedule.id, comer_again(schedule, definition, record.id)
        self._expect()

    def _schedule(self, schedule_id: ScheduleId) -> ScheduleRecord | None:
        if schedule_id not in self.schedules:
            record = read_schedule(self._work.session, schedule_id)
            if record is None:
                return None
            self.schedules[schedule_id] = record
        return self.schedules[schedule_id]

    def _expect(self) -> None:
        comers = [comer for _, comer in self._comers.values()]
        self._gates.lock_all({comer.gate for comer in comers if comer.gate is not None})
        self._gates.foresee([*self._comers], [comer.last_let_go for comer in comers])

    def come(self, run_id: RunId, priority: int, tries: AttemptCounts) -> GateDecision:
        """Let a run come to its gate; whoever asks writes it, unless it is skipped."""
        if run_id not in self._comers:
            return FREE
        schedule_id, comer = self._comers[run_id]
        last = self._went_ahead.get(schedule_id, comer.last_let_go)
        arrival = self._gates.arrive(comer._replace(last_let_go=last))
        if arrival.coming is GateEntryOutcome.SKIPPED:
            return arrival
        self.arrivals[run_id] = arrival
        if arrival.coming is GateEntryOutcome.WAITS:
            self._gates.stand(run_id, arrival, priority, tries)
            return arrival
        if arrival.gate is not None:
            self._gates.take(arrival.gate, run_id)
        self._gates.gone.add(run_id)
        if last is None or not self._gates.has_gone(last):
            # Beside one that is open it may go by order; whoever comes then still finds that.
            self._went_ahead[schedule_id] = run_id
        return arrival

    def may_replace(self, run_id: RunId) -> bool:
        """Say whether a run takes the place of one that holds its gate."""
        return run_id in self._comers and self._comers[run_id][1].policy is Overlap.REPLACE

    def is_waiting(self, run_id: RunId) -> bool:
        """Say whether one that has come waits at its gate."""
        return self.arrivals.get(run_id, FREE).coming is GateEntryOutcome.WAITS

    def write(self) -> None:
        """Note on their schedules which runs have gone ahead."""
        if self._went_ahead:
            ids, runs = Uuids([*self._went_ahead]), Uuids([*self._went_ahead.values()])
            self._work.session.run(NOTE_ACTIVE, (ids, runs))
