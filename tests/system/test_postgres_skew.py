"""Clocks that disagree, on machines of one fleet."""

from __future__ import annotations

import pytest

from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(600)
SHARDS = 32
SKEWS_US = (3_600_000_000, -3_600_000_000)
LIST_HOLDING = "SELECT process FROM duly.members WHERE is_holding AND ended_at IS NULL"


def test_dispatchers_whose_clocks_are_off_own_nothing_and_say_so(postgres_fleet):
    """In either direction; those whose clocks are right own everything.

    That the limit is 100 ms is judged on a clock that stands still (engine/test_clocks.py).
    """
    fleet = postgres_fleet
    skewed = [
        fleet.start(["tests.system.skewed_dispatcher", fleet.url, str(skew)], "skewed")
        for skew in SKEWS_US
    ]
    wait_until("they say so", lambda: all(one.count("skew-hold-begun") for one in skewed))
    punctual = fleet.start_dispatcher()
    wait_until("one owns all", lambda: {punctual.popen.pid} == set(fleet.owners().values()))
    client = fleet.client(None, "skewed")
    client.app.enqueue(client.app.call("ping"), delay="1s", key="reminder")
    client.close()
    wait_until("it fires", fleet.count_runs)

    # How far off a clock is can't be told well while the machine is busy: one may err for a moment.
    off = {one.popen.pid for one in skewed}
    wait_until("they hold", lambda: off == {one for (one,) in fleet.ask(LIST_HOLDING)})
    wait_until("one owns all", lambda: [SHARDS] == fleet.shares())

    assert {punctual.popen.pid} == set(fleet.owners().values())
