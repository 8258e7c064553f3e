"""The how-to page's examples are run: what they show is what happens."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import duly

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "schedule-and-delay.md"


def test_the_pages_python_examples_hold():
    found = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")

    assert found.attempted > 25
    assert 0 == found.failed


def test_the_pages_file_can_be_declared(tmp_path):
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    path = tmp_path / "schedules.toml"
    path.write_text(text, encoding="utf-8")
    app = duly.App("memory:")
    app.task(name="nightly_report")(lambda: None)
    app.declare(path)

    assert ("weekly-digest",) == app.reconcile().created
