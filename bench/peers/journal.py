"""The journal: which tasks began when, noted as cheaply as can be. Standard library only.

A task that is said to do nothing should do nothing. A note is a write into memory that the system
keeps as a file: no call of the system's, for which the process would give up its interpreter and a
thread of its own might take it. Each process has a file of its own in the journal's folder, which
is there even when the process was killed.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

JOURNAL = "BENCH_JOURNAL"
"""The environment variable that names the journal's folder."""
ENTRY = struct.Struct("<qq")
"""Number and start, in microseconds."""
ENTRIES_MAX = 1 << 24
"""Of one process; a file takes only the room of what was noted."""
_NOTHING = bytes(ENTRY.size)


def note_starts() -> Callable[[int], None]:
    """Return the whole of a task: it notes its number and the time."""
    folder = Path(os.environ[JOURNAL])
    pack, clock = ENTRY.pack_into, time.time_ns
    room, place = _opened(folder), count(0, ENTRY.size).__next__

    def begin() -> None:
        nonlocal room, place
        room, place = _opened(folder), count(0, ENTRY.size).__next__

    def note(number: int) -> None:
        pack(room, place(), number, clock() // 1000)

    # Who is forked has a file of its own.
    os.register_at_fork(after_in_child=begin)
    return note


def _opened(folder: Path) -> mmap.mmap:
    folder.mkdir(exist_ok=True)
    size = ENTRIES_MAX * ENTRY.size
    file = os.open(folder / f"{os.getpid()}-{time.monotonic_ns()}", os.O_RDWR | os.O_CREAT)
    try:
        os.ftruncate(file, size)
        room = mmap.mmap(file, size)
    finally:
        os.close(file)
    room[: ENTRY.size] = _NOTHING  # the first page takes milliseconds to be had: not at the first
    return room


class Started:
    """How many tasks have begun so far, in all processes; looked at again and again.

    As cheaply as can be: whoever uses both processors pays for it. Files stay open until the end.
    """

    def __init__(self) -> None:
        self._folder = os.environ[JOURNAL]
        self._files: dict[str, int] = {}
        self._counts: dict[int, int] = {}

    def count(self) -> int:
        """Return how many there are by now."""
        with suppress(FileNotFoundError), os.scandir(self._folder) as found:
            for entry in found:
                if entry.name not in self._files:
                    self._files[entry.name] = os.open(entry.path, os.O_RDONLY)
        for file in self._files.values():
            self._counts[file] = _count(file, self._counts.get(file, 0))
        return sum(self._counts.values())


def read_journal(folder: Path) -> list[tuple[int, int]]:
    """Return the numbers of what was started, and when."""
    if not folder.exists():
        return []
    parts = [ENTRY.iter_unpack(_noted(path)) for path in sorted(folder.iterdir())]
    return [entry for part in parts for entry in part]


def clear_journal(folder: Path) -> None:
    """Forget what was noted; nobody notes anything any more."""
    if folder.exists():
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()


def _noted(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_count(file.fileno()) * ENTRY.size)


def _count(file: int, low: int = 0) -> int:
    """Return how many entries there are, of which so many are known: they are written in order."""
    step = 1
    while low + step <= ENTRIES_MAX and _is_noted(file, low + step - 1):
        low, step = low + step, 2 * step
    high = min(low + step, ENTRIES_MAX)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if _is_noted(file, middle) else (low, middle)
    return low


def _is_noted(file: int, number: int) -> bool:
    return os.pread(file, ENTRY.size, number * ENTRY.size) not in {b"", _NOTHING}
