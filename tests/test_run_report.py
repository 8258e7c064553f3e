"""What a run of tests says about itself at its end."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
TESTS = """
import subprocess

def test_leaves_a_program():
    subprocess.run(["sh", "-c", "sleep 600 >/dev/null &"], check=True)

def test_fails():
    assert sum(range(3_000_000)) < 0
"""
COMMAND = (
    "pytest", "-n1", "-p", "xdist", "-p", "tests.run_report", "-p", "no:cacheprovider",
    "--costs=kept", "--orphans-end=1",
)  # fmt: skip


class Ended(NamedTuple):
    code: int
    text: str
    kept: dict[str, dict[str, float]]


def run(folder: Path, *options: str) -> Ended:
    unset = ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_XDIST_TESTRUNUID")
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    environment |= {"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        [sys.executable, "-m", *COMMAND, *options],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    kept = (folder / "kept" / "costs.json").read_text(encoding="utf-8")
    return Ended(done.returncode, done.stdout, json.loads(kept))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with two tests, in which an earlier run has kept its costs."""
    made: Path = tmp_path_factory.mktemp("run")
    (made / "test_it.py").write_text(TESTS, encoding="utf-8")
    (made / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (made / "kept").mkdir()
    known = json.dumps({"tests": {"test_it.py::test_fails": 7.5}})
    (made / "kept" / "costs.json").write_text(known, encoding="utf-8")
    return made


@pytest.fixture(scope="module")
def ended(folder) -> Ended:
    return run(folder)


def test_a_run_says_what_it_cost_beside_the_budget_and_keeps_it(ended):
    figures = r"2 run, 1 failed, 0 skipped; 0 min \d+ s; \d+ core-s, .* of \d+\n"

    assert re.search(figures, ended.text), ended.text
    assert ended.kept["core_seconds"] >= ended.kept["tests"]["test_it.py::test_fails"] > 0


def test_the_figures_of_the_last_run_stand_beside_the_new_ones(ended):
    assert re.search(r"\(7\.5\)  test_it.py::test_fails", ended.text)
    assert "(new)  test_it.py::test_leaves_a_program" in ended.text


def test_a_program_that_a_test_leaves_running_is_named_and_fails_the_run(folder):
    ended = run(folder, "-k", "leaves")

    assert 1 == ended.code
    assert "1 passed" in ended.text
    assert re.search(r"left running, ended now: .*sleep \(\d+\)", ended.text)


def test_a_failed_test_says_where_it_ran_and_what_ran_before(ended):
    assert re.search(r"call on gw0: \d+\.\d s of processor in \d+\.\d s; load ave", ended.text)
    assert "before it ran there: test_it.py::test_leaves_a_program" in ended.text


def test_a_second_run_in_the_same_clone_is_read_as_the_first_was(tmp_path):
    """An option whose value stands apart is taken for a folder of tests as soon as that folder exists."""
    commands = [
        line for line in (ROOT / "Makefile").read_text().splitlines() if "-m pytest" in line
    ]
    folders = {word for line in commands for word in line.split() if word.startswith(".report")}

    assert len(commands) > 1
    assert {".report/junit.xml", ".report/all/junit.xml"} == folders, (
        "of an option that pytest knows"
    )
