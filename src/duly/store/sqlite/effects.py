"""The ledger of effects in the file, each permission under the claim's fence."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from duly.domain.effects import (
    ClaimCheck,
    EffectRecord,
    Grant,
    intended,
    may_begin,
    may_repeat,
    seen_by,
    told,
)
from duly.domain.ids import RunId
from duly.store import records
from duly.store.ports.effects import EffectGrant

if TYPE_CHECKING:
    from collections.abc import Mapping

    import apsw

    from duly.store.ports.effects import BeginEffect, EndEffect
    from duly.store.ports.execution import ClaimRef
    from duly.store.sqlite.work import Look, Work

# A repair goes on with the ledger of the first run.
FIND_LEDGER = """
SELECT CASE WHEN origin IN ('repair', 'backfill') THEN coalesce(root, id) ELSE id END
FROM duly_runs WHERE id = ?"""
READ_BOUNDARY = """
SELECT cancel_asked_at IS NOT NULL, deadline_at, effects_at FROM duly_claims
WHERE run_id = ? AND fence = ? AND worker = ?"""
NOTE_BOUNDARY = "UPDATE duly_claims SET effects_at = ?, is_unsafe = ? WHERE run_id = ?"
COLUMNS = "root, key, state, run_id, fence, begun_at, done_at, result, tries"
READ_EFFECT = f"SELECT {COLUMNS} FROM duly_effects WHERE root = ? AND key = ?"  # noqa: S608 - ours
PUT_EFFECT = f"""
INSERT OR REPLACE INTO duly_effects ({COLUMNS})
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"""  # noqa: S608 - columns of ours
DROP_EFFECT = "DELETE FROM duly_effects WHERE root = ? AND key = ?"
FORGET_INTENTIONS = """
UPDATE duly_effects SET state = 'unknown'
WHERE root = ? AND run_id = ? AND fence = ? AND state = 'intended'"""
LIST_UNKNOWN = "SELECT key FROM duly_effects WHERE root = ? AND state = 'unknown' ORDER BY key"
SETTLE_AS_DONE = """
UPDATE duly_effects SET state = 'done', done_at = ?
WHERE root = ? AND key = ? AND state = 'unknown'"""
SETTLE_AS_NOT_DONE = "DELETE FROM duly_effects WHERE root = ? AND key = ? AND state = 'unknown'"
# Those that are not done come first: of a long ledger none of them is left out.
LIST_EFFECTS = f"""
SELECT {COLUMNS}, (SELECT c.fence FROM duly_claims c WHERE c.run_id = e.run_id)
FROM duly_effects e WHERE root = ? ORDER BY state = 'done', begun_at, key LIMIT ?"""  # noqa: S608 - columns of ours


def find_ledger(connection: apsw.Connection, run_id: RunId) -> RunId | None:
    """Return the run whose ledger a run writes in; None when there is no such run."""
    row = connection.execute(FIND_LEDGER, (run_id,)).fetchone()
    return None if row is None else RunId(row[0])


def begin_effect(work: Work, command: BeginEffect) -> EffectGrant:
    """Permit an effect, and write it down as intended."""
    connection, hold, now = work.connection, command.hold, work.now
    row = connection.execute(READ_BOUNDARY, (*hold, command.worker)).fetchone()
    is_cancel_asked, deadline_at, effects_at = row or (False, None, None)
    boundary = ClaimCheck(
        is_ours=row is not None,
        is_cancel_asked=bool(is_cancel_asked),
        deadline_at=deadline_at,
        now=now,
    )
    grant = may_begin(boundary)
    if row is None or (grant is not Grant.GRANTED and command.key is None):
        return EffectGrant(now, grant)
    record = None
    if command.key is not None:
        root = find_ledger(connection, hold.run_id)
        assert root is not None, "what is claimed is a run"
        known = _read(connection, root, command.key)
        repeat = may_repeat(known, hold, command.effects)
        # What was done is told also to one that may begin nothing more.
        grant = grant if repeat is Grant.GRANTED else repeat
        if grant is not Grant.GRANTED:
            return EffectGrant(now, grant, known)
        record = intended(known, (root, command.key), hold, now)
        if record != known:
            _put(connection, record)
    if effects_at is None:
        connection.execute(NOTE_BOUNDARY, (now, command.is_unsafe, hold.run_id))
    return EffectGrant(now, grant, record)


def end_effect(work: Work, command: EndEffect) -> bool:
    """Write an effect down as done, or take its intention back."""
    connection, hold, key = work.connection, command.hold, command.key
    if connection.execute(READ_BOUNDARY, (*hold, command.worker)).fetchone() is None:
        return False
    root = find_ledger(connection, hold.run_id)
    assert root is not None, "what is claimed is a run"
    known = _read(connection, root, key)
    is_taken, after = told(known, command.word(work.now))
    if after is None:
        connection.execute(DROP_EFFECT, (root, key))
    elif after != known:
        _put(connection, after)
    return is_taken


def forget_intentions(work: Work, hold: ClaimRef) -> None:
    """Write down as unknown what a claim that ends has intended and not done."""
    root = find_ledger(work.connection, hold.run_id)
    work.connection.execute(FORGET_INTENTIONS, (root, *hold))


def list_unknown(work: Work, run_id: RunId) -> list[str]:
    """Return the keys of a line's unknown effects."""
    root = find_ledger(work.connection, run_id)
    return [key for (key,) in work.connection.execute(LIST_UNKNOWN, (root,))]


def settle_effects(work: Work, run_id: RunId, settled: Mapping[str, bool]) -> None:
    """Write down which unknown effects are done; those that are not done leave the ledger.

    What another run of the line intends at this moment is that run's to say.
    """
    connection, root = work.connection, find_ledger(work.connection, run_id)
    done = [(work.now, root, key) for key, is_done in settled.items() if is_done]
    not_done = [(root, key) for key, is_done in settled.items() if not is_done]
    connection.executemany(SETTLE_AS_DONE, done)
    connection.executemany(SETTLE_AS_NOT_DONE, not_done)


def list_effects(look: Look, run_id: RunId, limit: int) -> list[EffectRecord]:
    """Return the ledger of a run's line."""
    root = find_ledger(look.connection, run_id)
    found: list[EffectRecord] = []
    for *row, fence in look.connection.execute(LIST_EFFECTS, (root, limit)):
        record = records.effect_record(tuple(row))
        attempt = None if fence is None else (record.run_id, fence)
        found.append(replace(record, state=seen_by(record, attempt)))
    return sorted(found, key=lambda one: (one.begun_at, one.key))


def _read(connection: apsw.Connection, root: RunId, key: str) -> EffectRecord | None:
    row = connection.execute(READ_EFFECT, (root, key)).fetchone()
    return None if row is None else records.effect_record(row)


def _put(connection: apsw.Connection, record: EffectRecord) -> None:
    what = (record.root, record.key, record.state, record.run_id, record.fence)
    told = (record.begun_at, record.done_at, record.result, record.tries)
    connection.execute(PUT_EFFECT, (*what, *told))
