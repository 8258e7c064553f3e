"""The rules of the house can fail: each is broken in a copy of the source, and must be noticed.

A rule that nobody has seen fail may be checking nothing. The real tools run here with the real
configuration; the untouched copy must pass, so that a complaint is about what was broken.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TOOLS = Path(sys.executable).parent

# Each row: a module to add, what it holds, and what must be said about it.
WRONG_IMPORTS = [
    ("domain/calls", "import socket", "duly.domain.calls -> socket"),
    ("domain/reads", "from os import environ", "duly.domain.reads -> os"),
    ("domain/waits", "from time import sleep", "duly.domain.waits -> time"),
    ("domain/looks", "from duly.clock import SystemClock", "duly.domain.looks -> duly.clock"),
    ("domain/prints", "import duly.cli.main", "duly.domain.prints -> duly.cli.main"),
    ("domain/asks", "import holidays", "duly.domain.asks -> holidays"),
    ("timetable/climbs", "import duly.domain", "duly.timetable.climbs -> duly.domain"),
    ("timetable/data_sources", "import urllib.request", "duly.timetable.data_sources -> urllib"),
    ("timetable/fetches", "import urllib.request", "duly.timetable.fetches -> urllib"),
    ("cli/strays", "import zoneinfo", "duly.cli.strays -> zoneinfo"),
    ("domain/circles", "from duly import UsageError", "duly.domain.circles -> duly ("),
    ("engine/knows", "import duly.store.sqlite", "duly.engine.knows -> duly.store.sqlite"),
    ("store/leans", "import duly.testing", "duly.store.leans -> duly.testing"),
    (
        "interface/asks",
        "import duly.store.ports.queries",
        "duly.interface.asks -> duly.store.ports.queries",
    ),
    (
        "remote/opens",
        "import duly.store.ports.queries",
        "duly.remote.opens -> duly.store.ports.queries",
    ),
    ("web/digs", "import duly.store", "duly.web.digs -> duly.store"),
    ("unplaced", "NUMBER = 1", "- duly.unplaced"),
]
SECOND_CLOCKS = [
    ("domain/plain", "from datetime import UTC, datetime\nNOW = datetime.now(UTC)", "datetime.now"),
    ("domain/alias", "import datetime as d\nNOW = d.datetime.now(d.UTC)", "datetime.now"),
    ("domain/bare", "from datetime import datetime\nread = datetime.utcnow", "datetime.utcnow"),
    ("domain/today", "from datetime import date\nTODAY = date.today()", "date.today"),
    ("timetable/ticks", "from time import monotonic\nNOW = monotonic()", "time"),
    ("cli/naps", "import time\ntime.sleep(1)", "time"),
]
DRAWS = [
    ("domain/draws", "import random\nDRAW = random.random()", "`random.random` is banned"),
    ("domain/named", "from uuid import uuid4\nNAME = uuid4()", "`uuid.uuid4` is banned"),
    ("store/rolls", "from os import urandom\nDRAW = urandom(8)", "`os.urandom` is banned"),
]
UNTIDY = [
    ("domain/first", "JobQueue = list", "use task, schedule or run"),
    ("domain/second", "def settle(old_jobs): ...", "use task, schedule or run"),
    ("domain/third", "# TODO: think", "do it, or leave it out"),
    ("domain/fourth", "def long():\n" + "    pass\n" * 70, "extract a decision"),
    ("domain/fifth", "NUMBER = 1\n" * 1000, "split it by noun"),
    ("domain/sixth", "from duly.testing import clock", "never imports duly.testing"),
    ("domain/utils", "", "name it after the one noun it holds"),
    ("unplaced", "", "one line for each"),
    ("domain/seventh", "class Twice:\n    pass", "name each after what it is"),
    ("cli/eighth", "class Twice:\n    pass", "name each after what it is"),
    ("cli/ninth", "NUMBER = 1", "merge it into its importer"),
    ("cli/tenth", "from duly.cli.ninth import NUMBER", "merge it into its importer"),
    ("domain/crowds", "NUMBER = 1", "use the word of the field"),
    ("domain/cited", "# As it was asked for (M1).", "is a code that no reader can"),
]
TIDY = "keeps_every_rule or architecture or unique or small_module or named_by_words"


@pytest.fixture
def house(tmp_path):
    """Copy what the rules look at, and nothing that was made by running."""
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "tests").mkdir()
    for name in ("pyproject.toml", "ARCHITECTURE.md", "tests/test_tidy.py"):
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


@pytest.fixture
def shell(tmp_path):
    """A house with nothing in it but what is broken: `make check` looks at the untouched one."""
    for folder in ("tests", "src/duly/domain", "src/duly/timetable", "src/duly/cli"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "src" / "duly" / "__init__.py").write_text('"""A front door."""\n', "utf-8")
    for name in ("pyproject.toml", "ARCHITECTURE.md", "tests/test_tidy.py"):
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def run(house: Path, *command: str) -> tuple[int, list[str]]:
    """Run a tool inside the copy; return its exit status and the lines of its report."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    done = subprocess.run(
        command,
        cwd=house,
        env={**inherited, "PYTHONPATH": str(house / "src"), "NO_COLOR": "1", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, (done.stdout + done.stderr).splitlines()


def lint_imports(house: Path) -> tuple[int, list[str]]:
    return run(house, str(TOOLS / "lint-imports"), "--no-cache", "--no-logo")


def ruff(house: Path) -> tuple[int, list[str]]:
    command = ("check", "--no-cache", "--output-format=concise", "src")
    return run(house, str(TOOLS / "ruff"), *command)


def tidy(house: Path, only: str) -> tuple[int, list[str]]:
    command = ("-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider", "tests/test_tidy.py")
    return run(house, sys.executable, *command, "-k", only)


def add(house: Path, rows: list[tuple[str, str, str]]) -> None:
    for module, body, _ in rows:
        path = house / "src" / "duly" / f"{module}.py"
        path.write_text(f'"""Break a rule on purpose."""\n\n{body}\n', encoding="utf-8")


def unnoticed(rows: list[tuple[str, str, str]], report: list[str]) -> list[str]:
    """Return the modules for which no line of the report names both module and complaint."""
    return [
        module
        for module, _, complaint in rows
        if not any(module.split("/")[-1] in line and complaint in line for line in report)
    ]


@pytest.mark.parametrize("check", [lint_imports, ruff])
def test_the_untouched_house_passes(house, check):
    status, report = check(house)

    assert status == 0, "\n".join(report)


def test_an_import_in_the_wrong_direction_is_refused(house):
    add(house, WRONG_IMPORTS)

    status, report = lint_imports(house)

    assert status != 0
    assert unnoticed(WRONG_IMPORTS, report) == []
    verdicts = [line.split(" (")[0] for line in report if "BROKEN" in line or "KEPT" in line]
    assert verdicts == [
        "Layers point inwards BROKEN",
        "Domain and timetables perform no IO BROKEN",
        "Data sources read data and nothing else BROKEN",
        "Only data sources know where facts about the world come from BROKEN",
        "Only the composition root knows a concrete store BROKEN",
        "The interface is values only BROKEN",
        "A remote client needs no store BROKEN",
        "Shipped code does without the testing kit BROKEN",
        "Inner packages do not use the public names BROKEN",
        "The console uses the public names BROKEN",
    ]


def test_ruff_refuses_a_second_clock_and_a_draw(house):
    rows = SECOND_CLOCKS + DRAWS
    add(house, rows)

    status, report = ruff(house)

    assert status != 0
    assert unnoticed(rows, [line for line in report if "TID251" in line]) == []


def test_tidy_finds_nothing_where_nothing_is_wrong(shell):
    status, report = tidy(shell, TIDY)

    assert status == 0, "\n".join(report)


def test_tidy_refuses_a_second_clock_without_ruff(shell):
    add(shell, SECOND_CLOCKS)

    status, report = tidy(shell, "keeps_every_rule")

    assert status != 0
    assert unnoticed(SECOND_CLOCKS, [line for line in report if "reads the clock" in line]) == []


def test_untidiness_is_refused(shell):
    add(shell, UNTIDY)
    (shell / "src" / "duly" / "domain" / "silent.py").write_text("NUMBER = 1\n", encoding="utf-8")

    status, report = tidy(shell, TIDY)

    assert status != 0
    assert unnoticed(UNTIDY, report) == []
    assert any("silent.py has no docstring" in line for line in report)


def test_public_names_out_of_step_are_refused(house):
    with (house / "src" / "duly" / "__init__.py").open("a", encoding="utf-8") as stream:
        stream.write('\nsurprise = 1\n__all__ = ["zzz", *reversed(__all__)]\n')

    status, report = tidy(house, "public_name")

    assert status != 0
    assert any("sort duly.__all__" in line for line in report)
    assert any("offered only: ['surprise']" in line for line in report)
    assert any("promises ['zzz']" in line for line in report)
