"""Starts programs by forking a process that has loaded Duly, as loading takes longest.

A program that is born so is still a process of its own and a child of whoever asked for it, with its
own session, folder, environment, streams and end: `born` returns what subprocess.Popen would. Half a
second of processor is saved each time. Some tests start fresh interpreters, so that this is tried too.

What an interpreter reads from its environment as it starts a fork does not read again, but for
PYTHONUNBUFFERED, which all who are born so have.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import socket
import subprocess
import sys
import threading
import time  # noqa: TID251 - to have the zone read again, not the clock
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).resolve().parents[1]
TREE = os.pathsep.join((str(ROOT), str(ROOT / "src")))
"""Where processes find the tests and the package: here, whatever is installed."""
ORDER_BYTES_MAX = 1_000_000
WORD_BYTES_MAX = 100
SET_CHILD_SUBREAPER = 36
LOADED = ("duly.app", "duly.cli", "duly.client", "duly.engine", "duly.store", "duly.telemetry")
ABSENT = ("duly.app.task_process", "duly.cli.demo_member", "duly.engine.executors")
"""Programs themselves: whoever runs one must not find it loaded."""
_libc = ctypes.CDLL(None)
_one_at_a_time = threading.Lock()


class Born(subprocess.Popen[bytes]):
    """A child of this process that somebody else has forked."""

    def __init__(self, process: int, words: list[str], stdin: int) -> None:
        # As the real one does after it has started a program, and nothing else.
        self._waitpid_lock = threading.Lock()
        self._child_created = True
        self._input = None
        self._communication_started = False
        self._closed_child_pipe_fds = True
        self.args = words
        self.pid = process
        self.returncode = None  # type: ignore[assignment]
        self.stdin = os.fdopen(stdin, "wb", 0)
        self.stdout = self.stderr = None
        self.text_mode = self.encoding = self.errors = None


class Nursery:
    """The process that forks, and the line to it."""

    def __init__(self) -> None:
        self._line, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(other.fileno())],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": TREE},
                stdin=subprocess.DEVNULL,
                pass_fds=[other.fileno()],
                start_new_session=True,
            )

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def bear(self, words: list[str], environment: Mapping[str, str], output: int) -> Born:
        """Start a module with its arguments; what it says goes to an open file."""
        order = {"words": words, "environment": dict(environment), "nice": os.nice(0)}
        ours, theirs = os.pipe()
        try:
            # Whoever loses its parent becomes a child of ours, but only for this moment.
            with _one_at_a_time, adopting():
                socket.send_fds(self._line, [json.dumps(order).encode()], [ours, output, output])
                said = self._line.recv(WORD_BYTES_MAX)
        finally:
            os.close(ours)
        if not said:
            os.close(theirs)
            raise RuntimeError(f"the nursery has ended: {self._process.wait()}")
        return Born(int(said), words, theirs)

    def close(self) -> None:
        """End it; whoever was born lives on."""
        self._line.close()
        self._process.wait()


@contextmanager
def adopting() -> Iterator[None]:
    """Be the next parent of descendants whose own is gone."""
    _libc.prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        _libc.prctl(SET_CHILD_SUBREAPER, 0, 0, 0, 0)


_nursery: Nursery | None = None


def born(words: list[str], environment: Mapping[str, str], output: int) -> Born:
    """Start `python -m` with these words in a session of its own, here, with a pipe to its input."""
    global _nursery  # noqa: PLW0603 - one for each process of tests
    if _nursery is None or not _nursery.is_running:
        _nursery = Nursery()
        atexit.register(_nursery.close)
    return _nursery.bear(words, environment, output)


def serve(line: socket.socket) -> None:
    """Fork for every order until nobody can give any more; return in whoever is born."""
    load()
    gc.collect()
    gc.freeze()
    while True:
        said, files, _, _ = socket.recv_fds(line, ORDER_BYTES_MAX, 3)
        if not said:
            sys.exit()
        process = fork_orphan()
        if process == 0:
            line.close()
            become(json.loads(said), files)
            return
        line.send(str(process).encode())
        for file in files:
            os.close(file)


def fork_orphan() -> int:
    """Fork so that the child is no child of ours; return its number, and zero in itself."""
    ours, theirs = os.pipe()
    between = os.fork()
    if between == 0:
        process = os.fork()
        if process:
            os.write(theirs, str(process).encode())
            os._exit(0)
    os.close(theirs)
    if between == 0:
        os.close(ours)
        return 0
    os.waitpid(between, 0)
    process = int(os.read(ours, WORD_BYTES_MAX))
    os.close(ours)
    return process


def load() -> None:
    """Load all of Duly that a program may need, but for programs."""
    for root in LOADED:
        package = importlib.import_module(root)
        for one in pkgutil.walk_packages(package.__path__, f"{root}."):
            if not one.name.startswith(ABSENT):
                # What needs an extra that is not installed is of no use to anybody here.
                with suppress(ImportError):
                    importlib.import_module(one.name)


def become(order: dict[str, Any], files: list[int]) -> None:
    """Stand where a fresh interpreter would, and run the program."""
    os.setsid()
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, order["nice"])
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(order["environment"])
    time.tzset()
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - it stays open
    sys.stdout, sys.stderr = (
        io.TextIOWrapper(io.FileIO(number, "w", closefd=False), "utf-8", write_through=True)
        for number in (1, 2)
    )
    sys.argv = order["words"]
    run(order["words"][0])


def run(module: str) -> None:
    """Run a program to its end, all of its threads and exit functions included.

    What an interpreter does after that is to take apart, one by one, all things that were loaded:
    that takes longer than most commands do.
    """
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        if ended.code is not None and not isinstance(ended.code, int):
            raise
        status = ended.code or 0
    else:
        status = 0
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001
    atexit._run_exitfuncs()  # noqa: SLF001
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status & 0xFF)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
