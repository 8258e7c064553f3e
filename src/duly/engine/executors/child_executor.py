"""Child executor: what all executors share that start a process for each attempt."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple, Protocol

from duly.engine.executors import keeper
from duly.engine.executors.calling import carried_out

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from duly.domain.concluding import End
    from duly.engine.work import Work

CLOSE_SECONDS_MAX = 5.0


class Stoppable(Protocol):
    """An attempt in a process."""

    def stop(self, number: signal.Signals) -> None:
        """Send it a signal; one that is not there yet is not started."""
        ...


class Begun(NamedTuple):
    """An attempt, and the thread that reads its process."""

    attempt: Stoppable
    thread: threading.Thread


class ChildExecutor:
    """Gives each attempt a thread, which starts its process and says in the end how it ended."""

    def __init__(self) -> None:
        self._begun: dict[int, Begun] = {}
        self._lock = threading.Lock()
        self._families = Families()

    def ask(self, work: Work) -> None:
        """Send SIGTERM."""
        begun = self._find(work)
        if begun is not None:
            begun.attempt.stop(signal.SIGTERM)

    def insist(self, work: Work) -> bool:
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

    def _begin(self, work: Work, attempt: Stoppable, run: Callable[[], End]) -> None:
        """Run an attempt in a thread of its own."""
        # The thread starts the process and ends after it: see child.py.
        thread = threading.Thread(
            target=self._run, args=(work, run), name="duly-child-task", daemon=True
        )
        with self._lock:
            self._begun[id(work)] = Begun(attempt, thread)
        try:
            thread.start()
        except RuntimeError:  # the system has no more threads for us
            self._forget(work)
            raise

    def _run(self, work: Work, run: Callable[[], End]) -> None:
        end = carried_out(run)
        self._forget(work)
        work.ended(end)

    def _find(self, work: Work) -> Begun | None:
        with self._lock:
            return self._begun.get(id(work))

    def _forget(self, work: Work) -> None:
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
    argv = [sys.executable, "-I", "-S", keeper.__file__, str(os.getpid())]
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
