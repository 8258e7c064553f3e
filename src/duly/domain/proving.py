"""Proof: whether what an occurrence was to bring about is done, all of it and once (E6).

Succeeding says that the code returned. What was brought about is another fact: a check found it in
place, or every item that was expected is done, once. Without either there is no proof.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from duly.domain.literals import Finding, RunState
from duly.domain.runs import VerdictKind

if TYPE_CHECKING:
    from duly.domain.scope import Scope


class Standing(StrEnum):
    """How sure one can be of an occurrence."""

    PROVEN = "proven"
    UNVERIFIED = "unverified"
    """It has succeeded, and nothing says what that brought about."""
    REFUTED = "refuted"
    """It has succeeded, and a check or its items say that something is missing or was repeated."""
    AMBIGUOUS = "ambiguous"
    UNFINISHED = "unfinished"
    FAILED = "failed"
    NOT_RUN = "not-run"
    UNKNOWN = "unknown"
    """It is so long ago that its record is gone."""


class Line(NamedTuple):
    """All that is known of an occurrence: the states of its runs, and what they brought about."""

    verdict: VerdictKind
    states: tuple[RunState, ...]
    """Of its run and of those that repeat it, the first one first."""
    finding: Finding | None
    """What the last check found."""
    scope: Scope


_UNFINISHED = frozenset((RunState.BLOCKED, RunState.QUEUED, RunState.RUNNING, RunState.RETRYING))


def judge(line: Line) -> tuple[Standing, str]:
    """Say how an occurrence stands, and why. Total."""
    if not line.states:
        return _without_run(line.verdict)
    if RunState.AMBIGUOUS in line.states:
        return Standing.AMBIGUOUS, "nobody knows what a run of it did: see the inbox"
    if _UNFINISHED & {*line.states}:
        return Standing.UNFINISHED, "a run of it is still to end"
    successes = line.states.count(RunState.SUCCEEDED)
    if not successes:
        return Standing.FAILED, f"its run is {line.states[-1]}"
    return _by_result(line, successes)


def _without_run(verdict: VerdictKind) -> tuple[Standing, str]:
    match verdict:
        case VerdictKind.UNKNOWN:
            return Standing.UNKNOWN, "its record has been removed"
        case VerdictKind.SKIPPED:
            return Standing.NOT_RUN, "it was skipped"
        case VerdictKind.PENDING | VerdictKind.OWED:
            return Standing.UNFINISHED, "its run is not made yet"
        case _:
            return Standing.NOT_RUN, "there is no run of it, and there should be"


def _by_result(line: Line, successes: int) -> tuple[Standing, str]:
    scope = line.scope
    if scope.repeated:
        return Standing.REFUTED, f"{scope.repeated:,} items were done more than once"
    if scope.expected is not None and scope.done != scope.expected:
        told = f"{scope.done:,} of {scope.expected:,} items are done"
        return Standing.REFUTED, told
    if line.finding in (Finding.ABSENT, Finding.PARTIAL):
        return Standing.REFUTED, f"its check found the result {line.finding}"
    counted = scope.expected is not None
    if line.finding is Finding.PRESENT:
        also = f", and all {scope.expected:,} items are done, each once" if counted else ""
        return Standing.PROVEN, f"its check found the result in place{also}"
    if counted:
        return Standing.PROVEN, f"all {scope.expected:,} items are done, each once"
    often = "" if successes == 1 else f" {successes} times"
    return Standing.UNVERIFIED, f"it has succeeded{often}, and nothing says what it brought about"
