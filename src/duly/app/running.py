"""Running: composes a worker of an application's tasks, and runs services until a signal ends them.

In the all-in-one modes the dispatcher runs in this process and the worker in a supervised one: what
a task's code does to its process is nothing to the dispatcher (R10).
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from duly.app.loading import place_of, search_folder
from duly.app.permitted import PermittedTasks
from duly.app.short_turns import short_turns
from duly.app.stores import require_shared
from duly.app.tracing import begin_tracing
from duly.app.watching import watching
from duly.app.worker_options import WorkerOptions
from duly.clock import SystemClock
from duly.domain.literals import TaskKind
from duly.engine.executors.task_logging import task_logging
from duly.engine.lifeline import Lifeline
from duly.engine.loop import Loop
from duly.engine.supervisor import DISMISSED_STATUS, RECYCLE_STATUS, Supervisor, SupervisorSettings
from duly.engine.surroundings import Node
from duly.engine.worker import Worker
from duly.engine.worker.courier import ThreadCourier
from duly.store.dispatch import MemberKind
from duly.store.execution import ClaimsAhead
from duly.store.wakeups import LocalWakeups
from duly.telemetry import CommandsLeftOut, LogTelemetry, NullTelemetry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path
    from types import FrameType

    from duly.app.application import App
    from duly.engine.work import Executor
    from duly.store.dispatch import Wakeups
    from duly.telemetry import Telemetry

FAILED_STATUS = GAVE_BACK_STATUS = 1
GARBAGE_MAX = 50_000
"""How many objects a worker's process makes before it looks for garbage: some ten megabytes."""
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_CONSOLE_NEEDS = ("granian", "jinja2", "starlette")


def tell_nobody(_text: str, _facts: dict[str, object]) -> None:
    """Tell nobody that one is stopping."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Voice:
    """Who is told what happens, and, out of a signal handler, that it is about to end."""

    telemetry: Telemetry = field(default_factory=NullTelemetry)
    tell: Callable[[str, dict[str, object]], None] = tell_nobody


@dataclass(frozen=True, slots=True, kw_only=True)
class Crew:
    """Worker processes that are kept going: how many, and the command of one."""

    argv: tuple[str, ...]
    processes: int = 1
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables beside our own."""

    def supervisor(self, wakeups: LocalWakeups, voice: Voice) -> Supervisor:
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
        begin_claim=app.store.begin_claim if isinstance(app.store, ClaimsAhead) else None,
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
    app: App, options: WorkerOptions, voice: Voice, lifeline: Lifeline | None = None
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
        with task_logging(), seldom_tidied(), short_turns(), _signalled(stop, 2):
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


def run_supervisor(crew: Crew, voice: Voice) -> int:
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
    crew: Crew,
    voice: Voice,
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
        crew = crew_of(place, options, "--tell-runs", "--quiet", folder=search_folder(app))
        telling: Any = import_module("duly.cli.dev")
        status: int = telling.run_plainly(app, crew)
        return status
    logger = logging.getLogger("duly")
    for line in app.reconcile().lines():
        logger.info("declared schedules: %s", line)
    logger.info("running %s; Ctrl-C ends it", app.url)
    begin_tracing("dispatcher", app)
    voice = Voice(telemetry=LogTelemetry(logger))
    crew = crew_of(place, options, "--tell-runs", folder=search_folder(app))
    with _console(app, logger):
        return run_all(app, crew, voice)


@contextmanager
def _console(app: App, logger: logging.Logger) -> Iterator[None]:
    """Serve the console beside it, where what serves is installed; found by name, as a plug-in."""
    if any(find_spec(name) is None for name in _CONSOLE_NEEDS):
        yield
        return
    beside: Any = import_module("duly_web.beside")
    told = beside.Beside(
        tell=lambda text, _facts: logger.info("%s", text),
        warn=lambda text, _facts: logger.warning("warning: %s", text),
    )
    with beside.console_beside(app, told):
        yield


def crew_of(place: str, options: WorkerOptions, *more: str, folder: Path | None = None) -> Crew:
    """Return the worker processes of an application, which is found from a folder."""
    command = (sys.executable, "-m", "duly", "worker", "--no-supervisor", f"--app={place}")
    paths = [str(folder or ""), os.environ.get("PYTHONPATH", "")]
    env = {} if folder is None else {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    argv = (*command, *options.arguments(), *more)
    return Crew(argv=argv, processes=options.processes, env=env)


def _executor(kind: TaskKind, app: App, options: WorkerOptions) -> Executor:
    """Return who runs tasks of a kind; each kind's code is fetched when it is needed."""
    read_secret = app.secret_sources().read_declared
    match kind:
        case TaskKind.ASYNC:
            from duly.engine.executors.event_loop import EventLoopExecutor

            return EventLoopExecutor()
        case TaskKind.THREAD:
            from duly.engine.executors.threads import ThreadExecutor

            return ThreadExecutor(options.slots)
        case TaskKind.PROCESS:
            from duly.engine.executors.processes import ProcessExecutor, ProcessSettings

            argv = (sys.executable, "-m", "duly.app.task_process")
            return ProcessExecutor(SystemClock(), ProcessSettings(argv=argv, app=place_of(app)))
        case TaskKind.COMMAND:
            from duly.engine.executors.commands import CommandExecutor, CommandSettings

            allowed = CommandSettings(allowed=options.commands(), read_secret=read_secret)
            return CommandExecutor(SystemClock(), allowed)
        case TaskKind.WEBHOOK:
            from duly.domain.web_addresses import read_allow_list
            from duly.engine.executors.webhooks import WebhookExecutor, WebhookSettings

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
