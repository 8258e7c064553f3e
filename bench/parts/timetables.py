"""How fast timetables answer, beside cronsim, croniter and python-dateutil in the same run.

    make bench                                        print the tables
    .venv/bin/python -m bench.parts.timetables --write      and put them into BENCHMARKS.md

Every figure is a median over interleaved rounds: in each round every contender runs the same batch,
so that whatever else the machine does hits all of them. Ratios are taken within a round.
"""

from __future__ import annotations

import argparse
import gc
import platform
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from statistics import median
from time import perf_counter
from zoneinfo import ZoneInfo

from croniter import croniter
from cronsim import CronSim
from dateutil.rrule import rrulestr

from bench.tables import record, write, write_records
from duly import UsageError, cron, default_zones, rrule
from duly.timetable import cron as cron_fields
from duly.timetable import cron as cron_module
from duly.timetable.rrule_compiler import compile_rrule
from duly.timetable.rrule_parser import read_rrule

TZ = "Europe/Paris"
START = datetime(2026, 4, 3, 10, 17, tzinfo=ZoneInfo(TZ))
NOW = START.astimezone(UTC)
"""The same instant: Duly is told the zone and asked in UTC, the others take the zone from it."""

COMMONEST = (
    "* * * * *",
    "*/5 * * * *",
    "*/15 * * * *",
    "0 * * * *",
    "0 0 * * *",
    "0 2 * * *",
    "30 9 * * 1-5",
    "0 9 * * 1",
    "0 0 1 * *",
    "0 0 * * 0",
)
RULES = (
    "FREQ=DAILY",
    "FREQ=DAILY;COUNT=10000",
    "FREQ=WEEKLY;BYDAY=MO,WE,FR",
    "FREQ=WEEKLY;INTERVAL=2;BYDAY=TU;COUNT=1000",
    "FREQ=MONTHLY;BYDAY=-1FR",
    "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1",
    "FREQ=YEARLY;BYMONTH=12;BYMONTHDAY=24",
    "FREQ=HOURLY;INTERVAL=7",
    "FREQ=MINUTELY;INTERVAL=15;BYHOUR=9,10,11",
)
RULES_TOO_LONG_FOR_OTHERS = ("FREQ=SECONDLY", "FREQ=SECONDLY;COUNT=1000000000")
RULE_START = datetime(2016, 4, 3, 9, 0)  # noqa: DTZ001 - a wall time
HOSTILE: tuple[tuple[str, Callable[[], object]], ...] = (
    ("cron 30 February", lambda: fresh("0 0 30 2 *").next(START)),
    (
        "cron Monday 29 February, seven-field",
        lambda: fresh("0 0 0 ? 2 MON#5 2090-2099").next(START),
    ),
    ("RRULE 30 February", lambda: rule("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30").next(START)),
    (
        "RRULE SECONDLY on 30 February",
        lambda: rule("FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30").next(START),
    ),
    (
        "RRULE SECONDLY every 86,399 s at 03:04:05",
        lambda: rule("FREQ=SECONDLY;INTERVAL=86399;BYHOUR=3;BYMINUTE=4;BYSECOND=5").next(START),
    ),
    ("10 kB of commas", lambda: fresh("," * 10_000)),
    ("1 kB of commas", lambda: fresh("0" + ",0" * 400 + " * * * *")),
    ("year 9000", lambda: fresh("0 2 * * *").next(START.replace(year=9000))),
)

Batch = Callable[[], object]


def fresh(expression: str):
    """Make a cron timetable as a process does that has never seen the expression."""
    for cache in (
        cron_module._cron,  # noqa: SLF001 - a cold start needs it empty
        cron_module.compile_cron,
        cron_module.read_cron,
        cron_fields.read_field,
    ):
        cache.cache_clear()
    return cron(expression, tz=TZ)


def rule(text: str):
    return rrule(text, dtstart=RULE_START, tz=TZ)


def next_of(expression: str) -> object:
    return cron(expression, tz=TZ).next(NOW)


def next_never_seen(expression: str) -> object:
    return fresh(expression).next(NOW)


def next_by_cronsim(expression: str) -> object:
    return next(CronSim(expression, START))


def next_by_croniter(expression: str) -> object:
    return croniter(expression, START).get_next(datetime)


def many_by_cronsim(expression: str, number: int) -> object:
    return list(islice(CronSim(expression, START), number))


def many_by_croniter(expression: str, number: int) -> object:
    other = croniter(expression, START)
    return [other.get_next(datetime) for _ in range(number)]


def next_of_rule_never_seen(text: str) -> object:
    compile_rrule.cache_clear()
    read_rrule.cache_clear()
    return rule(text).next(NOW)


def next_by_dateutil(text: str) -> object:
    return rrulestr(text, dtstart=RULE_START).after(START.replace(tzinfo=None))


def timed(batch: Batch, repeats: int) -> float:
    """Return the seconds that one call takes, averaged over a batch."""
    started = perf_counter()
    for _ in range(repeats):
        batch()
    return (perf_counter() - started) / repeats


def race(contenders: dict[str, tuple[Batch, int]], rounds: int) -> dict[str, list[float]]:
    """Run contenders turn by turn; return each one's seconds per call, round by round."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for batch, _ in contenders.values():
        batch()
    gc.disable()
    for _ in range(rounds):
        for name, (batch, repeats) in contenders.items():
            times[name].append(timed(batch, repeats))
    gc.enable()
    return times


def ratio(times: dict[str, list[float]], peer: str, ours: str) -> float:
    return median(theirs / mine for theirs, mine in zip(times[peer], times[ours], strict=True))


def micro(values: list[float]) -> str:
    """Show a median and the range of the rounds, in microseconds."""
    return f"{median(values) * 1e6:.2f} ({min(values) * 1e6:.2f}-{max(values) * 1e6:.2f})"


def parse_and_next(rounds: int) -> list[str]:
    rows = [
        (
            "| expression | Duly µs | cronsim µs | croniter µs | x cronsim | x croniter"
            " | Duly, never seen before µs |"
        ),
        "|---|---|---|---|---|---|---|",
    ]
    ratios = []
    for expression in COMMONEST:
        times = race(
            {
                "duly": (partial(next_of, expression), 2000),
                "cronsim": (partial(next_by_cronsim, expression), 100),
                "croniter": (partial(next_by_croniter, expression), 30),
                "cold": (partial(next_never_seen, expression), 100),
            },
            rounds,
        )
        ratios.append((ratio(times, "cronsim", "duly"), ratio(times, "croniter", "duly")))
        rows.append(
            f"| `{expression}` | {micro(times['duly'])} | {micro(times['cronsim'])} "
            f"| {micro(times['croniter'])} | {ratios[-1][0]:.1f} | {ratios[-1][1]:.0f} "
            f"| {micro(times['cold'])} |"
        )
        record("parse+next", case=expression, seconds=times)
    return [*rows, "", lowest(ratios)]


def iterate(rounds: int, number: int = 1000) -> list[str]:
    rows = [
        "| expression | Duly µs | cronsim µs | croniter µs | x cronsim | x croniter |",
        "|---|---|---|---|---|---|",
    ]
    ratios = []
    for expression in COMMONEST:
        ours = cron(expression, tz=TZ)
        fewer = number // 10
        times = race(
            {
                "duly": (partial(ours.upcoming, NOW, number), 3),
                "cronsim": (partial(many_by_cronsim, expression, fewer), 1),
                "croniter": (partial(many_by_croniter, expression, fewer), 1),
            },
            rounds,
        )
        times["duly"] = [one / number for one in times["duly"]]
        times["cronsim"] = [one / fewer for one in times["cronsim"]]
        times["croniter"] = [one / fewer for one in times["croniter"]]
        ratios.append((ratio(times, "cronsim", "duly"), ratio(times, "croniter", "duly")))
        rows.append(
            f"| `{expression}` | {micro(times['duly'])} | {micro(times['cronsim'])} "
            f"| {micro(times['croniter'])} | {ratios[-1][0]:.1f} | {ratios[-1][1]:.0f} |"
        )
        record("iterate", case=expression, seconds=times)
    return [*rows, "", lowest(ratios)]


def lowest(ratios: list[tuple[float, float]]) -> str:
    return (
        f"Lowest of the ten: {min(one for one, _ in ratios):.1f} x cronsim, "
        f"{min(one for _, one in ratios):.0f} x croniter."
    )


def ten_years_later(rounds: int) -> list[str]:
    rows = [
        (
            "| rule (DTSTART 2016-04-03 09:00, Europe/Paris; asked in 2026) | Duly, parse + next ms"
            " | Duly, next µs | dateutil, parse + after ms |"
        ),
        "|---|---|---|---|",
    ]
    for text in (*RULES, *RULES_TOO_LONG_FOR_OTHERS):
        ours = rule(text)
        contenders: dict[str, tuple[Batch, int]] = {
            "first": (partial(next_of_rule_never_seen, text), 5),
            "duly": (partial(ours.next, NOW), 200),
        }
        if text in RULES:
            contenders["dateutil"] = (partial(next_by_dateutil, text), 1)
        times = race(contenders, rounds)
        theirs = f"{median(times['dateutil']) * 1e3:.2f}" if "dateutil" in times else "not tried"
        rows.append(
            f"| `{text}` | {median(times['first']) * 1e3:.3f} | {micro(times['duly'])} | {theirs} |"
        )
        record("rrule", case=text, seconds=times)
    return rows


def tolerant(batch: Batch) -> object:
    try:
        return batch()
    except UsageError as error:
        return error


def hostile(rounds: int) -> list[str]:
    rows = ["| input | answer | ms |", "|---|---|---|"]
    for name, batch in HOSTILE:
        answer = tolerant(batch)
        told = "refused" if isinstance(answer, UsageError) else str(answer)
        times = race({"duly": (partial(tolerant, batch), 3)}, rounds)
        rows.append(f"| {name} | {told} | {median(times['duly']) * 1e3:.3f} |")
        record("hostile", case=name, seconds=times)
    return rows


def settings(rounds: int) -> str:
    releases = ", ".join(
        f"{name} {version(name)}" for name in ("cronsim", "croniter", "python-dateutil")
    )
    return (
        f"Python {platform.python_version()}, Duly {version('duly')}, {releases},"
        f" tzdata {default_zones().version}; {rounds} interleaved rounds; median (lowest-highest)."
    )


def tables(rounds: int) -> str:
    parts = [
        ("Parse and next", parse_and_next(rounds)),
        ("Iterate", iterate(rounds)),
        ("An RRULE ten years after its DTSTART", ten_years_later(rounds)),
        ("Input that wants to cost much", hostile(rounds)),
    ]
    text = [settings(rounds), ""]
    for title, rows in parts:
        text += [f"### {title}", "", *rows, ""]
    return "\n".join(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--write", action="store_true", help="put the tables into BENCHMARKS.md")
    parser.add_argument("--json", type=Path, help="write every round's figures as JSON lines")
    options = parser.parse_args()
    default_zones().zone(TZ).segment(int(datetime(2026, 4, 3, tzinfo=UTC).timestamp()))
    text = tables(options.rounds)
    print(text)
    if options.json:
        write_records(options.json, settings(options.rounds))
    if options.write:
        write(text, "timetables")


if __name__ == "__main__":
    main()
