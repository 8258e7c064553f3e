"""Runs the real command in a process of its own, as a person or a script would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from duly.store.sqlite import SqliteStore
from tests.cli import command_server
from tests.forked_commands import start, start_and_read
from tests.store.sqlite.made_file import made_file
from tests.waiting import LIMIT_S, killed_at_limit

TASKS = """
from duly.app import App

app = App()

@app.task
def nightly_report() -> None: ...

@app.task(queue="mail")
def send_reminder(class_id: int, note: str = "") -> None: ...
"""


@dataclass(frozen=True)
class Answer:
    """What a command printed, and how it ended."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass(frozen=True)
class Workplace:
    """A folder with a program, tasks.py, and a store, promises.db; commands are run in it."""

    folder: Path

    @classmethod
    def made_in(cls, folder: Path) -> Workplace:
        (folder / "tasks.py").write_text(TASKS)
        made_file(folder / "promises.db")
        return cls(folder)

    @property
    def store(self) -> SqliteStore:
        """The store, for a test that plays the worker."""
        return SqliteStore(self.folder / "promises.db")

    @property
    def environment(self) -> dict[str, str]:
        variables = {"DULY_APP": "tasks:app", "DULY_URL": "sqlite:///promises.db"}
        return {**os.environ, **variables, "LOGNAME": "ada", "COLUMNS": "200"}

    def duly(self, *arguments: str, **environment: str) -> Answer:
        return duly(*arguments, folder=self.folder, **{**self.environment, **environment})

    def typed(self, keys: str, *arguments: str) -> Answer:
        """Run a command on a terminal of its own, on which somebody types."""
        keyboard, screen = os.openpty()
        environment = {**self.environment, "TERM": "xterm"}
        process = start(["duly", *arguments], environment, self.folder, [screen] * 3)
        os.write(keyboard, keys.encode())
        seen = bytearray()
        with killed_at_limit(process):
            with suppress(OSError):  # a terminal whose other end is closed
                while part := os.read(keyboard, 1 << 16):
                    seen += part
            os.close(keyboard)
            return Answer(process.wait(), seen.decode(), "")

    def python(self, program: str) -> None:
        """Run a program of the folder's owner."""
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=self.folder,
            env=self.environment,
            timeout=LIMIT_S,
            check=True,
        )

    def start(self, *arguments: str, has_input: bool = False) -> subprocess.Popen[str]:
        """Start a command that goes on until it is stopped, for example by Ctrl-C."""
        words = ["duly", *arguments]
        return start_and_read(words, self.environment, self.folder, has_input=has_input)


def duly(*arguments: str, folder: Path | None = None, **environment: str) -> Answer:
    """Run a command to its end, without input and without a terminal."""
    if command_server.is_forkable(environment):
        where = Path.cwd() if folder is None else folder
        return Answer(*command_server.run(arguments, where, environment, LIMIT_S))
    ended = subprocess.run(
        [sys.executable, "-m", "duly", *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=LIMIT_S,
        check=False,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        cwd=folder,
    )
    return Answer(ended.returncode, ended.stdout, ended.stderr)
