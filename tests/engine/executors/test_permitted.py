"""Commands that a worker may not run are left to one that may."""

from __future__ import annotations

import duly
from duly.app.application import PermittedTasks
from duly.app.services import WorkerOptions, make_worker
from duly.telemetry import CommandsLeftOut, Event


def an_app(path: str = "memory:") -> duly.App:
    app = duly.App(path)
    app.task(name="hello")(lambda: None)
    app.command("backup", ["true"])
    app.command("sweep", ["true"])
    return app


class Heard:
    """Keeps what is told."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def emit(self, event: Event) -> None:
        self.events.append(event)


def test_a_command_that_is_not_allowed_is_nothing_that_the_worker_knows():
    tasks = PermittedTasks(an_app().catalogue(), frozenset({"sweep"}))

    assert ["hello", "sweep"] == tasks.names()
    assert tasks.find("backup") is None
    assert ["backup"] == tasks.left_out()


def test_all_are_known_where_all_are_allowed():
    assert [] == PermittedTasks(an_app().catalogue(), None).left_out()


def test_a_worker_says_which_commands_it_leaves_out():
    """Whoever started it without leave hears of it at once."""
    heard = Heard()
    make_worker(an_app(), WorkerOptions(allow_commands=False), heard)

    (event,) = [one for one in heard.events if isinstance(one, CommandsLeftOut)]
    assert ("backup", "sweep") == event.tasks


def test_a_worker_without_leave_buries_no_command_that_another_may_run(tmp_path):
    """Two workers on one queue, and only one of them may."""
    app = an_app(f"sqlite:///{tmp_path / 'promises.db'}")
    careful = make_worker(app, WorkerOptions(allow_commands=False))
    allowed = make_worker(app, WorkerOptions(allow_commands=["backup"]))
    allowed.tick()
    run = app.enqueue(app.call("backup"))
    careful.tick()
    careful.tick()
    state = app.runs.get(run.id).state
    careful.stop()
    allowed.stop()

    assert "queued" == state
