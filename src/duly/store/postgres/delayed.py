"""Orders about single runs: at once or later, moving and cancelling what is pending."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from duly.domain.audit import delayed_facts
from duly.domain.enums import RunState
from duly.domain.ids import shard_of
from duly.domain.runs import DelayedRecord, RunRecord
from duly.store import records
from duly.store.auditing import delayed_subject
from duly.store.postgres import rows
from duly.store.postgres.adding import add_plain, add_runs
from duly.store.postgres.confirming import confirm_runs
from duly.store.postgres.pending import (
    DELAYED_BY_ID,
    DELAYED_BY_KEY,
    close_all,
    find_delayed,
    read_delayed,
    read_run,
)
from duly.store.postgres.session import first, uid
from duly.store.rulings import due_of, no_longer_pending, unknown_delayed

if TYPE_CHECKING:
    from duly.store.ports.schedules import CancelDelayed, MoveDelayed
    from duly.store.postgres.work import Work

__all__ = [
    "add_plain",
    "add_runs",
    "cancel_delayed",
    "find_delayed",
    "move_delayed",
    "read_delayed",
    "read_run",
]

LOCK_BY_ID = f"{DELAYED_BY_ID} FOR UPDATE"
LOCK_BY_KEY = f"{DELAYED_BY_KEY} FOR UPDATE"
NEWEST_RUN_BY_KEY = f"""{rows.RUN} WHERE r.tenant = $1 AND r.key = $2
ORDER BY r.created_at DESC, r.id DESC LIMIT 1"""
MOVE_DELAYED = """
UPDATE duly.delayed SET due_at = $2::int8, generation = $3::int4 WHERE id = $1::uuid"""
LOOKS_MAX = 2


def move_delayed(work: Work, command: MoveDelayed) -> DelayedRecord:
    """Move a pending run to another instant."""
    old = _locked(work, command)
    if isinstance(old, RunRecord):
        raise no_longer_pending(command, old)
    due_at = due_of(command, work.look_at_the_clock())
    assert due_at is not None, "a move says where to"
    new = replace(old, due_at=due_at, generation=old.generation + 1)
    work.session.run(MOVE_DELAYED, (uid(old.id), due_at, new.generation))
    work.announce("delayed", old.id, due_at, shard_of(old.id, work.shards))
    subject = delayed_subject(old, delayed_facts(old), delayed_facts(new))
    work.record(command.actor, "delayed.moved", subject)
    return new


def cancel_delayed(work: Work, command: CancelDelayed) -> RunRecord:
    """Cancel a pending run; one that is already cancelled stays so."""
    old = _locked(work, command)
    if isinstance(old, DelayedRecord):
        work.look_at_the_clock()
        close_all(work, [old], RunState.CANCELLED, command.actor)
        closed = read_run(work.session, old.id)
        assert closed is not None, "a cancelled run keeps its record"
        return closed
    if old.state is RunState.CANCELLED:
        confirm_runs(work, [old.id])
        return old
    raise no_longer_pending(command, old)


def _locked(work: Work, order: MoveDelayed | CancelDelayed) -> DelayedRecord | RunRecord:
    """Hold on to the pending run that an order names, or return the run that it has become.

    Who waited for somebody to fire or replace it finds the row gone, and then what came of it.
    """
    if order.id is not None:
        # Another's is neither locked nor waited for: that would tell that it is there.
        row = first(work.session, LOCK_BY_ID, (uid(order.id), order.tenant))
        if row is not None:
            return records.delayed_record(row)
        return _of_tenant(order, read_run(work.session, order.id, order.tenant))
    for _ in range(LOOKS_MAX):
        row = first(work.session, LOCK_BY_KEY, (order.tenant, order.key))
        if row is not None:
            return records.delayed_record(row)
    row = first(work.session, NEWEST_RUN_BY_KEY, (order.tenant, order.key))
    return _of_tenant(order, None if row is None else records.run_record(row))


def _of_tenant(
    order: MoveDelayed | CancelDelayed, found: DelayedRecord | RunRecord | None
) -> DelayedRecord | RunRecord:
    if found is None or found.tenant != order.tenant:
        raise unknown_delayed(order)
    return found
