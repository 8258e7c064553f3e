"""A run's times in a chain: each fact, how long between, and where it took longest (R2)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from duly import Run
    from duly.api.views import Attempt, Check

NARROWEST = 1.5
"""Of the bar, in percent: what took no time is still seen."""
_NOTHING = timedelta()


@dataclass(frozen=True, slots=True)
class Link:
    """One fact of the chain, with its time; None for what has not happened."""

    name: str
    at: datetime | None
    since: timedelta | None
    """How long after the one before that has happened."""
    is_longest: bool = False


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of the bar, between two facts."""

    words: str
    length: timedelta
    x: float
    width: float
    is_waiting: bool
    """Whether nobody worked on it."""
    is_longest: bool


@dataclass(frozen=True, slots=True)
class Chain:
    """All of it."""

    links: tuple[Link, ...]
    stretches: tuple[Stretch, ...]
    sentence: str


def make_chain(
    run: Run, attempts: Sequence[Attempt], checks: Sequence[Check], now: datetime
) -> Chain:
    """Return the facts in their order; none stands in for another."""
    last = attempts[-1] if attempts else None
    is_parted = last is not None and last.is_apart_from(run)
    verified = next((one.at for one in reversed(checks) if one.finding == "present"), None)
    facts: list[tuple[str, datetime | None]] = [
        ("due", run.due_at),
        ("created", run.created_at),
        ("dispatched", run.fired_at),
        ("claimed", run.claimed_at or (last.claimed_at if last else None)),
        ("started", run.started_at or (last.started_at if last else None)),
        ("heartbeat", last.heartbeat_at if last else None),
        ("progress", last.progress_at if last else None),
        ("effects begun", last.effects_at if last else None),
        ("settled" if last and last.is_settled_by_order(run) else "completed", run.finished_at),
        ("verified", verified),
    ]
    if is_parted and last is not None:
        facts.insert(-2, ("attempt ended", last.ended_at))
    if len(attempts) > 1:
        facts.insert(3, ("first claimed", attempts[0].claimed_at))
    stretches = _stretches(dict(facts), run, last if is_parted else None, now)
    longest = next((one for one in stretches if one.is_longest), None)
    sentence = "" if longest is None else f"The longest part is {longest.words}."
    return Chain(_links(facts), stretches, sentence)


_REPEATED = frozenset({"heartbeat", "progress"})
"""Of these the newest is told: what lies before it is no gap, and none begins with it."""


def _links(facts: Sequence[tuple[str, datetime | None]]) -> tuple[Link, ...]:
    before: datetime | None = None
    found: list[tuple[str, datetime | None, timedelta | None]] = []
    for name, at in facts:
        since = at - before if at is not None and before is not None else None
        found.append((name, at, None if since is None or since < _NOTHING else since))
        if at is not None and name not in _REPEATED and (before is None or at > before):
            before = at
    gaps = [one for name, _, one in found if one is not None and name not in _REPEATED]
    most = max(gaps, default=_NOTHING)
    return tuple(
        Link(name, at, since, is_longest=since == most > _NOTHING and name not in _REPEATED)
        for name, at, since in found
    )


_PARTS = {
    "dispatched": ("until it was dispatched", True),
    "first claimed": ("until a worker first took it", True),
    "claimed": ("until a worker took it", True),
    "started": ("until it was started", True),
    "worked": ("its work", False),
    "completed": ("its work", False),
    "settled": ("until it was settled", True),
    "verified": ("until its result was verified", True),
}
"""By the fact that ends a part: what it is called, and whether it is a wait."""


_DOUBT = "in doubt for"


def _still(run: Run, last: Attempt | None) -> str:
    """Say what an open run does that nobody runs."""
    if run.state != "ambiguous" or last is None:
        return "and nothing happens since"
    return "nothing has been heard for" if last.state == "lost" else _DOUBT


def _stretches(
    facts: dict[str, datetime | None], run: Run, last: Attempt | None, now: datetime
) -> tuple[Stretch, ...]:
    """Return the parts; `last` is an attempt that ended, and its run not with it."""
    # What a claim that was never started did was no work.
    facts["worked"] = None if last is None or last.started_at is None else last.worked_until
    known = [(name, at) for name in ("due", *_PARTS) if (at := facts.get(name)) is not None]
    if run.finished_at is None:
        name = "completed" if run.state == "running" else "open"
        known.append((name, now))
    names = {**_PARTS, "open": (_still(run, last), True)}
    if facts["worked"] is not None:
        names["completed"] = ("until it was ended", True)
    if run.reason == "reconciled":
        names["settled"] = (_DOUBT, True)
    parts = [
        (*names[name], max(at - before, _NOTHING)) for (_, before), (name, at) in pairwise(known)
    ]
    total = sum((length for *_, length in parts), _NOTHING)
    if not total:
        return ()
    most = max(length for *_, length in parts)
    shares = [max(length / total * 100, NARROWEST) for *_, length in parts]
    scale = 100 / sum(shares)
    drawn, x = [], 0.0
    for (words, is_waiting, length), share in zip(parts, shares, strict=True):
        width = share * scale
        drawn.append(
            Stretch(words, length, round(x, 2), round(width, 2), is_waiting, length == most)
        )
        x += width
    return tuple(drawn)
