"""Runs worker, dispatcher and watcher of an application until a signal ends them; worker options.

`leave` ends a process with `os._exit`. Python's normal exit joins every non-daemon thread, such as
those of a pool or of `asyncio.to_thread`. A thread that hangs there would keep a process alive that
is no worker any more.

`short_turns` shortens the interpreter's switch interval. A process that fires or claims has other
threads beside it: the watcher, tasks in threads, an event loop. A thread that returns from the
database needs the interpreter again, several times for each statement, and by default another
thread may keep it for 5 ms each time.

`watching` runs the watcher and the delivery of alerts in threads of a dispatcher or a server, so
that a store is watched as long as either runs. One watcher of all holds the watch. The dispatcher
and the server never wait for these threads while they work.

`run_all` and `run_app` run the dispatcher in this process and the workers in supervised processes,
so that a task whose code harms its process does not harm the dispatcher.
"""

from __future__ import annotations

import atexit
import gc
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NoReturn

from duly.app.application import PermittedTasks
from duly.app.loading import (
    TASK_PROCESS,
    place_of,
    process_variables,
    require_loadable,
    search_path,
)
from duly.app.stores import require_shared
from duly.app.tracing import begin_tracing
from duly.client.parameters import read_queue
from duly.clock import SystemClock
from duly.domain.alert_messages import AlertNotice
from duly.domain.alert_rules import AlertKind, Severity
from duly.domain.alerts import NoticeKind
from duly.domain.enums import TaskKind
from duly.domain.outbound_urls import read_allow_list
from duly.engine.alerts.channels import ChannelSurroundings
from duly.engine.alerts.delivery import AlertDeliverer, DeliveryThreads, open_channel
from duly.engine.alerts.watcher import Watcher, WatcherIdentity
from duly.engine.dispatcher.context import Node
from duly.engine.executors.process_lifetime import Lifeline
from duly.engine.executors.task_output import masked_output, task_logging
from duly.engine.loop import Loop
from duly.engine.supervisor import DISMISSED_STATUS, RECYCLE_STATUS, Supervisor, SupervisorSettings
from duly.engine.worker import Worker
from duly.engine.worker.exchange import ThreadCourier
from duly.engine.worker.settings import WorkerSettings
from duly.entropy import SystemDraws
from duly.errors import UsageError, require_text
from duly.store.ports.dispatch import MemberKind
from duly.store.ports.execution import PipelinedClaims
from duly.store.wakeups import LocalWakeups
from duly.telemetry import CommandsLeftOut, LogTelemetry, NullTelemetry
from duly.timetable.instants import duration_microseconds, duration_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import timedelta
    from types import FrameType
    from uuid import UUID

    from duly.app.application import App
    from duly.clock import Clock
    from duly.domain.alert_channels import ChannelConfig
    from duly.engine.alerts.channels import Channel
    from duly.engine.alerts.watcher import WatcherSettings
    from duly.engine.executors.executor import Executor
    from duly.store.ports.dispatch import Wakeups
    from duly.telemetry import Telemetry


TIDY_SECONDS_MAX = 5.0
"""How long whatever is to be done at the end of a program may take."""


def leave(status: int) -> NoReturn:
    """End this process with a status, once what is registered for a program's end was done."""
    tidying = threading.Thread(target=_tidy_up, name="duly-leaving", daemon=True)
    tidying.start()
    tidying.join(TIDY_SECONDS_MAX)
    os._exit(status)


def _tidy_up() -> None:
    atexit._run_exitfuncs()  # noqa: SLF001 - logs and telemetry of tasks are flushed there
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()


TURN_SECONDS = 0.0005


@contextmanager
def short_turns() -> Iterator[None]:
    """Let threads of this process change over sooner, while a block lasts.

    Only for processes that are ours: it is the same for all threads of one.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, TURN_SECONDS))
    try:
        yield
    finally:
        sys.setswitchinterval(before)


END_SECONDS = 5.0
"""How long a delivery that is under way is waited for at the end; the next watcher repeats it."""


@contextmanager
def watching(
    app: App, telemetry: Telemetry | None = None, settings: WatcherSettings | None = None
) -> Iterator[None]:
    """Watch the store of an application and deliver its alerts, until the block ends."""
    clock, heard = SystemClock(), telemetry or NullTelemetry()
    name = f"{socket.gethostname()}, process {os.getpid()}"
    watchman = WatcherIdentity(holder=SystemDraws().draw(16), name=name)
    watcher = Watcher(app.store, clock, watchman, settings, telemetry=heard)
    senders = DeliveryThreads(heard)
    courier = make_courier(app, clock, heard, senders)
    courier.fence = watcher.fence_in_time
    places = (LocalWakeups(), LocalWakeups())
    watcher.on_told = courier.on_done = places[1].wake
    loops = (
        Loop(watcher, places[0], clock, heard),
        Loop(courier, places[1], clock, heard),
    )
    # They end with the process, whatever they wait for: what is pending is in the store.
    threads = [
        threading.Thread(target=loop.run, name=f"duly-{name}", daemon=True)
        for loop, name in zip(loops, ("watcher", "alerts"), strict=True)
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        # The watch is given up last: what is being sent is settled under it, and not sent twice.
        loops[1].stop()
        threads[1].join(END_SECONDS)
        senders.wait(END_SECONDS)
        loops[0].stop()
        threads[0].join(END_SECONDS)


def make_courier(
    app: App,
    clock: Clock,
    telemetry: Telemetry | None = None,
    senders: DeliveryThreads | None = None,
) -> AlertDeliverer:
    """Return who delivers an application's alerts: in threads, or one after the other."""
    surroundings = channel_surroundings(app, clock)

    def opened(config: ChannelConfig) -> Channel:
        return open_channel(config, surroundings)

    start = None if senders is None else senders.start
    return AlertDeliverer(app.store, clock, opened, telemetry, start=start)


def try_channel(app: App, config: ChannelConfig, identity: UUID) -> tuple[bool, str]:
    """Send a notice that is marked as a test by a channel; say whether it was taken, or why not."""
    clock = SystemClock()
    now = clock.now()
    notice = AlertNotice(
        id=identity,
        alert_id=identity,
        kind=str(AlertKind.NO_EXECUTIONS),
        change=str(NoticeKind.RAISED),
        severity=str(Severity.WARN),
        tenant="",
        subject="store",
        summary=f"this is a test of the channel {config.name}: nothing is wrong",
        remedy="nothing is to be done",
        evidence={"test": True},
        since=now,
        at=now,
    )
    result = open_channel(config, channel_surroundings(app, clock)).deliver(notice)
    return result.is_done, result.detail


def channel_surroundings(app: App, clock: Clock) -> ChannelSurroundings:
    """Return what channels may read and reach, by an application's settings."""
    return ChannelSurroundings(
        read_secret=app.secret_sources().read,
        clock=clock,
        allow=read_allow_list(app.settings.allow_addresses),
    )


ALLOW_COMMANDS_VARIABLE = "DULY_ALLOW_COMMANDS"
PROCESSES_MAX = 256
_ALL = frozenset({"1", "all", "yes", "true", "*"})
_SAYS_NO = frozenset({"", "0", "no", "none", "false"})
_NAMES_MAX = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """Options of `duly worker` and `app.run()`; the defaults are right for most."""

    slots: int | None = None
    """How many runs one process executes at a time; None for 512 of async tasks and 10 others."""
    queues: Sequence[str] | None = None
    """Which queues it serves, each as a name, or as name=slots; None for every queue."""
    processes: int = 1
    """How many worker processes a supervisor keeps going."""
    grace: str | timedelta = "30s"
    """How long running work may finish after the worker was told to stop."""
    allow_commands: bool | Sequence[str] | None = None
    """Whether it may run commands: of all tasks, or of those named; None for what
    $DULY_ALLOW_COMMANDS says."""
    allow_addresses: Sequence[str] = ()
    """Private addresses that webhooks may call, beside those of the application's settings."""

    def __post_init__(self) -> None:
        """Refuse what can't be carried out, before anything is started."""
        self.settings()
        self.commands()
        is_number = isinstance(self.processes, int) and not isinstance(self.processes, bool)
        if not is_number or not 1 <= self.processes <= PROCESSES_MAX:
            remedy = f"give 1 to {PROCESSES_MAX}"
            raise UsageError("processes", self.processes, "can't be kept going", remedy)

    def settings(self) -> WorkerSettings:
        """Return them as the engine has them."""
        limits = None if self.queues is None else read_queues(self.queues)
        return WorkerSettings(
            slots=self.slots,
            queues=None if limits is None else tuple(limits),
            queue_limits={
                name: limit for name, limit in (limits or {}).items() if limit is not None
            },
            grace_us=duration_microseconds(self.grace, "grace"),
        )

    def commands(self) -> frozenset[str] | None:
        """Return the tasks whose commands may be run; None for all of them."""
        said = self.allow_commands
        if said is None:
            return read_allowed(os.environ.get(ALLOW_COMMANDS_VARIABLE, ""))
        if isinstance(said, bool):
            return None if said else frozenset()
        if isinstance(said, str):
            return read_allowed(said)
        return frozenset(said)

    def arguments(self) -> list[str]:
        """Return them as arguments of `duly worker`."""
        commands, grace_us = self.commands(), duration_microseconds(self.grace, "grace")
        words = [] if self.slots is None else [f"--slots={self.slots}"]
        words += [f"--grace={duration_text(grace_us)}"]
        words += [f"--queue={queue}" for queue in self.queues or ()]
        words += [f"--allow-address={address}" for address in self.allow_addresses]
        if commands is None:
            return [*words, "--allow-commands=all"]
        return [*words, f"--allow-commands={','.join(sorted(commands)) or 'none'}"]


def read_queues(texts: Sequence[str]) -> dict[str, int | None]:
    """Read queues, each a name or name=slots, in their order."""
    queues: dict[str, int | None] = {}
    if isinstance(texts, str | Mapping):
        raise UsageError("queues", texts, "is not a list", 'give such as ["mail", "reports=2"]')
    for text in texts:
        require_text("queue", text, _NAMES_MAX)
        name, separator, limit = text.partition("=")
        if separator and not (limit.isascii() and limit.isdecimal() and int(limit) >= 1):
            remedy = "give name=slots, such as reports=2"
            raise UsageError("queue", text, "does not say how many slots", remedy)
        queues[read_queue(name)] = int(limit) if separator else None
    return queues


def read_allowed(text: str) -> frozenset[str] | None:
    """Read which commands may be run: all, none, or the tasks named, divided by commas."""
    require_text("allow-commands", text, _NAMES_MAX)
    if text.strip().lower() in _ALL:
        return None
    if text.strip().lower() in _SAYS_NO:
        return frozenset()
    return frozenset(name.strip() for name in text.split(",") if name.strip())


FAILED_STATUS = GAVE_BACK_STATUS = 1
GARBAGE_MAX = 50_000
"""How many objects a worker's process makes before it looks for garbage: some ten megabytes."""
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_CONSOLE_NEEDS = ("granian", "jinja2", "starlette")


def discard_events(_text: str, _facts: dict[str, object]) -> None:
    """Tell nobody that one is stopping."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputListener:
    """Who is told what happens, and, out of a signal handler, that it is about to end."""

    telemetry: Telemetry = field(default_factory=NullTelemetry)
    tell: Callable[[str, dict[str, object]], None] = discard_events


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Worker processes that are kept going: how many, and the command of one."""

    argv: tuple[str, ...]
    processes: int = 1
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables beside our own."""

    def supervisor(self, wakeups: LocalWakeups, voice: OutputListener) -> Supervisor:
        """Return who keeps them going."""
        return Supervisor(
            self.argv,
            SystemClock(),
            wakeups,
            SupervisorSettings(processes=self.processes),
            telemetry=voice.telemetry,
            env=self.env,
        )


def make_worker(
    app: App,
    options: WorkerOptions | None = None,
    telemetry: Telemetry | None = None,
    *,
    wakeups: Wakeups | None = None,
) -> Worker:
    """Return a worker of an application's tasks, not yet started; a Loop runs it."""
    options = options or WorkerOptions()
    address = "" if wakeups is None else wakeups.address
    tasks = PermittedTasks(app.catalogue(), options.commands())
    left_out = tasks.left_out()
    if left_out and telemetry is not None:
        telemetry.emit(CommandsLeftOut(member=0, tasks=tuple(left_out)))
    node = Node(host=socket.gethostname(), process=os.getpid(), wake_address=address)
    return Worker(
        app.store,
        SystemClock(),
        tasks,
        make_executors(app, options),
        options.settings(),
        telemetry=telemetry,
        node=node,
        wakeups=wakeups,
        # Of two that write to a file, one would only wait for the other.
        courier=ThreadCourier() if app.url.startswith("postgres") else None,
        begin_claim=app.store.begin_claim if isinstance(app.store, PipelinedClaims) else None,
        tracing=app.traces.tracing,
    )


def make_executors(app: App, options: WorkerOptions) -> Mapping[TaskKind, Executor]:
    """Return who runs an application's tasks: for the kinds of task that it has."""
    catalogue = app.catalogue()
    found = (catalogue.find(name) for name in catalogue.names())
    kinds = {runnable.kind for runnable in found if runnable is not None}
    return {kind: _executor(kind, app, options) for kind in sorted(kinds)}


def _awaited(running: int) -> str:
    """Say what a worker that is to stop waits for."""
    if not running:
        return "nothing runs"
    if running == 1:
        return "waiting for 1 run; a second signal gives it back at once"
    return f"waiting for {running:,} runs; a second signal gives them back at once"


def run_worker(
    app: App, options: WorkerOptions, voice: OutputListener, lifeline: Lifeline | None = None
) -> int:
    """Run a worker in this process until a signal ends it; return its exit status.

    Whoever supervises it hears by the lifeline that it works, and that it is over.
    """
    lifeline = lifeline or Lifeline()
    wakeups = app.store.wakeups(MemberKind.WORKER)
    worker = make_worker(app, options, voice.telemetry, wakeups=wakeups)
    loop = Loop(worker, wakeups, SystemClock(), voice.telemetry)
    worker.on_over = loop.stop
    given_back = 0

    def stop(times: int) -> None:
        nonlocal given_back
        if times == 1:
            given_back = worker.statistics.given_back
            count = worker.running
            voice.tell(f"stopping: {_awaited(count)}", {"event": "stopping", "running": count})
            worker.drain()
        else:
            worker.stop_now()

    lifeline.say_working()
    status = FAILED_STATUS
    try:
        with (
            task_logging(),
            masked_output(worker.secrets),
            seldom_tidied(),
            short_turns(),
            _signalled(stop, 2),
        ):
            loop.run()
        wakeups.close()
        gave_back = worker.statistics.given_back > given_back
        has_stopped = worker.is_draining or worker.is_over
        status = GAVE_BACK_STATUS if has_stopped and gave_back else 0
        status = RECYCLE_STATUS if worker.needs_recycling else status
        status = 0 if worker.is_dismissed else status
    finally:
        lifeline.say_over(DISMISSED_STATUS if worker.is_dismissed else status)
    return status


@contextmanager
def seldom_tidied() -> Iterator[None]:
    """Leave what is loaded alone, and look for rings of garbage less often.

    What belongs to a run is gone by itself when the run is: looking through those that are held,
    again and again, took a sixth of a worker's time.
    """
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE_MAX, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def run_supervisor(crew: Services, voice: OutputListener) -> int:
    """Keep worker processes going until a signal ends them; return the exit status."""
    wakeups = LocalWakeups()
    supervisor = crew.supervisor(wakeups, voice)
    loop = Loop(supervisor, wakeups, SystemClock(), voice.telemetry)
    supervisor.on_over = loop.stop

    def stop(times: int) -> None:
        if times == 1:
            text = "stopping: telling the workers; a second signal stops them at once"
            voice.tell(text, {"event": "stopping", "processes": len(supervisor.processes)})
        supervisor.drain()

    with _signalled(stop, 2):
        loop.run()
    return supervisor.exit_status


def run_all(
    app: App,
    crew: Services,
    voice: OutputListener,
    on_start: Callable[[Supervisor], None] | None = None,
) -> int:
    """Run a dispatcher here and worker processes beside it, until a signal ends them.

    `on_start` is told who keeps the processes going, before the first is started.
    """
    clock, wakeups, bell = SystemClock(), app.store.wakeups(), LocalWakeups()
    dispatcher = app.dispatcher(telemetry=voice.telemetry, wake_address=wakeups.address)
    loop = Loop(dispatcher, wakeups, clock, voice.telemetry)
    supervisor = crew.supervisor(bell, voice)
    kept_going = Loop(supervisor, bell, clock, voice.telemetry)

    def end() -> None:
        kept_going.stop()
        loop.stop()  # the dispatcher goes on until the workers are done

    supervisor.on_over = end
    if on_start is not None:
        on_start(supervisor)

    def stop(times: int) -> None:
        if times == 1:
            text = "stopping: telling the workers; a second signal stops them at once"
            voice.tell(text, {"event": "stopping", "processes": len(supervisor.processes)})
        supervisor.drain()

    # Of one thread from beginning to end: its end would be that of the processes it has started.
    thread = threading.Thread(target=kept_going.run, name="duly-supervisor")
    with watching(app, voice.telemetry), short_turns(), _signalled(stop, 2):
        thread.start()
        try:
            loop.run()
        finally:
            supervisor.drain()
            thread.join()
            wakeups.close()
    return supervisor.exit_status


def run_app(app: App, options: WorkerOptions | None = None) -> int:
    """Run dispatcher, console and a supervised worker until Ctrl-C: what `app.run()` does.

    What is declared is reconciled first. Without any logging set up, it is told as `duly dev`
    tells it.
    """
    options = options or WorkerOptions()
    require_shared(app.url)
    place = place_of(app)
    if not logging.getLogger().handlers:
        # As `duly dev` tells it; found by name, since a command stands above an application.
        begin_tracing("dispatcher", app)
        crew = build_services(place, options, "--log-runs", "--quiet", path=search_path())
        telling: Any = import_module("duly.cli.services")
        status: int = telling.run_plainly(app, crew)
        return status
    logger = logging.getLogger("duly")
    for line in app.reconcile().lines():
        logger.info("declared schedules: %s", line)
    logger.info("running %s; Ctrl-C ends it", app.url)
    begin_tracing("dispatcher", app)
    voice = OutputListener(telemetry=LogTelemetry(logger))
    crew = build_services(place, options, "--log-runs", path=search_path())
    with _console(app, logger):
        return run_all(app, crew, voice)


@contextmanager
def _console(app: App, logger: logging.Logger) -> Iterator[None]:
    """Serve the console beside it, where what serves is installed; found by name, as a plug-in."""
    if any(find_spec(name) is None for name in _CONSOLE_NEEDS):
        yield
        return
    beside: Any = import_module("duly.web.console")
    told = beside.EmbeddedConsole(
        tell=lambda text, _facts: logger.info("%s", text),
        warn=lambda text, _facts: logger.warning("%s", text),
    )
    with beside.console_beside(app, told):
        yield


def build_services(
    place: str, options: WorkerOptions, *more: str, path: str | None = None
) -> Services:
    """Return the worker processes of an application; `path` is their $PYTHONPATH."""
    command = (sys.executable, "-m", "duly", "worker", "--no-supervisor", f"--app={place}")
    env = {} if path is None else {"PYTHONPATH": path}
    argv = (*command, *options.arguments(), *more)
    return Services(argv=argv, processes=options.processes, env=env)


def _executor(kind: TaskKind, app: App, options: WorkerOptions) -> Executor:
    """Return who runs tasks of a kind; each kind's code is fetched when it is needed."""
    read_secret = app.secret_sources().read_declared
    match kind:
        case TaskKind.ASYNC:
            from duly.engine.executors.async_executor import EventLoopExecutor

            return EventLoopExecutor()
        case TaskKind.THREAD:
            from duly.engine.executors.thread_executor import ThreadExecutor

            return ThreadExecutor(options.settings().slots_of((kind,)))
        case TaskKind.PROCESS:
            from duly.engine.executors.process_executor import ProcessExecutor, ProcessSettings

            place = place_of(app)
            require_loadable(place)
            started = ProcessSettings(argv=TASK_PROCESS, app=place, env=process_variables())
            return ProcessExecutor(SystemClock(), started)
        case TaskKind.COMMAND:
            from duly.engine.executors.command_executor import CommandExecutor, CommandSettings

            allowed = CommandSettings(allowed=options.commands(), read_secret=read_secret)
            return CommandExecutor(SystemClock(), allowed)
        case TaskKind.WEBHOOK:
            from duly.domain.outbound_urls import read_allow_list
            from duly.engine.executors.webhook_executor import WebhookExecutor, WebhookSettings

            named = [*app.settings.allow_addresses, *options.allow_addresses]
            settings = WebhookSettings(allow=read_allow_list(named), read_secret=read_secret)
            return WebhookExecutor(SystemClock(), settings)


@contextmanager
def _signalled(stop: Callable[[int], None], times_max: int) -> Iterator[None]:
    """Have SIGTERM and SIGINT call `stop` with how often; one more ends the process itself.

    Only a program's main thread can hear signals; elsewhere nobody is told.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    times = 0

    def heard(_number: int, _frame: FrameType | None) -> None:
        nonlocal times
        times += 1
        if times == times_max:
            for one in _SIGNALS:
                signal.signal(one, signal.SIG_DFL)
        stop(times)

    before = [(one, signal.signal(one, heard)) for one in _SIGNALS]
    try:
        yield
    finally:
        for one, handler in before:
            signal.signal(one, handler)
