"""The last runs of a schedule at a glance: bars of their durations, a line of their lateness.

Drawn as few SVG paths, one for each kind of end: a page of schedules stays light. Each kind has its
own shape as well as its colour, and a sentence says the same to who can't see it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from duly_web.moments import span
from duly_web.states import mark

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from duly import Run

RUNS = 20
BAR, GAP, HEIGHT = 5, 1, 22
STEP = BAR + GAP
TALLEST = 15
"""Below the bars stand the marks that tell ends apart without colours."""
BASE = 16
DRAWN_FROM = 0.001
"""Seconds: below, a line of lateness would draw the noise of a clock."""


@dataclass(frozen=True, slots=True)
class Strip:
    """Bars, by tone, and their words."""

    paths: tuple[tuple[str, str], ...]
    """Tone, and what is drawn."""
    words: str
    width: int = RUNS * STEP
    height: int = HEIGHT


@dataclass(frozen=True, slots=True)
class Spark:
    """A line of lateness, and its words."""

    points: str
    words: str
    worst: str
    width: int = RUNS * STEP
    height: int = HEIGHT


def run_strip(runs: Sequence[Run], now: datetime) -> Strip | None:
    """Draw the last runs, oldest first; as high as they took."""
    shown = list(runs[:RUNS])[::-1]
    if not shown:
        return None
    lengths = [_length(one, now) for one in shown]
    longest = max(lengths) or 1.0
    drawn: dict[str, list[str]] = {}
    for place, (run, length) in enumerate(zip(shown, lengths, strict=True)):
        tone = mark(run.state).tone
        tall = max(2, round(length / longest * TALLEST))
        drawn.setdefault(tone, []).append(_bar(tone, place * STEP, tall))
    counted = Counter(mark(one.state).word for one in shown)
    ends = ", ".join(f"{number} {word}" for word, number in counted.most_common())
    took = [_took(one) for one in shown]
    known = [one for one in took if one is not None]
    usual = f"; usually {span(_middle(known))}, at most {span(max(known))}" if known else ""
    return Strip(
        paths=tuple((tone, "".join(parts)) for tone, parts in drawn.items()),
        words=f"Last {len(shown)} runs: {ends}{usual}",
    )


def lateness_spark(runs: Sequence[Run]) -> Spark | None:
    """Draw how late the last runs were, oldest first."""
    late = [one.lateness for one in runs[:RUNS] if one.lateness is not None][::-1]
    if len(late) < 2:
        return None
    seconds = [max(0.0, one.total_seconds()) for one in late]
    highest = max(seconds)
    points = " ".join(
        f"{place * STEP + BAR // 2},{HEIGHT - 2 - round(value / highest * (HEIGHT - 4))}"
        for place, value in enumerate(seconds)
        if highest >= DRAWN_FROM
    )
    worst = span(max(late))
    words = (
        f"Lateness of the last {len(late)} runs: usually {span(_middle(late))}, at worst {worst}"
    )
    return Spark(points, words, worst)


def _bar(tone: str, x: int, tall: int) -> str:
    bar = f"M{x} {BASE}v{-tall}h{BAR}v{tall}z"
    middle = x + BAR / 2
    match tone:
        case "bad":  # a cross below
            return f"{bar}M{x} {BASE + 1}l5 5l-.8.8l-5-5zM{x + 5} {BASE + 1}l-5 5l.8.8l5-5z"
        case "doubt":  # a diamond below
            return f"{bar}M{middle} {BASE + 1}l2.5 2.500l-2.500 2.500l-2.500-2.500z"
        case "good" | "busy" | "wait" | "warn":  # what is not over yet is drawn hollow
            return bar
        case _:  # a flat line: nothing was run
            return f"M{x} {BASE}v-2h{BAR}v2z"


def _middle(values: Sequence[timedelta]) -> timedelta:
    return sorted(values)[len(values) // 2]


def _took(run: Run) -> timedelta | None:
    if run.started_at is None or run.finished_at is None:
        return None
    return run.finished_at - run.started_at


def _length(run: Run, now: datetime) -> float:
    if run.started_at is None:
        return 0.0
    return max(0.0, ((run.finished_at or now) - run.started_at).total_seconds())
