"""Tasks of the campaign with a flood: each run leaves a line outside of the store when it begins."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import duly
from duly.clock import SystemClock

LEDGER_VARIABLE = "DULY_TEST_STARTS"
HOLD_VARIABLE = "DULY_TEST_HOLD"
"""While a file of this name exists, runs do not end."""
SECONDS = 0.005
HELD_SECONDS = 0.05

app = duly.App()
clock = SystemClock()
_MOMENT = threading.Event()


@app.task
def serve(tenant: str) -> None:
    """Leave a line, and take a moment; longer while runs are held."""
    with Path(os.environ[LEDGER_VARIABLE]).open("a", encoding="utf-8") as ledger:
        ledger.write(f"{tenant} {clock.now_us()}\n")
    _MOMENT.wait(SECONDS)
    while Path(os.environ[HOLD_VARIABLE]).exists():
        _MOMENT.wait(HELD_SECONDS)
