"""The journal: what tasks note when they begin is all there, whoever notes it and however it ends."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from bench.peers.journal import JOURNAL, Started, clear_journal, note_starts, read_journal

KILLED = """
import os, signal
from bench.peers.journal import note_starts
note = note_starts()
for number in range(300):
    note(number)
os.kill(os.getpid(), signal.SIGKILL)
"""
FORKED = """
import os
from bench.peers.journal import note_starts
note = note_starts()
note(0)
child = os.fork()
for number in (1, 2, 3):
    note(number)
if child:
    os.waitpid(child, 0)
"""


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "one.journal"
    monkeypatch.setenv(JOURNAL, str(folder))
    return folder


def test_a_process_that_was_killed_has_noted_all(journal: Path):
    """What has begun is counted, whatever became of the process."""
    _run(KILLED)

    assert [*range(300)] == [number for number, _ in read_journal(journal)]
    assert 300 == Started().count()


def test_a_forked_process_has_a_file_of_its_own(journal: Path):
    """Pools of processes are forked from one that may have noted something."""
    _run(FORKED)

    assert [0, 1, 1, 2, 2, 3, 3] == sorted(number for number, _ in read_journal(journal))


def test_threads_note_each_in_a_place_of_its_own(journal: Path):
    """Pools of threads begin several at a time, the first of them, too."""
    note, ready = note_starts(), threading.Barrier(8)

    def work(first: int) -> None:
        ready.wait()
        for number in range(first, first + 500):
            note(number)

    threads = [threading.Thread(target=work, args=(500 * one,)) for one in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [*range(4000)] == sorted(number for number, _ in read_journal(journal))
    assert 4000 == Started().count()


def test_who_looks_again_and_again_sees_all(journal: Path):
    """What was counted before is not counted anew, and nothing is left out."""
    note, started = note_starts(), Started()
    seen = []
    for size in (0, 1, 1, 6, 250, 0, 4000):
        for number in range(size):
            note(number)
        seen.append(started.count())

    assert [0, 1, 2, 8, 258, 258, 4258] == seen


def test_nothing_is_noted_before_the_first_and_after_it_was_cleared(journal: Path):
    """Who only makes promises leaves no trace of a start."""
    note = note_starts()
    before = Started().count(), read_journal(journal)
    note(7)
    clear_journal(journal)

    assert (0, []) == before == (Started().count(), read_journal(journal))


def _run(program: str) -> None:
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    subprocess.run([sys.executable, "-c", program], env=environment, check=False)
