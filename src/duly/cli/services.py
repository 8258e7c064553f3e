"""Commands that run until they are stopped: dispatcher, worker, server, dev."""

from __future__ import annotations

import gc
import importlib.util
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn

from cyclopts import Parameter

from duly.app import App
from duly.app.metrics import telling_metrics
from duly.app.services import (
    OutputListener,
    Services,
    WorkerOptions,
    build_services,
    leave,
    run_all,
    run_supervisor,
    run_worker,
    seldom_tidied,
    short_turns,
    watching,
)
from duly.app.stores import require_shared
from duly.app.tracing import begin_tracing
from duly.cli.context import (
    APP_VARIABLE,
    URL_VARIABLE,
    Target,
    of_all_tenants,
    open_app,
    refuse_server,
)
from duly.cli.event_lines import LineTelemetry, Style
from duly.client.declarations import Reconciliation
from duly.client.schedule_view import Schedule
from duly.clock import SystemClock
from duly.engine.dispatcher.context import DISPATCHER_METRICS, note_dispatcher
from duly.engine.dispatcher.dispatcher import Dispatcher
from duly.engine.dispatcher.settings import RETENTION_VARIABLE, read_retention, split_terms
from duly.engine.executors.process_lifetime import hold_lifeline
from duly.engine.loop import Loop
from duly.errors import UsageError
from duly.telemetry import AttemptEnded, Event, RunLogged
from duly.telemetry.listeners import (
    PROCESS_METRICS,
    WORKER_METRICS,
    EventCounter,
    JsonLogFormatter,
)
from duly.telemetry.prometheus import MetricSamples
from duly.timetable.instants import utc_text

if TYPE_CHECKING:
    from duly.api.server import BindAddress


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """Options of every command that runs until it is stopped."""

    log_format: Literal["text", "json"] = "text"
    """How log lines are written to standard error: sentences for people, or a JSON object on each
    line, with the ids of schedule, run, attempt and trace; what runs log is told then, too."""
    traces: bool = False
    """Tell spans through OpenTelemetry, as its variables say; also on if OTEL_TRACES_EXPORTER is
    set."""

    def style(self, target: Target) -> Style:
        """Return how lines are written."""
        if self.log_format == "text":
            return Style.DOCUMENTS if target.json else Style.SENTENCES
        if target.json:
            remedy = "give one of the two: --json tells events to a program, on standard output"
            raise UsageError("log-format", self.log_format, "contradicts --json", remedy)
        # What is logged outside of any run, and heard by nobody else, has the same shape.
        last = logging.StreamHandler()
        last.setLevel(logging.WARNING)
        last.setFormatter(JsonLogFormatter())
        logging.lastResort = last
        return Style.LOG

    def arguments(self) -> list[str]:
        """Return it as arguments of `duly worker`."""
        return [f"--log-format={self.log_format}", *(["--traces"] if self.traces else [])]

    def begin(self, role: str, app: App, telling: LineTelemetry) -> None:
        """Switch traces on if they are asked for, and let lines say which trace they are of."""
        begin_tracing(role, app, is_asked=self.traces)
        telling.has_traces = app.traces.tracing is not None


def note_retention(terms: tuple[str, ...]) -> None:
    """Have these terms hold here and in processes that are started; refuse what is not known."""
    if not terms:
        return
    said = split_terms(os.environ.get(RETENTION_VARIABLE, ""))
    read_retention((*said, *terms))
    os.environ[RETENTION_VARIABLE] = ",".join((*said, *terms))


TARGET = Target()
OBSERVED = Observed()
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_COLLECTED_AFTER = (10_000, 20, 10)
"""Whoever holds a hundred thousand timers must not stop to look through all of them for garbage
each time some more are loaded; batches of a thousand leave none that needs looking for."""


def dispatcher(  # noqa: PLR0913 - each option of the command is an argument
    *,
    declare: tuple[Path, ...] = (),
    prune: bool = False,
    retain: tuple[str, ...] = (),
    metrics_port: int | None = None,
    observed: Observed = OBSERVED,
    quiet: Annotated[bool, Parameter(name=["--quiet", "-q"])] = False,
    verbose: Annotated[bool, Parameter(name=["--verbose", "-v"])] = False,
    target: Target = TARGET,
) -> None:
    """Fire what falls due, until SIGTERM or Ctrl-C; a second one ends it at once.

    First, schedules that the application and files declare are made as they are declared.
    Several dispatchers may run on one store: they share the work, and take over from each other.
    With --json, each event is a JSON document on a line of standard output.

    Parameters
    ----------
    declare
        A TOML file that declares schedules; may be given several times.
    prune
        Delete schedules that the same sources declared earlier and no longer do.
    retain
        How long history is kept: succeeded=7d, failed=forever, deleted-schedules=14d,
        runs-per-schedule=1000; may be given several times. $DULY_RETENTION says the same.
    metrics_port
        Tell how it does in numbers, for Prometheus, at /metrics of this port; to this machine
        alone. With 0 a free port is chosen, and told.
    quiet
        Tell warnings and errors only.
    verbose
        Tell every batch that is fired too.
    """
    note_retention(retain)
    level = logging.WARNING if quiet else logging.DEBUG if verbose else logging.INFO
    clock = SystemClock()
    telling = LineTelemetry(clock, level=level, style=observed.style(target))
    with open_app(of_all_tenants(target), needs_store=True) as app:
        require_shared(app.url)
        observed.begin("dispatcher", app, telling)
        for path in declare:
            app.declare(path)
        _reconcile(app, telling, prune=prune)
        wakeups = app.store.wakeups()
        # Counting costs a little for each event: only if somebody will ask.
        counting = None if metrics_port is None else EventCounter(telling)
        listening = counting or telling
        service = app.dispatcher(telemetry=listening, wake_address=wakeups.address)
        loop = Loop(service, wakeups, clock, listening)
        telling.tell(f"dispatching {app.url}; Ctrl-C ends it", facts=_started(app))
        gc.set_threshold(*_COLLECTED_AFTER)
        numbers = partial(_measure_dispatcher, service, counting)
        with (
            telling_metrics(metrics_port, numbers, telling.tell_between),
            watching(app, listening),
            short_turns(),
            _dispatcher_ended_by_signal(loop, telling),
        ):
            loop.run()
        wakeups.close()
        counts = service.statistics
        runs = counts.runs + counts.caught_up
        facts = {"event": "stopped", "fired": counts.fired, "runs": runs}
        done = f"timers fired: {counts.fired:,}, runs made: {runs:,}"
        telling.tell(f"stopped in good order; {done}", facts=facts)


def _measure_dispatcher(service: Dispatcher, counting: EventCounter | None) -> MetricSamples:
    measured = MetricSamples((*DISPATCHER_METRICS, *PROCESS_METRICS))
    note_dispatcher(measured, service.statistics)
    if counting is not None:
        counting.note_events(measured)
    return measured


def _started(app: App) -> dict[str, object]:
    return {"event": "started", "store": app.url}


def _reconcile(app: App, telling: LineTelemetry, *, prune: bool) -> None:
    """Make what is declared so, and tell what changed."""
    if not app.declarations.sources:
        if prune:
            remedy = "give --app or --declare, whose earlier declarations are to be pruned"
            raise UsageError("prune", prune, "has nothing to compare with", remedy)
        return
    report = app.reconcile(prune=prune)
    _tell(report, telling)


def _tell(report: Reconciliation, telling: LineTelemetry) -> None:
    if report == Reconciliation():
        return
    level = logging.INFO if report.is_clean else logging.WARNING
    text = "; ".join(report.lines())
    facts = {"event": "reconciled", **report.to_json()}
    telling.tell(f"declared schedules: {text}", level=level, facts=facts)


@contextmanager
def _dispatcher_ended_by_signal(loop: Loop, telling: LineTelemetry) -> Iterator[None]:
    """Let the first signal end the loop in good order, and a second one the process."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        for one in _SIGNALS:
            signal.signal(one, signal.SIG_DFL)
        telling.tell_between("stopping; a second signal ends it at once", {"event": "stopping"})
        loop.stop()

    before = [(one, signal.signal(one, stop)) for one in _SIGNALS]
    try:
        yield
    finally:
        for one, handler in before:
            signal.signal(one, handler)


HOST_DEFAULT = "127.0.0.1"
END_SECONDS_MAX = 30
"""How long an end may take: requests are waited for, and then the watch, for seconds each."""
STOPPED = "stopped in good order"
CUT_SHORT = "stopped; requests that took too long were broken off"
_NEEDED = ("granian", "jinja2", "starlette")


def server(  # noqa: PLR0913 - each option of the command is an argument
    *,
    host: str = HOST_DEFAULT,
    port: int | None = None,
    behind_proxy: bool = False,
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
    allow_host: tuple[str, ...] = (),
    trust_proxy: tuple[str, ...] = (),
    console: bool = True,
    retain: tuple[str, ...] = (),
    observed: Observed = OBSERVED,
    target: Target = TARGET,
) -> None:
    """Serve console and HTTP API until SIGTERM or Ctrl-C; on this machine alone, unless told.

    Whoever asks shows a token (duly token create). While nobody has one, a code is printed that
    begins one session of a browser. The API describes itself at /api/v1/openapi.json.

    Parameters
    ----------
    host
        The address to listen on. One that other machines can reach needs TLS, and a live token.
    port
        The port; $DULY_PORT unless given, else 8420. With 0 a free one is chosen, and told.
    behind_proxy
        A proxy in front of it brings TLS.
    tls_cert
        The certificate, a PEM file, for TLS of its own.
    tls_key
        Its key, a PEM file.
    allow_host
        A name by which it may be asked for besides its own, such as duly.example.com; may be given
        several times.
    trust_proxy
        An address or network of proxies, such as 10.0.8.0/24, whose X-Forwarded-For is believed:
        then the audit trail tells callers' own addresses. May be given several times.
    console
        Serve the console at / too, and not the API alone.
    retain
        How long the dispatchers keep history, as `duly dispatcher --retain` was told, to say so on
        pages. $DULY_RETENTION says the same.
    """
    note_retention(retain)
    require_server_library()
    from duly.api.server import BindAddress, chosen_port

    listening = BindAddress(
        host=host,
        port=chosen_port(port),
        is_behind_proxy=behind_proxy,
        tls_cert=tls_cert,
        tls_key=tls_key,
        allow_hosts=allow_host,
        trust_proxies=trust_proxy,
    )
    telling = LineTelemetry(SystemClock(), level=logging.INFO, style=observed.style(target))
    with open_app(of_all_tenants(target), needs_store=True) as app:
        require_shared(app.url)
        observed.begin("server", app, telling)
        listening.checked(has_token=app.store.has_live_token())
        _serve(app, listening, telling, has_console=console)


def _serve(app: App, listening: BindAddress, telling: LineTelemetry, *, has_console: bool) -> None:
    """Serve until a signal ends it."""
    from duly.api.app import Api
    from duly.api.server import Server
    from duly.web import Console

    serving = Server(app, listening, make=Console if has_console else Api)

    def ready() -> None:
        url = serving.url
        facts: dict[str, object] = {"event": "started", "store": app.url, "url": url}
        telling.tell(f"serving {app.url} at {url}; Ctrl-C ends it", facts=facts)
        tell_code(app, telling, url, has_console=has_console)

    # Also without any dispatcher somebody is told that nothing fires.
    with (
        watching(app, telling),
        seldom_tidied(),
        short_turns(),
        _server_ended_by_signal(serving.stop, telling),
    ):
        try:
            serving.run(ready)
        finally:
            # Whoever still reads keeps a thread, and a thread keeps the process.
            app.store.interrupt()
    telling.tell(CUT_SHORT if serving.is_cut_short else STOPPED, facts={"event": "stopped"})


@contextmanager
def served(
    app: App,
    port: int | None,
    telling: LineTelemetry,
    on_ready: Callable[[str], None] | None = None,
) -> Iterator[None]:
    """Serve the console and the API beside something else, on this machine alone.

    Without a port: at the usual one, if what serves is installed and the port is free. `on_ready`
    is told the address once it can be reached, and says what is to be said of it.
    """
    if port is None and not has_server_library():
        yield
        return
    require_server_library()
    from duly.web.console import EmbeddedConsole, console_beside

    def tell(text: str, facts: dict[str, object]) -> None:
        telling.tell(text, facts=facts)

    def warn(text: str, facts: dict[str, object]) -> None:
        telling.tell(text, level=logging.WARNING, facts=facts)

    with console_beside(app, EmbeddedConsole(tell=tell, warn=warn, port=port, on_ready=on_ready)):
        yield


def tell_code(app: App, telling: LineTelemetry, url: str, *, has_console: bool = False) -> None:
    """While nobody has a token, say how the first one comes in: by a code that opens once."""
    if app.store.has_live_token():
        return
    code = app.doorkeeper().make_code()
    # What stands behind the # is never sent, and so in nobody's log.
    way = f"open {url}/enter#{code}" if has_console else f"POST {url}/api/v1/session"
    telling.tell(
        f"nobody has a token yet: the code {code} begins one session within 15 minutes"
        f" ({way}), or: duly token create NAME --role admin",
        facts={"event": "code", "code": code},
    )


def has_server_library() -> bool:
    """Say whether what serves is installed."""
    return not _missing()


def require_server_library() -> None:
    """Refuse to begin without what serves."""
    missing = _missing()
    if missing:
        remedy = "install it again: pip install --force-reinstall duly"
        raise UsageError("server", missing[0], "is not installed", remedy)


def _missing() -> list[str]:
    return [name for name in _NEEDED if importlib.util.find_spec(name) is None]


def _end_at_last(telling: LineTelemetry) -> None:
    """End the process whatever its threads do, if it has not ended by itself.

    That loses nothing: what was acknowledged is in the store, as after any crash.
    """

    def end() -> None:
        threading.Event().wait(END_SECONDS_MAX)
        problem = f"not ended within {END_SECONDS_MAX} seconds: ended all the same"
        telling.tell_between(problem, {"event": "cut-off"})
        os._exit(1)

    threading.Thread(target=end, name="duly-end", daemon=True).start()


@contextmanager
def _server_ended_by_signal(stop: Callable[[], None], telling: LineTelemetry) -> Iterator[None]:
    """Let the first signal end it in good order, and a second one the process."""

    def heard(_number: int, _frame: FrameType | None) -> None:
        for one in _SIGNALS:
            signal.signal(one, signal.SIG_DFL)
        telling.tell_between("stopping; a second signal ends it at once", {"event": "stopping"})
        _end_at_last(telling)
        stop()

    before = [(one, signal.signal(one, heard)) for one in _SIGNALS]
    try:
        yield
    finally:
        for one, handler in before:
            signal.signal(one, handler)


def worker(  # noqa: PLR0913 - each option of the command is an argument
    *,
    queue: tuple[str, ...] = (),
    slots: int | None = None,
    processes: int = 1,
    grace: str = "30s",
    allow_commands: Annotated[tuple[str, ...] | None, Parameter(consume_multiple=True)] = None,
    allow_address: tuple[str, ...] = (),
    no_supervisor: bool = False,
    log_runs: bool = False,
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
        How many runs a process executes at a time; unless given 512 of async tasks, 10 of others.
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
    log_runs
        Log each finished run, too.
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
    wanted = {"--quiet": quiet, "--verbose": verbose, "--log-runs": log_runs}
    words = frozenset(word for word in wanted if wanted[word])
    manner = ReportingOptions(words, observed, metrics_port)
    _require_own_port(metrics_port, processes)
    return (_work if no_supervisor else _supervise)(options, manner, _with_app(target))


@dataclass(frozen=True, slots=True)
class ReportingOptions:
    """Options of a worker's logs and metrics, as the command line has them."""

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
        logs_runs = "--log-runs" in self.words
        style = self.observed.style(target)
        return RunTelemetry(level=level, style=style, logs_runs=logs_runs)


def _work(options: WorkerOptions, manner: ReportingOptions, target: Target) -> NoReturn:
    """Work in this very process, which ends with its supervisor if there is one."""
    lifeline = hold_lifeline()
    telling = manner.telemetry(target)
    with open_app(target, needs_store=True) as app:
        require_shared(app.url)
        manner.observed.begin("worker", app, telling)
        telling.tell(f"working on {app.url}", facts={"event": "started", "store": app.url})
        # Counting costs a little for each event: only if somebody will ask.
        counting = None if manner.metrics_port is None else EventCounter(telling)
        voice = OutputListener(telemetry=counting or telling, tell=telling.tell_between)
        measure = partial(_measure_worker, counting)
        with telling_metrics(manner.metrics_port, measure, telling.tell_between):
            status = run_worker(app, options, voice, lifeline)
    leave(status)


def _measure_worker(counting: EventCounter | None) -> MetricSamples:
    measured = MetricSamples((*WORKER_METRICS, *PROCESS_METRICS))
    if counting is not None:
        counting.note_attempts(measured)
        counting.note_events(measured)
    return measured


def _supervise(options: WorkerOptions, manner: ReportingOptions, target: Target) -> int:
    """Keep worker processes going; the tasks' code is not even imported here."""
    telling = manner.telemetry(target)
    command = (sys.executable, "-m", "duly", "worker", "--no-supervisor", f"--app={target.app}")
    argv = [*command, *options.arguments(), *manner.arguments()]
    argv += ["--json"] if target.json else []
    argv += [] if target.url is None else [f"--url={target.url}"]
    voice = OutputListener(telemetry=telling, tell=telling.tell_between)
    status = run_supervisor(Services(argv=tuple(argv), processes=options.processes), voice)
    telling.tell("stopped", facts={"event": "stopped", "status": status})
    return status


class RunTelemetry(LineTelemetry):
    """Tells events as they happen, and, if asked to, every attempt that has ended."""

    def __init__(self, *, level: int, style: Style, logs_runs: bool) -> None:
        super().__init__(SystemClock(), level=level, style=style)
        self._runs = None
        if logs_runs:
            self._runs = LineTelemetry(SystemClock(), level=logging.DEBUG, style=style)

    def is_listening(self, kind: type[Event]) -> bool:
        """Say whether an event of this kind would be told."""
        is_told = self._runs is not None and issubclass(kind, AttemptEnded)
        return is_told or super().is_listening(kind)

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


SCHEDULES_SHOWN_MAX = 20
NAMES_SHOWN_MAX = 10


def dev(  # noqa: PLR0913 - each option of the command is an argument
    *,
    declare: tuple[Path, ...] = (),
    slots: int | None = None,
    processes: int = 1,
    queue: tuple[str, ...] = (),
    allow_commands: bool = False,
    allow_address: tuple[str, ...] = (),
    retain: tuple[str, ...] = (),
    port: int | None = None,
    observed: Observed = OBSERVED,
    verbose: Annotated[bool, Parameter(name=["--verbose", "-v"])] = False,
    target: Target = TARGET,
) -> int:
    """Fire what falls due and execute it, until Ctrl-C; for development.

    The dispatcher runs here, the worker in a process of its own, which is started again when a task
    crashes it. Schedules that the application and files declare are made first. What was promised
    is kept in the store (sqlite:///duly.db unless the application or $DULY_URL names another), and
    goes on when this is started again.

    Parameters
    ----------
    declare
        A TOML file that declares schedules; may be given several times.
    slots
        How many runs a worker process executes at a time. Unless given: 512 of async tasks, and 10
        of all others.
    processes
        How many worker processes there are.
    queue
        A queue to serve: mail, or reports=2 for at most two slots; may be given several times.
        Every queue unless given.
    allow_commands
        Run tasks that are commands, too.
    allow_address
        A private address that webhooks may call, such as localhost:8080; may be repeated.
    retain
        How long history is kept: succeeded=7d, as `duly dispatcher --retain` has it.
    port
        Serve console and HTTP API at this port, on this machine alone; 0: at any free one. Unless
        given, at $DULY_PORT, else 8420, if that is free.
    verbose
        Tell everything that happens.
    """
    place = _program(target)
    note_retention(retain)
    options = WorkerOptions(
        slots=slots,
        processes=processes,
        queues=queue or None,
        allow_commands=True if allow_commands else None,
        allow_addresses=allow_address,
    )
    level, style = logging.DEBUG if verbose else logging.WARNING, observed.style(target)
    events = RunTelemetry(level=level, style=style, logs_runs=True)
    telling = LineTelemetry(SystemClock(), level=logging.INFO, style=style)
    with open_app(of_all_tenants(target), needs_store=True) as app:
        require_shared(app.url)
        observed.begin("dispatcher", app, events)
        for path in declare:
            app.declare(path)
        _greet(app, app.reconcile(), telling)
        words = ["--log-runs", "--verbose" if verbose else "--quiet", *observed.arguments()]
        words += ["--json"] * target.json
        voice = OutputListener(telemetry=events, tell=telling.tell_between)
        with served(app, port, telling):
            status = run_all(app, build_services(place, options, *words), voice)
        telling.tell("stopped; what was promised is kept", facts={"event": "stopped"})
    return status


def run_plainly(app: App, crew: Services) -> int:
    """Run all of an application until Ctrl-C, and tell it as `duly dev` does to a person."""
    events = RunTelemetry(level=logging.WARNING, style=Style.SENTENCES, logs_runs=True)
    telling = LineTelemetry(SystemClock(), level=logging.INFO, style=Style.SENTENCES)
    _greet(app, app.reconcile(), telling)
    with served(app, None, telling):
        status = run_all(app, crew, OutputListener(telemetry=events, tell=telling.tell_between))
    telling.tell("stopped; what was promised is kept", facts={"event": "stopped"})
    return status


def _program(target: Target) -> str:
    """Return where the program with the tasks is; a server has none."""
    refuse_server(target)
    place = os.environ.get(APP_VARIABLE) if target.app is None else target.app
    if not place:
        remedy = "give --app tasks:app for `app = duly.App()` in tasks.py, or set $DULY_APP"
        raise UsageError("app", None, "is missing: no application is named", remedy)
    return place


def _greet(app: App, report: Reconciliation, telling: LineTelemetry) -> None:
    """Say what runs here: where promises are kept, which tasks there are, and what comes next."""
    names, schedules = app.tasks.names(), app.schedules.list()
    for line in report.lines():
        telling.tell(f"declared schedules: {line}", facts={"event": "reconciled", "what": line})
    started = {"event": "started", "store": app.url, "tasks": names}
    telling.tell(f"running {app.url}; Ctrl-C ends it", facts=started)
    shown = ", ".join(names[:NAMES_SHOWN_MAX]) + ("…" if len(names) > NAMES_SHOWN_MAX else "")
    tasks = "1 task" if len(names) == 1 else f"{len(names)} tasks"
    telling.tell(f"{tasks}: {shown or 'none yet'}", facts={"event": "tasks", "tasks": names})
    for one in schedules[:SCHEDULES_SHOWN_MAX]:
        facts = {"event": "schedule", "schedule": one.name, "description": one.describe()}
        telling.tell(f"schedule {one.name}: {one.describe()}{_next(one)}", facts=facts)


def _next(schedule: Schedule) -> str:
    return "" if schedule.next_due is None else f"; next {utc_text(schedule.next_due)}"
