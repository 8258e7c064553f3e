"""What every command keeps to: a reason for every order, whole tables, days as people say them."""

from __future__ import annotations

import io
import shlex
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from duly.cli.main import app
from duly.cli.output import print_table
from duly.cli.times import read_moment
from duly.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cli.duly_command import Workplace

LOOKING = {
    *(
        "audit",
        "completion",
        "demo",
        "events",
        "inbox",
        "next",
        "prove",
        "status",
        "top",
        "version",
        "vitals",
    ),
    *("alert list", "alert show", "alert silences", "alert rules", "alert channels"),
    *("audit verify", "audit export"),
    *("backfill list", "backfill plan", "backfill show", "breaker list", "breaker show"),
    *("config show", "db check", "db status", "delayed list", "export", "limit list"),
    *(
        "owner list",
        "queue list",
        "quota list",
        "run ambiguous",
        "run attempts",
        "run list",
        "run logs",
    ),
    *("run missing", "run show", "run wait", "run why", "schedule diff", "schedule export"),
    *("schedule history", "schedule list", "schedule occurrences", "schedule show", "task list"),
    *("token list", "zones diff", "zones search", "worker list"),
}
MAKING = {
    "enqueue": "promises something new, which says itself what it is",
    "exec": "as enqueue",
    "schedule create": "as enqueue; the audit trail has all of it",
    "schedule apply": "the file says what is wanted",
    "init": "writes files of one's own",
    "alert channel test": "sends something that says itself that it is a test",
    "run verify": "has somebody look; it changes nothing but what is known",
}
SERVING = {"dev", "dispatcher", "server", "worker"}
UPKEEP = {"db migrate", "db access", "doctor"}
"""What an operator does to the store itself; the migrations are on record there."""
NOW = datetime(2026, 3, 28, 23, 30, tzinfo=UTC)


class Standing:
    """A clock that stands still."""

    def now(self) -> datetime:
        return NOW

    def now_us(self) -> int:
        raise NotImplementedError

    def monotonic_us(self) -> int:
        raise NotImplementedError


def commands(within=app, path: tuple[str, ...] = ()) -> Iterator[tuple[str, set[str]]]:
    """Yield each command with its options."""
    for name in within:
        if name.startswith("-"):
            continue
        below = within[name]
        yield from commands(below, (*path, name))
        if below.default_command is not None:
            arguments = below.assemble_argument_collection()
            options = {option for one in arguments for option in one.names}
            yield " ".join((*path, name)), options


def test_every_order_can_be_given_a_reason():
    """Why something was done is asked for by every command that changes what is there."""
    known = dict(commands())
    others = LOOKING | MAKING.keys() | SERVING | UPKEEP
    without = {name for name, options in known.items() if "--reason" not in options}

    assert set() == without - others
    assert set() == others - known.keys()


def test_every_command_that_tells_something_has_json():
    """But for those that are text by nature."""
    without = {name for name, options in commands() if "--json" not in options}

    assert {"completion", "demo"} == without


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("tomorrow 9am", "2026-03-30T07:00:00+00:00"),
        ("Tomorrow at 9:15 pm", "2026-03-30T19:15:00+00:00"),
        ("today 17:30", "2026-03-29T15:30:00+00:00"),
        ("today 12am", "2026-03-28T23:00:00+00:00"),
        ("tomorrow", "2026-03-29T22:00:00+00:00"),
    ],
)
def test_days_are_meant_in_the_zone_and_may_have_a_time(said, expected):
    """It is already tomorrow in Berlin, and the clocks change in that night."""
    assert expected == read_moment(said, "Europe/Berlin", Standing(), "at").isoformat()


@pytest.mark.parametrize("said", ["today 25", "today 13pm", "today 0am", "tomorrow 9:75", "9am"])
def test_what_is_no_time_of_day_is_refused(said):
    with pytest.raises(UsageError):
        read_moment(said, "UTC", Standing(), "at")


class Screen(io.StringIO):
    """What a terminal shows."""

    def isatty(self) -> bool:
        return True


def test_a_table_is_whole_for_whoever_asks(monkeypatch):
    """A terminal cuts lines where it ends; --wide does not."""
    monkeypatch.setenv("COLUMNS", "20")
    shown = []
    for is_wide in ("", "1"):
        monkeypatch.setenv("DULY_WIDE", is_wide)
        monkeypatch.setattr("sys.stdout", screen := Screen())
        print_table(("name",), [("a" * 30,)])
        shown.append("a" * 30 in screen.getvalue())

    assert [False, True] == shown


def test_a_table_into_a_pipe_has_tabs_between_whole_cells(monkeypatch, capsys):
    """As `cut -f` and `column -ts` take them; whoever reads it there asks for --wide."""
    shown = []
    for is_wide in ("", "1"):
        monkeypatch.setenv("DULY_WIDE", is_wide)
        print_table(("name", "what"), [("a" * 300, "b\tc\nd"), ("b", "-")])
        shown.append(capsys.readouterr().out.splitlines())

    assert ["name\twhat", f"{'a' * 300}\tb   c\\nd", "b\t-"] == shown[0]
    assert [
        f"name{' ' * 299}what",
        f"{'a' * 300}   b   c\\nd",
        f"b{' ' * 302}-",
    ] == shown[1]


def test_wide_is_an_option_of_commands_that_show_tables(place: Workplace):
    assert 0 == place.duly("run", "list", "--wide").status


@pytest.mark.parametrize(
    "typed",
    [
        ("--tenant", "acme", "schedule", "pause", "nightly"),
        ("--url", "sqlite:///promises.db", "--tenant=acme", "schedule", "pause", "nightly"),
        ("schedule", "pause", "nightly", "--tenant", "acme"),
    ],
)
def test_an_undo_is_about_the_tenant_that_the_order_was_about(place: Workplace, typed):
    """Wherever it was named; else it would be an order about another one's schedule."""
    rule = ("--task", "nightly_report", "--when", "every day at 2")
    for tenant in ("default", "acme"):
        place.duly("schedule", "create", "nightly", *rule, "--tenant", tenant)

    undo = place.duly(*typed, "--reason", "holidays", "--json").json["undo"]
    assert undo.startswith("duly --tenant acme schedule resume nightly")
    assert 0 == place.duly(*shlex.split(undo)[1:]).status
    assert {"active"} == {
        place.duly("schedule", "show", "nightly", "--tenant", one, "--json").json["status"]
        for one in ("default", "acme")
    }


def test_a_tenant_that_a_command_has_of_its_own_is_not_whose_things_an_undo_is_about(
    place: Workplace,
):
    """A quota of another tenant is set by whoever has the store."""
    made = place.duly("quota", "set", "owner:anna", "--schedules", "3", "--tenant", "acme")

    assert "undo: duly quota remove owner:anna --tenant acme\n" in made.out


def test_a_schedule_is_applied_and_a_command_recorded_for_the_tenant_that_is_named(
    place: Workplace,
):
    """Also by commands that need the store itself."""
    (place.folder / "s.toml").write_text(
        '[schedules.nightly]\ntask = "nightly_report"\nwhen = "every day at 2"\n'
    )
    applied = place.duly("schedule", "apply", "-f", "s.toml", "--tenant", "acme")
    ran = place.duly("exec", "backup", "--tenant", "acme", "--", "true")
    settings = place.duly("--tenant", "acme", "config", "show", "--json").json

    assert (0, 0) == (applied.status, ran.status)
    found = [
        [one["name"] for one in place.duly("schedule", "list", "--tenant", whose, "--json").json]
        for whose in ("default", "acme")
    ]
    assert [[], ["nightly"]] == found
    runs = [
        [one["task"] for one in place.duly("run", "list", "--tenant", whose, "--json").json]
        for whose in ("default", "acme")
    ]
    assert [[], ["exec:backup"]] == runs
    assert ["acme"] == [one["value"] for one in settings if one["name"] == "tenant"]
    changed = place.duly("schedule", "diff", "nightly", "--tenant", "acme")
    assert (0, "nightly is as it was made.\n") == (changed.status, changed.out)


@pytest.mark.parametrize(
    "command",
    [
        ("dispatcher",),
        ("worker",),
        ("dev",),
        ("server",),
        ("db", "check"),
        ("export",),
        ("audit", "verify"),
    ],
)
def test_what_is_about_every_tenant_refuses_to_be_about_one(place: Workplace, command):
    """And does not go on with all of them as if it had not been told."""
    refused = place.duly(*command, "--tenant", "acme")

    assert 2 == refused.status
    assert "tenant: 'acme' can't be chosen: this is about every tenant" in refused.err


def test_a_variable_that_names_a_tenant_keeps_no_command_about_all_from_its_work(place: Workplace):
    """It says whose things other commands are about."""
    assert 0 == place.duly("db", "check", DULY_TENANT="acme").status
