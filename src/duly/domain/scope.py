"""Scope: how much a run was to do, what of it is done, and what is missing (E6).

A task says what it expects (a number, or names) and, item by item, what is done. Items belong to
the line of a run, as effects do: a repair goes on with those of the first. An item that two
attempts report as done was done twice, or one of them did not know: either is worth a look.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from duly.domain.literals import Finding
from duly.errors import UsageError, require_text

ITEM_LENGTH_MAX = 200
ITEMS_MAX = 1_000
"""How many items are asked about at a time."""
EXPECTED_MAX = (1 << 53) - 1
MISSING_SHOWN_MAX = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeReport:
    """What an attempt says about its scope since the last time."""

    expected: int | None = None
    """How many items there are; None when it says nothing about that."""
    names: tuple[str, ...] = ()
    """Items that are expected by name."""
    done: tuple[str, ...] = ()


NOTHING = ScopeReport()


class Scope(NamedTuple):
    """What is known of a run's scope."""

    expected: int | None = None
    """How many were announced: the number that was given, or that of the names."""
    done: int = 0
    """How many different items are done."""
    repeated: int = 0
    """How many of them more than one attempt reports as done."""
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


def read_expected(expected: object) -> ScopeReport:
    """Read what a task expects to do: a number, or the names of its items."""
    if isinstance(expected, int) and not isinstance(expected, bool):
        if not 0 <= expected <= EXPECTED_MAX:
            raise UsageError("expected", expected, "is not a count", "give 0 or more")
        return ScopeReport(expected=expected)
    if isinstance(expected, str) or not isinstance(expected, Iterable):
        remedy = "give how many items there are, or their names"
        raise UsageError("expected", expected, "is neither a number nor names", remedy)
    names = tuple(dict.fromkeys(read_items("expected", expected)))
    return ScopeReport(expected=len(names), names=names)
