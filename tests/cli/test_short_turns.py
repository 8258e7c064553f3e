"""Threads of a dispatcher or a worker change over sooner than Python's own 5 ms."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from duly.app.services import TURN_SECONDS, short_turns

if TYPE_CHECKING:
    from tests.cli.duly_command import Workplace

NOTED = """
import sys, threading
from pathlib import Path
from duly.app import App

app = App()

@app.task
def nightly_report() -> None: ...

def note() -> None:
    before, quiet = sys.getswitchinterval(), threading.Event()
    while sys.getswitchinterval() == before:
        quiet.wait(0.01)
    print(sys.getswitchinterval(), flush=True)

threading.Thread(target=note, daemon=True).start()
"""


@pytest.mark.parametrize("command", ["dispatcher", "worker"])
def test_who_fires_and_who_claims_wait_for_other_threads_only_shortly(
    place: Workplace, command: str
):
    """What is due does not wait for 5 ms, again and again, behind a thread of its own."""
    (place.folder / "tasks.py").write_text(NOTED)
    process = place.start(command, "--app", "tasks:app", "--quiet")
    try:
        assert process.stdout is not None, "piped"
        told = next((line for line in process.stdout if line.startswith("0.")), None)
    finally:
        process.kill()
        process.communicate()
    assert told is not None, "nothing has changed"
    assert float(told) == pytest.approx(TURN_SECONDS)


def test_turns_are_as_long_as_before_when_it_is_over():
    """Whoever lends us a thread of a program's own gets the program back as it was."""
    before = sys.getswitchinterval()
    with short_turns():
        assert sys.getswitchinterval() == pytest.approx(TURN_SECONDS)
    assert sys.getswitchinterval() == before
