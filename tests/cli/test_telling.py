"""What commands say beside the answer: whose help to read, what is not checked, what will not last."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.duly_command import Workplace

HOURLY = ("--task", "nightly_report", "--when", "every hour")


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (("schedule", "pause", "x"), "duly schedule pause --help"),
        (("enqueue",), "duly enqueue --help"),
        (("nonsense",), "duly --help"),
    ],
)
def test_a_word_that_is_missing_points_to_the_help_of_its_command(
    place: Workplace, words: tuple[str, ...], command: str
):
    told = place.duly(*words).err
    found = json.loads(place.duly(*words, "--json").err)

    assert told.endswith(f"; see {command} [invalid-value]\n")
    assert "UsageError" == found["kind"]
    assert found["remedy"].endswith(f"see {command}")


def test_a_pause_until_the_past_shows_an_iso_time(place: Workplace):
    place.duly("schedule", "create", "n", *HOURLY)
    answer = place.duly("schedule", "pause", "n", "--reason", "r", "--until", "2020-01-01")

    assert (2, True) == (answer.status, "'2020-01-01T00:00:00Z' lies in the past" in answer.err)


def test_an_edit_of_nothing_names_the_schedule_and_the_options(place: Workplace):
    place.duly("schedule", "create", "n", *HOURLY)
    answer = place.duly("schedule", "edit", "n")

    assert (2, True) == (answer.status, "'n' is asked to change nothing; give --when" in answer.err)


def test_an_edit_of_what_is_declared_says_that_it_does_not_last(place: Workplace):
    text = '[schedules.n]\ntask = "nightly_report"\nwhen = "1h"\n'
    (place.folder / "s.toml").write_text(text)
    place.duly("schedule", "apply", "-f", "s.toml")
    answer = place.duly("schedule", "edit", "n", "--jitter", "1m")
    note = "note: it is declared by file:app:s.toml; the next reconciliation sets it back"

    assert note in answer.out


def test_arguments_that_nobody_checks_are_noted(place: Workplace):
    place.python("import tasks; tasks.app.reconcile()")
    words = ("enqueue", "send_reminder", "-a", "class_id=1")
    note = "note: the arguments are not checked without --app"

    assert note in place.duly(*words, DULY_APP="").out
    assert note not in place.duly(*words).out


def test_an_import_that_is_missing_inside_the_application_is_not_about_the_folder(
    place: Workplace,
):
    (place.folder / "needy.py").write_text("import no_such_library")
    answer = place.duly("schedule", "list", "--app", "needy:app")

    assert "No module named 'no_such_library'" in answer.err
    assert ("folder" in answer.err, "install what it imports" in answer.err) == (False, True)


def test_a_dry_run_of_a_file_tells_of_conflicts(place: Workplace):
    place.duly("schedule", "create", "n", *HOURLY)
    text = '[schedules.n]\ntask = "nightly_report"\nwhen = "2h"\n'
    (place.folder / "s.toml").write_text(text)
    answer = place.duly("schedule", "apply", "-f", "s.toml", "--dry-run")

    assert (1, True) == (answer.status, "one of that name was made by hand" in answer.out)
    assert "Nothing was stored (--dry-run)." in answer.out
