"""The ledger of effects on the memory store, each permission under the claim's fence."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from duly.domain.effects import (
    ClaimCheck,
    EffectRecord,
    EffectState,
    Grant,
    intended,
    may_begin,
    may_repeat,
    seen_by,
    told,
)
from duly.domain.runs import MAKING_GOOD, lineage_root_of
from duly.store.ports.effects import EffectGrant

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from duly.domain.ids import RunId
    from duly.store.memory.tables import Claim, Journal, RunRow
    from duly.store.ports.dispatch import MemberId
    from duly.store.ports.effects import BeginEffect, EndEffect
    from duly.store.ports.execution import ClaimRef


def ledger_of(journal: Journal, run_id: RunId) -> RunId:
    """Return the run whose ledger a run writes in: that of the first of its line."""
    row = journal.tables.runs[run_id]
    return lineage_root_of(run_id, row.origin, row.root)


def begin_effect(journal: Journal, command: BeginEffect) -> EffectGrant:
    """Permit an effect, and write it down as intended."""
    now, run_id = journal.now, command.hold.run_id
    claim = _held(journal, command.worker, command.hold)
    boundary = ClaimCheck(
        is_ours=claim is not None,
        is_cancel_asked=claim is not None and claim.cancel_asked_at is not None,
        deadline_at=None if claim is None else claim.deadline,
        now=now,
    )
    grant = may_begin(boundary)
    if claim is None or (grant is not Grant.GRANTED and command.key is None):
        return EffectGrant(now, grant)
    known, record = None, None
    if command.key is not None:
        place = (ledger_of(journal, run_id), command.key)
        known = journal.tables.effects.get(place)
        repeat = may_repeat(known, command.hold, command.effects)
        # What was done is told also to one that may begin nothing more.
        grant = grant if repeat is Grant.GRANTED else repeat
        if grant is not Grant.GRANTED:
            return EffectGrant(now, grant, known)
        record = intended(known, place, command.hold, now)
        journal.put(journal.tables.effects, place, record)
    if claim.effects_at is None:
        noted = replace(claim, effects_at=now, is_unsafe=command.is_unsafe)
        journal.put(journal.tables.claims, run_id, noted)
    return EffectGrant(now, grant, record)


def end_effect(journal: Journal, command: EndEffect) -> bool:
    """Write an effect down as done, or take its intention back."""
    if _held(journal, command.worker, command.hold) is None:
        return False
    place = (ledger_of(journal, command.hold.run_id), command.key)
    known = journal.tables.effects.get(place)
    is_taken, after = told(known, command.word(journal.now))
    if after is not None:
        journal.put(journal.tables.effects, place, after)
    elif known is not None:
        journal.remove(journal.tables.effects, place)
    return is_taken


def forget_intentions(journal: Journal, run_id: RunId, fence: int) -> None:
    """Write down as unknown what a claim that ends has intended and not done."""
    for place, record in _entries(journal, run_id):
        is_open = record.state is EffectState.INTENDED and (record.run_id, record.fence) == (
            run_id,
            fence,
        )
        if is_open:
            journal.put(journal.tables.effects, place, replace(record, state=EffectState.UNKNOWN))


def forget_line(journal: Journal, gone: RunRow) -> None:
    """Remove what a line of runs has in common, when the last of them is gone.

    A repair that is still there must know what was done before.
    """
    tables = journal.tables
    root = lineage_root_of(gone.id, gone.origin, gone.root)
    if root in tables.runs or any(
        row.root == root and row.origin in MAKING_GOOD for row in tables.runs.values()
    ):
        return
    journal.remove(tables.scopes, root)
    for effect in [key for key in tables.effects if key[0] == root]:
        journal.remove(tables.effects, effect)
    for item in [key for key in tables.scope_items if key[0] == root]:
        journal.remove(tables.scope_items, item)


def list_unknown(journal: Journal, run_id: RunId) -> list[str]:
    """Return the keys of a line's unknown effects."""
    found = (one for _, one in _entries(journal, run_id) if one.state is EffectState.UNKNOWN)
    return sorted(one.key for one in found)


def settle_effects(journal: Journal, run_id: RunId, settled: Mapping[str, bool]) -> None:
    """Write down which unknown effects are done; those that are not done leave the ledger.

    What another run of the line intends at this moment is that run's to say.
    """
    for place, record in _entries(journal, run_id):
        if record.state is not EffectState.UNKNOWN or record.key not in settled:
            continue
        if settled[record.key]:
            done = replace(record, state=EffectState.DONE, done_at=journal.now)
            journal.put(journal.tables.effects, place, done)
        else:
            journal.remove(journal.tables.effects, place)


def list_effects(journal: Journal, run_id: RunId, limit: int) -> list[EffectRecord]:
    """Return the ledger of a run's line."""
    if run_id not in journal.tables.runs:
        return []
    claims = journal.tables.claims
    found = []
    for _, record in _entries(journal, run_id):
        claim = claims.get(record.run_id)
        attempt = None if claim is None else (record.run_id, claim.tries.fence)
        found.append(replace(record, state=seen_by(record, attempt)))
    found.sort(key=lambda one: (one.state is EffectState.DONE, one.begun_at, one.key))
    return sorted(found[:limit], key=lambda one: (one.begun_at, one.key))


def _entries(journal: Journal, run_id: RunId) -> Iterator[tuple[tuple[RunId, str], EffectRecord]]:
    root = ledger_of(journal, run_id)
    for place, record in list(journal.tables.effects.items()):
        if place[0] == root:
            yield place, record


def _held(journal: Journal, worker: MemberId, hold: ClaimRef) -> Claim | None:
    claim = journal.tables.claims.get(hold.run_id)
    if claim is None or (claim.worker, claim.tries.fence) != (worker, hold.fence):
        return None
    return claim
