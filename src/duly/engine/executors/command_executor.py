"""Runs an argv without a shell; environment variables; passes output to a terminal.

A client that may create runs of a command decides what a worker's machine executes. A worker
therefore runs no command unless the operator who starts it allows commands. A command gets a small
environment: of the worker's own variables it inherits only the few that programs need.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from duly.domain.ids import identity_text
from duly.domain.outcomes import CancelledEnd, Failed
from duly.domain.runs import Reason
from duly.domain.tasks import CommandPlan, fill_argv, fill_text
from duly.engine.executors import process_guard
from duly.engine.executors.child_process import (
    STDERR,
    STDOUT,
    Child,
    ChildExecutor,
    Families,
    Output,
)
from duly.engine.executors.executor import permitted, prepared
from duly.engine.executors.results import end_of_value
from duly.errors import DulyError, NoSecret
from duly.timetable.instants import from_microseconds, iso_utc

if TYPE_CHECKING:
    import signal
    from collections.abc import Mapping, Sequence
    from typing import BinaryIO

    from duly.clock import Clock
    from duly.domain.outcomes import End
    from duly.domain.secret_refs import ReadSecret, Secret
    from duly.engine.executors.child_process import OutputReader
    from duly.engine.executors.executor import AttemptWork
    from duly.store.ports.execution import ClaimedRun


def run_variables(claimed: ClaimedRun) -> dict[str, str]:
    """Return them; the key is the same for every attempt and every repair of what was promised."""
    record = claimed.record
    return {
        "DULY_RUN_ID": identity_text(record.id),
        "DULY_IDEMPOTENCY_KEY": identity_text(record.line),
        "DULY_ATTEMPT": str(claimed.tries.attempt),
        "DULY_FENCE": str(claimed.tries.fence),
        "DULY_SCHEDULED_FOR": iso_utc(from_microseconds(record.scheduled_for)),
        "DULY_TASK": record.call.task,
    }


def trace_variables(work: AttemptWork) -> dict[str, str]:
    """Return what tells a process of its attempt's span, in the words of OpenTelemetry."""
    carrier = {} if work.trace is None else work.trace.carrier()
    return {name.upper(): value for name, value in carrier.items()}


def user_variables(name: str) -> dict[str, str]:
    """Return where a user is at home, and how it is called; nothing of one that there is not."""
    import pwd

    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return {}  # whoever becomes that user says so
    return {"HOME": entry.pw_dir, "USER": entry.pw_name, "LOGNAME": entry.pw_name}


INHERITED = ("PATH", "HOME", "LANG", "TZ")
PATH_DEFAULT = "/usr/local/bin:/usr/bin:/bin"
COMPLAINT_BYTES_MAX = 4096
_REMEDY = "start a worker with --allow-commands, or with $DULY_ALLOW_COMMANDS"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSettings:
    """Which commands a worker runs, and in which surroundings."""

    allowed: frozenset[str] | None = frozenset()
    """The names of the tasks whose commands it may run; None for all of them."""
    read_secret: ReadSecret | None = None
    """Reads what a command's declared variables refer to."""
    env: Mapping[str, str] = field(default_factory=lambda: os.environ)
    """Where the few variables are taken from that every command gets."""
    watching: Watching | None = None
    """Somebody who sits before a command and has asked for just this one: it has all variables, and
    what is typed; what it writes is shown besides."""


class _NotBegunError(Exception):
    """The guard could not become the command: nothing of it has been done."""


class CommandExecutor(ChildExecutor):
    """Starts a process for each attempt, and a thread that reads what it writes."""

    def __init__(self, clock: Clock, settings: CommandSettings | None = None) -> None:
        super().__init__()
        self._clock = clock
        self._settings = settings or CommandSettings()
        self._found: dict[str, str] = {}

    def start(self, work: AttemptWork) -> None:
        """Begin in a new process; refuse what this worker is not allowed to run."""
        allowed, name = self._settings.allowed, work.runnable.name
        if allowed is not None and name not in allowed:
            problem = f"this worker may not run the command of {name!r}; {_REMEDY}"
            work.ended(Failed(problem, Reason.NOT_ALLOWED, is_retryable=False))
            return
        attempt = _Attempt(work, self._families, self._settings.watching)
        self._begin(work, attempt, lambda: self._carried_out(attempt))

    def _carried_out(self, attempt: _Attempt) -> End:
        try:
            return self._carry_out(attempt)
        except NoSecret as error:
            return Failed(str(error), Reason.NO_SECRET)
        except DulyError as error:
            return Failed(str(error))
        except _NotBegunError as error:
            return Failed(f"it can't be started: {error}", is_undone=True)
        except (OSError, ValueError) as error:
            return Failed(f"it can't be started: {error}")

    def _carry_out(self, attempt: _Attempt) -> End:
        work = attempt.work
        plan = work.runnable.plan
        assert isinstance(plan, CommandPlan), "the catalogue gives a command its plan"
        call = prepared(work)
        if not callable(call):
            return call
        order = self._order(work, plan, call())
        output = Output(work.live, plan.output_bytes_max)
        refused = permitted(work)
        if refused is not None:
            return refused
        status = attempt.run(order, output, self._clock)
        if status is None or (status != 0 and attempt.is_stopped):
            return CancelledEnd()
        if status != 0:
            return output.failed(status)
        return _result(work, output) if plan.has_result else end_of_value(None, work.live)

    def _order(
        self, work: AttemptWork, plan: CommandPlan, arguments: Mapping[str, Any]
    ) -> dict[str, Any]:
        argv = fill_argv(plan, arguments)
        variables = self._inherited()
        for secret in () if self._settings.watching is None else self._settings.watching.secrets:
            _conceal(work, secret)
        if plan.user is not None:
            variables |= user_variables(plan.user)  # the worker's own home is another user's
        for name, value in plan.env.items():
            variables[name] = self._variable(work, (name, value), arguments)
        return {
            "argv": argv,
            "executable": self._executable(argv[0], variables["PATH"]),
            "env": {**variables, **run_variables(work.claimed), **trace_variables(work)},
            "cwd": plan.cwd,
            "user": plan.user,
            "memory_bytes": plan.memory_bytes,
            "parent": os.getpid(),
        }

    def _inherited(self) -> dict[str, str]:
        """Return the variables that a command has without declaring them."""
        env = self._settings.env
        names = INHERITED if self._settings.watching is None else tuple(env)
        return {"PATH": PATH_DEFAULT, **{name: env[name] for name in names if env.get(name)}}

    def _variable(
        self, work: AttemptWork, declared: tuple[str, Any], arguments: Mapping[str, Any]
    ) -> str:
        """Return the value of a declared variable: a text with arguments in it, or a secret."""
        name, value = declared
        if isinstance(value, str):
            return fill_text(value, arguments)
        if self._settings.read_secret is None:
            raise ValueError(f"this worker can't read secrets, and {name} refers to one")
        secret = self._settings.read_secret(value, f"{work.runnable.name}({name})")
        _conceal(work, secret)
        return secret.reveal()

    def _executable(self, name: str, path: str) -> str:
        """Return where a program is, looked up once: a later change of the path changes nothing."""
        if name not in self._found:
            found = shutil.which(name, path=path)
            if found is None:
                raise FileNotFoundError(f"there is no program {name!r} to be found on {path}")
            self._found[name] = os.path.abspath(found)  # noqa: PTH100 - links are kept as they are
        return self._found[name]


@dataclass(slots=True, eq=False)
class _Attempt:
    """One process."""

    work: AttemptWork
    families: Families
    watching: Watching | None = None
    is_stopped: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _child: Child | None = None

    def stop(self, number: signal.Signals) -> None:
        """Send it and its family a signal; one that is not there yet is not started."""
        with self._lock:
            self.is_stopped, child = True, self._child
        if child is not None:
            child.signal_all(number)
            # It is told inside: though it ends well now, it may have ended before it was done.
            bool(self.work.live.is_cancelled)

    def run(self, order: dict[str, Any], output: Output, clock: Clock) -> int | None:
        """Start the process through its guard and read it to its end; None if it was stopped."""
        order_read, order_write = os.pipe()
        complaint_read, complaint_write = os.pipe()
        with os.fdopen(order_write, "wb") as orders, os.fdopen(complaint_read, "rb") as complaints:
            try:
                child = self._start(order_read, complaint_write)
            finally:
                os.close(order_read)
                os.close(complaint_write)
            if child is None:
                return None
            with child, self.families.holding(child.process):
                with suppress(BrokenPipeError):  # stopped before it has begun
                    orders.write(json.dumps(order).encode())
                    orders.close()
                # Open until the guard has become the command, or has said what is in the way.
                problem = complaints.read(COMPLAINT_BYTES_MAX).decode("utf-8", "replace")
                if not problem:
                    self.work.began()
                status = self._read(child, output, clock)
        if self.watching is not None:
            self.watching.status = status
        if problem:
            raise _NotBegunError(problem)
        return status

    def _read(self, child: Child, output: Output, clock: Clock) -> int:
        out, err = child.outputs
        readers: dict[int, OutputReader] = {out: output.reader(STDOUT), err: output.reader(STDERR)}
        if self.watching is not None:
            readers = {
                out: self.watching.shown(readers[out], STDOUT),
                err: self.watching.shown(readers[err], STDERR),
            }
        return child.read(readers, clock)

    def _start(self, order_read: int, complaint_write: int) -> Child | None:
        pipes = (order_read, complaint_write)
        argv = [sys.executable, "-I", "-S", process_guard.__file__, *(str(pipe) for pipe in pipes)]
        with self._lock:
            if not self.is_stopped:
                stdin = subprocess.DEVNULL if self.watching is None else None
                self._child = Child(argv, keep=pipes, stdin=stdin)
            return self._child


def _conceal(work: AttemptWork, secret: Secret) -> None:
    for shape in secret.shapes():
        work.live.conceal(shape)


def _result(work: AttemptWork, output: Output) -> End:
    """Return the end of a command whose last line is its result."""
    last = output.last[STDOUT]
    try:
        return end_of_value(json.loads(last[-1]) if last else None, work.live)
    except (ValueError, RecursionError) as error:
        return Failed(f"its last line is not the JSON that it promises: {error}")


@dataclass(slots=True)
class Watching:
    """Somebody before a terminal, or a pipe that takes their place; and how the command ended."""

    secrets: Sequence[Secret] = ()
    """In its variables: left out of what is recorded of its output."""
    status: int | None = None
    """Its exit status, negative for a signal; None while it has none."""

    def shown(self, reader: OutputReader, stream: str) -> OutputReader:
        """Return a reader that passes on what it is fed to one of our own streams."""
        return _Shown(reader, sys.stdout.buffer if stream == STDOUT else sys.stderr.buffer)


@dataclass(slots=True)
class _Shown:
    reader: OutputReader
    ours: BinaryIO | None

    def feed(self, chunk: bytes) -> None:
        """Show what was read as it is, then record it."""
        if self.ours is not None and chunk:
            try:
                self.ours.write(chunk)
                self.ours.flush()
            except OSError:  # whoever read along has seen enough: it is recorded all the same
                self.ours = None
        self.reader.feed(chunk)
