"""The same worlds on a SQLite file: real SQL under simulated processes, at a lower rate (D4)."""

from __future__ import annotations

import pytest

from duly.store.sqlite import SqliteStore
from tests.simulation.recipe import changed, recipe_of
from tests.simulation.simulation import Mutant, simulate

SEEDS = 10


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_promise_is_broken_on_sqlite(seed, tmp_path):
    """INV-1 to INV-5, INV-9, INV-12 to INV-17, INV-26; without transactions that stay open."""

    def on_file(clock, shards):
        return SqliteStore(tmp_path / "promises.db", clock, shards=shards)

    # SQLite has one writer: whoever keeps a transaction open holds everybody else up.
    recipe = changed(recipe_of(seed), seconds=40, has_open_transactions=False)
    report = simulate(recipe, Mutant("sqlite", store=on_file))

    assert report.violation is None, report.recipe.command()
