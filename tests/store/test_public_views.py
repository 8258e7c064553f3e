"""What others may read is the same on SQLite and PostgreSQL."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

STORE = Path(__file__).resolve().parents[2] / "src" / "duly" / "store"


def columns(database: str, view: str) -> list[str]:
    """Return the names of a view's columns, out of the newest migration that makes it."""
    texts = [
        path.read_text(encoding="utf-8")
        for path in sorted((STORE / database / "migrations").glob("*.sql"))
    ]
    made = re.findall(rf"VIEW duly[._]{view} AS\nSELECT (.*?)\nFROM", "\n".join(texts), re.DOTALL)
    plain = re.sub(r"\([^()]*\)", "", made[-1])
    plain = re.sub(r"\([^()]*\)", "", plain)
    return [one.split()[-1].rpartition(".")[2] for one in plain.split(",")]


@pytest.mark.parametrize("view", ["public_schedules", "public_runs", "public_results"])
def test_both_databases_offer_the_same_columns(view):
    offered = columns("sqlite", view)

    assert {"id", "tenant"} <= set(offered)
    assert offered == columns("postgres", view)
