"""How a fleet does on PostgreSQL: fires a second, lateness, takeovers, cost by count, and in need.

    make bench                                        print the tables
    .venv/bin/python -m bench.parts.fleet --write           and put them into BENCHMARKS.md
    .venv/bin/python -m bench.parts.fleet --quick           small sizes, in about two minutes

Whatever is compared takes turns in the same run, on a server of its own that is durable: a fire
counts once it is on disk. Give --only to run some parts: path, crowds, streams, lateness, takeover,
cost, held.
"""

from __future__ import annotations

import os
import platform
import signal
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING

import psycopg

from bench import tables
from bench.parts import driving, processes
from bench.parts.fleet_cost import AGAIN, cost, in_place
from bench.parts.fleet_firing import BATCH, long_ago, path, rates
from bench.parts.fleet_held import HeldSizes, held, slowdown
from bench.stores.database import SETTINGS, Database, boot
from bench.stores.places import SECOND_US
from bench.tables import header, milliseconds, record, row, share, spread
from duly.store.dispatch import MEMBER_TTL_US

if TYPE_CHECKING:
    from collections.abc import Callable

    import duly
    from bench.parts.fleet_firing import Rates
    from bench.parts.fleet_held import Minute
    from tests.postgres.server import Server

WATCHED = driving.CostSizes(seconds=12, lead=15)
HELD = HeldSizes()
SHOWN = {
    "schedules": ("statements", "buffers", "WAL bytes"),
    "delayed": ("statements", "buffers", "WAL bytes"),
    AGAIN: ("WAL bytes", "page images"),
}
"""What is told of each kind of crowd."""


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """How much of everything."""

    rounds: int = 7
    path_pending: int = 100_000
    path_fires: int = 10_000
    crowd_rounds: int = 3
    crowds: tuple[int, ...] = (10_000, 100_000)
    rates: tuple[int, ...] = (1000, 5000, 10_000)
    stream_seconds: int = 15
    timers: int = 300
    timer_seconds: int = 30
    near: int = 200
    takeovers: int = 5
    cost_pending: tuple[int, int] = (10_000, 1_000_000)
    cost_fires: int = 10_000
    cost: driving.CostSizes = WATCHED
    in_place_rounds: int = 20
    held: HeldSizes = HELD


QUICK = Sizes(
    rounds=2,
    path_pending=10_000,
    path_fires=5000,
    crowd_rounds=1,
    crowds=(5000,),
    rates=(1000,),
    stream_seconds=5,
    timers=50,
    timer_seconds=5,
    near=20,
    takeovers=1,
    cost_pending=(10_000, 40_000),
    cost_fires=2000,
    cost=driving.CostSizes(seconds=4, lead=3),
    in_place_rounds=3,
    held=HeldSizes(
        rate=1000,
        settling=6,
        minutes=2,
        minute=5,
        rounds=2,
        batch=1000,
        timers=30,
        timer_seconds=5,
        near=10,
    ),
)


def path_alone(server: Server, sizes: Sizes) -> list[str]:
    """The store fires batches that are prepared ahead."""
    rows = header(
        "fired by the store alone",
        "1 connection, fires/s",
        "2 connections, fires/s",
        "plain statement, rows/s",
        "1 connection : plain",
        "2 connections : plain",
    )
    place = Database(server)
    place.fill(long_ago(sizes.path_pending), long_ago(3 * (sizes.rounds + 1) * sizes.path_fires))
    with path(place) as one:
        for name, period_us in (
            ("schedules, every second", SECOND_US),
            ("schedules, every minute", 60 * SECOND_US),
            ("delayed runs", 0),
        ):
            found = rates(one, period_us, sizes.path_fires, sizes.rounds)
            told = [spread(values) for values in found]
            rows.append(row(name, *told, *(f"{ratio:.2f}" for ratio in _ratios(found))))
            record("path", what=name, **found._asdict())
    place.remove()
    about = f"""{sizes.path_fires:,} fires in a round, in batches of {BATCH:,}, scattered over
        {sizes.path_pending:,} schedules; {sizes.rounds} rounds in which the three take turns. What
        is fired is worked out beforehand. The plain statement inserts a run and a queue row and
        updates the state row (or deletes the delayed run), on one connection, and decides nothing:
        no fence, no clock, no comparison."""
    return [*rows, "", " ".join(about.split())]


def _ratios(found: Rates) -> tuple[float, float]:
    return (
        tables.ratio(found.one_connection, found.plain),
        tables.ratio(found.two_connections, found.plain),
    )


def crowds(server: Server, sizes: Sizes) -> list[str]:
    """A crowd at one instant, through the whole dispatcher."""
    rows = header("due at one instant", "schedules, fires/s", "delayed runs, fires/s")
    for count in sizes.crowds:
        found: dict[str, list[float]] = {"schedules": [], "delayed": []}
        for _ in range(sizes.crowd_rounds):
            for kind, values in found.items():
                values.append(driving.crowd(Database(server), count, kind))
        rows.append(row(f"{count:,}", *(spread(values) for values in found.values())))
        record("crowd", count=count, per_second=found)
    about = f"""From the first fire to the last commit, by one dispatcher in one process, beside the
        database on the same cores; {sizes.crowd_rounds} rounds."""
    return [*rows, "", " ".join(about.split())]


def streams(server: Server, sizes: Sizes) -> list[str]:
    """A steady stream of schedules, spread evenly."""
    found = [
        driving.sustained(Database(server), rate, sizes.stream_seconds) for rate in sizes.rates
    ]
    return driving.stream_table(found, sizes.stream_seconds)


def lateness(server: Server, sizes: Sizes) -> list[str]:
    """How late an idle dispatcher fires, beside the machine's own timers."""
    place = Database(server)
    place.fill()
    timers, floor = processes.idle_lateness(place, sizes.timers, sizes.timer_seconds)
    near = processes.near_lateness(place, sizes.near, 50)
    with psycopg.connect(place.url) as own:
        joined = processes.near_lateness(place, sizes.near, 50, partial(_in_own_transaction, own))
    place.remove()
    record("lateness", timers_us=timers, floor_us=floor, near_us=near, joined_us=joined)
    rows = tables.lateness_table(
        (
            ("timers at random instants, idle dispatcher", timers),
            ("floor: a bare wait for such instants, at the same time", floor),
            ("promised 50 ms ahead by another process (F6)", near),
            ("the same in a transaction of the caller's own", joined),
        )
    )
    about = """A transaction of the caller's own rings no bell at its commit: the dispatcher finds
        what is promised there when it reads the feed, every 250 ms while something happens."""
    return [*rows, "", " ".join(about.split())]


def _in_own_transaction(own: psycopg.Connection[object], app: duly.App, due_at: int) -> None:
    with own.transaction():
        processes.enqueue(app, due_at, own)


def takeover(server: Server, sizes: Sizes) -> list[str]:
    """How soon somebody else fires what a dispatcher owned."""
    killed, stopped = [], []
    for _ in range(sizes.takeovers):
        killed.append(processes.takeover(Database(server), signal.SIGKILL))
        stopped.append(processes.takeover(Database(server), signal.SIGTERM))
    record("takeover", killed_seconds=killed, stopped_seconds=stopped)
    rows = tables.takeover_table((("kill -9", killed), ("SIGTERM", stopped)))
    return [*rows, "", f"A lease lasts {MEMBER_TTL_US / SECOND_US:.0f} s from its last renewal."]


def by_count(server: Server, sizes: Sizes) -> list[str]:
    """What a fire costs by count, with little and with much else pending."""
    small, large = (
        cost(server, pending, sizes.cost_fires, sizes.cost) for pending in sizes.cost_pending
    )
    record("cost", pending=sizes.cost_pending, small=small, large=large)
    few, many = (f"{pending:,} pending" for pending in sizes.cost_pending)
    rows = header("per 1,000 fires", "kind", few, many, "ratio")
    for kind, names in SHOWN.items():
        for name in names:
            one, other = 1000 * small[kind][name], 1000 * large[kind][name]
            rows.append(row(name, kind, f"{one:,.0f}", f"{other:,.0f}", _ratio(one, other)))
    about = f"""{sizes.cost_fires:,} fires at one instant, scattered over the tables, through the
        whole dispatcher; counted is all that it does in {sizes.cost.seconds} seconds: joining,
        renewing, loading, reading definitions, firing. A buffer is a page of 8 kB that was looked
        at, in memory or not. After a checkpoint the first change of a page writes all of it to the
        log, once in fifteen minutes: in a large store that is one image for nearly every fire."""
    return [*rows, "", " ".join(about.split()), "", *_in_place_table(server, sizes)]


def _in_place_table(server: Server, sizes: Sizes) -> list[str]:
    names = ("statements", "buffers", "WAL bytes")
    told = [f"{name} per 1,000 fires" for name in names]
    rows = header("path alone, schedules", "updates in place (HOT)", *told)
    for name, period_us in (("every second", SECOND_US), ("every minute", 60 * SECOND_US)):
        found = in_place(server, sizes.path_pending, period_us, sizes.in_place_rounds)
        counts = (f"{1000 * found.counts[one]:,.0f}" for one in names)
        rows.append(row(name, f"{found.share:.0%}", *counts))
        record("in place", what=name, **found._asdict())
    about = f"""{sizes.path_pending // 10:,} of {sizes.path_pending:,} schedules fire
        {sizes.in_place_rounds} times. The index moves when a schedule's next instant is more than
        ten seconds away from where the index has it: seldom for the first, always for the
        second."""
    return [*rows, "", " ".join(about.split())]


def in_need(server: Server, sizes: Sizes) -> list[str]:
    """The same figures while a transaction is held open elsewhere."""
    found = held(server, sizes.held)
    one, two = found.before, found.after
    seconds = sizes.held.minutes * sizes.held.minute
    rows = header("", "without", f"after {seconds} s", "ratio")
    for name, before, after in (
        ("every second", one.second, two.second),
        ("every minute", one.minute, two.minute),
        ("delayed runs", one.delayed, two.delayed),
    ):
        for who, first, second in slowdown(before, after):
            what = f"fires/s, {name}, {who}"
            rows.append(row(what, f"{first:,.0f}", f"{second:,.0f}", f"{second / first:.2f}"))
    for name in ("buffers", "WAL bytes"):
        counts = [1000 * figures.counts[name] for figures in (one, two)]
        what = f"{name} per 1,000 fires, every minute"
        rows.append(row(what, *(f"{count:,.0f}" for count in counts), _ratio(*counts)))
    for name, early, late in (
        ("lateness when idle", one.idle_us, two.idle_us),
        ("promised 50 ms ahead (F6)", one.near_us, two.near_us),
    ):
        for part in (0.5, 0.99):
            pair = share(early, part), share(late, part)
            cells = (f"{value / 1000:.2f}" for value in pair)
            rows.append(row(f"{name}, p{part * 100:.0f} ms", *cells, _ratio(*pair)))
    about = f"""A session in REPEATABLE READ has read something in this database and stays open,
        while a dispatcher process fires {sizes.held.rate:,} schedules a second with a period of
        five seconds. Then the same schedules are measured again, the session still open. In
        the meantime:"""
    record("held", before=one._asdict(), after=two._asdict())
    return [*rows, "", " ".join(about.split()), "", *_minutes_table(found.minutes, sizes.held)]


def _minutes_table(minutes: list[Minute], sizes: HeldSizes) -> list[str]:
    rows = header(
        "minute" if sizes.minute == 60 else f"{sizes.minute} s",
        *("expected", "fired", "missed", "doubled"),
        *("firing, buffers per 1,000", "ms per 1,000"),
        *("loading and sweeping, buffers a second", "ms a second", "feed, buffers a second"),
        *("lateness p50 ms", "p99 ms", "max ms"),
    )
    for number, one in enumerate(minutes, 1):
        stream = one.stream
        counts = (stream.expected, stream.fired, stream.missed, stream.doubled)
        fired = max(stream.fired, 1) / 1000
        seconds = sizes.minute
        costs = (
            f"{one.buffers['firing'] / fired:,.0f}",
            f"{one.milliseconds['firing'] / fired:,.1f}",
            f"{one.buffers['loading'] / seconds:,.0f}",
            f"{one.milliseconds['loading'] / seconds:,.1f}",
            f"{one.buffers['feed'] / seconds:,.0f}",
        )
        told = (f"{count:,}" for count in counts)
        rows.append(row(number, *told, *costs, milliseconds(stream.lateness_us)))
        record("held minute", number=number, fired=fired, costs=costs, counts=counts)
    return rows


def _ratio(one: float, other: float) -> str:
    return f"{other / one:.2f}" if one else "-"


PARTS: dict[str, tuple[str, Callable[[Server, Sizes], list[str]]]] = {
    "path": ("The dispatch path alone", path_alone),
    "crowds": ("A crowd at one instant", crowds),
    "streams": ("A steady stream", streams),
    "lateness": ("Lateness when idle", lateness),
    "takeover": ("Takeover", takeover),
    "cost": ("Cost of a fire, by count", by_count),
    "held": ("With a transaction held open elsewhere", in_need),
}


def settings(server: Server) -> str:
    chosen = ", ".join(f"{name}={value}" for name, value in SETTINGS.items())
    rest = "fsync, full_page_writes, synchronous_commit, autovacuum and checksums on"
    return (
        f"Python {platform.python_version()}, Duly {version('duly')}, psycopg"
        f" {version('psycopg')}, PostgreSQL {server.version} ({chosen}; {rest}) over TCP on"
        f" loopback, on the same {os.cpu_count()} cores as the dispatcher; median (lowest-highest)."
        f" Load before the run: {os.getloadavg()[0]:.1f}."
    )


def _measure(part: Callable[[Server, Sizes], list[str]], server: Server, sizes: Sizes) -> list[str]:
    """Begin each part with a checkpoint, or the next one would fall into the midst of it."""
    with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
        connection.execute("CHECKPOINT")
    return part(server, sizes)


def main() -> None:
    parser = tables.options_of(__doc__.splitlines()[0], list(PARTS))
    options = parser.parse_args()
    sizes = QUICK if options.quick else Sizes()
    with boot() as server:
        chosen = [PARTS[name] for name in options.only]
        parts = [(title, partial(_measure, part, server, sizes)) for title, part in chosen]
        text = tables.tell(settings(server), parts, options)
    if options.write:
        tables.write(text, "fleet")


if __name__ == "__main__":
    main()
