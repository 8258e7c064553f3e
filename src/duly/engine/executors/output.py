"""Output: what a process writes, cut into lines, told up to a limit; and how it ended, in words."""

from __future__ import annotations

import signal
from collections import deque
from typing import TYPE_CHECKING

from duly.domain.attempts import LINE_LENGTH_MAX, Reason
from duly.domain.concluding import Failed
from duly.engine.ends import bounded

if TYPE_CHECKING:
    from collections.abc import Callable

LAST_LINES_MAX = 20
STDOUT = "stdout"
STDERR = "stderr"


class LineReader:
    """Cuts what is read from a process into lines of bounded length."""

    def __init__(self, take: Callable[[str], None], length_max: int = LINE_LENGTH_MAX) -> None:
        self._take = take
        self._length_max = length_max
        self._rest = b""

    def feed(self, chunk: bytes) -> None:
        """Take what was read; an empty chunk is the end."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if self._rest and (not chunk or len(self._rest) > self._length_max):
            lines.append(self._rest)
            self._rest = b""
        for line in lines:
            self._take(line.decode("utf-8", "replace").rstrip("\r"))


class Output:
    """What a process writes: told line by line up to a limit, its last lines remembered."""

    def __init__(self, write: Callable[[str, str], None], bytes_max: int) -> None:
        self.last: dict[str, deque[str]] = {
            STDOUT: deque(maxlen=LAST_LINES_MAX),
            STDERR: deque(maxlen=LAST_LINES_MAX),
        }
        self._write = write
        self._bytes_max = bytes_max
        self._left = bytes_max

    def reader(self, stream: str) -> LineReader:
        """Return what one of its streams is read with."""
        return LineReader(lambda line: self._take(stream, line))

    def failed(self, status: int) -> Failed:
        """Return the end of a process that ended badly: the last it said, and how it ended."""
        reason = Reason.KILLED if status < 0 else Reason.EXIT_STATUS
        said = "\n".join(self.last[STDERR]).strip()
        words = status_words(status)
        # Last, as in a traceback: who has room for one line of an error shows that one.
        return Failed(bounded(f"{said}\n{words}") if said else words, reason)

    def _take(self, stream: str, line: str) -> None:
        self.last[stream].append(line)
        if self._left < 0:
            return
        self._left -= len(line) + 1
        if self._left >= 0:
            self._write(stream, line)
        else:
            self._write("warning", f"what it writes past {self._bytes_max:,} bytes is not kept")


def status_words(status: int) -> str:
    """Say in words how a process ended."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"ended by signal {-status}"
