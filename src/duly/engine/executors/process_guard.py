"""The guard: what a child process does before anything else, so that it never outlives its worker.

A command is started through this file, run by itself and not as a part of the package: it imports
little, changes what must be changed in the child, and then becomes the command. Doing this between
fork and exec instead would run Python in a copy of a process whose threads hold locks.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, NoReturn

ORPHAN_STATUS = 70
REFUSED_STATUS = 126
_PARENT_DEATH_SIGNAL = 1
_KILL = 9


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent dies; end now if that has happened."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, _KILL)
    if os.getppid() != parent:
        os._exit(ORPHAN_STATUS)


def limit_memory(limit: int | None) -> None:
    """Let this process have no more address space than that."""
    if limit is not None:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def become_user(name: str) -> None:
    """Act as another user, with that user's groups and no others."""
    import pwd

    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise ValueError(f"there is no user {name!r}") from None
    if os.geteuid() == entry.pw_uid:
        return
    os.initgroups(name, entry.pw_gid)
    os.setgid(entry.pw_gid)
    os.setuid(entry.pw_uid)


def fetch_all() -> None:
    """Fetch what is needed later: another user may not be able to read our own library."""
    for name in ("ctypes", "resource"):
        __import__(name)


def become(order: dict[str, Any], complaints: int) -> NoReturn:
    """Become a command; say on `complaints` what is in the way, and end."""
    try:
        fetch_all()
        if order["user"] is not None:
            become_user(order["user"])
        die_with(order["parent"])  # after the change of user, which would undo it
        if order["cwd"] is not None:
            os.chdir(order["cwd"])
        os.set_inheritable(complaints, False)  # noqa: FBT003 - as the library has it
        limit_memory(order["memory_bytes"])
        os.execve(order["executable"], order["argv"], order["env"])  # noqa: S606 - its purpose
    except (OSError, ValueError) as error:
        _refuse(complaints, str(error))


def _refuse(complaints: int, problem: str) -> NoReturn:
    os.write(complaints, problem.encode("utf-8", "replace"))
    os._exit(REFUSED_STATUS)


if __name__ == "__main__":
    order_pipe, complaint_pipe = int(sys.argv[1]), int(sys.argv[2])
    with os.fdopen(order_pipe, "rb") as orders:
        become(json.load(orders), complaint_pipe)
