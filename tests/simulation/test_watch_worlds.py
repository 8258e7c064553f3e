"""Worlds in which somebody watches: no alert twice, none lost, nobody told what is not so."""

from __future__ import annotations

import pytest

from duly.store.postgres import alerting as postgres_alerting
from duly.store.sqlite import alerting as sqlite_alerting
from tests.simulation.on_postgres import changed_statements, on_postgres
from tests.simulation.recipe import recipe_of, with_watchers
from tests.simulation.simulation import Mutant, simulate
from tests.simulation.test_mutants import is_sound, name_of, noticed
from tests.simulation.test_sqlite_worlds import on_file
from tests.simulation.test_worlds import check_dangers, thorough_but
from tests.simulation.watch_mutants import WATCH_MUTANTS

pytestmark = pytest.mark.timeout(900)
SEEDS = range(9)
DANGERS = (4, 36)
"""Worlds that show every danger."""
ON_FILE = (1, 4)
ON_POSTGRES = (4, 15)
OVERTAKEN, OVERTAKEN_ON_POSTGRES = 22, 5
"""Worlds in which an end comes while its beginning is still tried."""
SAID = "V3: log was told of an end before its beginning was settled"


@pytest.mark.parametrize("seed", [seed for seed in SEEDS if seed not in DANGERS])
def test_alerts_are_right_in_any_world(seed):
    """INV-4, INV-5, INV-26: by what was seen, said, written, and has arrived."""
    report = simulate(with_watchers(recipe_of(seed)))

    assert report.violation is None, report.recipe.command()


def test_every_danger_of_watching_really_occurs():
    """And breaks no promise: V3, INV-4, INV-5, INV-26, as in the worlds above."""
    check_dangers("watch", DANGERS)


@pytest.mark.parametrize("mutant", WATCH_MUTANTS, ids=name_of)
def test_a_defect_of_watching_is_noticed(mutant):
    """INV-4, INV-5."""
    recipe = noticed(mutant, lambda seed: with_watchers(recipe_of(seed)))

    assert is_sound(recipe, {*SEEDS, *DANGERS}), recipe.command()


@pytest.mark.parametrize("seed", thorough_but(4, ON_FILE))
def test_alerts_are_right_on_sqlite(seed, tmp_path):
    """V3, INV-4, INV-5, INV-26, on a file."""
    report = simulate(with_watchers(recipe_of(seed)), on_file(tmp_path))

    assert report.violation is None, report.recipe.command()


@pytest.mark.parametrize("seed", thorough_but(4, ON_POSTGRES))
def test_alerts_are_right_on_postgres(seed, postgres_server):
    """V3, INV-4, INV-5, INV-26, on a server."""
    report = simulate(with_watchers(recipe_of(seed)), on_postgres(postgres_server))

    assert report.violation is None, f"{report.recipe.command()} --store postgres"


def test_a_defect_of_a_statement_about_alerts_is_noticed_on_sqlite(tmp_path):
    """Here an end overtakes its beginning."""
    turn = f"AND {sqlite_alerting.ITS_TURN}"
    defect = (sqlite_alerting, "DUE_DELIVERIES", turn, "")
    broken = Mutant(
        "sqlite", store=on_file(tmp_path).store, patch=lambda _: changed_statements((defect,))
    )

    assert SAID == simulate(with_watchers(recipe_of(OVERTAKEN)), broken).violation


def test_a_defect_of_a_statement_about_alerts_is_noticed_on_postgres(postgres_server):
    """Here an end overtakes its beginning."""
    turn = f"AND {postgres_alerting.ITS_TURN}"
    defect = (postgres_alerting, "DUE_DELIVERIES", turn, "")
    broken = on_postgres(postgres_server, defect)

    assert SAID == simulate(with_watchers(recipe_of(OVERTAKEN_ON_POSTGRES)), broken).violation
