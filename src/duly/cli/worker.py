"""`duly worker`: executes queued runs, in supervised processes, until it is told to stop."""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, NoReturn

from cyclopts import Parameter

from duly.app.leaving import leave
from duly.app.metrics_port import telling_metrics
from duly.app.running import Crew, Voice, run_supervisor, run_worker
from duly.app.stores import require_shared
from duly.app.worker_options import WorkerOptions
from duly.cli.event_lines import LineTelemetry, Style
from duly.cli.observing import Observed
from duly.cli.target import (
    APP_VARIABLE,
    URL_VARIABLE,
    Target,
    of_all_tenants,
    opened,
    refuse_server,
)
from duly.clock import SystemClock
from duly.engine.lifeline import hold_lifeline
from duly.errors import UsageError
from duly.telemetry import AttemptEnded, Event, RunLogged
from duly.telemetry.counting import PROCESS_METRICS, WORKER_METRICS, CountingTelemetry
from duly.telemetry.exposition import Measured

TARGET = Target()
OBSERVED = Observed()


def worker(  # noqa: PLR0913 - each option of the command is an argument
    *,
    queue: tuple[str, ...] = (),
    slots: int = 10,
    processes: int = 1,
    grace: str = "30s",
    allow_commands: Annotated[tuple[str, ...] | None, Parameter(consume_multiple=True)] = None,
    allow_address: tuple[str, ...] = (),
    no_supervisor: bool = False,
    tell_runs: bool = False,
    metrics_port: int | None = None,
    observed: Observed = OBSERVED,
    quiet: Annotated[bool, Parameter(name=["--quiet", "-q"])] = False,
    verbose: Annotated[bool, Parameter(name=["--verbose", "-v"])] = False,
    target: Target = TARGET,
) -> int:
    """Execute queued runs, until SIGTERM or Ctrl-C.

    The first signal lets running work finish for the grace, and gives the rest back; a second one
    gives it back at once, and a third ends the process. Nothing is lost: what is given back, or
    held by a process that has died, goes to another worker.

    A supervisor keeps the worker processes going: one that crashes is started again.

    Parameters
    ----------
    queue
        A queue to serve: mail, or reports=2 for at most two slots; may be given several times.
        Every queue unless given.
    slots
        How many runs one process executes at a time.
    processes
        How many worker processes there are.
    grace
        How long running work may finish after the first signal; the rest is given back. Exit code
        0: all was finished; 1: some was given back; 75, without a supervisor: it wants to be
        replaced, because code that can't be stopped holds too many slots.
    allow_commands
        Run tasks that are commands: those named here, or all of them when none is named. None are
        run unless this or $DULY_ALLOW_COMMANDS says so.
    allow_address
        A private address that webhooks may call: 10.0.0.0/8, localhost:8080; may be given several
        times.
    no_supervisor
        Run one worker in this very process instead.
    tell_runs
        Tell each finished run too.
    metrics_port
        Tell how it does in numbers, for Prometheus, at /metrics of this port; to this machine
        alone. Each worker process needs a port of its own; with 0 it chooses a free one, and tells
        it.
    quiet
        Tell warnings and errors only.
    verbose
        Tell every start and every finished run too.
    """
    options = WorkerOptions(
        slots=slots,
        queues=queue or None,
        processes=processes,
        grace=grace,
        allow_commands=allowed_commands(allow_commands),
        allow_addresses=allow_address,
    )
    wanted = {"--quiet": quiet, "--verbose": verbose, "--tell-runs": tell_runs}
    words = frozenset(word for word, is_wanted in wanted.items() if is_wanted)
    manner = Manner(words, observed, metrics_port)
    _require_own_port(metrics_port, processes)
    ready = _with_app(target)
    return _work(options, manner, ready) if no_supervisor else _supervise(options, manner, ready)


@dataclass(frozen=True, slots=True)
class Manner:
    """How much a worker tells, by the words of the command line."""

    words: frozenset[str]
    observed: Observed
    metrics_port: int | None = None

    def arguments(self) -> list[str]:
        """Return it as arguments of `duly worker`."""
        port = [] if self.metrics_port is None else [f"--metrics-port={self.metrics_port}"]
        return [*sorted(self.words), *self.observed.arguments(), *port]

    def telemetry(self, target: Target) -> RunTelemetry:
        """Return who tells it."""
        level = logging.DEBUG if "--verbose" in self.words else logging.INFO
        level = logging.WARNING if "--quiet" in self.words else level
        tells_runs = "--tell-runs" in self.words
        style = self.observed.style(target)
        return RunTelemetry(level=level, style=style, tells_runs=tells_runs)


def _work(options: WorkerOptions, manner: Manner, target: Target) -> NoReturn:
    """Work in this very process, which ends with its supervisor if there is one."""
    lifeline = hold_lifeline()
    telling = manner.telemetry(target)
    with opened(target, needs_store=True) as app:
        require_shared(app.url)
        manner.observed.begin("worker", app, telling)
        telling.tell(f"working on {app.url}", facts={"event": "started", "store": app.url})
        # Counting costs a little for each event: only if somebody will ask.
        counting = None if manner.metrics_port is None else CountingTelemetry(telling)
        voice = Voice(telemetry=counting or telling, tell=telling.tell_between)
        measure = partial(_measure, counting)
        with telling_metrics(manner.metrics_port, measure, telling.tell_between):
            status = run_worker(app, options, voice, lifeline)
    leave(status)


def _measure(counting: CountingTelemetry | None) -> Measured:
    measured = Measured((*WORKER_METRICS, *PROCESS_METRICS))
    if counting is not None:
        counting.note_attempts(measured)
        counting.note_events(measured)
    return measured


def _supervise(options: WorkerOptions, manner: Manner, target: Target) -> int:
    """Keep worker processes going; the tasks' code is not even imported here."""
    telling = manner.telemetry(target)
    command = (sys.executable, "-m", "duly", "worker", "--no-supervisor", f"--app={target.app}")
    argv = [*command, *options.arguments(), *manner.arguments()]
    argv += ["--json"] if target.json else []
    argv += [] if target.url is None else [f"--url={target.url}"]
    voice = Voice(telemetry=telling, tell=telling.tell_between)
    status = run_supervisor(Crew(argv=tuple(argv), processes=options.processes), voice)
    telling.tell("stopped", facts={"event": "stopped", "status": status})
    return status


class RunTelemetry(LineTelemetry):
    """Tells events as they happen, and, if asked to, every attempt that has ended."""

    def __init__(self, *, level: int, style: Style, tells_runs: bool) -> None:
        super().__init__(SystemClock(), level=level, style=style)
        self._runs = None
        if tells_runs:
            self._runs = LineTelemetry(SystemClock(), level=logging.DEBUG, style=style)

    def hears(self, kind: type[Event]) -> bool:
        """Say whether an event of this kind would be told."""
        is_told = self._runs is not None and issubclass(kind, AttemptEnded)
        return is_told or super().hears(kind)

    def emit(self, event: Event) -> None:
        """Tell an event, if it matters enough."""
        if self._runs is not None and isinstance(event, AttemptEnded | RunLogged):
            self._runs.has_traces = self.has_traces
            self._runs.emit(event)
        else:
            super().emit(event)


def _require_own_port(port: int | None, processes: int) -> None:
    """Refuse a port for several: who answers would be a matter of chance."""
    if port and processes > 1:
        problem = f"can't be shared by {processes} processes"
        remedy = "give 0, or start duly worker several times, each with a port of its own"
        raise UsageError("metrics-port", port, problem, remedy)


def _with_app(target: Target) -> Target:
    """Refuse to work without an application: nobody else has the tasks' code."""
    refuse_server(target)
    place = os.environ.get(APP_VARIABLE) if target.app is None else target.app
    if not place:
        remedy = "give --app tasks:app for `app = duly.App()` in tasks.py, or set $DULY_APP"
        raise UsageError("app", None, "is missing: a worker runs the tasks' code", remedy)
    if target.url is not None:
        os.environ[URL_VARIABLE] = target.url
    return of_all_tenants(replace(target, app=place))


def allowed_commands(names: tuple[str, ...] | None) -> bool | str | None:
    """Read which commands may be run: all when none is named; several may stand in one word."""
    if names is None:
        return None
    return True if not names else ",".join(names)
