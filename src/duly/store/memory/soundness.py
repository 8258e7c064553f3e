"""What must always hold of the memory store's tables, looked for by `check`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.identity import identity_text
from duly.domain.literals import ScheduleStatus
from duly.store.schema import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.store.memory.tables import Journal

REMEDY = "this is a defect: keep the store and report it"


def check(journal: Journal) -> list[Finding]:
    """Return everything that is not as it must be."""
    found = [*_schedules(journal), *_runs(journal)]
    return [Finding(what, detail, REMEDY) for what, detail in found]


def _schedules(journal: Journal) -> Iterator[tuple[str, str]]:
    for record in journal.tables.schedules.values():
        is_active = record.status is ScheduleStatus.ACTIVE
        if is_active != (record.pending is not None):
            pending = "something pending" if record.pending else "nothing pending"
            yield "timer", f"schedule {record.name!r} is {record.status} and has {pending}"


def _runs(journal: Journal) -> Iterator[tuple[str, str]]:
    tables = journal.tables
    for run_id, row in tables.runs.items():
        places = (run_id in tables.ready) + (run_id in tables.outcomes)
        if places != 1:
            yield "place", f"run {identity_text(run_id)} is in {places} places"
        if row.fired_at is not None and row.fired_at < row.not_before:
            yield "early", f"run {identity_text(run_id)} fired before it was due"
    for run_id in set(tables.ready) - set(tables.runs):
        yield "place", f"the queue holds {identity_text(run_id)}, which is no run"
