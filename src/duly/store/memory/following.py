"""Runs that are made of others, in the transaction that ends those, on the memory store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.store.memory.tables import RunRow

if TYPE_CHECKING:
    from duly.domain.verification import CheckRun
    from duly.store.memory.tables import Journal


def follow_up(journal: Journal, new: CheckRun | None) -> None:
    """Queue a run that follows from one that has ended; once, however often it is told."""
    if new is None or new.id in journal.tables.runs:
        return
    row = RunRow(
        id=new.id,
        tenant=new.tenant,
        schedule_id=None,
        definition_number=None,
        key=None,
        call=new.call,
        origin=new.origin,
        lane=new.lane,
        root=new.root,
        scheduled_for=journal.now,
        not_before=journal.now,
        window_from=None,
        created_at=journal.now,
        fired_at=journal.now,
    )
    journal.insert(journal.tables.runs, row.id, row)
    journal.queue(row.id, row.not_before)
