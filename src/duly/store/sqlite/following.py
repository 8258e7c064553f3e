"""Runs that are made of others, in the transaction that ends those, in the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.store.sqlite.settlements import SET_ROOT, write_runs

if TYPE_CHECKING:
    from duly.domain.verification import CheckRun
    from duly.store.sqlite.work import Work


def follow_up(work: Work, new: CheckRun) -> None:
    """Queue a run that follows from one that has ended; once, however often it is told."""
    call, now = new.call, work.now
    what = (call.task, call.arguments, call.queue, call.priority, new.origin, new.lane)
    row = (new.id, new.tenant, None, None, None, *what, now, now, None, now, now)
    if write_runs(work, [row]):
        work.connection.execute(SET_ROOT, (new.root, new.id))
