"""Real processes on one store: dispatchers, clients and an observer, and what is done to them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw

from duly.clock import SystemClock
from tests.forked_commands import CAN_ADOPT, ROOT, TREE, bound, start_program
from tests.system.client_program import Client, new_app
from tests.system.dispatcher_program import PROGRAM
from tests.system.evidence import Evidence, Fault, OrderBook, read_orders, read_sights
from tests.system.views import (
    COUNT_DEAD,
    FIND_DEAD,
    HAVE_RENEWED,
    LIST_OWNERS,
    SQLITE,
    open_view,
    spans,
    standings,
)
from tests.waiting import wait_until

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

    from tests.system.evidence import Order

LIMIT_SECONDS = 120.0
"""How long anything may take that is waited for: far longer than it takes on a slow machine."""
LEASE_SECONDS = 5.0
PATIENT_SECONDS = 120.0
"""The lease where no dispatcher may be declared dead, however busy the machine is."""
OUTLASTED_SECONDS = 30.0
"""The same, where a test has to wait for longer than the lease."""
LOCK_SECONDS = 2.0
SECOND_US = 1_000_000
STOPPED = "T"
UNFORESEEN = ("tick-failed", "set-aside")


class Process:
    """A child process whose output goes to a file."""

    def __init__(self, arguments: list[str], log: Path, *, is_fresh: bool = False) -> None:
        self.log = log
        environment = {**os.environ, "PYTHONPATH": TREE, "PYTHONUNBUFFERED": "1"}
        if CAN_ADOPT and not is_fresh:
            self.popen = start_program(arguments, environment, log)
            return
        with log.open("ab") as out:
            self.popen = subprocess.Popen(
                bound(sys.executable, "-m", *arguments),
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=out,
                env=environment,
                cwd=ROOT,
                # Or the end of a terminal would wake up whoever is stopped.
                start_new_session=True,
            )

    @property
    def is_running(self) -> bool:
        return self.popen.poll() is None

    def kill(self) -> None:
        """End it as a power cut of one process would."""
        self.popen.kill()
        self.popen.wait(LIMIT_SECONDS)

    def send(self, number: signal.Signals) -> None:
        self.popen.send_signal(number)

    def stop_at_its_next_call(self) -> None:
        """Have a program that knows the signal stop itself, and wait until it has."""
        self.send(signal.SIGUSR1)
        wait_until("it stops itself", lambda: state_of(self.popen.pid) == STOPPED)

    def terminate(self) -> int:
        """Ask it to end in good order; return its exit code."""
        self.popen.terminate()
        return self.popen.wait(LIMIT_SECONDS)

    def close_input(self) -> int:
        """Tell a program of ours to finish; return its exit code."""
        assert self.popen.stdin is not None, "it was given one"
        with suppress(BrokenPipeError):
            self.popen.stdin.close()
        return self.popen.wait(LIMIT_SECONDS)

    def events(self) -> list[dict[str, Any]]:
        """Return what a dispatcher has told so far."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").split("\n")[:-1]
        found = []
        for line in lines:
            # Of whoever was killed there may be half a line, and another's behind it.
            with suppress(ValueError):
                found.append(json.loads(line))
        return [one for one in found if isinstance(one, dict)]

    def count(self, event: str) -> int:
        return sum(one["event"] == event for one in self.events())


class Fleet:
    """The processes of one campaign, on one store, with a folder for what they tell."""

    def __init__(self, folder: Path, url: str | None = None) -> None:
        self.folder = folder
        self.url = url or f"{SQLITE}{folder / 'promises.db'}"
        self.clock = SystemClock()
        self.faults: list[Fault] = []
        self.processes: list[Process] = []
        self.lease_seconds = LEASE_SECONDS
        """How long after its last renewal a dispatcher may be declared dead."""
        self._observer: Process | None = None
        with new_app(self.url) as app:
            app.store.now()
        self.open_eyes()

    def open_eyes(self) -> None:
        """Open a connection for looking."""
        self.eyes = open_view(self.url)

    def close_eyes(self) -> None:
        """Let go of the store."""
        self.eyes.close()

    def check(self) -> list[str]:
        """Return what the store finds wrong about itself."""
        with new_app(self.url) as app:
            return [f"{one.what}: {one.detail}" for one in app.check()]

    def start_dispatcher(self, url: str | None = None) -> Process:
        """Start one as a person would, and wait until it is a member."""
        dispatcher = self.new_dispatcher(url)
        wait_until("a dispatcher has joined", lambda: dispatcher.count("joined"))
        return dispatcher

    def new_dispatcher(self, url: str | None = None) -> Process:
        """Start one, by this way to the store or the plain one, and wait for nothing."""
        program = [PROGRAM, str(self.lease_seconds)]
        arguments = [*program, "dispatcher", "--json", "--url", url or self.url]
        return self.start(arguments, "dispatcher")

    def start_observer(self) -> None:
        place = [self.url, str(self.folder / "observer.ledger")]
        self._observer = self.start(["tests.system.observer_program", *place], "observer")

    def start_client(self, seed: str, schedules: int = 0, url: str | None = None) -> Process:
        place = [url or self.url, str(self.folder / f"{seed}.orders")]
        program = ["tests.system.client_program", *place, seed, str(schedules)]
        return self.start(program, "client")

    def start(self, arguments: list[str], kind: str) -> Process:
        log = self.folder / f"{kind}-{len(self.processes)}.log"
        process = Process(arguments, log)
        self.processes.append(process)
        return process

    def client(self, seed: random.Random, name: str) -> Client:
        """Return a client in this process."""
        book = OrderBook(self.folder / f"{name}.orders")
        return Client(new_app(self.url), book, seed, name)

    def orders(self) -> list[Order]:
        """Return what clients have asked for so far."""
        return read_orders(sorted(self.folder.glob("*.orders")))

    def note(self, kind: str, at: int, until: int = 0) -> None:
        self.faults.append(Fault(kind, at, until))

    def kill_all(self) -> None:
        """Leave nothing behind."""
        for process in self.processes:
            if process.is_running:
                process.kill()
            if process.popen.stdin is not None:
                with suppress(BrokenPipeError):
                    process.popen.stdin.close()
        self.close_eyes()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the file's one write lock, as a program of somebody else's may."""
        connection = apsw.Connection(self.url.removeprefix(SQLITE))
        connection.set_busy_timeout(int(LIMIT_SECONDS * 1000))
        try:
            connection.execute("BEGIN IMMEDIATE")
            yield
        finally:
            connection.close(True)

    def is_writable(self) -> bool:
        """Say whether the file's write lock is free; a server has none."""
        if not self.url.startswith(SQLITE):
            return True
        connection = apsw.Connection(self.url.removeprefix(SQLITE))
        connection.set_busy_timeout(int(LOCK_SECONDS * 1000))
        try:
            connection.execute("BEGIN IMMEDIATE")
        except apsw.BusyError:
            return False
        finally:
            connection.close(True)
        return True

    def ask(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        return self.eyes.ask(sql, *values)

    def count_audit(self, action: str) -> int:
        return int(self.ask("SELECT count(*) FROM duly.audit WHERE action = $1", action)[0][0])

    def count_runs(self) -> int:
        return int(self.ask("SELECT count(*) FROM duly.runs")[0][0])

    def owners(self) -> dict[int, int]:
        """Return the process that owns each live shard."""
        return dict(self.ask(LIST_OWNERS))

    def shares(self) -> list[int]:
        """Return how many live shards each process owns that owns any, the largest first."""
        return sorted(Counter(self.owners().values()).values(), reverse=True)

    def is_declared_dead(self, dispatcher: Process) -> bool:
        """Say whether others have taken over from what this process was last."""
        return bool(self.ask(FIND_DEAD, dispatcher.popen.pid))

    def have_renewed_since(self, instant: int) -> bool:
        """Say whether all dispatchers have renewed their membership since then."""
        return bool(self.ask(HAVE_RENEWED, instant)[0][0])

    def settle(self) -> int:
        """Wait until everything that was due by now has its verdict; return that now."""
        until = self.clock.now_us()
        wait_until("all that was due is settled", lambda: not self.eyes.has_unsettled(until))
        return until

    def evidence(self, until: int) -> Evidence:
        """Let the observer look once more, and gather everything."""
        assert self._observer is not None, "without an observer there is no evidence"
        assert 0 == self._observer.close_input(), self._observer.log.read_text(encoding="utf-8")
        return Evidence(
            orders=self.orders(),
            sights=read_sights(self.folder / "observer.ledger"),
            kept=self.eyes.look(0),
            skips=spans(self.eyes, "duly.skips"),
            owed=spans(self.eyes, "duly.owed"),
            schedules=standings(self.eyes),
            until=until,
            pending_keys=[key for (key,) in self.ask("SELECT key FROM duly.delayed")],
            audit=dict(self.ask("SELECT action, count(*) FROM duly.audit GROUP BY action")),
            takeovers=self.ask(COUNT_DEAD)[0][0],
            faults=self.faults,
            unforeseen=[
                event["problem"]
                for process in self.processes
                for event in process.events()
                if event["event"] in UNFORESEEN
            ],
        )


def parent_of(process: int) -> int | None:
    """Return a process's parent; None if there is no such process."""
    return _stat(process)[1]


def is_running(process: int) -> bool:
    """Say whether a process is there, and not merely not yet buried."""
    return state_of(process) not in {None, "Z", "X"}


def state_of(process: int) -> str | None:
    """Return a process's state, as the kernel names it."""
    return _stat(process)[0]


def _stat(process: int) -> tuple[str | None, int | None]:
    """Return a process's state and parent, as the kernel tells them."""
    try:
        text = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return None, None
    state, parent = text.rpartition(") ")[2].split()[:2]
    return state, int(parent)
