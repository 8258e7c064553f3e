"""The lifeline: ties a worker's process to its supervisor.

The supervisor holds one end of a pipe to which nothing is written. Its death closes the pipe, and
the process of `Lifeline` ends too. On Linux the kernel kills the process as well, even one that is
too busy to read the pipe.

The process reports its state through a second pipe, because an exit status alone can be set by any
task.
"""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress

from duly.engine.executors.process_guard import die_with

VARIABLE = "DULY_LIFELINE"
_WORKING = b"working"
_OVER = b"over "
_HEARD_BYTES_MAX = 4096


def lifeline_variables(descriptor: int, words: int | None = None) -> dict[str, str]:
    """Return what a supervised process is told about its lifeline, and where it may speak."""
    return {VARIABLE: f"{descriptor}:{os.getpid()}:{'' if words is None else words}"}


class Lifeline:
    """A process's own end of it: what it lets its supervisor know, if there is one."""

    def __init__(self, words: int | None = None) -> None:
        self._words = words

    def say_working(self) -> None:
        """Say that it has come up, and runs tasks' code from now on."""
        self._say(_WORKING)

    def say_over(self, status: int) -> None:
        """Say that it has ended in good order, and is about to exit with this status."""
        self._say(_OVER + str(status).encode())

    def _say(self, word: bytes) -> None:
        if self._words is not None:
            with suppress(OSError):
                os.write(self._words, word + b"\n")


class ProcessPipe:
    """A supervisor's end of what one process says."""

    def __init__(self) -> None:
        self._here, self.there = os.pipe()
        os.set_blocking(self._here, False)
        self._rest = b""
        self.is_working = False
        """Whether it has come up: from then on its exit status may be any task's doing."""
        self.over_status: int | None = None
        """With which status it is about to exit, by its own word."""

    def hear(self) -> None:
        """Take what was said since the last time."""
        with suppress(BlockingIOError):
            while chunk := os.read(self._here, _HEARD_BYTES_MAX):
                *words, self._rest = (self._rest + chunk)[-_HEARD_BYTES_MAX:].split(b"\n")
                for word in words:
                    self._take(word)

    def close(self) -> None:
        """Listen no more."""
        os.close(self._here)

    def _take(self, word: bytes) -> None:
        if word == _WORKING:
            self.is_working = True
        elif word.startswith(_OVER) and word.removeprefix(_OVER).isdigit():
            self.over_status = int(word.removeprefix(_OVER))


def hold_lifeline() -> Lifeline | None:
    """End with one's supervisor, and be able to speak to it; None if there is none.

    What this process starts in turn has lifelines of its own.
    """
    text = os.environ.pop(VARIABLE, None)
    if text is None:
        return None
    descriptor, parent, words = text.split(":")
    die_with(int(parent))
    for held in filter(None, (descriptor, words)):
        os.set_inheritable(int(held), False)  # noqa: FBT003 - as the library has it
    threading.Thread(
        target=_end_with, args=(int(descriptor),), name="duly-lifeline", daemon=True
    ).start()
    return Lifeline(int(words) if words else None)


def _end_with(descriptor: int) -> None:
    with suppress(OSError):
        while os.read(descriptor, 1):
            pass
    os.kill(os.getpid(), signal.SIGKILL)
