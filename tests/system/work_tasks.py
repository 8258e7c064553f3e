"""Tasks of a campaign with workers: each writes down that it is here before it does anything else.

Most are short, and done; some fail, ask for another try or for a pause, and a few do to their
process what tasks must not do.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

import duly
from tests.system.work_evidence import DONE, END, START, WorkLedger

if TYPE_CHECKING:
    from collections.abc import Iterator

MILLISECOND_US = 1000
ASK_MS, SNOOZE_MS = 300, 400
OFTEN = duly.Retry(20, base="200ms", cap="1s")
"""So often that faults of a campaign seldom use it up."""
FEW = duly.Retry(4, base="200ms", cap="1s")
TWICE = duly.Retry(2, base="200ms", cap="1s")
FAULTY_TIMES = 9
"""As often as this nothing succeeds."""

app = duly.App()


@cache
def ledger() -> WorkLedger:
    """Return this process's own way to the ledger."""
    return WorkLedger()


class Visit:
    """One execution of a task's code, as it tells of itself."""

    def __init__(self, run: duly.Run) -> None:
        self._who = (run.id, run.attempt, run.fence)
        ledger().write(START, self._who, run.task)

    def end(self, said: str = DONE, wait_ms: int = 0) -> None:
        """Write down what the code is about to say."""
        ledger().write(END, self._who, said, wait_ms * MILLISECOND_US)


@contextmanager
def visited(run: duly.Run) -> Iterator[Visit]:
    """Write down the start; and an end, should the code be made to stop."""
    visit = Visit(run)
    try:
        yield visit
    except asyncio.CancelledError:
        visit.end("stopped")
        raise


def wait(milliseconds: int) -> None:
    """Work for a while."""
    threading.Event().wait(milliseconds / 1000)


@app.task(retry=OFTEN)
async def breeze(run: duly.Run, ms: int) -> None:
    """Be done in a moment, on the event loop."""
    with visited(run) as visit:
        await asyncio.sleep(ms / 1000)  # noqa: TID251 - a task's code, not ours
        visit.end()


@app.task(retry=OFTEN)
def stroll(run: duly.Run, ms: int) -> None:
    """Be done in a moment, in a thread."""
    visit = Visit(run)
    wait(ms)
    visit.end()


@app.task(retry=FEW)
def falter(run: duly.Run, ms: int, times: int) -> None:
    """Fail so often, and then succeed if the budget allows it."""
    visit = Visit(run)
    wait(ms)
    if run.charged < times:
        visit.end("failed")
        raise OSError("it was to fail")
    visit.end()


@app.task(retry=FEW)
def ask(run: duly.Run, ms: int) -> object:
    """Ask for another try after a certain time, once."""
    visit = Visit(run)
    wait(ms)
    if run.charged == 0:
        visit.end("asked", ASK_MS)
        return duly.retry(f"{ASK_MS}ms")
    visit.end()
    return None


@app.task(retry=OFTEN)
def doze(run: duly.Run, ms: int, times: int) -> object:
    """Snooze so often, which costs nothing."""
    visit = Visit(run)
    wait(ms)
    if run.attempt - 1 - run.charged < times:
        visit.end("snoozed", SNOOZE_MS)
        return duly.snooze(f"{SNOOZE_MS}ms")
    visit.end()
    return None


@app.task(retry=FEW)
def forsake(run: duly.Run, ms: int) -> object:
    """Give up: the run has failed, and is over."""
    visit = Visit(run)
    wait(ms)
    visit.end("gave up")
    return duly.give_up("it was to give up")


@app.task(kind="process", retry=OFTEN)
def apart(run: duly.Run, ms: int) -> None:
    """Be done in a moment, in a process of one's own."""
    visit = Visit(run)
    wait(ms)
    visit.end()


@app.task(retry=TWICE)
def poison(run: duly.Run) -> None:
    """Take the worker with it."""
    Visit(run)
    os.abort()


@app.task(kind="process", memory="200MB", retry=TWICE)
def hungry(run: duly.Run) -> None:
    """Take all the memory that there is, and more."""
    visit = Visit(run)
    heap = []
    try:
        while True:
            heap.append(bytearray(10_000_000))
    except MemoryError:
        heap.clear()
        visit.end("failed")
        raise


@app.task(kind="process", timeout="1s", retry=TWICE)
def endless(run: duly.Run) -> None:
    """Never return, in a loop that no signal handler of Python's gets into."""
    Visit(run)
    sum(itertools.repeat(0))


@app.task
def ping() -> None:
    """Do nothing: what a client asks for that says nothing else."""


POLICIES = {
    "breeze": OFTEN,
    "stroll": OFTEN,
    "falter": FEW,
    "ask": FEW,
    "doze": OFTEN,
    "forsake": FEW,
    "apart": OFTEN,
    "poison": TWICE,
    "hungry": TWICE,
    "endless": TWICE,
}
"""Each task's budget, as the checker has it."""
DEADLY = "poison"
DEAF = frozenset({"stroll", "falter", "ask", "doze"})
"""What goes on in a thread whatever its worker wants, and then has its say."""
