"""Output: what a process writes, cut into lines, told up to a limit; and how it ended, in words."""

from __future__ import annotations

import codecs
import signal
from collections import deque
from typing import TYPE_CHECKING, Protocol

from duly.domain.attempts import RESULT_BYTES_MAX, Reason
from duly.domain.concluding import Failed

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.domain.live import Live

LAST_LINES_MAX = 20
LINE_BYTES_MAX = 2 * RESULT_BYTES_MAX
"""Long enough for a line that is a result; what a run's log keeps of one is less."""
STDOUT = "stdout"
STDERR = "stderr"
_DECODER = codecs.getincrementaldecoder("utf-8")


class Reader(Protocol):
    """Takes what is read from a process."""

    def feed(self, chunk: bytes) -> None:
        """Take what was read; an empty chunk is the end."""
        ...


class LineReader:
    """Cuts what is read from a process into lines; of one that is too long the beginning is told.

    `take` is given each line, and whether it was cut: pieces that follow each other would show the
    two halves of a secret at their seam.
    """

    def __init__(self, take: Callable[[str, bool], None], bytes_max: int = LINE_BYTES_MAX) -> None:
        self._take = take
        self._bytes_max = bytes_max
        self._rest = b""
        self._is_passing = False
        """Whether what comes is the rest of a line whose beginning was told."""

    def feed(self, chunk: bytes) -> None:
        """Take what was read; an empty chunk is the end."""
        *lines, rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            self._tell(line)
            self._is_passing = False
        self._rest = b"" if self._is_passing else rest
        if self._rest and (not chunk or len(self._rest) > self._bytes_max):
            self._is_passing = self._tell(self._rest)
            self._rest = b""

    def _tell(self, line: bytes) -> bool:
        """Tell a line unless it was told; return whether it was cut."""
        is_cut = len(line) > self._bytes_max
        if not self._is_passing:
            # A character that the cut goes through is left out, rather than shown as a wrong one.
            decoder = _DECODER("replace")
            text = decoder.decode(line[: self._bytes_max], final=not is_cut)
            self._take(text if is_cut else text.rstrip("\r"), is_cut)
        return is_cut


class Output:
    """What a process writes: told line by line up to a limit, its last lines remembered."""

    def __init__(self, live: Live, bytes_max: int) -> None:
        self.last: dict[str, deque[str]] = {
            STDOUT: deque(maxlen=LAST_LINES_MAX),
            STDERR: deque(maxlen=LAST_LINES_MAX),
        }
        self._live = live
        self._bytes_max = bytes_max
        self._left = bytes_max

    def reader(self, stream: str) -> LineReader:
        """Return what one of its streams is read with."""
        return LineReader(lambda line, is_cut: self._take(stream, line, is_cut=is_cut))

    def failed(self, status: int) -> Failed:
        """Return the end of a process that ended badly: the last it said, and how it ended."""
        reason = Reason.KILLED if status < 0 else Reason.EXIT_STATUS
        said = "\n".join(self.last[STDERR]).strip()
        words = status_words(status)
        # Last, as in a traceback: who has room for one line of an error shows that one.
        return Failed(f"{said}\n{words}" if said else words, reason)

    def _take(self, stream: str, line: str, *, is_cut: bool) -> None:
        if is_cut:
            line = f"{self._live.hide(line, is_cut=True)}…"
        self.last[stream].append(line)
        if self._left < 0:
            return
        self._left -= len(line) + 1
        if self._left >= 0:
            self._live.write(stream, line)
        else:
            self._live.write(
                "warning", f"what it writes past {self._bytes_max:,} bytes is not kept"
            )


def status_words(status: int) -> str:
    """Say in words how a process ended."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"ended by signal {-status}"
