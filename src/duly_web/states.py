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
    "ambiguous": Mark("in doubt", "doubt", "doubt"),
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
    "fresh": Mark("fresh", "check", "good"),
    "stalled": Mark("stalled", "hourglass", "warn"),
    "timed-out": Mark("timed out", "clock", "bad"),
    "lost": Mark("worker lost", "unheard", "doubt"),
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
    # how sure one can be of an occurrence
    "proven": Mark("proven", "seal", "good"),
    "not-proven": Mark("not proven", "doubt", "warn"),
    "unverified": Mark("unverified", "circle", "warn"),
    "unfinished": Mark("unfinished", "hourglass", "wait"),
    "not-run": Mark("not run", "gap", "bad"),
    # what is expected, and is not there
    "expected": Mark("expected", "circle", "wait"),
    "missing": Mark("missing", "gap", "bad"),
    "due": Mark("due", "clock", "wait"),
    "materialised": Mark("materialised", "square", "wait"),
    "dispatched": Mark("dispatched", "out", "wait"),
    "owed": Mark("owed", "hourglass", "warn"),
    "late": Mark("late", "clock", "warn"),
    # effects
    "intended": Mark("intended", "dots", "wait"),
    "done": Mark("done", "check", "good"),
    # members
    "firing": Mark("firing", "play", "good"),
    "holding": Mark("holding", "pause", "bad"),
    "draining": Mark("draining", "out", "warn"),
    "quarantined": Mark("quarantined", "lock", "warn"),
    # destinations
    "breaker-closed": Mark("closed", "check", "good"),
    "breaker-open": Mark("open", "slash", "bad"),
    "breaker-half-open": Mark("half-open", "hourglass", "warn"),
    # backfills
    "backfill-active": Mark("active", "play", "busy"),
    "backfill-paused": Mark("paused", "pause", "warn"),
    "backfill-done": Mark("done", "check", "good"),
    "backfill-cancelled": Mark("cancelled", "slash", "quiet"),
    # occurrences
    "slot-missing": Mark("missing", "gap", "bad"),
    "slot-failed": Mark("failed", "cross", "bad"),
    "slot-succeeded": Mark("succeeded", "check", "good"),
    "slot-ambiguous": Mark("in doubt", "doubt", "doubt"),
    "slot-in-flight": Mark("in flight", "play", "busy"),
    "slot-unknown": Mark("unknown", "doubt", "doubt"),
    "slot-owed": Mark("owed", "hourglass", "warn"),
    "slot-held": Mark("held by a pause", "pause", "quiet"),
    # alerts, how urgent they are, and their way to people
    "alerted": Mark("has an alert", "bell", "warn"),
    "alert-pending": Mark("pending", "hourglass", "wait"),
    "alert-open": Mark("open", "bell", "warn"),
    "alert-resolved": Mark("resolved", "check", "good"),
    "alert-silenced": Mark("silenced", "mute", "quiet"),
    "alert-acknowledged": Mark("acknowledged", "hand", "busy"),
    "severity-page": Mark("page", "stop", "bad"),
    "severity-warn": Mark("warn", "alert", "warn"),
    "delivery-pending": Mark("on its way", "hourglass", "wait"),
    "delivery-done": Mark("delivered", "check", "good"),
    "delivery-given-up": Mark("given up", "cross", "bad"),
    "rule-on": Mark("on", "play", "good"),
    "rule-off": Mark("off", "mute", "quiet"),
    # lights
    "well": Mark("well", "check", "good"),
    "unwell": Mark("needs a look", "alert", "bad"),
    "partial": Mark("partial", "gap", "warn"),
    "present": Mark("present", "seal", "good"),
    "absent": Mark("absent", "cross", "bad"),
    # what is looked for on the overview
    "stuck": Mark("stuck", "hourglass", "warn"),
    "overlapping": Mark("overlapping", "layers", "warn"),
    "stale": Mark("stale", "hourglass", "warn"),
    "backlog": Mark("backlog", "history", "busy"),
}
RUN_STATES = (
    "blocked", "queued", "running", "retrying", "ambiguous", "dead", "succeeded", "failed",
    "cancelled", "skipped", "coalesced", "replaced", "expired", "discarded", "handed-over",
)  # fmt: skip
"""As the literals have them, for filters."""


@dataclass(frozen=True, slots=True)
class OriginMark:
    """How the word for where a run comes from looks; none is to be taken for another (A3)."""

    word: str
    icon: str
    is_by_hand: bool = False
    """Whether a person wanted just this run."""


ORIGINS: dict[str, OriginMark] = {
    "schedule": OriginMark("on schedule", "calendar"),
    "delay": OriginMark("delayed", "hourglass"),
    "now": OriginMark("enqueued", "arrow"),
    "manual": OriginMark("run by hand", "hand", is_by_hand=True),
    "catch-up": OriginMark("catch-up", "forward"),
    "backfill": OriginMark("backfill", "history", is_by_hand=True),
    "rerun": OriginMark("rerun", "again", is_by_hand=True),
    "repair": OriginMark("repair rerun", "wrench", is_by_hand=True),
    "verify": OriginMark("check of a result", "seal"),
}
"""A retry is none of these: the system heals itself, within one run."""


def origin_mark(origin: str) -> OriginMark:
    """Return how an origin looks."""
    return ORIGINS.get(origin) or OriginMark(origin, "circle")


def mark(state: str) -> Mark:
    """Return how a state looks; one that nobody has drawn yet is shown by its word."""
    return MARKS.get(state) or Mark(state, "circle", "quiet")
