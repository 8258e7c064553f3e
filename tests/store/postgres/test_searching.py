"""Searching in PostgreSQL: bounded pages, however much there is."""

from __future__ import annotations

from typing import ClassVar

import pytest

from bench.parts.search import Searches
from bench.stores.database import Database
from bench.stores.history import SCHEDULES, fill_database, tenant_of
from duly.app import App
from duly.store.ports.queries import Bounds
from duly.store.postgres import PostgresStore
from duly.store.postgres.searching import PostgresSearch
from tests.store.searched import missed_within

RUNS = 4_000
NARROW = Bounds(looked_at=40, texts=20, gathered=100)
TOUCHED_MAX = 130
"""The rows of a walk that is in no order and gets one; of any other walk there are fewer."""


def test_pages_that_are_cut_off_go_on_where_they_were(store, clock):
    """Nothing is missed, and nothing comes twice."""
    assert {} == missed_within(store, clock, PostgresSearch)


@pytest.fixture(scope="module")
def history(postgres_server):
    """A database with a past."""
    place = Database(postgres_server)
    fill_database(place, RUNS)
    yield place
    place.remove()


def touched(plan):
    """Return how many rows each part of a plan that reads has touched, in all its turns."""
    rows = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)
    own = [(plan["Actual Loops"] * rows, plan["Node Type"], plan.get("Index Name"))]
    below = [one for part in plan.get("Plans", ()) for one in touched(part)]
    return below + (own if "Relation Name" in plan else [])


@pytest.mark.parametrize("tenant", [0, 7])
def test_no_page_touches_more_rows_than_its_bound(history, tenant):
    """Whatever it is for; counted, on a database with thousands of each."""
    store = PostgresStore(history.url)
    counted = {}
    with store._connections.read() as look:  # noqa: SLF001 - how it is read is private
        # Here some tables are so small that looking something up is done by reading them.
        look.session.run("SET LOCAL enable_seqscan = off")

        class Explained(PostgresSearch):
            plans: ClassVar[list[tuple[float, str, str | None]]] = []

            def _rows(self, sql, where):
                text = f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {sql}"
                ((found,),) = look.session.rows(text, where.bound())
                self.plans.extend(touched(found[0]["Plan"]))
                return super()._rows(sql, where)

        for name, (what, terms) in Searches(RUNS).terms().items():
            search = Explained(look, NARROW)
            search.plans.clear()
            asking = App(store=searched(store, search), tenant=tenant_of(tenant * SCHEDULES // 20))
            page = getattr(asking, what).page
            cursor = page(limit=10, **terms(tenant)).next_cursor
            page(limit=10, cursor=cursor, **terms(tenant))
            counted[name] = max(search.plans, key=lambda one: one[0])
    store.close()

    assert {} == {name: most for name, most in counted.items() if most[0] > TOUCHED_MAX}


def searched(store, search):
    """Return a store that is searched within other bounds."""

    class Searched:
        name = store.name

        def __getattr__(self, name):
            return getattr(search if name.startswith("search_") else store, name)

    return Searched()
