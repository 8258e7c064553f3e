"""The command exec: runs any command as a recorded run.

The run is a run like any other: promised before it begins, claimed under a lease, its output kept
line by line, its end decided by the exit status. If this process is killed, the command dies with
it, and the fleet declares the attempt lost: it is never recorded as succeeded.

`CommandWorker` joins the fleet before it creates the run. A worker that serves all queues may claim
the run first. That worker lacks the code, finds a living worker that has it, and gives the run back
to this one.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import socket
import sys
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from duly.app import App as Application
from duly.app.tracing import begin_tracing
from duly.cli.context import SOURCE, Target, open_app, person
from duly.cli.output import json_line, print_aside
from duly.cli.run_details import state_text
from duly.clock import SystemClock
from duly.domain.enums import Effects, TaskKind
from duly.domain.outcomes import CancelledEnd, Failed, GaveUp
from duly.domain.runs import Reason
from duly.engine.dispatcher.context import Node
from duly.engine.executors.command_executor import CommandExecutor, CommandSettings, Watching
from duly.engine.loop import Loop
from duly.engine.worker import Worker
from duly.engine.worker.settings import WorkerSettings
from duly.entropy import SystemDraws
from duly.errors import DulyError, UsageError
from duly.store.ports.dispatch import MemberKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import FrameType
    from uuid import UUID

    from duly.client.run_view import Run
    from duly.domain.outcomes import End
    from duly.engine.executors.executor import AttemptWork


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
class CommandRun:
    """A command under a name, and how its run is treated."""

    name: str
    argv: Sequence[str]
    effects: str | None = None
    timeout: str | None = None
    is_alone: bool = False
    """Whether it waits until no other of its name is running."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
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


def run_wrapped(app: Application, wrapped: CommandRun) -> CommandResult:
    """Run a command to its end as a recorded run; the application has no tasks of its own."""
    crew = CommandWorker(app, wrapped)
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

    def start(self, work: AttemptWork) -> None:
        """Begin."""
        self.has_begun.set()
        super().start(work)

    def _run(self, work: AttemptWork, run: Callable[[], End]) -> None:
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


class CommandWorker:
    """The worker of one, its executor and its run."""

    def __init__(self, app: Application, wrapped: CommandRun) -> None:
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
        self._watching = Watching(secrets=app.secret_sources().all_in_environment())
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

    def recorded(self) -> CommandResult:
        """Say what became of it."""
        obstacle = self._executor.problem if self._watching.status is None else None
        return CommandResult(
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


def _options(wrapped: CommandRun) -> dict[str, Any]:
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


TARGET = Target()


def run_command(  # noqa: PLR0913 - each option of the command is an argument
    name: str,
    /,
    *command: Annotated[str, Parameter(allow_leading_hyphen=True)],
    effects: str | None = None,
    timeout: str | None = None,
    alone: bool = False,
    quiet: Annotated[bool, Parameter(name=["--quiet", "-q"])] = False,
    traces: bool = False,
    target: Target = TARGET,
) -> int:
    """Run a command as a recorded run: duly exec backup -- pg_dump shop.

    It has this terminal's folder, variables and input; what it writes is shown, and kept with the
    run. Signals are passed on, and the exit code is the command's own (128 and the signal, if one
    ended it; 127 or 126 if it can't be started). The run is that of a task called exec:NAME, and
    is found by the key NAME: duly run show NAME. It is not retried by itself. If this process is
    killed, the command is, too, and its attempt is lost. The command line is recorded as it is: put
    secrets into variables.

    Parameters
    ----------
    name
        What it is called; by this name its runs are found.
    command
        The program and its arguments, after two hyphens.
    effects
        What repeating it does: idempotent, pure, or unsafe; an unsafe one that is lost or fails is
        in doubt, and a person decides (duly inbox).
    timeout
        How long it may take: 30s, 10m. Then it is asked to stop, and killed later.
    alone
        Wait until no other command of this name is running.
    quiet
        Say nothing beside what the command says.
    traces
        Tell spans through OpenTelemetry, as its variables say; also on if OTEL_TRACES_EXPORTER is
        set.
    """
    if not command:
        remedy = f"give it after two hyphens: duly exec {name} -- ls -l"
        raise UsageError("command", "", "is missing", remedy)
    wrapped = CommandRun(name=name, argv=command, effects=effects, timeout=timeout, is_alone=alone)
    with open_app(target, needs_store=True) as app:
        # An application of its own on the same store: nothing is added to the program's tasks.
        own = Application(store=app.store, tenant=app.tenant, settings=app.settings)
        begin_tracing("exec", own, is_asked=traces)
        recorded = run_wrapped(own.acting_as(person(), SOURCE), wrapped)
        _tell(recorded, is_quiet=quiet, as_json=target.json)
        return recorded.status


def _tell(recorded: CommandResult, *, is_quiet: bool, as_json: bool) -> None:
    """Say on standard error what was recorded: standard output is the command's own."""
    run = recorded.run
    if recorded.obstacle is not None:
        print_aside("error", recorded.obstacle, as_json=as_json)
    if run is None or not recorded.is_settled:
        text = (
            f"how it ended could not be recorded; run {recorded.run_id} will be declared lost:"
            f" duly run show {recorded.run_id}"
        )
        print_aside("warning", text, as_json=as_json)
    elif as_json:
        sys.stderr.write(json_line(run.to_json()))
    elif sys.stderr.isatty() and not is_quiet:
        text = f"{run.label} {state_text(run)}; see duly run show {recorded.run_id}"
        print_aside("recorded", text, as_json=False)
