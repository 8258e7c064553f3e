"""`duly completion` in the shells themselves: what is typed is completed."""

from __future__ import annotations

import os
import select
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.cli.duly_command import duly
from tests.required_programs import required_program
from tests.waiting import LIMIT_S

if TYPE_CHECKING:
    from pathlib import Path

TYPED = {
    "duly run at": "attempts",
    "duly status --wa": "--watch",
    "duly completion f": "fish",
    "duly alert sil": "silence",
    "duly schedule pause --mi": "--missed",
    "duly audit ver": "verify",
}
"""What somebody types before the key, and what must be offered."""


def test_fish_completes_commands_options_and_choices(tmp_path: Path):
    """Asked as fish asks itself."""
    fish = required_program("fish")
    script = tmp_path / "duly.fish"
    script.write_text(duly("completion", "fish").out)
    for typed, offered in TYPED.items():
        answer = subprocess.run(
            [fish, "--no-config", "-c", f"source {script}; complete -C '{typed}'"],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "HOME": str(tmp_path)},
        )

        assert offered in [line.partition("\t")[0] for line in answer.stdout.splitlines()], typed


class Zsh:
    """A zsh on a terminal of its own, with its system of completions."""

    def __init__(self, folder: Path, begin: str) -> None:
        zsh = required_program("zsh")
        self._seen = b""
        self._terminal, screen = os.openpty()
        self._process = subprocess.Popen(
            [zsh, "-f", "-i", "+m"],
            env={"HOME": str(folder), "TERM": "dumb", "COLUMNS": "200", "PATH": os.environ["PATH"]},
            stdin=screen,
            stdout=screen,
            stderr=screen,
            start_new_session=True,
        )
        os.close(screen)
        self.type(f"autoload -Uz compinit; {begin}; echo be''gun\n")
        self.await_text("begun")

    def type(self, keys: str) -> None:
        self._seen = b""
        os.write(self._terminal, keys.encode())

    def await_text(self, text: str) -> None:
        while text.encode() not in self._seen:
            ready, _, _ = select.select([self._terminal], [], [], LIMIT_S)
            assert ready, f"{text!r} does not come after {self._seen!r}"
            self._seen += os.read(self._terminal, 4096)

    def close(self) -> None:
        self._process.kill()
        self._process.wait(LIMIT_S)
        os.close(self._terminal)


@pytest.mark.parametrize(
    "begin", ["fpath=(~ $fpath); compinit -u -D", "compinit -u -D; source ~/_duly"]
)
def test_zsh_completes_commands_options_and_choices(tmp_path: Path, begin: str):
    """From a folder of $fpath, and sourced; what a person sees after the key."""
    (tmp_path / "_duly").write_text(duly("completion", "zsh").out)
    shell = Zsh(tmp_path, begin)
    for typed, offered in TYPED.items():
        shell.type(f"{typed}\t")
        shell.await_text(offered)
        shell.type("\x15")  # away with the line
    shell.close()
