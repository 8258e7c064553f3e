"""A system that is well and busy raises nothing, however long one looks."""

from __future__ import annotations

import os
from typing import Any

import pytest

from duly.domain.enums import Overlap
from duly.domain.outcomes import Succeeded
from duly.store.sqlite import SqliteStore
from duly.timetable.interval import every
from tests.engine.alerts.alert_rig import GuardRoom
from tests.engine.rig import MINUTE, SECOND, Rig

LOOKS = 240
"""An hour of them."""
LOOKS_ON_A_SERVER = 80
"""Twenty minutes; DULY_EXPLORE=1 looks for the whole hour there, too."""


@pytest.fixture
def rig(stored):
    """A fleet on a store whose time is set by hand, on each store in turn."""
    made: Any = Rig()
    made.store, made.store_clock = stored
    made.clocks = [made.store_clock]
    return made


def test_a_healthy_busy_hour_raises_none(rig):
    """It fires, runs, retries nothing, and is asked for things; nobody is told anything."""
    rig.dispatcher()
    shop = rig.worker()
    shop.executor.does(Succeeded())
    for number, period in enumerate(("1m", "1m", "5m", "20s", "20m")):
        rig.schedule(f"s{number}", timetable=every(period), overlap=Overlap.SKIP)
    guard = GuardRoom(rig.store, rig.store_clock)

    looks = LOOKS
    if not isinstance(rig.store, SqliteStore) and not os.environ.get("DULY_EXPLORE"):
        looks = LOOKS_ON_A_SERVER
    for look in range(looks):
        rig.run(MINUTE // 4)
        guard.watcher.tick()
        guard.courier.tick()
        rig.delay(30 * SECOND, f"reminder {look}")

    assert ([], []) == (guard.alerts(is_open=False), guard.channel.told)
    assert len(shop.works) > 2 * looks
