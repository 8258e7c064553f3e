"""`duly status`: how many schedules were judged, of how many."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.client.status import STALE_LOOKED_AT_MAX
from duly_conformance import steps

if TYPE_CHECKING:
    from duly.store.sqlite import SqliteStore
    from tests.cli.duly_command import Workplace


def test_it_is_said_how_many_schedules_were_asked_where_that_is_not_all(
    place: Workplace, store: SqliteStore
):
    """Nobody takes the first hundred for all of them."""
    for number in range(STALE_LOOKED_AT_MAX):
        steps.create(store, f"schedule {number:03}")
    all_of_them = place.duly("status")
    steps.create(store, "one more")
    some = place.duly("status")
    told = place.duly("status", "--json").json

    said = "of 101 active schedules were asked for their last completion"
    assert said not in all_of_them.out
    assert f"100 {said}; alerts go round over all" in some.out
    assert (100, 101) == (told["judged"], told["schedules"]["active"])
