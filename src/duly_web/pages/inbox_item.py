"""One run in doubt: what is known, what is safest and why, and deciding about it (UX 28-30, E5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from duly import UsageError
from duly_web.commands import command_text
from duly_web.page import Asked, Moved, Page, Said, Shown
from duly_web.pages.inbox import ACTIONS, cause_of
from duly_web.pages.runs import RunRow, run_row
from duly_web.states import mark
from duly_web.terms import Term, met_terms

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from duly import App, Run
    from duly.api.views import Attempt, Check, Effect, InboxItem

MEANINGS = {
    "retry": "The same run is tried again from its beginning. The ledger of effects goes on.",
    "resume": "The same run is tried again from its last checkpoint.",
    "repair": "Another run shares the ledger: what is done is not done again, the rest is.",
    "reconcile": "You have looked on the other side, and record what you found.",
    "skip": "It is left as it is, and on record that nobody will do more about it.",
}
ASKING = frozenset({"reconcile", "retry", "resume"})
"""Choices that go by what somebody knows of the effects."""
DONE, UNDONE, UNKNOWN = "done", "undone", "unknown"


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
    """Whether the run's id must be typed: something may happen twice."""
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
    has_check: bool
    choices: tuple[ChoiceCard, ...]
    terms: tuple[Term, ...]
    command: str


class Decision(msgspec.Struct, forbid_unknown_fields=True):
    """What a person decided, and why."""

    choice: str
    reason: str | None = None
    confirm: str | None = None
    """The run's id, typed, where something may happen twice."""
    found: str | None = None
    """With `reconcile`: done or undone."""
    effect: list[str] = []
    """What is known of effects, each as `done:KEY`, `undone:KEY` or `unknown:KEY`."""

    def effects(self) -> dict[str, bool]:
        """Return of which effects it is known whether they have happened."""
        known: dict[str, bool] = {}
        for one in self.effect:
            found, key = self._read(one)
            if found != UNKNOWN:
                known[key] = found == DONE
        return known

    def said(self) -> set[str]:
        """Return of which effects something is said, also that it is not known."""
        return {self._read(one)[1] for one in self.effect}

    def _read(self, text: str) -> tuple[str, str]:
        found, _, key = text.partition(":")
        if found not in (DONE, UNDONE, UNKNOWN) or not key:
            remedy = f"say {DONE}:KEY, {UNDONE}:KEY or {UNKNOWN}:KEY"
            raise UsageError("effect", text, "says nothing about an effect", remedy)
        return found, key


def show_item(asked: Asked) -> Shown:
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
        has_check=item.has_check,
        choices=choice_cards(item),
        terms=met_terms(
            item.run.state,
            () if item.attempt is None else (item.attempt.state,),
            (one.state for one in item.effects),
        ),
        command=command_text(asked.app.tenant, "inbox", str(item.run.id)),
    )
    return Shown(template="inbox_item.html", model=model, title=f"In doubt: {item.run.label}")


def choice_cards(item: InboxItem) -> tuple[ChoiceCard, ...]:
    """Return all that can be done, the safest first."""
    advice = item.advice
    risks = {str(choice): risk for choice, risk in advice.risks.items()}
    risky = {str(choice) for choice in advice.risks if advice.is_risky(choice)}
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
            is_asking=name in ASKING,
        )
        for name in names
    )


def decide_item(asked: Asked) -> Moved:
    """Carry out what a person decided about one run."""
    decided: Decision = asked.form
    require_said(asked.app, asked.path["run"], decided)
    run = decide(asked.app, asked.path["run"], decided)
    action, state = ACTIONS[decided.choice].lower(), mark(run.state).word
    said = f"{run.label}: {action} is on record; it is {state} now"
    return Moved(to=f"/runs/{run.id}", said=Said(text=said))


def require_said(app: App, run: str, decided: Decision) -> None:
    """Have somebody say what they know of each effect in doubt: nothing is taken for granted."""
    if decided.choice not in ASKING:
        return
    if decided.choice == "reconcile":
        _read_found(decided.found)
    said = decided.said()
    for one in app.inbox.get(run).effects:
        if one.state != DONE and one.key not in said:
            remedy = "say whether it has happened, has not, or is not known"
            raise UsageError("effect", one.key, "has nothing said about it", remedy)


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
            return app.inbox.rerun(run, repair=True, reason=reason, confirm=decided.confirm)
        case "reconcile":
            found = _read_found(decided.found)
            effects = decided.effects()
            return app.inbox.reconcile(run, is_done=found, reason=reason, effects=effects)
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


def verify_item(asked: Asked) -> Moved:
    """Have the task's own check look (29)."""
    run = asked.path["run"]
    check = asked.app.inbox.verify(run)
    said = f"{check.label} was made: what it finds will stand here"
    return Moved(to=f"/inbox/{quote(run)}", said=Said(text=said))


def _order(path: str, name: str, handler: Callable[[Asked], Moved], form: type | None) -> Page:
    return Page(method="POST", path=path, name=name, scope="edit", handler=handler, form=form)


PAGES = (
    Page(method="GET", path="/inbox/{run}", name="inbox_item", scope="read", handler=show_item),
    _order("/inbox/{run}/decide", "decide_doubt", decide_item, Decision),
    _order("/inbox/{run}/verify", "verify_doubt", verify_item, None),
)
