"""Real workers, real signals: every run ends as it should, and the record says how.

`make test` plays one of these; its rules have cheaper tests in tests/engine and tests/engine/executors.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

import duly
from duly.domain.ids import RunId
from tests.cli.duly_command import duly as duly_command
from tests.forked_commands import TREE, bound
from tests.system.fleet import Process
from tests.system.worker_program import PATIENT_SECONDS, PROGRAM
from tests.system.worker_tasks import app as tasks
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

APP = f"{Path(__file__).with_name('worker_tasks.py')}:app"
LIMIT_SECONDS = 120.0

pytestmark = pytest.mark.timeout(600)


class Place:
    """A store with a dispatcher, workers on it, and the marks that tasks leave."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.marks = folder / "marks"
        self.app = duly.App(url)
        self.processes: list[Process] = []
        self.url = url
        os.environ["DULY_TEST_MARKS"] = str(self.marks)
        self.app.store.now()

    def dispatcher(self) -> Process:
        return self.start("dispatcher")

    def worker(self, *options: str) -> Process:
        return self.start("worker", "--app", APP, "--log-runs", *options)

    def patient_worker(self) -> Process:
        """Start one that does not lose its lease, however busy the machine is."""
        options = ("--app", APP, "--log-runs", "--no-supervisor")
        return self.start("worker", *options, program=(PROGRAM, str(PATIENT_SECONDS)))

    def start(self, role: str, *options: str, program: tuple[str, ...] = ("duly",)) -> Process:
        arguments = [*program, role, "--json", "--url", self.url, *options]
        log = self.folder / f"{role}-{len(self.processes)}.log"
        # On a file as a person starts it, with an interpreter of its own.
        is_fresh = self.url.startswith("sqlite")
        self.processes.append(Process(arguments, log, is_fresh=is_fresh))
        return self.processes[-1]

    def enqueue(self, task: str) -> UUID:
        known = tasks.tasks.find(task)
        assert known is not None, task
        return self.app.enqueue(known).id

    def marked(self, word: str) -> list[tuple[int, int]]:
        """Return which attempts were there, in which processes."""
        if not self.marks.exists():
            return []
        lines = [line.split() for line in self.marks.read_text(encoding="utf-8").splitlines()]
        return [(int(number), int(process)) for said, number, process in lines if said == word]

    def state(self, run: UUID) -> str:
        return str(self.app.runs.get(run).state)

    def wait_for(self, run: UUID, state: str) -> None:
        wait_until(f"the run is {state}", lambda: self.state(run) == state, LIMIT_SECONDS)

    def wait_marked(self, word: str) -> None:
        """Wait until a task has begun; a process that ends instead is shown."""
        wait_until(f"{word} has begun", lambda: self.marked(word) or self.has_ended())

        assert self.marked(word), [one.log.read_text(encoding="utf-8") for one in self.processes]

    def has_ended(self) -> bool:
        return not all(process.is_running for process in self.processes)

    def attempts(self, run: UUID) -> list[tuple[int | None, str, str | None]]:
        """Return each claim's number, state and reason, the oldest first."""
        found = self.app.store.list_attempts(RunId(run.bytes))
        told = sorted(found, key=lambda one: one.fence)
        return [(one.number, str(one.state), one.reason) for one in told]

    def close(self) -> None:
        for process in self.processes:
            if process.is_running:
                process.kill()
            assert process.popen.stdin is not None, "piped"
            process.popen.stdin.close()
        self.app.close()


ON_A_FILE = pytest.mark.parametrize("place", ["sqlite"], indirect=True)
"""For what processes do to each other, wherever their store is."""


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.thorough)])
def place(request: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setenv("DULY_TEST_MARKS", "")
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'promises.db'}"
    else:
        url = request.getfixturevalue("database")
        assert 0 == duly_command("db", "migrate", "--url", url).status
    made = Place(tmp_path, url)
    yield made
    made.close()


@pytest.mark.thorough
def test_a_run_is_executed_and_a_worker_that_is_told_to_stop_ends(place: Place):
    worker = place.worker()
    run = place.enqueue("quick")
    place.wait_for(run, "succeeded")

    assert 0 == worker.terminate()
    assert [(1, "succeeded", None)] == place.attempts(run)
    assert '"done"' == json.dumps(place.app.runs.get(run).result)
    assert 1 == len(place.marked("quick"))


@pytest.mark.thorough
@ON_A_FILE
def test_a_worker_can_be_put_into_quarantine_and_drained(place: Place):
    """By its number; the supervisor of one that was drained ends with it."""
    worker = place.worker()
    wait_until("it has joined", place.app.workers.list)
    (member,) = place.app.workers.list()
    place.app.workers.quarantine(member.id, reason="it smokes")
    run = place.enqueue("quick")

    assert ("queued", "quarantined") == (place.state(run), _standing(place))
    place.app.workers.release(member.id)
    place.wait_for(run, "succeeded")
    place.app.workers.drain(member.id, reason="it is needed elsewhere")
    assert 0 == worker.popen.wait(LIMIT_SECONDS)
    assert [(1, "succeeded", None)] == place.attempts(run)


def _standing(place: Place) -> str | None:
    return place.app.workers.list()[0].standing


def test_what_a_killed_worker_held_is_done_by_another(place: Place):
    """After the lease it is settled as lost, which is charged, and tried again."""
    place.dispatcher()
    victim = place.worker("--no-supervisor")
    run = place.enqueue("long_at_first")
    place.wait_marked("long")
    victim.kill()
    other = place.patient_worker()
    place.wait_for(run, "succeeded")

    assert [(1, "lost", "lost"), (2, "succeeded", None)] == place.attempts(run)
    assert [1, 2] == [number for number, _process in place.marked("long")]
    assert 0 == other.terminate()


@pytest.mark.thorough
def test_a_worker_that_is_told_to_stop_gives_back_what_does_not_finish(place: Place):
    """It costs the run nothing, and the next worker has it at once."""
    worker = place.worker("--no-supervisor", "--grace", "0s")
    run = place.enqueue("patient")
    place.wait_marked("patient")
    status = worker.terminate()
    after = place.state(run), place.app.store.get_run(RunId(run.bytes))
    place.worker("--no-supervisor")
    place.wait_for(run, "succeeded")

    assert (1, "queued") == (status, after[0])
    assert after[1] is not None
    assert 0 == after[1].tries.charged
    assert [(1, "given-back", "shutdown"), (2, "succeeded", None)] == place.attempts(run)


@pytest.mark.thorough
@ON_A_FILE
def test_a_second_signal_gives_back_at_once(place: Place):
    """Whoever is in a hurry does not wait for the grace."""
    worker = place.worker("--grace", "1h")
    run = place.enqueue("patient")
    place.wait_marked("patient")
    worker.send(signal.SIGTERM)
    wait_until("it stops", lambda: worker.count("worker-draining"))
    worker.send(signal.SIGTERM)

    assert 1 == worker.popen.wait(LIMIT_SECONDS)
    assert "queued" == place.state(run)


@pytest.mark.thorough
@ON_A_FILE
def test_a_task_that_aborts_in_its_own_process_uses_its_budget_and_no_more(place: Place):
    """Each attempt is settled by how it ended; then the run is among the dead letters."""
    place.dispatcher()
    worker = place.worker("--no-supervisor")
    run = place.enqueue("aborting_alone")
    place.wait_for(run, "dead")

    assert [(number, "failed", "killed") for number in (1, 2, 3)] == place.attempts(run)
    assert [1, 2, 3] == [number for number, _process in place.marked("aborting")]
    assert 0 == worker.terminate()


@pytest.mark.thorough
def test_a_task_that_kills_its_worker_is_settled_and_others_go_on(place: Place):
    """A crash costs the worker's process and nothing else; the supervisor replaces it."""
    dispatcher = place.dispatcher()
    worker = place.worker()
    deadly = place.enqueue("aborting_worker")
    wait_until("it crashed", lambda: worker.count("worker-process-crashed"))
    harmless = place.enqueue("quick")
    place.wait_for(harmless, "succeeded")
    place.wait_for(deadly, "dead")
    crashed = [one for one in worker.events() if one["event"] == "worker-process-crashed"]

    assert ["ended by SIGABRT"] == [one["how"] for one in crashed]
    assert [(1, "lost", "lost")] == place.attempts(deadly)
    assert 1 == len(place.marked("aborting"))
    assert dispatcher.is_running
    assert 0 == worker.terminate()


@pytest.mark.thorough
@ON_A_FILE
def test_a_thread_that_ignores_its_time_out_costs_its_worker_and_not_its_run(place: Place):
    """Settled as timed out, the slot counted as leaked, and the worker replaced."""
    place.dispatcher()
    worker = place.worker("--slots", "1")
    run = place.enqueue("deaf_at_first")
    place.wait_for(run, "succeeded")
    (_, first), (_, second) = place.marked("deaf")

    assert [(1, "timed-out", "timeout"), (2, "succeeded", None)] == place.attempts(run)
    assert first != second
    assert 1 == worker.count("slot-leaked")
    assert 1 == worker.count("worker-recycling")
    assert 0 == worker.count("worker-process-crashed")
    assert 0 == worker.terminate()


SCRIPT = """
import os, pathlib
import duly

app = duly.App({url!r})

@app.task(retry=duly.Retry(attempts=1))
def once() -> str:
    return "done"

if __name__ == "__main__":
    with open("started", "a") as started:
        started.write("x")
    app.enqueue(once)
    raise SystemExit(app.run())
"""


@pytest.mark.thorough
@ON_A_FILE
def test_a_script_runs_everything_and_its_main_block_once(place: Place):
    """`app.run()` has a dispatcher here and a supervised worker that imports the script."""
    script = place.folder / "my tasks.py"
    script.write_text(SCRIPT.format(url=place.url), encoding="utf-8")
    with (place.folder / "script.log").open("wb") as log:
        program = subprocess.Popen(
            bound(sys.executable, str(script)),
            cwd=place.folder,
            env={**os.environ, "PYTHONPATH": TREE},
            stderr=log,
        )
    try:
        wait_until("the run is there", place.app.runs.list)
        run = place.app.runs.list()[0].id
        place.wait_for(run, "succeeded")
        program.send_signal(signal.SIGINT)

        assert 0 == program.wait(LIMIT_SECONDS)
    finally:
        program.kill()
        program.wait()
    told = (place.folder / "script.log").read_text(encoding="utf-8")
    assert "1 task: once" in told
    assert "once succeeded in" in told
    assert "leases-acquired" not in told
    assert "x" == (place.folder / "started").read_text(encoding="utf-8")
    assert [] == [one for one in place.app.status().members if one.is_alive]


DJANGO = {
    "manage.py": """
import os, sys
sys.path.append(os.path.join(os.path.dirname(__file__), "parts"))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
from django.core.management import execute_from_command_line
execute_from_command_line(sys.argv)
""",
    "shop/__init__.py": "",
    "shop/settings.py": """
INSTALLED_APPS = ["django.contrib.contenttypes", "orders"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
""",
    "parts/orders/__init__.py": "",
    "parts/orders/models.py": """
from django.db import models
class Order(models.Model):
    paid = models.BooleanField(default=False)
""",
    "parts/orders/tasks.py": """
import duly
app = duly.App({url!r})
once = duly.Retry(attempts=1)
@app.task(kind="thread", retry=once)
def in_worker() -> str:
    from orders.models import Order
    return Order.__name__
@app.task(kind="process", retry=once)
def in_process() -> str:
    from orders.models import Order
    return Order.__name__
""",
    "parts/orders/management/commands/run_duly.py": """
from django.core.management.base import BaseCommand
from orders.tasks import app, in_process, in_worker
class Command(BaseCommand):
    def handle(self, *arguments, **options):
        app.enqueue_many([in_worker.bind(), in_process.bind()])
        raise SystemExit(app.run())
""",
}


@pytest.mark.thorough
@ON_A_FILE
def test_a_management_command_of_django_runs_everything(place: Place):
    """Workers and processes of tasks find its settings, models and folders, wherever it starts."""
    for name, text in DJANGO.items():
        file = place.folder / "site" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.replace("{url!r}", repr(place.url)), encoding="utf-8")
    with (place.folder / "django.log").open("wb") as log:
        program = subprocess.Popen(
            bound(sys.executable, str(place.folder / "site" / "manage.py"), "run_duly"),
            cwd=place.folder,
            env={**os.environ, "PYTHONPATH": TREE, "DULY_PORT": "0"},
            stderr=log,
        )
    try:
        runs = wait_until("the runs are there", place.app.runs.list)
        for run in runs:
            place.wait_for(run.id, "succeeded")
        program.send_signal(signal.SIGINT)

        assert 0 == program.wait(LIMIT_SECONDS)
    finally:
        program.kill()
        program.wait()
    assert {"in_worker", "in_process"} == {run.task for run in runs}


@pytest.mark.thorough
@ON_A_FILE
def test_everything_runs_in_one_place_for_development(place: Place):
    """The HTTP API too, when it is given a port; the first one comes in by a code."""
    development = place.start("dev", "--app", APP, "--port", "0")
    run = place.enqueue("quick")
    place.wait_for(run, "succeeded")
    wait_until("it is told", lambda: development.count("run-succeeded"))
    wait_until("it serves", lambda: development.count("serving"))
    told = {one["event"]: one for one in development.events()}
    with httpx.Client(base_url=f"{told['serving']['url']}/api/v1", timeout=LIMIT_SECONDS) as client:
        refused = client.get(f"/runs/{run}")
        client.post("/session", json={"code": told["serving"]["code"]}).raise_for_status()
        seen = client.get(f"/runs/{run}")

    assert (401, "succeeded") == (refused.status_code, seen.json()["state"])
    assert 0 == development.terminate()
    assert "stopped" == development.events()[-1]["event"]


@pytest.mark.thorough
@ON_A_FILE
def test_a_task_that_exits_its_worker_reaches_nobody_else(place: Place):
    """Whatever status it exits with, the dispatcher goes on, and another worker comes up."""
    development = place.start("dev", "--app", APP)
    deadly = place.enqueue("exiting")
    wait_until("it crashed", lambda: development.count("worker-process-crashed"))
    harmless = place.enqueue("quick")
    place.wait_for(harmless, "succeeded")
    place.wait_for(deadly, "dead")

    assert [(1, "lost", "lost")] == place.attempts(deadly)
    assert 0 == development.terminate()


@pytest.mark.thorough
@ON_A_FILE
@pytest.mark.parametrize("options", [(), ("--no-supervisor",)], ids=["supervised", "alone"])
def test_a_worker_ends_though_a_task_has_left_a_thread_behind(
    place: Place, options: tuple[str, ...]
):
    """What hangs in there ends with the process, and does not keep it."""
    worker = place.worker(*options)
    run = place.enqueue("hanging")
    place.wait_for(run, "dead")

    assert [(1, "timed-out", "timeout")] == place.attempts(run)
    assert 0 == worker.terminate()
