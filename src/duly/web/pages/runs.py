"""List of runs, one run, orders about one and many."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from duly import Conflict, UsageError
from duly.api.views import CONFIRMED_ABOVE, read_json_map
from duly.web.charts import RunChain, make_chain
from duly.web.formatting import ORIGINS, RUN_STATES, StateLabel, met_terms
from duly.web.pages.overview import NOTICED, Noticed, find_noticed
from duly.web.rendering import command_text, console_path
from duly.web.requests import Flash, Page, PageRequest, Redirect, Rendered, Undo

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from duly import App, Run
    from duly.api.views import Attempt, Check, Effect, Line, RunExplanation, Scope, Step
    from duly.web.requests import ConsoleUser


OPEN = frozenset({"blocked", "queued", "running", "retrying"})
OVER = frozenset({"succeeded", "failed", "cancelled", "skipped", "expired", "discarded", "dead"})


class RunOrder(msgspec.Struct, forbid_unknown_fields=True):
    """What a form about a run says."""

    reason: str | None = None
    confirm: str | None = None
    """The run's id, typed by whoever does what may not be repeated."""
    arguments: str | None = None
    effect: list[str] = []
    """Of a repair, what is known of effects: each as `done:KEY`, `undone:KEY` or `unknown:KEY`."""


DONE, UNDONE, UNKNOWN = "done", "undone", "unknown"


def read_known(effects: list[str]) -> dict[str, bool | None]:
    """Read by key whether effects have happened; None for one that is not known."""
    known: dict[str, bool | None] = {}
    for text in effects:
        found, _, key = text.partition(":")
        if found not in {DONE, UNDONE, UNKNOWN} or not key:
            remedy = f"say {DONE}:KEY, {UNDONE}:KEY or {UNKNOWN}:KEY"
            raise UsageError("effect", text, "says nothing about an effect", remedy)
        known[key] = None if found == UNKNOWN else found == DONE
    return known


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """An order that is offered."""

    verb: str
    label: str
    icon: str
    consequence: str
    tone: str = ""
    must_say_why: bool = True
    may_confirm: bool = False


CANCEL_RUNNING = (
    "Its worker is asked to stop, and what it has done by then stays done. It does not come back: "
    "it can be rerun."
)
CANCEL_WAITING = "It ends at once and is never started. It does not come back: it can be rerun."
RETRY = Action(
    verb="retry",
    label="Retry",
    icon="loop",
    consequence="The same run is queued again, with a fresh budget of attempts. What its ledger "
    "holds as done is not done again.",
)
RETRY_NOW = Action(
    verb="retry",
    label="Retry now",
    icon="loop",
    consequence="Its next attempt does not wait any longer.",
    must_say_why=False,
)
RERUN = Action(
    verb="rerun",
    label="Rerun",
    icon="again",
    consequence="Another run is made, which does the same once more from its beginning, effects "
    "included. This one stays as it is.",
    may_confirm=True,
)
REPAIR = Action(
    verb="repair",
    label="Repair rerun",
    icon="wrench",
    consequence="Another run is made, which shares this one's ledger: what is done is not done "
    "again, what is missing is. This one stays as it is.",
    may_confirm=True,
)
DISCARD = Action(
    verb="discard",
    label="Discard",
    icon="bin",
    consequence="It is closed for good, and nobody is reminded of it. It stays on record.",
    tone="danger",
)
SKIP = Action(
    verb="skip",
    label="Skip",
    icon="skip",
    consequence="It is left as it is: nobody will do more about it, and that is on record.",
    tone="danger",
)
EDIT = Action(
    verb="edit",
    label="Edit arguments",
    icon="list",
    consequence="The run keeps its identity and gets these arguments; it stays dead until it is "
    "retried.",
)
VERIFY = Action(
    verb="verify",
    label="Verify now",
    icon="seal",
    consequence="",
    must_say_why=False,
)


def actions_for(run: Run, visitor: ConsoleUser, *, has_check: bool) -> tuple[Action, ...]:
    """Return what is offered about a run: by its state, and to whoever may."""
    if not visitor.may("edit"):
        return ()
    found: list[Action] = []
    if run.state == "retrying":
        found.append(RETRY_NOW)
    if run.state in OPEN:
        text = CANCEL_RUNNING if run.state == "running" else CANCEL_WAITING
        found.append(
            Action(verb="cancel", label="Cancel", icon="slash", consequence=text, tone="danger")
        )
    if run.state == "dead":
        found += [RETRY, EDIT]
    if run.origin != "verify" and run.state in OVER:
        found += [RERUN, REPAIR]
    if run.state == "dead":
        found.append(DISCARD)
    if run.state == "ambiguous":
        found.append(SKIP)
    if has_check and run.origin != "verify" and run.state in {"succeeded", "ambiguous", "dead"}:
        found.append(VERIFY)
    return tuple(found)


def cancel_run(asked: PageRequest) -> Redirect:
    """Stop it."""
    run = asked.app.runs.cancel(asked.path["run"], reason=asked.form.reason)
    word = "is cancelled" if run.state == "cancelled" else "is asked to stop"
    return _done(run, f"{run.label} {word}")


def retry_run(asked: PageRequest) -> Redirect:
    """Queue the same run again."""
    run = asked.app.runs.get(asked.path["run"])
    (done,) = asked.app.runs.retry([run.id], reason=asked.form.reason)
    _require_done(done.is_done, run, "retried", "look at it again: only what is dead or waits is")
    return _done(run, f"{run.label} is queued again, the same run")


def discard_run(asked: PageRequest) -> Redirect:
    """Close a dead run for good."""
    run = asked.app.runs.get(asked.path["run"])
    (done,) = asked.app.runs.discard([run.id], reason=asked.form.reason)
    _require_done(done.is_done, run, "discarded", "look at it again: only what is dead is")
    return _done(run, f"{run.label} is discarded")


def rerun_run(asked: PageRequest) -> Redirect:
    """Make another run that does the same once more."""
    return _repeat(asked, is_repair=False)


def repair_run(asked: PageRequest) -> Redirect:
    """Make another run that does what is missing."""
    return _repeat(asked, is_repair=True)


def skip_run(asked: PageRequest) -> Redirect:
    """Leave a run that is in doubt as it is."""
    seen = asked.app.runs.get(asked.path["run"])
    run = asked.app.inbox.skip(seen.id, reason=_reason(asked.form))
    return _done(run, f"{run.label} is left as it is")


def verify_run(asked: PageRequest) -> Redirect:
    """Have its result looked at by its task's own check."""
    run = asked.app.runs.get(asked.path["run"])
    made = asked.app.inbox.verify(run.id)
    return _done(run, f"the check of {run.label} is queued: {made.label}")


def edit_run(asked: PageRequest) -> Redirect:
    """Give a dead run other arguments."""
    form: RunOrder = asked.form
    run = asked.app.runs.get(asked.path["run"])
    arguments = read_json_map("arguments", form.arguments or "")
    asked.app.runs.edit(run.id, arguments, reason=form.reason)
    before = json.dumps(run.arguments, ensure_ascii=False)
    undo = Undo(
        label="Put the old arguments back",
        path=f"/runs/{run.id}/edit",
        fields={"arguments": before, "reason": "undone"},
    )
    return _done(run, f"{run.label} has other arguments", undo)


def _repeat(asked: PageRequest, *, is_repair: bool) -> Redirect:
    form: RunOrder = asked.form
    seen = asked.app.runs.get(asked.path["run"])
    said = read_known(form.effect)
    known = {key: is_done for key, is_done in said.items() if is_done is not None}
    made = asked.app.inbox.rerun(
        seen.id, reason=_reason(form), repair=is_repair, effects=known, confirm=form.confirm
    )
    kind = "a repair rerun" if is_repair else "a rerun"
    return _done(made, f"{made.label} was made: {kind}, another run than the first")


def _done(run: Run, text: str, undo: Undo | None = None) -> Redirect:
    return Redirect(to=f"/runs/{run.id}", said=Flash(text=text, undo=undo))


def _require_done(is_done: bool, run: Run, verb: str, remedy: str) -> None:  # noqa: FBT001 - what was answered
    if not is_done:
        raise Conflict("run", run.label, f"is {run.state} and was not {verb}", remedy)


def _reason(form: RunOrder) -> str:
    if form.reason is None:
        raise UsageError("reason", None, "is missing", "say why: everybody will see it")
    return form.reason


def _order(verb: str, handler: Callable[[PageRequest], Redirect]) -> Page:
    return Page(
        method="POST",
        path=f"/runs/{{run}}/{verb}",
        name=f"{verb}_run",
        scope="edit",
        handler=handler,
        form=RunOrder,
    )


ORDER_PAGES = (
    _order("cancel", cancel_run),
    _order("retry", retry_run),
    _order("discard", discard_run),
    _order("rerun", rerun_run),
    _order("repair", repair_run),
    _order("skip", skip_run),
    _order("verify", verify_run),
    _order("edit", edit_run),
)


PAGE_SIZE = 50
LANES = ("live", "catch-up", "backfill")


class RunFilters(msgspec.Struct, forbid_unknown_fields=True):
    """What runs are found by, as an address or a form says it: what is empty says nothing."""

    state: list[str] = []
    schedule: str | None = None
    task: str | None = None
    queue: str | None = None
    reason: str | None = None
    origin: str | None = None
    lane: str | None = None
    key: str | None = None
    error: str | None = None
    root: str | None = None
    worker: int | None = None
    since: str | None = None
    until: str | None = None

    def filters(self) -> dict[str, Any]:
        """Return what `app.runs.page` is to be narrowed by."""
        said = {name: getattr(self, name) for name in RunFilters.__struct_fields__}
        return {name: None if value in ("", []) else value for name, value in said.items()}


class RunsQuery(RunFilters):
    """What the list is narrowed by; all of it stands in the address."""

    only: str | None = None
    """What is noticed by more than its state: stuck, overlapping, late."""
    cursor: str | None = None

    @property
    def said(self) -> dict[str, Any]:
        """Return the filters that say something, for a form that acts on what they found."""
        return {name: value for name, value in self.filters().items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One run of the list."""

    id: str
    label: str
    name: str
    """The label without its time, which has a column of its own."""
    schedule: str | None
    state: str
    reason: str | None
    origin: str
    lane: str
    task: str
    queue: str
    zone: str | None
    scheduled_for: datetime
    due_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    lateness: timedelta | None
    took: timedelta | None
    attempt: int
    next_at: datetime | None
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsModel:
    """The page."""

    query: RunsQuery
    rows: tuple[RunRow, ...]
    next_cursor: str | None
    is_cut: bool = False
    states: tuple[str, ...] = RUN_STATES
    origins: tuple[str, ...] = tuple(ORIGINS)
    lanes: tuple[str, ...] = LANES
    noticed: tuple[str, ...] = NOTICED

    @property
    def is_filtered(self) -> bool:
        """Whether nothing to be seen may mean that there is something else."""
        return bool(self.query.said or self.query.only or self.query.cursor)


def show_runs(asked: PageRequest) -> Rendered:
    """Show runs, newest first."""
    query: RunsQuery = asked.query
    model = _noticed(asked, query) if query.only else _listed(asked, query)
    return Rendered(template="runs.html", model=model, title="Runs")


def _listed(asked: PageRequest, query: RunsQuery) -> RunsModel:
    page = asked.app.runs.page(limit=PAGE_SIZE, cursor=query.cursor, **query.filters())
    rows = run_rows(page.items, asked.now)
    return RunsModel(query=query, rows=rows, next_cursor=page.next_cursor)


def _noticed(asked: PageRequest, query: RunsQuery) -> RunsModel:
    what = _read_noticed(query.only)
    if query.said:
        remedy = "take the other filters away, or this one"
        raise UsageError("only", query.only, "stands alone", remedy)
    found = find_noticed(asked.app, what, asked.now)
    return RunsModel(
        query=query, rows=run_rows(found.runs, asked.now), next_cursor=None, is_cut=found.is_cut
    )


def _read_noticed(text: str | None) -> Noticed:
    for one in NOTICED:
        if one == text:
            return one
    remedy = f"use one of {', '.join(NOTICED)}"
    raise UsageError("only", text, "is not what runs are noticed by", remedy)


def run_rows(runs: Sequence[Run], now: datetime | None = None) -> tuple[RunRow, ...]:
    """Show runs, as `run_row` does."""
    return tuple(run_row(one, now) for one in runs)


def run_row(run: Run, now: datetime | None = None) -> RunRow:
    """Show one run; with `now`, how long one that waits is late by then."""
    took = None
    if run.started_at is not None and run.finished_at is not None:
        took = run.finished_at - run.started_at
    return RunRow(
        id=str(run.id),
        label=run.label,
        name=run.label.rpartition("@")[0] or run.label,
        schedule=run.schedule,
        state=run.state,
        reason=run.reason,
        origin=run.origin,
        lane=run.lane,
        task=run.task,
        queue=run.queue,
        zone=run.tz,
        scheduled_for=run.scheduled_for,
        due_at=run.due_at,
        started_at=run.started_at,
        finished_at=run.finished_at,
        lateness=_lateness(run, now),
        took=took,
        attempt=run.attempt,
        next_at=run.next_at,
        error=run.error,
    )


def _lateness(run: Run, now: datetime | None) -> timedelta | None:
    """Return how long after its due a run began, or how long it waits by now; None if unknown."""
    if run.started_at is not None and run.attempt == 1:
        return run.started_at - run.due_at
    if now is not None and run.state in {"queued", "blocked"} and run.attempt == 0:
        return max(now - run.due_at, timedelta())
    return None


PAGES = (
    Page(
        method="GET",
        path="/runs",
        name="runs",
        scope="read",
        handler=show_runs,
        query=RunsQuery,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkAction:
    """What can be ordered about many runs."""

    word: str
    done: str
    """What a run is after it: "was retried"."""
    fits: frozenset[str]
    """The states in which it can be done."""
    consequence: str
    tone: str
    carry: Callable[..., list[Any]]


def _retry(app: App, *args: Any, **terms: Any) -> list[Any]:  # noqa: ANN401 - as selections have them
    return app.selections.retry(*args, **terms)


def _discard(app: App, *args: Any, **terms: Any) -> list[Any]:  # noqa: ANN401 - as above
    return app.selections.discard(*args, **terms)


def _cancel(app: App, *args: Any, **terms: Any) -> list[Any]:  # noqa: ANN401 - as above
    return app.selections.cancel(*args, **terms)


VERBS: dict[str, BulkAction] = {
    "retry": BulkAction(
        word="Retry",
        done="retried",
        fits=frozenset({"dead", "retrying"}),
        consequence="Dead ones are queued again with a fresh budget of attempts; those that wait "
        "for another attempt are queued at once. They stay the same runs: nothing is made anew.",
        tone="",
        carry=_retry,
    ),
    "cancel": BulkAction(
        word="Cancel",
        done="cancelled",
        fits=frozenset({"blocked", "queued", "running", "retrying"}),
        consequence="What nobody runs ends at once. What a worker runs is asked to stop; what it "
        "has done by then stays done. A cancelled run does not come back: it can be rerun.",
        tone="danger",
        carry=_cancel,
    ),
    "discard": BulkAction(
        word="Discard",
        done="discarded",
        fits=frozenset({"dead"}),
        consequence="Dead runs are closed for good. They stay on record, and nobody is reminded.",
        tone="danger",
        carry=_discard,
    ),
}


class OrderChoice(RunFilters, kw_only=True):
    """Which runs somebody means: boxes, or all that the filters of the page find."""

    verb: str
    run: list[str] = []
    all: bool = False


class ChosenQuery(msgspec.Struct, forbid_unknown_fields=True):
    """What is to be done to them."""

    verb: str = "retry"


class ChosenOrder(msgspec.Struct, forbid_unknown_fields=True):
    """What the form says."""

    verb: str = ""
    reason: str | None = None
    confirm: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenRunsPage:
    """The page."""

    id: str
    verb: str
    what: BulkAction
    count: int
    as_of: datetime
    expires_at: datetime
    made_by: str
    chosen_by: tuple[tuple[str, str], ...]
    rows: tuple[RunRow, ...]
    fitting: int
    """How many of the rows shown are in a state in which it can be done."""
    must_type: bool


def choose_runs(asked: PageRequest) -> Redirect:
    """Keep which runs were seen; nothing is done to them yet."""
    form: OrderChoice = asked.form
    _verb(form.verb)
    if form.all:
        chosen = asked.app.selections.freeze(**form.filters())
    elif form.run:
        chosen = asked.app.selections.freeze(ids=form.run)
    else:
        raise UsageError("run", None, "names no run", "tick the boxes of those that you mean")
    return Redirect(to=f"/runs/chosen/{chosen.id}?verb={form.verb}")


def show_chosen(asked: PageRequest) -> Rendered:
    """Show what an order would touch."""
    verb = _verb(asked.query.verb)
    found = asked.app.selections.get(asked.path["selection"])
    rows = run_rows(found.sample, asked.now)
    model = ChosenRunsPage(
        id=str(found.id),
        verb=asked.query.verb,
        what=verb,
        count=len(found),
        as_of=found.as_of,
        expires_at=found.expires_at,
        made_by=found.made_by,
        chosen_by=tuple((name, _words(value)) for name, value in sorted(found.chosen_by.items())),
        rows=rows,
        fitting=sum(row.state in verb.fits for row in rows),
        must_type=len(found) > CONFIRMED_ABOVE,
    )
    return Rendered(
        template="chosen_runs.html", model=model, title=f"{verb.word} {len(found):,} runs"
    )


def order_chosen(asked: PageRequest) -> Redirect:
    """Carry it out on these runs and no others."""
    form: ChosenOrder = asked.form
    selection = asked.app.selections.get(asked.path["selection"]).id
    verb = _verb(form.verb)
    if form.reason is None:
        raise UsageError("reason", None, "is missing", "say why: everybody will see it")
    done = verb.carry(asked.app, selection, reason=form.reason, confirm=form.confirm)
    return Redirect(to="/runs", said=Flash(text=_summary(verb, done)))


def _verb(name: str) -> BulkAction:
    if name not in VERBS:
        raise UsageError("verb", name, "is not what can be ordered", f"use {', '.join(VERBS)}")
    return VERBS[name]


def _summary(verb: BulkAction, done: list[Any]) -> str:
    good = sum(one.is_done for one in done)
    said = f"{good:,} of {len(done):,} runs {'was' if good == 1 else 'were'} {verb.done}"
    left = Counter(one.state or "gone" for one in done if not one.is_done)
    if left:
        others = ", ".join(f"{count} {state}" for state, count in left.most_common())
        said += f"; left as they were: {others}"
    return said


def _words(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


CHOSEN_PAGES = (
    Page(
        method="POST",
        path="/runs/choose",
        name="choose_runs",
        scope="edit",
        handler=choose_runs,
        form=OrderChoice,
    ),
    Page(
        method="GET",
        path="/runs/chosen/{selection}",
        name="chosen_runs",
        scope="edit",
        handler=show_chosen,
        query=ChosenQuery,
    ),
    Page(
        method="POST",
        path="/runs/chosen/{selection}",
        name="order_chosen",
        scope="edit",
        handler=order_chosen,
        form=ChosenOrder,
    ),
)


LINES_SHOWN_MAX = 200
LINES_ASKED = 1_000
LINES_PAGES_MAX = 20
STEPS_SHOWN_MAX = 50
MISSING_SHOWN_MAX = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveAttempt:
    """The running attempt: whether its worker is alive, and whether it advances, apart."""

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
class RunDecision:
    """An operator's decision about a run after its last attempt."""

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
    chain: RunChain
    settled: RunDecision | None
    holding: LiveAttempt | None
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
    terms: tuple[StateLabel, ...]
    actions: tuple[Action, ...]
    json: dict[str, Any]
    command: str


def show_run(asked: PageRequest) -> Rendered:
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
        inbox=console_path("/inbox") if run.state == "ambiguous" else None,
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
    return Rendered(template="run.html", model=model, title=run.label)


def _whole(run: Run, attempts: list[Attempt], checks: tuple[Check, ...]) -> dict[str, Any]:
    return run.to_json() | {
        "attempts": [one.to_json() for one in attempts],
        "checks": [one.to_json() for one in checks],
    }


def _began_after(run: Run, attempts: list[Attempt], waits: timedelta | None) -> timedelta | None:
    """Return when its first attempt began: the run itself forgets it when a person ends it."""
    started = next((one.started_at for one in attempts if one.started_at is not None), None)
    return waits if started is None else started - run.due_at


def _settled(app: App, run: Run, last: Attempt | None) -> RunDecision | None:
    """Return who settled a run that did not end with its last attempt; most do, and ask nobody."""
    if last is None or not last.is_settled_by_order(run):
        return None
    entries = app.audit.page(subject_id=run.id, action="run.settled", limit=1).items
    return next((RunDecision(one.actor, one.at, one.reason) for one in entries), None)


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


def _holding(run: Run, last: Attempt | None) -> LiveAttempt | None:
    """Show who holds it: a heart that beats says nothing about progress."""
    if last is None or last.ended_at is not None or run.state != "running":
        return None
    progress = last.progress
    total = None if progress is None else progress.total
    share = None
    if progress is not None and total:
        share = round(min(progress.done / total, 1.0) * 100, 1)
    return LiveAttempt(
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


RUN_PAGES = (Page(method="GET", path="/runs/{run}", name="run", scope="read", handler=show_run),)
