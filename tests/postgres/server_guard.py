"""A process that outlives the tests by a moment: ends their servers and removes their folder.

Run as a script with the folder as its argument; it needs nothing but the standard library. Whoever
uses the folder holds a shared lock on the file `users` in it, which the kernel lets go of when the
process ends in whatever way. The guard waits for the exclusive lock, and then nobody is left.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import sys
from contextlib import suppress
from pathlib import Path
from threading import Event

USERS = "users"
LOOKS_MAX = 200
"""How often to look whether a server has ended, before it is killed."""
PAUSE_SECONDS = 0.05


def main(folder: Path) -> None:
    """Return at once, and leave a process that waits until the folder has no user."""
    # Opened while the caller still holds its lock, so that it is surely there.
    with (folder / USERS).open("rb") as users:
        if os.fork():
            return
        # Or the signal that ends a run of tests, sent to all of its processes, would end this one.
        os.setsid()
        fcntl.flock(users, fcntl.LOCK_EX)
        for number in running(folder):
            end(number, folder)
        # The lock is still held: whoever comes now finds it taken and starts a server of its own. A
        # PostgreSQL that was just being started ends by itself when its folder is gone.
        shutil.rmtree(folder, ignore_errors=True)


def running(folder: Path) -> list[int]:
    """Return the servers that have left their number in the folder."""
    files = [*folder.glob("*.pid"), *folder.glob("*/postmaster.pid")]
    numbers = [file.read_text(encoding="utf-8").split("\n")[0] for file in files]
    return [int(number) for number in numbers if number and belongs(int(number), folder)]


def belongs(number: int, folder: Path) -> bool:
    """Tell whether a process is one of this folder's: a number may have gone to another since."""
    try:
        command = Path(f"/proc/{number}/cmdline").read_bytes()
    except OSError:
        return False
    return os.fsencode(folder) in command


def end(number: int, folder: Path) -> None:
    """Ask a server to end without any ceremony, and kill it if it does not."""
    with suppress(ProcessLookupError):
        os.kill(number, signal.SIGQUIT)
        for _ in range(LOOKS_MAX):
            if not belongs(number, folder):
                return
            Event().wait(PAUSE_SECONDS)
        os.kill(number, signal.SIGKILL)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
