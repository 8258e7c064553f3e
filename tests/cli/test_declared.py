"""`duly schedule apply` and `export`: schedules as a file declares them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cli.duly_command import Workplace

FILE = """
[schedules.heartbeat]
task = "nightly_report"
when = "every 5 minutes"

[schedules.books]
task = "send_reminder"
arguments = { class_id = 1, note = "it's \\"late\\"" }
when = "last business day of the month at 18:00"
tz = "America/New_York"
misfire = { policy = "all", at_most = 3 }
jitter = "5m"
owner = "accounts"
"""


def test_a_file_is_tried_applied_and_changes_nothing_the_second_time(place: Workplace):
    (place.folder / "s.toml").write_text(FILE)
    tried = place.duly("schedule", "apply", "-f", "s.toml", "--dry-run")
    before = place.duly("schedule", "list", "--json").json
    applied = place.duly("schedule", "apply", "-f", "s.toml")
    again = place.duly("schedule", "apply", "-f", "s.toml")

    assert ["would create heartbeat", "would create books"] == tried.out.splitlines()[:2]
    assert [] == before
    assert ["created heartbeat", "created books"] == applied.out.splitlines()[:2]
    assert "2 unchanged\n" == again.out


def test_applying_says_when_each_will_run_and_what_it_was(place: Workplace):
    """The next three, with local time, zone and UTC; of a change, the rule before it."""
    (place.folder / "s.toml").write_text(FILE)
    tried = place.duly("schedule", "apply", "-f", "s.toml", "--dry-run", "--json").json
    made = place.duly("schedule", "apply", "-f", "s.toml").out
    (place.folder / "s.toml").write_text(FILE.replace("18:00", "17:00"))
    changed = place.duly("schedule", "apply", "-f", "s.toml").out

    assert {"heartbeat", "books"} == set(tried["schedules"])
    books = tried["schedules"]["books"]
    assert (3, "America/New_York", None) == (
        len(books["occurrences"]),
        books["occurrences"][0]["zone"],
        books["before"],
    )
    assert "books: on the last business day (Monday to Friday) of the month at 18:00 (" in made
    assert 3 == made.count(" 18:00 E")
    assert "changed books: timetable" in changed
    assert "before: on the last business day (Monday to Friday) of the month at 18:00" in changed
    assert 3 == changed.count(" 17:00 E")
    assert "heartbeat" not in changed


def test_what_is_no_longer_declared_goes_only_when_that_is_asked_for(place: Workplace):
    (place.folder / "s.toml").write_text(FILE)
    place.duly("schedule", "create", "by-hand", "--task", "nightly_report", "--when", "1h")
    place.duly("schedule", "apply", "-f", "s.toml")
    (place.folder / "s.toml").write_text(FILE.partition("[schedules.books]")[0])
    told = place.duly("schedule", "apply", "-f", "s.toml")
    pruned = place.duly("schedule", "apply", "-f", "s.toml", "--prune")
    left = place.duly("schedule", "list", "--json").json

    assert "books is no longer declared and goes on" in told.out
    assert "deleted books: no longer declared" in pruned.out
    assert ["by-hand", "heartbeat"] == [one["name"] for one in left]


def test_what_code_declares_is_not_pruned_by_a_file(place: Workplace):
    """A file speaks for itself alone."""
    with (place.folder / "tasks.py").open("a") as file:
        file.write(
            "\nfrom duly import every\napp.schedule(every('1h'), name='coded')(nightly_report)"
        )
    (place.folder / "s.toml").write_text(FILE)
    program = "import tasks; tasks.app.reconcile(); tasks.app.close()"
    place.python(program)
    place.duly("schedule", "apply", "-f", "s.toml", "--prune")
    place.duly("schedule", "apply", "-f", "s.toml", "--prune", "--app", "")

    assert ["books", "coded", "heartbeat"] == [
        one["name"] for one in place.duly("schedule", "list", "--json").json
    ]


def test_what_is_exported_is_read_back_as_it_was(place: Workplace):
    (place.folder / "s.toml").write_text(FILE)
    place.duly("schedule", "apply", "-f", "s.toml")
    exported = place.duly("schedule", "export").out
    (place.folder / "s.toml").write_text(exported)
    again = place.duly("schedule", "apply", "-f", "s.toml")

    assert 'when = "last business day of the month at 18:00"' in exported
    assert "2 unchanged\n" == again.out


def test_a_file_with_one_mistake_makes_nothing(place: Workplace):
    """All or nothing, and the place of the mistake."""
    (place.folder / "s.toml").write_text(FILE.replace('tz = "America', 'tz = "Amerika'))
    answer = place.duly("schedule", "apply", "-f", "s.toml")

    assert (2, "") == (answer.status, answer.out)
    assert "s.toml, books" in answer.err
    assert [] == place.duly("schedule", "list", "--json").json
