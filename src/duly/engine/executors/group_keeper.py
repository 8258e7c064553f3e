"""The keeper: kills the process groups that a worker has started if that worker dies.

The kernel kills a child together with its parent, but not the processes that the child has
started. The worker reports to the keeper the start and the end of each process group. When the
connection to the worker closes, the keeper kills the groups that are left.

The keeper runs as a standalone program, not as a part of the package.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from contextlib import suppress

LOOK_SECONDS = 1.0
"""How often it looks whether its worker is there: somebody else may hold the pipe open."""
_CHUNK_BYTES = 65536


def keep(parent: int) -> None:
    """Keep count of the families that `parent` tells of, until it is gone; kill what is left."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # it is needed for as long as its worker is there
    groups: set[int] = set()
    rest = b""
    while True:
        # What was told is read to its end, though the worker be gone by now.
        if not select.select([0], [], [], LOOK_SECONDS)[0]:
            if os.getppid() == parent:
                continue
            break
        chunk = os.read(0, _CHUNK_BYTES)
        if not chunk:
            break
        *words, rest = (rest + chunk).split(b"\n")
        for word in words:
            (groups.add if word[:1] == b"+" else groups.discard)(int(word[1:]))
    for group in groups:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    keep(int(sys.argv[1]))
