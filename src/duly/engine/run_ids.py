"""The ids of an attempt, its run and its schedule, as people see them: for events and log lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.attempts import attempt_name
from duly.domain.identity import identity_text

if TYPE_CHECKING:
    from duly.store.execution import ClaimedRun


def ids_of(claimed: ClaimedRun) -> dict[str, str]:
    """Return them by their names in every event and every line."""
    record, run = claimed.record, identity_text(claimed.run_id)
    schedule = record.schedule_id
    return {
        "task": claimed.task,
        "run_id": run,
        "attempt_id": attempt_name(run, claimed.tries.attempt),
        "schedule_id": "" if schedule is None else identity_text(schedule),
        "schedule": record.schedule_name or "",
    }
