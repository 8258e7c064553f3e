"""The how-to page's examples are run: what they show is what happens."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

import duly
from duly.engine.manual_clock import START_US, ManualClock
from duly.store.sqlite import SqliteStore
from tests.cli.duly_command import Workplace
from tests.client.conftest import work

PAGES = Path(__file__).resolve().parents[2] / "docs" / "how-to"
PAGE = PAGES / "schedule-and-delay.md"
COMMANDS_PROGRAM = """
import duly

app = duly.App()
app.task(name="rebuild_index")(lambda: None)


@app.task
def pay(account: int) -> None: ...
"""


def test_the_pages_python_examples_hold():
    found = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")

    assert found.attempted > 25
    assert 0 == found.failed


def test_the_examples_of_limits_hold():
    """On the page about limits."""
    page = PAGES / "limit-and-protect.md"
    found = doctest.testfile(str(page), module_relative=False, encoding="utf-8")

    assert found.attempted > 8
    assert 0 == found.failed


def test_the_examples_of_access_hold():
    """On the page about tokens."""
    page = PAGES / "give-access.md"
    found = doctest.testfile(str(page), module_relative=False, encoding="utf-8")

    assert found.attempted > 12
    assert 0 == found.failed


@pytest.mark.parametrize(("page", "least"), [("choose-policies.md", 18), ("backfill.md", 4)])
def test_the_examples_about_policies_hold(page: str, least: int):
    found = doctest.testfile(str(PAGES / page), module_relative=False, encoding="utf-8")

    assert found.attempted >= least
    assert 0 == found.failed


def test_the_examples_about_effects_hold():
    page = PAGES / "choose-effects.md"
    found = doctest.testfile(str(page), module_relative=False, encoding="utf-8")

    assert found.attempted > 40
    assert 0 == found.failed


def test_the_example_of_a_transaction_commits_once(tmp_path: Path):
    """Its row, its order and its success, on SQLite."""
    text = (PAGES / "choose-effects.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(@app\.task\(effects=\"trans.*?)```", text, re.DOTALL)
    clock = ManualClock(START_US)
    store = SqliteStore(tmp_path / "duly.db", clock)
    app = duly.App(store=store, clock=clock)
    with app.transaction() as tx:
        tx.execute("create table closings (day text, total integer)")

    @app.task
    def publish(day: str) -> None: ...

    names: dict[str, Any] = {
        "app": app,
        "duly": duly,
        "publish": publish,
        "count_orders": len,
    }
    exec(block, names)  # noqa: S102 - our own page
    run = app.enqueue(names["close_day"].bind(day="2026-04-03"))
    work(app, clock)
    with app.transaction() as tx:
        rows = tx.execute("select day, total from closings")

    assert [("2026-04-03", 10)] == rows
    assert ("succeeded", {"total": 10}) == (app.runs.get(run.id).state, app.runs.get(run.id).result)
    assert ["succeeded"] == [one.state for one in app.runs.list(task="publish")]
    store.close()


@pytest.mark.parametrize("page", ["choose-policies.md", "backfill.md"])
def test_the_commands_about_policies_run(page: str, tmp_path: Path):
    """As somebody types them, one after the other."""
    place = Workplace(tmp_path)
    (tmp_path / "tasks.py").write_text(COMMANDS_PROGRAM)
    text = (PAGES / page).read_text(encoding="utf-8")
    commands = [
        line.removeprefix("duly ")
        for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
        for line in block.splitlines()
    ]
    nightly = ("--task", "rebuild_index", "--when", "every day at 2", "--owner", "anna")
    assert 0 == place.duly("schedule", "create", "nightly", *nightly).status

    for command in commands:
        answer = place.duly(*shlex.split(command, comments=True))
        assert (0, "") == (answer.status, answer.err), command
    assert len(commands) >= 3


def test_the_pages_file_can_be_declared(tmp_path):
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    path = tmp_path / "schedules.toml"
    path.write_text(text, encoding="utf-8")
    app = duly.App("memory:")
    app.task(name="nightly_report")(lambda: None)
    app.declare(path)

    assert ("weekly-digest",) == app.reconcile().created


def test_the_examples_of_writing_tasks_are_programs():
    """What the page shows can be declared, and its test passes."""
    text = (PAGES / "write-tasks.md").read_text(encoding="utf-8")
    app = duly.App("memory:")
    loaded: list[int] = []
    names: dict[str, Any] = {
        "app": app,
        "duly": duly,
        "accounts": list(range(250)),
        "load": loaded.append,
    }
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(block, names)  # noqa: S102 - our own page
    daily = duly.cron("30 2 * * *", tz="Europe/Berlin")
    app.schedule(daily, name="nightly-report")(names["nightly_report"])

    names["test_the_report_runs_once_on_the_night_of_the_clock_change"]()

    assert ["backup", "import_accounts", "nightly_report", "send_reminder"] == app.tasks.names()


def test_the_example_of_a_checkpoint_goes_on_where_it_was():
    """The page's import, interrupted after its second hundred."""
    text = (PAGES / "write-tasks.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(@app\.task\(stall.*?)```", text, re.DOTALL)
    app = duly.App("memory:")
    loaded: list[int] = []

    def load(account: int) -> None:
        if account == 220 and loaded.count(220) == 0 and len(loaded) == 220:
            loaded.append(-1)
            raise ConnectionError("gone")
        loaded.append(account)

    names: dict[str, Any] = {"app": app, "duly": duly, "accounts": list(range(250)), "load": load}
    exec(block, names)  # noqa: S102 - our own page

    with duly.testing.virtual_time(app, "2027-03-27T12:00") as clock:
        run = app.enqueue(names["import_accounts"])
        clock.advance("1h")

        assert "succeeded" == app.runs.get(run.id).state
    assert [*range(220), -1, *range(200, 250)] == loaded
