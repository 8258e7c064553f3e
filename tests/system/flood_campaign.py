"""A campaign with a flood: one tenant enqueues 100,000 runs, others one each (INV-22).

    python -m tests.system.flood_campaign sqlite|postgres [RUNS] [OTHERS]

Two workers, real processes. While they are busy with the flood, other tenants enqueue a run each, one
after the other. Printed are how long each of them took to begin, and how many of the flood began in
the meantime.
"""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import duly
from tests.system import flood_tasks
from tests.system.campaign import commit, percentiles
from tests.system.campaign_stores import store_url
from tests.system.fleet import SECOND_US, Fleet
from tests.system.flood_tasks import HOLD_VARIABLE, LEDGER_VARIABLE
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

APP = "tests.system.flood_tasks:app"
WORKERS = 2
SLOTS = 20
ALL_SLOTS = WORKERS * SLOTS
RUNS = 100_000
OTHERS = 20
ENQUEUED_AT_ONCE = 1_000
FLOODING = "flooding"
COUNT_CLAIMS = "SELECT count(*) FROM duly.claims"
LIST_CLAIMED = """
SELECT r.tenant, c.claimed_at FROM (
    SELECT run_id, claimed_at FROM duly.claims
    UNION ALL SELECT run_id, claimed_at FROM duly.outcomes WHERE worker IS NOT NULL
) c JOIN duly.public_runs r ON r.id = c.run_id"""
BEFORE_MAX = 10 * WORKERS * SLOTS
"""So many of the flood may be given to workers before one of another tenant is, counted from when that was asked
for: what workers have claimed by then, and some rounds of slots that become free one by one while
the order is on its way."""


@dataclass
class Figures:
    """What was seen."""

    runs: int
    asked: dict[str, int] = field(default_factory=dict)
    """When each of the other tenants' runs was on record."""
    starts: list[tuple[str, int]] = field(default_factory=list)
    """When the code of each run began."""
    claims: list[tuple[str, int]] = field(default_factory=list)
    """When each was given to a worker. What a worker that is then kept waiting by the machine does
    with it later is no matter of turns."""

    def took(self) -> list[int]:
        """Return how long each of the other tenants has waited."""
        began = dict(self.starts)
        return [began[tenant] - at for tenant, at in self.asked.items()]

    def before(self) -> list[int]:
        """Return how many of the flood were given to workers while each of them waited."""
        flood = [at for tenant, at in self.claims if tenant == FLOODING]
        given = dict(self.claims)
        return [
            sum(asked_at <= at < given[tenant] for at in flood)
            for tenant, asked_at in self.asked.items()
        ]

    def left(self) -> int:
        """Return how many of the flood were not yet given to workers when the last of the others was."""
        last = max(at for tenant, at in self.claims if tenant != FLOODING)
        return self.runs - sum(at <= last for tenant, at in self.claims if tenant == FLOODING)


@dataclass
class Flood:
    """Keeps the workers, and has tenants ask for runs."""

    fleet: Fleet
    figures: Figures

    @property
    def ledger(self) -> Path:
        return self.fleet.folder / "starts"

    @property
    def hold(self) -> Path:
        return self.fleet.folder / "hold"

    def start(self) -> None:
        """Enqueue the flood, start the workers, and wait until they are busy with it."""
        self.ledger.touch()
        os.environ |= {LEDGER_VARIABLE: str(self.ledger), HOLD_VARIABLE: str(self.hold)}
        with self._app(FLOODING) as app:
            for first in range(0, self.figures.runs, ENQUEUED_AT_ONCE):
                count = min(ENQUEUED_AT_ONCE, self.figures.runs - first)
                app.enqueue_many(app.call("serve", {"tenant": FLOODING}) for _ in range(count))
        for _ in range(WORKERS):
            words = ["duly", "worker", "--json", "--no-supervisor", f"--slots={SLOTS}"]
            self.fleet.start([*words, "--app", APP, f"--url={self.fleet.url}"], "worker")
        wait_until("the flood runs", lambda: self.ledger.stat().st_size)

    def ask_for(self, count: int) -> None:
        """Have other tenants ask for a run each, one after the other has begun."""
        for number in range(count):
            self._ask_as(f"other-{number}")
            self.wait_for_others()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let no run end meanwhile: however slow the machine is, the flood is not over."""
        self.hold.touch()
        yield
        self.hold.unlink()

    def ask_while_held(self, count: int) -> None:
        """Have other tenants ask for a run each when no slot is free."""
        wait_until("all slots are taken", lambda: self.fleet.ask(COUNT_CLAIMS)[0][0] >= ALL_SLOTS)
        for number in range(count):
            self._ask_as(f"other-{number}")

    def _ask_as(self, tenant: str) -> None:
        with self._app(tenant) as app:
            app.enqueue(app.call("serve", {"tenant": tenant}))
            self.figures.asked[tenant] = self.fleet.clock.now_us()

    def wait_for_others(self) -> None:
        wait_until(
            "the others have begun",
            lambda: self.figures.asked.keys() <= dict(self._starts()).keys(),
        )

    def finish(self) -> Figures:
        """Gather what was seen."""
        self.figures.starts = self._starts()
        self.figures.claims = self.fleet.ask(LIST_CLAIMED)
        return self.figures

    def _starts(self) -> list[tuple[str, int]]:
        whole, _, _ = self.ledger.read_text(encoding="utf-8").rpartition("\n")
        return [(tenant, int(at)) for tenant, at in map(str.split, whole.splitlines())]

    @contextmanager
    def _app(self, tenant: str) -> Iterator[duly.App]:
        with duly.App(self.fleet.url, tenant=tenant) as app:
            app.tasks.add(flood_tasks.serve.__wrapped__, flood_tasks.serve.terms)
            yield app


def violations(figures: Figures) -> list[str]:
    """Return what went wrong, whatever the machine's speed."""
    found = [
        f"starved: {count} of the flood went before the run of {tenant}"
        for tenant, count in zip(figures.asked, figures.before(), strict=True)
        if count > BEFORE_MAX
    ]
    if figures.left() <= 0:
        found.append("nothing proven: the flood was over before the others began")
    return found


def report(figures: Figures) -> str:
    """Return the figures on one line."""
    return (
        f"{figures.runs:,} runs of one tenant, {len(figures.asked)} others with one each: they began"
        f" after p50/p99/max {percentiles(figures.took())}, at most {max(figures.before()):,} of the"
        f" flood in the meantime; {figures.left():,} of it were left; commit {commit()}"
    )


@contextmanager
def campaign(url: str | None, folder: Path, runs: int) -> Iterator[Flood]:
    """Make a campaign on a store; end its processes at the end."""
    with ExitStack() as stack:
        fleet = Fleet(folder, url)
        stack.callback(fleet.kill_all)
        yield Flood(fleet, Figures(runs))


def main() -> None:
    store, *numbers = sys.argv[1:]
    runs = int(numbers[0]) if numbers else RUNS
    others = int(numbers[1]) if len(numbers) > 1 else OTHERS
    folder = Path(tempfile.mkdtemp(prefix="duly-flood-"))
    with store_url(store) as url, campaign(url, folder, runs) as going:
        going.start()
        going.ask_for(others)
        figures = going.finish()
    found = violations(figures)
    if max(figures.took()) > SECOND_US:
        found.append("slow: somebody has waited for more than a second")
    sys.stdout.write("".join(f"{one}\n" for one in found))
    sys.stdout.write(f"{store}: {report(figures)}\n")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
