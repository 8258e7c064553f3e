"""Pages of the inbox: the list, one item, decisions about several.

The form of a decision about several runs carries the ids that the visitor saw. Runs that arrived
since are not in it. A choice that may repeat an effect is not offered for several runs at once: it
requires the id of each run, typed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from duly import Conflict, NotFound, UsageError
from duly.web.formatting import TERMS, StateLabel, mark, met_terms
from duly.web.pages.runs import DONE, UNDONE, RunRow, read_known, run_row
from duly.web.rendering import command_text, load_all, load_tenant
from duly.web.requests import Flash, Page, PageRequest, Redirect, Rendered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from duly import App, Run
    from duly.api.views import Attempt, Check, Effect, InboxItem, Scope
    from duly.web.rendering import LayoutData


PAGE_SIZE = 50
LATE = timedelta(seconds=60)
"""What is due for longer and has not begun is late by anybody's measure."""
LATE_STATES = ("queued", "blocked")
KINDS = ("doubt", "dead", "late")
COUNTED = {"doubt": "ambiguous", "dead": "dead"}
TENANTS_SHOWN_MAX = 20
ACTIONS = {
    "retry": "Retry",
    "resume": "Resume",
    "repair": "Repair rerun",
    "reconcile": "Reconcile",
    "skip": "Skip",
}
"""What people call the choices; the words of their buttons."""


class InboxPageQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which part of the inbox is looked at."""

    kind: str = "doubt"
    cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DoubtRow:
    """A run of which nobody knows what it did."""

    run: RunRow
    since: datetime | None
    cause: str
    """What left it so."""
    safest: str
    why: str
    done: int
    unknown: int
    items: str | None
    """How many of its items are done, if that is known."""
    has_check: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DoubtGroup:
    """Runs in doubt for the same cause, about which the same is advised: decided together."""

    task: str
    cause: str
    safest: str
    action: str
    why: str
    rows: tuple[DoubtRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxModel:
    """The page."""

    kind: str
    groups: tuple[DoubtGroup, ...] = ()
    rows: tuple[RunRow, ...] = ()
    next_cursor: str | None = None
    has_cursor: bool = False
    doubts: int = 0
    dead: int = 0
    elsewhere: tuple[tuple[str, int], ...] = ()
    """Of other tenants that the visitor may look into: how many of this kind they have."""
    terms: tuple[StateLabel, ...] = TERMS


def show_inbox(asked: PageRequest) -> Rendered:
    """Show what waits for somebody."""
    query: InboxPageQuery = asked.query
    kind = query.kind if query.kind in KINDS else KINDS[0]
    if kind == "doubt":
        model = InboxModel(
            kind=kind, groups=group_doubts(asked.app.inbox.list(limit=PAGE_SIZE), asked.now)
        )
    elif kind == "dead":
        page = asked.app.runs.page(state="dead", limit=PAGE_SIZE, cursor=query.cursor)
        rows = tuple(run_row(one, asked.now) for one in page.items)
        model = InboxModel(
            kind=kind, rows=rows, next_cursor=page.next_cursor, has_cursor=bool(query.cursor)
        )
    else:
        # What is late is measured anew each time, so there is no going on from an earlier look.
        until = asked.now - LATE
        page = asked.app.runs.page(state=LATE_STATES, until=until, limit=PAGE_SIZE)
        model = InboxModel(kind=kind, rows=tuple(run_row(one, asked.now) for one in page.items))
    # The tabs count what the lists hold; the lights above are of all that the visitor may see.
    looked = load_all(asked)
    own = load_tenant(asked, looked)
    elsewhere = () if kind == "late" else _elsewhere(looked, asked.visitor.tenant, COUNTED[kind])
    model = replace(model, doubts=own.ambiguous, dead=own.dead, elsewhere=elsewhere)
    return Rendered(template="inbox.html", model=model, title="Inbox", looked=looked)


def _elsewhere(looked: LayoutData, tenant: str, state: str) -> tuple[tuple[str, int], ...]:
    counts = {name: one.get(state, 0) for name, one in looked.status.tenants.items()}
    found = [(name, count) for name, count in counts.items() if count and name != tenant]
    return tuple(found[:TENANTS_SHOWN_MAX])


def group_doubts(items: Iterable[InboxItem], now: datetime) -> tuple[DoubtGroup, ...]:
    """Put together what has the same cause and the same advice, the largest group first."""
    groups: dict[tuple[str, str, str, str], list[DoubtRow]] = {}
    for item in items:
        row = doubt_row(item, now)
        groups.setdefault((item.run.task, row.cause, row.safest, row.why), []).append(row)
    made = [
        DoubtGroup(
            task=task,
            cause=cause,
            safest=safest,
            action=ACTIONS[safest],
            why=why,
            rows=tuple(rows),
        )
        for (task, cause, safest, why), rows in groups.items()
    ]
    return tuple(sorted(made, key=lambda one: -len(one.rows)))


def doubt_row(item: InboxItem, now: datetime) -> DoubtRow:
    """Show one run that is in doubt."""
    done = sum(one.state == "done" for one in item.effects)
    return DoubtRow(
        run=run_row(item.run, now),
        since=item.since,
        cause=cause_of(item),
        safest=str(item.advice.choice),
        why=item.advice.why,
        done=done,
        unknown=len(item.effects) - done,
        items=None if item.scope.expected is None else item.scope.count_text,
        has_check=item.has_check,
    )


def cause_of(item: InboxItem) -> str:
    """Say in a few words what left a run in doubt."""
    if item.attempt is None:
        return "not on record"
    return item.attempt.reason or item.attempt.state


PAGES = (
    Page(
        method="GET",
        path="/inbox",
        name="inbox",
        scope="read",
        handler=show_inbox,
        query=InboxPageQuery,
    ),
)


MEANINGS = {
    "retry": "The same run is tried again from its beginning. The ledger of effects goes on.",
    "resume": "The same run is tried again from its last checkpoint.",
    "repair": "Another run shares the ledger: what is done is not done again, the rest is.",
    "reconcile": "You have looked on the other side, and record what you found.",
    "skip": "It is left as it is, and on record that nobody will do more about it.",
}
ASKING = frozenset({"reconcile", "retry", "resume", "repair"})
"""Choices that go by what is known of the effects."""
YES = "yes"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceCard:
    """One thing that can be done about it."""

    name: str
    action: str
    meaning: str
    is_safest: bool
    risk: str | None
    """What it risks, when it is not the safest."""
    is_typed: bool
    """Whether the run's id is typed: something may happen twice."""
    is_settled_by_key: bool
    """Whether the id may be left out, if each unknown effect has happened or has not."""
    is_asking: bool
    """Whether it goes by what somebody knows of the effects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxItemModel:
    """The page."""

    run: RunRow
    since: datetime | None
    cause: str
    why: str
    attempt: Attempt | None
    effects: tuple[Effect, ...]
    checks: tuple[Check, ...]
    scope: Scope
    has_check: bool
    choices: tuple[ChoiceCard, ...]
    terms: tuple[StateLabel, ...]
    command: str


class Decision(msgspec.Struct, forbid_unknown_fields=True):
    """What a person decided, and why."""

    choice: str
    reason: str | None = None
    confirm: str | None = None
    """The run's id, typed, where something may happen twice."""
    found: str | None = None
    """With `reconcile`: done or undone."""
    despite_missing: str | None = None
    """With `reconcile`: the word `yes`, to record as done a run with items missing."""
    effect: list[str] = []
    """What is known of effects, each as `done:KEY`, `undone:KEY` or `unknown:KEY`."""

    def effects(self) -> dict[str, bool]:
        """Return of which effects it is known whether they have happened."""
        said = read_known(self.effect)
        return {key: is_done for key, is_done in said.items() if is_done is not None}

    def said(self) -> set[str]:
        """Return of which effects something is said, also that it is not known."""
        return {*read_known(self.effect)}


def show_item(asked: PageRequest) -> Rendered:
    """Show one run that is in doubt."""
    item = asked.app.inbox.get(asked.path["run"])
    model = InboxItemModel(
        run=run_row(item.run, asked.now),
        since=item.since,
        cause=cause_of(item),
        why=item.advice.why,
        attempt=item.attempt,
        effects=item.effects,
        checks=item.checks,
        scope=item.scope,
        has_check=item.has_check,
        choices=choice_cards(item),
        terms=met_terms(
            item.run.state,
            () if item.attempt is None else (item.attempt.state,),
            (one.state for one in item.effects),
        ),
        command=command_text(asked.app.tenant, "inbox", str(item.run.id)),
    )
    return Rendered(template="inbox_item.html", model=model, title=f"In doubt: {item.run.label}")


def choice_cards(item: InboxItem) -> tuple[ChoiceCard, ...]:
    """Return all that can be done, the safest first."""
    advice = item.advice
    risks = {str(choice): risk for choice, risk in advice.risks.items()}
    risky = {str(choice) for choice in (*advice.risks, advice.choice) if advice.is_risky(choice)}
    safest = str(advice.choice)
    names = [safest, *(one for one in ACTIONS if one != safest)]
    return tuple(
        ChoiceCard(
            name=name,
            action=ACTIONS[name],
            meaning=MEANINGS[name],
            is_safest=name == safest,
            risk=risks.get(name),
            is_typed=name in risky,
            is_settled_by_key=bool(item.unknown),
            is_asking=name in ASKING,
        )
        for name in names
    )


def decide_item(asked: PageRequest) -> Redirect:
    """Carry out what a person decided about one run."""
    decided: Decision = asked.form
    require_said(asked.app, asked.path["run"], decided)
    run = decide(asked.app, asked.path["run"], decided)
    action, state = ACTIONS[decided.choice].lower(), mark(run.state).word
    said = f"{run.label}: {action} is on record; it is {state} now"
    return Redirect(to=f"/runs/{run.id}", said=Flash(text=said))


def require_said(app: App, run: str, decided: Decision) -> None:
    """Have somebody say what they know of each effect in doubt: nothing is taken for granted."""
    if decided.choice not in ASKING:
        return
    if decided.choice == "reconcile":
        _read_found(decided.found)
    said, known = decided.said(), decided.effects()
    is_done = decided.choice == "reconcile" and decided.found == DONE
    for key in app.inbox.get(run).unknown:
        if key not in said:
            remedy = "say whether it has happened, has not, or is not known"
            raise UsageError("effect", key, "has nothing said about it", remedy)
        if is_done and key not in known:
            remedy = "say whether it has happened; or record the run as not done"
            raise UsageError("effect", key, "is not known, and all is said to be done", remedy)


def decide(app: App, run: str, decided: Decision) -> Run:
    """Settle one run that is in doubt, as a person has chosen."""
    reason = decided.reason or ""
    terms: dict[str, Any] = {"effects": decided.effects(), "confirm": decided.confirm}
    match decided.choice:
        case "retry":
            return app.inbox.retry(run, reason=reason, **terms)
        case "resume":
            return app.inbox.resume(run, reason=reason, **terms)
        case "repair":
            return app.inbox.rerun(run, repair=True, reason=reason, **terms)
        case "reconcile":
            found = _read_found(decided.found)
            if decided.despite_missing not in (None, YES):
                remedy = f"say {YES}, or leave it out"
                raise UsageError("despite_missing", decided.despite_missing, "is unclear", remedy)
            is_despite = found and decided.despite_missing == YES
            effects = decided.effects()
            return app.inbox.reconcile(
                run, is_done=found, reason=reason, effects=effects, despite_missing=is_despite
            )
        case "skip":
            return app.inbox.skip(run, reason=reason)
        case other:
            remedy = f"choose of {', '.join(ACTIONS)}"
            raise UsageError("choice", other, "is none of the choices", remedy)


def _read_found(found: str | None) -> bool:
    if found not in (DONE, UNDONE):
        remedy = "say whether what it was to do is done, or not"
        raise UsageError("found", found, "is missing: nothing is chosen yet", remedy)
    return found == DONE


def verify_item(asked: PageRequest) -> Redirect:
    """Have the task's own check look."""
    run = asked.path["run"]
    check = asked.app.inbox.verify(run)
    said = f"{check.label} was made: what it finds will stand here"
    return Redirect(to=f"/inbox/{quote(run)}", said=Flash(text=said))


def _order(
    path: str, name: str, handler: Callable[[PageRequest], Redirect], form: type | None
) -> Page:
    return Page(method="POST", path=path, name=name, scope="edit", handler=handler, form=form)


ITEM_PAGES = (
    Page(method="GET", path="/inbox/{run}", name="inbox_item", scope="read", handler=show_item),
    _order("/inbox/{run}/decide", "decide_doubt", decide_item, Decision),
    _order("/inbox/{run}/verify", "verify_doubt", verify_item, None),
)


BATCH_MAX = 100
DEAD_CHOICES = {"retry": "Retry", "discard": "Discard"}
BATCH_MEANINGS = {
    "retry": "Each is queued again with a fresh budget. It stays the same run.",
    "discard": "Each is closed for good. Nobody tries it again.",
}


class ChosenItems(msgspec.Struct, forbid_unknown_fields=True):
    """Which runs were ticked, and what shall become of them."""

    choice: str
    runs: list[str] = []
    reason: str | None = None
    confirm: str | None = None
    """How many they are, typed."""
    found: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchModel:
    """The page that asks once more."""

    choice: str
    action: str
    rows: tuple[RunRow, ...]
    left_out: tuple[str, ...]
    """What was ticked and can't be decided this way, with the reason."""
    path: str
    meaning: str
    needs_found: bool


def preview_doubts(asked: PageRequest) -> Rendered:
    """Show exactly which runs in doubt a decision would be about."""
    chosen: ChosenItems = asked.form
    if chosen.choice not in ACTIONS:
        remedy = f"choose of {', '.join(ACTIONS)}"
        raise UsageError("choice", chosen.choice, "is none of the choices", remedy)
    rows: list[RunRow] = []
    left_out: list[str] = []
    for one in read_runs(chosen):
        try:
            item = asked.app.inbox.get(one)
        except (Conflict, NotFound) as error:
            left_out.append(str(error))
            continue
        if item.advice.is_risky(chosen.choice):
            left_out.append(f"{item.run.label}: this may do something twice; decide it by itself")
        elif chosen.choice == "reconcile" and item.scope.has_missing:
            left_out.append(f"{item.run.label}: {item.scope.count_text}; decide it by itself")
        else:
            rows.append(run_row(item.run, asked.now))
    model = BatchModel(
        choice=chosen.choice,
        action=ACTIONS[chosen.choice],
        rows=tuple(rows),
        left_out=tuple(left_out),
        path="/inbox/decide",
        meaning="",
        needs_found=chosen.choice == "reconcile",
    )
    return Rendered(template="inbox_batch.html", model=model, title=_title(model))


def preview_dead(asked: PageRequest) -> Rendered:
    """Show exactly which dead runs an order would be about."""
    chosen: ChosenItems = asked.form
    action = _read_dead(chosen.choice)
    runs = [asked.app.runs.get(one) for one in read_runs(chosen)]
    dead = [one for one in runs if one.state == "dead"]
    gone = [f"{one.label} is {mark(one.state).word} by now" for one in runs if one.state != "dead"]
    model = BatchModel(
        choice=chosen.choice,
        action=action,
        rows=tuple(run_row(one, asked.now) for one in dead),
        left_out=tuple(gone),
        path="/inbox/dead/decide",
        meaning=BATCH_MEANINGS[chosen.choice],
        needs_found=False,
    )
    return Rendered(template="inbox_batch.html", model=model, title=_title(model))


def decide_doubts(asked: PageRequest) -> Redirect:
    """Decide about each; one that somebody else has decided meanwhile is told, not overruled."""
    chosen: ChosenItems = asked.form
    decided = Decision(choice=chosen.choice, reason=chosen.reason, found=chosen.found)
    runs = read_runs(chosen)
    _require_count(chosen, len(runs))
    counts = Counter(_decide_one(asked.app, one, decided) for one in runs)
    action = ACTIONS[chosen.choice].lower()
    return Redirect(to="/inbox", said=Flash(text=_told(action, counts)))


def decide_dead(asked: PageRequest) -> Redirect:
    """Retry or discard exactly these."""
    chosen: ChosenItems = asked.form
    action = _read_dead(chosen.choice)
    runs = read_runs(chosen)
    _require_count(chosen, len(runs))
    order = asked.app.runs.retry if chosen.choice == "retry" else asked.app.runs.discard
    counts = Counter(one.is_done for one in order(runs, reason=chosen.reason))
    said = Flash(text=_told(action.lower(), counts))
    return Redirect(to="/inbox?kind=dead", said=said)


def read_runs(chosen: ChosenItems) -> list[str]:
    """Read which runs were ticked; each once, and not more than one order takes."""
    runs = list(dict.fromkeys(chosen.runs))
    if not runs:
        raise UsageError("runs", None, "are missing", "tick at least one")
    if len(runs) > BATCH_MAX:
        raise UsageError("runs", len(runs), "are too many", f"tick {BATCH_MAX} at the most")
    return runs


def _read_dead(choice: str) -> str:
    if choice not in DEAD_CHOICES:
        remedy = f"choose of {', '.join(DEAD_CHOICES)}"
        raise UsageError("choice", choice, "is none of the choices", remedy)
    return DEAD_CHOICES[choice]


def _decide_one(app: App, run: str, decided: Decision) -> bool:
    try:
        decide(app, run, decided)
    except (Conflict, NotFound):
        return False
    return True


def _require_count(chosen: ChosenItems, count: int) -> None:
    """Have it said how many they are: who typed it has looked."""
    if count > 1 and chosen.confirm != str(count):
        problem = f"is not how many they are: this is about {count} runs"
        raise UsageError("confirm", chosen.confirm, problem, f"type {count}")


def _told(action: str, counts: Counter[bool]) -> str:
    done = f"{action}: {counts[True]} decided"
    return done if not counts[False] else f"{done}, {counts[False]} had changed meanwhile"


def _title(model: BatchModel) -> str:
    runs = "1 run" if len(model.rows) == 1 else f"{len(model.rows)} runs"
    return f"{model.action} {runs}"


BATCH_PAGES = (
    Page(
        method="POST",
        path="/inbox/preview",
        name="preview_doubts",
        scope="edit",
        handler=preview_doubts,
        form=ChosenItems,
    ),
    Page(
        method="POST",
        path="/inbox/decide",
        name="decide_doubts",
        scope="edit",
        handler=decide_doubts,
        form=ChosenItems,
    ),
    Page(
        method="POST",
        path="/inbox/dead/preview",
        name="preview_dead",
        scope="edit",
        handler=preview_dead,
        form=ChosenItems,
    ),
    Page(
        method="POST",
        path="/inbox/dead/decide",
        name="decide_dead",
        scope="edit",
        handler=decide_dead,
        form=ChosenItems,
    ),
)
