"""Ledger of external effects, and advice about ambiguous runs.

The ledger holds one entry for each effect of a run, under a key that the task chooses. Entries
belong to the first run of the line, so that retries and repair reruns share them. An effect is
intended before it begins and done when the code reports it. An effect whose attempt ended in
between is unknown: Duly cannot tell whether it took place. The store applies these decisions under
the claim's fence.

`advise` is pure and returns one recommendation. Duly carries out none of it. The operator that
chooses gives a reason, which is recorded beside the advice. `settled_by` says which unknown effects
a decision settles: the ledger has them as done or no more, and no later order asks about them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from duly.domain.enums import Effects, Finding
from duly.domain.verification import Scope
from duly.errors import UsageError, require_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from duly.domain.ids import RunId


EFFECT_KEY_LENGTH_MAX = 200
EFFECT_RESULT_BYTES_MAX = 64 * 1024
LEAST_TIME_LEFT_US = 1_000_000
"""So much of an attempt's time must be left when an effect is begun: one that is ended in the
middle would be a maybe that could have been avoided."""


class EffectState(StrEnum):
    """What is known of an effect."""

    INTENDED = "intended"
    """It was permitted, and its attempt has said nothing since."""
    DONE = "done"
    UNKNOWN = "unknown"
    """Its attempt ended before it could say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectRecord:
    """An entry of the ledger."""

    root: RunId
    key: str
    state: EffectState
    run_id: RunId
    """Of the run, and below of the attempt, that was last permitted to do it."""
    fence: int
    begun_at: int
    done_at: int | None = None
    result: str | None = None
    """What it gave, as JSON text."""
    tries: int = 1
    """How often it was permitted."""


class Grant(StrEnum):
    """The answer to who wants to begin an effect."""

    GRANTED = "granted"
    DONE = "done"
    """It was done before; its result is kept."""
    UNKNOWN = "unknown"
    """It may have been done before, and the task is not one that may be repeated."""
    GONE = "gone"
    """The run is no longer the asker's."""
    STOPPING = "stopping"
    """Somebody asked the run to stop."""
    TOO_LATE = "too-late"
    """What is left of its time is not enough."""


class EffectPermission(NamedTuple):
    """The answer as the code that asked gets it."""

    grant: Grant
    result: str | None = None
    """Of an effect that was done before, as JSON text."""


class ClaimCheck(NamedTuple):
    """A claim as it is when its attempt asks to begin an effect."""

    is_ours: bool
    is_cancel_asked: bool
    deadline_at: int | None
    now: int


def may_begin(boundary: ClaimCheck) -> Grant:
    """Decide whether an attempt may begin any effect now."""
    if not boundary.is_ours:
        return Grant.GONE
    if boundary.is_cancel_asked:
        return Grant.STOPPING
    deadline = boundary.deadline_at
    if deadline is not None and deadline - boundary.now < LEAST_TIME_LEFT_US:
        return Grant.TOO_LATE
    return Grant.GRANTED


def may_repeat(known: EffectRecord | None, asker: tuple[RunId, int], effects: Effects) -> Grant:
    """Decide about one effect, by what the ledger knows of it and what the task declares.

    The asker is a run and its fence. Who has been permitted already asks once more, because the
    answer was lost: nothing has happened since.
    """
    if known is None:
        return Grant.GRANTED
    if known.state is EffectState.DONE:
        return Grant.DONE
    if known.state is EffectState.INTENDED and (known.run_id, known.fence) == asker:
        return Grant.GRANTED
    return Grant.UNKNOWN if effects is Effects.UNSAFE else Grant.GRANTED


def intended(
    known: EffectRecord | None, place: tuple[RunId, str], asker: tuple[RunId, int], now: int
) -> EffectRecord:
    """Return the entry of an effect that was permitted to a run under its fence.

    The place is the line's first run, and the key. Asking again is no other try.
    """
    run_id, fence = asker
    if known is None:
        root, key = place
        return EffectRecord(
            root=root,
            key=key,
            state=EffectState.INTENDED,
            run_id=run_id,
            fence=fence,
            begun_at=now,
        )
    tries = known.tries if (known.run_id, known.fence) == asker else known.tries + 1
    return replace(known, state=EffectState.INTENDED, run_id=run_id, fence=fence, tries=tries)


class EffectReport(NamedTuple):
    """What an attempt says about an effect that it was permitted, and when."""

    asker: tuple[RunId, int]
    is_done: bool
    result: str | None
    now: int


def told(known: EffectRecord | None, word: EffectReport) -> tuple[bool, EffectRecord | None]:
    """Decide whether a word about an effect is taken, and what its entry is then; None for none.

    Only who intends it can say; saying the same again is taken, and changes nothing.
    """
    if known is None:
        return not word.is_done, None
    if (known.run_id, known.fence) != word.asker:
        return False, known
    if known.state is EffectState.DONE:
        return word.is_done, known
    if word.is_done:
        return True, replace(known, state=EffectState.DONE, done_at=word.now, result=word.result)
    # Others may have intended it before, and of them nobody knows.
    return True, replace(known, state=EffectState.UNKNOWN) if known.tries > 1 else None


def seen_by(known: EffectRecord, open_attempt: tuple[RunId, int] | None) -> EffectState:
    """Return what is known of an effect, given which attempt of its line is open, if any.

    An intention outlives its attempt in the ledger, and means then that nobody knows.
    """
    if known.state is EffectState.INTENDED and (known.run_id, known.fence) != open_attempt:
        return EffectState.UNKNOWN
    return known.state


def require_effect_key(key: str) -> None:
    """Refuse what can't be the key of an effect."""
    require_text("key", key, EFFECT_KEY_LENGTH_MAX)
    if not key.strip():
        raise UsageError("key", key, "names no effect", "say what is done, such as 'charge:1042'")


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


def settled_by(
    choice: Choice, named: Mapping[str, bool], unknown: Iterable[str], *, is_done: bool = False
) -> dict[str, bool]:
    """Return which unknown effects a decision settles, each as done or as not done.

    What it leaves out stays unknown. A run that goes on takes what is not named as not done, which
    is confirmed beforehand. A run that is done has all of its effects done. That a run failed says
    nothing about an effect that is not named: some of what it was to do may have happened.
    """
    match choice:
        case Choice.RETRY | Choice.RESUME:
            return {key: named.get(key, False) for key in unknown}
        case Choice.RECONCILE if is_done:
            return {key: named.get(key, True) for key in unknown}
        case Choice.RECONCILE | Choice.REPAIR:
            return {key: named[key] for key in unknown if key in named}
        case Choice.SKIP:
            return {}


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
    scope: Scope = Scope()
    """How much it was to do, and what of that is on record as done."""

    @property
    def may_repeat(self) -> bool:
        """Whether another attempt may do something a second time, unless it is settled first."""
        is_open = self.effects is Effects.UNSAFE and (self.unknown > 0 or self.is_whole)
        return is_open and self.finding is not Finding.ABSENT


class Advice(NamedTuple):
    """What is safest, why, and what each other choice risks."""

    choice: Choice
    why: str
    risks: dict[Choice, str]
    may_repeat: bool
    """Whether another attempt may do something a second time, unless it is settled first."""

    def is_risky(self, choice: str) -> bool:
        """Say whether a choice may do something twice.

        It is confirmed by the run's id, unless the order says of each unknown effect whether it has
        happened.
        """
        return self.may_repeat and choice in _REPEATING


_REPEATING = frozenset((Choice.RETRY, Choice.RESUME, Choice.REPAIR))


def advise(doubt: Doubt) -> Advice:
    """Return what is safest. Total, and never a repetition of what may have been done."""
    choice, why = _safest(doubt)
    if doubt.scope.has_missing:
        why = f"{doubt.scope.count_text}; {why}"
    risks = {other: _risk(other, doubt) for other in Choice if other is not choice}
    return Advice(choice, why, risks, doubt.may_repeat)


def _safest(doubt: Doubt) -> tuple[Choice, str]:
    if doubt.finding is not None and doubt.finding is not Finding.UNKNOWN:
        return _by_finding(doubt, doubt.finding)
    if doubt.effects is not Effects.UNSAFE:
        return Choice.RETRY, f"its task is {doubt.effects}: doing it again does no harm"
    if not doubt.unknown and not doubt.is_whole:
        return _by_ledger(doubt)
    if doubt.scope.has_missing and not doubt.is_whole:
        return _by_items(doubt)
    if doubt.has_check and doubt.finding is None:
        return Choice.RECONCILE, f"{_in_doubt(doubt)}; its task can check: ask it"
    said = _said_too_late(doubt)
    return Choice.RECONCILE, f"{_in_doubt(doubt)}{said}: look on the other side, then record it"


def _by_items(doubt: Doubt) -> tuple[Choice, str]:
    """Settle what is unknown, and go on: closing the run would leave the rest undone."""
    choice = Choice.RESUME if doubt.has_checkpoint else Choice.RETRY
    look = "look on the other side"
    if doubt.has_check and doubt.finding is None:
        look = "ask its task's check, or look on the other side"
    rest = "say what has happened, and it goes on with the rest"
    return choice, f"{_in_doubt(doubt)}{_said_too_late(doubt)}: {look}, {rest}"


def _said_too_late(doubt: Doubt) -> str:
    return "; its worker said too late that it had succeeded" if doubt.has_late_success else ""


def _by_finding(doubt: Doubt, finding: Finding) -> tuple[Choice, str]:
    if finding is Finding.PRESENT:
        return Choice.RECONCILE, "its check found everything in place: record it as done"
    if finding is Finding.ABSENT:
        return Choice.RETRY, "its check found nothing in place: doing it again repeats nothing"
    if doubt.unknown and not doubt.is_whole and doubt.scope.has_missing:
        return _by_items(doubt)
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


REPEATS = "does what may have been done a second time"
"""The risk of another attempt. As every risk it begins with its verb: "this does …"."""


def _risk(choice: Choice, doubt: Doubt) -> str:
    harm = REPEATS
    if not doubt.may_repeat:
        harm = "costs time, and repeats nothing that is on record as done"
    match choice:
        case Choice.RETRY:
            return harm
        case Choice.RESUME if not doubt.has_checkpoint:
            return f"{harm}; without a checkpoint it begins anew, as retry does"
        case Choice.RESUME:
            return f"{harm}, from its last checkpoint on" if doubt.may_repeat else harm
        case Choice.REPAIR:
            also = "; what is on record as done is not repeated"
            return f"{harm}{also}" if doubt.may_repeat else harm
        case Choice.RECONCILE:
            left = f"; closes it with {doubt.scope.count_text}" if doubt.scope.has_missing else ""
            return f"takes a person's time, and is only as right as what was looked at{left}"
        case Choice.SKIP:
            return "leaves undone what was not done"
