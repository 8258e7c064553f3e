"""docs/how-to/find-and-resolve.md is lived through: from an empty folder to a resolved run."""

from __future__ import annotations

import os
import re
import shlex
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

from tests.cli.duly_command import duly
from tests.forked_commands import ROOT, start
from tests.waiting import LIMIT_S, WaitedTooLongError, wait_until

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

LOOK_EVERY_S = 2
PAGE = (ROOT / "docs" / "how-to" / "find-and-resolve.md").read_text("utf-8")
BLOCK = re.compile(r"```(console|python)\n(.+?)```", re.DOTALL)
ORDER = re.compile(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)


class Session:
    """A terminal in which somebody types what the page says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.variables = {"DULY_APP": "", "DULY_URL": "", "DULY_WIDE": "1"}
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
        said = self.type(line)

        def fits_now() -> bool:
            nonlocal said
            said = self.type(line)
            return fits(shown).fullmatch(said) is not None

        if line == "duly status" and not fits(shown).fullmatch(said):
            with suppress(WaitedTooLongError):
                wait_until(f"$ {line} prints what the page shows", fits_now, every=LOOK_EVERY_S)
        return said

    def _start(self, words: list[str]) -> subprocess.Popen[bytes]:
        nothing = os.open(os.devnull, os.O_RDWR)
        variables = {**os.environ, **self.variables}
        return start(["duly", *words], variables, self.folder, [nothing] * 3)

    def close(self) -> None:
        for process in self.started:
            process.send_signal(signal.SIGTERM)
            process.wait(LIMIT_S)


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
