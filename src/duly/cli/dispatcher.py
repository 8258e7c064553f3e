"""`duly dispatcher`: fires what falls due, until it is told to stop."""

from __future__ import annotations

import gc
import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Annotated

from cyclopts import Parameter

from duly.app import App
from duly.app.metrics_port import telling_metrics
from duly.app.short_turns import short_turns
from duly.app.stores import require_shared
from duly.app.watching import watching
from duly.cli.event_lines import LineTelemetry
from duly.cli.observing import Observed
from duly.cli.retaining import note_retention
from duly.cli.target import Target, of_all_tenants, opened
from duly.client.reconciling import Reconciliation
from duly.clock import SystemClock
from duly.engine.dispatcher import Dispatcher
from duly.engine.loop import Loop
from duly.engine.metrics import DISPATCHER_METRICS, note_dispatcher
from duly.errors import UsageError
from duly.telemetry.counting import PROCESS_METRICS, CountingTelemetry
from duly.telemetry.exposition import Measured

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
    with opened(of_all_tenants(target), needs_store=True) as app:
        require_shared(app.url)
        observed.begin("dispatcher", app, telling)
        for path in declare:
            app.declare(path)
        _reconcile(app, telling, prune=prune)
        wakeups = app.store.wakeups()
        # Counting costs a little for each event: only if somebody will ask.
        counting = None if metrics_port is None else CountingTelemetry(telling)
        listening = counting or telling
        service = app.dispatcher(telemetry=listening, wake_address=wakeups.address)
        loop = Loop(service, wakeups, clock, listening)
        telling.tell(f"dispatching {app.url}; Ctrl-C ends it", facts=_started(app))
        gc.set_threshold(*_COLLECTED_AFTER)
        numbers = partial(_measure, service, counting)
        with (
            telling_metrics(metrics_port, numbers, telling.tell_between),
            watching(app, listening),
            short_turns(),
            _ended_by_signal(loop, telling),
        ):
            loop.run()
        wakeups.close()
        counts = service.statistics
        runs = counts.runs + counts.caught_up
        facts = {"event": "stopped", "fired": counts.fired, "runs": runs}
        done = f"timers fired: {counts.fired:,}, runs made: {runs:,}"
        telling.tell(f"stopped in good order; {done}", facts=facts)


def _measure(service: Dispatcher, counting: CountingTelemetry | None) -> Measured:
    measured = Measured((*DISPATCHER_METRICS, *PROCESS_METRICS))
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
def _ended_by_signal(loop: Loop, telling: LineTelemetry) -> Iterator[None]:
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
