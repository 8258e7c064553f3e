"""Offsets and local times as two other implementations of the tz database have them (SPEC T2, T3)."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from duly.domain.instants import wall_seconds
from duly.domain.local_time import LocalRule, resolve
from duly.domain.zones.database import default_zones

FOLDER = os.environ.get("DULY_CORPORA")
KINDS = {"unique": "unique", "ambiguous": "fold", "nonexistent": "gap"}

pytestmark = pytest.mark.skipif(not FOLDER, reason="set DULY_CORPORA to the folder of corpora")


def rows(name: str) -> list[dict[str, Any]]:
    lines = (Path(FOLDER or ".") / name).read_text(encoding="utf-8").splitlines()
    assert lines, f"{name} is empty"
    return [json.loads(line) for line in lines]


def instant(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


def offset(text: str) -> int:
    found = datetime.fromisoformat(text).utcoffset()
    assert found is not None
    return int(found.total_seconds())


@dataclass(frozen=True)
class Once:
    """The wall rule that holds at one wall time."""

    wall: int

    def at_or_after(self, wall: int) -> int | None:
        return self.wall if wall <= self.wall else None

    def at_or_before(self, wall: int) -> int | None:
        return self.wall if wall >= self.wall else None

    def count(self, start: int, end: int) -> int:
        return int(start <= self.wall < end)


def test_clocks_change_when_and_by_how_much_the_corpus_says():
    """T3: the offset before, the offset after, to the second; and whether wall times are lost or doubled."""
    wrong = []
    for row in rows("tz_transitions.jsonl"):
        zone, at = default_zones().zone(row["zone"]), instant(row["utc"])
        before, after = zone.segment(at - 1), zone.segment(at)
        wall = min(at + before.offset, at + after.offset)
        expected = (offset(row["local_before"]), offset(row["local_after"]), at, row["type"])
        if expected != (before.offset, after.offset, after.start, resolve(zone, wall).kind):
            wrong.append(row["id"])

    assert wrong == []


def test_local_times_are_unique_missing_or_doubled_as_the_corpus_says():
    """T2: with every instant that shows them."""
    wrong = []
    for row in rows("tz_local_resolution.jsonl"):
        wall = wall_seconds(datetime.fromisoformat(row["local"]))
        found = resolve(default_zones().zone(row["zone"]), wall)
        expected = KINDS[row["expect"]["type"]], [instant(text) for text in row["expect"]["utc"]]
        if expected != (found.kind, list(found.instants)):
            wrong.append(row["id"])

    assert wrong == []


def test_missing_local_times_become_the_instants_that_the_corpus_says():
    """T2: the first after the gap under `next`; by the offset before it under `shift`; none under `skip`."""
    wrong, missing = [], 0
    for row in rows("tz_local_resolution.jsonl"):
        if row["expect"]["type"] != "nonexistent":
            continue
        missing += 1
        zone = default_zones().zone(row["zone"])
        wall = wall_seconds(datetime.fromisoformat(row["local"]))
        after, shifted = (
            instant(row["expect"][name])
            for name in ("first_valid_instant_after", "offset_before_gap")
        )
        expected = [after, shifted, None]
        start = wall - 3 * 86_400
        if expected != [
            LocalRule(Once(wall), zone, "next", "first").first_from(start),
            LocalRule(Once(wall), zone, "shift", "first").first_from(start),
            LocalRule(Once(wall), zone, "skip", "first").first_from(start),
        ]:
            wrong.append(row["id"])

    assert missing
    assert wrong == []
