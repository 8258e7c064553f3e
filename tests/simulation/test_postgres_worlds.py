"""The same worlds on PostgreSQL: real SQL under simulated processes, at a lower rate."""

from __future__ import annotations

import pytest

from duly.store.postgres import firing
from tests.simulation.on_postgres import on_postgres
from tests.simulation.recipe import changed, recipe_of
from tests.simulation.simulation import simulate
from tests.simulation.test_worlds import thorough_but

pytestmark = pytest.mark.timeout(300)
SEEDS = 6
WORKING_SEEDS = 2
POLICY_SEEDS = (42, 52)


@pytest.mark.parametrize("seed", thorough_but(2, range(SEEDS)))
def test_no_promise_is_broken_on_postgres(seed, postgres_server):
    """INV-1 to INV-5, INV-9, INV-12 to INV-17, INV-26; transactions stay open as people leave them."""
    recipe = changed(recipe_of(seed), seconds=40, workers=0)
    report = simulate(recipe, on_postgres(postgres_server))

    assert report.violation is None, f"{report.recipe.command()} --store postgres"


@pytest.mark.parametrize("seed", thorough_but(1, range(WORKING_SEEDS)))
def test_no_run_is_lost_on_postgres(seed, postgres_server):
    """INV-1, INV-2, INV-4 to INV-7, INV-10, INV-21, INV-24, INV-26, with workers."""
    recipe = changed(recipe_of(seed), seconds=30, workers=1 + seed)
    report = simulate(recipe, on_postgres(postgres_server))

    assert report.violation is None, f"{report.recipe.command()} --store postgres"


@pytest.mark.parametrize("seed", thorough_but(42, POLICY_SEEDS))
def test_what_may_not_overlap_does_not_on_postgres(seed, postgres_server):
    """INV-8, with backfills, overrides and edits of policies."""
    recipe = changed(recipe_of(seed), seconds=30, workers=2, has_policies=True)
    report = simulate(recipe, on_postgres(postgres_server))

    assert report.violation is None, f"{report.recipe.command()} --store postgres"


def test_a_defect_of_a_statement_is_noticed(postgres_server):
    """INV-9: here a timer fires as planned, however late it is."""
    condition = f"AND n.now <= {firing.LATE_AFTER}"
    defect = (firing, "FIRE_SCHEDULES", condition, "")
    recipe = changed(recipe_of(0), seconds=40, workers=0)
    report = simulate(recipe, on_postgres(postgres_server, defect))

    assert "INV-9: a late timer was answered with fired" == report.violation
