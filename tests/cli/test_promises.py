"""`duly export` and `duly import`: from a file to a database and back (D7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cli.duly_command import Workplace

NIGHTLY = ("--task", "nightly_report", "--when", "every day at 2:30", "--tz", "Europe/Berlin")


def test_promises_move_from_a_file_to_a_database_and_back(place: Workplace, database: str):
    """D7: both ways, and the second export says what the first one did."""
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
    """D7: what is not the file goes to the standard error."""
    place.duly("schedule", "create", "nightly", *NIGHTLY)

    answer = place.duly("export")

    assert 0 == answer.status
    assert 3 == len(answer.out.splitlines())
    assert "Exported 1 schedule of sqlite:///promises.db to the standard output" in (answer.err)


def test_a_conflict_is_exit_code_4_and_names_what_is_in_the_way(place: Workplace):
    """D7: nothing is imported then."""
    place.duly("schedule", "create", "nightly", *NIGHTLY)
    place.duly("export", "all.jsonl")

    answer = place.duly("import", "all.jsonl")

    assert 4 == answer.status
    assert "schedule nightly is there already" in answer.err
    assert "--on-conflict skip" in answer.err
    skipped = place.duly("import", "all.jsonl", "--on-conflict", "skip", "--json")
    assert {"schedule": 1} == skipped.json["skipped"]
