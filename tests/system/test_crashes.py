"""Promises hold while processes are killed, stopped and replaced; seen from outside."""

from __future__ import annotations

import signal

import pytest

from tests.system.campaign import Campaign, unprovoked
from tests.system.checker import violations

pytestmark = pytest.mark.timeout(600)

KINDS = frozenset({"cancel", "create", "enqueue", "move"})


def test_nothing_is_early_lost_or_twice_while_dispatchers_and_clients_die(fleet):
    """Kill -9, SIGTERM, and a client that dies in the middle of a call."""
    campaign = Campaign(fleet, "crashes")
    campaign.start()
    campaign.kill_dispatcher()
    campaign.kill_client()
    campaign.kill_dispatcher()
    campaign.wait_for_kinds(KINDS)
    evidence = campaign.finish()

    assert [] == violations(evidence)
    assert evidence.takeovers >= 2, "nobody was taken over from: the zero above proves nothing"
    assert {one.kind for one in evidence.orders} >= KINDS


@pytest.mark.thorough
def test_a_stopped_owner_is_refused_and_one_that_is_told_to_stop_hands_over(fleet):
    """A stale owner's write changes nothing and is on record; an orderly end costs nobody
    a lease, so nobody is declared dead."""
    campaign = Campaign(fleet, "stopped")
    campaign.start()
    leaver = campaign.stop_gracefully()

    assert not fleet.is_declared_dead(leaver)

    campaign.refuse_a_stale_fire()
    evidence = campaign.finish()

    assert [] == violations(evidence)
    assert [] == unprovoked(evidence)


@pytest.mark.thorough
def test_what_was_acknowledged_outlives_a_client_that_dies_at_once(fleet):
    """Durable when the call returns."""
    program = ["tests.system.dying_client", fleet.url]
    clients = [fleet.start([*program, str(number)], "dying") for number in range(5)]
    for client in clients:
        client.popen.wait(120)

    assert [-signal.SIGKILL] * 5 == [client.popen.returncode for client in clients]
    promised = [client.log.read_text(encoding="utf-8").split() for client in clients]
    names = sorted(name for name, _ in promised)
    keys = sorted(key for _, key in promised)

    assert names == sorted(row[0] for row in fleet.ask("SELECT name FROM duly.public_schedules"))
    assert keys == sorted(row[0] for row in fleet.ask("SELECT key FROM duly.delayed"))
