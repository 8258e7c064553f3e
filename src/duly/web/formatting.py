"""Formats times, states and unknown values for people.

A visitor chooses the clock in which times are shown: the schedule's, their own, or UTC.

A state has a literal in the API, in filters and in metrics. The console shows a word for it. The
meanings of the words are those of docs/glossary.md, word for word.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Literal

from duly import UsageError, at, default_zones
from duly.api.views import clock_name, moment_from, units_text

if TYPE_CHECKING:
    from collections.abc import Iterable


_LOCAL = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?", re.ASCII)
_BEFORE = re.compile(r"-(\d{1,5})(m|h|d|w)", re.ASCII)
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read_coming(field: str, text: str | None, zone: str | None, now: datetime) -> datetime | None:
    """Read when something ends, in the words of the command line: tomorrow 9am, +2d, a time."""
    return None if text is None else moment_from(text, zone or "UTC", now, field)


def read_local(field: str, text: str, zone: str | None) -> datetime | str:
    """Read a wall time in the viewer's own zone; anything else is left to who takes it."""
    typed = text.strip()
    if not _LOCAL.fullmatch(typed):
        return typed
    try:
        found = at(typed.replace(" ", "T"), zone or "UTC").next(_EPOCH)
    except UsageError as error:
        raise UsageError(field, text, error.problem, error.remedy) from error
    return typed if found is None else found


def read_past(field: str, text: str, zone: str | None, now: datetime) -> datetime | str:
    """Read how long ago, such as -14d; or a wall time, as above."""
    found = _BEFORE.fullmatch(text.strip())
    if found is None:
        return read_local(field, text, zone)
    return now - timedelta(**{_UNITS[found[2]]: int(found[1])})


Choice = Literal["schedule", "mine", "utc"]
CHOICES: tuple[Choice, ...] = ("schedule", "mine", "utc")
CHOICE_WORDS: dict[Choice, str] = {"schedule": "Schedule's", "mine": "Mine", "utc": "UTC"}
MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """An instant as one person reads it."""

    iso: str
    """For programs: UTC."""
    day: str
    clock: str
    zone: str
    """What the clock on the wall is called: CEST, UTC, UTC+05:30."""
    relative: str


@dataclass(frozen=True, slots=True)
class TimeFormatter:
    """Whose clock somebody reads."""

    choice: Choice = "schedule"
    mine: str | None = None
    """The visitor's own zone, as far as their browser has said it."""

    def zone(self, own: str | None) -> str:
        """Return the zone that a time is shown in, whose schedule has `own`."""
        match self.choice:
            case "schedule":
                return own or self.mine or "UTC"
            case "mine":
                return self.mine or "UTC"
            case "utc":
                return "UTC"

    def moment(self, at: datetime, now: datetime, own: str | None = None) -> Moment:
        """Show an instant; `own` is its schedule's zone."""
        offset, name = _offset(at, self.zone(own))
        local = at.astimezone(UTC) + offset
        is_same_year = local.year == (now.astimezone(UTC) + offset).year
        day = f"{local:%a} {local.day} {local:%b}"
        return Moment(
            iso=at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            day=day if is_same_year else f"{day} {local.year}",
            clock=f"{local:%H:%M:%S}",
            zone=name,
            relative=relative(at, now),
        )

    def mine_at(self, at: datetime) -> datetime:
        """Return what the visitor's own clock shows, for axes of drawings."""
        offset, _ = _offset(at, self.mine or "UTC")
        return at.astimezone(UTC) + offset


def local_date(at: datetime, zone: str) -> date:
    """Return the date that a zone's calendar shows at an instant, by our own rules of zones."""
    offset, _ = _offset(at, zone)
    return (at.astimezone(UTC) + offset).date()


def read_choice(text: str) -> Choice:
    """Return whose clock is meant; the schedule's, unless another is named."""
    for one in CHOICES:
        if one == text:
            return one
    return CHOICES[0]


def read_zone(text: str | None) -> str | None:
    """Return a zone's name if it is one; a browser may say anything."""
    return text if text is not None and text in default_zones().keys else None


def relative(at: datetime, now: datetime) -> str:
    """Say how far an instant is: "in 3 min", "2 h 5 min ago"."""
    away = (at - now) // MICROSECOND
    text = units_text(abs(away))
    if not text:
        return "now"
    return f"in {text}" if away > 0 else f"{text} ago"


def span(length: timedelta | None) -> str:
    """Write a duration: milliseconds below a second, two units above."""
    if length is None:
        return "–"  # noqa: RUF001 - typography
    whole = length // MICROSECOND
    sign = "−" if whole < 0 else ""  # noqa: RUF001 - as above
    if abs(whole) < 1_000_000:
        return f"{sign}{abs(whole) / 1000:.0f} ms"
    return sign + units_text(abs(whole))


def _offset(at: datetime, zone: str) -> tuple[timedelta, str]:
    segment = default_zones().zone(zone).segment(int(at.timestamp() // 1))
    offset = timedelta(seconds=segment.offset)
    return offset, clock_name(segment.abbreviation, offset)


Tone = Literal["good", "bad", "doubt", "busy", "wait", "warn", "quiet"]


@dataclass(frozen=True, slots=True)
class StateMark:
    """How a state looks."""

    word: str
    icon: str
    """A symbol of icons.html."""
    tone: Tone


MARKS: dict[str, StateMark] = {
    # runs
    "blocked": StateMark("blocked", "lock", "wait"),
    "queued": StateMark("queued", "dots", "wait"),
    "running": StateMark("running", "play", "busy"),
    "retrying": StateMark("retrying", "loop", "warn"),
    "ambiguous": StateMark("in doubt", "doubt", "doubt"),
    "dead": StateMark("dead", "stop", "bad"),
    "succeeded": StateMark("succeeded", "check", "good"),
    "failed": StateMark("failed", "cross", "bad"),
    "cancelled": StateMark("cancelled", "slash", "quiet"),
    "skipped": StateMark("skipped", "skip", "quiet"),
    "coalesced": StateMark("coalesced", "merge", "quiet"),
    "replaced": StateMark("replaced", "swap", "quiet"),
    "expired": StateMark("expired", "hourglass", "quiet"),
    "discarded": StateMark("discarded", "bin", "quiet"),
    "handed-over": StateMark("handed over", "out", "quiet"),
    # attempts
    "claimed": StateMark("claimed", "dots", "wait"),
    "heartbeat-stale": StateMark("heartbeat stale", "pulse", "warn"),
    "fresh": StateMark("fresh", "check", "good"),
    "stalled": StateMark("stalled", "hourglass", "warn"),
    "timed-out": StateMark("timed out", "clock", "bad"),
    "lost": StateMark("worker lost", "unheard", "doubt"),
    "given-back": StateMark("given back", "swap", "quiet"),
    # schedules
    "active": StateMark("active", "play", "good"),
    "paused": StateMark("paused", "pause", "warn"),
    "ended": StateMark("ended", "square", "quiet"),
    "deleted": StateMark("deleted", "bin", "quiet"),
    # verdicts
    "verified": StateMark("verified", "seal", "good"),
    "refuted": StateMark("refuted", "cross", "bad"),
    "unknown": StateMark("unknown", "doubt", "doubt"),
    # how sure one can be of an occurrence
    "proven": StateMark("proven", "seal", "good"),
    "not-proven": StateMark("not proven", "doubt", "warn"),
    "unverified": StateMark("unverified", "circle", "warn"),
    "unfinished": StateMark("unfinished", "hourglass", "wait"),
    "not-run": StateMark("not run", "gap", "bad"),
    # what is expected, and is not there
    "expected": StateMark("expected", "circle", "wait"),
    "missing": StateMark("missing", "gap", "bad"),
    "due": StateMark("due", "clock", "wait"),
    "materialised": StateMark("materialised", "square", "wait"),
    "dispatched": StateMark("dispatched", "out", "wait"),
    "owed": StateMark("owed", "hourglass", "warn"),
    "late": StateMark("late", "clock", "warn"),
    # effects
    "intended": StateMark("intended", "dots", "wait"),
    "done": StateMark("done", "check", "good"),
    # members
    "firing": StateMark("firing", "play", "good"),
    "holding": StateMark("holding", "pause", "bad"),
    "draining": StateMark("draining", "out", "warn"),
    "quarantined": StateMark("quarantined", "lock", "warn"),
    # destinations
    "breaker-closed": StateMark("closed", "check", "good"),
    "breaker-open": StateMark("open", "slash", "bad"),
    "breaker-half-open": StateMark("half-open", "hourglass", "warn"),
    # backfills
    "backfill-active": StateMark("active", "play", "busy"),
    "backfill-paused": StateMark("paused", "pause", "warn"),
    "backfill-done": StateMark("done", "check", "good"),
    "backfill-cancelled": StateMark("cancelled", "slash", "quiet"),
    # occurrences
    "slot-missing": StateMark("missing", "gap", "bad"),
    "slot-failed": StateMark("failed", "cross", "bad"),
    "slot-succeeded": StateMark("succeeded", "check", "good"),
    "slot-ambiguous": StateMark("in doubt", "doubt", "doubt"),
    "slot-in-flight": StateMark("in flight", "play", "busy"),
    "slot-unknown": StateMark("unknown", "doubt", "doubt"),
    "slot-owed": StateMark("owed", "hourglass", "warn"),
    "slot-held": StateMark("held by a pause", "pause", "quiet"),
    # alerts, how urgent they are, and their way to people
    "alerted": StateMark("has an alert", "bell", "warn"),
    "alert-pending": StateMark("pending", "hourglass", "wait"),
    "alert-open": StateMark("open", "bell", "warn"),
    "alert-resolved": StateMark("resolved", "check", "good"),
    "alert-silenced": StateMark("silenced", "mute", "quiet"),
    "alert-acknowledged": StateMark("acknowledged", "hand", "busy"),
    "severity-page": StateMark("page", "stop", "bad"),
    "severity-warn": StateMark("warn", "alert", "warn"),
    "delivery-pending": StateMark("on its way", "hourglass", "wait"),
    "delivery-done": StateMark("delivered", "check", "good"),
    "delivery-given-up": StateMark("given up", "cross", "bad"),
    "rule-on": StateMark("on", "play", "good"),
    "rule-off": StateMark("off", "mute", "quiet"),
    # lights
    "well": StateMark("well", "check", "good"),
    "unwell": StateMark("needs a look", "alert", "bad"),
    "partial": StateMark("partial", "gap", "warn"),
    "present": StateMark("present", "seal", "good"),
    "absent": StateMark("absent", "cross", "bad"),
    # what is looked for on the overview
    "stuck": StateMark("stuck", "hourglass", "warn"),
    "overlapping": StateMark("overlapping", "layers", "warn"),
    "stale": StateMark("stale", "hourglass", "warn"),
    "backlog": StateMark("backlog", "history", "busy"),
}
RUN_STATES = (
    "blocked", "queued", "running", "retrying", "ambiguous", "dead", "succeeded", "failed",
    "cancelled", "skipped", "coalesced", "replaced", "expired", "discarded", "handed-over",
)  # fmt: skip
"""As the literals have them, for filters."""


@dataclass(frozen=True, slots=True)
class OriginMark:
    """How the word for where a run comes from looks; none is to be taken for another."""

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


def mark(state: str) -> StateMark:
    """Return how a state looks; one that nobody has drawn yet is shown by its word."""
    return MARKS.get(state) or StateMark(state, "circle", "quiet")


@dataclass(frozen=True, slots=True)
class StateLabel:
    """A word that people read, and what it means."""

    state: str
    """Whose word, shape and colour it has."""
    word: str
    meaning: str


TERMS = (
    StateLabel(
        "ambiguous",
        "in doubt",
        "of a run: nobody knows what it did, so it is not tried again until somebody decides",
    ),
    StateLabel(
        "lost",
        "worker lost",
        "of an attempt: its worker was not heard of any more before it said how it ended",
    ),
    StateLabel(
        "unknown",
        "unknown",
        "of an effect: it was begun, and nobody knows whether it has happened",
    ),
)
_WORDS = {one.state: one.word for one in TERMS}


def met_terms(run: str, attempts: Iterable[str], effects: Iterable[str]) -> tuple[StateLabel, ...]:
    """Return the terms that a page shows, by the states of a run, its attempts and its effects."""
    met = {run, *attempts, *effects}
    return tuple(one for one in TERMS if one.state in met)


def plain(text: str) -> str:
    """Return the word that people read for a reason, where its literal is one of these states."""
    return _WORDS.get(text, text)
