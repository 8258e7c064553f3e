"""What runs are looked for by is the same for everybody who looks."""

from __future__ import annotations

from dataclasses import fields

from duly.cli.runs import RunFilterOptions
from duly.client.runs import TERMS
from duly.interface.runs import RunQuery
from duly.interface.selections import NewSelection
from duly.web.pages.runs import OrderChoice, RunsQuery
from tests.each_row import each_row

CALLED = {"cause": "reason"}
"""On a command line a reason is why an order is given."""
PLACES = {
    "a list over HTTP": (RunQuery.__struct_fields__, {"limit", "cursor"}),
    "a selection over HTTP": (NewSelection.__struct_fields__, {"limit", "ids"}),
    "a page of the console": (RunsQuery.__struct_fields__, {"only", "cursor"}),
    "a form of the console": (OrderChoice.__struct_fields__, {"verb", "run", "all"}),
    "a command": ([*(one.name for one in fields(RunFilterOptions)), "state"], set()),
}


@each_row("place", PLACES)
def test_each_place_knows_every_term_and_no_other(place):
    """By schedule, state, time, key, error and the rest, wherever one looks."""
    names, besides = PLACES[place]
    known = {CALLED.get(name, name) for name in names}

    assert besides <= known
    assert set(TERMS) == known - besides
