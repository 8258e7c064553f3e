"""Shared by process and command: start in a group, read output, kill the group.

`Child` must be started by a thread that outlives it. The kernel treats the end of the starting
thread as the end of the parent process, and kills the child.
"""

from __future__ import annotations

import codecs
import os
import selectors
import signal
import subprocess
import sys
import threading
from collections import deque
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

from duly.domain.outcomes import Failed
from duly.domain.runs import RESULT_BYTES_MAX, Reason
from duly.engine.executors import group_keeper
from duly.engine.executors.executor import carried_out

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from duly.clock import Clock
    from duly.domain.outcomes import End
    from duly.domain.tasks import RunContext
    from duly.engine.executors.executor import AttemptWork


CHUNK_BYTES = 64 * 1024
LINGER_US = 500_000
"""How long we read on after the process has ended: somebody else may hold its pipes for ever."""
LOOK_EVERY_US = 200_000
"""How often we look whether it has ended, where the system can't tell by itself."""


class Child:
    """One process, the first of a group and a session of its own."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        keep: Sequence[int] = (),
        env: Mapping[str, str] | None = None,
        stdin: int | None = subprocess.DEVNULL,
    ) -> None:
        """Start it; `keep` are file descriptors that it inherits. With no `stdin` it has ours."""
        self._popen = subprocess.Popen(  # noqa: S603 - what a task declares, without a shell
            argv,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=env,
            pass_fds=keep,
            start_new_session=True,
        )
        self.process = self._popen.pid
        self._is_reaped = False
        self._ends_by: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave nobody behind, though it was not read to its end."""
        if not self._is_reaped:
            self._reap()

    @property
    def outputs(self) -> tuple[int, int]:
        """The file descriptors to read standard output and standard error from."""
        out, err = self._popen.stdout, self._popen.stderr
        assert out is not None, "it is piped"
        assert err is not None, "it is piped"
        return out.fileno(), err.fileno()

    def signal(self, number: int) -> None:
        """Send it a signal, if it is still there."""
        if not self._is_reaped:
            with suppress(ProcessLookupError):
                os.kill(self.process, number)

    def signal_all(self, number: int) -> None:
        """Send a signal to it and to whatever it has started in its group."""
        if not self._is_reaped:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process, number)

    def end_by(self, moment: int) -> None:
        """Let it be killed if it is still there at this moment of the monotonic clock."""
        self._ends_by = moment

    def read(self, readers: Mapping[int, OutputReader], clock: Clock) -> int:
        """Read until it has ended, kill what is left of its family; return its status."""
        try:
            with selectors.DefaultSelector() as selector, _Watch(self._popen) as watch:
                for descriptor, reader in readers.items():
                    selector.register(descriptor, selectors.EVENT_READ, reader)
                watch.join(selector)
                while not watch.has_ended():
                    self._kill_late(clock)
                    _read_ready(selector, self._wait_us(clock, watch))
                watch.leave(selector)  # or it would be told of that end again and again
                self.signal_all(signal.SIGKILL)
                ends = clock.monotonic_us() + LINGER_US
                while _is_reading(selector) and (left := ends - clock.monotonic_us()) > 0:
                    _read_ready(selector, left)
        finally:
            status = self._reap()
        for reader in readers.values():
            reader.feed(b"")
        return status

    def _wait_us(self, clock: Clock, watch: _Watch) -> int | None:
        wait_us = None if watch.is_told else LOOK_EVERY_US
        if self._ends_by is None:
            return wait_us
        left_us = max(self._ends_by - clock.monotonic_us(), 0)
        return left_us if wait_us is None else min(left_us, wait_us)

    def _kill_late(self, clock: Clock) -> None:
        if self._ends_by is not None and clock.monotonic_us() >= self._ends_by:
            self._ends_by = None
            self.signal_all(signal.SIGKILL)

    def _reap(self) -> int:
        # The group is killed before its first process is reaped: while that one is there, though
        # dead, nobody else can get its id.
        self.signal_all(signal.SIGKILL)
        status = self._popen.wait()
        self._is_reaped = True
        for stream in (self._popen.stdout, self._popen.stderr):
            assert stream is not None, "both are piped"
            stream.close()
        return status


class _Watch:
    """Tells when a process has ended, without reaping it where the system can do that."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self._popen = popen
        self._descriptor = os.pidfd_open(popen.pid) if hasattr(os, "pidfd_open") else None
        self.is_told = self._descriptor is not None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)

    def join(self, selector: selectors.BaseSelector) -> None:
        """Have a selector return when the process ends."""
        if self._descriptor is not None:
            selector.register(self._descriptor, selectors.EVENT_READ)

    def leave(self, selector: selectors.BaseSelector) -> None:
        """Let a selector wait for others only."""
        if self._descriptor is not None:
            selector.unregister(self._descriptor)

    def has_ended(self) -> bool:
        """Say whether it has ended."""
        if self._descriptor is None:
            return self._popen.poll() is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._descriptor, selectors.EVENT_READ)
            return bool(selector.select(0))


def _read_ready(selector: selectors.BaseSelector, wait_us: int | None) -> None:
    for key, _events in selector.select(None if wait_us is None else wait_us / 1_000_000):
        if key.data is None:
            continue
        chunk = os.read(key.fd, CHUNK_BYTES)
        key.data.feed(chunk)
        if not chunk:
            selector.unregister(key.fd)


def _is_reading(selector: selectors.BaseSelector) -> bool:
    return any(key.data is not None for key in selector.get_map().values())


CLOSE_SECONDS_MAX = 5.0


class Stoppable(Protocol):
    """An attempt in a process."""

    def stop(self, number: signal.Signals) -> None:
        """Send it a signal; one that is not there yet is not started."""
        ...


class StartedAttempt(NamedTuple):
    """An attempt, and the thread that reads its process."""

    attempt: Stoppable
    thread: threading.Thread


class ChildExecutor:
    """Gives each attempt a thread, which starts its process and says in the end how it ended."""

    def __init__(self) -> None:
        self._begun: dict[int, StartedAttempt] = {}
        self._lock = threading.Lock()
        self._families = Families()

    def ask(self, work: AttemptWork) -> None:
        """Send SIGTERM."""
        begun = self._find(work)
        if begun is not None:
            begun.attempt.stop(signal.SIGTERM)

    def insist(self, work: AttemptWork) -> bool:
        """Kill it and whatever it has started."""
        begun = self._find(work)
        if begun is not None:
            begun.attempt.stop(signal.SIGKILL)
        return True

    def pass_on(self, number: signal.Signals) -> bool:
        """Send a signal to all that is there; say whether anything was."""
        with self._lock:
            there = list(self._begun.values())
        for begun in there:
            begun.attempt.stop(number)
        return bool(there)

    def close(self) -> None:
        """Kill all that is left, and wait for that."""
        with self._lock:
            left = list(self._begun.values())
        for begun in left:
            begun.attempt.stop(signal.SIGKILL)
        for begun in left:
            begun.thread.join(CLOSE_SECONDS_MAX)
        self._families.close()

    def _begin(self, work: AttemptWork, attempt: Stoppable, run: Callable[[], End]) -> None:
        """Run an attempt in a thread of its own."""
        # The thread starts the process and ends after it: see the docstring above.
        thread = threading.Thread(
            target=self._run, args=(work, run), name="duly-child-task", daemon=True
        )
        with self._lock:
            self._begun[id(work)] = StartedAttempt(attempt, thread)
        try:
            thread.start()
        except RuntimeError:  # the system has no more threads for us
            self._forget(work)
            raise

    def _run(self, work: AttemptWork, run: Callable[[], End]) -> None:
        end = carried_out(run)
        self._forget(work)
        work.ended(end)

    def _find(self, work: AttemptWork) -> StartedAttempt | None:
        with self._lock:
            return self._begun.get(id(work))

    def _forget(self, work: AttemptWork) -> None:
        with self._lock:
            del self._begun[id(work)]


class Families:
    """Tells a keeper which process groups are ours, so that none of them outlives this process."""

    def __init__(self) -> None:
        self._groups: set[int] = set()
        self._lock = threading.Lock()
        self.keeper: int | None = None
        """Its process, once there was something to keep."""
        self._words = -1

    @contextmanager
    def holding(self, group: int) -> Iterator[None]:
        """Have a group end with us while this lasts."""
        with self._lock:
            self._groups.add(group)
            self._say(f"+{group}\n")
        try:
            yield
        finally:
            with self._lock:
                self._groups.discard(group)
                self._say(f"-{group}\n")

    def close(self) -> None:
        """Let the keeper go."""
        with self._lock:
            process, self.keeper = self.keeper, None
            if process is not None:
                os.close(self._words)
                with suppress(ChildProcessError):
                    os.waitpid(process, 0)

    def _say(self, word: str) -> None:
        try:
            if self.keeper is not None:
                os.write(self._words, word.encode())
                return
        except BrokenPipeError:  # somebody has killed it
            os.close(self._words)
            with suppress(ChildProcessError):
                os.waitpid(self.keeper or 0, 0)
        if self._groups:
            self.keeper, self._words = _start_keeper()
            os.write(self._words, "".join(f"+{one}\n" for one in self._groups).encode())


def _start_keeper() -> tuple[int, int]:
    """Start a keeper; return its process and the pipe to it."""
    there, here = os.pipe()
    argv = [sys.executable, "-I", "-S", group_keeper.__file__, str(os.getpid())]
    silent = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_WRONLY, 0) for number in (1, 2)]
    try:
        process = os.posix_spawn(
            sys.executable,
            argv,
            os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, there, 0), *silent],
            setpgroup=0,  # what is sent to the worker's group is not for it
        )
    except OSError:
        os.close(here)
        raise
    finally:
        os.close(there)
    return process, here


LAST_LINES_MAX = 20
LINE_BYTES_MAX = 2 * RESULT_BYTES_MAX
"""Long enough for a line that is a result; what a run's log keeps of one is less."""
STDOUT = "stdout"
STDERR = "stderr"
_DECODER = codecs.getincrementaldecoder("utf-8")


class OutputReader(Protocol):
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

    def __init__(self, live: RunContext, bytes_max: int) -> None:
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
