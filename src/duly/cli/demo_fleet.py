"""The part of the tour that needs a store and processes: a promise outlives its dispatcher."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from duly.app import App
from duly.clock import SystemClock
from duly.domain.literals import Lane
from duly.domain.schedules import TENANT_DEFAULT
from duly.store.dispatch import LeaseKey

WAIT_MAX_US = 60 * 1_000_000
END_WAIT_SECONDS = 10
LOOK_EVERY_SECONDS = 0.1
SCHEDULE = "tick"
RUNS_BEFORE = 3
RUNS_AFTER = 8


@contextmanager
def furnished() -> Iterator[Fleet]:
    """Give the tour a file and a fleet of its own, which are gone afterwards."""
    fleet = Fleet()
    with TemporaryDirectory(prefix="duly-demo-") as folder:
        names = {
            "DULY_URL": f"sqlite:///{Path(folder) / 'promises.db'}",
            "DULY_APP": "duly.cli.demo_tasks:app",
        }
        before = {name: os.environ.get(name) for name in names}
        os.environ.update(names)
        try:
            yield fleet
        finally:
            fleet.end()
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name)
                else:
                    os.environ[name] = value


class Fleet:
    """The dispatchers that the tour starts, and ends by their ids."""

    def __init__(self) -> None:
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    def start(self) -> int:
        """Start a dispatcher; return its process id."""
        command = (sys.executable, "-m", "duly", "dispatcher", "--quiet")
        started = subprocess.Popen(command, stderr=subprocess.DEVNULL)  # noqa: S603 - ourselves
        self._running[started.pid] = started
        return started.pid

    def kill(self, process: int) -> None:
        """Kill one of ours, as a power cut would."""
        victim = self._running.pop(process)
        victim.kill()
        victim.wait()

    def end(self) -> None:
        """End all of them in good order."""
        for one in self._running.values():
            one.terminate()
        for one in self._running.values():
            try:
                one.wait(END_WAIT_SECONDS)
            except subprocess.TimeoutExpired:
                one.kill()
                one.wait()
        self._running.clear()


def outlive(fleet: Fleet, tell: Callable[[str], None]) -> None:
    """Run two dispatchers, kill the one that fires, and wait for the other to go on."""
    first, second = fleet.start(), fleet.start()
    tell(f"Two dispatchers share the work: processes {first} and {second}.")
    wait_until(lambda: runs_made() >= RUNS_BEFORE and owner() in (first, second))
    victim = owner()
    fleet.kill(victim)
    tell(f"kill -9 {victim}, which owned it. The other takes over after the lease of 5 s.")
    before = runs_made()
    wait_until(lambda: runs_made() >= before + RUNS_AFTER)


def owner() -> int:
    """Return the process that owns the shard of the tour's schedule; 0 if none does."""
    with App(os.environ["DULY_URL"]) as here:
        seen, status = here.store.find_schedule(TENANT_DEFAULT, SCHEDULE), here.store.status()
    processes = {member.id: member.process for member in status.members}
    shard = -1 if seen is None else seen.record.shard
    owners = [
        processes.get(lease.owner, 0)
        for lease in status.leases
        if lease.owner is not None and lease.key == LeaseKey(shard, Lane.LIVE)
    ]
    return owners[0] if owners else 0


def runs_made() -> int:
    """Count the runs of the tour's schedule."""
    with App(os.environ["DULY_URL"]) as here:
        return len(here.runs.list(schedule=SCHEDULE, limit=1000))


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for something to become true, for a minute at most."""
    clock, moment = SystemClock(), threading.Event()
    ends_at = clock.monotonic_us() + WAIT_MAX_US
    while not condition() and clock.monotonic_us() < ends_at:
        moment.wait(LOOK_EVERY_SECONDS)
