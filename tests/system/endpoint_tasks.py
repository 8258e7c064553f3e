"""Tasks of the campaign with a dead endpoint: a webhook that calls it, and one that calls nobody."""

from __future__ import annotations

import os
from pathlib import Path

import duly
from duly.clock import SystemClock

KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
KEY_VARIABLE = "DULY_TEST_HOOK"
URL_VARIABLE = "DULY_TEST_ENDPOINT"
LEDGER_VARIABLE = "DULY_TEST_TICKS"

app = duly.App()
clock = SystemClock()

notify = app.webhook(
    "notify",
    os.environ.get(URL_VARIABLE, "http://127.0.0.1:8000/hook"),
    secret=duly.secret(f"env:{KEY_VARIABLE}"),
    parameters={"number": int},
    retry=duly.Retry(attempts=20, base="1s", cap="10s"),
    timeout="5s",
)


@app.task
def tick(run: duly.Run) -> None:
    """Leave a line outside of the store: for when it was due, and when it began."""
    line = f"{round(run.scheduled_for.timestamp() * 1_000_000)} {clock.now_us()}\n"
    with Path(os.environ[LEDGER_VARIABLE]).open("a", encoding="utf-8") as ledger:
        ledger.write(line)
