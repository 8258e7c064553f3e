"""The simulation works: it notices every deliberate defect, and soon."""

from __future__ import annotations

from functools import cache

import pytest

from tests.simulation.mutants import MUTANTS
from tests.simulation.policy_mutants import POLICY_MUTANTS
from tests.simulation.recipe import changed, recipe_of
from tests.simulation.simulation import simulate
from tests.simulation.test_worlds import CHUNK_SEEDS, CHUNKS
from tests.simulation.work_mutants import WORK_MUTANTS

pytestmark = pytest.mark.timeout(300)
SEEDS_MAX = 1000
PLAYED = range(CHUNKS * CHUNK_SEEDS)
"""Worlds that are played without a defect anyway."""


def name_of(mutant):
    return mutant.name


@cache
def violation_without_it(recipe):
    """Return what is wrong in a world without a defect: asked once of worlds that show many."""
    return simulate(recipe).violation


def first_noticed(mutant, world_of):
    """Return the first world that a defect breaks; without the defect that world must be sound."""
    worlds = map(world_of, (mutant.shows_in, *range(SEEDS_MAX)))
    recipe = next((one for one in worlds if one and simulate(one, mutant).violation), None)
    assert recipe is not None, f"{mutant.name}: not noticed in {SEEDS_MAX} seeds"
    return recipe


def is_sound(recipe, played=range(0)):
    """Say whether nothing is wrong in a world without a defect: those that others play are."""
    return recipe.seed in played or violation_without_it(recipe) is None


@pytest.mark.parametrize("mutant", MUTANTS, ids=name_of)
def test_a_defect_is_noticed(mutant):
    """In worlds without workers: a smaller world is sooner played."""
    recipe = first_noticed(mutant, lambda seed: changed(recipe_of(seed), workers=0))

    assert is_sound(recipe), recipe.command()


@pytest.mark.parametrize("mutant", WORK_MUTANTS, ids=name_of)
def test_a_defect_of_work_is_noticed(mutant):
    """INV-1, INV-2, INV-4 to INV-7, INV-10, INV-21, INV-24, INV-26."""
    recipe = first_noticed(
        mutant, lambda seed: world if (world := recipe_of(seed)).workers else None
    )

    assert is_sound(recipe, PLAYED), recipe.command()


@pytest.mark.parametrize("mutant", POLICY_MUTANTS, ids=name_of)
def test_a_defect_of_policies_is_noticed(mutant):
    """INV-8, INV-9, INV-22: overlap, catch-up, backfills."""
    recipe = first_noticed(
        mutant, lambda seed: world if (world := recipe_of(seed)).has_policies else None
    )

    assert is_sound(recipe, PLAYED), recipe.command()
