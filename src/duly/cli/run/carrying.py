"""Orders about several runs: named one by one, or chosen by a filter, looked at, and carried out.

Which runs a filter finds is shown and frozen before anything is done: the order touches these and
no others, whatever becomes of others meanwhile (A1).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, TypeAlias

from cyclopts import Parameter

from duly.app import App
from duly.cli.agreeing import is_agreed, require_answer
from duly.cli.output import print_json, print_line
from duly.cli.references import find_run
from duly.cli.run.look import print_runs
from duly.cli.run.selection import RunOptions, select_runs
from duly.cli.run.story import utc_iso
from duly.cli.target import Target
from duly.cli.undoing import UNSAID, print_undo, undo_text
from duly.client.run_orders import OrderedRun
from duly.client.run_view import Run
from duly.domain.time_texts import utc_text
from duly.errors import UsageError

WHICH = RunOptions()
CHOSEN_MAX = 10_000
SHOWN_MAX = 20
REFUSED, DECLINED = 4, 1
Carry: TypeAlias = Callable[[list[Any]], list[OrderedRun]]


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class CareOptions:
    """Which runs an order is about, whether to look first, and whether to ask."""

    dead: bool = False
    """Choose dead runs, all that fit the other options."""
    which: RunOptions = WHICH
    dry_run: bool = False
    """Show which runs would be touched, and touch none."""
    yes: bool = False
    """Do not ask."""


CARE = CareOptions()
RunNames = Annotated[str, Parameter(help="Their ids, beginnings of ids, or labels.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
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
class Carrying:
    """Shows what is chosen, asks, carries an order out, and tells what it has done."""

    app: App
    order: Order
    care: CareOptions
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
            require_answer(len(chosen))
            _print_chosen(chosen, as_of)
            if not is_agreed(self.order.verb, len(chosen)):
                print_line("Nothing was changed.")
                return DECLINED
        return self._told(chosen, carry([run.id for run in chosen]))

    def _choose(self, names: Sequence[str], states: tuple[str, ...]) -> list[Run]:
        """Return the runs that are named, or those that a filter finds; never both, never all."""
        app, which = self.app, self.care.which
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
            print_line(f"{self.order.done}: {len(done):,} runs.")
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
        return undo_text("run", "cancel", str(done[0].id), "--reason", UNSAID)


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
