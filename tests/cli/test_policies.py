"""`duly quota`, `duly backfill`, presets and warnings, run as processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import duly
from tests.cli.test_run_orders import HERE, undo

if TYPE_CHECKING:
    from duly.store.sqlite import SqliteStore
    from tests.cli.duly_command import Answer, Workplace

NIGHTLY = ("--task", "nightly_report", "--when", "every day at 2:30", "--tz", "UTC")
"""Where each day has 24 hours: within three of them there are three."""


def create(place: Workplace, name: str, *more: str) -> Answer:
    return place.duly("schedule", "create", name, *NIGHTLY, *more)


def facts(answer: Answer) -> dict[str, str]:
    """Return what `duly schedule show` says, by its labels."""
    lines = [line.split("  ", 1) for line in answer.out.splitlines() if "  " in line]
    return {name.strip(): fact.strip() for name, fact in lines}


def test_a_preset_is_shown_with_what_it_means_and_what_wins_over_it(place: Workplace):
    """Every effective policy says where it comes from."""
    assert 0 == create(place, "plain").status
    assert 0 == create(place, "copy", "--preset", "refresh", "--grace", "2m").status

    plain = facts(place.duly("schedule", "show", "plain"))
    copy = facts(place.duly("schedule", "show", "copy"))

    assert "none" == plain["preset"]
    assert plain["if missed"].endswith("(none older than 1 day) (default)")
    assert plain["if it overlaps"].endswith(" (default)")
    assert copy["preset"].startswith("refresh: only the newest state counts")
    assert copy["if missed"].startswith("of runs that are later than 2 minutes")
    assert not copy["if missed"].endswith(")") or "(preset)" not in copy["if missed"]
    assert copy["if it overlaps"].startswith("coalesce: ")
    assert copy["if it overlaps"].endswith(" (preset)")


def test_an_edit_of_a_preset_is_taken_back_by_what_was_told(place: Workplace):
    """With all that had been said beside it."""
    create(place, "copy", "--preset", "refresh", "--grace", "2m", "--per-minute", "30")
    before = place.duly("schedule", "export", "copy").out
    edited = place.duly("schedule", "edit", "copy", "--preset", "one-result", *HERE)

    assert 'preset = "one-result"' in place.duly("schedule", "export", "copy").out
    assert 0 == undo(place, edited).status
    assert before == place.duly("schedule", "export", "copy").out


def test_what_is_exported_with_a_preset_can_be_applied(place: Workplace):
    """Policies without a bound, too."""
    create(place, "close", "--preset", "one-result")
    create(place, "open", "--misfire", "all", "--not-older", "none", "--per-minute", "60")
    exported = place.duly("schedule", "export").out
    (place.folder / "schedules.toml").write_text(exported)
    for name in ("close", "open"):
        place.duly("schedule", "delete", name, "--reason", "moved to a file", "--yes")

    applied = place.duly("schedule", "apply", "--file", "schedules.toml")

    assert 0 == applied.status, applied.err
    assert exported == place.duly("schedule", "export").out


def test_quotas_are_set_kept_and_taken_back(place: Workplace):
    """The one that is refused says what to do, and that works."""
    shown = place.duly("quota", "list")
    lowered = place.duly("quota", "set", "owner:*", "--schedules", "1", "--reason", "trial", *HERE)
    create(place, "hers", "--owner", "anna")
    refused = create(place, "more", "--owner", "anna")
    raised = place.duly("quota", "set", "owner:anna", "--schedules", "2", *HERE)
    allowed = create(place, "more", "--owner", "anna")
    listed = place.duly("quota", "list", "--json").json
    undo(place, raised)
    undo(place, lowered)

    assert "10 active schedules" in shown.out
    assert "nobody (default)" in shown.out
    assert "owner:*: at most 1 active schedules." in lowered.out
    assert (4, "") == (refused.status, refused.out)
    assert "'owner:anna' has 1 active schedules, and 1 is the most" in refused.err
    assert "duly quota set owner:anna --schedules N" in refused.err
    assert 0 == allowed.status, allowed.err
    assert [("owner:*", 1, "ada"), ("owner:anna", 2, "ada")] == [
        (one["scope"], one["most"], one["updated_by"]) for one in listed
    ]
    (default,) = place.duly("quota", "list", "--json").json
    assert (10, True) == (default["most"], default["is_default"])


def test_the_default_quota_of_an_owner_is_for_end_users(place: Workplace, store: SqliteStore):
    """A program that makes schedules for them is refused; an operator at the command line is not."""
    app = duly.App(store=store)
    report = app.task(name="nightly_report")(lambda: None)
    for number in range(10):
        app.schedules.create(f"hers {number}", report, duly.every("1d"), owner="anna")

    with pytest.raises(duly.OverQuota, match="The limit is for end users"):
        app.schedules.create("one more", report, duly.every("1d"), owner="anna")
    by_hand = create(place, "one more", "--owner", "anna")

    assert 0 == by_hand.status, by_hand.err


def test_an_owner_is_gone_and_somebody_takes_over(place: Workplace):
    """What is paused is told before and after, and how to go on."""
    create(place, "hers", "--owner", "ada")
    shown = place.duly("owner", "gone", "ada", "--reason", "left", "--dry-run")
    unasked = place.duly("owner", "gone", "ada", "--reason", "left")
    assert "active" == place.duly("schedule", "show", "hers", "--json").json["status"]

    gone = place.duly("owner", "gone", "ada", "--reason", "left", "--yes", *HERE)

    assert "1 schedule of ada would be paused:\n  hers\nNothing was changed.\n" == shown.out
    assert (2, True) == (unasked.status, "nobody can be asked here" in unasked.err)
    assert "ada is gone. Paused 1 schedule; nothing new is made for them." in gone.out
    assert "duly schedule edit SCHEDULE --owner WHO" in gone.out
    assert "its owner is gone: 'ada' (left)" in place.duly("schedule", "show", "hers").out
    (listed,) = place.duly("owner", "list", "--json").json
    assert ("ada", 0) == (listed["owner"], listed["active"])
    assert "ada" in place.duly("owner", "list").out
    refused = place.duly("schedule", "resume", "hers")
    assert (4, True) == (refused.status, "'ada' is gone" in refused.err)
    place.duly("schedule", "edit", "hers", "--owner", "bob")
    assert 0 == place.duly("schedule", "resume", "hers").status
    back = undo(place, gone)
    assert "ada is back." in back.out
    assert "duly schedule resume --owner ada" in back.out
    assert "undo: duly owner gone ada --reason '…' --yes " in back.out
    assert "No owner is gone." in place.duly("owner", "list").out
    assert 3 == place.duly("owner", "back", "ada").status


def test_an_owner_for_whom_nothing_was_made_is_noted(place: Workplace):
    """It may be a name that is spelled wrong; the order holds all the same."""
    create(place, "hers", "--owner", "anna")
    looked = place.duly("owner", "gone", "ana", "--reason", "left", "--dry-run")
    gone = place.duly("owner", "gone", "bob", "--reason", "left")
    known = place.duly("owner", "gone", "anna", "--reason", "left", "--yes")

    assert "note: no schedule is on record for ana; did you mean anna?\n" == looked.err
    assert (0, "note: no schedule is on record for bob; is it spelled right?\n") == (
        gone.status,
        gone.err,
    )
    assert (0, "") == (known.status, known.err)


def test_a_limit_of_a_task_that_is_not_known_is_noted(place: Workplace):
    made = place.duly("limit", "set", "task:nightly_repor", "--running", "2")
    known = place.duly("limit", "set", "task:nightly_report", "--running", "2")

    assert (0, True) == (made.status, "did you mean nightly_report?" in made.err)
    assert (0, "") == (known.status, known.err)


def test_who_is_asked_about_an_owner_sees_what_would_be_paused(place: Workplace):
    """Which schedules, before the question; a no changes nothing, and says so."""
    create(place, "hers", "--owner", "ada")

    declined = place.typed("n\n", "owner", "gone", "ada", "--reason", "left")

    assert 1 == declined.status
    shown, _, asked = declined.out.partition("Pause 1 schedule? [y/N]")
    assert "1 schedule of ada would be paused:\r\n  hers\r\n" in shown
    assert "Nothing was changed." in asked
    assert "active" == place.duly("schedule", "show", "hers", "--json").json["status"]
    assert "No owner is gone." in place.duly("owner", "list").out


def test_a_quota_that_nobody_could_keep_is_refused(place: Workplace):
    for words, says in (
        (("everybody", "--schedules", "1"), "'everybody' is nobody's quota"),
        (("all", "--pending", "1"), "is not bounded by all; all has quotas of creations"),
        (("tenant:*", "--pending", "few"), "'few' is not a number"),
        (("tenant:*",), "is asked to change nothing"),
    ):
        answer = place.duly("quota", "set", *words)
        assert (2, True) == (answer.status, says in answer.err), answer.err
    gone = place.duly("quota", "remove", "owner:anna")
    assert (3, True) == (gone.status, "was not found" in gone.err)


def test_a_backfill_is_planned_made_and_steered(place: Workplace):
    """Each order says how to go on, and how it is taken back."""
    create(place, "nightly")
    span = ("--since", "-3d", "--until", "now")
    planned = place.duly("backfill", "plan", "nightly", *span)
    unasked = place.duly("backfill", "create", "nightly", *span)
    made = place.duly(
        *("backfill", "create", "nightly", *span, "--per-minute", "6", "--reason", "new"),
        *("--yes", *HERE),
    )
    (listed,) = place.duly("backfill", "list", "nightly", "--json").json
    short = listed["id"][:13]
    throttled = place.duly("backfill", "throttle", short, "--per-minute", "60", *HERE)
    paused = place.duly("backfill", "pause", short, *HERE)
    resumed = undo(place, paused)
    shown = place.duly("backfill", "show", short)

    assert "nightly  3 occurrences: 3 missing." in planned.out
    assert "to have them made: duly backfill create nightly --since -3d --until now" in planned.out
    assert (2, True) == (unasked.status, "look first with duly backfill plan" in unasked.err)
    assert f"duly backfill show {listed['id']}" in made.out
    assert ("active", 6, 0, "new") == (
        listed["status"],
        listed["per_minute"],
        listed["made"],
        listed["reason"],
    )
    assert "--per-minute 6 --concurrency 1" in throttled.out
    assert (0, 0) == (paused.status, resumed.status)
    assert "60 a minute, 1 at a time" in shown.out
    cancelled = undo(place, made)
    assert "Cancelled the backfill of nightly" in cancelled.out
    left = place.duly("backfill", "resume-from", short, "--reason", "r", "--dry-run")
    unasked = place.duly("backfill", "resume-from", short, "--reason", "r")
    gone_on = place.duly("backfill", "resume-from", short, "--reason", "r", "--yes", "--json").json
    assert "3 would be made." in left.out
    assert (2, True) == (unasked.status, "3 runs would be touched" in unasked.err)
    assert (listed["id"], "active", 60) == (
        gone_on["resumes"],
        gone_on["status"],
        gone_on["per_minute"],
    )
    assert f"goes on from   {listed['id']}" in place.duly("backfill", "show", gone_on["id"]).out
    nowhere = place.duly("backfill", "show", "0000")
    assert 2 <= nowhere.status <= 3


def test_who_says_no_to_a_backfill_is_told_by_the_exit_code(place: Workplace, store: SqliteStore):
    """As of every other order that asks."""
    create(place, "nightly")

    declined = place.typed("n\n", "backfill", "create", "nightly", "--since=-1d", "--until=now")

    assert (1, True) == (declined.status, "Nothing was made." in declined.out), declined.out
    assert [] == store.list_backfills("default", None, 10)
    made = place.duly("backfill", "create", "nightly", "--since=-1d", "--until=now", "--yes")
    assert ": 1 run is to be made, " in made.out


def test_a_backfill_of_nothing_is_not_written_down(place: Workplace, store: SqliteStore):
    create(place, "nightly")
    span = ("--since", "-3d", "--until", "now", "--classes", "failed")

    answer = place.duly("backfill", "create", "nightly", *span, "--yes")

    assert (0, True) == (answer.status, "Nothing was made: none of these is chosen." in answer.out)
    assert [] == store.list_backfills("default", None, 10)
