"""Dispatchers behind PgBouncer in transaction mode, which has no session for anybody."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from tests.postgres.pgbouncer import PgBouncer
from tests.system.campaign import Campaign, unprovoked
from tests.system.checker import violations
from tests.waiting import wait_until

SCHEDULES = 40
pytestmark = [pytest.mark.timeout(600), pytest.mark.thorough]


@pytest.fixture
def pooler(running_server):
    with PgBouncer.boot(running_server, pool_size=4) as booted:
        yield booted


@dataclass
class PooledCampaign(Campaign):
    """A campaign in which everybody but the observer goes through a pooler."""

    pooler: PgBouncer = field(kw_only=True)

    def way_of(self, place: int) -> str:
        return self.pooler.url(self.fleet.url)

    def way_of_clients(self) -> str:
        return self.pooler.url(self.fleet.url)


def test_dispatchers_fire_and_take_over_through_a_pooler_and_outlive_its_restart(
    postgres_fleet, pooler
):
    """No session state, so nothing that a pooler could lose or give to another."""
    campaign = PooledCampaign(postgres_fleet, "pooled", schedules=SCHEDULES, pooler=pooler)
    campaign.start()
    campaign.kill_dispatcher()
    pooler.stop()
    wait_until("they notice", lambda: all(one.count("store-lost") for one in campaign.dispatchers))
    pooler.start()
    campaign.wait_for_fires()
    wait_until(
        "they recover", lambda: all(one.count("store-recovered") for one in campaign.dispatchers)
    )
    evidence = campaign.finish()

    assert [] == violations(evidence)
    assert [] == unprovoked(evidence)
