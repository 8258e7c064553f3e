"""A dry run makes nothing: no schedule, and no store."""

from __future__ import annotations

import pytest

from tests.cli.duly_command import duly

PROGRAM = """
import duly

app = duly.App("sqlite:///{path}")

@app.task
def report() -> None: ...
"""
FILE = """
[schedules.nightly]
task = "report"
when = "every day at 3"
"""
ORDERS = [
    ("schedule", "create", "nightly", "--task", "report", "--when", "every day at 3", "--dry-run"),
    ("schedule", "apply", "--file", "nightly.toml", "--dry-run"),
]


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: order[1])
def test_a_dry_run_where_there_is_no_store_shows_all_and_makes_none(tmp_path, order):
    (tmp_path / "own.py").write_text(PROGRAM.format(path=tmp_path / "duly.db"))
    (tmp_path / "nightly.toml").write_text(FILE)
    before = {path.name for path in tmp_path.iterdir()}
    told = duly(*order, "--app", "own.py:app", folder=tmp_path)

    assert 0 == told.status, told.err
    assert "Nothing was stored (--dry-run)." in told.out
    assert "nightly" in told.out or "every day at 03:00" in told.out
    left = {path.name for path in tmp_path.iterdir()} - before
    assert not {name for name in left if name.startswith("duly.db")}


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: order[1])
def test_a_dry_run_looks_at_the_store_that_is_there(tmp_path, order):
    """What would be refused, or is so already, is said."""
    (tmp_path / "own.py").write_text(PROGRAM.format(path=tmp_path / "duly.db"))
    (tmp_path / "nightly.toml").write_text(FILE)
    made = duly(*order[:-1], "--app", "own.py:app", folder=tmp_path)
    again = duly(*order, "--app", "own.py:app", folder=tmp_path)

    assert 0 == made.status, made.err
    assert "exists already" in again.err or "1 unchanged" in again.out


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: order[1])
def test_a_dry_run_makes_no_store_in_a_database(tmp_path, order, database):
    (tmp_path / "own.py").write_text(
        f"import duly\napp = duly.App({database!r})\n\n@app.task\ndef report() -> None: ...\n"
    )
    (tmp_path / "nightly.toml").write_text(FILE)
    told = duly(*order, "--app", "own.py:app", folder=tmp_path)

    assert 0 == told.status, told.err
    assert "there is no store here" in duly("db", "status", "--url", database).out
