"""Advice about a run that is in doubt: the safest thing to do, why, and what the others risk (E5).

Pure: what is known goes in, one recommendation comes out. Nothing here is carried out by itself;
whoever chooses gives a reason, and that is on record beside what was advised.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from duly.domain.literals import Effects, Finding


class Choice(StrEnum):
    """What a person can do about a run that is in doubt."""

    RETRY = "retry"
    """The same run again, from its beginning; the ledger of effects goes on."""
    RESUME = "resume"
    """The same run again, from its last checkpoint."""
    REPAIR = "repair"
    """Another run that shares the ledger: what is done returns its result, the rest is done."""
    RECONCILE = "reconcile"
    """Find out outside what took place, and record it: done, or failed."""
    SKIP = "skip"
    """Leave it, and record that nobody will."""


class Doubt(NamedTuple):
    """All that is known about a run that is in doubt."""

    effects: Effects
    done: int = 0
    """Effects of which the ledger says that they are done,"""
    unknown: int = 0
    """and those of which nobody knows."""
    is_whole: bool = False
    """Whether its effects were begun as a whole, without keys: the ledger can't tell which."""
    has_checkpoint: bool = False
    has_check: bool = False
    """Whether its task declares how to find out (`verify`)."""
    finding: Finding | None = None
    """What that found, if it was asked."""
    has_late_success: bool = False
    """Whether the lost worker said, after its run was taken from it, that it had succeeded."""


class Advice(NamedTuple):
    """What is safest, why, and what each other choice risks."""

    choice: Choice
    why: str
    risks: dict[Choice, str]

    def is_risky(self, choice: Choice) -> bool:
        """Say whether a choice may do something twice: it must be confirmed by name."""
        return choice in _REPEATING and choice is not self.choice


_REPEATING = frozenset((Choice.RETRY, Choice.RESUME, Choice.REPAIR))


def advise(doubt: Doubt) -> Advice:
    """Return what is safest. Total, and never a repetition of what may have been done."""
    choice, why = _safest(doubt)
    risks = {other: _risk(other, doubt) for other in Choice if other is not choice}
    return Advice(choice, why, risks)


def _safest(doubt: Doubt) -> tuple[Choice, str]:
    if doubt.finding is not None and doubt.finding is not Finding.UNKNOWN:
        return _by_finding(doubt, doubt.finding)
    if doubt.effects is not Effects.UNSAFE:
        return Choice.RETRY, f"its task is {doubt.effects}: doing it again does no harm"
    if not doubt.unknown and not doubt.is_whole:
        return _by_ledger(doubt)
    if doubt.has_check and doubt.finding is None:
        return Choice.RECONCILE, f"{_in_doubt(doubt)}; its task can check: ask it"
    said = "; its worker said too late that it had succeeded" if doubt.has_late_success else ""
    return Choice.RECONCILE, f"{_in_doubt(doubt)}{said}: look on the other side, then record it"


def _by_finding(doubt: Doubt, finding: Finding) -> tuple[Choice, str]:
    if finding is Finding.PRESENT:
        return Choice.RECONCILE, "its check found everything in place: record it as done"
    if finding is Finding.ABSENT:
        return Choice.RETRY, "its check found nothing in place: doing it again repeats nothing"
    if doubt.unknown or doubt.is_whole:
        return Choice.RECONCILE, "its check found a part in place, and nobody knows which effect"
    return Choice.REPAIR, "its check found a part in place, and the ledger knows which"


def _by_ledger(doubt: Doubt) -> tuple[Choice, str]:
    if not doubt.done:
        return Choice.RETRY, "no effect of it is on record as begun"
    known = f"all {doubt.done} effects that were begun are on record as done"
    if doubt.has_checkpoint:
        return Choice.RESUME, f"{known}, and a checkpoint says where to go on"
    return Choice.RETRY, f"{known}: another attempt does none of them again"


def _in_doubt(doubt: Doubt) -> str:
    if doubt.is_whole:
        return "its effects were begun, and nobody knows how far they got"
    if doubt.unknown == 1 and not doubt.done:
        return "its effect may or may not have happened"
    return f"{doubt.unknown} of {doubt.done + doubt.unknown} effects may or may not have happened"


def _risk(choice: Choice, doubt: Doubt) -> str:
    harm = (
        "does what may have been done a second time"
        if doubt.effects is Effects.UNSAFE and (doubt.unknown or doubt.is_whole)
        else "costs time, and repeats nothing that is on record as done"
    )
    match choice:
        case Choice.RETRY:
            return harm
        case Choice.RESUME:
            if not doubt.has_checkpoint:
                return f"there is no checkpoint: as retry, {harm}"
            return f"{harm}, as far as it lies behind the checkpoint"
        case Choice.REPAIR:
            return f"{harm}; what is on record as done is not repeated"
        case Choice.RECONCILE:
            return "takes a person's time, and is only as right as what was looked at"
        case Choice.SKIP:
            return "what was not done stays undone"
