"""What vitals are drawn from, on the memory store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.enums import RunState
from duly.domain.vitals import ERROR_END_MAX, ERRORS, DefinitionRecord, Fault, RunVital
from duly.store.memory.reading import run_record

if TYPE_CHECKING:
    from duly.domain.ids import ScheduleId
    from duly.domain.vitals import VitalsFilter
    from duly.store.memory.tables import Claim, Ended, Journal, RunRow


def list_run_vitals(journal: Journal, command: VitalsFilter) -> list[RunVital]:
    """Return what is known of runs, newest first."""
    runs = journal.tables.runs
    ids = {run_id for run_id in command.run_ids if run_id in runs}
    for one in command.schedule_ids:
        own = sorted((row.id for row in runs.values() if row.schedule_id == one), reverse=True)
        ids.update(own[: command.limit])
    return [_vital(journal, runs[run_id]) for run_id in sorted(ids, reverse=True)]


def list_definitions(
    journal: Journal, schedule_id: ScheduleId, limit: int
) -> list[DefinitionRecord]:
    """Return the newest versions of a schedule's template."""
    tables = journal.tables
    found = [
        DefinitionRecord(number, tables.definition_times[schedule_id, number], definition)
        for (one, number), definition in tables.definitions.items()
        if one == schedule_id
    ]
    return sorted(found, key=lambda one: one.number, reverse=True)[:limit]


def _vital(journal: Journal, row: RunRow) -> RunVital:
    tables, record = journal.tables, run_record(journal, row)
    outcome = tables.outcomes.get(row.id)
    attempts = sorted((fence, one) for (of, fence), one in tables.attempts.items() if of == row.id)
    ended = [one for _, one in attempts]
    verdicts = [one for (of, _), one in tables.verdicts.items() if of == row.id]
    verdict = max(verdicts, key=lambda one: one.number, default=None)
    held = tables.claims.get(row.id)
    member = None if held is None else tables.members.get(held.worker)
    claim: Claim | None = held if outcome is None else outcome.claim
    over = outcome is not None and outcome.claim is not None
    return RunVital(
        run_id=row.id,
        schedule_id=row.schedule_id,
        task=record.call.task,
        origin=row.origin,
        lane=row.lane,
        scheduled_for=row.scheduled_for,
        due_at=row.not_before,
        fired_at=row.fired_at,
        state=record.state,
        reason=record.state_reason,
        finished_at=record.finished_at,
        attempt=record.tries.attempt,
        begun_at=record.tries.begun_at,
        worker=record.worker,
        claimed_at=record.claimed_at,
        started_at=record.started_at,
        progress_done=None if record.progress is None else record.progress.done,
        progress_total=None if record.progress is None else record.progress.total,
        progress_at=None if claim is None else claim.progress_at,
        next_at=record.next_at,
        heartbeat_at=None if member is None else member.renewed_at,
        attempt_ended_at=record.finished_at if over else (ended[-1].ended_at if ended else None),
        finding=None if verdict is None else verdict.finding,
        found_at=None if verdict is None else verdict.at,
        fault=_fault(journal, row, [one for one in ended if one.state in ERRORS]),
    )


def _fault(journal: Journal, row: RunRow, faulty: list[Ended]) -> Fault | None:
    outcome = journal.tables.outcomes.get(row.id)
    last = faulty[-1] if faulty else None
    if outcome is not None and outcome.state is RunState.FAILED:
        said = None if last is None else last.error
        error = said if outcome.error is None else outcome.error
        return Fault("failed", outcome.reason, _end(error), outcome.finished_at)
    if last is None:
        return None
    return Fault(str(last.state), last.reason, _end(last.error), last.ended_at)


def _end(error: str | None) -> str | None:
    return None if error is None else error[-ERROR_END_MAX:]
