"""The simulation works: it notices every deliberate defect, and soon."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from tests.simulation.mutants import MUTANTS
from tests.simulation.policy_mutants import POLICY_MUTANTS
from tests.simulation.recipe import changed, recipe_of
from tests.simulation.simulation import simulate
from tests.simulation.test_worlds import CHUNK_SEEDS, CHUNKS, DANGEROUS_SEEDS
from tests.simulation.work_mutants import WORK_MUTANTS

pytestmark = pytest.mark.timeout(900)
SEARCHED = range(100)
"""Worlds that are searched for a mutant once the one that it names shows it no longer."""
PLAYED = {*range(CHUNKS * CHUNK_SEEDS), *DANGEROUS_SEEDS}
"""Worlds that are played without a defect anyway."""
PLAYED_WITHOUT_WORKERS = {seed for seed in PLAYED if not recipe_of(seed).workers}


def name_of(mutant):
    return mutant.name


@cache
def violation_without_it(recipe):
    """Return what is wrong in a world without a defect: asked once of worlds that show many."""
    return simulate(recipe).violation


def noticed(mutant, world_of):
    """Return the world that a mutant names in `shows_in`, and breaks."""
    recipe = world_of(mutant.shows_in)
    if recipe is None or simulate(recipe, mutant).violation is None:
        pytest.fail(f"{mutant.name}: {fresh_hint(mutant, world_of)}")
    return recipe


def fresh_hint(mutant, world_of):
    """Return what to write for a mutant whose world shows it no longer."""
    for seed in SEARCHED:
        if (recipe := world_of(seed)) and simulate(recipe, mutant).violation:
            return f"write shows_in={seed}"
    return f"not noticed in {len(SEARCHED)} seeds"


def is_sound(recipe, played):
    """Say whether nothing is wrong in a world without a defect: those that others play are."""
    return recipe.seed in played or violation_without_it(recipe) is None


@pytest.mark.parametrize("mutant", MUTANTS, ids=name_of)
def test_a_defect_is_noticed(mutant):
    """In worlds without workers: a smaller world is sooner played."""
    recipe = noticed(mutant, lambda seed: changed(recipe_of(seed), workers=0))

    assert is_sound(recipe, PLAYED_WITHOUT_WORKERS), recipe.command()


def test_a_stale_hint_fails_and_says_what_to_write():
    stale = replace(MUTANTS[0], shows_in=99)
    shown = changed(recipe_of(MUTANTS[0].shows_in), workers=0)

    with pytest.raises(pytest.fail.Exception, match=f"{stale.name}: write shows_in=3"):
        noticed(stale, {3: shown}.get)
    with pytest.raises(pytest.fail.Exception, match=f"{stale.name}: not noticed in 100 seeds"):
        noticed(stale, {}.get)


@pytest.mark.parametrize("mutant", WORK_MUTANTS, ids=name_of)
def test_a_defect_of_work_is_noticed(mutant):
    """INV-1, INV-2, INV-4 to INV-7, INV-10, INV-21, INV-24, INV-26."""
    recipe = noticed(mutant, lambda seed: world if (world := recipe_of(seed)).workers else None)

    assert is_sound(recipe, PLAYED), recipe.command()


@pytest.mark.parametrize("mutant", POLICY_MUTANTS, ids=name_of)
def test_a_defect_of_policies_is_noticed(mutant):
    """INV-8, INV-9, INV-22: overlap, catch-up, backfills."""
    recipe = noticed(
        mutant, lambda seed: world if (world := recipe_of(seed)).has_policies else None
    )

    assert is_sound(recipe, PLAYED), recipe.command()
