"""Worlds whose tasks do what can't be taken back: nothing of it is repeated by itself (INV-11)."""

from __future__ import annotations

import pytest

from tests.simulation.effect_mutants import EFFECT_MUTANTS
from tests.simulation.recipe import recipe_of, with_effects
from tests.simulation.simulation import simulate
from tests.simulation.test_mutants import is_sound, name_of, noticed
from tests.simulation.test_worlds import check_dangers, violations_in

pytestmark = pytest.mark.timeout(900)
SEEDS = range(16)
CHUNKS = 4
DANGEROUS_SEEDS = (29, 7, 5, 55)
"""Worlds that show every danger; 275 is one of few in which a finding answers an earlier doubt."""
OTHER_SEEDS = [seed for seed in SEEDS if seed not in DANGEROUS_SEEDS]


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_effect_is_repeated_by_itself_in_any_world(chunk):
    """INV-5, INV-6, INV-8, INV-11: as many are in doubt as the outside says."""
    reports = [simulate(with_effects(recipe_of(seed))) for seed in OTHER_SEEDS[chunk::CHUNKS]]

    assert [] == violations_in(reports)


def test_every_danger_of_effects_really_occurs():
    """And breaks no promise: these worlds are of those that are played, and are played once."""
    check_dangers("effects", DANGEROUS_SEEDS)


@pytest.mark.parametrize("mutant", EFFECT_MUTANTS, ids=name_of)
def test_a_defect_of_effects_is_noticed(mutant):
    """INV-11."""
    recipe = noticed(mutant, lambda seed: with_effects(recipe_of(seed)))

    assert is_sound(recipe, {*SEEDS, *DANGEROUS_SEEDS}), recipe.command()
