"""Tasks of the campaign at limits: each writes down when it is here, and when it has gone."""

from __future__ import annotations

import os
import threading

import duly
from duly.clock import SystemClock

LEDGER_VARIABLE = "DULY_TEST_CAPPED"
CAP = 3
ACCOUNTS = 4
SECONDS = 0.03
START, END = "start", "end"
OFTEN = duly.Retry(20, base="200ms", cap="1s")

app = duly.App()
clock = SystemClock()


def work(run: duly.Run, place: str) -> None:
    """Be at a place for a moment."""
    _tell(START, run, place)
    threading.Event().wait(SECONDS)
    _tell(END, run, place)


def _tell(what: str, run: duly.Run, place: str) -> None:
    """Leave a line outside of the store, whole or not at all."""
    line = f"{what} {place} {run.id}/{run.fence} {os.getpid()} {clock.now_us()}\n"
    ledger = os.open(os.environ[LEDGER_VARIABLE], os.O_WRONLY | os.O_APPEND)
    try:
        os.write(ledger, line.encode())
    finally:
        os.close(ledger)


@app.task(retry=OFTEN, running=CAP)
def narrow(run: duly.Run, number: int) -> None:
    """Few of these at once."""
    del number
    work(run, "narrow")


@app.task(retry=OFTEN, running_by={"account": 1})
def in_turn(run: duly.Run, account: int, number: int) -> None:
    """One at a time for each account."""
    del number
    work(run, f"account-{account}")
