"""A program that keeps another one, and ends all that came of it when nobody holds it any more.

    python -m tests.failover.keeper COMMAND [ARGUMENT …]

PostgreSQL and Patroni leave their parents on purpose, so that neither their process group nor the
end of whoever started them reaches them. The keeper adopts such orphans. When its standard input is
closed, also because its own parent was killed, it ends them all.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
LOOK_EVERY_SECONDS = 0.1
GRACE_SECONDS = 5.0
"""How long a PostgreSQL may take to give its shared memory back before it is killed."""


def descendants(pid: int) -> dict[int, str]:
    """Return the living processes that descend from one, with their names; parents come first."""
    children: dict[int, list[int]] = {}
    names: dict[int, str] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            head, _, tail = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")
            state, parent = tail.split()[:2]
            number, _, name = head.partition(" (")
            if state not in "ZX":
                children.setdefault(int(parent), []).append(int(number))
                names[int(number)] = name
    found, front = [], [pid]
    while front:
        front = [child for one in front for child in sorted(children.get(one, []))]
        found += front
    return {one: names[one] for one in found}


def tell(pids: dict[int, str], number: signal.Signals) -> None:
    """Send a signal to processes, whichever of them are still there."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def end_all() -> None:
    """End everything below this process: PostgreSQL at once, but with its memory given back."""
    everybody = descendants(os.getpid())
    postgres = {pid: name for pid, name in everybody.items() if name == "postgres"}
    others = {pid: name for pid, name in everybody.items() if pid not in postgres}
    tell(others, signal.SIGKILL)  # first Patroni, or it would start another
    tell(postgres, signal.SIGQUIT)
    tell(postgres, signal.SIGCONT)  # one that was stopped would not hear it
    for _ in range(int(GRACE_SECONDS / LOOK_EVERY_SECONDS)):
        if not descendants(os.getpid()):
            break
        select.select([], [], [], LOOK_EVERY_SECONDS)
    while left := descendants(os.getpid()):
        tell(left, signal.SIGKILL)
    reap()


def reap() -> None:
    """Take note of whoever has ended; orphans have no other parent."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def main(command: list[str]) -> None:
    """Keep a process until standard input is closed."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert 0 == libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), os.strerror(ctypes.get_errno())
    subprocess.Popen(command, stdin=subprocess.DEVNULL)
    while not select.select([sys.stdin], [], [], LOOK_EVERY_SECONDS)[0]:
        reap()
    end_all()


if __name__ == "__main__":
    main(sys.argv[1:])
