"""Runs that are out of the ordinary on the memory store, of all tenants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.store.alert_rulings import stamp
from duly.store.memory.attempts import call_of, policy_of, task_of
from duly.store.memory.tables import OCCURRENCE_ORIGINS
from duly.store.ports.alerts import TRIED_MIN, NewlyDead, TroubledRun, UnusualRuns

if TYPE_CHECKING:
    from duly.domain.ids import RunId
    from duly.store.memory.tables import Journal
    from duly.store.ports.alerts import FindTrouble


def find_trouble(journal: Journal, command: FindTrouble) -> UnusualRuns:
    """Return runs that are out of the ordinary."""
    early = [
        row
        for row in journal.tables.runs.values()
        if row.fired_at is not None
        and row.fired_at < row.not_before
        and row.fired_at > journal.now - command.early_us
    ]
    return UnusualRuns(
        now=journal.now,
        stalled=_stalled(journal, command),
        tried=_tried(journal, command),
        dead=_dead(journal, command),
        early=len(early),
        early_run=max((row.id for row in early), default=None),
        made=_made(journal, command),
    )


def _stalled(journal: Journal, command: FindTrouble) -> tuple[TroubledRun, ...]:
    found: list[TroubledRun] = []
    for run_id, claim in journal.tables.claims.items():
        stall_us = policy_of(journal, task_of(journal, run_id)).stall_us
        if claim.started_at is None or stall_us is None:
            continue
        since = claim.started_at if claim.progress_at is None else claim.progress_at
        if journal.now - since > stall_us:
            one = _troubled(journal, run_id, claim.tries.attempt, since)
            found.append(one._replace(stall_us=stall_us))
    found.sort(key=lambda one: (one.since, one.id))
    return tuple(found[: command.limit])


def _tried(journal: Journal, command: FindTrouble) -> tuple[TroubledRun, ...]:
    tables = journal.tables
    found: list[TroubledRun] = []
    for run_id, claim in tables.claims.items():
        if (charged := claim.tries.charged) >= TRIED_MIN:
            since = _begun(journal, run_id, claim.tries.begun_at)
            found.append(_troubled(journal, run_id, charged + 1, since))
    for run_id, waiting in tables.waiting.items():
        if (charged := waiting.tries.charged) >= TRIED_MIN:
            since = _begun(journal, run_id, waiting.tries.begun_at)
            found.append(_troubled(journal, run_id, charged, since))
    found.sort(key=lambda one: (-one.attempt, one.id))
    return tuple(found[: command.limit])


def _dead(journal: Journal, command: FindTrouble) -> tuple[NewlyDead, ...]:
    dead = journal.tables.dead
    recent = [run_id for run_id in dead if dead[run_id].at > journal.now - command.died_us]
    recent.sort(key=lambda one: (dead[one].at, one), reverse=True)
    found: dict[tuple[str, str], NewlyDead] = {}
    for run_id in recent[: command.count_max]:
        key = (journal.tables.runs[run_id].tenant, task_of(journal, run_id))
        known = found.get(key) or NewlyDead(*key, 0, dead[run_id].at, run_id)
        last = max(known.last, run_id)
        found[key] = known._replace(died=known.died + 1, first_at=dead[run_id].at, last=last)
    return tuple(found[key] for key in sorted(found))[: command.limit]


def _made(journal: Journal, command: FindTrouble) -> int:
    tables, since = journal.tables, journal.now - command.made_us
    first = stamp(since)
    runs = (row for row in tables.runs.values() if row.origin not in OCCURRENCE_ORIGINS)
    made: list[tuple[bytes, int]] = [(one.id, one.created_at) for one in tables.schedules.values()]
    made += [(one.id, one.created_at) for one in tables.delayed.values()]
    made += [(one.id, one.created_at) for one in runs]
    count = sum(identity >= first and at > since for identity, at in made)
    return min(count, command.count_max)


def _begun(journal: Journal, run_id: RunId, begun_at: int | None) -> int:
    return journal.tables.runs[run_id].created_at if begun_at is None else begun_at


def _troubled(journal: Journal, run_id: RunId, attempt: int, since: int) -> TroubledRun:
    row = journal.tables.runs[run_id]
    call = call_of(journal, row)
    schedule = None if row.schedule_id is None else journal.tables.schedules.get(row.schedule_id)
    name = None if schedule is None else schedule.name
    claim = journal.tables.claims.get(run_id)
    worker = None if claim is None else claim.worker
    return TroubledRun(run_id, row.tenant, call.task, call.queue, name, worker, attempt, since)
