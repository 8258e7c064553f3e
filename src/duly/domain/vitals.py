"""Vitals: from the newest runs, how punctual, how often in vain, and how old what was useful is.

Whether triggers are on time and whether work gets done are two things, and stay two (V4). All of it
is drawn from a window of the newest runs, when somebody asks; how far that reached is told.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from duly.domain.instants import HOUR, MINUTE, SECOND_US
from duly.domain.literals import Finding, Lane, Origin, RunState
from duly.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from duly.domain.run_vitals import RunVital
    from duly.domain.timetable.timetable import Timetable

WINDOW_RUNS = 500
"""Of one schedule, task or tenant: so many of its newest runs are looked at."""
WINDOW_RUNS_EACH = 20
"""Of each of many schedules."""
FAILURES_SHOWN_MAX = 10
BEHIND_MAX = 1_000
"""So many occurrences are counted since the last useful completion, and no more."""
STALE_FROM = 2.0
"""From so many cadences on a useful completion is stale: one may be late, two are not chance."""
LATE_BOUNDS_US = tuple(
    seconds * SECOND_US for seconds in (1, 5, 15, MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 6 * HOUR)
)
"""Where lateness is cut into parts for a drawing."""
_CLASS = re.compile(r"[A-Za-z_][\w.]*")
_CLASS_LENGTH_MAX = 80
_OPEN_UNBEGUN = frozenset((RunState.QUEUED, RunState.BLOCKED))


class Lateness(NamedTuple):
    """How late runs were, in microseconds: half of them, 95 and 99 of 100 no later than this."""

    runs: int = 0
    p50: int | None = None
    p95: int | None = None
    p99: int | None = None


class FailureKind(NamedTuple):
    """One way in which runs went wrong, and how many of them last did so."""

    state: str
    """Failed, timed-out or lost."""
    reason: str | None
    error: str | None
    """The class of the error, as its last line begins."""
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What the newest runs tell, all together."""

    runs: int
    since: int | None
    """When the oldest of them fell due; None if there is none."""
    fired: Lateness
    """From due to fired: the trigger's."""
    started: Lateness
    """From due to the first start; what has not begun counts with how late it is by now."""
    useful_after: Lateness
    """From due to the useful completion."""
    useful: int
    attempts: int
    retries: int
    """Attempts beyond the first of each run."""
    failures: tuple[FailureKind, ...]
    failures_more: int
    """How many runs went wrong in other ways than those listed."""
    started_counts: tuple[int, ...] = ()
    """How `started` is spread, by `LATE_BOUNDS_US`; and `useful_after`, for drawings."""
    useful_counts: tuple[int, ...] = ()

    @property
    def useful_per_attempt(self) -> float | None:
        """How many useful completions an attempt brings; None if nothing was tried."""
        return None if not self.attempts else self.useful / self.attempts


def look_at(runs: Sequence[RunVital], is_checked: Callable[[str], bool], now: int) -> Window:
    """Look at runs, newest first; `is_checked` says whether a task has a check."""
    own = [run for run in runs if run.origin is not Origin.VERIFY]
    live = [run for run in own if run.lane is Lane.LIVE]
    useful = [(run, useful_at(run, is_checked=is_checked(run.task))) for run in own]
    kinds = Counter(kind for run in own if (kind := failure_kind(run)) is not None)
    shown = sorted(kinds.items(), key=lambda item: (-item[1], *(part or "" for part in item[0])))
    told = shown[:FAILURES_SHOWN_MAX]
    started = [at - run.due_at for run in live if (at := _started_at(run, now)) is not None]
    ended = [at - run.due_at for run, at in useful if at is not None and run.lane is Lane.LIVE]
    return Window(
        runs=len(own),
        since=min((run.due_at for run in own), default=None),
        fired=lateness(run.fired_at - run.due_at for run in live if run.fired_at is not None),
        started=lateness(started),
        useful_after=lateness(ended),
        useful=sum(at is not None for _, at in useful),
        attempts=sum(run.attempt for run in own),
        retries=sum(max(run.attempt - 1, 0) for run in own),
        failures=tuple(FailureKind(*kind, count) for kind, count in told),
        failures_more=sum(count for _, count in shown[FAILURES_SHOWN_MAX:]),
        started_counts=count_lates(started),
        useful_counts=count_lates(ended),
    )


def lateness(lates: Iterable[int]) -> Lateness:
    """Return how late some were, each as it is on record; nobody is early."""
    ordered = sorted(max(one, 0) for one in lates)
    if not ordered:
        return Lateness()
    return Lateness(len(ordered), *(_rank(ordered, of) for of in (50, 95, 99)))


def count_lates(lates: Iterable[int]) -> tuple[int, ...]:
    """Count how many were no later than each of `LATE_BOUNDS_US`, and at the end those beyond."""
    ordered = sorted(lates)
    ends = [0, *(bisect_right(ordered, bound) for bound in LATE_BOUNDS_US), len(ordered)]
    return tuple(after - before for before, after in pairwise(ends))


def useful_at(run: RunVital, *, is_checked: bool) -> int | None:
    """Return when a run's completion was useful; None if it was not, or is not known to be.

    A task that has a check is believed when the check has found its work in place; any other when
    it says that it succeeded.
    """
    if run.state is not RunState.SUCCEEDED:
        return None
    if not is_checked:
        return run.finished_at
    return run.found_at if run.finding is Finding.PRESENT else None


def failure_kind(run: RunVital) -> tuple[str, str | None, str | None] | None:
    """Say how a run last went wrong: state, reason and class of error; None if it never did."""
    if run.fault is None:
        return None
    return run.fault.state, run.fault.reason, error_class(run.fault.error_end)


def error_class(text: str | None) -> str | None:
    """Return the class of an error, as the last line of its text begins; None if it has none."""
    lines = [line for line in (text or "").splitlines() if line.strip()]
    if not lines:
        return None
    found = _CLASS.match(lines[-1])
    word = lines[-1].strip() if found is None else found.group()
    return word[:_CLASS_LENGTH_MAX]


def cadence_of(timetable: Timetable, now: int) -> int | None:
    """Return how far apart occurrences are around now: the longer of the last two intervals.

    The longer, so that in the morning the first of many is not measured by the night that it ends.
    None if there are no two: then nothing is known of a rhythm.
    """
    try:
        coming = timetable.first_from(now + 1)
        last = timetable.last_until(now)
        before = None if last is None else timetable.last_until(last - 1)
        after = None if coming is None else timetable.first_from(coming + 1)
    except UsageError:
        return None  # a rule that can't look back has no rhythm to compare with
    if last is not None and coming is not None:
        return max(coming - last, 0 if before is None else last - before)
    if coming is not None and after is not None:
        return after - coming
    return None if last is None or before is None else last - before


def count_behind(timetable: Timetable, after: int, until: int) -> int:
    """Count the occurrences later than an instant and not later than another; up to a bound."""
    count, cursor = 0, after
    try:
        while count < BEHIND_MAX:
            found = timetable.first_from(cursor + 1)
            if found is None or found > until:
                break
            count, cursor = count + 1, found
    except UsageError:
        return count
    return count


def _started_at(run: RunVital, now: int) -> int | None:
    """Return when a run was first started, or now if it waits; None if it never was nor will be."""
    if run.attempt <= 1 and run.started_at is not None:
        return run.started_at
    if run.begun_at is not None:
        # Of a run that was tried again its first claim is on record, and not its first start.
        return run.begun_at
    return now if run.state in _OPEN_UNBEGUN and run.fired_at is not None else None


def _rank(ordered: Sequence[int], percent: int) -> int:
    """Return the value that so many of a hundred do not exceed: one of those there are."""
    return ordered[-(-len(ordered) * percent // 100) - 1]
