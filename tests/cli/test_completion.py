"""`duly completion` in the shells themselves: what is typed is completed."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

from duly.cli.completion import SCRIPTS
from tests.cli.duly_command import duly
from tests.required_programs import required_program
from tests.waiting import LIMIT_S

LINES_MAX = 20
TYPED = {
    "duly run at": "attempts",
    "duly status --wa": "--watch",
    "duly completion f": "fish",
    "duly alert sil": "silence",
    "duly schedule pause --mi": "--missed",
    "duly audit ver": "verify",
}
"""What somebody types before the key, and what must be offered."""
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
"""Where the shells find the program that the scripts ask."""
BASH_ASKS = """
source {script}
COMP_LINE='{typed}'; COMP_POINT=${{#COMP_LINE}}
_duly
printf '%s\n' "${{COMPREPLY[@]}}"
"""


def test_a_script_is_short_and_loads_no_command():
    """It is read at the beginning of each session of a shell."""
    look = "import sys\nfrom duly.cli.main import main\n"
    look += "try:\n    main(['completion', 'bash'])\nexcept SystemExit:\n    pass\n"
    look += "print('loaded', 'duly.app' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    lines = {shell: len(duly("completion", shell).out.splitlines()) for shell in SCRIPTS}

    assert shown.stdout.endswith("loaded False\n")
    assert {} == {shell: count for shell, count in lines.items() if not 0 < count <= LINES_MAX}


def test_bash_completes_commands_options_and_choices(tmp_path: Path):
    script = tmp_path / "duly.bash"
    script.write_text(duly("completion", "bash").out)
    more = {"duly --app=tasks:app schedule pau": "pause", "duly run ": "list"}
    more["duly schedule pause x --missed=s"] = "skip"
    for typed, offered in {**TYPED, **more}.items():
        answer = subprocess.run(
            [required_program("bash"), "-c", BASH_ASKS.format(script=script, typed=typed)],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PATH": PATH},
        )

        assert offered in answer.stdout.splitlines(), typed


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("schedule", "pa"), {"pause"}),
        (("--url", "sqlite:///x.db", "schedule", "pa"), {"pause"}),
        (("completion", ""), {"bash", "zsh", "fish"}),
        (("schedule", "pause", "x", "--missed", ""), {"skip", "misfire"}),
        (("schedule", "pause", "x", "--missed=s"), {"--missed=skip"}),
        (("run", "wait", "x", "--time"), {"--timeout"}),
        (("run", "list", "--key", ""), set()),
        (("exec", "backup", "--", "l"), set()),
        (("frobnicate", ""), set()),
        (("schedule", "show", "--app"), {"--app"}),
    ],
)
def test_what_may_follow_is_offered_with_its_meaning(words: tuple[str, ...], offered: set[str]):
    """And nothing where only a person knows, so that a shell offers its files."""
    answer = duly("__complete", *words)

    assert (0, "") == (answer.status, answer.err)
    assert offered == {line.partition("\t")[0] for line in answer.out.splitlines()}


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
            env={**os.environ, "HOME": str(tmp_path), "PATH": PATH},
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
            env={"HOME": str(folder), "TERM": "dumb", "COLUMNS": "200", "PATH": PATH},
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
