"""Quotas under real races: what is left is taken once, however many come for it at once."""

from __future__ import annotations

from functools import partial

import pytest

from duly.domain.quotas import ALL, Counted, QuotaKey
from duly.errors import Conflict, OverQuota
from duly.store.ports.operations import MarkOwner, SetQuotas
from duly_conformance import steps
from duly_conformance.kit import ADA, HOUR_US, SECOND_US, add_runs, new_run, new_schedule

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
    """Two creators at the limit, and more."""
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
    """Also of those that are plain, which are written in one statement where no quota is."""
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
    """What is undone was never there, so the one that waited gets in."""
    allow(store, "owner:anna", "default", schedules=1)
    first = new_schedule(store.now(), "first", owner="anna")
    second = new_schedule(store.now(), "second", owner="anna")
    with pytest.raises(ZeroDivisionError), store.transaction(30 * SECOND_US) as lent:  # noqa: PT012
        store.joined(lent).create_schedule(first)
        waiting = watch.start(lambda: store.create_schedule(second))
        assert watch.is_blocked()
        raise ZeroDivisionError

    assert waiting.result().is_new
    assert store.find_schedule("default", "first") is None


def test_one_tenants_quota_is_nothing_to_another(store, watch):
    """Nobody waits for somebody whose quota is another."""
    allow(store, "tenant:acme", schedules=5, creations=5, pending=5)
    with store.transaction(30 * SECOND_US) as lent:
        store.joined(lent).create_schedule(new_schedule(store.now(), "a", tenant="acme"))

        steps.create(store, "b", owner="bob")
        steps.delay(store, store.now() + HOUR_US)


def test_who_says_that_an_owner_is_gone_waits_for_who_makes_a_schedule_for_them(store, watch):
    """So that whoever has said it finds all that is active."""
    order = MarkOwner(owner="anna", tenant="default", actor=ADA)
    with store.transaction(30 * SECOND_US) as lent:
        made = new_schedule(store.now(), "made", owner="anna")
        store.joined(lent).create_schedule(made)
        saying = watch.start(lambda: store.mark_gone(order))
        assert watch.is_blocked()

    assert "anna" == saying.result().owner
    assert [made.id] == store.list_active_of("default", "anna", 10)


def test_those_who_make_schedules_for_an_owner_do_not_wait_for_each_other(store):
    """Where no quota has them wait."""
    allow(store, "owner:anna", "default", schedules=None)
    with store.transaction(30 * SECOND_US) as lent:
        store.joined(lent).create_schedule(new_schedule(store.now(), "a", owner="anna"))

        steps.create(store, "b", owner="anna")


def test_nothing_is_active_for_an_owner_of_whom_it_was_said_in_the_midst_of_a_crowd(store, watch):
    """Each of them is refused, or found."""
    for number in range(ROUNDS):
        owner = f"owner {number}"
        allow(store, f"owner:{owner}", "default", schedules=None)
        order = MarkOwner(owner=owner, tenant="default", actor=ADA)
        orders = [
            new_schedule(store.now(), f"{number}, {one}", owner=owner) for one in range(CROWD)
        ]

        def say(order=order, owner=owner):
            store.mark_gone(order)
            return set(store.list_active_of("default", owner, 100))

        found, *made = watch.at_once(say, *(partial(_made, store, one) for one in orders))

        assert found == {one for one in made if one is not None}


def _made(store, order):
    """Return which schedule was made, if it was."""
    try:
        return store.create_schedule(order).record.id
    except Conflict:
        return None
