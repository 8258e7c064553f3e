"""Many at once, on the memory store: one after the other, as of one moment."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, TypeVar

from duly.store.memory import attempts, doubts, effects, execution, reading, run_vitals, scopes
from duly.store.ports.queries import EFFECTS_MAX, Evidence, Findings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duly.domain.ids import RunId, ScheduleId
    from duly.domain.runs import OccurrenceStatus, RunRecord
    from duly.domain.schedules import ScheduleRecord
    from duly.domain.vitals import DefinitionRecord
    from duly.store.memory.tables import Journal
    from duly.store.ports.queries import OccurrenceStatuses

T = TypeVar("T")


class MemorySurveys(ABC):
    """What anybody may look at, many at once."""

    @abstractmethod
    def _read(self, operation: Callable[[Journal], T]) -> T:
        """Look at the tables as they are at one moment."""

    def judge_many(self, asked: Sequence[OccurrenceStatuses]) -> list[list[OccurrenceStatus]]:
        """Say what is known about occurrences of schedules."""
        return self._read(lambda journal: [reading.judge(journal, *one) for one in asked])

    def get_schedules(self, ids: Sequence[ScheduleId]) -> dict[ScheduleId, ScheduleRecord]:
        """Return those schedules that there are."""

        def read(journal: Journal) -> dict[ScheduleId, ScheduleRecord]:
            known = journal.tables.schedules
            return {one: known[one] for one in ids if one in known}

        return self._read(read)

    def get_runs(self, run_ids: Sequence[RunId]) -> dict[RunId, RunRecord]:
        """Return those runs that there are."""

        def read(journal: Journal) -> dict[RunId, RunRecord]:
            rows = journal.tables.runs
            return {one: reading.run_record(journal, rows[one]) for one in run_ids if one in rows}

        return self._read(read)

    def list_many_definitions(
        self, ids: Sequence[ScheduleId], limit: int
    ) -> dict[ScheduleId, list[DefinitionRecord]]:
        """Return the newest versions of templates."""

        def read(journal: Journal) -> dict[ScheduleId, list[DefinitionRecord]]:
            found = {one: run_vitals.list_definitions(journal, one, limit) for one in ids}
            return {one: listed for one, listed in found.items() if listed}

        return self._read(read)

    def list_newest_runs(
        self, ids: Sequence[ScheduleId], limit: int
    ) -> dict[ScheduleId, list[RunRecord]]:
        """Return the newest runs of schedules."""

        def read(journal: Journal) -> dict[ScheduleId, list[RunRecord]]:
            found: dict[ScheduleId, list[RunRecord]] = {}
            rows = journal.tables.runs
            for run_id in sorted(rows, reverse=True):
                of = rows[run_id].schedule_id
                if of is not None and of in ids and len(found.get(of, ())) < limit:
                    found.setdefault(of, []).append(reading.run_record(journal, rows[run_id]))
            return found

        return self._read(read)

    def read_evidence(self, run_ids: Sequence[RunId]) -> dict[RunId, Evidence]:
        """Return what is on record about runs."""
        return self._read(lambda journal: {one: _evidence(journal, one) for one in run_ids})

    def read_findings(self, run_ids: Sequence[RunId]) -> dict[RunId, Findings]:
        """Return what runs brought about."""
        return self._read(lambda journal: {one: _findings(journal, one) for one in run_ids})


def _findings(journal: Journal, run_id: RunId) -> Findings:
    verdicts = tuple(doubts.list_verdicts(journal, run_id))
    return Findings(verdicts, scopes.get_scope(journal, run_id))


def _evidence(journal: Journal, run_id: RunId) -> Evidence:
    last = attempts.list_attempts(journal, run_id, 1)
    return Evidence(
        attempt=last[-1] if last else None,
        effects=tuple(effects.list_effects(journal, run_id, EFFECTS_MAX)),
        verdicts=tuple(doubts.list_verdicts(journal, run_id)),
        has_checkpoint=bool(execution.get_checkpoints(journal, run_id)),
    )
