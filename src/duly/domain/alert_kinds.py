"""The kinds of alerts: what each is measured by, and how urgent it is unless somebody says other.

A condition has one number, and a rule compares it with its threshold; a kind says what is counted.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from duly.domain.instants import MINUTE, SECOND_US


class AlertKind(StrEnum):
    """What can be wrong (V3)."""

    MISSING_RUN = "missing-run"
    LATE_RUN = "late-run"
    STALE_COMPLETION = "stale-completion"
    NO_EXECUTIONS = "no-executions"
    AMBIGUOUS_RUN = "ambiguous-run"
    STALLED_RUN = "stalled-run"
    SEVERAL_ATTEMPTS = "several-attempts"
    DEAD_LETTERS = "dead-letters"
    QUEUE_AGE = "queue-age"
    QUEUE_DEPTH = "queue-depth"
    BREAKER_OPEN = "breaker-open"
    CLOCK_SKEW = "clock-skew"
    EARLY_FIRE = "early-fire"
    CREATION_RATE = "creation-rate"
    OVERLAP = "overlap"
    SCHEDULE_PAUSED = "schedule-paused"


class Severity(StrEnum):
    """Whether a person is to look now, or in the morning."""

    PAGE = "page"
    WARN = "warn"


class Unit(StrEnum):
    """What the number of a condition counts."""

    SECONDS = "seconds"
    COUNT = "count"
    TIMES = "times"


class Usual(NamedTuple):
    """What holds for a kind, unless somebody sets a rule."""

    unit: Unit
    threshold: float
    severity: Severity
    hold_us: int = 0
    clear_us: int = 0
    meaning: str = ""
    """What the threshold is compared with, in words."""


_MINUTE_US = MINUTE * SECOND_US
USUAL: dict[AlertKind, Usual] = {
    AlertKind.MISSING_RUN: Usual(
        Unit.COUNT, 1, Severity.PAGE, meaning="occurrences of a schedule without any record"
    ),
    AlertKind.LATE_RUN: Usual(
        Unit.SECONDS,
        60,
        Severity.WARN,
        clear_us=_MINUTE_US,
        meaning="how long something is due and has not fired",
    ),
    AlertKind.STALE_COMPLETION: Usual(
        Unit.COUNT,
        3,
        Severity.PAGE,
        meaning="occurrences of a schedule that fell due since its last useful completion",
    ),
    AlertKind.NO_EXECUTIONS: Usual(
        Unit.SECONDS,
        60,
        Severity.PAGE,
        hold_us=_MINUTE_US // 2,
        clear_us=_MINUTE_US // 2,
        meaning="how long work is due while nothing is started",
    ),
    AlertKind.AMBIGUOUS_RUN: Usual(
        Unit.COUNT, 1, Severity.PAGE, meaning="a run of which nobody knows what it did"
    ),
    AlertKind.STALLED_RUN: Usual(
        Unit.SECONDS,
        0,
        Severity.WARN,
        clear_us=_MINUTE_US // 2,
        meaning="how far beyond its task's limit an attempt has not advanced",
    ),
    AlertKind.SEVERAL_ATTEMPTS: Usual(
        Unit.COUNT,
        3,
        Severity.WARN,
        clear_us=_MINUTE_US,
        meaning="attempts of one run that is still open",
    ),
    AlertKind.DEAD_LETTERS: Usual(
        Unit.COUNT,
        1,
        Severity.WARN,
        meaning="runs of a task that died within the last 15 minutes",
    ),
    AlertKind.QUEUE_AGE: Usual(
        Unit.SECONDS,
        5 * MINUTE,
        Severity.WARN,
        clear_us=2 * _MINUTE_US,
        meaning="how long the first of a queue has waited",
    ),
    AlertKind.QUEUE_DEPTH: Usual(
        Unit.COUNT,
        10_000,
        Severity.WARN,
        hold_us=_MINUTE_US,
        clear_us=2 * _MINUTE_US,
        meaning="runs in a queue",
    ),
    AlertKind.BREAKER_OPEN: Usual(
        Unit.SECONDS,
        0,
        Severity.WARN,
        clear_us=2 * _MINUTE_US,
        meaning="how long a destination has been left alone",
    ),
    AlertKind.CLOCK_SKEW: Usual(
        Unit.SECONDS,
        0.1,
        Severity.PAGE,
        clear_us=_MINUTE_US // 2,
        meaning="how far a dispatcher's clock is off the store's",
    ),
    AlertKind.EARLY_FIRE: Usual(
        Unit.COUNT, 1, Severity.PAGE, meaning="runs that were fired before they were due"
    ),
    AlertKind.CREATION_RATE: Usual(
        Unit.TIMES,
        10,
        Severity.WARN,
        hold_us=_MINUTE_US,
        clear_us=5 * _MINUTE_US,
        meaning="promises made in a minute, beside how many usually are",
    ),
    AlertKind.OVERLAP: Usual(
        Unit.TIMES,
        0.8,
        Severity.WARN,
        clear_us=5 * _MINUTE_US,
        meaning="how long runs of a schedule take, beside its interval",
    ),
    AlertKind.SCHEDULE_PAUSED: Usual(
        Unit.COUNT,
        1,
        Severity.WARN,
        meaning="a schedule that is paused because what it needs is gone",
    ),
}
