"""Offsets and local times as two other implementations of the tz database have them."""

from __future__ import annotations

from datetime import datetime

from duly.timetable.instants import wall_seconds
from duly.timetable.local_time import LocalRule, resolve
from duly.timetable.once import OneWall
from duly.timetable.zones import default_zones
from tests.corpora.corpus import instant, rows

KINDS = {"unique": "unique", "ambiguous": "fold", "nonexistent": "gap"}


def second(text: str) -> int:
    return int(instant(text).timestamp())


def offset(text: str) -> int:
    found = datetime.fromisoformat(text).utcoffset()
    assert found is not None
    return int(found.total_seconds())


def test_clocks_change_when_and_by_how_much_the_corpus_says():
    """The offset before, the offset after, to the second; and whether wall times are lost or doubled."""
    assert rows("tz_transitions")
    wrong = []
    for row in rows("tz_transitions"):
        zone, at = default_zones().zone(row["zone"]), second(row["utc"])
        before, after = zone.segment(at - 1), zone.segment(at)
        wall = min(at + before.offset, at + after.offset)
        expected = (offset(row["local_before"]), offset(row["local_after"]), at, row["type"])
        if expected != (before.offset, after.offset, after.start, resolve(zone, wall).kind):
            wrong.append(row["id"])

    assert wrong == []


def test_local_times_are_unique_missing_or_doubled_as_the_corpus_says():
    """With every instant that shows them."""
    assert rows("tz_local_resolution")
    wrong = []
    for row in rows("tz_local_resolution"):
        wall = wall_seconds(datetime.fromisoformat(row["local"]))
        found = resolve(default_zones().zone(row["zone"]), wall)
        expected = KINDS[row["expect"]["type"]], [second(text) for text in row["expect"]["utc"]]
        if expected != (found.kind, list(found.instants)):
            wrong.append(row["id"])

    assert wrong == []


def test_missing_local_times_become_the_instants_that_the_corpus_says():
    """The first after the gap under `next`; by the offset before it under `shift`; none under `skip`."""
    wrong, missing = [], 0
    for row in rows("tz_local_resolution"):
        if row["expect"]["type"] != "nonexistent":
            continue
        missing += 1
        zone = default_zones().zone(row["zone"])
        wall = wall_seconds(datetime.fromisoformat(row["local"]))
        after, shifted = (
            second(row["expect"][name])
            for name in ("first_valid_instant_after", "offset_before_gap")
        )
        expected = [after, shifted, None]
        start = wall - 3 * 86_400
        if expected != [
            LocalRule(OneWall(wall), zone, "next", "first").first_from(start),
            LocalRule(OneWall(wall), zone, "shift", "first").first_from(start),
            LocalRule(OneWall(wall), zone, "skip", "first").first_from(start),
        ]:
            wrong.append(row["id"])

    assert missing
    assert wrong == []
