"""Wrapping: makes one command that somebody has typed a recorded run, as a worker of one.

The run is a run like any other: promised before it begins, claimed under a lease, its output kept
line by line, its end told by its exit status. If this process is killed the command dies with it,
and the fleet declares the attempt lost: nothing then claims that it went well.

A worker that serves all queues may take the run first. It lacks the code, and finds that a living
worker has it: so it joins before the run is made, and gets it back.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import socket
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from duly.clock import SystemClock
from duly.domain.attempts import Reason
from duly.domain.concluding import CancelledEnd, Failed, GaveUp
from duly.domain.literals import Effects, TaskKind
from duly.draws import SystemDraws
from duly.engine.executors.commands import CommandExecutor, CommandSettings
from duly.engine.executors.watching import Watching
from duly.engine.loop import Loop
from duly.engine.surroundings import Node
from duly.engine.worker import Worker
from duly.engine.worker.settings import WorkerSettings
from duly.errors import DulyError
from duly.store.dispatch import MemberKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import FrameType
    from uuid import UUID

    from duly.app import App
    from duly.client.run_view import Run
    from duly.domain.concluding import End
    from duly.engine.work import Work

PREFIX = "exec:"
"""Before the task's name, so that it is never that of a program's own task, whose policy a worker
of one would otherwise set."""
NOT_STARTED_STATUS, NOT_FOUND_STATUS = 126, 127
"""As shells have them."""
SIGNALLED_STATUS = 128
KILLED_AT_SIGNAL = 3
"""Whoever has pressed Ctrl-C so often means it."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
LOOK_EVERY_SECONDS = 1.0
_QUEUE_BYTES = 6
_OVER = frozenset({"dead", "ambiguous"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrapped:
    """A command under a name, and how its run is treated."""

    name: str
    argv: Sequence[str]
    effects: str | None = None
    timeout: str | None = None
    is_alone: bool = False
    """Whether it waits until no other of its name is running."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What became of a command: its exit status as a shell has it, and its run."""

    status: int
    run_id: UUID
    run: Run | None
    """None when the store could not be asked."""
    obstacle: str | None = None
    """What kept the command from being started."""

    @property
    def is_settled(self) -> bool:
        """Whether the store knows how it ended."""
        return self.run is not None and (self.run.is_over or self.run.state in _OVER)


def run_wrapped(app: App, wrapped: Wrapped) -> Recorded:
    """Run a command to its end as a recorded run; the application has no tasks of its own."""
    crew = _Crew(app, wrapped)
    with _heard(crew.hear):
        crew.work()
    return crew.recorded()


class _OneExecutor(CommandExecutor):
    """Runs one command before somebody's eyes, and says when it begins and that it has ended."""

    def __init__(self, watching: Watching) -> None:
        super().__init__(SystemClock(), CommandSettings(allowed=None, watching=watching))
        self.has_begun = threading.Event()
        self.problem: str | None = None
        self._passed_on: signal.Signals | None = None
        self.on_end: Callable[[], None] = _nothing

    def start(self, work: Work) -> None:
        """Begin."""
        self.has_begun.set()
        super().start(work)

    def _run(self, work: Work, run: Callable[[], End]) -> None:
        super()._run(work, lambda: self._final(run(), work.runnable.policy.effects))
        self.on_end()

    def pass_on(self, number: signal.Signals) -> bool:
        """Send a signal that somebody has sent us."""
        self._passed_on = number
        return super().pass_on(number)

    def _final(self, end: End, effects: Effects) -> End:
        """Let a failure be the outcome: nobody else has the command, to try it again.

        Of an unsafe one nobody knows what it did before it failed.
        """
        passed_on = self._passed_on
        if isinstance(end, CancelledEnd) and passed_on is not None:
            end = Failed(f"ended after {passed_on.name} was passed on to it", Reason.CANCELLED)
        if not isinstance(end, Failed):
            return end
        self.problem = end.error
        return end if effects is Effects.UNSAFE else GaveUp(end.reason, end.error)


class _Crew:
    """The worker of one, its executor and its run."""

    def __init__(self, app: App, wrapped: Wrapped) -> None:
        queue = f"exec.{SystemDraws().draw(_QUEUE_BYTES).hex()}"
        task = app.command(
            f"{PREFIX}{wrapped.name}",
            [_literal(item) for item in wrapped.argv],
            **_options(wrapped),
            queue=queue,
            parameters={"command": str},
        )
        self._call, self._key = task.bind(command=shlex.join(wrapped.argv)), wrapped.name
        self._app, self._program = app, wrapped.argv[0]
        self._watching = Watching()
        self._executor = _OneExecutor(self._watching)
        self._wakeups = app.store.wakeups(MemberKind.WORKER)
        self._worker = Worker(
            app.store,
            SystemClock(),
            app.catalogue(),
            {TaskKind.COMMAND: self._executor},
            WorkerSettings(slots=1, queues=(queue,)),
            node=_node(self._wakeups.address),
            wakeups=self._wakeups,
            tracing=app.traces.tracing,
        )
        self._executor.on_end = self._worker.drain
        self._loop = Loop(self._worker, self._wakeups, SystemClock())
        self._worker.on_over = self._loop.stop
        self._signals: list[signal.Signals] = []
        self.run_id: UUID

    def work(self) -> None:
        """Join, promise the run, and see it through."""
        try:
            self._worker.tick()
            self.run_id = self._app.enqueue(self._call, key=self._key).id
            threading.Thread(target=self._await_begin, daemon=True).start()
            self._worker.wake()
            self._loop.run()
        finally:
            self._worker.stop()
            self._wakeups.close()

    def hear(self, number: signal.Signals) -> None:
        """Pass a signal on to the command; before there is one, give up."""
        self._signals.append(number)
        is_enough = len(self._signals) >= KILLED_AT_SIGNAL
        # Not here: whoever is interrupted may hold the very lock that is needed.
        sent = signal.SIGKILL if is_enough else number
        threading.Thread(target=self._pass_on, args=(sent,), daemon=True).start()

    def recorded(self) -> Recorded:
        """Say what became of it."""
        obstacle = self._executor.problem if self._watching.status is None else None
        return Recorded(
            status=self._status(), run_id=self.run_id, run=self._look(), obstacle=obstacle
        )

    def _status(self) -> int:
        """Return the exit status, as a shell would have it."""
        status = self._watching.status
        if status is not None:
            return status if status >= 0 else SIGNALLED_STATUS - status
        if self._signals:
            return SIGNALLED_STATUS + self._signals[-1]
        return NOT_STARTED_STATUS if shutil.which(self._program) else NOT_FOUND_STATUS

    def _look(self) -> Run | None:
        """Return the run; None when the store can't be asked."""
        with suppress(DulyError):
            return self._app.runs.get(self.run_id)
        return None

    def _pass_on(self, number: signal.Signals) -> None:
        if self._executor.pass_on(number):
            return
        with suppress(DulyError, AttributeError):  # it may not be there yet, or over by now
            self._app.runs.cancel(self.run_id, reason=f"{number.name} before it began")
        self._worker.stop_now()

    def _await_begin(self) -> None:
        """End the waiting if somebody else has ended the run before it began."""
        while not self._executor.has_begun.wait(LOOK_EVERY_SECONDS):
            run = self._look()
            if run is not None and (run.is_over or run.state in _OVER):
                self._worker.drain()
                return


def _options(wrapped: Wrapped) -> dict[str, Any]:
    options: dict[str, Any] = {"retry": 1, "timeout": wrapped.timeout}
    if wrapped.effects is not None:
        options["effects"] = wrapped.effects
    if wrapped.is_alone:
        options["running"] = 1
    return options


def _literal(item: str) -> str:
    """Write an item of an argv so that its braces are nothing but braces."""
    return item.replace("{", "{{").replace("}", "}}")


def _node(address: str) -> Node:
    return Node(host=socket.gethostname(), process=os.getpid(), wake_address=address)


@contextmanager
def _heard(hear: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Have signals heard instead of obeyed."""

    def heard(number: int, _frame: FrameType | None) -> None:
        hear(signal.Signals(number))

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = [(one, signal.signal(one, heard)) for one in _SIGNALS]
    try:
        yield
    finally:
        for one, handler in before:
            signal.signal(one, handler)


def _nothing() -> None:
    """Do nothing."""
