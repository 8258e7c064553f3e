"""Marks of states: each has its own word, shape and colour; what is unknown is never a failure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Tone = Literal["good", "bad", "doubt", "busy", "wait", "warn", "quiet"]


@dataclass(frozen=True, slots=True)
class Mark:
    """How a state looks."""

    word: str
    icon: str
    """A symbol of icons.html."""
    tone: Tone


MARKS: dict[str, Mark] = {
    # runs
    "blocked": Mark("blocked", "lock", "wait"),
    "queued": Mark("queued", "dots", "wait"),
    "running": Mark("running", "play", "busy"),
    "retrying": Mark("retrying", "loop", "warn"),
    "ambiguous": Mark("ambiguous", "doubt", "doubt"),
    "dead": Mark("dead", "stop", "bad"),
    "succeeded": Mark("succeeded", "check", "good"),
    "failed": Mark("failed", "cross", "bad"),
    "cancelled": Mark("cancelled", "slash", "quiet"),
    "skipped": Mark("skipped", "skip", "quiet"),
    "coalesced": Mark("coalesced", "merge", "quiet"),
    "replaced": Mark("replaced", "swap", "quiet"),
    "expired": Mark("expired", "hourglass", "quiet"),
    "discarded": Mark("discarded", "bin", "quiet"),
    "handed-over": Mark("handed over", "out", "quiet"),
    # attempts
    "claimed": Mark("claimed", "dots", "wait"),
    "heartbeat-stale": Mark("heartbeat stale", "pulse", "warn"),
    "stalled": Mark("stalled", "hourglass", "warn"),
    "timed-out": Mark("timed out", "clock", "bad"),
    "lost": Mark("lost", "doubt", "doubt"),
    "given-back": Mark("given back", "swap", "quiet"),
    # schedules
    "active": Mark("active", "play", "good"),
    "paused": Mark("paused", "pause", "warn"),
    "ended": Mark("ended", "square", "quiet"),
    "deleted": Mark("deleted", "bin", "quiet"),
    # verdicts
    "verified": Mark("verified", "seal", "good"),
    "refuted": Mark("refuted", "cross", "bad"),
    "unknown": Mark("unknown", "doubt", "doubt"),
    # what is expected, and is not there
    "expected": Mark("expected", "circle", "wait"),
    "missing": Mark("missing", "gap", "bad"),
    "due": Mark("due", "clock", "wait"),
    "materialised": Mark("materialised", "square", "wait"),
    "dispatched": Mark("dispatched", "out", "wait"),
    "owed": Mark("owed", "hourglass", "warn"),
    "late": Mark("late", "clock", "warn"),
    # lights
    "well": Mark("well", "check", "good"),
    "unwell": Mark("needs a look", "alert", "bad"),
}
RUN_STATES = (
    "blocked", "queued", "running", "retrying", "ambiguous", "dead", "succeeded", "failed",
    "cancelled", "skipped", "coalesced", "replaced", "expired", "discarded", "handed-over",
)  # fmt: skip
"""As the literals have them, for filters."""


def mark(state: str) -> Mark:
    """Return how a state looks; one that nobody has drawn yet is shown by its word."""
    return MARKS.get(state) or Mark(state, "circle", "quiet")
