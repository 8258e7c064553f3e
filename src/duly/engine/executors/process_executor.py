"""The process executor: each attempt in a process of its own, which can be killed.

A fault of the code (os.abort, a segmentation fault, exhausted memory, an endless loop in C) ends
only that process. The attempt is settled by how the process ended.
"""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from duly.domain.outcomes import CancelledEnd, Failed, ReturnedToQueue
from duly.domain.runs import Progress, Reason
from duly.domain.tasks import OUTPUT_BYTES_DEFAULT, ProcessPlan
from duly.engine.executors.child_process import (
    STDERR,
    STDOUT,
    Child,
    ChildExecutor,
    Families,
    LineReader,
    Output,
)
from duly.engine.executors.command_executor import run_variables, trace_variables
from duly.engine.executors.process_child import (
    WORD_BYTES_MAX,
    claimed_to_json,
    end_from_json,
    read_word,
    scope_from_json,
    written,
)
from duly.errors import DulyError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duly.clock import Clock
    from duly.domain.outcomes import End
    from duly.engine.executors.executor import AttemptWork

LINGER_US = 5 * 1_000_000
"""How long a process may go on after it has said how its task ended: to tidy up, not to work."""
UNLOADABLE_AFTER_US = 5 * 1_000_000
"""How long a run is put off whose code its process can't load, as while a deployment goes on: at
first, doubling each time"""
UNLOADABLE_DOUBLINGS_MAX = 6
"""so often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSettings:
    """How a task's process is started."""

    argv: tuple[str, ...]
    """The program that runs one attempt; it is given three numbers: two pipes, and its parent."""
    app: str
    """Where that program finds the application: module:attribute, or path.py:attribute."""
    env: Mapping[str, str] | None = None
    """Its variables; None for those of the worker."""


class ProcessExecutor(ChildExecutor):
    """Starts a process for each attempt, and a thread that listens to it."""

    def __init__(self, clock: Clock, settings: ProcessSettings) -> None:
        super().__init__()
        self._clock = clock
        self._settings = settings

    def start(self, work: AttemptWork) -> None:
        """Begin in a new process; asked to stop, `run.cancelled` becomes true there."""
        attempt = _Attempt(work, self._clock, self._settings, self._families)
        self._begin(work, attempt, attempt.run)


@dataclass(slots=True, eq=False)
class _Attempt:
    """One process, and what it says."""

    work: AttemptWork
    clock: Clock
    settings: ProcessSettings
    families: Families
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _child: Child | None = None
    _stopped_by: int | None = None
    _words: int = -1
    """The pipe to it."""
    _end: End | None = None

    def stop(self, number: signal.Signals) -> None:
        """Send it a signal; one that is not there yet is not started."""
        with self._lock:
            self._stopped_by, child = number, self._child
        if child is None:
            return
        if number == signal.SIGKILL:
            child.signal_all(number)
        else:
            child.signal(number)

    def run(self) -> End:
        """Start the process, listen to it until it ends, and return how."""
        here_read, there_write = os.pipe()
        there_read, self._words = os.pipe()
        try:
            try:
                with self._lock:
                    if self._stopped_by is not None:
                        return CancelledEnd()
                    self._child = self._start(there_read, there_write)
            except OSError as error:
                return Failed(f"its process can't be started: {error}")
            finally:
                os.close(there_read)
                os.close(there_write)
            with self._child as child, self.families.holding(child.process):
                return self._listen(child, here_read)
        finally:
            os.close(here_read)
            os.close(self._words)

    def _start(self, there_read: int, there_write: int) -> Child:
        environment = os.environ if self.settings.env is None else self.settings.env
        numbers = (str(there_read), str(there_write), str(os.getpid()))
        return Child(
            (*self.settings.argv, *numbers),
            keep=(there_read, there_write),
            env={
                **environment,
                **run_variables(self.work.claimed),
                **trace_variables(self.work),
            },
        )

    def _listen(self, child: Child, here_read: int) -> End:
        self._say(self._order())
        output = Output(self.work.live, OUTPUT_BYTES_DEFAULT)
        out, err = child.outputs
        readers = {
            here_read: LineReader(self._hear, WORD_BYTES_MAX),
            out: output.reader(STDOUT),
            err: output.reader(STDERR),
        }
        status = child.read(readers, self.clock)
        if self._end is not None:
            return self._end
        if self._stopped_by is not None:
            return CancelledEnd()
        return output.failed(status)

    def _order(self) -> dict[str, Any]:
        plan = self.work.runnable.plan
        return {
            "app": self.settings.app,
            "memory_bytes": plan.memory_bytes if isinstance(plan, ProcessPlan) else None,
            "run": claimed_to_json(self.work.claimed),
            "trace": {} if self.work.trace is None else self.work.trace.carrier(),
        }

    def _say(self, word: dict[str, Any]) -> None:
        left = written(word)
        with suppress(BrokenPipeError):  # it has ended; how, is known in a moment
            while left:
                left = left[os.write(self._words, left) :]

    def _hear(self, line: str, _is_cut: bool) -> None:  # noqa: FBT001 - as a reader tells it
        if not line or self._end is not None:
            return
        assert self._child is not None, "it speaks"
        try:
            self._obey(read_word(line))
        except Exception as error:  # noqa: BLE001 - it may say anything, nested without end
            self._end = Failed(f"its process says what is no word: {error!r}", Reason.ERROR)
            self._child.signal_all(signal.SIGKILL)
        if self._end is not None:
            # Said at once: whatever keeps its process alive, what was done is not done again.
            self.work.ended(self._end, is_gone=False)
            self._child.end_by(self.clock.monotonic_us() + LINGER_US)

    def _obey(self, word: dict[str, Any]) -> None:
        live = self.work.live
        match word["say"]:
            case "began":
                self.work.began()
            case "advance":
                with suppress(UsageError):  # the client has read it; anything else has no use
                    live.advance(Progress(word["done"], word["total"], word["note"]))
            case "scope":
                live.note_scope(scope_from_json(word))
            case "seen":
                bool(live.is_cancelled)  # looked at for the code over there
            case "write":
                live.write(str(word["level"]), str(word["text"]))
            case "ended":
                self._end = end_from_json(word["end"])
            case "unloadable":
                self._end = self._put_off(str(word["problem"]))
            case other if "id" in word:
                self._answer(word, partial(self._asked, str(other), word))
            case other:
                raise ValueError(f"{other!r} is not a word")

    def _put_off(self, problem: str) -> End:
        """Return how an attempt ends whose process does not find its code: it never began."""
        tries = self.work.claimed.tries
        # A claim without a start leaves the attempt's number: so often it was put off before.
        doubled = UNLOADABLE_AFTER_US << min(tries.fence - tries.attempt, UNLOADABLE_DOUBLINGS_MAX)
        return ReturnedToQueue(
            Reason.NOT_STARTED, is_started=False, after_us=doubled, error=problem
        )

    def _asked(self, what: str, word: dict[str, Any]) -> object:
        """Do what the code over there waits for."""
        live = self.work.live
        match what:
            case "conceal":
                live.conceal(str(word["text"]))
                return None
            case "save":
                live.save(str(word["partition"]), str(word["state"]))
                return None
            case "saved":
                return live.saved(str(word["partition"]))
            case "done-items":
                return sorted(live.done_items(tuple(map(str, word["items"]))))
            case "begin-effect":
                return live.begin_effect(_text(word["key"]))
            case "end-effect":
                is_done = word["is_done"] is True
                live.end_effect(str(word["key"]), _text(word["result"]), is_done=is_done)
                return None
            case _:
                raise ValueError(f"{what!r} is not a word")

    def _answer(self, word: dict[str, Any], act: Any) -> None:  # noqa: ANN401 - either of two calls
        """Do what needs an answer, and answer; what goes wrong with it is raised over there."""
        answer: dict[str, Any] = {"answer": word["id"]}
        try:
            answer["value"] = act()
        except DulyError as error:
            answer["error"] = [type(error).__name__, [str(part) for part in error.__reduce__()[1]]]
        except Exception as error:  # noqa: BLE001 - the code over there must not wait for ever
            answer["error"] = ["StoreError", ["checkpoint", repr(error), "try again"]]
        self._say(answer)


def _text(value: object) -> str | None:
    return None if value is None else str(value)
