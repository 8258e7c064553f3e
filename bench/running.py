"""Processes that are measured: started, waited for until they are ready, weighed, and stopped."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bench.contenders import ROOT
from bench.peers.duly import commands
from bench.peers.journal import JOURNAL
from bench.peers.protocol import READY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.contenders import Contender

TICKS = os.sysconf("SC_CLK_TCK")
READY_EVENTS = ("leases-acquired", "joined")
"""What a dispatcher of Duly's says when it owns shards, and a worker when it is a member."""
STOP_SECONDS = 20
START_SECONDS = 60


def surroundings(journal: Path) -> dict[str, str]:
    """Return the environment of a process that is measured."""
    paths = (str(ROOT / "src"), str(ROOT))
    return {**os.environ, JOURNAL: str(journal), "PYTHONPATH": os.pathsep.join(paths)}


def told(contender: Contender, journal: Path, verb: str, *rest: object) -> dict[str, int]:
    """Tell a contender something; return what it answers. The URL comes first."""
    command = contender.command(verb, str(rest[0]), *rest[1:])
    done = subprocess.run(  # noqa: S603 - our own command
        command, capture_output=True, text=True, env=surroundings(journal), cwd=ROOT, check=False
    )
    if done.returncode:
        raise AssertionError(f"{' '.join(command)} said:\n{done.stderr[-3000:]}")
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    return dict(json.loads(lines[-1])) if lines else {}


class Running:
    """One process of a contender's."""

    def __init__(self, command: Sequence[str], journal: Path) -> None:
        self._command = command
        self._process = subprocess.Popen(  # noqa: S603 - our own command
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=surroundings(journal),
            cwd=ROOT,
        )
        self.pid = self._process.pid
        self.answers: list[dict[str, Any]] = []
        self._is_ready = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_ready(self) -> None:
        assert self._is_ready.wait(START_SECONDS), f"{self._command} is not ready"

    def wait(self, seconds: float) -> None:
        """Wait until it ends by itself."""
        self._process.wait(seconds)
        self._reader.join(STOP_SECONDS)

    def stop(self) -> None:
        """End it, at first with good manners."""
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.strip() == READY:
                self._is_ready.set()
            elif line.startswith("{"):
                answer = json.loads(line)
                self.answers.append(answer)
                if answer.get("event") in READY_EVENTS:
                    self._is_ready.set()
        self._is_ready.set()


class Team(NamedTuple):
    """How many processes there are; a peer has no dispatchers."""

    dispatchers: int = 1
    workers: int = 1


@contextmanager
def started(
    contender: Contender, url: str, journal: Path, team: Team | None = None
) -> Iterator[list[Running]]:
    """Have a contender's processes: one worker, and with Duly a dispatcher before it."""
    team = team or Team()
    lines = (
        commands(url, dispatchers=team.dispatchers, workers=team.workers)
        if contender.is_ours
        else [contender.command("work", url) for _ in range(team.workers)]
    )
    with ExitStack() as stack:
        processes = []
        for line in lines:
            process = Running(line, journal)
            stack.callback(process.stop)
            processes.append(process)
        for process in processes:
            process.wait_ready()
        yield processes


def cpu_seconds(parent: int) -> float:
    """Return the processor time of a process and its children, those that have ended too."""
    total = sum(_stat(parent)[11:15])
    for child in _children(parent):
        total += sum(_stat(child)[11:15])
    return total / TICKS


def memory_mb(parent: int) -> float:
    """Return the memory of a process and its children; what they share counts once (PSS)."""
    return sum(_pss_kb(one) for one in (parent, *_children(parent))) / 1000


def _children(parent: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            child = int(entry.name)
            if _stat(child)[1] == parent:
                found.append(child)
    return found


def _stat(process: int) -> list[int]:
    try:
        text = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2]
    except (FileNotFoundError, ProcessLookupError):
        return [0] * 20
    # The first field is a letter, the state.
    return [0, *map(int, text.split()[1:20])]


def _pss_kb(process: int) -> int:
    try:
        text = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))
