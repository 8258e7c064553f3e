"""Starts programs by forking a process that has loaded Duly, as loading takes longest.

A program that is born so is still a process of its own and a child of whoever asked for it, with its
own session, folder, environment, streams and end, and what is returned is what subprocess.Popen would
be. Half a second of processor is saved each time. Some tests start fresh interpreters, as people do.

What an interpreter reads from its environment as it starts, but for PYTHONUNBUFFERED, a fork does not.
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
import signal
import socket
import subprocess
import sys
import threading
import time  # noqa: TID251 - to read the zone again, and to wait for a moment of no consequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, AnyStr

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROOT = Path(__file__).resolve().parents[1]
TREE = os.pathsep.join((str(ROOT), str(ROOT / "src")))
"""Where processes find the tests and the package: here, whatever is installed."""
ORDER_BYTES_MAX = 1_000_000
WORD_BYTES_MAX = 100
SET_PARENT_DEATH_SIGNAL = 1
SET_CHILD_SUBREAPER = 36
ADOPTION_LOOKS_MAX = 10_000
ADOPTION_PAUSE_S = 0.001
CAN_ADOPT = sys.platform == "linux"
"""Elsewhere every program has a fresh interpreter."""
LOADED = ("duly.app", "duly.cli", "duly.client", "duly.engine", "duly.store", "duly.telemetry")
ABSENT = ("duly.app.task_process", "duly.cli.demo_member", "duly.engine.executors")
"""Programs themselves: whoever runs one must not find it loaded."""
_libc = ctypes.CDLL(None)
_one_at_a_time = threading.Lock()


class Born(subprocess.Popen[AnyStr]):
    """A child of this process that somebody else has forked."""

    def __init__(self, process: int, words: list[str], *, is_text: bool = False) -> None:
        # As the real one does after it has started a program, and nothing else.
        self._waitpid_lock = threading.Lock()
        self._child_created = True
        self._input = None
        self._communication_started = False
        self._closed_child_pipe_fds = True
        self.args = words
        self.pid = process
        self.returncode = None
        self.stdin = self.stdout = self.stderr = None
        self.text_mode = is_text
        self.encoding = self.errors = None


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

    def bear(self, order: dict[str, Any], files: Sequence[int]) -> int:
        """Have a program started on three open files, which are ours no longer; return its number."""
        try:
            # Whoever loses its parent becomes a child of ours, but only for this moment.
            with _one_at_a_time, adopting():
                socket.send_fds(self._line, [json.dumps(order).encode()], files)
                said = self._line.recv(WORD_BYTES_MAX)
        finally:
            for file in set(files):
                os.close(file)
        assert said, f"the nursery has ended: {self._process.wait()}"
        return int(said)

    def close(self) -> None:
        """End it; whoever was born lives on."""
        self._line.close()
        self._process.kill()
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


def bear(order: dict[str, Any], files: Sequence[int]) -> int:
    """Have a program started, by the nursery of this process."""
    global _nursery  # noqa: PLW0603 - one for each process of tests
    if _nursery is None or not _nursery.is_running:
        _nursery = Nursery()
        atexit.register(_nursery.close)
    return _nursery.bear({**order, "parent": os.getpid()}, files)


def born(words: list[str], environment: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
    """Start `python -m` with these words: a pipe is its input, and what it says goes to a file."""
    order = {"words": words, "environment": dict(environment), "folder": str(ROOT)}
    theirs, ours = os.pipe()
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    child: Born[bytes] = Born(bear(order, [theirs, output, output]), words)
    child.stdin = os.fdopen(ours, "wb", 0)
    return child


def heard(words: list[str], environment: Mapping[str, str], folder: Path) -> subprocess.Popen[str]:
    """Start `python -m` with these words in a folder: nobody types, and what it says is heard."""
    if not CAN_ADOPT:
        pipe = subprocess.PIPE
        fresh = [sys.executable, "-m", *words]
        ways: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": pipe, "stderr": pipe}
        return subprocess.Popen(fresh, cwd=folder, env=environment, encoding="utf-8", **ways)
    order = {"words": words, "environment": dict(environment), "folder": str(folder)}
    (ours_out, out), (ours_err, err) = os.pipe(), os.pipe()
    number = bear(order, [os.open(os.devnull, os.O_RDONLY), out, err])
    child: Born[str] = Born(number, words, is_text=True)
    child.stdout, child.stderr = (os.fdopen(one, encoding="utf-8") for one in (ours_out, ours_err))
    return child


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
    die_with(order["parent"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(order["folder"])
    sys.path[0] = order["folder"]
    os.environ.clear()
    os.environ.update(order["environment"])
    time.tzset()
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    buffering = 0 if os.environ.get("PYTHONUNBUFFERED") else -1
    sys.stdout = io.TextIOWrapper(
        os.fdopen(1, "wb", buffering, closefd=False), "utf-8", write_through=buffering == 0
    )
    sys.stderr = io.TextIOWrapper(
        os.fdopen(2, "wb", 0, closefd=False), "utf-8", "backslashreplace", write_through=True
    )
    sys.argv = order["words"]
    run(order["words"][0])


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends, however that happens.

    The signal comes from whichever process is the parent then, so the adoption must be over.
    """
    for _ in range(ADOPTION_LOOKS_MAX):
        if os.getppid() == parent:
            break
        time.sleep(ADOPTION_PAUSE_S)
    _libc.prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


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
