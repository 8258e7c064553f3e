"""The examples in the documents are run: what they promise is what happens."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path

import pytest

from duly import default_zones
from tests.cli.duly_command import duly

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
SESSION = re.compile(r"^\$ duly (.+)\n((?:(?!```|\$ ).*\n)+)", re.MULTILINE)
COMMAND = re.compile(r"^duly (next|zones search) (.+)$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#:]+)\)")


def test_the_readmes_python_examples_hold():
    found = doctest.testfile(str(ROOT / "README.md"), module_relative=False, encoding="utf-8")

    assert found.attempted > 10
    assert 0 == found.failed


@pytest.mark.parametrize("shown", SESSION.findall(README), ids=lambda shown: shown[0])
def test_the_readmes_terminal_sessions_are_what_the_command_prints(shown):
    command, printed = shown
    printed = re.sub(r"tzdata \w+", f"tzdata {default_zones().version}", printed)

    answer = duly(*shlex.split(command))

    assert answer.out.startswith(printed)


@pytest.mark.parametrize("command", [" ".join(one) for one in COMMAND.findall(README)])
def test_the_readmes_commands_run(command):
    answer = duly(*shlex.split(command, comments=True))

    assert (0, "") == (answer.status, answer.err)


@pytest.mark.parametrize(
    "page", sorted(ROOT.glob("*.md")) + sorted(ROOT.glob("docs/**/*.md")), ids=str
)
def test_links_lead_somewhere(page):
    missing = [
        link
        for link in LINK.findall(page.read_text(encoding="utf-8"))
        if not (page.parent / link).exists()
    ]

    assert [] == missing
