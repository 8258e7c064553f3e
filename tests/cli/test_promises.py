"""`duly export` and `duly import`: from a file to a database and back."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.duly_command import Workplace

NIGHTLY = ("--task", "nightly_report", "--when", "every day at 2:30", "--tz", "Europe/Berlin")


def test_promises_move_from_a_file_to_a_database_and_back(place: Workplace, database: str):
    """Both ways, and the second export says what the first one did."""
    place.duly("schedule", "create", "nightly", *NIGHTLY)
    place.duly("enqueue", "send_reminder", "-a", "class_id=7", "--in", "24h", "--key", "k")
    place.duly("queue", "pause", "mail", "--reason", "a rest")
    there = {"DULY_APP": "", "DULY_URL": database}

    out = place.duly("export", "one.jsonl", "--stopped", "--history")
    tried = place.duly("import", "one.jsonl", "--dry-run", **there)
    taken = place.duly("import", "one.jsonl", **there)
    again = place.duly("import", "one.jsonl", **there)
    place.duly("export", "two.jsonl", "--history", **there)

    assert "1 paused queue, 1 schedule, 1 delayed run of sqlite:///promises.db to one.jsonl" in (
        out.out
    ), out.err
    assert "Nothing was changed (--dry-run)." in tried.out, tried.err
    assert taken.out.startswith("Imported "), taken.err
    assert "was imported before: nothing was changed." in again.out
    one, two = (
        (place.folder / name).read_text().splitlines()[1:-1] for name in ("one.jsonl", "two.jsonl")
    )
    assert one == two
    assert (0, True) == (
        place.duly("db", "check", **there).status,
        "nightly" in place.duly("schedule", "list", **there).out,
    )


def test_an_export_to_a_pipe_says_the_rest_aside(place: Workplace):
    """What is not the file goes to the standard error."""
    place.duly("schedule", "create", "nightly", *NIGHTLY)

    answer = place.duly("export")

    assert 0 == answer.status
    assert 3 == len(answer.out.splitlines())
    assert "Exported 1 schedule of sqlite:///promises.db to the standard output" in (answer.err)


def test_a_conflict_is_exit_code_4_and_names_what_is_in_the_way(place: Workplace):
    """Nothing is imported then."""
    place.duly("schedule", "create", "nightly", *NIGHTLY)
    place.duly("export", "all.jsonl")

    answer = place.duly("import", "all.jsonl")

    assert 4 == answer.status
    assert "schedule nightly is there already" in answer.err
    assert "--on-conflict skip" in answer.err
    skipped = place.duly("import", "all.jsonl", "--on-conflict", "skip", "--json")
    assert {"schedule": 1} == skipped.json["skipped"]


def test_an_explicit_store_wins_over_that_of_the_program(place: Workplace):
    """Neither command needs a task, so the program that $DULY_APP names is not asked."""
    (place.folder / "own.py").write_text("import duly\napp = duly.App('sqlite:///own.db')\n")
    place.duly("schedule", "create", "nightly", *NIGHTLY)
    own = {"DULY_APP": "own:app"}
    store, new = "sqlite:///promises.db", "sqlite:///new.db"

    out = place.duly("export", "one.jsonl", "--url", store, **own)
    taken = place.duly("import", "one.jsonl", "--url", new, **own)

    assert 0 == out.status, out.err
    assert f"1 schedule of {store}" in out.out
    assert taken.out.startswith("Imported "), taken.err
    assert "nightly" in place.duly("schedule", "list", "--url", new, DULY_APP="").out
    assert not (place.folder / "own.db").exists()


def test_a_program_that_is_named_beside_another_store_is_still_refused(place: Workplace):
    """Who says both must mean the same."""
    (place.folder / "own.py").write_text("import duly\napp = duly.App('sqlite:///own.db')\n")
    told = place.duly("export", "--url", "sqlite:///promises.db", "--app", "own:app")

    assert 2 == told.status
    assert "is not the store of own:app" in told.err


@pytest.mark.parametrize(
    "command",
    [
        ("db", "migrate"),
        ("doctor", "--fix"),
        ("enqueue", "nightly_report", "--in", "24h"),
        ("schedule", "create", "nightly", *NIGHTLY),
        ("import", "all.jsonl"),
        ("export", "new.db", "--url", "sqlite:///promises.db"),
        ("audit", "export", "new.db", "--url", "sqlite:///promises.db"),
    ],
    ids=" ".join,
)
def test_what_a_command_writes_is_for_its_owner_alone(place: Workplace, command: tuple[str, ...]):
    """Stores, and exports of them: they hold arguments and results."""
    place.duly("export", "all.jsonl")
    answer = place.duly(*command, DULY_URL="sqlite:///new.db")

    assert 0 == answer.status, answer.err
    assert 0o600 == stat.S_IMODE((place.folder / "new.db").stat().st_mode)
