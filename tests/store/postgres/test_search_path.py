"""Nobody's function is taken for one of the server's own (security)."""

from __future__ import annotations

import psycopg
import pytest

from duly.store.ports.dispatch import FireResult
from duly_conformance import steps
from duly_conformance.kit import add_runs, new_run, on_time

TRAP = """
CREATE FUNCTION public.{name}({kind}[]) RETURNS {returns} LANGUAGE sql VOLATILE AS $$
    INSERT INTO public.loot VALUES ('{name} of {kind}'); SELECT pg_catalog.{name}($1) $$"""
TRAPS = (
    "CREATE TABLE loot (by text)",
    *(
        TRAP.format(name="unnest", kind=kind, returns=f"SETOF {kind}")
        for kind in ("uuid", "int8", "int4", "text")
    ),
    TRAP.format(name="cardinality", kind="uuid", returns="int"),
)


@pytest.fixture
def trapped(timed_url):
    """A database in which somebody has put functions beside everybody's tables."""
    with psycopg.connect(timed_url, autocommit=True) as mallory:
        for trap in TRAPS:
            mallory.execute(trap)
    return timed_url


def _loot(url):
    with psycopg.connect(url) as looking:
        return looking.execute("SELECT DISTINCT by FROM public.loot").fetchall()


def test_a_day_in_the_life_of_a_store_calls_none_of_them(trapped, clock, open_store):
    store = open_store(trapped, clock)
    record = steps.create(store)
    store.add_runs(add_runs(new_run(None)))
    steps.fall_due(clock, record)
    fence = steps.own(store)
    assert (FireResult.FIRED,) == steps.fire(store, fence, on_time(record)).results
    steps.pause(store, steps.look(store, record))
    store.release_leases(fence)
    store.status()

    assert [] == _loot(trapped)


def test_neither_does_an_order_in_a_callers_own_transaction(trapped, clock, open_store):
    store = open_store(trapped, clock)
    with psycopg.connect(trapped) as own:
        store.joined(own).add_runs(add_runs(new_run(clock.now_us() + 10**9, key="k")))
        steps_order = add_runs(new_run(None, "second"))
        store.joined(own).add_runs(steps_order)
    with store.transaction(10**7) as lent:
        store.joined(lent).add_runs(add_runs(new_run(None, "third")))
        assert [("loot",)] == lent.execute("SELECT 'loot'::regclass::text"), "the caller's own path"

    assert [] == _loot(trapped)
