"""The how-to page's examples are run: what they show is what happens."""

from __future__ import annotations

import doctest
import re
from pathlib import Path
from typing import Any

import duly

PAGES = Path(__file__).resolve().parents[2] / "docs" / "how-to"
PAGE = PAGES / "schedule-and-delay.md"


def test_the_pages_python_examples_hold():
    found = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")

    assert found.attempted > 25
    assert 0 == found.failed


def test_the_examples_of_limits_hold():
    """R8, B4: on the page about limits."""
    page = PAGES / "limit-and-protect.md"
    found = doctest.testfile(str(page), module_relative=False, encoding="utf-8")

    assert found.attempted > 8
    assert 0 == found.failed


def test_the_pages_file_can_be_declared(tmp_path):
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    path = tmp_path / "schedules.toml"
    path.write_text(text, encoding="utf-8")
    app = duly.App("memory:")
    app.task(name="nightly_report")(lambda: None)
    app.declare(path)

    assert ("weekly-digest",) == app.reconcile().created


def test_the_examples_of_writing_tasks_are_programs():
    """R5, R7, U6: what the page shows can be declared, and its test passes."""
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
    """R5: the page's import, interrupted after its second hundred."""
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
