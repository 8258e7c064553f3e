"""A program beside the system: it looks at the store through its own read-only connection.

    python -m tests.system.observer_program URL LEDGER

It reads what anybody may read, the public view of runs, and writes down each run once, with its own
reading of the clock. It ends when its standard input is closed, after a last look at everything.
"""

from __future__ import annotations

import json
import os
import select
import sys
from dataclasses import asdict
from pathlib import Path

from duly.clock import SystemClock
from tests.system.views import open_view

LOOK_EVERY_SECONDS = 0.02
LOOK_BACK_US = 10_000_000
"""Fires are committed in the order of their clock readings; this is room enough for one that was
long in coming. The last look is at everything."""


def main(url: str, ledger: Path) -> None:
    """Watch until standard input is closed."""
    view = open_view(url)
    clock, known = SystemClock(), set[str]()
    with ledger.open("a", encoding="utf-8") as book:
        is_over = False
        while not is_over:
            is_over = bool(select.select([sys.stdin], [], [], LOOK_EVERY_SECONDS)[0])
            since = 0 if is_over else clock.now_us() - LOOK_BACK_US
            for sight in view.look(since):
                if sight.id not in known:
                    known.add(sight.id)
                    book.write(json.dumps(asdict(sight)) + "\n")
            book.flush()
        os.fsync(book.fileno())


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
