"""A server ends within seconds of being told to, whatever its threads are at."""

from __future__ import annotations

import http.client
import os
import re
import signal
import threading
from contextlib import closing, suppress
from typing import TYPE_CHECKING

import pytest

import duly
from tests.cli.test_alerts import running
from tests.waiting import LIMIT_S, read_line, wait_until

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from tests.cli.duly_command import Workplace

LOOKERS = 3
STUCK_SECONDS = 2
NEVER_SECONDS = 600
"""How long a server may take to end before its process is ended: that shows in its exit code."""
PROGRAM = """
import os
import threading
from pathlib import Path

import duly
from duly.api import server as serving
from duly.cli import services as server
from duly.store.postgres import PostgresStore
from duly.store.sqlite import SqliteStore

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
FOREVER = ENDLESS + "SELECT count(nap(i)) FROM n"


def nap(_):
    threading.Event().wait(0.01)  # so that others of this machine have it meanwhile


def told():
    with Path("told").open("a") as file:
        file.write("x")


class SlowFile(SqliteStore):
    def search_audit(self, command):
        with self._connections.read() as look:
            look.connection.create_scalar_function("nap", nap, 1)
            told()
            return look.connection.execute(FOREVER).fetchone()


class SlowDatabase(PostgresStore):
    def search_audit(self, command):
        with self._connections.read() as look:
            told()
            return look.session.rows("SELECT pg_sleep(600)")


class StuckFile(SqliteStore):
    def search_audit(self, command):
        told()
        threading.Event().wait()


serving.STOP_SECONDS = 1
server.END_SECONDS_MAX = int(os.environ["END_SECONDS"])
place = os.environ["PLACE"]
stores = {"sqlite": SlowFile, "postgres": SlowDatabase, "stuck": StuckFile}
app = duly.App(store=stores[os.environ["KIND"]](place))
"""


def ask(port: int, secret: str, path: str) -> None:
    """Ask, and wait for an answer that may never come."""
    with (
        closing(http.client.HTTPConnection("127.0.0.1", port)) as connection,
        suppress(OSError, http.client.HTTPException),
    ):
        connection.request("GET", path, headers={"Authorization": f"Bearer {secret}"})
        connection.getresponse().read()


def place_of(kind: str, folder: Path, request: pytest.FixtureRequest) -> tuple[str, str]:
    """Return where a store is, for its class and for an application."""
    if kind == "postgres":
        url = request.getfixturevalue("database")
        return url, url
    path = str(folder / "slow.db")
    return path, f"sqlite:///{path}"


def end_while_reading(
    place: Workplace,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    command: str = "server",
) -> tuple[subprocess.Popen[str], str]:
    """Stop a server whose threads read without an end; return its process and its errors."""
    (place.folder / "slow.py").write_text(PROGRAM)
    store, url = place_of(kind, place.folder, request)
    with duly.App(url) as app:
        secret = app.tokens.create("anna", role="admin", tenant="*").text
    monkeypatch.setenv("KIND", kind)
    monkeypatch.setenv("PLACE", store)
    monkeypatch.setenv("END_SECONDS", str(STUCK_SECONDS if kind == "stuck" else NEVER_SECONDS))
    told = place.folder / "told"
    with running(place, command, "--app=slow.py:app", "--port=0") as process:
        port = port_of(process)
        lookers = [
            threading.Thread(target=ask, args=(port, secret, path), daemon=True)
            for path in ["/api/v1/audit"] * LOOKERS + ["/api/v1/events"]
        ]
        for one in lookers:
            one.start()
        wait_until("all threads read", lambda: told.exists() and len(told.read_text()) >= LOOKERS)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=LIMIT_S)
        for one in lookers:
            one.join(LIMIT_S)
        return process, err


def port_of(process: subprocess.Popen[str]) -> int:
    """Read where a server listens, which it tells once it can be reached."""
    listening = re.compile(r" at http://127\.0\.0\.1:(\d+)")
    while not (found := listening.search(read_line(process, process.stderr))):
        pass
    return int(found[1])


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_reads_that_take_too_long_are_broken_off(place, request, monkeypatch, kind):
    """Requests have some seconds; then the store lets go of who reads, and all is over."""
    process, err = end_while_reading(place, request, monkeypatch, kind)

    assert 0 == process.returncode, err
    assert "stopped; requests that took too long were broken off" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_the_console_beside_what_runs_keeps_no_process_either(place, request, monkeypatch, kind):
    """`duly dev` ends in good order, its workers first, and then who reads a page."""
    process, err = end_while_reading(place, request, monkeypatch, kind, "dev")

    assert 0 == process.returncode, err
    assert "stopped; what was promised is kept" in err
    assert "Traceback" not in err


def test_a_thread_that_can_not_be_stopped_does_not_keep_the_process(place, request, monkeypatch):
    """Ended as by a crash, which loses nothing that was acknowledged."""
    process, err = end_while_reading(place, request, monkeypatch, "stuck")

    assert 1 == process.returncode, err
    assert f"not ended within {STUCK_SECONDS} seconds" in err
    with duly.App(f"sqlite:///{os.environ['PLACE']}") as app:
        assert ["anna"] == [one.name for one in app.tokens.list()]
