"""One way to measure everything: turns are taken round by round, and each leaves a line of JSON.

A turn is one contender doing one workload once, on a store of its own. All contenders of a workload
take their turns before anybody takes a second one, so that whatever else the machine does hits all.
"""

from __future__ import annotations

import json
import os
import platform
import time
import traceback
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from bench.contenders import versions
from bench.peers.journal import read_journal
from bench.peers.protocol import now_us
from bench.running import Running, Team, cpu_seconds, started, told

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from bench.contenders import Contender
    from bench.grounds import Grounds, Site

Figures = dict[str, Any]
Done = TypeVar("Done")
SECOND_US = 1_000_000
SETTLED_US = SECOND_US // 2
"""How long before the first instant the clock of the processor is read."""
START_SECONDS = 6.0
"""What starting and settling down takes, beside making promises."""
PARTS = (0.5, 0.9, 0.99, 0.999, 1.0)
CURVE = 50


class TooLateError(Exception):
    """The contender was not ready when the first promise fell due: once more, with more time."""


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One contender, one workload, once."""

    workload: str
    contender: Contender
    settings: dict[str, Any]
    measure: Callable[[Grounds], Figures]
    rounds_max: int | None = None
    """In how many rounds it takes part; None for all."""

    @property
    def title(self) -> str:
        """What it is called when it is told, and chosen by."""
        return f"{self.workload} {self.settings}"


def take_turns(turns: Sequence[Turn], grounds: Grounds, results: Path, rounds: range) -> None:
    """Let all take their turns, round by round; write a line for each."""
    for number in rounds:
        for turn in turns:
            if turn.rounds_max is not None and number > turn.rounds_max:
                continue
            began = time.monotonic()
            line = _line(turn, grounds, number)
            with results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            _tell(line, time.monotonic() - began)


def _line(turn: Turn, grounds: Grounds, number: int) -> dict[str, Any]:
    contender = turn.contender
    try:
        figures = turn.measure(grounds)
    except Exception as error:  # noqa: BLE001 - one that fails is reported and stops nobody else
        traceback.print_exc()
        figures = {"failed": f"{type(error).__name__}: {str(error)[-500:]}"}
    return {
        "workload": turn.workload,
        "contender": contender.name,
        "store": contender.store,
        "settings": turn.settings,
        "figures": figures,
        "round": number,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "load": round(os.getloadavg()[0], 2),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": versions(contender.module),
        "store_settings": grounds.settings(contender),
    }


def _tell(line: dict[str, Any], seconds: float) -> None:
    figures = line["figures"]
    numbers = {name: one for name, one in figures.items() if isinstance(one, int | float)}
    said = ", ".join(f"{name} {one:,}" for name, one in numbers.items())
    said = figures.get("failed") or said
    print(
        f"{line['workload']} {line['settings']} round {line['round']} |"
        f" {line['contender']} on {line['store']} | {said} [{seconds:.0f} s]",
        flush=True,
    )


class Crowd(NamedTuple):
    """Promises and who is to keep them: what a run of processes is for."""

    size: int
    step_us: int = 0
    limit: float = 120.0
    team: Team = Team()


class Kept(NamedTuple):
    """What became of promises."""

    due_at: int
    finished_at: int
    done: int
    starts: list[tuple[int, int]]
    cpu: dict[str, float]
    """Seconds by process, from shortly before the first was due to the last durable completion."""
    counts: dict[str, float]
    """What the database did per run meanwhile, if it is Duly's and can count that."""


def keep(contender: Contender, site: Site, crowd: Crowd, lead: float) -> Kept:
    """Make promises through the front door, have them kept, and watch."""
    due_at = now_us() + int(lead * SECOND_US)
    ways = (f"--count={crowd.size}", f"--due={due_at}", f"--step={crowd.step_us}")
    told(contender, site.journal, "promise", site.url, *ways)
    last_at = due_at + crowd.size * crowd.step_us
    look = contender.command("watch", site.url, *ways[:2], f"--limit={crowd.limit}")
    # It looks for the first time before anybody works, so that what begins early counts, too.
    watcher = Running(look, site.journal)
    try:
        watcher.wait_ready()
        with started(contender, site.url, site.journal, crowd.team) as processes:
            sleep_until(due_at - SETTLED_US)
            with _counting(site) as counted:
                before = usage(contender, site, processes)
                watcher.wait((last_at - now_us()) / SECOND_US + crowd.limit + 30)
                after = usage(contender, site, processes)
                counts = {name: one / crowd.size for name, one in counted().items()}
    finally:
        watcher.stop()
    spent = {name: after[name] - before[name] for name in before}
    (answer,) = watcher.answers
    starts = read_journal(site.journal)
    return Kept(due_at, answer["at_us"], answer["done"], starts, spent, counts)


@contextmanager
def _counting(site: Site) -> Iterator[Callable[[], dict[str, int]]]:
    """Count what the database does for anybody, where it can."""
    if site.server is None or site.place is None:
        yield dict
        return
    with site.place.counting() as counted:
        yield lambda: dict(counted.read())


def kept(contender: Contender, grounds: Grounds, crowd: Crowd) -> Kept:
    """Have promises kept on a new store, beginning as early as it takes."""
    lead = START_SECONDS + 1.5 * crowd.size / contender.per_second

    def attempt(times: int) -> Kept:
        with grounds.site(contender) as site:
            told(contender, site.journal, "prepare", site.url)
            return keep(contender, site, crowd, lead * times)

    return in_time(attempt)


def in_time(attempt: Callable[[int], Done]) -> Done:
    """Try with once, twice, four and eight times as long before the first promise is due."""
    for times in (1, 2, 4):
        with suppress(TooLateError):
            return attempt(times)
    return attempt(8)


def usage(contender: Contender, site: Site, processes: Iterable[Running]) -> dict[str, float]:
    """Return the processor seconds so far, by what they were used for."""
    spent = [cpu_seconds(one.pid) for one in processes]
    names = ("dispatcher", "worker") if contender.is_ours and len(spent) == 2 else ("processes",)
    found = dict(zip(names, spent if len(names) == 2 else [sum(spent)], strict=True))
    if site.server is not None:
        found["server"] = cpu_seconds(site.server)
    return found


def sleep_until(instant: int) -> None:
    wait_us = instant - now_us()
    if wait_us < 0:
        raise TooLateError
    time.sleep(wait_us / SECOND_US)


def lateness(late_us: Iterable[int]) -> Figures:
    """Describe lateness by its shares, as one does who can't keep all of it."""
    ordered = sorted(late_us)
    if not ordered:
        return {}
    last = len(ordered) - 1
    named = {f"p{part * 100:g}_ms": _ms(ordered[int(last * part)]) for part in PARTS}
    named["max_ms"] = named.pop("p100_ms")
    curve = [_ms(ordered[last * one // CURVE]) for one in range(CURVE + 1)]
    return {**named, "early": sum(one < 0 for one in ordered), "curve_ms": curve}


def per_run(spent: dict[str, float], count: int) -> Figures:
    """Return processor time per run, in microseconds, part by part and in all."""
    found = {name: round(seconds / count * SECOND_US, 1) for name, seconds in spent.items()}
    return {"cpu_us": found, "cpu_us_per_run": round(sum(found.values()), 1)}


def _ms(late_us: int) -> float:
    return round(late_us / 1000, 2)
