"""`duly run rerun`, `duly run skip`: what a person replays or gives up, also by filter (A1, A3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Literal, TypeAlias

from cyclopts import Parameter

from duly.app import App
from duly.cli.frozen_orders import SET, FrozenOrder, SetOptions
from duly.cli.references import find_run
from duly.cli.run.doubts import Confirm, Reason, stop_text, tell
from duly.cli.run.selection import RunOptions
from duly.cli.target import Target, opened
from duly.cli.undoing import UNSAID, undo_text
from duly.client.run_orders import OrderedRun
from duly.errors import UsageError

TARGET = Target()
WHICH = RunOptions()
RunNames = Annotated[str, Parameter(help="Its id, the beginning of it, or its label; or several.")]
EndedState: TypeAlias = Literal[
    "dead", "failed", "succeeded", "cancelled", "discarded", "skipped", "ambiguous"
]
WENT_WRONG = ("dead", "failed")


def rerun(  # noqa: PLR0913 - each choice is an option
    *runs: RunNames,
    reason: Reason,
    repair: bool = False,
    confirm: Confirm = None,
    state: tuple[EndedState, ...] = (),
    which: RunOptions = WHICH,
    chosen: SetOptions = SET,
    target: Target = TARGET,
) -> int:
    """Run once more, each as another run, what runs were to do.

    Name them, or choose them: --task charge --since -2h chooses what is dead or failed. What may do
    something a second time is rerun by itself, with --confirm.

    Parameters
    ----------
    repair
        Share its record of effects: what is done is not done again. Without it everything is.
    state
        Choose runs in this state, such as succeeded; may be given several times.
    """
    with opened(target, makes_store=False) as app:
        if _is_one(runs, state, which, chosen):
            found = app.inbox.rerun(
                find_run(app, runs[0]).id, reason=reason, repair=repair, confirm=confirm
            )
            tell(found, f"Queued as a {found.origin} of {found.root}", target, stop_text(found))
            return 0
        if confirm is not None:
            problem, remedy = "is about one run", "name that run alone"
            raise UsageError("--confirm", confirm, problem, remedy)
        selection = _frozen(app, runs, state or WENT_WRONG, (which, chosen, bool(state)))
        preview = app.selections.preview(selection, "repair" if repair else "rerun")
        carry = partial(
            app.selections.rerun, selection, reason=reason, repair=repair, confirm=preview.count
        )
        order = FrozenOrder(
            verb="Repair" if repair else "Rerun",
            done="Queued once more, each as another run",
            noun="run",
            words=("run", "rerun", *(("--repair",) if repair else ())),
            reason=reason,
            undo=_stop,
            no_undo="duly run cancel, for each that was made",
            asked=chosen,
            target=target,
        )
        return order.out(preview, carry)


def skip(
    *runs: RunNames,
    reason: Reason,
    which: RunOptions = WHICH,
    chosen: SetOptions = SET,
    target: Target = TARGET,
) -> int:
    """Leave runs in doubt as they are, and record that nobody will do more about them.

    Name them, or choose them: --task charge --until -30d.
    """
    with opened(target, makes_store=False) as app:
        if _is_one(runs, (), which, chosen):
            found = app.inbox.skip(find_run(app, runs[0]).id, reason=reason)
            tell(found, "Skipped", target, None)
            return 0
        selection = _frozen(app, runs, ("ambiguous",), (which, chosen, False))
        preview = app.selections.preview(selection, "skip")
        carry = partial(app.selections.skip, selection, reason=reason, confirm=preview.count)
        order = FrozenOrder(
            verb="Skip",
            done="Skipped",
            noun="run",
            words=("run", "skip"),
            reason=reason,
            undo=lambda _: None,
            no_undo="none: what was decided stays on record",
            asked=chosen,
            target=target,
        )
        return order.out(preview, carry)


def _is_one(
    runs: Sequence[str], state: Sequence[str], which: RunOptions, chosen: SetOptions
) -> bool:
    """Say whether it is one run, named, with nothing to look at before; it is not asked about."""
    return len(runs) == 1 and not state and which == WHICH and replace(chosen, yes=False) == SET


def _frozen(
    app: App,
    runs: Sequence[str],
    states: Sequence[str],
    said: tuple[RunOptions, SetOptions, bool],
) -> str:
    """Return the id of the set that is meant: one that there is, or one frozen now."""
    which, chosen, has_state = said
    is_filter = which.is_given or has_state
    ways = [bool(runs), is_filter, chosen.selection is not None]
    if sum(ways) > 1:
        remedy = "name runs, choose them by a filter, or give --selection"
        raise UsageError("run", next(iter(runs), None), "is chosen in two ways", remedy)
    if not any(ways):
        remedy = "name runs by their ids, or choose them: --task, --queue, --cause, --since"
        raise UsageError("run", None, "is missing", remedy)
    if chosen.selection is not None:
        return chosen.selection
    if runs:
        ids = [find_run(app, name).id for name in runs]
        return str(app.selections.freeze(ids=ids).id)
    return str(app.selections.freeze(state=list(states), **which.terms(app)).id)


def _stop(done: Sequence[OrderedRun]) -> str | None:
    if len(done) != 1:
        return None
    return undo_text("run", "cancel", str(done[0].made), "--reason", UNSAID)
