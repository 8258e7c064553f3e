"""What is to be reached, beside what was: printed with every report."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from bench.tables import header, row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Record = dict[str, Any]


class Goal(NamedTuple):
    """A goal, how its figure is found, and when it is reached."""

    what: str
    figure: Callable[[list[Record]], float | None]
    is_met: Callable[[float], bool]
    unit: str = ""


def _figures(
    records: Iterable[Record], workload: str, contender: str, store: str, **settings: object
) -> list[Record]:
    return [
        one["figures"]
        for one in records
        if one["workload"] == workload
        and one["contender"] == contender
        and one["store"] == store
        and all(one["settings"].get(name) == value for name, value in settings.items())
        and "failed" not in one["figures"]
    ]


def _median(found: list[Record], name: str) -> float | None:
    values = [one[name] for one in found if one.get(name) is not None]
    return float(median(values)) if values else None


def _ours(workload: str, store: str, name: str, **settings: object):
    return lambda records: _median(_figures(records, workload, "Duly", store, **settings), name)


STORES = ("PostgreSQL", "SQLite")


def _sum(
    workload: str, names: tuple[str, ...], stores: tuple[str, ...] = STORES, **settings: object
):
    def total(records: list[Record]) -> float | None:
        found = [
            one
            for store in stores
            for one in _figures(records, workload, "Duly", store, **settings)
        ]
        return float(sum(one.get(name) or 0 for one in found for name in names)) if found else None

    return total


def _times_best_peer(workload: str, store: str, **settings: object):
    def ratio(records: list[Record]) -> float | None:
        ours = _median(_figures(records, workload, "Duly", store, **settings), "per_second")
        peers = {one["contender"] for one in records if one["store"] == store} - {"Duly"}
        rates = [
            _median(_figures(records, workload, peer, store, **settings), "per_second")
            for peer in peers
        ]
        best = max((one for one in rates if one), default=None)
        return ours / best if ours and best else None

    return ratio


def _times(workload: str, store: str, peer: str, **settings: object):
    def ratio(records: list[Record]) -> float | None:
        ours = _median(_figures(records, workload, "Duly", store, **settings), "per_second")
        theirs = _median(_figures(records, workload, peer, store, **settings), "per_second")
        return ours / theirs if ours and theirs else None

    return ratio


def _growth(name: str):
    def ratio(records: list[Record]) -> float | None:
        found = [one for one in records if one["workload"] == "W4 backlog"]
        pendings = sorted({one["settings"]["pending"] for one in found})
        if len(pendings) < 2:
            return None
        ends = [
            _median(_figures(records, "W4 backlog", "Duly", "PostgreSQL", pending=one), name)
            for one in (pendings[0], pendings[-1])
        ]
        return ends[1] / ends[0] if ends[0] and ends[1] else None

    return ratio


def _highest(workload: str, names: tuple[str, ...], **settings: object):
    def highest(records: list[Record]) -> float | None:
        found = [
            sum(one.get(name) or 0 for name in names)
            for store in STORES
            for one in _figures(records, workload, "Duly", store, **settings)
        ]
        return max(found, default=None)

    return highest


STREAM: dict[str, Any] = {"rate": 11_600, "is_aligned": False}
THOUSAND: dict[str, Any] = {"rate": 1000, "is_aligned": False}
FAST = {"rate": 20_000, "is_aligned": False}
WRONG = ("missed", "doubled")
GOALS = [
    Goal(
        "W1, 10,000 on PostgreSQL: at least 2.5 times the best peer",
        _times_best_peer("W1 burst", "PostgreSQL", count=10_000),
        lambda found: found >= 2.5,
        " x",
    ),
    Goal(
        "W1, 10,000 on PostgreSQL: aim 40,000 runs/s",
        _ours("W1 burst", "PostgreSQL", "per_second", count=10_000),
        lambda found: found >= 40_000,
    ),
    Goal(
        "W1, 100,000 on PostgreSQL: at least 25,000 runs/s",
        _ours("W1 burst", "PostgreSQL", "per_second", count=100_000),
        lambda found: found >= 25_000,
    ),
    Goal(
        "W1, 100,000 on PostgreSQL: p99 under 4 s",
        _ours("W1 burst", "PostgreSQL", "p99_ms", count=100_000),
        lambda found: found < 4000,
        " ms",
    ),
    Goal(
        "W1, 10,000 on SQLite: at least 7 times the best peer",
        _times_best_peer("W1 burst", "SQLite", count=10_000),
        lambda found: found >= 7,
        " x",
    ),
    Goal(
        "W1, 10,000 on SQLite: aim 20,000 runs/s",
        _ours("W1 burst", "SQLite", "per_second", count=10_000),
        lambda found: found >= 20_000,
    ),
    Goal(
        "W1: none early, missed or doubled",
        _sum("W1 burst", ("early", *WRONG)),
        lambda found: not found,
    ),
    Goal(
        "W2, 1,000/s: nothing missed, doubled or early",
        _sum("W2 punctuality", ("early", *WRONG), **THOUSAND),
        lambda found: not found,
    ),
    Goal(
        "W2, 1,000/s on PostgreSQL: p99 at most 15 ms",
        _ours("W2 punctuality", "PostgreSQL", "p99_ms", **THOUSAND),
        lambda found: found <= 15,
        " ms",
    ),
    *(
        Goal(
            f"W2, 11,600/s on {store}: nothing missed, doubled or early",
            _sum("W2 punctuality", ("early", *WRONG), (store,), **STREAM),
            lambda found: not found,
        )
        for store in STORES
    ),
    Goal(
        "W2, 11,600/s on PostgreSQL: p50 at most 10 ms",
        _ours("W2 punctuality", "PostgreSQL", "p50_ms", **STREAM),
        lambda found: found <= 10,
        " ms",
    ),
    Goal(
        "W2, 11,600/s on PostgreSQL: p99 at most 50 ms",
        _ours("W2 punctuality", "PostgreSQL", "p99_ms", **STREAM),
        lambda found: found <= 50,
        " ms",
    ),
    Goal(
        "W2, 11,600/s on SQLite: p99 at most 200 ms",
        _ours("W2 punctuality", "SQLite", "p99_ms", **STREAM),
        lambda found: found <= 200,
        " ms",
    ),
    Goal(
        "W2, 20,000/s on PostgreSQL: p99 at most 100 ms",
        _ours("W2 punctuality", "PostgreSQL", "p99_ms", **FAST),
        lambda found: found <= 100,
        " ms",
    ),
    Goal(
        "W3, in bulk on PostgreSQL: at least 1.5 times PgQueuer",
        _times("W3 creation", "PostgreSQL", "PgQueuer", way="bulk"),
        lambda found: found >= 1.5,
        " x",
    ),
    Goal(
        "W3, in bulk on PostgreSQL: aim 60,000 runs/s",
        _ours("W3 creation", "PostgreSQL", "per_second", way="bulk"),
        lambda found: found >= 60_000,
    ),
    Goal(
        "W4: buffers per run with most pending, to none: at most 1.05",
        _growth("buffers per run"),
        lambda found: found <= 1.05,
        " x",
    ),
    Goal(
        "W4: WAL per run with most pending, to none: at most 1.05",
        _growth("WAL bytes per run"),
        lambda found: found <= 1.05,
        " x",
    ),
    Goal(
        "W5, 1,000,000 pending: dispatcher at most 70 MB",
        _highest("W5 footprint", ("dispatcher_mb",), pending=1_000_000),
        lambda found: found <= 70,
        " MB",
    ),
    Goal(
        "W5, 1,000,000 pending: dispatcher and worker idle under 1 % of a core",
        _highest(
            "W5 footprint", ("dispatcher_cpu_percent", "worker_cpu_percent"), pending=1_000_000
        ),
        lambda found: found < 1,
        " %",
    ),
    Goal(
        "W6, pulse of 50,000 on PostgreSQL: drained in 3 s",
        _ours("W6 pulse", "PostgreSQL", "drained_s"),
        lambda found: found <= 3,
        " s",
    ),
    Goal(
        "W6, pulse on PostgreSQL: others' p99 under 250 ms",
        _ours("W6 pulse", "PostgreSQL", "others_p99_ms"),
        lambda found: found < 250,
        " ms",
    ),
]


def goal_table(records: list[Record]) -> list[str]:
    """Return the goals, with what was measured."""
    text = header("goal", "measured", "")
    for goal in GOALS:
        found = goal.figure(records)
        if found is None:
            text.append(row(goal.what, "not measured", ""))
            continue
        told = f"{found:,.0f}" if found >= 1000 or found == int(found) else f"{found:,.2f}"
        text.append(
            row(goal.what, told + goal.unit, "met" if goal.is_met(found) else "**not met**")
        )
    return text
