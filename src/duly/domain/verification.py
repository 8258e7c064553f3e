"""Result checks, item scope, proof that an occurrence was done.

A run that succeeded only proves that its code returned. Proof of the result is a separate fact:
a check found the result in place, or every expected item is done exactly once. Without either there
is no proof.

A task declares what it expects (a number, or names) and reports, item by item, what is done. Items
belong to the line of a run, as effects do: a repair continues with the items of the first run. An
item that is reported as done twice, by one attempt or by two, was done twice, or its code did not
know that it was done; an operator should look at either. A report whose answer was lost is sent
once more and counts once: the attempt itself says which items it repeats.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from duly.domain.enums import Finding, Lane, Origin, RunState
from duly.domain.ids import identity_text, ordered_run_id
from duly.domain.runs import OccurrenceStatusKind
from duly.errors import UsageError, require_text

if TYPE_CHECKING:
    from duly.domain.ids import RunId
    from duly.domain.runs import RunRecord
    from duly.domain.schedules import Call


CHECK_SUFFIX = ":verify"
"""After the name of a task: the name of its check, which no task of a user's can have."""
CHECKED = "of"
"""The argument that names the run to be checked."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a check found of what a run was to bring about, and by what one can tell."""

    finding: Finding
    evidence: Any = None
    """JSON values: numbers, references, a sentence."""

    @classmethod
    def present(cls, evidence: object = None) -> Verdict:
        """Return that everything is in place."""
        return cls(Finding.PRESENT, evidence)

    @classmethod
    def absent(cls, evidence: object = None) -> Verdict:
        """Return that nothing of it is."""
        return cls(Finding.ABSENT, evidence)

    @classmethod
    def partial(cls, evidence: object = None) -> Verdict:
        """Return that a part of it is."""
        return cls(Finding.PARTIAL, evidence)

    @classmethod
    def unknown(cls, evidence: object = None) -> Verdict:
        """Return that the check could not find out."""
        return cls(Finding.UNKNOWN, evidence)


def read_verdict(value: object) -> Verdict:
    """Read what a check returned: a verdict, or whether all is in place."""
    if isinstance(value, Verdict):
        return value
    if isinstance(value, bool):
        return Verdict(Finding.PRESENT if value else Finding.ABSENT)
    remedy = "return duly.Verdict.present(…), absent, partial or unknown; or True or False"
    raise UsageError("verdict", value, "is no verdict", remedy)


def check_name(task: str) -> str:
    """Return the name under which a task's check is run."""
    return task + CHECK_SUFFIX


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRun:
    """The run that checks another: made when that one ends, and once for each end of it."""

    id: RunId
    tenant: str
    call: Call
    root: RunId
    origin: Origin = Origin.VERIFY
    lane: Lane = Lane.LIVE


def check_of(record: RunRecord, nonce: int) -> CheckRun:
    """Return the run that checks another; the nonce tells one check of it from the next."""
    call = record.call
    arguments = json.dumps({CHECKED: identity_text(record.id)}, separators=(",", ":"))
    drawn = record.id + nonce.to_bytes(8)
    return CheckRun(
        id=ordered_run_id("verify", record.scheduled_for, drawn),
        tenant=record.tenant,
        call=replace(call, task=check_name(call.task), arguments=arguments),
        root=record.id,
    )


class ProofStatus(StrEnum):
    """How sure one can be of an occurrence."""

    PROVEN = "proven"
    UNVERIFIED = "unverified"
    """It has succeeded, and nothing says what that brought about."""
    REFUTED = "refuted"
    """It has succeeded, and a check or its items say that something is missing or was repeated."""
    AMBIGUOUS = "ambiguous"
    UNFINISHED = "unfinished"
    EXPECTED = "expected"
    """It is not due yet."""
    FAILED = "failed"
    NOT_RUN = "not-run"
    UNKNOWN = "unknown"
    """It is so long ago that its record is gone."""


class OccurrenceEvidence(NamedTuple):
    """All that is known of an occurrence: the states of its runs, and what they brought about."""

    verdict: OccurrenceStatusKind
    states: tuple[RunState, ...]
    """Of its run and of those that repeat it, the first one first."""
    finding: Finding | None
    """What the last check found."""
    scope: Scope
    is_due: bool = True


_UNFINISHED = frozenset((RunState.BLOCKED, RunState.QUEUED, RunState.RUNNING, RunState.RETRYING))
_STOOD_FOR = frozenset((RunState.COALESCED, RunState.REPLACED))


def judge(line: OccurrenceEvidence) -> tuple[ProofStatus, str]:
    """Say how an occurrence stands, and why. Total."""
    if not line.states:
        return _without_run(line.verdict, is_due=line.is_due)
    if RunState.AMBIGUOUS in line.states:
        return ProofStatus.AMBIGUOUS, "nobody knows what a run of it did: see the inbox"
    if _UNFINISHED & {*line.states}:
        return ProofStatus.UNFINISHED, "a run of it is still to end"
    successes = line.states.count(RunState.SUCCEEDED)
    if not successes:
        is_run = not _STOOD_FOR.issuperset(line.states)
        standing = ProofStatus.FAILED if is_run else ProofStatus.NOT_RUN
        return standing, f"its run is {line.states[-1]}"
    return _by_result(line, successes)


def _without_run(verdict: OccurrenceStatusKind, *, is_due: bool) -> tuple[ProofStatus, str]:
    match verdict:
        case OccurrenceStatusKind.PENDING if not is_due:
            return ProofStatus.EXPECTED, "it is not due yet"
        case OccurrenceStatusKind.UNKNOWN:
            return ProofStatus.UNKNOWN, "its record has been removed"
        case OccurrenceStatusKind.SKIPPED:
            return ProofStatus.NOT_RUN, "it was skipped"
        case OccurrenceStatusKind.PENDING | OccurrenceStatusKind.OWED:
            return ProofStatus.UNFINISHED, "its run is not made yet"
        case _:
            return ProofStatus.NOT_RUN, "there is no run of it, and there should be"


def _by_result(line: OccurrenceEvidence, successes: int) -> tuple[ProofStatus, str]:
    scope = line.scope
    if scope.repeated:
        some = "1 item was" if scope.repeated == 1 else f"{scope.repeated:,} items were"
        return ProofStatus.REFUTED, f"{some} done more than once"
    if scope.expected is not None and scope.done != scope.expected:
        told = f"{scope.done:,} of {scope.expected:,} items are done"
        return ProofStatus.REFUTED, told
    if line.finding in (Finding.ABSENT, Finding.PARTIAL):
        return ProofStatus.REFUTED, f"its check found the result {line.finding}"
    counted = scope.expected is not None
    if line.finding is Finding.PRESENT:
        also = f", and all {scope.expected:,} items are done, each once" if counted else ""
        return ProofStatus.PROVEN, f"its check found the result in place{also}"
    if counted:
        return ProofStatus.PROVEN, f"all {scope.expected:,} items are done, each once"
    often = "" if successes == 1 else f" {successes} times"
    return (
        ProofStatus.UNVERIFIED,
        f"it has succeeded{often}, and nothing says what it brought about",
    )


ITEM_LENGTH_MAX = 200
ITEMS_MAX = 1_000
"""How many items are asked about at a time."""
EXPECTED_MAX = (1 << 53) - 1
MISSING_SHOWN_MAX = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemReport:
    """What an attempt says about its scope since the last time."""

    expected: int | None = None
    """How many items there are; None when it says nothing about that."""
    names: tuple[str, ...] = ()
    """Items that are expected by name."""
    done: tuple[str, ...] = ()
    repeated: tuple[str, ...] = ()
    """Those of the items done that this attempt has reported before: done more than once."""


NOTHING = ItemReport()


class Scope(NamedTuple):
    """What is known of a run's scope."""

    expected: int | None = None
    """How many were announced: the number that was given, or that of the names."""
    done: int = 0
    """How many different items are done."""
    repeated: int = 0
    """How many of them were reported as done more than once, by one attempt or by several."""
    missing: tuple[str, ...] = ()
    """Names that are expected and not done: the first of them."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "expected": self.expected,
            "done": self.done,
            "repeated": self.repeated,
            "missing": list(self.missing),
        }

    @property
    def is_known(self) -> bool:
        """Whether the run has said anything about its scope."""
        return self.expected is not None or self.done > 0

    @property
    def has_missing(self) -> bool:
        """Whether something that was expected is not on record as done."""
        return self.expected is not None and (self.done < self.expected or bool(self.missing))

    @property
    def count_text(self) -> str:
        """How much is done, in words."""
        return f"{self.done:,} of {self.expected or 0:,} items done"

    @property
    def is_complete(self) -> bool:
        """Whether all that was expected is done, each item once."""
        return self.expected is not None and self.done == self.expected and not self.repeated

    @property
    def finding(self) -> Finding:
        """What the count alone says about the run's result."""
        if self.expected is None:
            return Finding.UNKNOWN
        if self.is_complete and not self.missing:
            return Finding.PRESENT
        return Finding.PARTIAL if self.done else Finding.ABSENT


def read_items(field: str, items: Iterable[object]) -> tuple[str, ...]:
    """Read the names of items."""
    found = tuple(str(item) if isinstance(item, int) else item for item in items)
    for item in found:
        require_text(field, item, ITEM_LENGTH_MAX)
    return found  # type: ignore[return-value]  # just checked


def read_expected(expected: object) -> ItemReport:
    """Read what a task expects to do: a number, or the names of its items."""
    if isinstance(expected, int) and not isinstance(expected, bool):
        if not 0 <= expected <= EXPECTED_MAX:
            raise UsageError("expected", expected, "is not a count", "give 0 or more")
        return ItemReport(expected=expected)
    if isinstance(expected, str) or not isinstance(expected, Iterable):
        remedy = "give how many items there are, or their names"
        raise UsageError("expected", expected, "is neither a number nor names", remedy)
    names = tuple(dict.fromkeys(read_items("expected", expected)))
    return ItemReport(expected=len(names), names=names)
