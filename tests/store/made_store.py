"""A store in memory or in a file, as tests that need no server have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly.store.memory import MemoryStore
from duly.store.sqlite import SqliteStore
from tests.store.sqlite.made_file import made_file

if TYPE_CHECKING:
    from pathlib import Path

    from duly.testing.manual_clock import ManualClock

KINDS = ("memory", "sqlite")


def made_store(kind: str, folder: Path, clock: ManualClock) -> Any:
    """Return an empty store; a file's is in a folder that has none yet."""
    if kind == "memory":
        return MemoryStore(clock)
    assert kind == "sqlite", kind
    return SqliteStore(made_file(folder / "duly.db", clock), clock)
