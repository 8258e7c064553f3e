"""Tiles: how many need a look, each a link to just those (UX 9)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from duly.api.views import LATE
from duly_web.pages.noticed import NOTICED, find_noticed
from duly_web.shell import OWN_SECONDS, place_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly import Schedule
    from duly.api.views import Status
    from duly_web.page import Asked


@dataclass(frozen=True, slots=True)
class Tile:
    """A number that leads to the list of what it counts."""

    label: str
    number: int
    state: str
    """Whose word, shape and colour it has."""
    path: str
    is_cut: bool = False
    """Whether there may be more."""


MISSING_SECONDS = 10
MISSING_SINCE = timedelta(days=1)


def make_tiles(
    asked: Asked, schedules: Sequence[Schedule], status: Status, *, is_cut: bool
) -> tuple[Tile, ...]:
    """Count what needs a look, of all runs, and of schedules; `is_cut`: there are more of those."""
    stuck, overlapping, late = asked.kept.get(
        ("noticed", asked.pulse),
        OWN_SECONDS,
        lambda: [find_noticed(asked.app, what, asked.now) for what in NOTICED],
    )
    late_from = asked.now - LATE
    overdue = sum(one.next_due is not None and one.next_due < late_from for one in schedules)
    stale = len(status.stale)
    backlog = sum(
        one.total - one.looked_at for one in asked.app.backfills.list() if one.status == "active"
    )
    inbox = place_of("/inbox") or "/runs?state=ambiguous"
    backfills = place_of("/backfills") or "/runs?lane=backfill"
    missing = asked.kept.get("missing", MISSING_SECONDS, lambda: _count_missing(asked))
    return (
        Tile("Missing", *missing),
        # Of what stands behind the first by name, it is known only whether anything is due.
        Tile("Overdue", overdue, "late", "/?show=late#sides", is_cut and status.overdue > overdue),
        Tile("Stale work", stale, "stale", "/?show=stale#sides"),
        Tile("In doubt", status.ambiguous, "ambiguous", inbox),
        Tile("Dead", status.dead, "dead", "/runs?state=dead"),
        Tile("Begin late", len(late.runs), "late", "/runs?only=late", late.is_cut),
        Tile("Stuck", len(stuck.runs), "stuck", "/runs?only=stuck", stuck.is_cut),
        Tile(
            "Overlapping",
            len(overlapping.runs),
            "overlapping",
            "/runs?only=overlapping",
            overlapping.is_cut,
        ),
        Tile("Retrying", status.retrying, "retrying", "/runs?state=retrying"),
        Tile("Running", status.running, "running", "/runs?state=running"),
        Tile("Queued", status.queued, "queued", "/runs?state=queued"),
        Tile("Backfill left", backlog, "backlog", backfills),
    )


def _count_missing(asked: Asked) -> tuple[int, str, str, bool]:
    """Count what should have become a run within a day, and has not."""
    found = asked.app.runs.missing(asked.now - MISSING_SINCE)
    number = sum(one.is_missing for one in found.items)
    return number, "missing", place_of("/missing") or "/?show=late#sides", found.after is not None
