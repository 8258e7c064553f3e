"""Where there is no store, looking makes none: one clear error, and no file is touched."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import apsw
import pytest

from duly.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.duly_command import Workplace

MISSING = ("--url", "sqlite:///missing.db")


LOOKS: list[tuple[str, ...]] = [
    ("status",),
    ("schedule", "list"),
    ("schedule", "show", "x"),
    ("schedule", "history", "x"),
    ("schedule", "occurrences", "x"),
    ("schedule", "export"),
    ("schedule", "pause", "x", "--reason", "y"),
    ("db", "status"),
    ("db", "check"),
    ("run", "list"),
    ("run", "show", "x"),
    ("delayed", "list"),
    ("cancel", "x", "--reason", "y"),
    ("audit",),
    ("audit", "verify"),
    ("audit", "export"),
]


def test_a_command_that_only_looks_makes_no_store(place: Workplace):
    parts = (
        "sqlite:///missing.db: there is no store here; is this the right folder",
        "is $DULY_APP set? `duly dev`, `duly db migrate` or `duly dispatcher`",
    )
    wrong = []
    for words in LOOKS:
        answer = place.duly(*words, *MISSING)
        says_so = (answer.status, answer.out) == (5, "") and all(one in answer.err for one in parts)
        if not says_so or (place.folder / "missing.db").exists():
            wrong.append((words, answer))

    assert [] == wrong


def others(folder: Path) -> list[str]:
    file = apsw.Connection(str(folder / "theirs.db"))
    found = [str(row[0]) for row in file.execute("select name from sqlite_schema")]
    file.close()
    return found


def test_another_programs_database_gets_no_tables_of_ours(place: Workplace):
    file = apsw.Connection(str(place.folder / "theirs.db"))
    file.execute("create table orders (id)")
    file.close()
    theirs = ("--url", "sqlite:///theirs.db")
    looked = place.duly("schedule", "list", *theirs)
    told = place.duly("db", "status", *theirs)
    tried = place.duly("db", "migrate", "--dry-run", *theirs)

    assert ["orders"] == others(place.folder)
    assert (5, True) == (looked.status, "there is no store here" in looked.err)
    assert (5, True) == (told.status, "missing   0001_pre_" in told.out)
    assert (0, True) == (tried.status, "to apply; nothing was changed" in tried.out)


def test_a_migration_makes_the_store(place: Workplace):
    tried = place.duly("db", "migrate", "--dry-run", *MISSING)
    was_made = (place.folder / "missing.db").exists()
    made = place.duly("db", "migrate", *MISSING)

    assert (0, False) == (tried.status, was_made)
    assert 0 == made.status, made.err
    assert 0 == place.duly("status", *MISSING).status


LOADED = """
import sys
from duly.cli.main import main
try:
    main(sys.argv[1:])
finally:
    print(*(one for one in sys.modules if one.startswith("duly.")))
"""
NEEDLESS = {
    ("next", "@daily"): "app client domain engine store telemetry timetable.language.english",
    ("run", "list", "--url", "sqlite:///there.db"): "client.alerts client.backfills client.limits"
    " client.selections client.vitals telemetry.events"
    " timetable.language.english store.memory store.postgres",
}


@pytest.mark.parametrize("words", NEEDLESS, ids=" ".join)
def test_a_command_loads_what_it_uses(words: tuple[str, ...], tmp_path: Path):
    """Most of the time that a command takes is spent on loading modules."""
    SqliteStore(tmp_path / "there.db").close()
    ended = subprocess.run(
        [sys.executable, "-c", LOADED, *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    loaded = ended.stdout.splitlines()[-1].split()
    needless = tuple(f"duly.{name}" for name in NEEDLESS[words].split())

    assert "duly.cli.main" in loaded
    assert [] == [one for one in loaded if one.startswith(needless)]
