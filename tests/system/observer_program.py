"""A program beside the system: it looks at the file through its own read-only connection.

    python -m tests.system.observer_program FILE LEDGER

It reads what anybody may read, the public view of runs, and writes down each run once, with its own
reading of the clock. It ends when its standard input is closed, after a last look at everything.
"""

from __future__ import annotations

import json
import os
import select
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw

from duly.clock import SystemClock
from tests.system.evidence import Sight

if TYPE_CHECKING:
    from collections.abc import Iterator

LOOK_EVERY_SECONDS = 0.02
LOOK_BACK_US = 10_000_000
"""Fires are committed in the order of their clock readings; this is room enough for one that was
long in coming. The last look is at everything."""

# The first row fixes the snapshot; the clock is read after it, so that nothing in it is younger.
FIRST_ROW = "SELECT 1 FROM duly_public_runs LIMIT 1"
LIST_RUNS = """
SELECT lower(hex(id)), lower(hex(schedule_id)), key, scheduled_for, not_before, fired_at, state,
    lane
FROM duly_public_runs WHERE coalesce(fired_at, finished_at) >= ?"""


def open_readonly(path: Path) -> apsw.Connection:
    """Open a file for looking alone."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    connection.set_busy_timeout(1000)
    return connection


def look(connection: apsw.Connection, since: int) -> Iterator[Sight]:
    """Return the runs that were made since, as they are at this moment."""
    clock = SystemClock()
    with connection:
        connection.execute(FIRST_ROW).fetchall()
        seen_at = clock.now_us()
        rows: list[tuple[Any, ...]] = connection.execute(LIST_RUNS, (since,)).fetchall()
    for row in rows:
        yield Sight(
            id=row[0],
            schedule=row[1] or None,
            key=row[2],
            scheduled_for=row[3],
            not_before=row[4],
            fired_at=row[5],
            state=row[6],
            lane=row[7],
            seen_at=seen_at,
        )


def main(path: Path, ledger: Path) -> None:
    """Watch until standard input is closed."""
    connection = open_readonly(path)
    clock, known = SystemClock(), set[str]()
    with ledger.open("a", encoding="utf-8") as book:
        is_over = False
        while not is_over:
            is_over = bool(select.select([sys.stdin], [], [], LOOK_EVERY_SECONDS)[0])
            since = 0 if is_over else clock.now_us() - LOOK_BACK_US
            # Busy, or its disk is full: whoever only looks comes back in a moment.
            with suppress(apsw.BusyError, apsw.FullError, apsw.IOError, apsw.CantOpenError):
                for sight in look(connection, since):
                    if sight.id not in known:
                        known.add(sight.id)
                        book.write(json.dumps(asdict(sight)) + "\n")
            book.flush()
        os.fsync(book.fileno())


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
