"""Tables, pictures and goals out of the lines that turns have left, put into BENCHMARKS.md."""

from __future__ import annotations

import json
from collections import defaultdict
from statistics import median
from typing import TYPE_CHECKING, Any

from bench.contenders import ROOT
from bench.goals import goal_table
from bench.plots import Axes, Bar, Line, bars, lines
from bench.tables import header, row, spread, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

RESULTS = ROOT / "bench" / "results"
PLOTS = ROOT / "docs" / "plots"
Record = dict[str, Any]
Group = tuple[Record, list[Record]]
"""The first line of those that differ only by round, and the figures of all of them."""


def read(folder: Path = RESULTS) -> list[Record]:
    """Return every line that was left."""
    found = []
    for path in sorted(folder.glob("*.jsonl")):
        found += [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return found


def groups(records: Iterable[Record], workload: str) -> list[Group]:
    """Return what was measured several times, together."""
    together: dict[str, list[Record]] = defaultdict(list)
    for one in records:
        if one["workload"] == workload and "failed" not in one["figures"]:
            key = (one["settings"], one["contender"], one["store"])
            together[json.dumps(key, sort_keys=True)].append(one)
    return [(lines_of[0], [one["figures"] for one in lines_of]) for lines_of in together.values()]


def middle(figures: list[Record], name: str) -> float:
    """Return the median of a figure over the rounds."""
    values = [one[name] for one in figures if one.get(name) is not None]
    return float(median(values)) if values else 0.0


def ms(figures: list[Record], *names: str) -> list[str]:
    return [f"{middle(figures, name):,.2f}" for name in names]


def total(figures: list[Record], name: str) -> str:
    return f"{sum(one.get(name) or 0 for one in figures):,}"


def named(first: Record) -> str:
    return f"{first['contender']} on {first['store']}"


def burst_tables(records: list[Record]) -> list[str]:
    """W1."""
    found = groups(records, "W1 burst")
    text = []
    for count in sorted({first["settings"]["count"] for first, _ in found}):
        of_count = [one for one in found if one[0]["settings"]["count"] == count]
        of_count.sort(key=lambda one: -middle(one[1], "per_second"))
        text += [f"**{count:,} due at one instant**", ""]
        text += header(
            *("contender", "runs/s: median (lowest-highest)", "rounds"),
            *("late p50 ms", "p99 ms", "max ms"),
            *("early", "missed", "doubled", "processor µs per run"),
        )
        for first, figures in of_count:
            rates = spread([one["per_second"] for one in figures])
            late = ms(figures, "p50_ms", "p99_ms", "max_ms")
            wrong = [total(figures, name) for name in ("early", "missed", "doubled")]
            cpu = f"{middle(figures, 'cpu_us_per_run'):,.0f}"
            text.append(row(named(first), rates, len(figures), *late, *wrong, cpu))
        text.append("")
        drawn = [
            Bar(named(first), *spread([one["per_second"] for one in figures]))
            for first, figures in of_count
        ]
        if len(drawn) > 2:
            bars(
                PLOTS / f"burst-{count}.svg", f"{count:,} due at one instant, runs a second", drawn
            )
            text += [f"![runs a second](docs/plots/burst-{count}.svg)", ""]
    return text


def punctuality_tables(records: list[Record]) -> list[str]:
    """W2."""
    text = header(
        *("contender", "a second", "seconds", "phases", "as"),
        *("expected", "missed", "doubled", "early"),
        *("late p50 ms", "p99 ms", "p99.9 ms", "max ms", "cores"),
    )
    drawn = []
    found = groups(records, "W2 punctuality")
    found.sort(key=lambda one: (one[0]["settings"]["is_aligned"], one[0]["settings"]["rate"]))
    for first, figures in found:
        settings = first["settings"]
        counts = [total(figures, name) for name in ("expected", "missed", "doubled", "early")]
        late = ms(figures, "p50_ms", "p99_ms", "p99.9_ms", "max_ms")
        cores = f"{middle(figures, 'cpu_us_per_run') * settings['rate'] / 1e6:.2f}"
        phases = "on the second" if settings["is_aligned"] else "spread"
        text.append(
            row(
                *(named(first), f"{settings['rate']:,}", settings["seconds"], phases),
                *(figures[0]["as"], *counts, *late, cores),
            )
        )
        if not settings["is_aligned"] and "curve_ms" in figures[-1]:
            drawn.append(_distribution(f"{named(first)}, {settings['rate']:,}/s", figures[-1]))
    if drawn:
        share = "share of the runs that were later, from half to one in fifty"
        lines(PLOTS / "punctuality.svg", Axes("From due to start", share, "late, ms"), drawn)
        text += ["", "![from due to start](docs/plots/punctuality.svg)"]
    return [*text, ""]


def limit_tables(records: list[Record]) -> list[str]:
    """W2, how much is too much."""
    text = header(
        "contender", "kept up with, a second", "too much, a second", "late p99 ms at each"
    )
    for first, figures in groups(records, "W2 limit"):
        one = figures[-1]
        tried = sorted((int(rate), late) for rate, late in one["p99_ms_by_rate"].items())
        told = ", ".join(f"{rate:,}: {late:,.0f}" for rate, late in tried)
        text.append(row(named(first), f"{one['per_second']:,}", f"{one['too_much']:,}", told))
    return [*text, ""]


def _distribution(name: str, figures: Record) -> Line:
    curve = figures["curve_ms"]
    last = len(curve) - 1
    points = [(1 / (1 - at / last), late) for at, late in enumerate(curve[:-1]) if at >= last // 2]
    return Line(name, points)


def creation_tables(records: list[Record]) -> list[str]:
    """W3."""
    found = groups(records, "W3 creation")
    by_name: dict[str, dict[str, str]] = defaultdict(dict)
    for first, figures in found:
        way = first["settings"]["way"]
        by_name[named(first)][way] = str(spread([one["per_second"] for one in figures]))
    text = header("contender", "in bulk, runs/s", "one by one, runs/s")
    text += [
        row(name, one.get("bulk", "-"), one.get("single", "-")) for name, one in by_name.items()
    ]
    return [*text, ""]


def _growth(records: list[Record], workload: str, knob: str) -> list[str]:
    """W4 and W7: what a run costs as something grows, as a table and as curves."""
    drawn = [
        Line(f"{what}, {store}", points)
        for what, name in (("buffers", "buffers per run"), ("µs", "cpu_us_per_run"))
        for store in ("PostgreSQL", "SQLite")
        if len(points := _points(records, workload, knob, (store, name))) > 1
    ]
    text = _growth_table(records, workload, knob)
    if not drawn:
        return text
    picture = f"growth-{knob}.svg"
    upright = "a run's buffers, and microseconds of processor"
    axes = Axes(f"What a run costs, by {knob}", f"{knob}: how many", upright, floor=1.0)
    lines(PLOTS / picture, axes, drawn)
    return [*text, f"![what a run costs](docs/plots/{picture})", ""]


def _points(
    records: list[Record], workload: str, knob: str, what: tuple[str, str]
) -> list[tuple[float, float]]:
    """Return how a figure of a store grows; who has nothing of it stands at one."""
    store, name = what
    found = [
        (max(_amount(first["settings"], knob), 1), middle(figures, name))
        for first, figures in groups(records, workload)
        if first["store"] == store and name in figures[0]
    ]
    return sorted(found)


def _amount(settings: Record, knob: str) -> int:
    if knob in settings:
        return int(settings[knob])
    return int(settings["dispatchers"] + settings["workers"])


def _growth_table(records: list[Record], workload: str, knob: str) -> list[str]:
    names = ("buffers per run", "WAL bytes per run", "statements per run")
    text = header("contender", knob, "runs/s", "late p99 ms", *names, "processor µs per run")
    for first, figures in groups(records, workload):
        rates = spread([one["per_second"] for one in figures])
        counts = [f"{middle(figures, name):,.2f}" if name in figures[0] else "-" for name in names]
        late = ms(figures, "p99_ms")
        cpu = f"{middle(figures, 'cpu_us_per_run'):,.0f}"
        settings = first["settings"]
        told = f"{settings[knob]:,}" if knob in settings else _processes(settings)
        text.append(row(named(first), told, rates, *late, *counts, cpu))
    return [*text, ""]


def _processes(settings: Record) -> str:
    return f"{settings['dispatchers']} + {settings['workers']}"


def footprint_tables(records: list[Record]) -> list[str]:
    """W5."""
    names = ("dispatcher_mb", "worker_mb", "processes_mb")
    shares = ("dispatcher_cpu_percent", "worker_cpu_percent", "processes_cpu_percent")
    text = header(
        "contender",
        "pending",
        *(one.replace("_mb", ", MB") for one in names),
        *(one.replace("_cpu_percent", ", % of a core") for one in shares),
        "server, % of a core",
    )
    for first, figures in groups(records, "W5 footprint"):
        cells = [
            f"{middle(figures, name):,.2f}" if name in figures[0] else "-"
            for name in (*names, *shares, "server_cpu_percent")
        ]
        text.append(row(named(first), f"{first['settings']['pending']:,}", *cells))
    return [*text, ""]


def single_tables(records: list[Record]) -> list[str]:
    """W6, timers that are alone."""
    text = header(
        *("contender", "timers", "late p50 ms", "p99 ms", "max ms", "early"),
        *("a bare wait beside it, p50 ms", "p99 ms"),
    )
    for first, figures in groups(records, "W6 single timer"):
        late = ms(figures, "p50_ms", "p99_ms", "max_ms")
        floor = ms(figures, "floor_p50_ms", "floor_p99_ms")
        early = total(figures, "early")
        text.append(row(named(first), total(figures, "seen"), *late, early, *floor))
    return [*text, ""]


def pulse_tables(records: list[Record]) -> list[str]:
    """W6, the crowd among a stream."""
    text = header(
        *("contender", "crowd", "drained s", "crowd p99 ms", "others a second"),
        *("others p50 ms", "others p99 ms", "others max ms", "missed", "early"),
    )
    for first, figures in groups(records, "W6 pulse"):
        settings = first["settings"]
        late = ms(figures, "crowd_p99_ms")
        others = ms(figures, "others_p50_ms", "others_p99_ms", "others_max_ms")
        missed = sum(one["expected"] - one["seen"] + one["others_missed"] for one in figures)
        early = sum((one["crowd_early"] or 0) + (one["others_early"] or 0) for one in figures)
        text.append(
            row(
                *(named(first), f"{settings['count']:,}", *ms(figures, "drained_s"), *late),
                *(f"{settings['rate']:,}", *others, missed, early),
            )
        )
    return [*text, ""]


def held_tables(records: list[Record]) -> list[str]:
    """W7, with a transaction held open elsewhere."""
    text = header(
        *("transaction", "minute", "late p50 ms", "p99 ms", "max ms", "buffers per run"),
        "missed in all",
    )
    for first, figures in groups(records, "W7 held transaction"):
        one = figures[-1]
        name = "held open" if first["settings"]["is_held"] else "none"
        for number, (minute, buffers) in enumerate(
            zip(one["minutes"], one["buffers_per_run"], strict=True), 1
        ):
            parts = ("p50_ms", "p99_ms", "max_ms")
            # A minute in which nothing began has no lateness.
            late = [f"{minute[part]:,.2f}" if part in minute else "none began" for part in parts]
            text.append(row(name, number, *late, buffers, one["missed"]))
    return [*text, ""]


SECTIONS: list[tuple[str, str, Callable[[list[Record]], list[str]]]] = [
    ("W1 burst", "W1: all at one instant", burst_tables),
    ("W2 punctuality", "W2: every second, on time", punctuality_tables),
    ("W2 limit", "W2: the rate at which p99 passes 250 ms", limit_tables),
    ("W3 creation", "W3: making promises", creation_tables),
    (
        "W4 backlog",
        "W4: with much else pending",
        lambda records: _growth(records, "W4 backlog", "pending"),
    ),
    ("W5 footprint", "W5: memory, and the cost of waiting", footprint_tables),
    ("W6 single timer", "W6: one timer alone", single_tables),
    ("W6 pulse", "W6: the pulse at :00", pulse_tables),
    (
        "W7 processes",
        "W7: more processes (dispatchers + workers)",
        lambda records: _growth(records, "W7 processes", "processes"),
    ),
    (
        "W7 history",
        "W7: a long history",
        lambda records: _growth(records, "W7 history", "history"),
    ),
    ("W7 held transaction", "W7: a transaction held open elsewhere", held_tables),
]


def _conditions(records: list[Record], workload: str) -> str:
    lines_of = [one for one in records if one["workload"] == workload]
    days = sorted({one["at"][:16].replace("T", " ") for one in lines_of})
    loads = sorted(one["load"] for one in lines_of)
    when = days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}"
    failed = sorted({named(one) for one in lines_of if "failed" in one["figures"]})
    told = f"Taken {when} UTC; load {loads[0]} to {loads[-1]}, ours included."
    return f"{told} Failed: {', '.join(failed)}." if failed else told


def text_of(records: list[Record]) -> str:
    """Return everything that is to stand in BENCHMARKS.md between its marks."""
    text = ["### Goals", "", *goal_table(records), ""]
    for workload, title, tables_of in SECTIONS:
        if any(one["workload"] == workload for one in records):
            text += [f"### {title}", "", _conditions(records, workload), ""]
            text += tables_of(records)
    text += ["### Versions", "", *_version_table(records), ""]
    return "\n".join(text)


def _version_table(records: list[Record]) -> list[str]:
    found: dict[str, dict[str, str]] = {}
    for one in records:
        found[one["contender"]] = one["versions"]
    text = header("contender", "installed")
    for name, versions in found.items():
        text.append(row(name, ", ".join(f"{one} {number}" for one, number in versions.items())))
    return text


def write_report() -> None:
    """Put the report into BENCHMARKS.md."""
    write(text_of(read()), "workloads")
