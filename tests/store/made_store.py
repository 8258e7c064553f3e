"""A store in memory or in a file, as tests that need no server have them."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from duly.engine.manual_clock import ManualClock
from duly.store.memory import MemoryStore
from duly.store.sqlite import SqliteStore
from tests.store.sqlite.made_file import made_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KINDS = ("memory", "sqlite")


def made_store(kind: str, folder: Path, clock: ManualClock) -> Any:
    """Return an empty store; a file's is in a folder that has none yet."""
    if kind == "memory":
        return MemoryStore(clock)
    assert kind == "sqlite", kind
    return SqliteStore(made_file(folder / "duly.db", clock), clock)


@pytest.fixture
def stored_in_memory() -> Iterator[tuple[SqliteStore, ManualClock]]:
    """An empty SQLite store in memory and its clock, for every test that needs one store."""
    clock = ManualClock()
    with closing(SqliteStore(":memory:", clock)) as store:
        yield store, clock
