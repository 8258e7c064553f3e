"""The console beside what runs: `duly dev` and `app.run()` serve it, in real processes."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

import duly
from tests.forked_commands import bound
from tests.waiting import LIMIT_S, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.timeout(600)
PROGRAM = """
import duly

app = duly.App()

@app.task
def report() -> None: ...

if __name__ == "__main__":
    raise SystemExit(app.run())
"""
ROOT = Path(__file__).parents[2]


@contextmanager
def running(folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Run something in a folder with a program; end it as Ctrl-C would."""
    (folder / "tasks.py").write_text(PROGRAM)
    made = [sys.executable, "-m", "duly", "db", "migrate"]
    subprocess.run(made, cwd=folder, check=True, capture_output=True)
    with subprocess.Popen(
        bound(sys.executable, *words),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    ) as process:
        try:
            yield process
        finally:
            _end(process, folder)


def _end(process: subprocess.Popen[str], folder: Path) -> None:
    """Press Ctrl-C once a worker has joined: by then the program handles it."""
    with duly.App(f"sqlite:///{folder / 'duly.db'}") as app:

        def is_running() -> bool:
            return any(one.kind == "worker" for one in app.status().members)

        wait_until("a worker has joined", lambda: process.poll() is not None or is_running())
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
    try:
        process.communicate(timeout=LIMIT_S)
    finally:
        process.kill()
        process.wait()


def line_with(process: subprocess.Popen[str], text: str) -> str:
    """Read until a line holds a text."""
    assert process.stdout is not None
    seen = []
    for line in process.stdout:
        seen.append(line)
        if text in line:
            return line
    raise AssertionError("".join(seen))


@pytest.fixture
def taken_port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Hold a port, which is the default one of what is started."""
    with socket.create_server(("127.0.0.1", 0)) as held:
        port: int = held.getsockname()[1]
        monkeypatch.setenv("DULY_PORT", str(port))
        yield port


def test_dev_serves_the_console_and_its_address_opens_it_once(tmp_path):
    """The code behind the # begins a session, and only one."""
    with running(tmp_path, "-m", "duly", "dev", "--app=tasks:app", "--port=0", "--json") as dev:
        facts = json.loads(line_with(dev, '"serving"'))
        with httpx.Client(base_url=facts["url"], timeout=LIMIT_S) as client:
            stranger = client.get("/")
            entered = client.post("/enter", data={"secret": facts["code"]})
            shown = client.get("/")
            styles = [
                client.get(path) for path in re.findall(r'href="(/static/[^"]+)"', shown.text)
            ]
            again = httpx.post(
                f"{facts['url']}/enter", data={"secret": facts["code"]}, timeout=LIMIT_S
            )

    assert (303, 303, 200) == (stranger.status_code, entered.status_code, shown.status_code)
    assert "Overview" in shown.text
    assert len(styles) >= 5
    assert {200} == {one.status_code for one in styles}
    assert 401 == again.status_code
    assert re.fullmatch(r"http://127\.0\.0\.1:[1-9]\d*", facts["url"])
    assert facts["enter"] == f"{facts['url']}/enter#{facts['code']}"


def test_without_a_free_port_dev_goes_on_and_says_so_in_one_line(tmp_path, taken_port):
    """The console is not what the work waits for."""
    with running(tmp_path, "-m", "duly", "dev", "--app=tasks:app", "--json") as dev:
        facts = json.loads(line_with(dev, '"no-console"'))

        assert taken_port == facts["port"]
        assert dev.poll() is None


def test_a_port_that_was_named_and_is_taken_is_refused(tmp_path, taken_port):
    """Who names a port wants that one."""
    (tmp_path / "tasks.py").write_text(PROGRAM)
    words = ["-m", "duly", "dev", "--app=tasks:app", f"--port={taken_port}"]
    found = subprocess.run(
        [sys.executable, *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )

    assert 2 == found.returncode
    assert str(taken_port) in found.stderr


def test_a_program_that_runs_itself_goes_on_without_a_console(tmp_path, taken_port):
    """`app.run()` says it in its log, and works."""
    with running(tmp_path, "tasks.py") as program:
        line = line_with(program, "no console")
        assert f"Z warning: no console here: port {taken_port} is taken" in line
        assert f"duly dev --port {taken_port + 1}" in line
        assert program.poll() is None


def test_a_program_with_a_log_of_its_own_is_warned_once(tmp_path, taken_port):
    """Its log says by itself that it is a warning."""
    (tmp_path / "logged.py").write_text(
        f"import logging\nlogging.basicConfig(level='INFO')\n{PROGRAM}"
    )
    with running(tmp_path, "logged.py") as program:
        line = line_with(program, "no console")

    assert line.startswith(f"WARNING:duly:no console here: port {taken_port} is taken")


def test_a_program_with_a_log_of_its_own_serves_the_console(tmp_path, monkeypatch):
    """`app.run()` logs where the console is, as the program has set its log up."""
    (tmp_path / "logged.py").write_text(
        f"import logging\nlogging.basicConfig(level='INFO')\n{PROGRAM}"
    )
    monkeypatch.setenv("DULY_PORT", "0")
    with running(tmp_path, "logged.py") as program:
        address = re.findall(r"http://127\.0\.0\.1:\d+", line_with(program, "http://"))[0]

        assert 200 == httpx.get(f"{address}/healthz", timeout=LIMIT_S).status_code
