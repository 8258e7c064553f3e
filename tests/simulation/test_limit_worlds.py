"""Worlds with breakers, caps and rates: retries are bounded and spread (INV-23)."""

from __future__ import annotations

import pytest

from tests.simulation.limit_mutants import LIMIT_MUTANTS
from tests.simulation.recipe import recipe_of, with_limits
from tests.simulation.simulation import simulate
from tests.simulation.test_mutants import is_sound, name_of, noticed
from tests.simulation.test_worlds import check_dangers

pytestmark = pytest.mark.timeout(900)
SEEDS = range(5)
DANGERS = (16, 81)
"""Worlds that show every danger."""


@pytest.mark.parametrize("seed", [seed for seed in SEEDS if seed not in DANGERS])
def test_limits_hold_in_any_world(seed):
    """INV-23, INV-26: for the whole fleet, by what was seen at destinations."""
    report = simulate(with_limits(recipe_of(seed)))

    assert report.violation is None, report.recipe.command()


def test_every_danger_of_limits_really_occurs():
    """And breaks no promise: B1, B2, B4, R8, INV-23, INV-26, as in the worlds above."""
    check_dangers("limits", DANGERS)


@pytest.mark.parametrize("mutant", LIMIT_MUTANTS, ids=name_of)
def test_a_defect_of_limits_is_noticed(mutant):
    """INV-23."""
    recipe = noticed(mutant, lambda seed: with_limits(recipe_of(seed)))

    assert is_sound(recipe, {*SEEDS, *DANGERS}), recipe.command()
