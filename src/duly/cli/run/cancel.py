"""`duly run cancel`: stops runs at once, or asks whoever runs them; one, or by filter (A1)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias
from uuid import UUID

from cyclopts import Parameter

from duly.app import App
from duly.cli.output import print_json, print_line
from duly.cli.references import find_promise
from duly.cli.run.carrying import WHICH, CareOptions, Carrying, Order, RunNames
from duly.cli.run.selection import RunOptions
from duly.cli.target import Target, opened
from duly.cli.undoing import print_undo, undo_text
from duly.client.run_orders import OrderedRun
from duly.client.run_view import Run
from duly.errors import Conflict

OpenState: TypeAlias = Literal["queued", "running", "retrying", "blocked"]

TARGET = Target()
OPEN = ("queued", "running", "retrying", "blocked")
CANCEL = Order(
    verb="Cancel",
    done="Cancelled, or asked to stop",
    states=OPEN,
    usual=OPEN,
    option="--state",
    is_asked=False,
    no_undo="none; duly enqueue makes new runs of the same",
)


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class CancelOptions:
    """Which runs, whether to look first, and whether to ask."""

    state: tuple[OpenState, ...] = ()
    """Choose runs in this state, such as running; may be given several times."""
    which: RunOptions = WHICH
    dry_run: bool = False
    """Show which runs would be touched, and touch none."""
    yes: bool = False
    """Do not ask."""


ONE_BY_ONE = CancelOptions()


def cancel(
    *runs: RunNames, reason: str, chosen: CancelOptions = ONE_BY_ONE, target: Target = TARGET
) -> int:
    """Stop runs: those that nobody runs at once, those that are running by asking their worker.

    Name them, or choose them: --state running --task charge.

    Parameters
    ----------
    reason
        Why; it is recorded.
    """
    with opened(target, makes_store=False) as app:
        if len(runs) == 1 and chosen == ONE_BY_ONE:
            _tell(app.runs.cancel(find_promise(app, runs[0]), reason=reason), target)
            return 0
        care = CareOptions(which=chosen.which, dry_run=chosen.dry_run, yes=chosen.yes)
        carrying = Carrying(app=app, order=CANCEL, care=care, target=target)
        return carrying.out(runs, chosen.state, partial(_cancel_each, app, reason))


def _cancel_each(app: App, reason: str, ids: Sequence[UUID]) -> list[OrderedRun]:
    """Cancel runs, each by itself: what was over by then is told."""
    answers: list[OrderedRun] = []
    for one in ids:
        state = app.runs.get(one).state
        try:
            app.runs.cancel(one, reason=reason)
        except Conflict:
            answers.append(OrderedRun(id=one, is_done=False, state=app.runs.get(one).state))
        else:
            answers.append(OrderedRun(id=one, is_done=True, state=state))
    return answers


def _tell(found: Run, target: Target) -> None:
    is_asked = found.state == "running"
    taking_back = None if is_asked else _again(found)
    if target.json:
        print_json({**found.to_json(), "undo": taking_back})
        return
    if is_asked:
        print_line(f"Asked {found.label} to stop. See how it ends: duly run wait {found.id}")
        print_undo("none; its worker has been told")
        return
    print_line(f"Cancelled {found.label}. What is left is its record.")
    print_undo(f"{taking_back} (a new run of the same)")


def _again(run: Run) -> str:
    """Return the order for another run of the same."""
    words = ["enqueue", run.task, "--queue", run.queue, "--priority", str(run.priority)]
    words += ["--key", run.key] if run.key else []
    if run.arguments:
        words += ["--arguments", json.dumps(run.arguments, ensure_ascii=False)]
    return undo_text(*words)
