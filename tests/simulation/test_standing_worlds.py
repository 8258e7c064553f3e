"""Worlds in which workers are drained, quarantined and released: none is cut off or claims."""

from __future__ import annotations

import pytest

from tests.simulation.on_postgres import on_postgres
from tests.simulation.recipe import changed, recipe_of, with_standing
from tests.simulation.simulation import simulate
from tests.simulation.standing_mutants import STANDING_MUTANTS
from tests.simulation.test_mutants import is_sound, name_of, noticed
from tests.simulation.test_sqlite_worlds import on_file
from tests.simulation.test_worlds import check_dangers, thorough_but

pytestmark = pytest.mark.timeout(900)
SEEDS = range(8)
DANGERS = (1, 0)
"""Worlds that show every danger."""
ON_FILE = (1, 13)
ON_POSTGRES = (3, 4)


@pytest.mark.parametrize("seed", [seed for seed in SEEDS if seed not in DANGERS])
def test_who_is_out_of_service_takes_nothing_in_any_world(seed):
    """INV-2, INV-4, INV-5, INV-21, INV-24, INV-26: and finishes what it has."""
    report = simulate(with_standing(recipe_of(seed)))

    assert report.violation is None, report.recipe.command()


def test_every_danger_of_standing_really_occurs():
    """And breaks no promise: A1, as in the worlds above."""
    check_dangers("standing", DANGERS)


@pytest.mark.parametrize("mutant", STANDING_MUTANTS, ids=name_of)
def test_a_defect_of_standing_is_noticed(mutant):
    """INV-4, INV-26."""
    recipe = noticed(mutant, lambda seed: with_standing(recipe_of(seed)))

    assert is_sound(recipe, {*SEEDS, *DANGERS}), recipe.command()


@pytest.mark.parametrize("seed", thorough_but(1, ON_FILE))
def test_who_is_out_of_service_takes_nothing_on_sqlite(seed, tmp_path):
    """A1, INV-2, INV-4, INV-5, INV-26, on a file."""
    recipe = changed(with_standing(recipe_of(seed)), seconds=40, has_open_transactions=False)
    report = simulate(recipe, on_file(tmp_path))

    assert report.violation is None, report.recipe.command()


@pytest.mark.parametrize("seed", thorough_but(4, ON_POSTGRES))
def test_who_is_out_of_service_takes_nothing_on_postgres(seed, postgres_server):
    """A1, INV-2, INV-4, INV-5, INV-26, on a server."""
    recipe = changed(with_standing(recipe_of(seed)), seconds=40)
    report = simulate(recipe, on_postgres(postgres_server))

    assert report.violation is None, f"{report.recipe.command()} --store postgres"
