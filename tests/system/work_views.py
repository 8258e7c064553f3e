"""Looking at runs, attempts and workers from outside, by SQL that Duly never sees."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.system.views import hex_of
from tests.system.work_evidence import Attempt, Eviction, Fate

if TYPE_CHECKING:
    from tests.system.views import View

LIST_ATTEMPTS = """
SELECT run_id, fence, number, state, reason, worker, claimed_at, ended_at, late_state
FROM duly.attempts
UNION ALL
SELECT run_id, fence, attempt, state, reason, worker, claimed_at, finished_at, late_state
FROM duly.outcomes WHERE worker IS NOT NULL
UNION ALL
SELECT run_id, fence, attempt, 'running', NULL, worker, claimed_at, NULL, NULL FROM duly.claims"""
LIST_RUNS = "SELECT id, task, state, state_reason, not_before FROM duly.public_runs"
PLACES = ("outcomes", "dead", "waiting", "claims", "ready", "ambiguous")
LIST_PLACE = "SELECT run_id, charged FROM duly.{}"
LIST_WORKERS = "SELECT id, process FROM duly.members WHERE kind = 'worker'"
LIST_DEAD = "SELECT subject, at FROM duly.audit WHERE action = 'member.declared-dead'"
LIST_REFUSED = "SELECT subject_id, after FROM duly.audit WHERE action = 'attempt.refused'"
LIST_ALIVE = """
SELECT m.process, m.id, (SELECT count(*) FROM duly.claims c WHERE c.worker = m.id)
FROM duly.members m WHERE m.kind = 'worker' AND m.ended_at IS NULL AND m.expires_at > $1"""
IS_OVER = """
SELECT NOT EXISTS (SELECT 1 FROM duly.claims WHERE worker = $1) AND NOT EXISTS (
    SELECT 1 FROM duly.members WHERE id = $1 AND ended_at IS NULL AND expires_at > $2)"""
IS_QUIET = """
SELECT NOT EXISTS (SELECT 1 FROM duly.ready) AND NOT EXISTS (SELECT 1 FROM duly.claims)
    AND NOT EXISTS (SELECT 1 FROM duly.waiting) AND NOT EXISTS (SELECT 1 FROM duly.delayed)"""


def attempts(view: View) -> list[Attempt]:
    """Return all claims: of attempts that ended, of those that closed a run, and live ones."""
    processes: dict[int, int] = dict(view.ask(LIST_WORKERS))
    return [
        Attempt(
            run=hex_of(row[0]) or "",
            fence=row[1],
            number=row[2],
            state=row[3],
            reason=row[4],
            process=processes.get(row[5]),
            claimed_at=row[6],
            ended_at=row[7],
            late_state=row[8],
        )
        for row in view.ask(LIST_ATTEMPTS)
    ]


def fates(view: View) -> list[Fate]:
    """Return what has become of each run."""
    places: dict[str, list[int]] = {}
    for place in PLACES:
        for run, charged in view.ask(LIST_PLACE.format(place)):
            places.setdefault(hex_of(run) or "", []).append(charged)
    return [
        Fate(
            run=hex_of(run) or "",
            task=task,
            state=state,
            reason=reason,
            due_at=due_at,
            charged=max(places.get(hex_of(run) or "", [0])),
            places=len(places.get(hex_of(run) or "", [])),
        )
        for run, task, state, reason, due_at in view.ask(LIST_RUNS)
    ]


def evictions(view: View) -> list[Eviction]:
    """Return the workers that were declared dead."""
    processes = {f"member {number}": process for number, process in view.ask(LIST_WORKERS)}
    return [
        Eviction(processes[subject], at)
        for subject, at in view.ask(LIST_DEAD)
        if subject in processes
    ]


def refused(view: View) -> list[tuple[str, int]]:
    """Return the completions that are on record as refused."""
    rows = view.ask(LIST_REFUSED)
    return [(hex_of(run) or "", json.loads(after)["fence"]) for run, after in rows]
