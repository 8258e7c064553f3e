"""Runs over HTTP: find them, look at one from every side, and promise new ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.api.handlers.parts import given, look, order, reference_of, whole
from duly.api.requests import read_cursor, read_limit, write_cursor
from duly.interface.attempts import Attempt, Line, LineQuery, Step, StepQuery
from duly.interface.inbox import Check, Effect, Scope
from duly.interface.runs import EnqueuedRun, Explanation, NewRun, NewRuns, Run, RunQuery
from duly.interface.shapes import Page

if TYPE_CHECKING:
    from uuid import UUID

    from duly.api.route import ApiRequest, Route

SHOWN_MAX = 1_000
"""How many lines or steps are shown at once."""
_TERMS = ("at", "delay", "queue", "priority", "past")


def list_runs(received: ApiRequest) -> Page[Run]:
    """Return a page of runs, newest first."""
    found = received.app.runs.page(**given(received.query))
    return Page(items=[Run.from_view(one) for one in found.items], next_cursor=found.next_cursor)


def get_run(received: ApiRequest) -> Run:
    """Return a run by its id or its label."""
    return Run.from_view(received.app.runs.get(_run(received)))


def list_attempts(received: ApiRequest) -> Page[Attempt]:
    """Return every claim of a run and what became of it."""
    return whole(Attempt, received.app.runs.attempts(_run(received)))


def list_effects(received: ApiRequest) -> Page[Effect]:
    """Return the ledger of a run."""
    return whole(Effect, received.app.inbox.effects(_run(received)))


def list_checks(received: ApiRequest) -> Page[Check]:
    """Return what was found about the result of a run."""
    return whole(Check, received.app.inbox.checks(_run(received)))


def get_scope(received: ApiRequest) -> Scope:
    """Return how much a run was to do, and what of it is done."""
    return Scope.from_view(received.app.inbox.scope(_run(received)))


def list_lines(received: ApiRequest) -> Page[Line]:
    """Return lines that a run's attempts wrote."""
    asked: LineQuery = received.query
    limit = SHOWN_MAX if asked.limit is None else read_limit(asked.limit)
    position = read_cursor(asked.cursor, tuple[int])
    after = asked.after if position is None else position[0]
    found = received.app.runs.lines(_run(received), after=after, limit=limit)
    is_more = len(found) == limit
    return Page(
        items=[Line.from_view(one) for one in found],
        next_cursor=write_cursor(found[-1].number) if is_more else None,
    )


def list_progress(received: ApiRequest) -> Page[Step]:
    """Return the steps of a run's progress."""
    asked: StepQuery = received.query
    limit = SHOWN_MAX if asked.limit is None else read_limit(asked.limit)
    return whole(Step, received.app.runs.progress(_run(received), limit=limit))


def explain_run(received: ApiRequest) -> Explanation:
    """Say why a run is late, stuck, waiting or dead."""
    return Explanation.from_view(received.app.runs.why(_run(received)))


def list_lineage(received: ApiRequest) -> Page[Run]:
    """Return a run, those that repeat it, and the one that it repeats."""
    return whole(Run, received.app.inbox.line(_run(received)))


def enqueue_run(received: ApiRequest) -> EnqueuedRun:
    """Promise a run."""
    asked: NewRun = received.body
    call = received.app.call(asked.task, asked.arguments)
    terms = given(asked, *_TERMS, "key", "id")
    terms.setdefault("id", received.order_id())
    return EnqueuedRun.from_view(received.app.enqueue(call, replace=asked.replace, **terms))


def enqueue_runs(received: ApiRequest) -> Page[EnqueuedRun]:
    """Promise several runs, all or none."""
    asked: NewRuns = received.body
    calls = received.app.calls((one.task, one.arguments) for one in asked.calls)
    ids = received.order_ids(len(calls)) if calls else None
    return whole(EnqueuedRun, received.app.enqueue_many(calls, ids=ids, **given(asked, *_TERMS)))


def _run(received: ApiRequest) -> UUID | str:
    return reference_of(received.path["run"])


ROUTES: tuple[Route, ...] = (
    look("/runs", list_runs, Page[Run], RunQuery),
    order("/runs", enqueue_run, NewRun, EnqueuedRun, scope="trigger", status=201),
    order("/runs/bulk", enqueue_runs, NewRuns, Page[EnqueuedRun], scope="trigger", status=201),
    look("/runs/{run}", get_run, Run),
    look("/runs/{run}/attempts", list_attempts, Page[Attempt]),
    look("/runs/{run}/checks", list_checks, Page[Check]),
    look("/runs/{run}/effects", list_effects, Page[Effect]),
    look("/runs/{run}/lineage", list_lineage, Page[Run]),
    look("/runs/{run}/lines", list_lines, Page[Line], LineQuery),
    look("/runs/{run}/progress", list_progress, Page[Step], StepQuery),
    look("/runs/{run}/scope", get_scope, Scope),
    look("/runs/{run}/why", explain_run, Explanation),
)
