"""One run: where it comes from, its times in a chain, each attempt, and why it is as it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from duly_web.commands import command_text
from duly_web.page import Asked, Page, Shown
from duly_web.pages.run_chain import Chain, make_chain
from duly_web.pages.run_orders import Action, actions_for
from duly_web.pages.runs import RunRow, run_row, run_rows
from duly_web.shell import place_of
from duly_web.terms import Term, met_terms

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from duly import App, Run
    from duly.api.views import Attempt, Check, Effect, Line, RunExplanation, Scope, Step

LINES_SHOWN_MAX = 200
LINES_ASKED = 1_000
LINES_PAGES_MAX = 20
STEPS_SHOWN_MAX = 50
MISSING_SHOWN_MAX = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """An attempt that goes on: whether its worker lives, and whether it advances, apart."""

    worker: str
    fence: int
    state: str
    heartbeat_at: datetime | None
    heartbeat_state: str
    progress_at: datetime | None
    progress_state: str
    done: int | None
    total: int | None
    share: float | None
    """How much of its work is done, in percent."""
    note: str | None


@dataclass(frozen=True, slots=True)
class Settled:
    """Who has decided about a run after its last attempt, and why."""

    by: str
    at: datetime
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunModel:
    """The page."""

    run: RunRow
    zone: str | None
    """Its schedule's, when the run was made."""
    inbox: str | None
    """Where a run in doubt is decided about."""
    key: str | None
    root: str
    window: tuple[datetime | None, datetime] | None
    arguments: dict[str, Any]
    result: object
    began_after: timedelta | None
    """How long after its due its first attempt was started, or how long it waits by now."""
    chain: Chain
    settled: Settled | None
    holding: Holding | None
    attempts: tuple[Attempt, ...]
    line: tuple[RunRow, ...]
    """The run that was first, and those that repeat it, oldest first."""
    effects: tuple[Effect, ...]
    scope: Scope
    missing_more: int
    checks: tuple[Check, ...]
    """Newest first."""
    checkpoints: dict[str, Any]
    steps: tuple[Step, ...]
    lines: tuple[Line, ...]
    lines_before: int
    why: RunExplanation
    terms: tuple[Term, ...]
    actions: tuple[Action, ...]
    json: dict[str, Any]
    command: str


def show_run(asked: Asked) -> Shown:
    """Show a run with its attempts."""
    app = asked.app
    run = app.runs.get(asked.path["run"])
    attempts = app.runs.attempts(run.id)
    checks = app.inbox.checks(run.id)
    scope = app.inbox.scope(run.id)
    lines = _lines(app, run)
    row = run_row(run, asked.now)
    effects = app.inbox.effects(run.id)
    model = RunModel(
        run=row,
        zone=row.zone,
        inbox=place_of("/inbox") if run.state == "ambiguous" else None,
        key=run.key,
        root=str(run.root),
        window=run.window,
        arguments=run.arguments,
        result=run.result,
        began_after=_began_after(run, attempts, row.lateness),
        settled=_settled(app, run, attempts[-1] if attempts else None),
        chain=make_chain(run, attempts, checks, asked.now),
        holding=_holding(run, attempts[-1] if attempts else None),
        attempts=tuple(reversed(attempts)),
        line=run_rows(app.inbox.line(run.id), asked.now),
        effects=effects,
        scope=scope._replace(missing=scope.missing[:MISSING_SHOWN_MAX]),
        missing_more=max(0, len(scope.missing) - MISSING_SHOWN_MAX),
        checks=checks[::-1],
        checkpoints=app.runs.checkpoints(run.id),
        steps=tuple(app.runs.progress(run.id)[-STEPS_SHOWN_MAX:]),
        lines=tuple(lines[-LINES_SHOWN_MAX:]),
        lines_before=max(0, len(lines) - LINES_SHOWN_MAX),
        why=app.runs.why(run.id),
        terms=met_terms(run.state, (one.state for one in attempts), (one.state for one in effects)),
        actions=actions_for(run, asked.visitor, has_check=_has_check(app, run)),
        json=_whole(run, attempts, checks),
        command=command_text(app.tenant, "run", "show", str(run.id)),
    )
    return Shown(template="run.html", model=model, title=run.label)


def _whole(run: Run, attempts: list[Attempt], checks: tuple[Check, ...]) -> dict[str, Any]:
    return run.to_json() | {
        "attempts": [one.to_json() for one in attempts],
        "checks": [one.to_json() for one in checks],
    }


def _began_after(run: Run, attempts: list[Attempt], waits: timedelta | None) -> timedelta | None:
    """Return when its first attempt began: the run itself forgets it when a person ends it."""
    started = next((one.started_at for one in attempts if one.started_at is not None), None)
    return waits if started is None else started - run.due_at


def _settled(app: App, run: Run, last: Attempt | None) -> Settled | None:
    """Return who settled a run that did not end with its last attempt; most do, and ask nobody."""
    if last is None or not last.is_settled_by_order(run):
        return None
    entries = app.audit.page(subject_id=run.id, action="run.settled", limit=1).items
    return next((Settled(one.actor, one.at, one.reason) for one in entries), None)


def _has_check(app: App, run: Run) -> bool:
    checks = app.tasks.checks
    return checks is not None and checks.has_check(run.task)


def _lines(app: App, run: Run) -> list[Line]:
    """Return what a run wrote; of very much the first part is not read on."""
    found: list[Line] = []
    for _ in range(LINES_PAGES_MAX):
        after = found[-1].number if found else 0
        page = app.runs.lines(run.id, after=after, limit=LINES_ASKED)
        found += page
        if len(page) < LINES_ASKED:
            break
    return found


def _holding(run: Run, last: Attempt | None) -> Holding | None:
    """Show who holds it: a heart that beats says nothing about progress (R2)."""
    if last is None or last.ended_at is not None or run.state != "running":
        return None
    progress = last.progress
    total = None if progress is None else progress.total
    share = None
    if progress is not None and total:
        share = round(min(progress.done / total, 1.0) * 100, 1)
    return Holding(
        worker=last.worker_name,
        fence=last.fence,
        state=last.state,
        heartbeat_at=last.heartbeat_at,
        heartbeat_state="heartbeat-stale" if last.state == "heartbeat-stale" else "fresh",
        progress_at=last.progress_at,
        progress_state="stalled" if last.state == "stalled" else "fresh",
        done=None if progress is None else progress.done,
        total=total,
        share=share,
        note=None if progress is None else progress.note,
    )


PAGES = (Page(method="GET", path="/runs/{run}", name="run", scope="read", handler=show_run),)
