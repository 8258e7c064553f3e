"""Runs short commands to their end, by forking a process that has already loaded Duly.

Each command is a process of its own, with its own folder, environment, output and exit status. It is
a child of the server, which waits for it: one fork instead of the two that `tests.forked_commands`
needs for a child of the tests. A fork does not read the variables in READ_AT_START.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time  # noqa: TID251 - to have the zone read again, not the clock
from pathlib import Path
from typing import NamedTuple

from tests.forked_commands import ROOT, load
from tests.forked_commands import run as run_program

READ_AT_START = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_")
_server: CommandServer | None = None


class CommandResult(NamedTuple):
    """What a command printed, and how it ended."""

    returncode: int
    stdout: str
    stderr: str


def run(
    arguments: tuple[str, ...], folder: Path, changed: dict[str, str], seconds: float
) -> CommandResult:
    """Run a command to its end; TimeoutError if that takes longer than `seconds`."""
    global _server  # noqa: PLW0603 - one for each process of tests
    if _server is None or not _server.is_running:
        _server = CommandServer()
        atexit.register(_server.close)
    return _server.run(arguments, folder, changed, seconds)


def is_forkable(changed: dict[str, str]) -> bool:
    """Say whether a fork behaves as a fresh interpreter would with these variables."""
    return not any(
        name.startswith(READ_AT_START) and os.environ.get(name) != value
        for name, value in changed.items()
    )


class CommandServer:
    """The process that forks, and the pipes to it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def run(
        self, arguments: tuple[str, ...], folder: Path, changed: dict[str, str], seconds: float
    ) -> CommandResult:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with tempfile.TemporaryDirectory() as kept:
            out, err = Path(kept, "out"), Path(kept, "err")
            environment = {**os.environ, **changed}
            request = [arguments, str(folder), environment, str(out), str(err)]
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            readable, _, _ = select.select([self._process.stdout], [], [], seconds)
            if not readable:
                self.close()
                raise TimeoutError(f"{arguments} has not ended in {seconds} s")
            status = int(self._process.stdout.readline())
            return CommandResult(status, out.read_text("utf-8"), err.read_text("utf-8"))

    def close(self) -> None:
        """End the server, and the command that it runs, if any."""
        if self.is_running:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()


def serve() -> None:
    """Run a command for each request that is read, one after the other."""
    load()
    gc.freeze()
    for line in sys.stdin.buffer:
        arguments, folder, environment, out, err = json.loads(line)
        child = os.fork()
        if child == 0:
            _set_up(folder, environment, out, err)
            sys.argv = ["duly", *arguments]
            run_program("duly")
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        sys.stdout.write(f"{status}\n")
        sys.stdout.flush()


def _set_up(folder: str, environment: dict[str, str], out: str, err: str) -> None:
    """Set up the process as a fresh interpreter would be: streams, folder, environment."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    for path, number in ((out, 1), (err, 2)):
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        os.dup2(opened, number)
        os.close(opened)
    os.close(nothing)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    sys.path[0] = folder


if __name__ == "__main__":
    serve()
