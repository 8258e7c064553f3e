"""The simulation works: it notices every deliberate defect, and soon."""

from __future__ import annotations

import pytest

from tests.simulation.mutants import MUTANTS
from tests.simulation.recipe import recipe_of
from tests.simulation.simulation import simulate

SEEDS_MAX = 1000


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_defect_is_noticed(mutant):
    noticed = next(
        (seed for seed in range(SEEDS_MAX) if simulate(recipe_of(seed), mutant).violation), None
    )

    assert noticed is not None, f"{mutant.name}: not noticed in {SEEDS_MAX} seeds"
