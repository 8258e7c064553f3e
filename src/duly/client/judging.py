"""Findings: what is wrong, and what to do; here those of one schedule, by its signs (V4)."""

from __future__ import annotations

from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING

from duly.domain.time_texts import units_text

if TYPE_CHECKING:
    from duly.domain.signs import Signs


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong, and what to do about it."""

    code: str
    """Stable, for programs and for docs/errors.md."""
    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.problem}: {self.remedy}" if self.remedy else self.problem


def trigger_findings(signs: Signs) -> list[Finding]:
    """Say what is wrong with a schedule's trigger."""
    overdue_us = signs.trigger.overdue_us
    if signs.trigger.is_well or overdue_us is None:
        return []
    problem = f"schedule {signs.record.name} is due for {_words(overdue_us)} and has not fired"
    return [Finding("schedule-overdue", problem, "duly doctor")]


def completion_findings(signs: Signs, home: str | None = None) -> list[Finding]:
    """Say what is wrong with the work of a schedule; of another tenant than `home`, whose it is."""
    seen, name, tenant = signs.completion, signs.record.name, signs.record.tenant
    is_elsewhere = home is not None and tenant != home
    if not seen.is_stale or seen.cadence_us is None:
        return []
    kind = "verified" if seen.is_checked else "useful"
    every = f"one is expected every {_words(seen.cadence_us)}"
    if seen.age_us is None:
        within = "" if seen.ends.unknown_through is None else " among the runs that are looked at"
        problem = f"schedule {name} has no {kind} completion on record{within}, and {every}"
    else:
        problem = f"the last {kind} completion of {name} is {_words(seen.age_us)} old, and {every}"
    remedy = f"duly run list --schedule {quote(name)}"
    if is_elsewhere:
        problem = f"in tenant {tenant}, {problem}"
        remedy = f"{remedy} --tenant {quote(tenant)}"
    return [Finding("stale-completion", problem, remedy)]


def _words(microseconds: int) -> str:
    return units_text(microseconds) or "less than 1 s"
