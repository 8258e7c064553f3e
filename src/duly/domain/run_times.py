"""Run times: how much of the time between two occurrences a schedule's runs take (O2).

A run is in the way of the next one from when it fires until it is over, so that is what counts: its
waits for a worker and for another attempt included. Looked at when somebody asks, over the last few
runs, so that it costs nothing while things run.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from duly.domain.durations import duration_words
from duly.domain.instants import SECOND_US

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from duly.domain.timetable.timetable import Timetable

RUNS_LOOKED_AT = 20
OCCURRENCES_LOOKED_AT = 11
"""So many coming ones tell how close together two of them lie."""
WARN_FROM = 0.8
"""From this part of the interval on somebody is told: before runs overlap, and not after."""
_MICROSECOND = timedelta(microseconds=1)
_MILLISECOND_US = 1000
_PERCENT = 100


class RunSpan(NamedTuple):
    """From when to when a run was, or is, in the way of others."""

    fired_at: int
    ended_at: int | None
    """None while it is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTimes:
    """How long a schedule's runs take, beside how long they may."""

    interval: timedelta | None
    """The shortest time between two of its coming occurrences; None if there are no two."""
    usual: timedelta | None
    """What nine of ten of its last runs did not exceed, from fire to end; None if none is over."""
    open_for: timedelta | None
    """How long its oldest open run has been open; None if there is none."""
    count: int
    """How many runs this is drawn from."""

    @property
    def ratio(self) -> float | None:
        """What part of the interval a run usually takes: from 1 on, runs overlap."""
        if self.usual is None or self.interval is None:
            return None
        return self.usual / self.interval

    @property
    def warning(self) -> str | None:
        """Say that runs overlap, or soon will; None while there is room."""
        if self.interval is None:
            return None
        ratio, apart = self.ratio or 0.0, _words(self.interval)
        if ratio >= WARN_FROM and self.usual is not None:
            share = f"{round(ratio * _PERCENT)}% of the {apart} until the next one"
            end = "they overlap" if ratio >= 1 else "a little slower, and they overlap"
            return f"runs take up to {_words(self.usual)}, {share}: {end}"
        if self.open_for is not None and self.open_for / self.interval >= WARN_FROM:
            often = apart.removeprefix("1 ") if apart.count(" ") == 1 else apart
            open_for = _words(self.open_for)
            return f"a run has been open for {open_for}, and the next comes every {often}"
        return None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values, durations in seconds."""
        return {
            "interval": _seconds(self.interval),
            "usual": _seconds(self.usual),
            "open_for": _seconds(self.open_for),
            "ratio": None if self.ratio is None else round(self.ratio, 4),
            "runs": self.count,
        }


def run_times(
    timetable: Timetable, spans: Sequence[RunSpan], now: datetime, now_us: int
) -> RunTimes:
    """Return how long runs take by their spans, and how far apart coming occurrences lie."""
    coming = timetable.upcoming(now, OCCURRENCES_LOOKED_AT)
    ended = sorted(span.ended_at - span.fired_at for span in spans if span.ended_at is not None)
    opened = [span.fired_at for span in spans if span.ended_at is None]
    return RunTimes(
        interval=min((later - one for one, later in pairwise(coming)), default=None),
        usual=None if not ended else _ninth_of_ten(ended) * _MICROSECOND,
        open_for=None if not opened else max(now_us - min(opened), 0) * _MICROSECOND,
        count=len(ended),
    )


def _ninth_of_ten(values: Sequence[int]) -> int:
    return values[-(-len(values) * 9 // 10) - 1]


def _words(duration: timedelta) -> str:
    """Write a duration as people read it: nobody wants its microseconds."""
    microseconds = duration // _MICROSECOND
    unit = SECOND_US if microseconds >= SECOND_US else _MILLISECOND_US
    return duration_words(microseconds - microseconds % unit)


def _seconds(duration: timedelta | None) -> float | None:
    return None if duration is None else duration.total_seconds()
