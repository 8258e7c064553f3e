"""Words for what nobody knows: one for each meaning, explained where it is met (E5, UX 42).

A state has its literal in the API, in filters and in metrics; people read the word. The meanings
stand in docs/glossary.md, word for word.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Term:
    """A word that people read, and what it means."""

    state: str
    """Whose word, shape and colour it has."""
    word: str
    meaning: str


TERMS = (
    Term(
        "ambiguous",
        "in doubt",
        "of a run: nobody knows what it did, so it is not tried again until somebody decides",
    ),
    Term(
        "lost",
        "worker lost",
        "of an attempt: its worker was not heard of any more before it said how it ended",
    ),
    Term(
        "unknown",
        "unknown",
        "of an effect: it was begun, and nobody knows whether it has happened",
    ),
)
_WORDS = {one.state: one.word for one in TERMS}


def met_terms(run: str, attempts: Iterable[str], effects: Iterable[str]) -> tuple[Term, ...]:
    """Return the terms that a page shows, by the states of a run, its attempts and its effects."""
    met = {run, *attempts, *effects}
    return tuple(one for one in TERMS if one.state in met)


def plain(text: str) -> str:
    """Return the word that people read for a reason, where its literal is one of these states."""
    return _WORDS.get(text, text)
