"""A dispatcher in this very process, driven over a place: crowds, streams, and what they cost."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from time import sleep
from typing import TYPE_CHECKING, NamedTuple

from bench.stores.places import CLOCK, DAY_US, SECOND_US, Promise, far_away, new_app
from bench.tables import header, milliseconds, record, row

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator, Sequence

    from bench.stores.places import Place
    from duly.engine.dispatcher import Dispatcher
    from duly.store.dispatch import Wakeups

HEAD_START_US = 8 * SECOND_US
"""How long before the crowd's instant the dispatcher starts: what a healthy one always has."""
PERIODS = {1: "one second", 5: "five seconds"}
AFTERWARDS_US = SECOND_US // 2
"""How long after the end of a stream what is late may still come."""


class Driven(NamedTuple):
    """A dispatcher, and where it is woken."""

    dispatcher: Dispatcher
    wakeups: Wakeups

    def drive(self, until_us: int, fires: int | None = None) -> None:
        """Tick as the loop does, until so much has fired or the time is over."""
        while fires is None or self.dispatcher.statistics.fired < fires:
            wake_at = self.dispatcher.tick()
            monotonic = CLOCK.monotonic_us()
            if monotonic > until_us:
                return
            wait_us = min(wake_at, until_us) - monotonic
            if wait_us > 0 and self.wakeups.wait(wait_us):
                self.dispatcher.wake()


@contextmanager
def driven(url: str) -> Iterator[Driven]:
    """Have a dispatcher on a store, not yet ticking."""
    with new_app(url) as app:
        wakeups = app.store.wakeups()
        dispatcher = app.dispatcher()
        try:
            yield Driven(dispatcher, wakeups)
        finally:
            dispatcher.stop()
            wakeups.close()


def crowd(place: Place, count: int, kind: str) -> float:
    """Fire a crowd due at one instant; return fires a second, from first fire to last commit."""
    due_at = CLOCK.now_us()
    place.fill(**{kind: (Promise(due_at=due_at) for _ in range(count))})
    place.shift(CLOCK.now_us() - due_at + HEAD_START_US)
    with driven(place.url) as one:
        one.drive(CLOCK.monotonic_us() + 300 * SECOND_US, count)
        ended = CLOCK.now_us()
    ((first, runs),) = place.rows("SELECT min(fired_at), count(*) FROM duly.runs")
    assert runs == count, f"{runs} runs for {count} promises"
    place.remove()
    return float(count / (ended - first) * SECOND_US)


class Sustained(NamedTuple):
    """A steady stream: what was expected of it, and what came."""

    rate: int
    expected: int
    fired: int
    missed: int
    doubled: int
    lateness_us: list[int]


def evenly(count: int, period_us: int, start_at: int) -> Iterator[Promise]:
    """Return promises that are spread evenly over their period."""
    for one in range(count):
        yield Promise(due_at=start_at + one * period_us // count, period_us=period_us)


def sustained(place: Place, rate: int, seconds: int, period: int = 5) -> Sustained:
    """Fire schedules that are spread evenly over their period, for some seconds."""
    period_us = period * SECOND_US
    start_at = CLOCK.now_us() // period_us * period_us
    place.fill(evenly(rate * period, period_us, start_at))
    periods = (CLOCK.now_us() + HEAD_START_US - start_at) // period_us + 1
    place.shift(periods * period_us)
    start_at += periods * period_us
    end_at = start_at + seconds * SECOND_US
    with driven(place.url) as one:
        one.drive(CLOCK.monotonic_us() + end_at - CLOCK.now_us() + AFTERWARDS_US)
    found = judged(place, rate, start_at, end_at)
    place.remove()
    return found


def judged(place: Place, rate: int, start_at: int, end_at: int) -> Sustained:
    """Compare what was fired of a stretch with what was expected of it."""
    found = place.rows(f"""
        SELECT schedule_id, scheduled_for, fired_at - not_before FROM duly.runs
        WHERE scheduled_for >= {start_at:d} AND scheduled_for < {end_at:d}""")  # noqa: S608
    distinct = len({one[:2] for one in found})
    expected = rate * (end_at - start_at) // SECOND_US
    lateness = sorted(one[2] for one in found)
    return Sustained(
        rate, expected, len(found), expected - distinct, len(found) - distinct, lateness
    )


def stream_table(streams: Sequence[Sustained], seconds: int, period: int = 5) -> list[str]:
    """Write what became of streams."""
    rows = header(
        "schedules a second",
        "seconds",
        *("expected", "fired", "missed", "doubled"),
        *("lateness p50 ms", "p99 ms", "max ms"),
    )
    for one in streams:
        counts = (one.expected, one.fired, one.missed, one.doubled)
        told = (f"{count:,}" for count in counts)
        rows.append(row(f"{one.rate:,}", seconds, *told, milliseconds(one.lateness_us)))
        late = one.lateness_us
        record("stream", **one._asdict() | {"lateness_us": late[:: max(1, len(late) // 1000)]})
    about = f"""Every schedule has a period of {PERIODS[period]}. Missed: not fired half a second
        after the end. Lateness is from due to the store's clock in the firing transaction."""
    return [*rows, "", " ".join(about.split())]


@dataclass(frozen=True)
class CostSizes:
    """How long a dispatcher is watched while it fires a crowd, and how long getting ready takes."""

    seconds: int
    lead: int


def fill_for_cost(place: Place, pending: int, fires: int) -> dict[str, int]:
    """Promise much for another day, and a crowd of each kind; return the crowds' instants."""
    tomorrow = CLOCK.now_us() + DAY_US
    crowds = {"schedules": tomorrow, "delayed": tomorrow + DAY_US}
    place.fill(
        **{
            kind: [
                *far_away(pending // 2),
                *(Promise(due_at=due_at) for _ in range(fires)),
            ]
            for kind, due_at in crowds.items()
        }
    )
    return crowds


def cost_per_fire(place: Place, due_at: int, fires: int, sizes: CostSizes) -> dict[str, float]:
    """Count what the database does for each fire of a crowd, with so much else pending.

    Counted is all that a dispatcher does in the same number of seconds: joining, loading, reading
    definitions, firing.
    """
    half_us = sizes.seconds * SECOND_US // 2
    new_at = CLOCK.now_us() + sizes.lead * SECOND_US + half_us
    place.shift(new_at - due_at, due_at)
    wait_us = new_at - half_us - CLOCK.now_us()
    assert wait_us >= 0, f"it took {-wait_us / SECOND_US:.1f} s longer to get ready"
    sleep(wait_us / SECOND_US)
    with place.counting() as counted, driven(place.url) as one:
        one.drive(CLOCK.monotonic_us() + 2 * half_us)
        counts, fired = counted.read(), one.dispatcher.statistics.fired
    assert fired == fires, f"{fired} of {fires} fired"
    return {name: count / fires for name, count in counts.items()}


def idle_counts(place: Place, seconds: int) -> Counter[str]:
    """Count what a dispatcher asks of the database in a minute in which nothing is due."""
    with place.counting() as counted, driven(place.url) as one:
        one.drive(CLOCK.monotonic_us() + 5 * SECOND_US)
        first = counted.read()
        one.drive(CLOCK.monotonic_us() + seconds * SECOND_US)
        counts = counted.read()
    counts.subtract(first)
    for name in counts:
        counts[name] = counts[name] * 60 // seconds
    return counts
