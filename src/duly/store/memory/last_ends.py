"""How the newest runs of schedules ended, on the memory store."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from duly.domain.enums import Finding, RunState
from duly.domain.runs import Reason
from duly.domain.vitals import ERRORS, LastEnd, LastEnds, LastError, unknown_through

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.domain.ids import ScheduleId
    from duly.store.memory.tables import Journal, RunRow


def list_last_ends(
    journal: Journal, schedule_ids: Sequence[ScheduleId], limit: int, *, with_errors: bool
) -> dict[ScheduleId, LastEnds]:
    """Return how the newest runs of each ended."""
    schedules = journal.tables.schedules
    found = {one: _last_ends(journal, one, limit) for one in schedule_ids if one in schedules}
    if with_errors:
        return found
    return {one: replace(ends, error=None) for one, ends in found.items()}


def _last_ends(journal: Journal, schedule_id: ScheduleId, limit: int) -> LastEnds:
    tables = journal.tables
    rows = [row for row in tables.runs.values() if row.schedule_id == schedule_id]
    rows.sort(key=lambda row: row.id, reverse=True)
    newest = rows[:limit]
    beyond = rows[limit].not_before if len(rows) > limit else None
    return LastEnds(
        success=next(filter(None, (_success(journal, row) for row in newest)), None),
        verified=next(filter(None, (_verified(journal, row) for row in newest)), None),
        error=next(filter(None, (_error(journal, row) for row in newest)), None),
        unknown_through=unknown_through(tables.schedules[schedule_id].pruned_through, beyond),
    )


def _success(journal: Journal, row: RunRow) -> LastEnd | None:
    outcome = journal.tables.outcomes.get(row.id)
    if outcome is None or outcome.state is not RunState.SUCCEEDED:
        return None
    if outcome.reason == Reason.RECONCILED_INCOMPLETE:
        return None
    return LastEnd(row.id, row.scheduled_for, outcome.finished_at)


def _verified(journal: Journal, row: RunRow) -> LastEnd | None:
    if _success(journal, row) is None:
        return None
    verdicts = [one for (run_id, _), one in journal.tables.verdicts.items() if run_id == row.id]
    last = max(verdicts, key=lambda one: one.number, default=None)
    if last is None or last.finding is not Finding.PRESENT:
        return None
    return LastEnd(row.id, row.scheduled_for, last.at)


def _error(journal: Journal, row: RunRow) -> LastError | None:
    tables = journal.tables
    attempts = [
        (fence, one)
        for (run_id, fence), one in tables.attempts.items()
        if run_id == row.id and one.state in ERRORS
    ]
    last = max(attempts, key=lambda one: one[0])[1] if attempts else None
    outcome = tables.outcomes.get(row.id)
    if outcome is not None and outcome.state is RunState.FAILED:
        said = None if last is None else last.error
        error = said if outcome.error is None else outcome.error
        return LastError(row.id, row.scheduled_for, outcome.finished_at, outcome.reason, error)
    if last is None:
        return None
    return LastError(row.id, row.scheduled_for, last.ended_at, last.reason, last.error)
