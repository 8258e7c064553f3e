"""Many at once, in a file: one after the other in one snapshot, as asking costs next to nothing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from duly.domain.ids import RunId
from duly.store.ports.queries import EFFECTS_MAX, Evidence, Findings
from duly.store.sqlite import attempts, doubts, effects, run_vitals, scopes, telling
from duly.store.sqlite.delayed import read_run
from duly.store.sqlite.planning import read_schedule
from duly.store.sqlite.reading import SqliteReading

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from duly.domain.ids import ScheduleId
    from duly.domain.runs import OccurrenceStatus, RunRecord
    from duly.domain.schedules import ScheduleRecord
    from duly.domain.vitals import DefinitionRecord
    from duly.store.ports.queries import OccurrenceStatuses
    from duly.store.records import Row
    from duly.store.sqlite.work import Look


class SqliteSurveys(ABC):
    """What anybody may look at, many at once."""

    @abstractmethod
    def _read(self) -> AbstractContextManager[Look]:
        """Open a snapshot; it waits for nobody."""

    def judge_many(self, asked: Sequence[OccurrenceStatuses]) -> list[list[OccurrenceStatus]]:
        """Say what is known about occurrences of schedules."""
        with self._read() as look:
            seen = SqliteReading(look)
            return [seen.judge(*one) for one in asked]

    def get_schedules(self, ids: Sequence[ScheduleId]) -> dict[ScheduleId, ScheduleRecord]:
        """Return those schedules that there are."""
        with self._read() as look:
            found = {one: read_schedule(look.connection, one) for one in ids}
        return {one: record for one, record in found.items() if record is not None}

    def get_runs(self, run_ids: Sequence[RunId]) -> dict[RunId, RunRecord]:
        """Return those runs that there are."""
        with self._read() as look:
            found = {one: read_run(look.connection, one) for one in run_ids}
        return {one: record for one, record in found.items() if record is not None}

    def list_many_definitions(
        self, ids: Sequence[ScheduleId], limit: int
    ) -> dict[ScheduleId, list[DefinitionRecord]]:
        """Return the newest versions of templates."""
        with self._read() as look:
            found = {one: run_vitals.list_definitions(look, one, limit) for one in ids}
        return {one: listed for one, listed in found.items() if listed}

    def list_newest_runs(
        self, ids: Sequence[ScheduleId], limit: int
    ) -> dict[ScheduleId, list[RunRecord]]:
        """Return the newest runs of schedules."""
        with self._read() as look:
            found = {one: _newest(look, one, limit) for one in ids}
        return {one: runs for one, runs in found.items() if runs}

    def read_evidence(self, run_ids: Sequence[RunId]) -> dict[RunId, Evidence]:
        """Return what is on record about runs."""
        with self._read() as look:
            return {one: _evidence(look, one) for one in run_ids}

    def read_findings(self, run_ids: Sequence[RunId]) -> dict[RunId, Findings]:
        """Return what runs brought about."""
        with self._read() as look:
            return {one: _findings(look, one) for one in run_ids}


def _findings(look: Look, run_id: RunId) -> Findings:
    return Findings(tuple(doubts.list_verdicts(look, run_id)), scopes.get_scope(look, run_id))


def _newest(look: Look, schedule_id: ScheduleId, limit: int) -> list[RunRecord]:
    ids: list[Row] = look.connection.execute(run_vitals.NEWEST, (schedule_id, limit)).fetchall()
    found = (read_run(look.connection, RunId(run_id)) for (run_id,) in ids)
    return [one for one in found if one is not None]


def _evidence(look: Look, run_id: RunId) -> Evidence:
    last = attempts.list_attempts(look, run_id, 1)
    return Evidence(
        attempt=last[-1] if last else None,
        effects=tuple(effects.list_effects(look, run_id, EFFECTS_MAX)),
        verdicts=tuple(doubts.list_verdicts(look, run_id)),
        has_checkpoint=bool(telling.get_checkpoints(look, run_id)),
    )
