"""`duly init`, `duly config show`, `duly completion`: the first steps of a new user."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cli.duly_command import duly

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.duly_command import Workplace


def test_what_init_writes_works(tmp_path: Path):
    """Tasks that can be enqueued, and schedules that can be applied."""
    place = {"DULY_APP": "tasks:app", "DULY_URL": ""}
    made = duly("init", folder=tmp_path)
    applied = duly("schedule", "apply", "-f", "schedules.toml", folder=tmp_path, **place)
    asked = duly("enqueue", "charge", "-a", "invoice=7", "--json", folder=tmp_path, **place)

    assert (0, True) == (made.status, "duly dev --declare schedules.toml" in made.out), made.err
    assert (0, True) == (applied.status, "created morning-greeting" in applied.out), applied.err
    assert 0 == asked.status, asked.err


def test_init_overwrites_nothing(tmp_path: Path):
    """Nothing is half done."""
    (tmp_path / "schedules.toml").write_text("mine")
    shown = duly("init", "there", "--dry-run", folder=tmp_path)
    refused = duly("init", folder=tmp_path)
    no_folder = duly("init", "schedules.toml", folder=tmp_path)

    assert (0, False) == (shown.status, (tmp_path / "there").exists())
    assert (4, ["schedules.toml"]) == (refused.status, [one.name for one in tmp_path.iterdir()])
    assert (1, True) == (no_folder.status, "can't be written" in no_folder.err)


def test_each_setting_says_where_it_comes_from(place: Workplace):
    """And no password is among them."""
    (place.folder / "own.py").write_text(
        "from duly.app import App\nfrom duly.config import Settings\n"
        "app = App('postgresql://me:canary@nowhere/db', settings=Settings(decisions_max=9))\n"
    )
    usual = {one["name"]: one for one in place.duly("config", "show", "--json").json}
    given = place.duly("config", "show", "--url", "sqlite:///promises.db")
    own = place.duly("config", "show", "--app", "own:app", "--json", DULY_URL="")
    settings = {one["name"]: one["source"] for one in own.json}

    assert ("sqlite:///promises.db", "$DULY_URL") == (
        usual["url"]["value"],
        usual["url"]["source"],
    )
    assert ("$DULY_APP", "default") == (usual["app"]["source"], usual["listed_max"]["source"])
    assert "the command line" in given.out
    assert ("the application, own:app", "the application", False) == (
        settings["url"],
        settings["decisions_max"],
        "canary" in own.out,
    )


def test_a_shell_that_is_not_known_is_refused():
    answer = duly("completion", "cmd")

    assert (2, True) == (answer.status, "bash" in answer.err), answer.err


def test_how_long_history_is_kept_is_shown_with_who_says_so(place: Workplace):
    """And what can't be read is one error."""
    (place.folder / "own.py").write_text(
        "import duly\napp = duly.App(settings=duly.Settings(retention=('failed=forever',)))\n"
    )
    told = place.duly(
        *("config", "show", "--app", "own:app", "--json"), DULY_RETENTION="succeeded=7d"
    )
    found = {one["name"]: (one["value"], one["source"]) for one in told.json}
    wrong = place.duly("dispatcher", "--retain", "queued=1d")

    assert ("7d", "$DULY_RETENTION") == found["retention.succeeded"]
    assert ("forever", "the application") == found["retention.failed"]
    assert ("30d", "default") == found["retention.deleted-schedules"]
    assert 2 == wrong.status
    assert "retention: 'queued=1d' is not known" in wrong.err


def test_the_rate_of_catching_up_is_shown_with_who_says_so(place: Workplace):
    """And what can't be read is one error, before anything is started."""
    (place.folder / "own.py").write_text(
        "import duly\napp = duly.App(settings=duly.Settings(catch_up_per_second=300))\n"
    )
    order = ("config", "show", "--app", "own:app", "--json")
    answers = [place.duly(*order), place.duly(*order, DULY_CATCH_UP_PER_SECOND="500")]
    wrong = place.duly(*order, DULY_CATCH_UP_PER_SECOND="fast")

    found = [
        (one["value"], one["source"])
        for told in answers
        for one in told.json
        if one["name"] == "catch_up_per_second"
    ]
    assert [(300, "the application"), (500, "$DULY_CATCH_UP_PER_SECOND")] == found
    assert 2 == wrong.status
    assert "DULY_CATCH_UP_PER_SECOND: 'fast' is not a rate" in wrong.err


def test_deleting_says_for_how_long_it_can_be_restored(place: Workplace):
    place.duly("schedule", "create", "hourly", "--task", "nightly_report", "--when", "1h")
    order = ("schedule", "delete", "hourly", "--reason", "r", "--yes")

    told = place.duly(*order, DULY_RETENTION="deleted-schedules=14d").out

    assert "It can be restored for 14 days." in told
