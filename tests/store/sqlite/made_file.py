"""A file with the schema in it, as a copy: making one anew takes ten times as long.

For tests that begin with an empty store; how one is made has tests of its own.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from duly.clock import SystemClock
from duly.engine.manual_clock import ManualClock
from duly.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from duly.clock import Clock


def made_file(path: Path, clock: Clock | None = None) -> Path:
    """Put an empty store where there is nothing yet: made at this time, or by the real clock."""
    path.touch(mode=0o600)
    path.write_bytes(_made_at(None if clock is None else clock.now_us()))
    return path


@cache
def _made_at(now_us: int | None) -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "duly.db"
        store = SqliteStore(path, SystemClock() if now_us is None else ManualClock(now_us))
        store.status()
        store.close()
        return path.read_bytes()
