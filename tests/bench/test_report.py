"""The report: every line that a turn has left is in a table, and growth is drawn."""

from __future__ import annotations

from typing import Any

import pytest

from bench import report
from bench.plots import Axes, Line, lines


def line(workload: str, store: str, settings: dict[str, Any], **figures: Any) -> report.Record:
    """Return what one turn leaves."""
    given = {"per_second": 1000, "p99_ms": 5.0, "cpu_us_per_run": 40.0} | figures
    return {
        "workload": workload,
        "contender": "Duly",
        "store": store,
        "settings": settings,
        "figures": given,
        "at": "2026-01-01T00:00:00+00:00",
        "load": 1.0,
        "versions": {"duly": "0.1.0"},
    }


@pytest.fixture
def plots(tmp_path, monkeypatch):
    """Where pictures go."""
    monkeypatch.setattr(report, "PLOTS", tmp_path)
    return tmp_path


def test_growth_is_a_table_and_curves(plots):
    """With what is pending, with history, and with processes."""
    sizes = (0, 10_000, 1_000_000)
    counted = {"buffers per run": 27.0, "WAL bytes per run": 1300.0, "statements per run": 0.01}
    found = [line("W4 backlog", "PostgreSQL", {"pending": size}, **counted) for size in sizes]
    found += [line("W4 backlog", "SQLite", {"pending": size}) for size in sizes]
    found += [line("W7 history", "PostgreSQL", {"history": one}, **counted) for one in sizes[1:]]
    teams = [{"dispatchers": one, "workers": one} for one in (1, 2, 4)]
    found += [line("W7 processes", "SQLite", one) for one in teams]
    text = report.text_of(found)

    assert "| Duly on PostgreSQL | 1,000,000 | 1,000 (1,000-1,000) | 5.00 | 27.00 |" in text
    assert "| Duly on SQLite | 4 + 4 |" in text
    drawn = {one.name: one.read_text(encoding="utf-8") for one in plots.iterdir()}
    assert {"growth-pending.svg", "growth-history.svg", "growth-processes.svg"} == drawn.keys()
    assert "buffers, PostgreSQL" in drawn["growth-pending.svg"]
    assert "µs, SQLite" in drawn["growth-pending.svg"]
    assert all(f"docs/plots/{name}" in text for name in drawn)


def test_one_size_is_no_curve(plots):
    text = report.text_of([line("W4 backlog", "SQLite", {"pending": 0})])

    assert "W4" in text
    assert not list(plots.iterdir())


def test_what_does_not_grow_is_drawn_flat(plots):
    """Against the floor, and not against its own noise."""
    lines(plots / "a.svg", Axes("flat", "x", "y", 1.0), [Line("a", [(1, 27), (10, 27.2)])])
    drawn = (plots / "a.svg").read_text(encoding="utf-8")
    points = drawn.partition('<polyline points="')[2].partition('"')[0].split()
    heights = [float(point.split(",")[1]) for point in points]

    assert abs(heights[0] - heights[1]) < 2


def test_many_curves_are_told_apart_and_named_in_full(plots):
    found = [Line(f"contender number {one}", [(1, one), (1e7, one + 1)]) for one in range(1, 12)]
    lines(plots / "a.svg", Axes("many", "x", "y"), found)
    drawn = (plots / "a.svg").read_text(encoding="utf-8")
    looks = [part.partition('stroke="')[2] for part in drawn.split("<polyline")[1:]]

    assert len(set(looks)) == len(found)
    assert "10,000,000" in drawn
    names = [part for part in drawn.split("<text ") if "contender number 11" in part]
    begin = float(names[0].partition('x="')[2].partition('"')[0])
    assert begin + 6.6 * len("contender number 11") <= 760


def test_what_failed_is_told_and_not_counted(plots):
    wrong = line("W3 creation", "SQLite", {"way": "bulk"}) | {"figures": {"failed": "no room"}}
    text = report.text_of([wrong, line("W3 creation", "PostgreSQL", {"way": "bulk"})])

    assert "Failed: Duly on SQLite." in text
    assert "| Duly on PostgreSQL | 1,000 (1,000-1,000) | - |" in text
