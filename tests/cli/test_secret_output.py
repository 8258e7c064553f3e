"""A secret that a task prints: neither a worker's output nor the log of its run shows it."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from tests.cli.test_observing import started
from tests.waiting import LIMIT_S

if TYPE_CHECKING:
    from tests.cli.duly_command import Workplace

TASKS = """
import logging, sys
import duly
from duly.app import App

logging.basicConfig(format="%(message)s")
app = App()

def careless(token):
    sys.stdout.write("half " + token[:9])
    sys.stdout.write(token[9:] + " half\\n")
    print("error", token, file=sys.stderr)
    logging.warning("logged %s", token)
    sys.stdout.flush()

@app.task(name="async")
async def of_loop(token: duly.Secret) -> None:
    careless(token.reveal())

@app.task(name="thread")
def of_thread(token: duly.Secret) -> None:
    careless(token.reveal())

@app.task(name="process", kind="process")
def of_process(token: duly.Secret) -> None:
    careless(token.reveal())

app.command(
    "command",
    ["sh", "-c", "printf %s half; printf ' %s\\\\n' $TOKEN; echo error $TOKEN >&2"],
    env={"TOKEN": duly.secret("env:DULY_SECRET_TOKEN")},
)
"""
SECRET = "canary-of-a-printed-secret"  # noqa: S105 - of no one
ARGUMENTS = ("--arguments", json.dumps({"token": {"secret": "env:DULY_SECRET_TOKEN"}}))


@pytest.mark.parametrize("task", ["async", "thread", "process", "command"])
def test_a_printed_secret_is_masked(place: Workplace, monkeypatch: pytest.MonkeyPatch, task: str):
    monkeypatch.setenv("DULY_SECRET_TOKEN", SECRET)
    (place.folder / "tasks.py").write_text(TASKS)
    run = place.duly("enqueue", task, *(ARGUMENTS if task != "command" else ()), "--json")
    words = ("--allow-commands", "all", "--log-format", "json", "--log-runs")
    with started(place, "worker", *words) as process:
        assert process.stderr is not None
        err = ""
        for line in process.stderr:
            err += line
            if '"run-succeeded"' in line:
                break
        process.terminate()
        out, rest = process.communicate(timeout=LIMIT_S)
    kept = place.duly("run", "logs", run.json["id"], "--json").out

    told = out + err + rest + kept
    assert "error ***" in told, told
    assert "half *** half" in told or "half ***" in kept, told
    assert SECRET not in told
    assert SECRET[9:] not in told


def test_what_exec_records_is_masked_and_what_it_shows_is_the_commands_own(place: Workplace):
    """Whoever reads the output of a command through a pipe gets what the command has written."""
    words = (sys.executable, "-c", "import os; print('with', os.environ['DULY_SECRET_TOKEN'])")
    answer = place.duly("exec", "careless", "--", *words, DULY_SECRET_TOKEN=SECRET)
    kept = place.duly("run", "logs", "careless", "--json").out

    assert (0, f"with {SECRET}\n") == (answer.status, answer.out), answer.err
    assert "with ***" in kept
    assert SECRET not in kept
