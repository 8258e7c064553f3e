"""`duly dev`: everything in one place while one writes a program: dispatcher and a worker."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from duly.app import App
from duly.app.running import Crew, Voice, crew_of, run_all
from duly.app.stores import require_shared
from duly.app.worker_options import WorkerOptions
from duly.cli.event_lines import LineTelemetry, Style
from duly.cli.observing import Observed
from duly.cli.retaining import note_retention
from duly.cli.server import served
from duly.cli.target import APP_VARIABLE, Target, of_all_tenants, opened, refuse_server
from duly.cli.worker import RunTelemetry
from duly.client.reconciling import Reconciliation
from duly.client.schedule_view import Schedule
from duly.clock import SystemClock
from duly.domain.time_texts import utc_text
from duly.errors import UsageError

TARGET = Target()
OBSERVED = Observed()
SCHEDULES_SHOWN_MAX = 20
NAMES_SHOWN_MAX = 10


def dev(  # noqa: PLR0913 - each option of the command is an argument
    *,
    declare: tuple[Path, ...] = (),
    slots: int = 10,
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
        How many runs a worker process executes at a time.
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
    events = RunTelemetry(level=level, style=style, tells_runs=True)
    telling = LineTelemetry(SystemClock(), level=logging.INFO, style=style)
    with opened(of_all_tenants(target), needs_store=True) as app:
        require_shared(app.url)
        observed.begin("dispatcher", app, events)
        for path in declare:
            app.declare(path)
        _greet(app, app.reconcile(), telling)
        words = ["--tell-runs", "--verbose" if verbose else "--quiet", *observed.arguments()]
        words += ["--json"] * target.json
        voice = Voice(telemetry=events, tell=telling.tell_between)
        with served(app, port, telling):
            status = run_all(app, crew_of(place, options, *words), voice)
        telling.tell("stopped; what was promised is kept", facts={"event": "stopped"})
    return status


def run_plainly(app: App, crew: Crew) -> int:
    """Run all of an application until Ctrl-C, and tell it as `duly dev` does to a person."""
    events = RunTelemetry(level=logging.WARNING, style=Style.SENTENCES, tells_runs=True)
    telling = LineTelemetry(SystemClock(), level=logging.INFO, style=Style.SENTENCES)
    _greet(app, app.reconcile(), telling)
    with served(app, None, telling):
        status = run_all(app, crew, Voice(telemetry=events, tell=telling.tell_between))
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
