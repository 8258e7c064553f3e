"""Confirmation of orders at the terminal, undo lines, and orders about frozen sets.

`FrozenOrder` shows what the store recorded: the items of the set, the instant at which they were
chosen, and what the order would do to each. `--dry-run` prints the id of the set, and `--selection`
orders exactly that set later.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

from cyclopts import Parameter

from duly.cli.context import TENANT_VARIABLE, Target
from duly.cli.output import print_json, print_line, print_table
from duly.client.parameters import ONE_BY_ONE_MAX
from duly.errors import UsageError
from duly.timetable.instants import utc_text

if TYPE_CHECKING:
    from duly.client.selections import OrderPreview, PreviewedItem

TYPED_ABOVE = 100
"""Above so many, a y is not enough: the number is typed."""


def require_confirmation(count: int, looking: str = "--dry-run", noun: str = "run") -> None:
    """Refuse to go on where nobody can be asked, before anything is shown."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        remedy = f"give it to go on, or look first with {looking}"
        things = noun if count == 1 else f"{noun}s"
        problem = f"{things} would be touched, and nobody can be asked here"
        raise UsageError("--yes", count, problem, remedy)


def confirm(verb: str, count: int, noun: str = "run") -> bool:
    """Ask the person at the terminal."""
    try:
        if count > TYPED_ABOVE:
            question = f"{verb} {counted(count, noun)}? Type the number to go on: "
            return input(question).strip().replace(",", "") == str(count)
        return input(f"{verb} {counted(count, noun)}? [y/N] ").strip().lower() in ("y", "yes")
    except (EOFError, KeyboardInterrupt):
        return False


def counted(count: int, noun: str) -> str:
    """Say how many there are: "1 run", "1,200 runs"."""
    return f"1 {noun}" if count == 1 else f"{count:,} {noun}s"


UNSAID = "…"
"""Where the next person says why."""
_PLACE_OPTIONS = ("--url", "--app")
_PASSWORD = re.compile(r"(?<=://)([^:/@]*):[^@/]*(?=@)")
_PASSWORD_PART = re.compile(r"[?&]password=[^&]*")


def undo_command(*words: str) -> str:
    """Return the command that takes back an order, with the store and the program of this one."""
    tenant = os.environ.get(TENANT_VARIABLE)
    whose = ("--tenant", tenant) if tenant else ()
    return shlex.join(("duly", *whose, *words, *place_words(sys.argv[1:])))


def place_words(typed: list[str]) -> list[str]:
    """Return which store and program somebody typed, to be typed again; but no password."""
    found: dict[str, str] = {}
    for number, word in enumerate(typed):
        name, separator, value = word.partition("=")
        if name in _PLACE_OPTIONS and separator:
            found[name] = value
        elif word in _PLACE_OPTIONS and number + 1 < len(typed):
            found[name] = typed[number + 1]
    return [part for name, value in found.items() for part in (name, _without_password(value))]


def print_undo(command: str) -> None:
    """Print how to undo what was done."""
    print_line(("undo: ", "dim"), command)


def _without_password(url: str) -> str:
    return _PASSWORD_PART.sub("", _PASSWORD.sub(r"\1", url))


SHOWN_MAX = 20
CHANGED, DECLINED = 4, 1
"""Exit codes: something changed between the look and the order; somebody said no."""


class Done(Protocol):
    """What an order has done to one of a set."""

    @property
    def id(self) -> UUID:
        """Which one."""
        ...

    @property
    def is_done(self) -> bool:
        """Whether it was carried out."""
        ...

    @property
    def why(self) -> str | None:
        """Why not."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        ...


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class SetOptions:
    """Whether to look first, whether to ask, and which set, if it was looked at before."""

    selection: str | None = None
    """Exactly what an earlier --dry-run has shown, by the id that it told."""
    dry_run: bool = False
    """Show what would be touched and what left alone, and touch nothing."""
    yes: bool = False
    """Do not ask."""


SET = SetOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenOrder:
    """One order about a frozen set, and how it is told."""

    verb: str
    """What is asked: "Rerun"."""
    done: str
    """What is said afterwards: "Queued once more"."""
    noun: str
    words: tuple[str, ...]
    """The command, to be typed again, with all that it says but which and why."""
    reason: str | None
    undo: Callable[[Sequence[Any]], str | None]
    """How to take back what was done; None where no single command does."""
    no_undo: str
    asked: SetOptions
    target: Target

    def out(self, preview: OrderPreview, carry: Callable[[], Sequence[Done]]) -> int:
        """Show what would happen, ask, carry it out, and tell what was done to each."""
        self._require(preview)
        if self.asked.dry_run or not preview.touched:
            self._tell(preview)
            return 0
        if not self.asked.yes:
            require_confirmation(preview.touched, noun=self.noun)
            _print_preview(self, preview)
            if not confirm(self.verb, preview.touched, self.noun):
                print_line("Nothing was changed.")
                return DECLINED
        return self._told(preview, carry())

    def _require(self, preview: OrderPreview) -> None:
        """Refuse what would be refused afterwards, before anybody is asked."""
        if preview.count > ONE_BY_ONE_MAX:
            problem = f"are too many to {self.verb.lower()}"
            remedy = f"choose fewer: {ONE_BY_ONE_MAX:,} at a time"
            given = counted(preview.count, self.noun)
            raise UsageError("selection", given, problem, remedy)
        if not self.asked.dry_run and not (self.reason or "").strip():
            remedy = "say why, in a few words: it is kept with the decision"
            raise UsageError("reason", None, "is missing", remedy)

    def _tell(self, preview: OrderPreview) -> None:
        again = _again(self, preview)
        if self.target.json:
            print_json({"is_done": False, **preview.to_json(), "carry_out": again})
            return
        _print_preview(self, preview)
        print_line("Nothing was changed.")
        if preview.touched:
            print_line(("to order just that: ", "dim"), again)

    def _told(self, preview: OrderPreview, answers: Sequence[Done]) -> int:
        done = [one for one in answers if one.is_done]
        taking_back = self.undo(done) if done else None
        # What the preview has told of is as agreed; anything else has changed in between.
        is_as_shown = len(done) == preview.touched
        if self.target.json:
            told = [one.to_json() for one in answers]
            what = {"is_done": is_as_shown, "selection": str(preview.id), preview.of: told}
            print_json({**what, "undo": taking_back})
        else:
            print_line(f"{self.done}: {counted(len(done), self.noun)}.")
            _print_left(preview, [one for one in answers if not one.is_done])
            if done:
                print_undo(taking_back or self.no_undo)
        return 0 if is_as_shown else CHANGED


def _again(order: FrozenOrder, preview: OrderPreview) -> str:
    which = ("--selection", str(preview.id), "--reason", UNSAID)
    return undo_command(*order.words, *which)


def _print_preview(order: FrozenOrder, preview: OrderPreview) -> None:
    whole, part = counted(preview.count, order.noun), f"{preview.touched:,}"
    print_line(f"{whole} as of {utc_text(preview.as_of)}, of which {part} would be touched:")
    if preview.first:
        print_table((order.noun, "is", "id"), [_row(one) for one in preview.first])
    if preview.touched > len(preview.first):
        print_line(f"… and {preview.touched - len(preview.first):,} more")
    for why, count in preview.left_by.items():
        some = f"{counted(count, order.noun)}, because {'it' if count == 1 else 'each'} {why}"
        print_line(("left alone: ", "bold yellow"), some)
    for one in preview.left_alone[:SHOWN_MAX]:
        print_line(f"  {one.name}" if len(preview.left_by) == 1 else f"  {one.name} {one.why}")
    more = preview.count - preview.touched - min(len(preview.left_alone), SHOWN_MAX)
    if more:
        print_line(f"  … and {more:,} more")
    until = utc_text(preview.expires_at)
    print_line((f"selection {preview.id}, kept until {until}, digest {preview.digest}", "dim"))


def _row(one: PreviewedItem) -> tuple[str, str, str]:
    return one.name, one.state or "-", str(one.id)


def _print_left(preview: OrderPreview, left: Sequence[Done]) -> None:
    names = {one.id: one.name for one in (*preview.first, *preview.left_alone)}
    for one in left[:SHOWN_MAX]:
        name = names.get(one.id, str(one.id))
        print_line(("left alone: ", "bold yellow"), f"{name} {one.why}. Id: {one.id}")
    if len(left) > SHOWN_MAX:
        print_line(f"… and {len(left) - SHOWN_MAX:,} more; --json names all of them")
