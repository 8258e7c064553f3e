"""A campaign: real processes under load, faults at random moments, and the verdict afterwards.

    make chaos SECONDS=300
    python -m tests.system.campaign 300 [SEED]

This is the one on a SQLite file; postgres_campaign.py does the same and more on PostgreSQL.

Short forms of it are tests (test_crashes.py). It prints one line of figures, and every violation; its
seed decides which fault comes when and what clients ask for.
"""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from tests.forked_commands import ROOT
from tests.system.checker import violations
from tests.system.fleet import SECOND_US, Fleet
from tests.waiting import pause, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.system.evidence import Evidence
    from tests.system.fleet import Process

KILLED = "kill -9 dispatcher"
STOPPED = "SIGSTOP past the lease"
SCHEDULES = 120
REST_SECONDS = 10.0
RECOVERY_US = 7 * SECOND_US
"""What falls due this soon after a fault counts as recovery, not as healthy."""


@dataclass
class Campaign:
    """Keeps a fleet running, and does things to it."""

    size: ClassVar[int] = 2
    """How many dispatchers."""
    pause_seconds: ClassVar[float] = 3.0
    """At most so long after a fault the next one comes,"""
    rests: ClassVar[float] = 0.1
    """but for this share of them, after which everything may come to rest."""

    fleet: Fleet
    seed: str
    draw: random.Random = field(init=False)
    schedules: int = SCHEDULES
    dispatchers: list[Process] = field(default_factory=list)
    clients: list[Process] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.draw = random.Random(self.seed)

    def start(self) -> None:
        """Bring up dispatchers, an observer and a client with its schedules."""
        self.fleet.start_observer()
        self.dispatchers = [
            self.fleet.new_dispatcher(self.way_of(place)) for place in range(self.size)
        ]
        self.start_client(self.schedules)
        wait_until("all have joined", lambda: all(one.count("joined") for one in self.dispatchers))
        wait_until("something fires", self.fleet.count_runs)

    def start_client(self, schedules: int) -> None:
        name = f"{self.seed}-{len(self.clients)}"
        self.clients.append(self.fleet.start_client(name, schedules, self.way_of_clients()))

    def way_of(self, place: int) -> str:
        """Return the URL by which a dispatcher reaches the store."""
        return self.fleet.url

    def way_of_clients(self) -> str:
        """Return the URL by which clients reach the store."""
        return self.fleet.url

    def faults(self) -> dict[Callable[[], object], float]:
        """Return what may be done to the fleet, and how often, in proportion."""
        return {
            self.kill_dispatcher: 6,
            self.stop_and_continue: 5,
            self.stop_gracefully: 2,
            self.kill_client: 3,
            self.hold_lock: 1,
        }

    def kill_dispatcher(self) -> None:
        """Kill one and start another; whoever is left takes over."""
        victim = self._some_owner()
        self.fleet.note(KILLED, self.fleet.clock.now_us())
        victim.kill()
        self.replace(victim)
        wait_until("its shards are taken over", lambda: self.fleet.is_declared_dead(victim))

    def stop_and_continue(self) -> None:
        """Stop one in the middle of a write until it is declared dead; then let it go on.

        It is stopped while it waits for the lock, past its own look at its lease: what it writes
        when it goes on comes from an owner that believes in its lease, and is none any more.
        """
        fleet = self.fleet
        wait_until("all own something", lambda: len(fleet.shares()) == self.size)
        victim = self._some_owner()
        began = fleet.clock.now_us()
        self.pause_until_due()
        with fleet.locked():
            pause(0.3)
            victim.send(signal.SIGSTOP)
        wait_until("the stopped one is declared dead", lambda: fleet.is_declared_dead(victim))
        self.wait_for_fires()
        joined = victim.count("joined")
        victim.send(signal.SIGCONT)
        fleet.note(STOPPED, began, fleet.clock.now_us())
        wait_until("it comes back under a new id", lambda: victim.count("joined") > joined)

    def refuse_a_stale_fire(self) -> None:
        """Stop an owner as it is about to fire, until it is declared dead: it fires too late."""
        fleet = self.fleet
        wait_until("all own something", lambda: len(fleet.shares()) == self.size)
        victim = self._some_owner()
        began, joined = fleet.clock.now_us(), victim.count("joined")
        victim.stop_at_its_next_call()
        wait_until("the stopped one is declared dead", lambda: fleet.is_declared_dead(victim))
        self.wait_for_fires()
        victim.send(signal.SIGCONT)
        fleet.note(STOPPED, began, fleet.clock.now_us())
        wait_until("it comes back under a new id", lambda: victim.count("joined") > joined)

    def stop_gracefully(self) -> Process:
        """End one in good order and start another; return who was ended."""
        victim = self.draw.choice(self.dispatchers)
        self.fleet.note("SIGTERM", self.fleet.clock.now_us())
        assert 0 == victim.terminate(), victim.log.read_text(encoding="utf-8")
        self.replace(victim)
        return victim

    def kill_client(self) -> None:
        """Kill a client in the middle of whatever it does; another one goes on."""
        self.fleet.note("kill -9 client", self.fleet.clock.now_us())
        self.clients[-1].kill()
        self.start_client(5)

    def hold_lock(self) -> None:
        """Hold the lock for longer than a lease, and until all have said so: nobody is to blame."""
        began = self.fleet.clock.now_us()
        with self.fleet.locked():
            pause(self.fleet.lease_seconds + 2 + self.draw.random())
            wait_until("all say so", lambda: all(map(has_lost_store, self.dispatchers)))
        self.fleet.note("locked past the lease", began, self.fleet.clock.now_us())
        self.wait_for_fires()

    def replace(self, victim: Process) -> None:
        """Start another one in its place."""
        place = self.dispatchers.index(victim)
        self.dispatchers[place] = self.fleet.start_dispatcher(self.way_of(place))

    def wait_for_orders(self) -> None:
        """Wait until clients are past making schedules."""
        wait_until(
            "a delayed run is cancelled", lambda: self.fleet.count_audit("delayed.cancelled")
        )

    def wait_for_kinds(self, kinds: frozenset[str]) -> None:
        """Wait until clients have given an order of each of these kinds."""
        wait_until("all is asked for", lambda: kinds <= {one.kind for one in self.fleet.orders()})

    def wait_for_fires(self) -> None:
        """Wait until firing goes on."""
        runs = self.fleet.count_runs()
        wait_until("firing goes on", lambda: self.fleet.count_runs() > runs)

    def pause_until_due(self) -> None:
        """Wait for the next whole second, nearly: then all dispatchers have something to write."""
        pause((SECOND_US - 30_000 - self.fleet.clock.now_us() % SECOND_US) / SECOND_US)

    def finish(self) -> Evidence:
        """Stop giving orders, let everything settle, and gather the evidence."""
        assert 0 == self.clients[-1].close_input(), self.clients[-1].log.read_text("utf-8")
        last = self.fleet.client(self.draw, f"{self.seed}-last")
        last.paused = [one.name for one in last.app.schedules.list(status="paused")]
        last.finish()
        last.close()
        until = self.fleet.settle()
        for dispatcher in self.dispatchers:
            dispatcher.terminate()
        return self.fleet.evidence(until)

    def _some_owner(self) -> Process:
        """Choose a dispatcher that owns something; wait until there is one."""

        def owning() -> list[Process]:
            pids = self.fleet.owners().values()
            return [one for one in self.dispatchers if one.popen.pid in pids]

        wait_until("somebody owns something", owning)
        return self.draw.choice(owning())


def has_lost_store(process: Process) -> bool:
    """Say whether a process can't reach its store just now, by its own words."""
    return process.count("store-lost") > process.count("store-recovered")


def run_for(campaign: Campaign, seconds: float) -> Evidence:
    """Do something to the fleet every few seconds, for so long."""
    ends = campaign.fleet.clock.monotonic_us() + int(seconds * SECOND_US)
    campaign.start()
    pause(REST_SECONDS)
    faults = campaign.faults()
    while campaign.fleet.clock.monotonic_us() < ends:
        campaign.draw.choices([*faults], weights=[*faults.values()])[0]()
        is_resting = campaign.draw.random() < campaign.rests
        pause(REST_SECONDS if is_resting else campaign.draw.uniform(0.0, campaign.pause_seconds))
    return campaign.finish()


def unprovoked(evidence: Evidence) -> list[str]:
    """Return what a campaign was meant to bring about and did not: its zeros prove nothing then."""
    kinds = {fault.kind for fault in evidence.faults}
    found = []
    if kinds & {KILLED, STOPPED} and evidence.takeovers == 0:
        found.append("unprovoked: nobody was taken over from")
    if STOPPED in kinds and evidence.audit.get("lease.refused", 0) == 0:
        found.append("unprovoked: no stale write was refused")
    return found


def report(evidence: Evidence, found: list[str], seed: str) -> str:
    """Return the figures of a campaign on one line."""
    kinds = Counter(fault.kind for fault in evidence.faults)
    faults = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    healthy, recovering = _lateness(evidence)
    due = sum(run.fired_at is not None for run in evidence.kept)
    skipped = len(evidence.skips)
    return (
        f"faults: {faults}; operations {len(evidence.orders):,}; due occurrences run {due:,}"
        f" (and {skipped:,} ranges skipped); attempts 0 (no workers);"
        f" takeovers {evidence.takeovers};"
        f" stale writes rejected {evidence.audit.get('lease.refused', 0)}; ambiguous 0;"
        f" duplicates {sum('twice' in one for one in found)}; violations {len(found)};"
        f" lateness p50/p99/max healthy {percentiles(healthy)},"
        f" in recovery {percentiles(recovering)}; seed {seed}; commit {commit()}"
    )


def _lateness(evidence: Evidence) -> tuple[list[int], list[int]]:
    spans = [(fault.at - SECOND_US, max(fault.at, fault.until)) for fault in evidence.faults]
    paused = {order.subject for order in evidence.orders if order.kind == "pause"}
    resumed = {one.id for one in evidence.schedules if one.name in paused}
    healthy: list[int] = []
    recovering: list[int] = []
    for run in evidence.kept:
        # What is caught up with, after an outage or a pause, was late before it was begun.
        if run.fired_at is not None and run.lane == "live" and run.schedule not in resumed:
            due = run.scheduled_for
            is_near = any(begin <= due <= end + RECOVERY_US for begin, end in spans)
            (recovering if is_near else healthy).append(run.fired_at - due)
    return healthy, recovering


def percentiles(lateness_us: list[int]) -> str:
    """Return the median, the 99th percentile and the highest, as text."""
    if not lateness_us:
        return "-"
    ordered = sorted(lateness_us)
    chosen = (ordered[len(ordered) * share // 100] for share in (50, 99))
    return "/".join(f"{one / 1000:,.1f}" for one in (*chosen, ordered[-1])) + " ms"


def commit() -> str:
    """Return which version of the code was tried."""
    git = shutil.which("git")
    if git is None:
        return "unknown"
    command = [git, "describe", "--always", "--dirty", "--abbrev=12"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return ended.stdout.strip() or "unknown"


def conclude(evidence: Evidence, seed: str) -> list[str]:
    """Print the verdict and the figures; return what was found wrong."""
    found = violations(evidence) + unprovoked(evidence)
    sys.stdout.write("".join(f"{one}\n" for one in found))
    sys.stdout.write(report(evidence, found, seed) + "\n")
    return found


def chosen() -> tuple[float, str]:
    """Return the seconds and the seed that the command line gives."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    seed = sys.argv[2] if len(sys.argv) > 2 else f"{random.Random().getrandbits(32):08x}"
    return seconds, seed


def main() -> None:
    seconds, seed = chosen()
    sys.stdout.write(f"seed {seed}: {seconds:.0f} s of faults on real processes and SQLite\n")
    sys.stdout.flush()
    folder = Path(tempfile.mkdtemp(prefix="duly-chaos-"))
    fleet = Fleet(folder)
    try:
        evidence = run_for(Campaign(fleet, seed), seconds)
    finally:
        fleet.kill_all()
    if conclude(evidence, seed):
        sys.stdout.write(f"the evidence is in {folder}\n")
        sys.exit(1)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
