"""The cluster's own promise, before anything is built on it: what was acknowledged survives.

    python -m tests.failover.ledger [FAULTS [asynchronous]]

Two writers insert numbered rows, one commit each, and write down which were acknowledged. The leader
is killed, killed when its standbys are gone, stopped, killed with its disk, and cut off, in turn.
Afterwards every acknowledged row must be there. With `asynchronous` the same is tried without
synchronous replication, and must fail: otherwise the proof could not.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import threading
from contextlib import closing
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

from duly.clock import SystemClock
from tests.failover.bounded import connect
from tests.failover.cluster import LIMIT_SECONDS, Cluster
from tests.waiting import pause, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.failover.cluster import Node

SECOND_US = 1_000_000
WRITERS = 2
WRITE_EVERY_SECONDS = 0.005
RECONNECT_EVERY_SECONDS = 0.1
REST_SECONDS = 3.0
INSERT = "INSERT INTO ledger VALUES (%s)"


@dataclass(frozen=True)
class Acknowledged:
    """A row that a writer was told is safe."""

    number: int
    at: int


@dataclass
class Writer:
    """Inserts rows and remembers what it was told."""

    url: str
    first: int
    acknowledged: list[Acknowledged] = field(default_factory=list)
    unknown: int = 0
    is_over: threading.Event = field(default_factory=threading.Event)

    def write_all(self) -> None:
        """Write until it is over; whatever happens to a connection, there is another one."""
        numbers = iter(range(self.first, sys.maxsize, WRITERS))
        while not self.is_over.is_set():
            try:
                with closing(connect(self.url)) as connection:
                    self._write(connection, numbers)
            except psycopg.Error:
                pause(RECONNECT_EVERY_SECONDS)

    def _write(self, connection: psycopg.Connection, numbers: Iterator[int]) -> None:
        clock = SystemClock()
        while not self.is_over.wait(WRITE_EVERY_SECONDS):
            number = next(numbers)
            self.unknown += 1
            connection.execute(INSERT, (number,))
            self.acknowledged.append(Acknowledged(number, clock.monotonic_us()))
            self.unknown -= 1


@dataclass
class Ledger:
    """Writers on a cluster, and what is done to it."""

    cluster: Cluster
    writers: list[Writer] = field(default_factory=list)
    outages: list[tuple[str, float]] = field(default_factory=list)
    """What was done, and the seconds until something was acknowledged again."""

    def run(self, faults: int) -> None:
        """Do things to the leader, under load."""
        with closing(connect(self.cluster.url())) as connection:
            connection.execute("CREATE TABLE ledger (number int8 PRIMARY KEY)")
        self.writers = [Writer(self.cluster.url(), first) for first in range(WRITERS)]
        threads = [threading.Thread(target=one.write_all) for one in self.writers]
        for thread in threads:
            thread.start()
        try:
            for name, fault in islice(cycle(self.cluster.faults().items()), faults):
                pause(REST_SECONDS)
                self.suffer(name, fault)
        finally:
            for writer in self.writers:
                writer.is_over.set()
            for thread in threads:
                thread.join()

    def suffer(self, name: str, fault: Callable[[], Node]) -> None:
        """Do something to the leader, wait for an acknowledgement afterwards, and undo it."""
        began = SystemClock().monotonic_us()
        node = fault()
        self.cluster.wait_succeeded(node)
        written = SystemClock().monotonic_us()
        wait_until("something is acknowledged", lambda: self._has_since(written), LIMIT_SECONDS)
        seconds = (SystemClock().monotonic_us() - began) / SECOND_US
        self.outages.append((name, seconds))
        print(f"{node.name} {name}: acknowledged again after {seconds:.1f} s", flush=True)  # noqa: T201
        self.cluster.heal(node)
        self.cluster.wait_whole()

    def _has_since(self, at: int) -> bool:
        last = [writer.acknowledged[-1].at for writer in self.writers if writer.acknowledged]
        return max(last, default=0) > at

    def lost(self) -> list[int]:
        """Return the acknowledged rows that are not there."""
        with closing(connect(self.cluster.url())) as connection:
            there = {number for (number,) in connection.execute("SELECT number FROM ledger")}
        return [one.number for one in self.acknowledged() if one.number not in there]

    def acknowledged(self) -> list[Acknowledged]:
        return [one for writer in self.writers for one in writer.acknowledged]


def main(faults: int, *, is_synchronous: bool) -> None:
    """Run it, and say what came of it."""
    folder = Path(tempfile.mkdtemp(prefix="duly-failover-"))
    with Cluster(folder, is_synchronous=is_synchronous) as cluster:
        cluster.start()
        ledger = Ledger(cluster)
        ledger.run(faults)
        lost = ledger.lost()
    unknown = sum(writer.unknown for writer in ledger.writers)
    seconds = sorted(one for _, one in ledger.outages)
    print(  # noqa: T201
        f"{len(seconds)} failovers, {seconds[0]:.1f} to {seconds[-1]:.1f} s; rows acknowledged"
        f" {len(ledger.acknowledged()):,}, without an answer {unknown:,}; lost {len(lost):,}"
    )
    if bool(lost) == is_synchronous:
        sys.exit(f"not as promised; the logs are in {folder}")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main(
        int(sys.argv[1]) if len(sys.argv) > 1 else 5,
        is_synchronous="asynchronous" not in sys.argv,
    )
