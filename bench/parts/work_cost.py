"""What a run costs by count, from its schedule to its outcome: statements, log, pages.

A dispatcher and a worker live in one process here, each in a thread of its own: what SQLite does is
counted on the connections of this process, and what PostgreSQL does wherever it is asked from.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from bench.parts.processes import wait
from bench.stores.places import CLOCK, SECOND_US, Promise, new_app, number
from duly.app.worker_options import WorkerOptions
from duly.engine.loop import Loop
from duly.store.dispatch import MemberKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.stores.places import Place

LEAD_US = 6 * SECOND_US
FINISHED = "SELECT count(*) FROM duly.outcomes"
BESIDE = ("effects", "scopes", "scope_items", "verdicts", "ambiguous", "attempts", "dead")
FRAME_BYTES = 4096 + 24
"""A page in SQLite's log, and its header."""


class Cost(NamedTuple):
    """What one run took."""

    statements: float
    log_bytes: float
    pages: float
    beside: int = 0
    """Rows of all runs in tables that only those with effects, items or failures need."""


def cost(place: Place, runs: int, slots: int) -> Cost:
    """Run a crowd to its end; return what a run took, everything around it included."""
    first = CLOCK.now_us()
    place.fill(Promise(due_at=first) for _ in range(runs))
    place.shift(CLOCK.now_us() - first + LEAD_US)
    with place.counting() as counted, at_work(place.url, slots):
        wait(lambda: number(place, FINISHED) >= runs)
        counts = counted.read()
    beside = sum(number(place, f"SELECT count(*) FROM duly.{table}") for table in BESIDE)  # noqa: S608
    place.remove()
    log = counts["WAL bytes"] or counts["page writes"] * FRAME_BYTES
    pages = counts["buffers"] or counts["page hits"] + counts["page reads"]
    return Cost(counts["statements"] / runs, log / runs, pages / runs, beside)


@contextmanager
def at_work(url: str, slots: int) -> Iterator[None]:
    """Have a dispatcher and a worker at work."""
    with new_app(url) as one, new_app(url) as other:
        bells = one.store.wakeups(), other.store.wakeups(MemberKind.WORKER)
        options = WorkerOptions(slots=slots)
        loops = (
            Loop(one.dispatcher(wake_address=bells[0].address), bells[0], CLOCK),
            Loop(other.worker(options, wakeups=bells[1]), bells[1], CLOCK),
        )
        threads = [threading.Thread(target=loop.run) for loop in loops]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            for loop, thread in zip(loops, threads, strict=True):
                loop.stop()
                thread.join()
            for bell in bells:
                bell.close()
