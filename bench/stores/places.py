"""Where promises are kept while they are measured: what a file and a database have in common.

A place is filled by direct inserts that repeat rows which Duly itself has made: through the front
door a million promises would take longer than everything that is measured. Promises are made at
random moments of the past quarter, so that what falls due together does not lie together.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

import duly
from duly.clock import SystemClock

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager

    from duly.engine.manual_clock import ManualClock
    from duly.store.ports import Store

SECOND_US = 1_000_000
DAY_US = 86_400 * SECOND_US
QUARTER_US = 90 * DAY_US
YEAR_US = 365 * DAY_US
CLOCK = SystemClock()
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Rows = list[tuple[Any, ...]]


@dataclass(frozen=True, kw_only=True)
class Promise:
    """What a row is to promise."""

    due_at: int
    period_us: int = DAY_US
    """Of a schedule; counted from its due."""


class Counting(Protocol):
    """What a database did since it was asked to count."""

    def read(self) -> Counter[str]:
        """Return the counts so far."""
        ...


class Place(Protocol):
    """An empty store, until it is filled."""

    url: str

    def fill(self, schedules: Iterable[Promise] = (), delayed: Iterable[Promise] = ()) -> None:
        """Make these promises, and nothing else."""
        ...

    def shift(self, by_us: int, only_at: int | None = None) -> None:
        """Let what is promised fall due later or sooner: all, or what is due at one instant.

        A place takes time to fill; what is to be due soon is promised for then once it is full.
        """
        ...

    def rows(self, sql: str) -> Rows:
        """Read something; tables are called as in PostgreSQL, such as duly.runs."""
        ...

    def counting(self) -> AbstractContextManager[Counting]:
        """Count what is done within."""
        ...

    def clock(self, now_us: int) -> AbstractContextManager[ManualClock]:
        """Have it follow a clock that is set by hand from now on."""
        ...

    def store(self, clock: ManualClock) -> Store:
        """Open a store on such a clock."""
        ...

    def remove(self) -> None:
        """Give it up, with everything in it."""
        ...


def new_app(url: str | None = None, **parts: Any) -> duly.App:
    app = duly.App(url, name="bench", **parts)

    @app.task
    def ping(number: int = 0) -> None:
        """Do nothing."""

    return app


def make_templates(url: str) -> None:
    """Make one schedule and one delayed run, whose rows are then repeated."""
    with new_app(url) as app:
        call = app.call("ping")
        app.schedules.create("template", call, duly.every("1d"))
        app.enqueue(call, delay="1d", key="template")
        # As in any store that has been in use: nothing is to be recomputed when it is opened.
        app.store.note_tzdata(duly.default_zones().version)


def far_away(count: int) -> Iterator[Promise]:
    """Return promises for any time of the year after next week."""
    draw, now = random.Random(count), CLOCK.now_us()
    for _ in range(count):
        yield Promise(due_at=now + 7 * DAY_US + draw.randrange(YEAR_US))


def number(place: Place, sql: str) -> int:
    """Return the one number that is asked for; 0 if there is none."""
    return int(place.rows(sql)[0][0] or 0)
