"""Pausing and resuming many schedules: chosen by a filter, shown, ordered about as shown (A1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Annotated

from cyclopts import Parameter

from duly.app import App
from duly.cli.frozen_orders import SET, FrozenOrder, SetOptions
from duly.cli.references import find_schedule
from duly.cli.schedule.telling import undo
from duly.cli.target import Target
from duly.cli.undoing import UNSAID
from duly.client.schedule_selections import OrderedSchedule
from duly.errors import UsageError

NAMED_MAX = 20
"""So many names still fit into a command that somebody types."""


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleOptions:
    """Which schedules; those that fit all that is said."""

    task: str | None = None
    """All that run this task."""
    owner: str | None = None
    """All that belong to this owner."""
    prefix: str | None = None
    """All whose name begins like this."""
    all_: Annotated[bool, Parameter(name="--all")] = False
    """All that there are."""

    @property
    def is_given(self) -> bool:
        """Whether anything is said."""
        return any(getattr(self, one.name) for one in fields(self))


ANY = ScheduleOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Which schedules somebody means: by name, by a filter, or as they were shown before."""

    names: Sequence[str]
    which: ScheduleOptions
    chosen: SetOptions
    reason: str | None
    target: Target
    options: tuple[str, ...] = ()
    """What else was said, to be typed again."""

    @property
    def is_one(self) -> bool:
        """Whether it is one schedule, named, with nothing to look at before; it is not asked."""
        is_looked_at = replace(self.chosen, yes=False) != SET
        return len(self.names) == 1 and self.which == ANY and not is_looked_at

    def frozen(self, app: App) -> str:
        """Return the id of the set that is meant: one that there is, or one frozen now."""
        ways = [bool(self.names), self.which.is_given, self.chosen.selection is not None]
        if sum(ways) > 1:
            remedy = "name schedules, choose them by a filter, or give --selection"
            raise UsageError("name", next(iter(self.names), None), "is one way too many", remedy)
        if not any(ways):
            remedy = "name schedules, or choose them: --task, --owner, --prefix, --all"
            raise UsageError("name", None, "is missing", remedy)
        if self.chosen.selection is not None:
            return self.chosen.selection
        if self.names:
            ids = [find_schedule(app, name).id for name in self.names]
            return str(app.schedule_selections.freeze(schedules=ids).id)
        which = self.which
        found = app.schedule_selections.freeze(
            task=which.task, owner=which.owner, name_prefix=which.prefix
        )
        return str(found.id)


def order_chosen(
    app: App, verb: str, asked: Asked, carry: Callable[[str, int], Sequence[OrderedSchedule]]
) -> int:
    """Pause or resume what is meant: shown, asked about, carried out, told."""
    selection = asked.frozen(app)
    preview = app.schedule_selections.preview(selection, verb)
    other = "resume" if verb == "pause" else "pause"
    order = FrozenOrder(
        verb=verb.capitalize(),
        done="Paused" if verb == "pause" else "Resumed",
        noun="schedule",
        words=("schedule", verb, *asked.options),
        reason=asked.reason,
        undo=lambda done: _undo(other, done),
        no_undo=f"duly schedule {other}, by their names or by a filter",
        asked=asked.chosen,
        target=asked.target,
    )
    return order.out(preview, lambda: carry(selection, preview.count))


def _undo(verb: str, done: Sequence[OrderedSchedule]) -> str | None:
    if len(done) > NAMED_MAX:
        return None
    yes = () if len(done) == 1 else ("--yes",)
    return undo(verb, *(one.name for one in done), "--reason", UNSAID, *yes)
