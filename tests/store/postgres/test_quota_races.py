"""Quotas under real races: what is left is taken once, however many come for it at once (S7)."""

from __future__ import annotations

from functools import partial

import pytest

from duly.domain.quotas import ALL, Counted, QuotaKey
from duly.errors import OverQuota
from duly.store.quotas import SetQuotas
from duly.testing.conformance import steps
from duly.testing.factories import ADA, HOUR_US, SECOND_US, add_runs, new_run, new_schedule

CROWD = 8
ROUNDS = 10


@pytest.fixture
def store(patient_store):
    return patient_store


def allow(store, scope, tenant="", **most):
    given = {Counted(counted): number for counted, number in most.items()}
    store.set_quotas(SetQuotas(key=QuotaKey(scope, tenant), most=given, actor=ADA))


def tried(call):
    """Say whether an order was carried out."""
    try:
        call()
    except OverQuota:
        return False
    return True


@pytest.mark.parametrize(
    ("scope", "counted"),
    [("owner:anna", "schedules"), ("tenant:default", "schedules"), (ALL, "creations")],
)
def test_of_a_crowd_that_creates_at_once_as_many_get_in_as_there_is_room(
    store, watch, scope, counted
):
    """S7: two creators at the limit, and more."""
    for number in range(ROUNDS):
        allowed = 3 * (number + 1)
        tenant = "default" if scope == "owner:anna" else ""
        allow(store, scope, tenant, **{counted: allowed})
        orders = [
            new_schedule(store.now(), f"{number}, {one}", owner="anna") for one in range(CROWD)
        ]
        if scope != "owner:anna":
            orders = [new_schedule(store.now(), f"{number}, {one}") for one in range(CROWD)]

        made = watch.at_once(
            *(partial(tried, partial(store.create_schedule, order)) for order in orders)
        )

        assert 3 == sum(made)


def test_of_a_crowd_that_delays_runs_at_once_as_many_get_in_as_there_is_room(store, clock, watch):
    """S7: also of those that are plain, which are written in one statement where no quota is."""
    due_at = clock.now_us() + HOUR_US
    for number in range(ROUNDS):
        allow(store, "tenant:*", pending=3 * (number + 1))
        orders = [
            add_runs(new_run(due_at, f"{number}, {one}", is_drawn=True, fingerprint=""))
            for one in range(CROWD)
        ]

        made = watch.at_once(*(partial(tried, partial(store.add_runs, one)) for one in orders))

        assert 3 == sum(made)
        assert 3 * (number + 1) == store.status().delayed


def test_who_creates_waits_for_who_has_and_may_still_roll_back(store, watch):
    """S7, D3: what is undone was never there, so the one that waited gets in."""
    allow(store, "owner:anna", "default", schedules=1)
    first = new_schedule(store.now(), "first", owner="anna")
    second = new_schedule(store.now(), "second", owner="anna")
    with pytest.raises(ZeroDivisionError), store.transaction(30 * SECOND_US) as lent:  # noqa: PT012
        store.create_schedule(first, within=lent)
        waiting = watch.start(lambda: store.create_schedule(second))
        assert watch.is_blocked()
        raise ZeroDivisionError

    assert waiting.result().is_new
    assert store.find_schedule("default", "first") is None


def test_one_tenants_quota_is_nothing_to_another(store, watch):
    """S7: nobody waits for somebody whose quota is another."""
    allow(store, "tenant:acme", schedules=5, creations=5, pending=5)
    with store.transaction(30 * SECOND_US) as lent:
        store.create_schedule(new_schedule(store.now(), "a", tenant="acme"), within=lent)

        steps.create(store, "b", owner="bob")
        steps.delay(store, store.now() + HOUR_US)
