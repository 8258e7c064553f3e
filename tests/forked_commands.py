"""Starts programs by forking a process that has already loaded Duly.

A forked program is a process of its own and a child of the process of tests. It has its own session,
folder, environment, streams and exit status, and the tests hold it as a subprocess.Popen. A fork saves
the half second of processor that loading takes. Some tests start fresh interpreters on purpose.

A fork does not read the variables that an interpreter reads at its start, except PYTHONUNBUFFERED.
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
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time  # noqa: TID251 - to read the zone again, and to wait for the adoption
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, AnyStr

from tests.budget import started
from tests.mutation.patching import apply_from_environment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROOT = Path(__file__).resolve().parents[1]
TREE = os.pathsep.join((str(ROOT), str(ROOT / "src")))
"""Where processes find the tests and the package: here, whatever is installed."""
REQUEST_BYTES_MAX = 1_000_000
REPLY_BYTES_MAX = 100
SET_PARENT_DEATH_SIGNAL = 1
SET_CHILD_SUBREAPER = 36
ADOPTION_POLLS_MAX = 10_000
ADOPTION_PAUSE_S = 0.001
CAN_ADOPT = sys.platform == "linux"
"""Elsewhere every program has a fresh interpreter."""
BINDING = ("setpriv", "--pdeathsig", "KILL", "--") if shutil.which("setpriv") else ()
LOADED = ("duly.app", "duly.cli", "duly.client", "duly.engine", "duly.store", "duly.telemetry")
ABSENT = ("duly.app.task_process", "duly.cli.demo_member", "duly.engine.executors")
"""Modules that are run as programs: runpy warns if one of them is loaded already."""
_libc = ctypes.CDLL(None)
_one_at_a_time = threading.Lock()


class ForkedProcess(subprocess.Popen[AnyStr]):
    """A child of this process that the fork server has started."""

    def __init__(self, process: int, words: list[str], *, is_text: bool = False) -> None:
        # The state that Popen.__init__ leaves after it has started a program.
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


class ForkServer:
    """The process that forks, and the socket to it."""

    def __init__(self) -> None:
        self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
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

    def fork(self, request: dict[str, Any], files: Sequence[int]) -> int:
        """Start a program on three open files, close them here, and return the process id."""
        try:
            # The new process loses its parent, and becomes a child of this process.
            with _one_at_a_time, adopting():
                socket.send_fds(self._socket, [json.dumps(request).encode()], files)
                reply = self._socket.recv(REPLY_BYTES_MAX)
        finally:
            for file in set(files):
                os.close(file)
        assert reply, f"the fork server has ended: {self._process.wait()}"
        return int(reply)

    def close(self) -> None:
        """End the server; the programs that it started go on."""
        self._socket.close()
        self._process.kill()
        self._process.wait()


@contextmanager
def adopting() -> Iterator[None]:
    """Become the parent of descendants whose parent ends meanwhile."""
    _libc.prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        _libc.prctl(SET_CHILD_SUBREAPER, 0, 0, 0, 0)


_server: ForkServer | None = None


def fork(request: dict[str, Any], files: Sequence[int]) -> int:
    """Start a program by the fork server of this process of tests."""
    global _server  # noqa: PLW0603 - one for each process of tests
    if _server is None or not _server.is_running:
        _server = ForkServer()
        atexit.register(_server.close)
    started["programs by fork"] += 1
    return _server.fork({**request, "parent": os.getpid()}, files)


def start(
    words: list[str],
    environment: Mapping[str, str],
    folder: Path,
    files: Sequence[int],
    *,
    is_text: bool = False,
) -> subprocess.Popen[Any]:
    """Start `python -m` with these words on three open files, which are closed here."""
    if CAN_ADOPT:
        request = {"words": words, "environment": dict(environment), "folder": str(folder)}
        return ForkedProcess(fork(request, files), words, is_text=is_text)
    stdin, stdout, stderr = files
    fresh = bound(sys.executable, "-m", *words)
    try:
        return subprocess.Popen(
            fresh, stdin=stdin, stdout=stdout, stderr=stderr, cwd=folder, env=environment
        )
    finally:
        for file in set(files):
            os.close(file)


def start_program(
    words: list[str], environment: Mapping[str, str], log: Path
) -> subprocess.Popen[bytes]:
    """Start `python -m` with these words: its input is a pipe, its output goes to a file."""
    theirs, ours = os.pipe()
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    child = start(words, environment, ROOT, [theirs, output, output])
    child.stdin = os.fdopen(ours, "wb", 0)
    return child


def start_and_read(
    words: list[str], environment: Mapping[str, str], folder: Path, *, has_input: bool = False
) -> subprocess.Popen[str]:
    """Start `python -m` with these words in a folder: its output and errors are pipes."""
    (ours_out, out), (ours_err, err) = os.pipe(), os.pipe()
    theirs, ours = os.pipe() if has_input else (os.open(os.devnull, os.O_RDONLY), None)
    child = start(words, environment, folder, [theirs, out, err], is_text=True)
    child.stdout, child.stderr = (os.fdopen(one, encoding="utf-8") for one in (ours_out, ours_err))
    if ours is not None:
        child.stdin = os.fdopen(ours, "w", encoding="utf-8")
    return child


def is_running(process: int) -> bool:
    """Say whether a process exists and has not ended; a zombie has."""
    try:
        state = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state[0] not in {"Z", "X"}


def serve(requests: socket.socket) -> None:
    """Fork for each request until the socket is closed; in the forked process, run its program."""
    load()
    gc.collect()
    gc.freeze()
    while True:
        request, files, _, _ = socket.recv_fds(requests, REQUEST_BYTES_MAX, 3)
        if not request:
            sys.exit()
        process = fork_orphan()
        if process == 0:
            requests.close()
            become(json.loads(request), files)
            return
        requests.send(str(process).encode())
        for file in files:
            os.close(file)


def fork_orphan() -> int:
    """Fork a process that has lost its parent; return its id, or zero in that process."""
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
    process = int(os.read(ours, REPLY_BYTES_MAX))
    os.close(ours)
    return process


def load() -> None:
    """Load all of Duly that a program may need, except programs; then apply the mutant, if any."""
    for root in LOADED:
        package = importlib.import_module(root)
        for one in pkgutil.walk_packages(package.__path__, f"{root}."):
            if not one.name.startswith(ABSENT):
                # A module whose extra is not installed is not needed.
                with suppress(ImportError):
                    importlib.import_module(one.name)
    apply_from_environment()


def become(request: dict[str, Any], files: list[int]) -> None:
    """Set up the process as a fresh interpreter would be, and run the program."""
    os.setsid()
    die_with(request["parent"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(request["folder"])
    sys.path[0] = request["folder"]
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    buffering = 0 if os.environ.get("PYTHONUNBUFFERED") else -1
    sys.stdout = io.TextIOWrapper(
        os.fdopen(1, "wb", buffering, closefd=False),
        "utf-8",
        line_buffering=os.isatty(1),
        write_through=buffering == 0,
    )
    sys.stderr = io.TextIOWrapper(
        os.fdopen(2, "wb", 0, closefd=False), "utf-8", "backslashreplace", write_through=True
    )
    sys.argv = request["words"]
    run(request["words"][0])


def bound(*words: str) -> list[str]:
    """Return the command of a fresh process that the kernel kills when its parent ends."""
    return [*BINDING, *words]


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends, however that happens.

    The signal comes from whichever process is the parent then, so the adoption must be over.
    """
    for _ in range(ADOPTION_POLLS_MAX):
        if os.getppid() == parent:
            break
        time.sleep(ADOPTION_PAUSE_S)
    _libc.prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def run(module: str) -> None:
    """Run a program to its end, with its threads and exit functions, and end the process.

    The interpreter is not finalised: that frees all loaded modules, which takes longer than most
    commands do.
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
