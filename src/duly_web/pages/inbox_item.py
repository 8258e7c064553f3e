"""One run in doubt: what is known, what is safest and why, and deciding about it (UX 28-30, E5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from duly import UsageError
from duly_web.page import Asked, Moved, Page, Said, Shown
from duly_web.pages.inbox import ACTIONS, cause_of
from duly_web.pages.runs import RunRow, run_row

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
DONE, UNDONE = "done", "undone"


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
    """What was found out about effects, each as `done:KEY` or `undone:KEY`."""

    def effects(self) -> dict[str, bool]:
        """Return of which effects it is known whether they have happened."""
        known: dict[str, bool] = {}
        for one in self.effect:
            found, _, key = one.partition(":")
            if found not in (DONE, UNDONE) or not key:
                remedy = f"say {DONE}:KEY or {UNDONE}:KEY"
                raise UsageError("effect", one, "says nothing about an effect", remedy)
            known[key] = found == DONE
        return known


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
        command=f"duly inbox {item.run.id}",
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
        )
        for name in names
    )


def decide_item(asked: Asked) -> Moved:
    """Carry out what a person decided about one run."""
    decided: Decision = asked.form
    run = decide(asked.app, asked.path["run"], decided)
    said = f"{run.label}: {ACTIONS[decided.choice].lower()} is on record; it is {run.state} now"
    return Moved(to=f"/runs/{run.id}", said=Said(text=said))


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
        raise UsageError("found", found, "is missing", remedy)
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
