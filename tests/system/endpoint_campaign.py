"""A campaign with a dead endpoint: thousands of webhooks are due, and nobody answers (INV-23).

    python -m tests.system.endpoint_campaign sqlite|postgres [RUNS] [SECONDS]

One dispatcher and two workers, real processes all; the webhooks are of one tenant. A second stream
of runs, of another tenant in the same queue, calls nobody and goes on beside it: first alone, then
while the endpoint is dead, then while it recovers. Printed are how often the endpoint was called in
a second, how late the second stream began, and a curve of both.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import duly
from bench.plots import Axes, Line, lines
from duly.domain.admission import BACK_EVERY_US
from tests.system import endpoint_tasks
from tests.system.campaign import commit, percentiles
from tests.system.campaign_stores import store_url
from tests.system.endpoint import Endpoint
from tests.system.endpoint_tasks import KEY, KEY_VARIABLE, LEDGER_VARIABLE, URL_VARIABLE
from tests.system.fleet import SECOND_US, Fleet
from tests.waiting import pause, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

APP = "tests.system.endpoint_tasks:app"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
WORKERS = 2
SLOTS = 20
STREAMS = 20
RUNS = 10_000
DEAD_SECONDS = 60.0
STARTING_SECONDS = 5.0
HEALTHY_SECONDS = 10.0
RECOVERY_SECONDS = 400.0
ENQUEUED_AT_ONCE = 1_000
CLOSED, SUCCEEDED = "closed", "succeeded"
OPENING_US = 2 * SECOND_US
"""So long after it opened, at least, others are given to hear of it."""
STAMPEDE_MAX = 3 * SECOND_US // BACK_EVERY_US
"""At no moment of the recovery have more come than their turns allow: some turns had passed before,
while the machine stood still."""
OPENING_MAX = 3 * WORKERS * SLOTS
"""So many may be called at the most until all workers know: what they had begun by then."""
OPEN = frozenset({"blocked", "queued", "running", "retrying"})
COUNT_BEGUN = """
SELECT count(*) FROM duly.claims c JOIN duly.public_runs r ON r.id = c.run_id WHERE r.task = $1"""
COUNT_OPENINGS = "SELECT coalesce(sum(epoch), 0) FROM duly.breakers"
COUNT_STATES = "SELECT state, count(*) FROM duly.public_runs WHERE task = $1 GROUP BY state"


@dataclass
class Figures:
    """What was seen."""

    runs: int
    healthy_at: int = 0
    """From when on the second stream went on alone."""
    began_at: int = 0
    """When the webhooks were enqueued."""
    opened_at: int = 0
    """When the breaker was first seen open."""
    settled_at: int = 0
    """From when on nothing was on its way any more that had begun before it opened."""
    back_at: int = 0
    """When the endpoint came back."""
    probes: int = 0
    """How many probes the breaker has recorded in between, and one that may be under way."""
    over_at: int = 0
    calls: list[int] = field(default_factory=list)
    ticks: list[tuple[int, int]] = field(default_factory=list)
    """Of the second stream: when each was due, and when it began."""
    states: Counter[str] = field(default_factory=Counter)
    delivered: Counter[str] = field(default_factory=Counter)

    def late_between(self, begin: int, end: int) -> list[int]:
        """Return how late runs of the second stream began that were due in a span."""
        return [began - due for due, began in self.ticks if begin <= due < end]

    def calls_between(self, begin: int, end: int) -> list[int]:
        return [at for at in self.calls if begin <= at < end]


@dataclass
class DeadEndpoint:
    """Keeps the fleet, and has the endpoint die and come back."""

    fleet: Fleet
    endpoint: Endpoint
    app: duly.App
    customer: duly.App
    """The tenant whose endpoint is dead."""
    figures: Figures

    @property
    def ledger(self) -> Path:
        return self.fleet.folder / "ticks"

    def start(self) -> None:
        """Start all processes, and the second stream."""
        self.ledger.touch()
        os.environ |= {
            URL_VARIABLE: self.endpoint.url,
            LEDGER_VARIABLE: str(self.ledger),
            KEY_VARIABLE: KEY,
        }
        self.fleet.start_dispatcher()
        for _ in range(WORKERS):
            words = ["duly", "worker", "--json", "--no-supervisor", f"--slots={SLOTS}"]
            place = ["--app", APP, f"--url={self.fleet.url}"]
            allow = ["--allow-address", self.endpoint.place]
            self.fleet.start([*words, *place, *allow], "worker")
        for number in range(STREAMS):
            self.app.schedules.create(
                f"tick-{number}",
                self.app.call("tick"),
                duly.every("1s", anchor=EPOCH + number * timedelta(seconds=1) / STREAMS),
                overlap="allow",
            )
        wait_until("the second stream runs", lambda: self.ledger.stat().st_size)

    def break_down(self) -> None:
        """Have all webhooks due at once, and wait until the breaker has opened."""
        figures, clock = self.figures, self.fleet.clock
        figures.began_at = clock.now_us()
        for first in range(0, figures.runs, ENQUEUED_AT_ONCE):
            last = min(first + ENQUEUED_AT_ONCE, figures.runs)
            calls = (self.customer.call("notify", {"number": one}) for one in range(first, last))
            self.customer.enqueue_many(calls)
        wait_until("the breaker is open", self.is_open)
        figures.opened_at = clock.now_us()
        wait_until("nothing is on its way", lambda: not self.fleet.ask(COUNT_BEGUN, "notify")[0][0])
        figures.settled_at = max(clock.now_us(), figures.opened_at + OPENING_US)
        # Every probe of a dead endpoint opens the breaker once more.
        figures.probes = 1 - self.count_openings()

    def wait_for_probe(self) -> None:
        """Wait until somebody has tried whether it is back."""
        settled_at, now_us = self.figures.settled_at, self.fleet.clock.now_us
        wait_until("it is tried", lambda: self.endpoint.calls_between(settled_at, now_us()))

    def come_back(self) -> None:
        """Have the endpoint answer, and wait until every run is over."""
        self.figures.back_at = self.fleet.clock.now_us()
        self.figures.probes += self.count_openings()
        self.endpoint.is_alive = True
        wait_until("all is delivered", self.is_delivered, RECOVERY_SECONDS)
        wait_until("all is on record", self.is_over, RECOVERY_SECONDS)
        self.figures.over_at = self.fleet.clock.now_us()

    def count_openings(self) -> int:
        return int(self.fleet.ask(COUNT_OPENINGS)[0][0])

    def is_open(self) -> bool:
        return any(one.state != CLOSED for one in self.app.breakers.list())

    def is_delivered(self) -> bool:
        return len(self.endpoint.delivered) >= self.figures.runs

    def is_over(self) -> bool:
        return not {state for state in self.states() if state in OPEN}

    def states(self) -> Counter[str]:
        """Return how many webhooks are in each state."""
        return Counter(dict(self.fleet.ask(COUNT_STATES, "notify")))

    def finish(self) -> Figures:
        """Gather what was seen."""
        figures = self.figures
        for one in self.app.schedules.list():
            self.app.schedules.pause(one.id, reason="the campaign is over")
        figures.calls = list(self.endpoint.calls)
        figures.delivered = Counter(self.endpoint.delivered)
        figures.states = self.states()
        text = self.ledger.read_text(encoding="utf-8").splitlines()
        figures.ticks = [(int(due), int(began)) for due, began in map(str.split, text)]
        return figures


def per_second(instants: list[int]) -> Counter[int]:
    """Count instants by the second."""
    return Counter(at // SECOND_US for at in instants)


def peak(instants: list[int]) -> int:
    """Return how many lie in the fullest second, wherever that begins."""
    ordered, first, most = sorted(instants), 0, 0
    for last, at in enumerate(ordered):
        while at - ordered[first] >= SECOND_US:
            first += 1
        most = max(most, last - first + 1)
    return most


def before_their_turn(calls: list[int], since: int) -> int:
    """Return how many more had called at a moment than turns had come since then, at the most."""
    ahead = (
        number - (at - since) // BACK_EVERY_US for number, at in enumerate(sorted(calls), start=1)
    )
    return max(ahead, default=0)


def violations(figures: Figures) -> list[str]:
    """Return what went wrong, whatever the machine's speed."""
    found = []
    settled_at = figures.settled_at
    before = figures.calls_between(figures.began_at, settled_at)
    while_open = figures.calls_between(settled_at, figures.back_at)
    after = figures.calls_between(figures.back_at, figures.over_at + 1)
    if len(before) > OPENING_MAX:
        found.append(f"flood: {len(before)} calls until the breaker had opened")
    if len(while_open) > figures.probes:
        found.append(
            f"flood: {len(while_open)} calls and {figures.probes} probes while it was open"
        )
    if before_their_turn(after, figures.back_at) > STAMPEDE_MAX:
        found.append(f"stampede: {peak(after)} calls in a second when it was back")
    if figures.states != {SUCCEEDED: figures.runs}:
        found.append(f"lost: {dict(figures.states)}")
    twice = [one for one, count in figures.delivered.items() if count > 1]
    if twice:
        found.append(f"twice: {len(twice)} messages")
    return found


def report(figures: Figures) -> str:
    """Return the figures on one line."""
    settled_at = figures.settled_at
    spans = {
        "until it opened": (figures.began_at, settled_at),
        "while open": (settled_at, figures.back_at),
        "in recovery": (figures.back_at, figures.over_at + 1),
    }
    parts = []
    for name, (begin, end) in spans.items():
        calls = figures.calls_between(begin, end)
        parts.append(
            f"{name} ({(end - begin) / SECOND_US:.1f} s): {len(calls):,} calls, at most"
            f" {peak(calls):,} in a second, others late by p50/p99/max"
            f" {percentiles(figures.late_between(begin, end))}"
        )
    healthy = figures.late_between(figures.healthy_at, figures.began_at)
    return (
        f"{figures.runs:,} webhooks due at once; opened after"
        f" {(figures.opened_at - figures.began_at) / SECOND_US:.1f} s;"
        f" others before: late by {percentiles(healthy)}; {'; '.join(parts)};"
        f" ended {dict(figures.states)}; commit {commit()}"
    )


def curve(figures: Figures) -> list[tuple[int, int, float]]:
    """Return for each second since the webhooks were due: calls, and the latest of the others."""
    began = figures.began_at // SECOND_US
    calls = per_second(figures.calls)
    latest: dict[int, int] = {}
    for due, start in figures.ticks:
        latest[due // SECOND_US] = max(latest.get(due // SECOND_US, 0), start - due)
    last = figures.over_at // SECOND_US
    return [(at - began, calls[at], latest.get(at, 0) / 1000) for at in range(began, last + 1)]


def draw(figures: Figures, folder: Path) -> None:
    """Write the curve as a table and as a picture."""
    points = curve(figures)
    rows = [f"{second},{calls},{late:.1f}" for second, calls, late in points]
    table = "\n".join(("second,calls,others_late_ms", *rows)) + "\n"
    (folder / "dead-endpoint.csv").write_text(table, encoding="utf-8")
    title = f"{figures.runs:,} webhooks at an endpoint that is dead, and comes back"
    named = [
        Line("calls", [(second + 1, calls) for second, calls, _ in points]),
        Line("others, ms", [(second + 1, late) for second, _, late in points]),
    ]
    axes = Axes(title, "seconds", "calls in a second; lateness of others in ms")
    lines(folder / "dead-endpoint.svg", axes, named)


@contextmanager
def campaign(url: str | None, folder: Path, runs: int) -> Iterator[DeadEndpoint]:
    """Make a campaign on a store; end its processes at the end."""
    with ExitStack() as stack:
        endpoint = stack.enter_context(Endpoint())
        fleet = Fleet(folder, url)
        stack.callback(fleet.kill_all)
        app, customer = duly.App(fleet.url), duly.App(fleet.url, tenant="customer")
        for one, task in ((app, endpoint_tasks.tick), (customer, endpoint_tasks.notify)):
            stack.enter_context(one)
            one.tasks.add(task.__wrapped__, task.terms)
        yield DeadEndpoint(fleet, endpoint, app, customer, Figures(runs))


def main() -> None:
    store, *numbers = sys.argv[1:]
    runs = int(numbers[0]) if numbers else RUNS
    seconds = float(numbers[1]) if len(numbers) > 1 else DEAD_SECONDS
    folder = Path(tempfile.mkdtemp(prefix="duly-endpoint-"))
    with store_url(store) as url, campaign(url, folder, runs) as going:
        going.start()
        pause(STARTING_SECONDS)
        going.figures.healthy_at = going.fleet.clock.now_us()
        pause(HEALTHY_SECONDS)
        going.break_down()
        pause(seconds)
        going.come_back()
        figures = going.finish()
    found = violations(figures)
    sys.stdout.write("".join(f"{one}\n" for one in found))
    sys.stdout.write(f"{store}: {report(figures)}\n")
    draw(figures, folder)
    sys.stdout.write(f"the curve is in {folder}\n")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
