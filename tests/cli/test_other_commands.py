"""`duly zones`, `duly version`, `duly demo` and the command itself, run as processes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from duly.cli.demo import TOUR
from tests.cli.duly_command import duly

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


def test_a_folder_without_zones_is_refused(tmp_path: Path):
    answer = duly("zones", "diff", str(tmp_path))

    assert 2 == answer.status
    assert "holds no time zones" in answer.err


def test_the_version_names_the_releases_of_the_facts():
    """T3: the version of the time-zone data is shown."""
    assert {"duly", "python", "tzdata", "holidays"} == set(duly("version", "--json").json)


def test_the_tour_goes_through_every_stop_without_a_person():
    answer = duly("demo")

    assert 0 == answer.status
    assert all(stop.title in answer.out for stop in TOUR)
    assert "" == answer.err
    assert 8 == len(re.findall(r" queued +tick@", answer.out))
    assert "the tour is over" in answer.out


@pytest.mark.parametrize("arguments", [(), ("--help",), ("next", "--help"), ("zones", "--help")])
def test_help_is_printed(arguments):
    answer = duly(*arguments)

    assert 0 == answer.status
    assert "Usage" in answer.out


def test_an_unknown_command_is_refused():
    answer = duly("nxt")

    assert 2 == answer.status
    assert "nxt" in answer.err
