"""The same worlds on a SQLite file: real SQL under simulated processes, at a lower rate."""

from __future__ import annotations

import pytest

from duly.store.sqlite import SqliteStore
from tests.simulation.recipe import changed, recipe_of
from tests.simulation.simulation import Mutant, simulate
from tests.simulation.test_worlds import thorough_but

SEEDS = 10
WORKING_SEEDS = 3
POLICY_SEEDS = (42, 52)


def on_file(path):
    """Return what makes a world one on a SQLite file."""

    def store(clock, shards):
        return SqliteStore(path / "promises.db", clock, shards=shards)

    return Mutant("sqlite", store=store)


@pytest.mark.parametrize("seed", thorough_but(7, range(SEEDS)))
def test_no_promise_is_broken_on_sqlite(seed, tmp_path):
    """INV-1 to INV-5, INV-9, INV-12 to INV-17, INV-26; without transactions that stay open."""
    # SQLite has one writer: whoever keeps a transaction open holds everybody else up.
    recipe = changed(recipe_of(seed), seconds=40, workers=0, has_open_transactions=False)
    report = simulate(recipe, on_file(tmp_path))

    assert report.violation is None, report.recipe.command()


@pytest.mark.parametrize("seed", thorough_but(1, range(WORKING_SEEDS)))
def test_no_run_is_lost_on_sqlite(seed, tmp_path):
    """INV-1, INV-2, INV-4 to INV-7, INV-10, INV-21, INV-24, INV-26, with workers."""
    recipe = changed(recipe_of(seed), seconds=30, workers=1 + seed, has_open_transactions=False)
    report = simulate(recipe, on_file(tmp_path))

    assert report.violation is None, report.recipe.command()


@pytest.mark.parametrize("seed", thorough_but(42, POLICY_SEEDS))
def test_what_may_not_overlap_does_not_on_sqlite(seed, tmp_path):
    """INV-8, with backfills, overrides and edits of policies."""
    recipe = changed(
        recipe_of(seed), seconds=30, workers=2, has_policies=True, has_open_transactions=False
    )
    report = simulate(recipe, on_file(tmp_path))

    assert report.violation is None, report.recipe.command()
