"""How every test runs."""

from __future__ import annotations

import gc
import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import is_hypothesis_test, settings

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

pytest_plugins = ["tests.postgres.fixtures", "tests.run_report", "tests.store.made_store"]

# No deadline for a single example: what a shared machine does in a millisecond proves nothing about
# our code. The time-out per test is what ends a search that hangs. The examples are the same at every
# run, so that a change is judged by what it changed; DULY_EXPLORE=1 draws new ones.
explore = bool(os.environ.get("DULY_EXPLORE"))
settings.register_profile("duly", deadline=None, print_blob=True, derandomize=not explore)
settings.load_profile("duly")
os.environ["DULY_PORT"] = "0"  # the default port may be in use
SHARE = 1 if explore else 2
"""Of as many examples as a test wants, this part is tried: they are the same at every run, and most of
what they find they have found. All are tried where new ones are drawn."""
EXAMPLES_MIN = 30
SETTINGS = "_hypothesis_internal_use_settings"
"""Where a property test has them; there is no other way to them."""
TRY_FEWER: set[object] = set()

ROOT = Path(__file__).resolve().parent
KEEP_TIME = (ROOT / "system", ROOT / "failover")
"""Tests of real processes that must renew their leases in time."""
COLLECTED_AFTER = (10_000, 20, 10)
"""As programs of ours have it that hold much; there is memory enough for what a test leaves."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with tests that keep time: they wait for most of theirs, and others calculate meanwhile.

    Half of them come first and half in the middle. Several processes are given whole parts of the
    list, and two of them have some then; all of them at once would starve each other.
    """
    for item in items:
        _try_fewer(item)
    waiting = [item for item in items if _keeps_time(item)]
    others = [item for item in items if not _keeps_time(item)]
    half = len(others) // 2
    items[:] = [*waiting[::2], *others[:half], *waiting[1::2], *others[half:]]


def _try_fewer(item: pytest.Item) -> None:
    # A test of several cases is met several times, and is one function.
    test: Any = getattr(item, "obj", None)
    test = getattr(test, "__func__", test)
    if SHARE == 1 or not is_hypothesis_test(test) or test in TRY_FEWER:
        return
    TRY_FEWER.add(test)
    wanted = getattr(test, SETTINGS, None)
    if wanted is None:
        return  # a machine of states, which has its own
    fewer = min(wanted.max_examples, max(EXAMPLES_MIN, wanted.max_examples // SHARE))
    setattr(test, SETTINGS, settings(wanted, max_examples=fewer))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Leave all tests and modules out of the search for garbage: they are here until the end.

    While they come there is none: looking for it takes a quarter of the time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(*COLLECTED_AFTER)
        gc.enable()


def pytest_report_header() -> str:
    """Say at the head of a run what it leaves out."""
    folder = os.environ.get("DULY_CORPORA")
    left_out = "$DULY_CORPORA names no folder: answers of other schedulers are not compared"
    return f"corpora: {folder or left_out}"


def _keeps_time(item: pytest.Item) -> bool:
    return _is_of_those(item.path)


@cache
def _is_of_those(path: Path) -> bool:
    return any(one in path.parents for one in KEEP_TIME)


@pytest.fixture(autouse=True)
def own_surroundings() -> Iterator[None]:
    """Leave no setting of ours behind: a command that runs in this process names its store there."""
    before = _settings()
    yield
    for name in _settings().keys() - before.keys():
        del os.environ[name]
    os.environ.update(before)


def _settings() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("DULY_")}


@pytest.fixture(scope="module", autouse=True)
def garbage_of_its_own() -> Iterator[None]:
    """Collect what a file leaves, so that a leaked resource fails there and not in a later test."""
    yield
    gc.collect()
