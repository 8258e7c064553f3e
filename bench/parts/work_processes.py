"""One dispatcher process and one worker process over a place: crowds, end to end.

Nothing of theirs happens in this process, which only looks at the store from time to time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, NamedTuple

from bench.parts.processes import ROOT, dispatcher
from bench.stores.places import CLOCK, SECOND_US, Promise, number

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterator

    from bench.stores.places import Place

TICKS = os.sysconf("SC_CLK_TCK")
LEAD_US = 10 * SECOND_US
"""How long before the first instant two processes are started."""
LIMIT_US = 300 * SECOND_US
LOOK_SECONDS = 0.1
FINISHED = "SELECT count(*) FROM duly.outcomes"
QUEUED = "SELECT count(*) FROM duly.ready"


class Crew(NamedTuple):
    """How the worker is started: the tasks it has, and how many at a time."""

    tasks: str
    """The name of an application in work_tasks.py."""
    slots: int


class Cpu(NamedTuple):
    """Processor seconds by process."""

    dispatcher: float
    worker: float
    server: float


class Crowd(NamedTuple):
    """A crowd that was run to its end."""

    per_second: float
    """From the instant at which all of it was due to the last outcome."""
    cpu: Cpu
    """Per run, in microseconds."""
    counts: dict[str, float]
    """Per run, as far as the place can count what other processes do."""


@contextmanager
def worker(url: str, crew: Crew) -> Iterator[subprocess.Popen[str]]:
    """Run `duly worker` on a store, from when it has joined."""
    command = (
        *(sys.executable, "-m", "duly", "worker", "--no-supervisor", "--json"),
        *(f"--url={url}", f"--app=bench.parts.work_tasks:{crew.tasks}", f"--slots={crew.slots}"),
    )
    with subprocess.Popen(  # noqa: S603 - our own command
        command, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if json.loads(line)["event"] == "joined":
                    break
            yield process
        finally:
            process.terminate()


def crowd(place: Place, count: int, crew: Crew, server: int | None) -> Crowd:
    """Run a crowd due at one instant to its end."""
    due_at = _promise(place, count)
    with (
        dispatcher(place.url) as one,
        worker(place.url, crew) as other,
        _counted(place, server) as read_counts,
    ):
        cpu = _Processes(one.pid, other.pid, server)
        before = _ready(due_at, cpu)
        _wait(lambda: number(place, FINISHED) >= count)
        used = _per_run(before, cpu.read(), count)
        counts = {name: value / count for name, value in read_counts().items()}
    ended = number(place, "SELECT max(finished_at) FROM duly.outcomes")
    states = place.rows("SELECT state, count(*) FROM duly.outcomes GROUP BY state")
    assert states == [("succeeded", count)], f"{states} for {count} promises"
    place.remove()
    return Crowd(count / (ended - due_at) * SECOND_US, used, counts)


def fired_alone(place: Place, count: int) -> float:
    """Fire a crowd without anybody to run it, and leave it queued; return fires a second."""
    due_at = _promise(place, count)
    with dispatcher(place.url):
        _wait(lambda: number(place, QUEUED) >= count)
    ended = number(place, "SELECT max(fired_at) FROM duly.runs")
    return count / (ended - due_at) * SECOND_US


def _promise(place: Place, count: int) -> int:
    """Promise a crowd; return when it is due."""
    first = CLOCK.now_us()
    place.fill(Promise(due_at=first) for _ in range(count))
    due_at = CLOCK.now_us() + LEAD_US
    place.shift(due_at - first)
    return due_at


def _ready(due_at: int, cpu: _Processes) -> Cpu:
    """Wait until shortly before the instant; return what was used by then."""
    _sleep_until(due_at - SECOND_US // 2)
    return cpu.read()


def _sleep_until(instant: int) -> None:
    wait_us = instant - CLOCK.now_us()
    assert wait_us > 0, "everybody is there in time"
    sleep(wait_us / SECOND_US)


def _wait(condition: Callable[[], bool]) -> None:
    ends = CLOCK.monotonic_us() + LIMIT_US
    while not condition():
        assert CLOCK.monotonic_us() < ends, "it did not come about in five minutes"
        sleep(LOOK_SECONDS)


@contextmanager
def _counted(
    place: Place, server: int | None
) -> Iterator[Callable[[], Counter[str] | dict[str, int]]]:
    """Count, if the database is a process of its own: it counts for everybody."""
    if server is None:
        yield dict
        return
    with place.counting() as counted:
        yield counted.read


class _Processes:
    """The processes that take part."""

    def __init__(self, one: int, other: int, server: int | None) -> None:
        self._dispatcher = one
        self._worker = other
        self._server = server

    def read(self) -> Cpu:
        """Return what they have used so far."""
        server = 0.0 if self._server is None else _family_seconds(self._server)
        return Cpu(_seconds(self._dispatcher), _seconds(self._worker), server)


def _per_run(before: Cpu, after: Cpu, count: int) -> Cpu:
    spent = (late - early for early, late in zip(before, after, strict=True))
    return Cpu(*(one / count * SECOND_US for one in spent))


def _seconds(process: int) -> float:
    return sum(_stat(process)[11:13]) / TICKS


def _family_seconds(parent: int) -> float:
    """Return what a process and its children have used, those that have ended too."""
    total = sum(_stat(parent)[11:15])
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            values = _stat(int(entry.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
        if values[1] == parent:
            total += sum(values[11:15])
    return total / TICKS


def _stat(process: int) -> list[int]:
    text = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2]
    # The first field is a letter, the state.
    return [0, *map(int, text.split()[1:20])]
