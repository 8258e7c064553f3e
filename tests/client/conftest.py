"""An application on each store, on a clock that is set by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly.domain.enums import TaskKind
from duly.engine.manual_clock import ManualClock
from duly.engine.worker import Worker
from duly.store.ports.queries import AuditFilter
from duly.testing import InlineExecutor, SeededDraws
from duly.timetable.instants import to_microseconds
from tests.postgres.reused_databases import with_schema
from tests.store.made_store import KINDS, made_store
from tests.timetable.instants import moment

if TYPE_CHECKING:
    from collections.abc import Callable

NOON = moment("2026-04-02T12:00Z")


@pytest.fixture
def clock():
    return ManualClock(to_microseconds(NOON))


@pytest.fixture(params=KINDS)
def store(request, clock, tmp_path):
    kept = made_store(request.param, tmp_path, clock)
    yield kept
    kept.close()


@pytest.fixture
def app(store, clock):
    return duly.App(store=store, clock=clock, draws=SeededDraws(), actor="ada")


@pytest.fixture(scope="session")
def databases(reused):
    """Databases that are emptied between tests."""
    return reused(with_schema)


@pytest.fixture(params=[*KINDS, "postgres"])
def kept(request, tmp_path) -> Any:
    """A store of each kind, and its clock."""
    if request.param == "postgres":
        databases = request.getfixturevalue("databases")
        lent = databases.take()
        with lent.clock() as clock, lent.store(clock) as store:
            yield store, clock
        databases.give_back(lent)
        return
    manual = ManualClock()
    store = made_store(request.param, tmp_path, manual)
    yield store, manual
    store.close()


@dataclass(frozen=True)
class KnownTasks:
    """The tasks that most tests use."""

    remind: Any
    report: Any


@pytest.fixture
def tasks(app):
    @app.task(queue="mail")
    def remind(class_id: int, note: str = "") -> None:
        """Remind somebody of a class."""

    @app.task
    def report(run: duly.Run) -> None:
        """Write a report."""

    return KnownTasks(remind, report)


def everything(app: duly.App) -> dict[str, Any]:
    """Return all that a store holds, so that a test can show that nothing was written."""
    return {
        "schedules": [one.to_json() for one in app.schedules.list(include_deleted=True)],
        "delayed": [one.to_json() for one in app.delayed.list()],
        "runs": [one.to_json() for one in app.runs.list()],
        "audit": app.store.list_audit(AuditFilter()),
        "tasks": app.store.list_tasks(),
    }


def refused(app: duly.App, kind: type[BaseException], order: Callable[[], object]) -> str:
    """Carry out an order that must be refused; return what it says. Nothing may be half made."""
    before = everything(app)
    with pytest.raises(kind) as caught:
        order()

    assert before == everything(app)
    return str(caught.value)


def fire(app: duly.App, clock: ManualClock) -> None:
    """Let a dispatcher fire all that is due by now."""
    dispatcher = app.dispatcher()
    for _ in range(50):
        wanted_us = dispatcher.tick()
        if app.status().overdue == 0 and app.status().owed == 0:
            break
        clock.advance(max(0, min(wanted_us - clock.monotonic_us(), 1_000_000)))
    dispatcher.stop()


def work(app: duly.App, clock: ManualClock) -> None:
    """Let a dispatcher and a worker do all that is to be done by now, in this thread."""
    dispatcher = app.dispatcher()
    executors = dict.fromkeys(TaskKind, InlineExecutor())
    worker = Worker(app.store, clock, app.catalogue(), executors)
    for _ in range(50):
        wanted_us = min(dispatcher.tick(), worker.tick())
        status = app.status()
        queued = sum(status.queues[one] for one in status.queues if one not in status.paused_queues)
        if not (status.overdue or status.owed or status.running or queued):
            break
        clock.advance(max(0, min(wanted_us - clock.monotonic_us(), 1_000_000)))
    worker.stop()
    dispatcher.stop()
