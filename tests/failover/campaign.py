"""A campaign: dispatchers on a cluster that loses its leader again and again, and the verdict.

    make chaos SECONDS=300
    python -m tests.failover.campaign 300 [SEED] [asynchronous]

Every 30 to 60 seconds something happens to the leader; whatever happened is undone, and the next
thing happens when the cluster is whole again. It prints a table of figures, and every violation;
its seed decides what comes when, and what the client asks for. With `asynchronous` the same is tried
without synchronous replication, and must fail: otherwise the proof could not.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from tests.failover.bounded import BoundedFleet
from tests.failover.cluster import LIMIT_SECONDS, TTL_SECONDS, Cluster
from tests.system.checker import violations
from tests.system.evidence import Fault
from tests.system.fleet import SECOND_US
from tests.waiting import pause, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.failover.cluster import Node
    from tests.system.evidence import Evidence
    from tests.system.fleet import Process

DISPATCHERS = 3
SCHEDULES = 60
REST_SECONDS = 10.0
ASYNCHRONOUS = "asynchronous"


@dataclass(frozen=True)
class Failover:
    """A leader that was lost, and when another one could be written to."""

    fault: Fault
    writable_at: int


@dataclass
class Campaign:
    """Keeps a fleet running on a cluster, and does things to the cluster."""

    cluster: Cluster
    fleet: BoundedFleet
    seed: str
    draw: random.Random = field(init=False)
    failovers: list[Failover] = field(default_factory=list)
    dispatchers: list[Process] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.draw = random.Random(self.seed)

    def run(self, seconds: float) -> Evidence:
        """Bring up a fleet, lose leaders for so long, and gather the evidence."""
        self.fleet.start_observer()
        self.dispatchers = [self.fleet.start_dispatcher() for _ in range(DISPATCHERS)]
        client = self.fleet.start_client(self.seed, SCHEDULES)
        wait_until("something fires", self.fleet.count_runs)
        ends = self.fleet.clock.monotonic_us() + int(seconds * SECOND_US)
        pause(REST_SECONDS)
        faults, waiting = self.cluster.faults(), list[str]()
        while self.fleet.clock.monotonic_us() < ends:
            # Every kind has its turn before one comes again.
            waiting = waiting or self.draw.sample(list(faults), len(faults))
            kind = waiting.pop()
            self.lose_leader(kind, faults[kind])
            pause(self.draw.uniform(2.0, REST_SECONDS))
        return self.finish(client)

    def lose_leader(self, kind: str, fault: Callable[[], Node]) -> None:
        """Do something to the leader; undo it when another one leads."""
        at = self.fleet.clock.now_us()
        node = fault()
        if not self.cluster.wait_succeeded(node):
            kind += ", led again"
        writable_at = self.fleet.clock.now_us()
        fired = self.fleet.count_runs()
        wait_until("firing goes on", lambda: self.fleet.count_runs() > fired, LIMIT_SECONDS)
        seconds = (writable_at - at) / SECOND_US
        sys.stdout.write(f"{node.name} {kind}: writable after {seconds:.1f} s\n")
        sys.stdout.flush()
        pause(self.draw.uniform(0.0, 5.0))
        self.cluster.heal(node)
        self.cluster.wait_whole()
        self.fleet.faults.append(Fault(kind, at, self.fleet.clock.now_us()))
        self.failovers.append(Failover(self.fleet.faults[-1], writable_at))

    def finish(self, client: Process) -> Evidence:
        """Stop giving orders, let everything settle, and gather the evidence."""
        assert 0 == client.close_input(), client.log.read_text(encoding="utf-8")
        last = self.fleet.client(self.draw, f"{self.seed}-last")
        last.paused = [one.name for one in last.app.schedules.list(status="paused")]
        last.finish()
        last.close()
        until = self.fleet.settle()
        for dispatcher in self.dispatchers:
            assert 0 == dispatcher.terminate(), dispatcher.log.read_text(encoding="utf-8")
        return self.fleet.evidence(until)


def figures(
    failovers: Sequence[Failover], evidence: Evidence, found: Sequence[str]
) -> dict[str, str]:
    """Return what a campaign has to tell; three figures are the lowest, the middle, the highest."""
    kinds = Counter(one.fault.kind for one in failovers)
    fires = sorted(run.fired_at for run in evidence.kept if run.fired_at is not None)
    done = sum(order.is_done for order in evidence.orders)
    unknown = sum(order.is_unknown for order in evidence.orders)
    refused = len(evidence.orders) - done - unknown
    return {
        "leaders lost": "; ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())),
        "seconds until something could be written again": _spread(
            [(one.writable_at - one.fault.at) / SECOND_US for one in failovers]
        ),
        "seconds from then to the first fire": _spread(
            [_first_after(fires, one.writable_at) for one in failovers]
        ),
        "longest silence between two fires, in seconds": _spread(
            [_silence(fires, one) for one in failovers]
        ),
        "orders acknowledged / refused / without an answer": f"{done:,} / {refused:,} / {unknown:,}",
        "due occurrences run, ranges skipped": f"{len(fires):,}, {len(evidence.skips):,}",
        "memberships that ran out, and were renewed under a new id": f"{evidence.takeovers:,}",
        "early / lost / twice": _verdicts(found),
        "violations of any kind": f"{len(found):,}",
    }


def _silence(fires: Sequence[int], failover: Failover) -> float:
    """Return the longest time without a fire while the cluster was not whole."""
    first = max(0, bisect_right(fires, failover.fault.at) - 1)
    last = bisect_right(fires, failover.fault.until) + 1
    gaps = [later - earlier for earlier, later in pairwise(fires[first:last])]
    return max(gaps, default=0) / SECOND_US


def _first_after(fires: Sequence[int], at: int) -> float:
    place = bisect_right(fires, at)
    return (fires[place] - at) / SECOND_US if place < len(fires) else float("inf")


def _spread(figures: Sequence[float]) -> str:
    """Return the lowest, the middle and the highest."""
    ordered = sorted(figures)
    if not ordered:
        return "-"
    return f"{ordered[0]:.1f} / {ordered[len(ordered) // 2]:.1f} / {ordered[-1]:.1f}"


def _verdicts(found: Sequence[str]) -> str:
    kinds = Counter(one.partition(":")[0] for one in found)
    lost = sum(kinds[kind] for kind in ("lost", "hole", "unmade", "unsettled"))
    return f"{kinds['early']} / {lost} / {kinds['twice']}"


def main(seconds: float, seed: str, *, is_synchronous: bool) -> None:
    """Run one, and say what came of it."""
    sys.stdout.write(f"seed {seed}: {seconds:.0f} s of lost leaders, a lock of {TTL_SECONDS} s\n")
    sys.stdout.flush()
    folder = Path(tempfile.mkdtemp(prefix="duly-failover-"))
    with Cluster(folder, is_synchronous=is_synchronous) as cluster:
        cluster.start()
        fleet = BoundedFleet(folder, cluster.url())
        campaign = Campaign(cluster, fleet, seed)
        try:
            evidence = campaign.run(seconds)
        finally:
            fleet.kill_all()
    found = violations(evidence)
    if not campaign.failovers:
        found.append("unprovoked: no leader was lost")
    sys.stdout.write("".join(f"{one}\n" for one in found))
    told = figures(campaign.failovers, evidence, found)
    sys.stdout.write("".join(f"| {name} | {value} |\n" for name, value in told.items()))
    if bool(found) == is_synchronous:
        sys.exit(f"not as promised; the evidence is in {folder}")
    shutil.rmtree(folder)


if __name__ == "__main__":
    given = [one for one in sys.argv[1:] if one != ASYNCHRONOUS]
    main(
        float(given[0]) if given else 60.0,
        given[1] if len(given) > 1 else f"{random.Random().getrandbits(32):08x}",
        is_synchronous=ASYNCHRONOUS not in sys.argv,
    )
