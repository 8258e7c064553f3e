"""Orders about runs: run cancel, retry, discard, edit, rerun, skip.

`BulkOrder` freezes and shows the runs that a filter finds before it does anything. The order
touches these runs and no others, whatever happens to other runs meanwhile.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Literal, TypeAlias
from uuid import UUID

from cyclopts import Parameter

from duly.app import App
from duly.app import App as Application
from duly.cli.confirm import (
    SET,
    UNSAID,
    FrozenOrder,
    SetOptions,
    confirm,
    counted,
    print_undo,
    require_confirmation,
    undo_command,
)
from duly.cli.context import ArgumentOptions, Target, note_unchecked, open_app, read_arguments
from duly.cli.inbox import DOUBT, DoubtOptions, Reason, retry_doubtful, stop_text, tell
from duly.cli.output import print_json, print_line
from duly.cli.references import RunName, find_promise, find_run
from duly.cli.run_details import utc_iso
from duly.cli.runs import RunFilterOptions, print_runs, select_runs
from duly.client.run_view import Run
from duly.client.runs import OrderedRun
from duly.domain.enums import RunState
from duly.errors import Conflict, UsageError
from duly.timetable.instants import utc_text

WHICH = RunFilterOptions()
CHOSEN_MAX = 10_000
SHOWN_MAX = 20
REFUSED, DECLINED = 4, 1
Carry: TypeAlias = Callable[[list[Any]], list[OrderedRun]]


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmOptions:
    """Which runs an order is about, whether to look first, and whether to ask."""

    dead: bool = False
    """Choose dead runs, all that fit the other options."""
    which: RunFilterOptions = WHICH
    dry_run: bool = False
    """Show which runs would be touched, and touch none."""
    yes: bool = False
    """Do not ask."""


CARE = ConfirmOptions()
RunNames = Annotated[str, Parameter(help="Their ids, beginnings of ids, or labels.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOrder:
    """One order about runs that were chosen before, and how it is told."""

    verb: str
    done: str
    states: tuple[str, ...]
    """What can be ordered about."""
    usual: tuple[str, ...]
    """What a filter chooses that names no state."""
    option: str
    """What names one."""
    is_asked: bool
    """Whether it needs a yes even about runs that were named one by one."""
    no_undo: str
    """What is told where no single order takes it back."""
    is_stopped: bool = False
    """Whether one that it was about can be stopped: then that takes it back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkOrder:
    """Shows what is chosen, asks, carries an order out, and tells what it has done."""

    app: Application
    order: RunOrder
    care: ConfirmOptions
    target: Target

    def out(self, names: Sequence[str], more: tuple[str, ...], carry: Carry) -> int:
        """Carry it out about runs that are named, or chosen by their states and other options."""
        states = (*(("dead",) if self.care.dead else ()), *more)
        chosen = self._choose(names, states)
        as_of = self.app.status().now
        if not chosen or self.care.dry_run:
            self._preview(chosen, as_of)
            return 0
        if not self.care.yes and (self.order.is_asked or not names):
            require_confirmation(len(chosen))
            _print_chosen(chosen, as_of)
            if not confirm(self.order.verb, len(chosen)):
                print_line("Nothing was changed.")
                return DECLINED
        return self._told(chosen, carry([run.id for run in chosen]))

    def _choose(self, names: Sequence[str], states: tuple[str, ...]) -> list[Run]:
        """Return the runs that are named, or those that a filter finds; never both, never all."""
        app, which = self.app, self.care.which.located(as_json=self.target.json)
        is_filter = which.is_given or bool(states)
        if names and is_filter:
            problem = "is named beside a filter"
            raise UsageError("run", names[0], problem, "name runs, or choose them by a filter")
        if names:
            return list({one.id: one for one in (find_run(app, name) for name in names)}.values())
        if not is_filter:
            by = f"{self.order.option}, --task, --queue, --cause, --since"
            remedy = f"name runs by their ids, or choose them: {by}"
            raise UsageError("run", None, "is missing", remedy)
        found = select_runs(app, which, states or self.order.usual, CHOSEN_MAX)
        if len(found) == CHOSEN_MAX:
            remedy = "choose fewer: narrow it by --task, --cause, --since or --until"
            raise UsageError("run", f"{CHOSEN_MAX:,} or more", "are too many at once", remedy)
        return found

    def _preview(self, chosen: list[Run], as_of: datetime) -> None:
        touched = [one for one in chosen if one.state in self.order.states]
        left = [one for one in chosen if one.state not in self.order.states]
        if self.target.json:
            parts = {"runs": touched, "left_alone": left}
            told = {name: [one.to_json() for one in runs] for name, runs in parts.items()}
            print_json({"is_done": False, "as_of": utc_iso(as_of), **told})
            return
        if touched:
            _print_chosen(touched, as_of)
        else:
            print_line("No run fits.")
        for one in left[:SHOWN_MAX]:
            print_line(("left alone: ", "bold yellow"), f"{one.label} {self._unfit(one.state)}.")
        if len(left) > SHOWN_MAX:
            print_line(f"… and {len(left) - SHOWN_MAX:,} more; --json names all of them")
        print_line(f"Nothing was changed{' (--dry-run)' if self.care.dry_run else ''}.")

    def _unfit(self, state: str | None) -> str:
        return f"is {state}, not {' or '.join(self.order.states)}"

    def _told(self, chosen: list[Run], answers: list[OrderedRun]) -> int:
        done = [one for one in answers if one.is_done]
        refused = [one for one in answers if not one.is_done]
        taking_back = self._undo(done)
        if self.target.json:
            runs = [one.to_json() for one in answers]
            print_json({"is_done": not refused, "runs": runs, "undo": taking_back})
        else:
            self._print(chosen, done, refused)
            if done:
                print_undo(taking_back or self.order.no_undo)
        return REFUSED if refused else 0

    def _print(self, chosen: list[Run], done: list[OrderedRun], refused: list[OrderedRun]) -> None:
        labels = {run.id: run.label for run in chosen}
        if len(done) == 1:
            print_line(f"{self.order.done}: {labels[done[0].id]}. Id: {done[0].id}")
        elif done:
            print_line(f"{self.order.done}: {counted(len(done), 'run')}.")
        for one in refused[:SHOWN_MAX]:
            why = f"{labels[one.id]} {self._unfit(one.state)}. Id: {one.id}"
            print_line(("not done: ", "bold yellow"), why)
        if len(refused) > SHOWN_MAX:
            print_line(
                f"… and {len(refused) - SHOWN_MAX:,} more that are not {self.order.states[0]}"
            )

    def _undo(self, done: list[OrderedRun]) -> str | None:
        """Return how to stop one that goes on again."""
        if not self.order.is_stopped or len(done) != 1:
            return None
        return undo_command("run", "cancel", str(done[0].id), "--reason", UNSAID)


def _print_chosen(chosen: list[Run], as_of: datetime) -> None:
    """Print what an order would touch: how many of each kind, and the newest."""
    number = "1 run" if len(chosen) == 1 else f"{len(chosen):,} runs"
    print_line(f"{number} as of {utc_text(as_of)}:")
    groups = Counter((run.task, run.state, run.reason or "no reason") for run in chosen)
    for (task, state, reason), count in groups.most_common(SHOWN_MAX):
        print_line(f"  {count:,} of {task}, {state}: {reason}")
    if len(groups) > SHOWN_MAX:
        print_line(f"  … and {len(groups) - SHOWN_MAX:,} more kinds")
    print_runs(chosen[:SHOWN_MAX], as_of)
    if len(chosen) > SHOWN_MAX:
        print_line(f"… and {len(chosen) - SHOWN_MAX:,} more; --dry-run --json names all of them")


OpenState: TypeAlias = Literal["queued", "running", "retrying", "blocked"]

TARGET = Target()
OPEN = ("queued", "running", "retrying", "blocked")
CANCEL = RunOrder(
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
    which: RunFilterOptions = WHICH
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
    with open_app(target, makes_store=False) as app:
        if len(runs) == 1 and chosen == ONE_BY_ONE:
            _tell(app.runs.cancel(find_promise(app, runs[0]), reason=reason), target)
            return 0
        care = ConfirmOptions(which=chosen.which, dry_run=chosen.dry_run, yes=chosen.yes)
        carrying = BulkOrder(app=app, order=CANCEL, care=care, target=target)
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
    return undo_command(*words)


RETRY = RunOrder(
    verb="Retry",
    done="Queued again",
    states=("dead", "retrying"),
    usual=("dead",),
    option="--dead",
    is_asked=False,
    no_undo="duly run cancel, for each of them",
    is_stopped=True,
)
DISCARD = RunOrder(
    verb="Discard",
    done="Discarded",
    states=("dead",),
    usual=("dead",),
    option="--dead",
    is_asked=True,
    no_undo="none; the record stays",
)


def retry(  # noqa: PLR0913 - each choice is an option
    *runs: RunNames,
    retrying: bool = False,
    care: ConfirmOptions = CARE,
    doubt: DoubtOptions = DOUBT,
    reason: str | None = None,
    target: Target = TARGET,
) -> int:
    """Queue dead runs again with a fresh budget, or try those that wait at once.

    Name the runs, or choose them: --dead --task charge --since -2h. A run in doubt is named alone
    (duly inbox).

    Parameters
    ----------
    retrying
        Choose runs that wait for another attempt.
    reason
        Why; it is recorded.
    """
    more = ("retrying",) if retrying else ()
    with open_app(target, makes_store=False) as app:
        order = RETRY
        is_one = len(runs) == 1 and not (care.dead or more or care.which != WHICH)
        if is_one and (found := find_run(app, runs[0])).state == RunState.AMBIGUOUS:
            if not care.dry_run:
                again = retry_doubtful(app, found, reason, doubt)
                tell(again, "Queued again", target, stop_text(again))
                return 0
            order = replace(RETRY, states=(*RETRY.states, RunState.AMBIGUOUS))
        elif doubt.known:
            key, remedy = next(iter(doubt.known)), "name one run, and look at it: duly inbox"
            raise UsageError("--done", key, "is about a run in doubt, and about one alone", remedy)
        carry = BulkOrder(app=app, order=order, care=care, target=target)
        return carry.out(runs, more, partial(app.runs.retry, reason=reason))


def discard(
    *runs: RunNames, reason: str, care: ConfirmOptions = CARE, target: Target = TARGET
) -> int:
    """Give up dead runs for good: their record stays, but they can't be tried any more.

    Name the runs, or choose them: --dead --task charge --since -2h.

    Parameters
    ----------
    reason
        Why; it is recorded.
    """
    with open_app(target, makes_store=False) as app:
        carry = BulkOrder(app=app, order=DISCARD, care=care, target=target)
        return carry.out(runs, (), partial(app.runs.discard, reason=reason))


ARGUMENTS = ArgumentOptions()


def edit(
    run: RunName,
    /,
    *,
    arguments: ArgumentOptions = ARGUMENTS,
    reason: str | None = None,
    target: Target = TARGET,
) -> None:
    """Give a dead run other arguments: --arguments replaces all of them, -a changes one.

    Parameters
    ----------
    reason
        Why; it is recorded.
    """
    if not arguments.is_given:
        remedy = "give --arguments '{…}', or -a class_id=42"
        raise UsageError("arguments", None, "is missing", remedy)
    with open_app(target, makes_store=False) as app:
        before = find_run(app, run)
        given = dict(read_arguments(arguments))
        new = given if arguments.arguments is not None else {**before.arguments, **given}
        edited = app.runs.edit(before.id, new, reason=reason)
        old = json.dumps(before.arguments, ensure_ascii=False)
        words = ("run", "edit", str(edited.id), "--arguments", old, "--reason", UNSAID)
        taking_back = undo_command(*words)
        if target.json:
            print_json({**edited.to_json(), "undo": taking_back})
            return
        now = json.dumps(edited.arguments, ensure_ascii=False)
        print_line(f"{edited.label} has other arguments: {old} → {now}.")
        print_line(f"It stays dead until it is tried: duly run retry {edited.id}")
        print_undo(taking_back)
        note_unchecked(app, edited.task)


RepeatedRuns = Annotated[
    str, Parameter(help="Its id, the beginning of it, or its label; or several.")
]
EndedState: TypeAlias = Literal[
    "dead", "failed", "succeeded", "cancelled", "discarded", "skipped", "ambiguous"
]
WENT_WRONG = ("dead", "failed")


def rerun(  # noqa: PLR0913 - each choice is an option
    *runs: RepeatedRuns,
    reason: Reason,
    repair: bool = False,
    doubt: DoubtOptions = DOUBT,
    state: tuple[EndedState, ...] = (),
    which: RunFilterOptions = WHICH,
    chosen: SetOptions = SET,
    target: Target = TARGET,
) -> int:
    """Run once more, each as another run, what runs were to do.

    Name them, or choose them: --task charge --since -2h chooses what is dead or failed. What may do
    something a second time is rerun by itself, with --confirm. Of a repair, --done and --not-done
    say what is known of unknown effects.

    Parameters
    ----------
    repair
        Share its record of effects: what is done is not done again. Without it everything is.
    state
        Choose runs in this state, such as succeeded; may be given several times.
    """
    which = which.located(as_json=target.json)
    with open_app(target, makes_store=False) as app:
        if _is_one(runs, state, which, chosen):
            found = app.inbox.rerun(
                find_run(app, runs[0]).id,
                reason=reason,
                repair=repair,
                effects=doubt.known or None,
                confirm=doubt.confirm,
            )
            tell(found, f"Queued as a {found.origin} of {found.root}", target, stop_text(found))
            return 0
        _refuse_doubt(doubt)
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


def _refuse_doubt(doubt: DoubtOptions) -> None:
    """Refuse what can be said of one run only."""
    given = {"--confirm": doubt.confirm, "--done": doubt.done, "--not-done": doubt.not_done}
    for option, value in given.items():
        if value:
            raise UsageError(option, value, "is about one run", "name that run alone")


def skip(
    *runs: RepeatedRuns,
    reason: Reason,
    which: RunFilterOptions = WHICH,
    chosen: SetOptions = SET,
    target: Target = TARGET,
) -> int:
    """Leave runs in doubt as they are, and record that nobody will do more about them.

    Name them, or choose them: --task charge --until -30d.
    """
    which = which.located(as_json=target.json)
    with open_app(target, makes_store=False) as app:
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
    runs: Sequence[str], state: Sequence[str], which: RunFilterOptions, chosen: SetOptions
) -> bool:
    """Say whether it is one run, named, with nothing to look at before; it is not asked about."""
    return len(runs) == 1 and not state and which == WHICH and replace(chosen, yes=False) == SET


def _frozen(
    app: App,
    runs: Sequence[str],
    states: Sequence[str],
    said: tuple[RunFilterOptions, SetOptions, bool],
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
    return undo_command("run", "cancel", str(done[0].made), "--reason", UNSAID)
