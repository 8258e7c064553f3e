"""Worlds in which workers fire what dispatchers offer to them: neither early, late, twice nor lost."""

from __future__ import annotations

import pytest

from duly.store.postgres import handed
from tests.simulation.hand_mutants import HAND_MUTANTS
from tests.simulation.handing import has_hand_overs
from tests.simulation.on_postgres import on_postgres
from tests.simulation.recipe import changed, recipe_of
from tests.simulation.simulation import simulate
from tests.simulation.test_mutants import PLAYED, is_sound, name_of, noticed
from tests.simulation.test_worlds import thorough_but

pytestmark = pytest.mark.timeout(900)
ON_POSTGRES = (24, 71, 73)
STALE_ON_POSTGRES = 27
"""A world in which an offer is carried out under a stale fence, if nothing keeps it from that."""


def handing_world(seed):
    """Return the world of a seed, if something is handed over in it."""
    recipe = recipe_of(seed)
    return recipe if has_hand_overs(recipe) else None


@pytest.mark.parametrize("mutant", HAND_MUTANTS, ids=name_of)
def test_a_defect_of_hand_overs_is_noticed(mutant):
    """INV-1, INV-3, INV-5, INV-26."""
    recipe = noticed(mutant, handing_world)

    assert is_sound(recipe, PLAYED), recipe.command()


@pytest.mark.parametrize("seed", thorough_but(71, ON_POSTGRES))
def test_no_promise_is_broken_by_hand_overs_on_postgres(seed, postgres_server):
    """The same, by the statement that fires and claims."""
    recipe = changed(recipe_of(seed), seconds=40)
    report = simulate(recipe, on_postgres(postgres_server))

    assert report.violation is None, f"{report.recipe.command()} --store postgres"
    assert report.counts["runs handed over"]


def test_a_defect_of_that_statement_is_noticed(postgres_server):
    """INV-5: here it is carried out, whosever the leases are."""
    defect = (handed, "FIRE_HANDED", "m.held @> $2::int8[]", "$2::int8[] IS NOT NULL")
    recipe = recipe_of(STALE_ON_POSTGRES)
    report = simulate(recipe, on_postgres(postgres_server, defect))

    assert "INV-5: what a stale owner has offered was carried out" == report.violation
