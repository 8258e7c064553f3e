"""What a campaign of effects leaves behind: besides attempts, the bank's book and what was decided."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.system.views import hex_of

if TYPE_CHECKING:
    from collections import Counter

    from tests.system.bank import Entry
    from tests.system.views import View
    from tests.system.work_evidence import Mark, WorkEvidence

Hold = tuple[str, int]
"""A run and its fence."""

LIST_DOUBTS = "SELECT subject_id, at, after FROM duly.audit WHERE action = 'run.ambiguous'"
LIST_BEGUN = """
SELECT run_id, fence, effects_at FROM duly.attempts
UNION ALL SELECT run_id, fence, effects_at FROM duly.outcomes WHERE worker IS NOT NULL
UNION ALL SELECT run_id, fence, effects_at FROM duly.claims"""
LIST_EFFECTS = "SELECT root, key, state FROM duly.effects"
LIST_ROOTS = "SELECT id, coalesce(root, id) FROM duly.runs"
LIST_STATES = "SELECT id, state FROM duly.public_runs"


@dataclass(frozen=True)
class Doubt:
    """A run that the store says is in doubt, by which attempt, since when."""

    run: str
    fence: int
    at: int


@dataclass(frozen=True)
class Decision:
    """What a person decided about a run that was in doubt."""

    run: str
    choice: str
    at: int

    @property
    def goes_on(self) -> bool:
        """Whether the same run may be tried again after it."""
        return self.choice in {"retry", "resume"}


@dataclass(kw_only=True)
class EffectsEvidence:
    """Everything that the checker of effects judges by."""

    work: WorkEvidence
    marks: list[Mark]
    """All that tasks' code wrote, and every harm that came to it."""
    book: list[Entry]
    """The bank's."""
    doubts: list[Doubt]
    decisions: list[Decision]
    begun: dict[Hold, int | None]
    """When each attempt was first permitted an effect, by the store's record."""
    ledger: dict[tuple[str, str], str]
    """What the store knows of each effect, by the line's first run and the key."""
    rows: Counter[str]
    """Rows that transactional tasks have written, by run."""
    roots: dict[str, str]
    classes: dict[str, str]
    """Each task's class of effects, as its code says."""
    names: dict[str, str] = field(default_factory=dict)
    """The run of each task that is blind, by the name under which it went to the bank."""
    seen: list[tuple[str, str]] = field(default_factory=list)
    """States that an onlooker has seen a run in, one after the other."""


def doubts(view: View) -> list[Doubt]:
    """Return every doubt that is on record."""
    rows = view.ask(LIST_DOUBTS)
    return [Doubt(hex_of(run) or "", json.loads(after)["fence"], at) for run, at, after in rows]


def begun(view: View) -> dict[Hold, int | None]:
    """Return when each attempt's effects began."""
    return {(hex_of(run) or "", fence): at for run, fence, at in view.ask(LIST_BEGUN)}


def effects(view: View) -> dict[tuple[str, str], str]:
    """Return the ledger of effects."""
    return {(hex_of(root) or "", key): state for root, key, state in view.ask(LIST_EFFECTS)}


def roots(view: View) -> dict[str, str]:
    """Return the first run of each run's line."""
    return {hex_of(run) or "": hex_of(root) or "" for run, root in view.ask(LIST_ROOTS)}


def states(view: View) -> dict[str, str]:
    """Return how each run stands."""
    return {hex_of(run) or "": state for run, state in view.ask(LIST_STATES)}
