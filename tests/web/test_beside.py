"""The console beside what runs: `duly dev` and `app.run()` serve it, in real processes (U1, U3)."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import zipfile
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING

import httpx
import pytest

from duly.api.listening import PORT_DEFAULT
from tests.api.ports import SOON, free_port
from tests.forked_commands import bound

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.timeout(600)
END_SECONDS = 120
PRESSED_SECONDS = 15
LEAVE_SECONDS = 60
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
            _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    """Press Ctrl-C until it is heard: where nobody listens yet, it may be ignored for good."""
    for _ in range(END_SECONDS // PRESSED_SECONDS):
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=PRESSED_SECONDS)
            return
    process.kill()
    process.communicate()
    raise AssertionError(f"it has not ended within {END_SECONDS} s")


def line_with(process: subprocess.Popen[str], text: str) -> str:
    """Read until a line holds a text."""
    assert process.stdout is not None
    seen = []
    for line in process.stdout:
        seen.append(line)
        if text in line:
            return line
    raise AssertionError("".join(seen))


@contextmanager
def held_port() -> Iterator[None]:
    """Hold the usual port, one test at a time; a stranger who has it holds it as well as we.

    Unless they are about to leave, as other tests are that let a program take it.
    """
    with (Path(gettempdir()) / f"duly-{PORT_DEFAULT}-{os.getuid()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with socket.socket() as held:
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            for _ in range(LEAVE_SECONDS):
                with suppress(OSError):
                    held.bind(("127.0.0.1", PORT_DEFAULT))
                    held.listen()
                    break
                threading.Event().wait(1)
            yield


def test_dev_serves_the_console_and_its_address_opens_it_once(tmp_path):
    """U1, L1: the code behind the # begins a session, and only one."""
    port = free_port()
    with running(
        tmp_path, "-m", "duly", "dev", "--app=tasks:app", f"--port={port}", "--json"
    ) as dev:
        facts = json.loads(line_with(dev, '"serving"'))
        with httpx.Client(base_url=facts["url"], timeout=SOON) as client:
            stranger = client.get("/")
            entered = client.post("/enter", data={"secret": facts["code"]})
            shown = client.get("/")
            styles = [
                client.get(path) for path in re.findall(r'href="(/static/[^"]+)"', shown.text)
            ]
            again = httpx.post(
                f"{facts['url']}/enter", data={"secret": facts["code"]}, timeout=SOON
            )

    assert (303, 303, 200) == (stranger.status_code, entered.status_code, shown.status_code)
    assert "Overview" in shown.text
    assert len(styles) >= 5
    assert {200} == {one.status_code for one in styles}
    assert 401 == again.status_code
    assert facts["enter"] == f"http://127.0.0.1:{port}/enter#{facts['code']}"


def test_without_a_free_port_dev_goes_on_and_says_so_in_one_line(tmp_path):
    """U1: the console is not what the work waits for."""
    with held_port(), running(tmp_path, "-m", "duly", "dev", "--app=tasks:app", "--json") as dev:
        facts = json.loads(line_with(dev, '"no-console"'))

        assert PORT_DEFAULT == facts["port"]
        assert dev.poll() is None


def test_a_port_that_was_named_and_is_taken_is_refused(tmp_path):
    """L6: who names a port wants that one."""
    with held_port():
        (tmp_path / "tasks.py").write_text(PROGRAM)
        words = ["-m", "duly", "dev", "--app=tasks:app", f"--port={PORT_DEFAULT}"]
        found = subprocess.run(
            [sys.executable, *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=END_SECONDS,
        )

    assert 2 == found.returncode
    assert str(PORT_DEFAULT) in found.stderr


def test_a_program_that_runs_itself_goes_on_without_a_console(tmp_path):
    """I3: `app.run()` says it in its log, and works."""
    with held_port(), running(tmp_path, "tasks.py") as program:
        line = line_with(program, "no console")
        assert "warning: no console here: port 8420 is taken" in line
        assert "duly dev --port 8421" in line
        assert program.poll() is None


def test_what_is_installed_holds_every_template_and_static_file(tmp_path):
    """U3: a wheel and a clone behave alike."""
    words = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    held = set(zipfile.ZipFile(wheel).namelist())
    source = ROOT / "src"
    wanted = {
        one.relative_to(source).as_posix()
        for kind in ("templates", "static")
        for one in (source / "duly_web" / kind).rglob("*")
        if one.is_file()
    }

    assert len(wanted) > 20
    assert wanted <= held
