"""Orders that can't be carried out: one line, the right exit code, and nothing half made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import apsw
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.cli.duly_command import Answer, Workplace

DAILY = ("--when", "every day at 9")
NIGHTLY = ("schedule", "create", "nightly", "--task", "nightly_report")
REMIND = ("schedule", "create", "remind", "--task", "send_reminder", *DAILY)


def assert_refused(answer: Answer, status: int, *parts: str) -> None:
    assert is_refused(answer, status, parts), answer


BAD_INPUT: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
    (
        ("schedule", "create", "x", "--task", "nightly_reprot", *DAILY),
        ("did you mean nightly",),
    ),
    ((*NIGHTLY, *DAILY, "--tz", "Mars/Olympus"), ("tz", "is not a time zone")),
    ((*NIGHTLY, "--when", "every wekday at 9"), ("every weekday at 09:00",)),
    ((*NIGHTLY,), ("when", "is missing", "--when 'every weekday at 9'")),
    ((*NIGHTLY, "--when", "2020-01-01T09:00"), ("has no occurrence in the future",)),
    ((*NIGHTLY, "--when", "15m", "--gap", "skip"), ("gap", "says nothing", "leave --gap out")),
    ((*NIGHTLY, *DAILY, "--at-most", "many"), ("at_most", "'many'", "or none")),
    ((*NIGHTLY, *DAILY, "--per-minute", "0"), ("per_minute", "is out of range", "60,000")),
    ((*NIGHTLY, *DAILY, "--jitter", "8d"), ("jitter", "longer than a week")),
    ((*NIGHTLY, *DAILY, "--priority", "12"), ("priority", "0 (first) to 9")),
    ((*REMIND, "--arguments", "{not json"), ("arguments", "is not JSON")),
    ((*REMIND, "--arguments", "[1]"), ("arguments", "is not an object")),
    ((*REMIND, "--arguments", '{"a": 1, "a": 2}'), ("arguments", "the key 'a' is given twice")),
    ((*REMIND, "-a", 'x={"a": 1, "a": 2}'), ("argument", "the key 'a' is given twice")),
    ((*REMIND, "-a", "class_id"), ("argument", "is not key=value")),
    ((*REMIND, "-a", "class_id=soon"), ("class_id", "'soon'", "int")),
    (REMIND, ("class_id", "is missing")),
    (("schedule", "create", "a@b", "--task", "nightly_report", *DAILY), ("name", "'@'")),
    (("schedule", "pause", "nightly"), ("--reason",)),
    (("enqueue", "nightly_report", "--at", "2020-01-01"), ("in the past", "--past")),
    (("enqueue", "nightly_report", "--at", "someday"), ("at", "'someday'", "tomorrow 9am")),
    (("enqueue", "nightly_report", "--at", "+1h", "--in", "1h"), ("give one of the two",)),
    (("dispatcher", "--prune", "--app", "", "--url", "sqlite:///promises.db"), ("prune",)),
]


def is_refused(answer: Answer, status: int, parts: Iterable[str]) -> bool:
    """Say whether a command printed one line, an error, with all these parts."""
    is_one_line = len(answer.err.splitlines()) == 1 and answer.err.startswith("error: ")
    has_parts = all(part in answer.err for part in parts)
    return (answer.status, answer.out) == (status, "") and is_one_line and has_parts


def test_bad_input_is_refused_in_one_line(place: Workplace):
    """Field, value and remedy."""
    answers = [(words, parts, place.duly(*words)) for words, parts in BAD_INPUT]

    assert [] == [one for one in answers if not is_refused(one[2], 2, one[1])]


def test_a_refused_order_leaves_nothing_behind(place: Workplace):
    place.duly(*REMIND, "-a", "class_id=soon")
    place.duly("enqueue", "nightly_report", "--at", "2020-01-01")
    found = place.duly("status", "--json").json

    assert ({}, 0, 0) == (found["schedules"], found["delayed"], found["queued"])


@pytest.mark.parametrize(
    "arguments",
    [
        ("schedule", "show", "nothing"),
        ("schedule", "edit", "nothing", *DAILY),
        ("schedule", "restore", "nothing"),
        ("run", "show", "nothing"),
        ("move", "nothing", "--in", "1h"),
        ("cancel", "nothing", "--reason", "x"),
        ("schedule", "apply", "-f", "nothing.toml"),
    ],
)
def test_what_is_not_there_is_exit_code_3(place: Workplace, arguments: tuple[str, ...]):
    assert_refused(place.duly(*arguments), 3, "nothing", "was not found")


def test_a_name_that_is_taken_is_a_conflict(place: Workplace):
    place.duly(*NIGHTLY, *DAILY)
    assert_refused(place.duly(*NIGHTLY, "--when", "every day at 10"), 4, "nightly", "exists")
    only = place.duly("schedule", "list", "--json").json

    assert [1] == [one["version"] for one in only]


def test_a_key_that_is_taken_is_a_conflict(place: Workplace):
    place.duly("enqueue", "nightly_report", "--in", "1h", "--key", "k")

    assert_refused(
        place.duly("enqueue", "nightly_report", "--in", "2h", "--key", "k"), 4, "'k'", "--replace"
    )


def test_an_error_is_json_when_json_is_asked_for(place: Workplace):
    answer = place.duly("schedule", "show", "nothing", "--json")

    assert (3, "") == (answer.status, answer.out)
    assert '"kind": "NotFound"' in answer.err
    assert '"remedy": "see duly schedule list"' in answer.err


@pytest.mark.parametrize(
    ("app", "parts"),
    [
        ("tasks", ("app", "'tasks'", "module:attribute")),
        ("nowhere:app", ("nowhere", "start the command in the folder")),
        ("tasks:nothing", ("nothing", "tasks:app")),
        ("tasks:nightly_report", ("not a duly.App",)),
        ("broken:app", ("fails as it is imported", "ZeroDivisionError")),
    ],
)
def test_an_application_that_can_not_be_loaded_is_named(place: Workplace, app: str, parts):
    (place.folder / "broken.py").write_text("1 / 0")

    assert_refused(place.duly("schedule", "list", "--app", app), 2, *parts)


def test_the_application_may_be_named_before_the_command(place: Workplace):
    answer = place.duly("--app", "tasks:app", *NIGHTLY, *DAILY, "--dry-run", DULY_APP="")

    assert 0 == answer.status, answer.err


def test_a_store_that_contradicts_the_application_is_refused(place: Workplace):
    (place.folder / "own.py").write_text("from duly.app import App\napp = App('sqlite:///own.db')")
    answer = place.duly("schedule", "list", "--app", "own:app", "--url", "sqlite:///other.db")

    assert_refused(answer, 2, "url", "own.db")


@pytest.mark.parametrize("url", ["mysql://x", "sqlite:///", "mysql://me:secret@host/db"])
def test_a_url_that_names_no_store_is_refused_without_its_password(place: Workplace, url: str):
    answer = place.duly("status", "--url", url, DULY_APP="")

    assert_refused(answer, 2, "url")
    assert "secret" not in answer.err


@pytest.mark.parametrize("url", ["memory:", "sqlite:///:memory:"])
@pytest.mark.parametrize("command", ["dev", "dispatcher", "server", "worker --no-supervisor"])
def test_a_store_in_memory_is_refused_for_a_process_of_several(
    place: Workplace, command: str, url: str
):
    (place.folder / "own.py").write_text("import duly\napp = duly.App()")
    answer = place.duly(*command.split(), "--app", "own:app", "--url", url)

    assert_refused(answer, 2, "url", "in the memory of one process", "use sqlite:///promises.db")


def test_a_server_that_can_not_be_reached_is_exit_code_5_without_its_password(place: Workplace):
    url = "postgresql://me:secret@127.0.0.1:1/shop"
    for words in (("status",), ("db", "status"), ("enqueue", "report")):
        answer = place.duly(*words, "--url", url, DULY_APP="")

        assert_refused(answer, 5, "postgresql://127.0.0.1:1/shop: can't be reached")
        assert "secret" not in answer.err


def test_a_folder_that_is_not_there_is_exit_code_5(place: Workplace):
    answer = place.duly("status", "--url", "sqlite:///no/such/folder/x.db", DULY_APP="")

    assert_refused(answer, 5, "no/such/folder")


def test_a_store_that_somebody_else_holds_is_exit_code_5_and_unchanged(place: Workplace):
    place.duly("status")
    holder = apsw.Connection(str(place.folder / "promises.db"))
    holder.execute("begin immediate")
    answer = place.duly(*NIGHTLY, *DAILY)
    holder.execute("rollback")
    holder.close()

    assert_refused(answer, 5, "promises.db")
    assert [] == place.duly("schedule", "list", "--json").json


def test_a_file_that_is_no_database_is_exit_code_5(place: Workplace):
    (place.folder / "promises.db").write_text("not a database, but a text that is long enough" * 99)

    assert_refused(place.duly("schedule", "list"), 5, "promises.db")


def test_a_store_of_a_newer_program_is_exit_code_5_and_left_alone(place: Workplace):
    """An old program does not touch a new schema."""
    place.duly("status")
    file = apsw.Connection(str(place.folder / "promises.db"))
    file.execute("update duly_cluster set program_min = 9999")
    file.close()

    assert_refused(place.duly(*NIGHTLY, *DAILY), 5, "promises.db", "newer")
    assert_refused(place.duly("dispatcher"), 5, "promises.db", "newer")
    found = place.duly("db", "status")

    assert (5, True) == (found.status, "has a newer schema" in found.out)
