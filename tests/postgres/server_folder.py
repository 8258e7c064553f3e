"""A folder in which a server runs: short, closed to others, and cleaned up whatever happens."""

from __future__ import annotations

import fcntl
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from tests.postgres import server_guard

PORTS = range(20_000, 32_000)
"""Below the ports that the kernel hands out: while a server is down, none of its clients' own
connections may sit on its port, nor may a client be connected to itself."""
ACCOUNT = "nobody"
"""Whom servers run as that refuse to run as root."""
LIMIT_SECONDS = 240.0
MEMORY = Path("/dev/shm")  # noqa: S108 - the folder is made there as safely as anywhere
MEMORY_BYTES_MIN = 4 * 2**30
"""How much room there must be in memory before a server is put there."""


class CommandFailedError(AssertionError):
    """A program of a server's ended with an error."""


class Premises:
    """A folder with a guard, which ends what runs in it when the last user is gone."""

    def __init__(self, path: Path, users: IO[bytes]) -> None:
        self.path = path
        self._users = users

    @classmethod
    def take(cls, *, in_memory: bool = False) -> Premises:
        """Make a new folder and set a guard on it."""
        path = Path(tempfile.mkdtemp(prefix="duly-server-", dir=MEMORY if in_memory else None))
        if account() is not None:
            shutil.chown(path, ACCOUNT)
        users = (path / server_guard.USERS).open("wb")
        fcntl.flock(users, fcntl.LOCK_SH)
        command = [sys.executable, "-I", "-S", server_guard.__file__, str(path)]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        return cls(path, users)

    @classmethod
    def join(cls, path: Path) -> Premises | None:
        """Use a folder that another process made; None when its guard is already cleaning up."""
        try:
            users = (path / server_guard.USERS).open("rb")
        except FileNotFoundError:
            return None
        with suppress(BlockingIOError):
            fcntl.flock(users, fcntl.LOCK_SH | fcntl.LOCK_NB)
            # It may have been removed between opening and locking.
            if (path / server_guard.USERS).exists():
                return cls(path, users)
        users.close()
        return None

    def leave(self) -> None:
        """Use it no longer; what the last user leaves behind is removed soon after."""
        self._users.close()

    def run(self, *command: str | Path) -> str:
        """Run a program here, demoted where necessary; return what it said."""
        # Into a file and not a pipe: a server that a program starts would keep the pipe open.
        with tempfile.TemporaryFile() as output:
            answer = subprocess.run(
                command,
                check=False,
                timeout=LIMIT_SECONDS,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                **self.demotion(),
            )
            output.seek(0)
            said = output.read().decode(errors="replace")
        if answer.returncode:
            raise CommandFailedError(f"{command} ended with {answer.returncode}: {said}")
        return said

    def demotion(self) -> dict[str, Any]:
        """Return how a subprocess is started here: not as root, and without settings of a user's."""
        environment = {name: value for name, value in os.environ.items() if name[:2] != "PG"}
        demoted: dict[str, Any] = {"cwd": self.path, "env": environment}
        if (entry := account()) is not None:
            demoted |= {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
        return demoted

    def within_reach(self, folder: Path, program: str) -> Path:
        """Return a folder of programs, or a copy of its tree if the account cannot reach it."""
        try:
            self.run("test", "-x", folder / program)
        except CommandFailedError:
            copied = self.path / "installed"
            shutil.copytree(folder.parent, copied, symlinks=True)
            # The copy is as closed as the original was; the folder around it is closed to others.
            copied.chmod(0o755)
            return copied / folder.name
        return folder


def account() -> pwd.struct_passwd | None:
    """Return whom a server must run as, if not as ourselves."""
    return pwd.getpwnam(ACCOUNT) if os.geteuid() == 0 else None


def has_memory() -> bool:
    """Tell whether a server can keep its files in memory."""
    return MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= MEMORY_BYTES_MIN


def free_ports() -> list[int]:
    """Return some ports on loopback that nobody listens on; each process starts at its own place."""
    start = os.getpid() * 61 % len(PORTS)
    found: list[int] = []
    for port in [*PORTS[start:], *PORTS[:start]]:
        with socket.socket() as probe:
            # As servers do, or the remains of closed connections would count as listeners.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == 5:
            break
    return found
