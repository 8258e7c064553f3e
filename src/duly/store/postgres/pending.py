"""Delayed runs that are pending, and what they have become: reading them, and ending them early."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.audit import delayed_facts
from duly.store import records
from duly.store.auditing import delayed_subject
from duly.store.postgres import rows
from duly.store.postgres.arrays import Uuids
from duly.store.postgres.session import first, uid
from duly.store.postgres.trail import record_all

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.domain.audit import Actor
    from duly.domain.enums import RunState
    from duly.domain.ids import RunId
    from duly.domain.runs import DelayedRecord, RunRecord
    from duly.store.postgres.session import Session
    from duly.store.postgres.work import Work

DELAYED_BY_ID = f"{rows.DELAYED} WHERE id = $1::uuid AND ($2::text IS NULL OR tenant = $2)"
DELAYED_BY_KEY = f"{rows.DELAYED} WHERE tenant = $1 AND key = $2"
RUN_BY_ID = f"{rows.RUN} WHERE r.id = $1::uuid AND ($2::text IS NULL OR r.tenant = $2)"
# A run that never became visible: it was ended while it was pending.
CLOSE = """
WITH gone AS (DELETE FROM duly.delayed WHERE id = ANY($1::uuid[]) RETURNING *),
kept AS (
    INSERT INTO duly.runs (id, tenant, schedule_id, definition_number, key, task, arguments, queue,
        priority, origin, lane, scheduled_for, not_before, created_at)
    SELECT id, tenant, schedule_id, definition_number, key, task, arguments, queue, priority,
        origin, lane, due_at, due_at, created_at
    FROM gone)
INSERT INTO duly.outcomes (run_id, state, reason, finished_at)
SELECT id, $2, $3, $4::int8 FROM gone"""


def read_run(session: Session, run_id: RunId, tenant: str | None = None) -> RunRecord | None:
    """Return a run, of a tenant if one is named."""
    row = first(session, RUN_BY_ID, (uid(run_id), tenant))
    return None if row is None else records.run_record(row)


def read_delayed(
    session: Session, run_id: RunId, tenant: str | None = None
) -> DelayedRecord | None:
    """Return a pending delayed run by its id, of a tenant if one is named."""
    row = first(session, DELAYED_BY_ID, (uid(run_id), tenant))
    return None if row is None else records.delayed_record(row)


def find_delayed(session: Session, tenant: str, key: str) -> DelayedRecord | None:
    """Return the pending delayed run of a key."""
    row = first(session, DELAYED_BY_KEY, (tenant, key))
    return None if row is None else records.delayed_record(row)


def close_all(work: Work, ended: Sequence[DelayedRecord], state: RunState, actor: Actor) -> None:
    """End pending runs that we hold before they fired, on record: they exist, with an outcome."""
    if not ended:
        return
    ids = Uuids([record.id for record in ended])
    work.session.run(CLOSE, (ids, state, actor.reason, work.now))
    work.count_on("delayed", -len(ended))
    subjects = [delayed_subject(record, delayed_facts(record), None) for record in ended]
    record_all(work, actor, [(f"delayed.{state}", subject) for subject in subjects])
