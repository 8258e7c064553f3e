"""A campaign on PostgreSQL: three dispatchers, each behind a proxy, on a server that crashes.

    make chaos SECONDS=300
    python -m tests.system.postgres_campaign 300 [SEED]

Each dispatcher reaches the server through a proxy of its own, and all clients through another one;
the observer looks at the server itself. The server is durable, as in production.
"""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, LiteralString

import psycopg

from tests.postgres.proxy import Proxy
from tests.postgres.server import Server
from tests.system.campaign import (
    STOPPED,
    Campaign,
    chosen,
    conclude,
    run_for,
)
from tests.system.fleet import LEASE_SECONDS, Fleet
from tests.waiting import pause, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.postgres.proxy import Then
    from tests.postgres.server import Databases

RECOVERING = {"recovery_init_sync_method": "syncfs"}
"""After a crash all of the disk is made safe at once, and not thousands of files one by one."""
FIRES = b"INSERT INTO duly.runs"
COMMITS = b"COMMIT"
OF_DISPATCHERS = (FIRES, FIRES, FIRES, b"UPDATE duly.members", COMMITS, b"duly.arrivals", b"")
"""What a statement has in it whose answer is lost: a firing, a renewal, any other order."""
OF_CLIENTS = (b"INSERT INTO duly.delayed", COMMITS, b"")
THENS: tuple[Then, ...] = ("cut", "reset", "hang")
LOCK_TIMERS = "LOCK TABLE duly.schedule_state, duly.delayed IN EXCLUSIVE MODE"
LOCK_RUNS = "LOCK TABLE duly.runs IN SHARE MODE"
COUNT_FIRING = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock'
    AND query LIKE '%duly.members%FOR KEY SHARE%'"""


@dataclass
class PostgresCampaign(Campaign):
    """Keeps a fleet running on a server of its own, and does things to both and to the network."""

    size: ClassVar[int] = 3

    server: Databases = field(kw_only=True)
    """Only one of its own is crashed."""
    proxies: list[Proxy] = field(kw_only=True)
    """One for each dispatcher, and the last one for the clients."""

    def way_of(self, place: int) -> str:
        return self.proxies[place].url

    def way_of_clients(self) -> str:
        return self.proxies[-1].url

    def faults(self) -> dict[Callable[[], object], float]:
        return {
            self.kill_dispatcher: 4,
            self.stop_and_continue: 4,
            self.stop_gracefully: 2,
            self.kill_client: 2,
            self.hold_lock: 1,
            self.crash_server: 6,
            self.end_backends: 4,
            self.cut: 3,
            self.refuse: 2,
            self.delay: 2,
            self.swallow: 3,
            self.deliver_late: 3,
            self.lose_answers: 6,
        }

    def stop_and_continue(self) -> None:
        """Stop one in the middle of a write until it is declared dead; then let it go on.

        Its write is at the server, waiting for a lock; when it gets it, somebody else owns what it
        is about. It comes from an owner that believed in its lease when it wrote.
        """
        fleet = self.fleet
        wait_until("all own something", lambda: len(fleet.shares()) == self.size)
        victim = self._some_owner()
        began = fleet.clock.now_us()
        joined = victim.count("joined")
        with self.locked(LOCK_RUNS):
            wait_until("all are in the middle of a write", self._are_all_firing)
            victim.send(signal.SIGSTOP)
            wait_until("the stopped one is declared dead", lambda: fleet.is_declared_dead(victim))
        self.wait_for_fires()
        victim.send(signal.SIGCONT)
        fleet.note(STOPPED, began, fleet.clock.now_us())
        wait_until("it comes back under a new id", lambda: victim.count("joined") > joined)

    def _are_all_firing(self) -> bool:
        return bool(self.fleet.ask(COUNT_FIRING)[0][0] >= self.size)

    def hold_lock(self) -> None:
        """Hold a lock on all timers for longer than a lease: nobody fires, and all stay members."""
        with self.noted("timers locked past the lease"), self.locked(LOCK_TIMERS):
            pause(self.fleet.lease_seconds + 2 + self.draw.random())
        self.wait_for_fires()

    def crash_server(self) -> None:
        """Stop PostgreSQL as a crash would, and start it again a little later."""
        assert isinstance(self.server, Server), "nobody else's is crashed"
        with self.noted("PostgreSQL stopped with -m immediate"):
            self.server.stop("immediate")
            pause(self.draw.uniform(0.0, 4.0))
            self.server.start()
        self.wait_for_fires()

    def end_backends(self) -> None:
        """End all connections at the server, a few times in a row."""
        for _ in range(self.draw.randrange(1, 5)):
            with self.noted("all backends terminated"):
                self.server.kill_backends(self.fleet.url)
            pause(self.draw.uniform(0.0, 1.0))
        self.wait_for_fires()

    def cut(self) -> None:
        """Close all connections of somebody, by the network."""
        with self.noted("connections cut"):
            proxy = self.draw.choice(self.proxies)
            self.draw.choice((proxy.cut, proxy.reset))()
        self.wait_for_fires()

    def refuse(self) -> None:
        """Cut somebody off in a way that he notices."""
        proxy = self.draw.choice(self.proxies)
        with self.noted("cut off, refused"):
            proxy.refuse()
            proxy.reset()
            pause(self.draw.uniform(0.5, 1.5 * LEASE_SECONDS))
            proxy.heal()
        self.wait_for_fires()

    def delay(self) -> None:
        """Let what somebody says, and what he is told, take its time."""
        proxy = self.draw.choice(self.proxies)
        with self.noted("delayed"):
            proxy.delay(self.draw.uniform(0, 300), self.draw.uniform(0, 300))
            pause(self.draw.uniform(1.0, LEASE_SECONDS))
            proxy.heal()
        self.wait_for_fires()

    def swallow(self) -> None:
        """Cut somebody off in a way that nobody notices: half-open connections."""
        proxy = self.draw.choice(self.proxies)
        with self.noted("half-open"):
            proxy.swallow()
            pause(self.draw.uniform(0.5, 2 * LEASE_SECONDS))
            proxy.heal()
        self.wait_for_fires()

    def deliver_late(self) -> None:
        """Keep what a dispatcher says, and deliver it when he has given up on it."""
        proxy = self.draw.choice(self.proxies[:-1])
        with self.noted("delivered late"):
            self.pause_until_due()
            proxy.hold()
            pause(self.draw.uniform(0.5, 2 * LEASE_SECONDS))
            proxy.heal()
        self.wait_for_fires()

    def lose_answers(self) -> None:
        """Let statements be executed and their answers be lost, a few in a row."""
        for _ in range(self.draw.randrange(1, 6)):
            proxy = self.draw.choice(self.proxies)
            is_client = proxy is self.proxies[-1]
            matching = self.draw.choice(OF_CLIENTS if is_client else OF_DISPATCHERS)
            at = self.fleet.clock.now_us()
            proxy.drop_reply(matching, self.draw.choice(THENS))
            if proxy.wait_dropped(5.0):
                name = "of a client" if is_client else f"of {matching.decode() or 'any order'}"
                self.fleet.note(f"answer lost {name}", at, self.fleet.clock.now_us())
            else:
                proxy.heal()
            # A dispatcher whose connection hangs has to find out by itself.
            pause(self.draw.uniform(0.0, 0.5))
        self.proxies[-1].heal()
        self.wait_for_fires()

    def finish(self):
        """As all campaigns do, on a network that is whole again."""
        for proxy in self.proxies:
            proxy.heal()
        return super().finish()

    @contextmanager
    def noted(self, kind: str) -> Iterator[None]:
        """Write down a fault, from when to when."""
        began = self.fleet.clock.now_us()
        yield
        self.fleet.note(kind, began, self.fleet.clock.now_us())

    @contextmanager
    def locked(self, lock: LiteralString) -> Iterator[None]:
        """Hold a lock that others need for writing, as a program of somebody else's may."""
        with psycopg.connect(self.fleet.url) as connection:
            connection.execute(lock)
            yield
            connection.rollback()


@contextmanager
def postgres_campaign(server: Databases, folder: Path, seed: str) -> Iterator[PostgresCampaign]:
    """Make a campaign on a new database of a server; end its processes and proxies at the end."""
    url = server.create_database()
    with ExitStack() as stack:
        stack.callback(server.drop_database, url)
        proxies = [stack.enter_context(Proxy(url)) for _ in range(PostgresCampaign.size + 1)]
        fleet = Fleet(folder, url)
        stack.callback(fleet.kill_all)
        yield PostgresCampaign(fleet, seed, server=server, proxies=proxies)


def main() -> None:
    seconds, seed = chosen()
    sys.stdout.write(f"seed {seed}: {seconds:.0f} s of faults on real processes and PostgreSQL\n")
    sys.stdout.flush()
    folder = Path(tempfile.mkdtemp(prefix="duly-chaos-"))
    with Server.boot(RECOVERING, durable=True) as server:
        with postgres_campaign(server, folder, seed) as campaign:
            evidence = run_for(campaign, seconds)
        if conclude(evidence, seed):
            shutil.copy(server.log, folder / "postgresql.log")
            sys.stdout.write(f"the evidence is in {folder}\n")
            sys.exit(1)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
