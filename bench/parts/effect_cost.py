"""What a permission costs, asked before an effect, and what saying afterwards that it is done does.

Counted, and timed one after the other: an attempt waits for each of them, and each is on the disk
before it is answered. A run that begins no effect pays nothing (`work_cost` counts those).

.venv/bin/python -m bench.parts.effect_cost            print the table
.venv/bin/python -m bench.parts.effect_cost --write    and put it into BENCHMARKS.md
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bench import tables
from bench.parts.work_cost import FRAME_BYTES, Cost
from bench.stores.database import Database, boot
from bench.stores.file import SqliteFile
from bench.stores.places import CLOCK, new_app, number
from duly.domain.effects import Grant
from duly.domain.enums import Effects
from duly.store.ports.dispatch import Join, MemberKind
from duly.store.ports.effects import BeginEffect, EndEffect
from duly.store.ports.execution import ClaimRuns

if TYPE_CHECKING:
    from collections.abc import Callable

    import duly
    from bench.stores.places import Counting, Place
    from duly.store.ports import Store
    from duly.store.ports.dispatch import MemberId
    from duly.store.ports.execution import ClaimedRun

RUNS = 1000
LEASE_US = 3_600_000_000
NAMES = (
    "`effect(key)`: first permission of an attempt",
    "`effect(key)`: its next",
    "`effect(key)`: done",
    "`begin_effects()`",
)
LIST_TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'duly'"
READ_TRANSACTION = "SELECT pg_current_xact_id()::text::int8"
COUNT_WRITTEN = "SELECT count(*) FROM duly.{} WHERE xmin::text::int8 > {}"


class Price(NamedTuple):
    """What one order took: counted, and how long each was waited for."""

    cost: Cost
    waits_us: list[int]
    rows: float
    """Rows that each has written, in whichever tables."""


class Prices(NamedTuple):
    """Of a permission for one effect, of the next of the same attempt, of saying that it is done,
    and of one permission for all that an attempt does."""

    first: Price
    next: Price
    done: Price
    whole: Price


def prices(place: Place, runs: int) -> Prices:
    """Permit and end effects of as many claimed runs; return what each took."""
    place.fill()
    with place.counting() as counted, new_app(place.url) as app:
        worker, claimed = _claimed(app, 2 * runs)

        def begin(key: str | None) -> Callable[[ClaimedRun], None]:
            def ask(one: ClaimedRun) -> None:
                order = BeginEffect(worker=worker, hold=one.hold, effects=Effects.UNSAFE, key=key)
                assert app.store.begin_effect(order).grant is Grant.GRANTED

            return ask

        def end(one: ClaimedRun) -> None:
            order = EndEffect(worker=worker, hold=one.hold, key="first", result='"sent"')
            assert app.store.end_effect(order)

        keyed, others = claimed[:runs], claimed[runs:]
        orders = [(keyed, begin("first")), (keyed, begin("next")), (keyed, end)]
        orders.append((others, begin(None)))
        found = [_price(place, counted, *order) for order in orders]
    place.rows("SELECT 1")  # so that there is something to close
    place.remove()
    return Prices(*found)


def _claimed(app: duly.App, runs: int) -> tuple[MemberId, list[ClaimedRun]]:
    app.enqueue_many([app.call("ping", {"number": number}) for number in range(runs)])
    store: Store = app.store
    order = Join(kind=MemberKind.WORKER, host="bench", process=os.getpid(), ttl_us=LEASE_US)
    worker, _ = store.join(order)
    claimed: list[ClaimedRun] = []
    while len(claimed) < runs:
        claimed += store.claim_runs(ClaimRuns(worker=worker, limit=500)).runs
    return worker, claimed


def _price(
    place: Place, counted: Counting, claimed: list[ClaimedRun], order: Callable[[ClaimedRun], None]
) -> Price:
    waits_us: list[int] = []
    mark = number(place, READ_TRANSACTION) if isinstance(place, Database) else 0
    before = counted.read()
    for one in claimed:
        began_at = CLOCK.monotonic_us()
        order(one)
        waits_us.append(CLOCK.monotonic_us() - began_at)
    counts = counted.read() - before
    log = counts["WAL bytes"] or counts["page writes"] * FRAME_BYTES
    pages = counts["buffers"] or counts["page hits"] + counts["page reads"]
    rows, count = counts["rows written"], len(claimed)
    if isinstance(place, Database):
        tables = [table for (table,) in place.rows(LIST_TABLES)]
        rows = sum(number(place, COUNT_WRITTEN.format(table, mark)) for table in tables)
    cost = Cost(counts["statements"] / count, log / count, pages / count)
    return Price(cost, waits_us, rows / count)


def measure(runs: int) -> list[str]:
    """Ask both stores, one after the other."""
    rows = tables.header("order", "median us", "p99 us", "statements", "rows", "log bytes", "pages")
    with tempfile.TemporaryDirectory(prefix="duly-bench-") as folder, boot() as server:
        places: dict[str, Place] = {
            "SQLite": SqliteFile(Path(folder) / "effects.db"),
            "PostgreSQL": Database(server),
        }
        for store, place in places.items():
            for name, price in zip(NAMES, prices(place, runs), strict=True):
                cuts = statistics.quantiles(price.waits_us, n=100)
                waits = (f"{cuts[49]:,.0f}", f"{cuts[98]:,.0f}")
                cost = price.cost
                done = (f"{cost.statements:.1f}", f"{price.rows:.1f}")
                counts = (f"{cost.log_bytes:,.0f}", f"{cost.pages:.0f}")
                rows.append(tables.row(f"{name}, on {store}", *waits, *done, *counts))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--write", action="store_true", help="put it into BENCHMARKS.md")
    options = parser.parse_args()
    settings = (
        f"Python {platform.python_version()}, Duly {version('duly')}, {os.cpu_count()} cores;"
        f" {options.runs:,} of each; load before the run: {os.getloadavg()[0]:.1f}."
    )
    text = "\n".join([settings, "", *measure(options.runs)])
    print(text)
    if options.write:
        tables.write(text, "effects")


if __name__ == "__main__":
    main()
