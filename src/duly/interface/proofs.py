"""Proofs over the wire: whether a day's occurrences did all they were to, once."""

from __future__ import annotations

from duly.interface.inbox import Check, Scope
from duly.interface.shapes import Asked, Identity, Instant, Shown


class ProvingRun(Shown, frozen=True, kw_only=True):
    """A run of an occurrence: its own, or one that somebody made once more."""

    id: Identity
    origin: str
    state: str


class ProvenOccurrence(Shown, frozen=True, kw_only=True):
    """One occurrence: what became of it, and how sure one can be."""

    scheduled_for: Instant
    label: str
    verdict: str
    run: Identity | None
    reason: str | None
    standing: str
    why: str
    runs: list[ProvingRun]
    check: Check | None
    scope: Scope


class Proof(Shown, frozen=True, kw_only=True):
    """What is known about all of a day's occurrences of a schedule."""

    schedule: str
    day: str
    zone: str
    is_proven: bool
    occurrences: list[ProvenOccurrence]


class ProofQuery(Asked, frozen=True, kw_only=True):
    """Which day of which schedule, in its own time zone."""

    schedule: str
    day: str
