"""Tasks that real workers run in system tests: they leave marks, wait, crash and ignore."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import duly

app = duly.App()
SOON = duly.Retry(attempts=3, base="0s", cap="0s")
ONCE = duly.Retry(attempts=1)


def mark(run: duly.Run, word: str) -> None:
    """Leave a line outside of the store: which attempt was here, and in which process."""
    with Path(os.environ["DULY_TEST_MARKS"]).open("a", encoding="utf-8") as marks:
        marks.write(f"{word} {run.attempt} {os.getpid()}\n")


@app.task
def quick(run: duly.Run) -> str:
    mark(run, "quick")
    return "done"


@app.task(retry=SOON)
def long_at_first(run: duly.Run) -> str:
    """Wait for ever the first time: whoever runs it is killed meanwhile."""
    mark(run, "long")
    if run.attempt == 1:
        threading.Event().wait()
    return "done"


@app.task
def patient(run: duly.Run) -> str:
    """Wait until it should stop, the first time."""
    mark(run, "patient")
    pause = threading.Event()
    while run.attempt == 1 and not run.cancelled:
        pause.wait(0.01)
    return "done"


@app.task(kind="process", retry=SOON)
def aborting_alone(run: duly.Run) -> None:
    mark(run, "aborting")
    os.abort()


@app.task(retry=ONCE)
def aborting_worker(run: duly.Run) -> None:
    mark(run, "aborting")
    os.abort()


@app.task(retry=SOON, timeout="3s")
def deaf_at_first(run: duly.Run) -> str:
    """Ignore the time-out, in a thread that nobody can stop."""
    mark(run, "deaf")
    if run.attempt == 1:
        threading.Event().wait()
    return "done"


@app.task(retry=ONCE)
def exiting(run: duly.Run) -> None:
    """End the worker's process, with the status of a program that was started wrongly."""
    mark(run, "exiting")
    os._exit(2)


@app.task(retry=ONCE, timeout="500ms")
async def hanging(run: duly.Run) -> None:
    """Leave a thread behind that never ends, and for which Python would wait at its end."""
    mark(run, "hanging")
    await asyncio.to_thread(threading.Event().wait)
