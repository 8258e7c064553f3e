"""Checks of results: what a task's own check found, and the run that does the checking (E6)."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from duly.domain.identity import identity_text, ordered_run_id
from duly.domain.literals import Finding, Lane, Origin
from duly.errors import UsageError

if TYPE_CHECKING:
    from duly.domain.identity import RunId
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
