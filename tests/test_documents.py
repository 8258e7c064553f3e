"""The examples in the documents are run: what they promise is what happens."""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
from dataclasses import fields
from datetime import timedelta
from pathlib import Path

import pytest

from duly import default_zones
from duly.config import Settings
from tests.cli.duly_command import Workplace, duly

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
SESSION = re.compile(r"^\$ duly (.+)\n((?:(?!```|\$ ).*\n)+)", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#:]*)(?:#([^)]+))?\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@pytest.mark.parametrize(
    ("page", "least"), [("README.md", 3), ("docs/how-to/choose-a-timetable.md", 17)]
)
def test_the_python_examples_of_timetables_hold(page: str, least: int):
    found = doctest.testfile(str(ROOT / page), module_relative=False, encoding="utf-8")

    assert found.attempted >= least
    assert 0 == found.failed


def test_the_readmes_terminal_sessions_are_what_the_command_prints():
    wrong = {}
    sessions = SESSION.findall(README)
    for command, shown in sessions:
        printed = re.sub(r"tzdata \w+", f"tzdata {default_zones().version}", shown)
        answer = duly(*shlex.split(command), DULY_WIDE="1")
        if not answer.out.startswith(printed):
            wrong[command] = (printed, answer)

    assert sessions
    assert {} == wrong


def test_links_lead_somewhere():
    missing = [
        (str(page), link, anchor)
        for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
        for link, anchor in LINK.findall(page.read_text(encoding="utf-8"))
        if not (page.parent / link).exists()
        or (anchor and anchor not in anchors_of(page.parent / link if link else page))
    ]

    assert [] == missing


def test_every_setting_is_told_with_its_default():
    """A limit that nobody can read about is found out by running into it."""
    told = (ROOT / "docs/settings.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", told, re.MULTILINE))
    words = {
        (): "none",
        False: "no",
        None: "as many as live work allows",
        timedelta(seconds=1): "1 s",
        ("DULY_SECRET_*",): "`DULY_SECRET_*`",
    }
    defaults = {one.name: words.get(one.default) or f"{one.default:,}" for one in fields(Settings)}

    assert defaults == {name: value.strip() for name, value in rows.items() if name in defaults}


def anchors_of(page: Path) -> set[str]:
    """Return the names of a page's headings, as sites that show Markdown make them."""
    headings = HEADING.findall(page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}


@pytest.mark.thorough
def test_the_readmes_first_minute_can_be_lived_through(tmp_path):
    """The program and all commands of the README, as a newcomer types them, in one folder."""
    program = re.search(r"```python\n# tasks\.py\n(.+?)```", README, re.DOTALL)
    scripts = re.findall(r"```sh\n(.+?)```", README, re.DOTALL)
    assert program
    (tmp_path / "tasks.py").write_text(program[1], encoding="utf-8")
    # It is started in the background: give it the time it needs to make the file.
    commands = "".join(scripts).replace(
        "duly schedule create",
        "until duly schedule show nightly-report >/dev/null 2>&1; do :; done\nduly schedule create",
        1,
    )
    commands = commands.replace("kill %1", "kill $!; wait $!")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

    done = subprocess.run(
        ("bash", "-e", "-c", commands),  # noqa: S607 - the shell that a newcomer has
        cwd=tmp_path,
        env={**os.environ, "PATH": path, "DULY_URL": ""},
        capture_output=True,
        text=True,
        check=False,
    )

    assert 0 == done.returncode, done.stderr
    assert "what was promised is kept" in done.stderr + done.stdout
    assert re.search(r"succeeded\s+class:42:reminder@", done.stdout)
    assert "summer break" in done.stdout


def test_the_readmes_test_in_virtual_time_passes(tmp_path, monkeypatch):
    """With the program above it, in three lines."""
    monkeypatch.chdir(tmp_path)
    program = re.search(r"```python\n# tasks\.py\n(.+?)```", README, re.DOTALL)
    test = re.search(r"```python\n(with duly\.testing.+?)```", README, re.DOTALL)
    assert program
    assert test
    names: dict[str, object] = {"__name__": "tasks"}
    exec(program[1], names)  # noqa: S102 - our own page

    exec(test[1], names)  # noqa: S102 - our own page

    assert 3 == len(test[1].strip().splitlines())


def test_the_readmes_commands_about_policies_run(tmp_path):
    """On what the program above them declares."""
    program = re.search(r"```python\n# tasks\.py\n(.+?)```", README, re.DOTALL)
    script = re.findall(r"```sh\n(.+?)```", README, re.DOTALL)[1]
    assert program
    (tmp_path / "tasks.py").write_text(program[1], encoding="utf-8")
    place = Workplace(tmp_path)
    place.python("import tasks; tasks.app.reconcile()")

    for line in script.splitlines():
        answer = place.duly(*shlex.split(line.removeprefix("duly "), comments=True))
        assert (0, "") == (answer.status, answer.err), line
