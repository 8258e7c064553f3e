"""`duly zones`, `duly version` and the command itself, run as processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.duly_command import duly
from tests.timetable.made_zones import tzif

if TYPE_CHECKING:
    from pathlib import Path


def test_a_zone_is_found_by_a_city_that_has_no_zone_of_its_own():
    answer = duly("zones", "search", "mumbai", "--json", "-n", "1")

    assert ["Asia/Kolkata"] == [one["zone"] for one in answer.json]
    assert "+05:30" == answer.json[0]["offset"]


def test_a_search_without_a_match_says_what_else_to_try():
    answer = duly("zones", "search", "qqqqqqqq")

    assert 2 == answer.status
    assert "try a larger city" in answer.err


def test_a_release_does_not_differ_from_itself():
    answer = duly("zones", "diff", "wheel", "wheel", "--json")

    assert [] == answer.json["changes"]
    assert answer.json["old"] == answer.json["new"]


def test_zones_that_differ_are_told_with_their_instant_and_both_offsets(tmp_path: Path):
    """An added zone has neither; an offset shows its seconds only where it has some."""
    releases = {
        "old": {"Here": (-34_200, False, "AAA"), "Same": (0, False, "CCC")},
        "new": {
            "Here": (19_815, False, "BBB"),
            "Same": (0, False, "CCC"),
            "There": (0, False, "D"),
        },
    }
    for release, zones in releases.items():
        for name, kind in zones.items():
            (tmp_path / release).mkdir(exist_ok=True)
            (tmp_path / release / name).write_bytes(tzif(kind))
        (tmp_path / release / "tzdata.zi").write_text(f"# version {release}a")
    ordered = (
        "zones",
        "diff",
        str(tmp_path / "old"),
        str(tmp_path / "new"),
        "--after",
        "2027-03-08T08:00Z",
    )
    told, found = duly(*ordered), duly(*ordered, "--json")

    assert [
        "2 zones differ between olda and newa",
        "  Here: from 2027-03-08T08:00:00Z, -09:30 becomes +05:30:15",
        "  There: added",
    ] == told.out.splitlines()
    offsets = {"old_offset": "-09:30", "new_offset": "+05:30:15"}
    nothing = {"at": None, "old_offset": None, "new_offset": None}
    assert [
        {"zone": "Here", "kind": "changed", "at": "2027-03-08T08:00:00Z", **offsets},
        {"zone": "There", "kind": "added", **nothing},
    ] == found.json["changes"]


def test_a_folder_without_zones_is_refused(tmp_path: Path):
    answer = duly("zones", "diff", str(tmp_path))

    assert 2 == answer.status
    assert "holds no time zones" in answer.err


def test_the_version_names_the_releases_of_the_facts():
    """The version of the time-zone data is shown."""
    assert {"duly", "python", "tzdata", "holidays"} == set(duly("version", "--json").json)


MARGIN = ("The store: sqlite", "own, $DULY_URL", "https://host:8420")
"""How lines of one option begin."""


def test_what_an_option_means_is_one_paragraph():
    """Wherever its source breaks lines; and what is nothing unless given is not told."""
    told = duly("run", "list", "--help").out
    words = " ".join(told.replace("│", " ").split())

    assert "Else the application's own, $DULY_URL, sqlite:///duly.db. Or a server:" in words
    columns = {line.index(words) for line in told.splitlines() for words in MARGIN if words in line}
    assert 1 == len(columns)
    assert "[default: 20]" in words
    assert set() == {one for one in ("None", "False", "()") if f"[default: {one}]" in words}
    assert told.startswith("Usage: duly run list [OPTIONS]")


@pytest.mark.parametrize("arguments", [(), ("--help",), ("next", "--help"), ("zones", "--help")])
def test_help_is_printed(arguments):
    answer = duly(*arguments)

    assert 0 == answer.status
    assert "Usage" in answer.out


def test_an_unknown_command_is_refused():
    answer = duly("nxt")

    assert 2 == answer.status
    assert "nxt" in answer.err
