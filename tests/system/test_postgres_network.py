"""The network between dispatchers, clients and PostgreSQL cuts, delays, swallows and loses answers."""

from __future__ import annotations

from functools import partial
from uuid import UUID

import pytest

import duly
from tests.postgres.proxy import Proxy
from tests.system.checker import violations
from tests.system.client_program import new_app
from tests.system.fleet import LEASE_SECONDS, PATIENT_SECONDS, SECOND_US
from tests.system.postgres_campaign import FIRES
from tests.waiting import pause, wait_until

pytestmark = pytest.mark.timeout(600)
LOST = 2
DELAYED_FOR_US = int(2 * LEASE_SECONDS * SECOND_US)


@pytest.mark.thorough
def test_nothing_is_early_lost_or_twice_while_connections_are_cut_and_slow(postgres_campaign):
    """INV-21: a delay that is well below the lease costs nobody his membership."""
    campaign = postgres_campaign
    campaign.fleet.lease_seconds = PATIENT_SECONDS
    campaign.start()
    for proxy in campaign.proxies:
        proxy.cut()
        pause(0.1)
        proxy.reset()
    for proxy in campaign.proxies:
        proxy.delay(80, 80)
    until = campaign.fleet.clock.now_us() + DELAYED_FOR_US
    wait_until("all renew all the while", lambda: campaign.fleet.have_renewed_since(until))
    for proxy in campaign.proxies:
        proxy.heal()
    campaign.wait_for_fires()
    evidence = campaign.finish()

    assert [] == violations(evidence)
    assert 0 == evidence.takeovers


@pytest.mark.thorough
def test_a_dispatcher_that_hears_nothing_gives_up_its_connections_and_comes_back(
    postgres_campaign,
):
    """Half-open: no error, no answer. Others take over; it finds out by itself."""
    campaign = postgres_campaign
    campaign.start()
    victim, proxy = campaign.dispatchers[0], campaign.proxies[0]
    wait_until("all own something", lambda: 3 == len(campaign.fleet.shares()))
    proxy.swallow()
    wait_until("others take over", lambda: campaign.fleet.is_declared_dead(victim))
    wait_until("it says so", lambda: victim.count("store-lost"))
    proxy.heal()
    wait_until("it comes back", lambda: victim.count("joined") >= 2)
    evidence = campaign.finish()

    assert [] == violations(evidence)


@pytest.mark.parametrize("then", ["cut", pytest.param("hang", marks=pytest.mark.thorough)])
def test_a_firing_whose_answer_is_lost_is_not_fired_again(postgres_campaign, then):
    """The runs are made, and the dispatcher does not know; it must find out by itself."""
    campaign = postgres_campaign
    campaign.start()
    wait_until("all own something", lambda: 3 == len(campaign.fleet.shares()))
    for _ in range(LOST):
        for proxy in campaign.proxies[:-1]:
            proxy.drop_reply(FIRES, then)

        assert all(proxy.wait_dropped() for proxy in campaign.proxies[:-1]), "each has fired"
        campaign.wait_for_fires()
    for dispatcher in campaign.dispatchers:
        wait_until("it has found out", partial(dispatcher.count, "store-recovered"))
    evidence = campaign.finish()

    assert [] == violations(evidence)


@pytest.mark.thorough
def test_an_order_whose_answer_is_lost_is_given_again_under_the_same_id(postgres_fleet):
    """INV-17: the caller was told that it is not known; asked again, it is known."""
    with Proxy(postgres_fleet.url) as proxy, new_app(proxy.url) as app:
        call, one = app.call("ping"), UUID(int=7)
        app.store.now()
        proxy.drop_reply(b"INSERT INTO duly.delayed")
        with pytest.raises(duly.StoreUnavailable):
            app.enqueue(call, delay="1s", key="reminder", id=one)
        again = app.enqueue(call, delay="1s", key="reminder", id=one)

        assert 1 == proxy.dropped
        assert (one, False) == (again.id, again.is_new)
    postgres_fleet.start_dispatcher()
    wait_until("it fires", postgres_fleet.count_runs)

    assert [(one,)] == postgres_fleet.ask("SELECT id FROM duly.public_runs")
    assert [] == postgres_fleet.ask("SELECT id FROM duly.delayed")
