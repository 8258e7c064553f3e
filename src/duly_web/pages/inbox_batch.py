"""Deciding about several runs of the inbox at once: first the exact set, then the order (UX 39).

The set is what the person saw: its ids travel with the form, and nothing that came since is in it.
A choice that may do something twice is not for many at once: it takes each run's own id, typed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from duly import Conflict, NotFound, UsageError
from duly_web.page import Asked, Moved, Page, Said, Shown
from duly_web.pages.inbox import ACTIONS
from duly_web.pages.inbox_item import Decision, decide
from duly_web.pages.runs import RunRow, run_row
from duly_web.states import mark

if TYPE_CHECKING:
    from duly import App

BATCH_MAX = 100
DEAD_CHOICES = {"retry": "Retry", "discard": "Discard"}
MEANINGS = {
    "retry": "Each is queued again with a fresh budget. It stays the same run.",
    "discard": "Each is closed for good. Nobody tries it again.",
}


class Chosen(msgspec.Struct, forbid_unknown_fields=True):
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


def preview_doubts(asked: Asked) -> Shown:
    """Show exactly which runs in doubt a decision would be about."""
    chosen: Chosen = asked.form
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
        risky = [str(choice) for choice in item.advice.risks if item.advice.is_risky(choice)]
        if chosen.choice in risky:
            left_out.append(f"{item.run.label}: this may do something twice; decide it by itself")
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
    return Shown(template="inbox_batch.html", model=model, title=_title(model))


def preview_dead(asked: Asked) -> Shown:
    """Show exactly which dead runs an order would be about."""
    chosen: Chosen = asked.form
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
        meaning=MEANINGS[chosen.choice],
        needs_found=False,
    )
    return Shown(template="inbox_batch.html", model=model, title=_title(model))


def decide_doubts(asked: Asked) -> Moved:
    """Decide about each; one that somebody else has decided meanwhile is told, not overruled."""
    chosen: Chosen = asked.form
    decided = Decision(choice=chosen.choice, reason=chosen.reason, found=chosen.found)
    runs = read_runs(chosen)
    _require_count(chosen, len(runs))
    counts = Counter(_decide_one(asked.app, one, decided) for one in runs)
    action = ACTIONS[chosen.choice].lower()
    return Moved(to="/inbox", said=Said(text=_told(action, counts)))


def decide_dead(asked: Asked) -> Moved:
    """Retry or discard exactly these."""
    chosen: Chosen = asked.form
    action = _read_dead(chosen.choice)
    runs = read_runs(chosen)
    _require_count(chosen, len(runs))
    order = asked.app.runs.retry if chosen.choice == "retry" else asked.app.runs.discard
    counts = Counter(one.is_done for one in order(runs, reason=chosen.reason))
    said = Said(text=_told(action.lower(), counts))
    return Moved(to="/inbox?kind=dead", said=said)


def read_runs(chosen: Chosen) -> list[str]:
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


def _require_count(chosen: Chosen, count: int) -> None:
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


PAGES = (
    Page(
        method="POST",
        path="/inbox/preview",
        name="preview_doubts",
        scope="edit",
        handler=preview_doubts,
        form=Chosen,
    ),
    Page(
        method="POST",
        path="/inbox/decide",
        name="decide_doubts",
        scope="edit",
        handler=decide_doubts,
        form=Chosen,
    ),
    Page(
        method="POST",
        path="/inbox/dead/preview",
        name="preview_dead",
        scope="edit",
        handler=preview_dead,
        form=Chosen,
    ),
    Page(
        method="POST",
        path="/inbox/dead/decide",
        name="decide_dead",
        scope="edit",
        handler=decide_dead,
        form=Chosen,
    ),
)
