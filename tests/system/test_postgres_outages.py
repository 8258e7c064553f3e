"""PostgreSQL goes away and comes back: dispatchers say so, go on trying, and nothing is lost."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.system.checker import violations
from tests.system.fleet import OUTLASTED_SECONDS
from tests.waiting import wait_until

if TYPE_CHECKING:
    from tests.system.fleet import Process

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.thorough,
    pytest.mark.usefixtures("running_server"),
]


def test_nothing_is_early_lost_or_twice_while_the_server_crashes(postgres_campaign):
    """Stopped with -m immediate in the middle of a load, and started again."""
    campaign = postgres_campaign
    campaign.start()
    for times in (1, 2):
        campaign.crash_server()
        for dispatcher in campaign.dispatchers:
            wait_until("it has noticed", partial(has_recovered, dispatcher, times))
    evidence = campaign.finish()

    assert [] == violations(evidence)


def has_recovered(dispatcher: Process, times: int) -> bool:
    return dispatcher.count("store-recovered") >= times


def test_nobody_is_declared_dead_for_lost_connections_or_while_a_program_holds_all_timers(
    postgres_campaign,
):
    """INV-21: pg_terminate_backend again and again; who can not fire goes on renewing."""
    campaign = postgres_campaign
    campaign.fleet.lease_seconds = OUTLASTED_SECONDS
    campaign.start()
    campaign.end_backends()
    campaign.end_backends()
    campaign.hold_lock()
    evidence = campaign.finish()

    assert [] == violations(evidence)
    assert 0 == evidence.takeovers


def test_a_dispatcher_that_is_started_before_the_server_waits_for_it_and_says_so(
    postgres_fleet, running_server
):
    """It begins by itself when the server comes up."""
    client = postgres_fleet.client(None, "early")
    client.app.enqueue(client.app.call("ping"), delay="1s", key="reminder")
    client.close()
    running_server.stop()
    dispatcher = postgres_fleet.new_dispatcher()
    wait_until("it says so", lambda: dispatcher.count("store-lost"))
    running_server.start()
    wait_until("it fires", postgres_fleet.count_runs)

    (lost,) = [one for one in dispatcher.events() if one["event"] == "store-lost"]

    assert "can't be reached" in lost["problem"]
    assert 1 == dispatcher.count("joined")
