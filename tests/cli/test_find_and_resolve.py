"""docs/how-to/find-and-resolve.md is lived through: from an empty folder to a resolved run (U1, U4, E5)."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from pathlib import Path

from tests.cli.duly_command import LIMIT_SECONDS, duly
from tests.forked_commands import bound

LOOKS_MAX = 60
PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "find-and-resolve.md").read_text("utf-8")
BLOCK = re.compile(r"```(console|python)\n(.+?)```", re.DOTALL)
ORDER = re.compile(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)


class Session:
    """A terminal in which somebody types what the page says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.variables = {"DULY_APP": "", "DULY_URL": ""}
        self.started: list[subprocess.Popen[bytes]] = []

    def type(self, line: str) -> str:
        match shlex.split(line):
            case ["cd", name]:
                self.folder /= name
            case ["export", assignment]:
                name, _, value = assignment.partition("=")
                self.variables[name] = value
            case ["duly", *words, "&"]:
                self.started.append(self._start(words))
            case ["duly", *words]:
                answer = duly(*words, folder=self.folder, **self.variables)
                return answer.out or answer.err  # a note that nobody works yet depends on luck
            case other:
                raise AssertionError(f"nobody can type {other} here")
        return ""

    def type_until(self, line: str, shown: str) -> str:
        """Type it, and what only looks again, while an alert is open that is over at the next look."""
        said, pause = self.type(line), threading.Event()
        for _ in range(LOOKS_MAX):
            if line != "duly status" or fits(shown).fullmatch(said):
                break
            pause.wait(1)
            said = self.type(line)
        return said

    def _start(self, words: list[str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            bound(sys.executable, "-m", "duly", *words),
            cwd=self.folder,
            env={**os.environ, **self.variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def close(self) -> None:
        for process in self.started:
            process.send_signal(signal.SIGTERM)
            process.wait(LIMIT_SECONDS)


def fits(shown: str) -> re.Pattern[str]:
    """Return what output fits what a page shows: … stands for anything, alone also for lines."""
    lines = [
        r"(?:.*\n)*?" if line == "…" else ".*".join(map(re.escape, line.split("…"))) + r"\s*\n"
        for line in shown.splitlines()
    ]
    return re.compile("".join(lines))


def test_a_new_user_finds_understands_and_resolves_a_run_in_doubt(tmp_path: Path):
    session = Session(tmp_path)
    try:
        for kind, text in BLOCK.findall(PAGE):
            if kind == "python":
                (session.folder / "tasks.py").write_text(text, "utf-8")
                continue
            for line, shown in ORDER.findall(text):
                said = session.type_until(line, shown)

                assert fits(shown).fullmatch(said), f"$ {line}\n{said}"
    finally:
        session.close()
