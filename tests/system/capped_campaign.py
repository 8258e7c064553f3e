"""A campaign at limits: workers are killed between their claims and their ends.

    python -m tests.system.capped_campaign sqlite|postgres [RUNS] [KILLS] [SEED]

One dispatcher and a few workers, real processes all, work off a crowd of which few may run at once.
Workers are killed at any moment and replaced. What tasks' code wrote down outside of the store says
how many were at each place at once; one that was killed was there until it was killed.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
from collections import Counter, defaultdict
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import duly
from tests.system import capped_tasks
from tests.system.campaign import commit
from tests.system.campaign_stores import store_url
from tests.system.capped_tasks import ACCOUNTS, CAP, LEDGER_VARIABLE, START
from tests.system.fleet import Fleet
from tests.waiting import pause, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.system.fleet import Process

APP = "tests.system.capped_tasks:app"
WORKERS = 4
SLOTS = 8
RUNS = 2_000
KILLS = 20
FED = 40
"""So many more are enqueued before a kill that is to cut a run short."""
RECOVERY_SECONDS = 300.0
COUNT_STATES = "SELECT state, count(*) FROM duly.public_runs GROUP BY state"
COUNT_PLACES = "SELECT count(*) FROM duly.held_places"


@dataclass
class Figures:
    """What was seen."""

    runs: int
    kills: int = 0
    most: dict[str, int] = field(default_factory=dict)
    """How many were at each place at once, at the most."""
    starts: int = 0
    states: Counter[str] = field(default_factory=Counter)
    places_left: int = 0


@dataclass
class Capped:
    """Keeps the fleet, and kills workers."""

    fleet: Fleet
    app: duly.App
    figures: Figures
    draw: random.Random
    workers: list[Process] = field(default_factory=list)
    killed_at: dict[int, int] = field(default_factory=dict)
    """When each process was killed that was."""

    @property
    def ledger(self) -> Path:
        return self.fleet.folder / "capped"

    def start(self) -> None:
        """Start all processes and enqueue the crowd, half of each kind."""
        self.ledger.touch()
        os.environ[LEDGER_VARIABLE] = str(self.ledger)
        self.fleet.start_dispatcher()
        self.workers = [self.new_worker() for _ in range(WORKERS)]
        runs, self.figures.runs = self.figures.runs, 0
        self.enqueue(runs)
        wait_until("something runs", lambda: self.ledger.stat().st_size)

    def enqueue(self, count: int) -> None:
        """Enqueue more, half of each kind."""
        half = count // 2
        self.app.enqueue_many(self.app.call("narrow", {"number": one}) for one in range(half))
        self.app.enqueue_many(
            self.app.call("in_turn", {"account": one % ACCOUNTS, "number": one})
            for one in range(count - half)
        )
        self.figures.runs += count

    def new_worker(self) -> Process:
        words = ["duly", "worker", "--json", "--no-supervisor", f"--slots={SLOTS}"]
        return self.fleet.start([*words, "--app", APP, f"--url={self.fleet.url}"], "worker")

    def kill_worker(self) -> None:
        """Kill one at any moment, and put another in its place."""
        place = self.draw.randrange(len(self.workers))
        victim = self.workers[place]
        victim.kill()
        self.killed_at[victim.popen.pid] = self.fleet.clock.now_us()
        self.figures.kills += 1
        self.workers[place] = self.new_worker()

    def cut_short(self) -> None:
        """Kill workers until one was in the middle of a run; there is always more to do."""
        known = self.cut
        while self.cut == known:
            self.enqueue(FED)
            size = self.ledger.stat().st_size
            wait_until("it goes on", partial(self._has_grown, size))
            self.kill_worker()

    @property
    def cut(self) -> int:
        """How many runs have begun in workers that were killed, and not ended."""
        return sum(process in self.killed_at for _, process in open_starts(self.ledger).values())

    def _has_grown(self, size: int) -> bool:
        return self.ledger.stat().st_size > size

    def finish(self) -> Figures:
        """Wait until all is over, and gather what was seen."""
        wait_until("all is over", self.is_over, RECOVERY_SECONDS)
        figures = self.figures
        figures.states = self.states()
        figures.most, figures.starts = most_at_once(self.ledger, self.killed_at)
        figures.places_left = int(self.fleet.ask(COUNT_PLACES)[0][0])
        return figures

    def is_over(self) -> bool:
        return self.states() == {"succeeded": self.figures.runs}

    def states(self) -> Counter[str]:
        return Counter(dict(self.fleet.ask(COUNT_STATES)))


def open_starts(ledger: Path) -> dict[str, tuple[str, int]]:
    """Return the place and the process of each attempt that has begun and not ended."""
    begun: dict[str, tuple[str, int]] = {}
    for line in ledger.read_text(encoding="utf-8").splitlines():
        what, place, who, process, _ = line.split()
        if what == START:
            begun[who] = (place, int(process))
        else:
            del begun[who]
    return begun


def most_at_once(ledger: Path, killed_at: dict[int, int]) -> tuple[dict[str, int], int]:
    """Return how many were at each place at once, and how many attempts there were."""
    changes: dict[str, list[tuple[int, int]]] = defaultdict(list)
    starts = 0
    for line in ledger.read_text(encoding="utf-8").splitlines():
        what, place, _, _, at = line.split()
        changes[place].append((int(at), 1 if what == START else -1))
        starts += what == START
    for place, victim in open_starts(ledger).values():
        changes[place].append((killed_at[victim], -1))
    most = {}
    for place, found in changes.items():
        here = most[place] = 0
        # Who goes in the same microsecond goes first.
        for _, change in sorted(found):
            here += change
            most[place] = max(most[place], here)
    return most, starts


def violations(figures: Figures) -> list[str]:
    """Return what went wrong, whatever the machine's speed."""
    found = []
    for place, most in figures.most.items():
        if most > (CAP if place == "narrow" else 1):
            found.append(f"crowd: {most} at once at {place}")
    if figures.states != {"succeeded": figures.runs}:
        found.append(f"lost: {dict(figures.states)}")
    if figures.starts < figures.runs:
        found.append(f"ledger: {figures.starts} starts of {figures.runs} runs")
    if figures.places_left:
        found.append(f"places: {figures.places_left} are held by nobody")
    return found


def report(figures: Figures) -> str:
    """Return the figures on one line."""
    most = ", ".join(f"{place} {count}" for place, count in sorted(figures.most.items()))
    return (
        f"{figures.runs:,} runs, {figures.kills} workers killed, {figures.starts:,} attempts began;"
        f" at once at the most: {most}; ended {dict(figures.states)}; commit {commit()}"
    )


@contextmanager
def campaign(url: str | None, folder: Path, runs: int, seed: str) -> Iterator[Capped]:
    """Make a campaign on a store; end its processes at the end."""
    with ExitStack() as stack:
        fleet = Fleet(folder, url)
        stack.callback(fleet.kill_all)
        app = stack.enter_context(duly.App(fleet.url, name="capped-campaign"))
        for task in (capped_tasks.narrow, capped_tasks.in_turn):
            app.tasks.add(task.__wrapped__, task.terms)
        yield Capped(fleet, app, Figures(runs), random.Random(seed))


def main() -> None:
    store, *numbers = sys.argv[1:]
    runs = int(numbers[0]) if numbers else RUNS
    kills = int(numbers[1]) if len(numbers) > 1 else KILLS
    folder = Path(tempfile.mkdtemp(prefix="duly-capped-"))
    seed = numbers[2] if len(numbers) > 2 else "capped"
    with store_url(store) as url, campaign(url, folder, runs, seed) as going:
        going.start()
        for _ in range(kills):
            pause(going.draw.uniform(0.2, 3.0))
            going.kill_worker()
        figures = going.finish()
        found = [*violations(figures), *going.fleet.check()]
    sys.stdout.write("".join(f"{one}\n" for one in found))
    sys.stdout.write(f"{store}, seed {seed}: {report(figures)}\n")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
