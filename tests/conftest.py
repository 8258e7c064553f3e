"""How every test runs."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import settings

if TYPE_CHECKING:
    import pytest

pytest_plugins = ["tests.postgres.fixtures"]

# No deadline for a single example: what a shared machine does in a millisecond proves nothing about
# our code. The time-out per test is what ends a search that hangs. The examples are the same at every
# run, so that a change is judged by what it changed; DULY_EXPLORE=1 draws new ones.
explore = bool(os.environ.get("DULY_EXPLORE"))
settings.register_profile("duly", deadline=None, print_blob=True, derandomize=not explore)
settings.load_profile("duly")

ROOT = Path(__file__).resolve().parent
KEEP_TIME = (ROOT / "system", ROOT / "failover")
"""Tests of real processes that must renew their leases in time."""
MAKES_WAY = 10


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with tests that keep time: they wait for most of theirs, and others calculate meanwhile.

    Half of them come first and half in the middle. Several processes are given whole parts of the
    list, and two of them have some then; all of them at once would starve each other.
    """
    waiting = [item for item in items if _keeps_time(item)]
    others = [item for item in items if not _keeps_time(item)]
    half = len(others) // 2
    items[:] = [*waiting[::2], *others[:half], *waiting[1::2], *others[half:]]


def _keeps_time(item: pytest.Item) -> bool:
    return any(one in item.path.parents for one in KEEP_TIME)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Have whatever only calculates make way for tests that keep time, on a machine of few cores.

    Who may not take his priority back keeps the lower one; then all tests have it soon.
    """
    wanted = 0 if _keeps_time(item) else MAKES_WAY
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, wanted)
