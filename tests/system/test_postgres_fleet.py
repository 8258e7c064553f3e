"""Three dispatchers on one PostgreSQL share the work, and take over from each other."""

from __future__ import annotations

import pytest

from tests.system.campaign import unprovoked
from tests.system.checker import violations
from tests.system.fleet import PATIENT_SECONDS, SECOND_US
from tests.waiting import wait_until

pytestmark = [pytest.mark.timeout(600), pytest.mark.thorough]
KINDS = frozenset({"cancel", "create", "edit", "enqueue", "move"})
LIST_TAKEN = """
SELECT l.acquired_at - m.ended_at FROM duly.leases l CROSS JOIN duly.members m
WHERE m.process = $1 AND l.lane = 'live' AND l.shard = ANY($2::int4[])"""


def test_shards_are_shared_and_move_when_a_dispatcher_comes_or_goes(postgres_fleet):
    """Without a leader, evenly, and without anybody being declared dead."""
    fleet = postgres_fleet
    fleet.lease_seconds = PATIENT_SECONDS
    leaver, other = fleet.start_dispatcher(), fleet.start_dispatcher()
    wait_until("two share the shards", lambda: [16, 16] == fleet.shares())
    newcomer = fleet.start_dispatcher()
    wait_until("three share the shards", lambda: [11, 11, 10] == fleet.shares())
    left = [shard for shard, owner in fleet.owners().items() if owner == leaver.popen.pid]

    assert 0 == leaver.terminate()

    wait_until("two share the shards again", lambda: [16, 16] == fleet.shares())

    assert {other.popen.pid, newcomer.popen.pid} == set(fleet.owners().values())
    assert 0 == fleet.count_audit("member.declared-dead")
    assert len(left) in (10, 11)
    waits = [wait for (wait,) in fleet.ask(LIST_TAKEN, leaver.popen.pid, left)]
    assert max(waits) < fleet.lease_seconds * SECOND_US


def test_nothing_is_early_lost_or_twice_while_dispatchers_and_clients_die(postgres_campaign):
    """Kill -9 of dispatchers, and of a client in the middle of a call."""
    campaign = postgres_campaign
    campaign.start()
    campaign.wait_for_orders()
    campaign.kill_dispatcher()
    campaign.kill_client()
    campaign.wait_for_kinds(KINDS)
    evidence = campaign.finish()

    assert [] == violations(evidence)
    assert [] == unprovoked(evidence)
    assert {one.kind for one in evidence.orders} >= KINDS


def test_a_stopped_owner_is_refused_and_one_that_is_told_to_stop_hands_over(postgres_campaign):
    """What it sends arrives when another dispatcher owns its shards."""
    campaign = postgres_campaign
    campaign.start()
    leaver = campaign.stop_gracefully()

    assert not campaign.fleet.is_declared_dead(leaver)

    campaign.refuse_a_stale_fire()
    evidence = campaign.finish()

    assert [] == violations(evidence)
    assert [] == unprovoked(evidence)
