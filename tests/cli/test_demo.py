"""`duly demo` as processes: it can be looked at and harmed, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from duly.app import App
from duly.cli.demo import has_desktop
from duly.demo.app import PAYMENTS, Controls
from duly.demo.processes import LEASE_VARIABLE
from duly.errors import Conflict
from tests.cli.duly_command import duly as command
from tests.forked_commands import bound, is_running
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from duly.app.demo_controls import KilledWorker
    from duly.client.run_view import Run
    from duly.client.status import MemberStatus

ResultT = TypeVar("ResultT")

LIMIT_SECONDS = 200
"""Generous: on a busy machine two weeks of history take their time."""
LOOK_EVERY_S = 0.2
LEASE_SECONDS = 10
"""Longer than a worker is late with a beat on a busy machine, and not long to wait for its end."""
SHOWN = {"ambiguous-runs", "queue-paused", "dead-letters", "destination-down"}
"""What the doctor finds, whatever it finds about the machine or a worker that is late."""
ON_A_TERMINAL = """
import fcntl, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from duly.cli.main import main
main(["demo"])
"""
pytestmark = pytest.mark.timeout(400)


@dataclass
class Demo:
    """A demo that was started, and what it has said of itself."""

    process: subprocess.Popen[str]
    folder: Path
    url: str = ""
    code: str = ""
    store: str = ""

    @property
    def app(self) -> App:
        return App(self.store)

    def ask(self, method: str, path: str, **options: Any) -> tuple[int, Any, dict[str, str]]:
        """Ask the server, and return status, body and headers."""
        host = self.url.removeprefix("http://")
        asked = HTTPConnection(host, timeout=60)
        headers = {
            "Content-Type": "application/json",
            "Origin": self.url,
            **options.get("headers", {}),
        }
        body = json.dumps(options["body"]) if "body" in options else None
        asked.request(method, path, body, headers)
        answer = asked.getresponse()
        text, told = answer.read().decode(), dict(answer.getheaders())
        asked.close()
        is_json = told.get("content-type", "").startswith("application/json")
        return answer.status, json.loads(text) if is_json else text, told


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """Return a demo that runs, for all tests that look at one."""
    folder = tmp_path_factory.mktemp("demo")
    running = until_ready(started(folder, "--no-open"))
    with running.app as app:
        until("a run has succeeded", lambda: succeeded(app))
    yield running
    if running.process.poll() is None:
        running.process.kill()
        running.process.communicate()


def test_the_page_is_there_and_the_code_opens_it_once(demo: Demo):
    ready, _, _ = demo.ask("GET", "/readyz")
    opened, _, headers = demo.ask("POST", "/api/v1/session", body={"code": demo.code})
    again, _, _ = demo.ask("POST", "/api/v1/session", body={"code": demo.code})
    cookie = headers["set-cookie"].partition(";")[0]
    seen, status, _ = demo.ask("GET", "/api/v1/status", headers={"Cookie": cookie})

    assert (200, 200, 401) == (ready, opened, again)
    assert 200 == seen
    assert 0 == status["early_fires"]


def test_a_fleet_is_at_work_every_few_seconds(demo: Demo):
    """A dispatcher, two workers, and runs that say how far they are."""
    with demo.app as app:
        pulses = until("two have succeeded", lambda: succeeded(app)[1:])
        until("all are alive", lambda: ["dispatcher", "worker", "worker"] == sorted(alive(app)))

    assert pulses[0].last_progress is not None


def test_the_doctor_finds_what_the_demo_shows(demo: Demo):
    """And `duly status` says the same."""
    exit_code, doctor = duly("doctor", "--json", demo=demo)
    _, said = duly("status", demo=demo)

    assert (1, set()) == (exit_code, SHOWN - {one["code"] for one in json.loads(doctor)["checks"]})
    # One more is, if a worker was declared dead in the middle of a payment.
    assert re.search(r"\b(1 run is|2 runs are) in doubt", said), said
    assert "queue bulk is paused by demo operator" in said
    assert "runs wait for partner-api.demo to be up again" in said


def test_a_worker_killed_in_a_payment_leaves_a_run_for_the_inbox_and_a_line_in_the_audit_trail(
    demo: Demo,
):
    """The guided card, by the controls that the console has."""
    with demo.app as app:
        controls = Controls(app, lambda: [one.process for one in app.workers.list()])
        killed = until("a worker is killed", lambda: kill(app, controls))
        until("its run is in doubt", lambda: app.runs.get(killed.run).state == "ambiguous")
        item = app.inbox.get(killed.run)
        seen = controls.state()
        settled = app.inbox.reconcile(killed.run, is_done=True, reason="the bank says so")
        [entry] = [
            one for one in app.audit.page(action="run.settled").items if str(killed.run) in str(one)
        ]
        until("there are two workers again", lambda: len(living_workers(app)) == 2)

    assert not is_running(killed.process)
    assert (PAYMENTS, "lost") == (item.run.schedule, item.run.reason)
    assert ["unknown"] == [one.state for one in item.effects]
    assert (killed.run,) == seen.in_doubt
    assert killed == seen.killed
    assert "demo data" == seen.to_json()["label"]
    assert "succeeded" == settled.state
    assert "the bank says so" == entry.reason


def test_the_controls_kill_no_process_but_the_demos_own(demo: Demo):
    with demo.app as app:
        controls = Controls(app, lambda: ())

        assert controls.state().victim is None
        with pytest.raises(Conflict, match="is not under way just now; try again"):
            controls.kill_worker()


def test_a_terminal_that_is_closed_ends_all_of_it(demo: Demo):
    """Processes and the file are gone; and it says how to go on. The last of this demo."""
    processes = processes_of(demo)
    demo.process.send_signal(signal.SIGHUP)
    out, err = demo.process.communicate(timeout=LIMIT_SECONDS)

    assert 0 == demo.process.returncode, err
    assert "" == err
    assert [] == [one for one in processes if is_running(one)]
    assert [] == list(demo.folder.iterdir())
    assert "nothing of it is left" in out
    assert "duly init" in out
    assert "@app.schedule(" in out


@pytest.mark.thorough
def test_a_demo_that_is_killed_on_the_spot_leaves_nothing_behind_either(tmp_path: Path):
    """Workers end with it, and the janitor clears up."""
    running = until_ready(started(tmp_path))
    processes = processes_of(running)
    running.process.kill()
    running.process.communicate(timeout=LIMIT_SECONDS)

    until("all have ended", lambda: not any(is_running(one) for one in processes))
    until("the folder is gone", lambda: not any(tmp_path.iterdir()))


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_demo_that_is_ended_while_its_history_is_made_leaves_nothing_behind(
    tmp_path: Path, number: signal.Signals
):
    running = started(tmp_path)
    assert running.process.stdout is not None
    for line in running.process.stdout:
        if line.startswith("Making"):
            break
    until("history is written", lambda: any(tmp_path.glob("*/promises.db")))
    running.process.send_signal(number)
    _, err = running.process.communicate(timeout=LIMIT_SECONDS)

    assert 130 == running.process.returncode
    assert "" == err
    assert [] == list(tmp_path.iterdir())


@pytest.mark.thorough
def test_a_terminal_that_is_closed_while_the_history_is_made_ends_it_too(tmp_path: Path):
    """Whatever it would still print nobody can read."""
    ours, theirs = pty.openpty()
    running = subprocess.Popen(
        bound(sys.executable, "-c", ON_A_TERMINAL),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    os.close(theirs)
    until("history is written", lambda: any(tmp_path.glob("*/promises.db")))
    os.close(ours)
    running.wait(LIMIT_SECONDS)

    until("the folder is gone", lambda: not any(tmp_path.iterdir()))


@pytest.mark.parametrize(
    ("is_terminal", "variables", "expected"),
    [
        (True, {"DISPLAY": ":0"}, True),
        (True, {"WAYLAND_DISPLAY": "wayland-0"}, True),
        (False, {"DISPLAY": ":0"}, False),
        (True, {}, False),
    ],
)
def test_a_browser_is_opened_only_where_somebody_sits_before_a_screen(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool, variables: dict[str, str], expected: bool
):
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    monkeypatch.setattr(sys, "platform", "linux")

    assert expected is has_desktop()


def test_a_port_that_is_taken_is_refused_before_anything_is_made(tmp_path: Path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused = started(tmp_path, "--port", str(port))
        out, err = refused.process.communicate(timeout=LIMIT_SECONDS)

    assert 2 == refused.process.returncode
    assert f"port: '127.0.0.1:{port}' can't be listened on" in err
    assert "" == out


def test_an_application_has_controls_only_in_a_demo():
    """By that a page knows; and those who speak for somebody have what it has."""
    with App("memory:") as app:
        nothing = app.demo
        app.demo = Controls(app, lambda: ())
        within = app.within(tenant="default", actor="somebody")

    assert nothing is None
    assert app.demo is within.demo


@pytest.mark.thorough
def test_a_demo_ends_by_itself_and_keeps_a_file_if_it_is_told(tmp_path: Path):
    (tmp_path / "temporary").mkdir()
    kept = tmp_path / "kept.db"
    running = until_ready(started(tmp_path / "temporary", "--keep", str(kept), "--for", "1s"))
    out, err = running.process.communicate(timeout=LIMIT_SECONDS)
    again = started(tmp_path / "temporary", "--keep", str(kept))
    _, refused = again.process.communicate(timeout=LIMIT_SECONDS)

    assert (0, "") == (running.process.returncode, err)
    assert f"its promises are kept in {kept}" in out
    assert [] == list((tmp_path / "temporary").iterdir())
    with App(f"sqlite:///{kept}") as app:
        assert [] == app.check()
        assert [] == [one for one in app.status().members if one.is_alive]
    assert 4 == again.process.returncode
    assert f"keep: '{kept}' is there already; name a file that is not" in refused


def started(folder: Path, *words: str) -> Demo:
    """Start a demo whose file is in that folder; nobody sits before a screen."""
    variables = {**os.environ, "TMPDIR": str(folder), LEASE_VARIABLE: str(LEASE_SECONDS)}
    variables.pop("DULY_URL", None)
    process = subprocess.Popen(
        bound(sys.executable, "-m", "duly", "demo", *words),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=variables,
    )
    return Demo(process, folder)


def until_ready(demo: Demo) -> Demo:
    """Read what a demo says, until it says that it is there."""
    assert demo.process.stdout is not None
    said = ""
    for line in demo.process.stdout:
        said += line
        if line.startswith("Ctrl-C"):
            break
    else:
        pytest.fail(f"it ended: {said}{demo.process.communicate()}")
    found = re.search(r"Look at it .*:\n  (http://127\.0\.0\.1:\d+)/enter#(\S+)", said)
    store = re.search(r"--url (\S+) status", said)
    assert "not for production" in said
    assert found is not None
    assert store is not None
    demo.url, demo.code, demo.store = found.group(1), found.group(2), store.group(1)
    return demo


def processes_of(demo: Demo) -> list[int]:
    """Return a demo's own process and its children: two workers and the janitor."""

    def children() -> list[int]:
        tasks = Path(f"/proc/{demo.process.pid}/task").glob("*/children")
        found = [int(one) for task in tasks for one in task.read_text(encoding="utf-8").split()]
        return found if len(found) == 3 else []

    with demo.app as app:
        until("two workers are alive", lambda: len(living_workers(app)) == 2)
    return [demo.process.pid, *until("there are three children", children)]


def living_workers(app: App) -> list[MemberStatus]:
    return [one for one in app.workers.list() if one.is_alive]


def succeeded(app: App) -> list[Run]:
    return app.runs.list(schedule="pulse", state="succeeded", limit=5)


def alive(app: App) -> list[str]:
    """Return of what kind each member is that is alive."""
    return [one.kind for one in app.status().members if one.is_alive]


def kill(app: App, controls: Controls) -> KilledWorker | None:
    """Kill who is in the middle of a payment, if anybody is.

    A worker that a busy machine holds up for longer than its lease leaves one in doubt, too, and
    there is no other before somebody has looked.
    """
    with suppress(Conflict):
        return controls.kill_worker()
    for run in controls.state().in_doubt:
        app.inbox.reconcile(run, is_done=True, reason="the machine is busy")
    return None


def duly(*words: str, demo: Demo) -> tuple[int, str]:
    """Run a command on the store of a demo; return its exit code and its output."""
    done = command(*words, DULY_URL=demo.store)
    return done.status, done.out


def until(what: str, condition: Callable[[], ResultT | None]) -> ResultT:
    found = wait_until(what, condition, LIMIT_SECONDS, every=LOOK_EVERY_S)
    assert found is not None
    return found
