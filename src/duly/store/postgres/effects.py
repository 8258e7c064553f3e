"""The ledger of effects: a permission is one statement, under the lock of the claim.

An effect that nobody knows of yet is permitted by a statement of its own: it holds on to the claim,
looks at the clock, writes the intention and notes on the claim that effects have begun. Whoever
takes the claim away waits for it, and then sees the note; or came first, and nothing is permitted.
All else (a refusal, an effect that is known, one that did not happen) is decided in a transaction
by the rules of the domain. Rows of the ledger are locked after everything else, in the order of
their keys.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from psycopg import errors

from duly.domain.effects import (
    LEAST_TIME_LEFT_US,
    ClaimCheck,
    Grant,
    intended,
    may_begin,
    may_repeat,
    seen_by,
    told,
)
from duly.domain.ids import RunId
from duly.store.ports.effects import EffectGrant
from duly.store.postgres.arrays import Int4s, Texts, Uuids
from duly.store.postgres.session import first, uid
from duly.store.records import effect_record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from duly.domain.effects import EffectRecord
    from duly.store.ports.dispatch import MemberId
    from duly.store.ports.effects import BeginEffect, EndEffect
    from duly.store.ports.execution import ClaimRef
    from duly.store.postgres.connection import Connections
    from duly.store.postgres.session import Session
    from duly.store.postgres.work import Work
    from duly.store.records import Row

LEDGER = "CASE WHEN r.origin IN ('repair', 'backfill') THEN coalesce(r.root, r.id) ELSE r.id END"
"""The run whose ledger a run writes in: a repair goes on with that of the first."""

_OURS = """
    SELECT c.cancel_asked_at, c.deadline_at, c.run_id FROM duly.claims c
    WHERE c.run_id = $1::uuid AND c.worker + 0 = $2::int8 AND c.fence = $3::int4
    FOR NO KEY UPDATE OF c"""
_LEDGER_OF = f"""
    CROSS JOIN LATERAL (
        SELECT {LEDGER} AS root FROM duly.runs r WHERE r.id = {{}}.run_id OFFSET 0) l"""  # noqa: S608
# The clock is looked at once the claim is ours; then as `may_begin` says it.
_GRANTED = f"""
WITH ours AS MATERIALIZED ({_OURS}),
at AS MATERIALIZED (SELECT o.*, duly.now_us() AS now FROM ours o),
granted AS MATERIALIZED (
    SELECT a.run_id, a.now FROM at a
    WHERE a.cancel_asked_at IS NULL
        AND (a.deadline_at IS NULL OR a.deadline_at - a.now >= {LEAST_TIME_LEFT_US}))"""  # noqa: S608
PERMIT_ALL = f"""{_GRANTED},
noted AS (
    UPDATE duly.claims c SET effects_at = g.now, is_unsafe = $4::bool FROM granted g
    WHERE c.run_id = $1::uuid AND c.effects_at IS NULL)
SELECT now FROM granted"""  # noqa: S608 - parts of ours
PERMIT_NEW = f"""{_GRANTED},
new AS (
    INSERT INTO duly.effects (root, key, state, run_id, fence, begun_at)
    SELECT l.root, $4, 'intended', g.run_id, $3::int4, g.now FROM granted g{_LEDGER_OF.format("g")}
    ON CONFLICT (root, key) DO NOTHING RETURNING root, begun_at),
noted AS (
    UPDATE duly.claims c SET effects_at = n.begun_at, is_unsafe = $5::bool FROM new n
    WHERE c.run_id = $1::uuid AND c.effects_at IS NULL)
SELECT uuid_send(root), begun_at FROM new"""  # noqa: S608 - parts of ours
END_DONE = f"""
WITH ours AS MATERIALIZED ({_OURS})
UPDATE duly.effects e SET state = 'done', done_at = duly.now_us(), result = $5
FROM ours o{_LEDGER_OF.format("o")}
WHERE e.root = l.root AND e.key = $4 AND e.run_id = $1::uuid AND e.fence = $3::int4
    AND e.state <> 'done'
RETURNING 1"""  # noqa: S608 - parts of ours

LOCK_CLAIM = _OURS
NOTE_ON_CLAIM = """
UPDATE duly.claims SET effects_at = $2::int8, is_unsafe = $3::bool
WHERE run_id = $1::uuid AND effects_at IS NULL"""
READ_LEDGER_OF = f"SELECT uuid_send({LEDGER}) FROM duly.runs r WHERE r.id = $1::uuid"  # noqa: S608
EFFECT = """uuid_send(e.root), e.key, e.state, uuid_send(e.run_id), e.fence, e.begun_at, e.done_at,
    e.result, e.tries"""
LOCK_EFFECT = f"""
SELECT {EFFECT} FROM duly.effects e WHERE e.root = $1::uuid AND e.key = $2 FOR UPDATE"""  # noqa: S608
INTEND = """
INSERT INTO duly.effects (root, key, state, run_id, fence, begun_at)
VALUES ($1::uuid, $2, 'intended', $3::uuid, $4::int4, $5::int8)
ON CONFLICT (root, key) DO NOTHING"""
INTEND_AGAIN = """
UPDATE duly.effects SET state = 'intended', run_id = $3::uuid, fence = $4::int4, tries = $5::int4
WHERE root = $1::uuid AND key = $2"""
WRITE = """
UPDATE duly.effects SET state = $3, done_at = $4::int8, result = $5
WHERE root = $1::uuid AND key = $2"""
TAKE_BACK = "DELETE FROM duly.effects WHERE root = $1::uuid AND key = $2"
# In the order of their keys, as everybody locks several.
FORGET = f"""
WITH open AS MATERIALIZED (
    SELECT e.root, e.key
    FROM unnest($1::uuid[], $2::int4[]) u(run_id, fence){_LEDGER_OF.format("u")}
    JOIN duly.effects e ON e.root = l.root
    WHERE e.run_id = u.run_id AND e.fence = u.fence AND e.state = 'intended'
    ORDER BY e.root, e.key FOR NO KEY UPDATE OF e)
UPDATE duly.effects e SET state = 'unknown' FROM open o
WHERE e.root = o.root AND e.key = o.key"""  # noqa: S608 - parts of ours
LIST_UNKNOWN = """
SELECT key FROM duly.effects WHERE root = $1::uuid AND state = 'unknown' ORDER BY key"""
LOCK_UNKNOWN = """
SELECT key FROM duly.effects WHERE root = $1::uuid AND key = ANY($2::text[]) AND state = 'unknown'
ORDER BY key FOR UPDATE"""
SETTLE_AS_DONE = """
UPDATE duly.effects SET state = 'done', done_at = $3::int8
WHERE root = $1::uuid AND key = ANY($2::text[])"""
SETTLE_AS_NOT_DONE = "DELETE FROM duly.effects WHERE root = $1::uuid AND key = ANY($2::text[])"
# Those that are not done come first: of a long ledger none of them is left out.
LIST_EFFECTS = f"""
SELECT {EFFECT}, c.fence FROM duly.effects e
LEFT JOIN LATERAL (
    SELECT c.fence FROM duly.claims c WHERE c.run_id = e.run_id OFFSET 0) c ON true
WHERE e.root = (SELECT {LEDGER} FROM duly.runs r WHERE r.id = $1::uuid)
ORDER BY e.state = 'done', e.begun_at, e.key LIMIT $2::int8"""  # noqa: S608 - columns of ours
READ_LEDGERS = f"""
SELECT uuid_send(r.id), uuid_send({LEDGER}) FROM duly.runs r WHERE r.id = ANY($1::uuid[])"""  # noqa: S608

LOOKS_MAX = 5
"""How often an effect may come or go while we look at it."""


class _Held(NamedTuple):
    """A claim whose row is locked."""

    cancel_asked_at: int | None
    deadline_at: int | None


def ledgers_of(session: Session, ids: Iterable[RunId]) -> dict[RunId, RunId]:
    """Return the runs whose ledgers runs write in."""
    found = session.rows(READ_LEDGERS, (Uuids(sorted(set(ids))),))
    return {RunId(run_id): RunId(root) for run_id, root in found}


def ledger_of(session: Session, run_id: RunId) -> RunId | None:
    """Return the run whose ledger a run writes in; None when there is no such run."""
    row = first(session, READ_LEDGER_OF, (uid(run_id),))
    return None if row is None else RunId(row[0])


def begin_effect(connections: Connections, command: BeginEffect) -> EffectGrant:
    """Permit an effect, and write it down as intended."""
    claim = _claim(command.worker, command.hold)
    with connections.statement() as session:
        if command.key is None:
            row = first(session, PERMIT_ALL, (*claim, command.is_unsafe))
            if row is not None:
                return EffectGrant(row[0], Grant.GRANTED)
        else:
            row = first(session, PERMIT_NEW, (*claim, command.key, command.is_unsafe))
            if row is not None:
                root, now = row
                record = intended(None, (RunId(root), command.key), command.hold, now)
                return EffectGrant(now, Grant.GRANTED, record)
    with connections.write() as work:
        return _Asking(work, command).answer()


def _claim(worker: MemberId, hold: ClaimRef) -> tuple[object, ...]:
    return (uid(hold.run_id), worker, hold.fence)


class _Asking:
    """One who asks for permission, while that is decided."""

    def __init__(self, work: Work, command: BeginEffect) -> None:
        self._work = work
        self._command = command

    def answer(self) -> EffectGrant:
        """Decide by what is known under the lock of the claim."""
        work, command = self._work, self._command
        claim = _hold_on(work, command.worker, command.hold)
        now = work.look_at_the_clock()
        boundary = ClaimCheck(
            is_ours=claim is not None,
            is_cancel_asked=claim is not None and claim.cancel_asked_at is not None,
            deadline_at=None if claim is None else claim.deadline_at,
            now=now,
        )
        grant = may_begin(boundary)
        if claim is None or (grant is not Grant.GRANTED and command.key is None):
            return EffectGrant(now, grant)
        record = None
        if command.key is not None:
            grant, record = self._decide(command.key, grant)
        if grant is Grant.GRANTED:
            note = (uid(command.hold.run_id), now, command.is_unsafe)
            work.session.run(NOTE_ON_CLAIM, note)
        return EffectGrant(now, grant, record)

    def _decide(self, key: str, grant: Grant) -> tuple[Grant, EffectRecord | None]:
        session, hold = self._work.session, self._command.hold
        root = ledger_of(session, hold.run_id)
        assert root is not None, "who is claimed is there"
        place = (uid(root), key, uid(hold.run_id), hold.fence)
        for _ in range(LOOKS_MAX):
            known = _known(session, place[:2])
            repeat = may_repeat(known, hold, self._command.effects)
            # What was done is told also to one that may begin nothing more.
            answer = grant if repeat is Grant.GRANTED else repeat
            if answer is not Grant.GRANTED:
                return answer, known
            record = intended(known, (root, key), hold, self._work.now)
            if known is not None:
                session.run(INTEND_AGAIN, (*place, record.tries))
                return answer, record
            if session.run(INTEND, (*place, record.begun_at)):
                return answer, record
            # Somebody else of its line has intended it since we looked.
        raise errors.SerializationFailure("the effect comes and goes again and again")


def _hold_on(work: Work, worker: MemberId, hold: ClaimRef) -> _Held | None:
    row = first(work.session, LOCK_CLAIM, _claim(worker, hold))
    return None if row is None else _Held(*row[:2])


def _known(session: Session, place: Row) -> EffectRecord | None:
    row = first(session, LOCK_EFFECT, place)
    return None if row is None else effect_record(row)


def end_effect(connections: Connections, command: EndEffect) -> bool:
    """Write an effect down as done, or take its intention back."""
    if command.is_done:
        values = (*_claim(command.worker, command.hold), command.key, command.result)
        with connections.statement() as session:
            if session.rows(END_DONE, values):
                return True
    with connections.write() as work:
        return _end(work, command)


def _end(work: Work, command: EndEffect) -> bool:
    session, hold = work.session, command.hold
    if _hold_on(work, command.worker, hold) is None:
        return False
    place = (uid(ledger_of(session, hold.run_id)), command.key)
    known = _known(session, place)
    is_taken, after = told(known, command.word(work.look_at_the_clock()))
    if after is None:
        session.run(TAKE_BACK, place)
    elif after != known:
        # One that is done was intended while the first statement waited for the claim.
        session.run(WRITE, (*place, after.state, after.done_at, after.result))
    return is_taken


def forget_intentions(work: Work, holds: Iterable[tuple[RunId, int]]) -> None:
    """Write down as unknown what claims that end have intended and not done."""
    ended = sorted(holds)
    if ended:
        ids, fences = zip(*ended, strict=True)
        work.session.run(FORGET, (Uuids(ids), Int4s(fences)))


def list_unknown(work: Work, run_id: RunId) -> list[str]:
    """Return the keys of a line's unknown effects; nothing is locked."""
    root = uid(ledger_of(work.session, run_id))
    return [key for (key,) in work.session.rows(LIST_UNKNOWN, (root,))]


def settle_effects(work: Work, run_id: RunId, settled: Mapping[str, bool]) -> None:
    """Write down which unknown effects are done; those that are not done leave the ledger.

    What another run of the line intends at this moment is that run's to say.
    """
    if not settled:
        return
    root = uid(ledger_of(work.session, run_id))
    found = [key for (key,) in work.session.rows(LOCK_UNKNOWN, (root, Texts(sorted(settled))))]
    done = [key for key in found if settled[key]]
    not_done = [key for key in found if not settled[key]]
    if done:
        work.session.run(SETTLE_AS_DONE, (root, Texts(done), work.now))
    if not_done:
        work.session.run(SETTLE_AS_NOT_DONE, (root, Texts(not_done)))


def list_effects(session: Session, run_id: RunId, limit: int) -> list[EffectRecord]:
    """Return the ledger of a run's line."""
    found: list[EffectRecord] = []
    for *row, fence in session.rows(LIST_EFFECTS, (uid(run_id), limit)):
        record = effect_record(tuple(row))
        attempt = None if fence is None else (record.run_id, fence)
        found.append(replace(record, state=seen_by(record, attempt)))
    return sorted(found, key=lambda one: (one.begun_at, one.key))
