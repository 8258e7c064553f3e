"""A program beside the system: it looks at the cluster through its own connection, wherever it leads.

    python -m tests.failover.observer_program URL LEDGER

It reads what anybody may read, the public view of runs, and writes down each run once, with its own
reading of the clock. What it could not see during a failover it sees at its next look, which goes
back to before the last one. It ends when its standard input is closed, after a look at everything.
"""

from __future__ import annotations

import json
import os
import select
import sys
from dataclasses import asdict
from pathlib import Path

from tests.failover.bounded import BoundedView

LOOK_EVERY_SECONDS = 0.1
LOOK_BACK_US = 10_000_000
"""Room for a fire whose commit was long in coming."""


def main(url: str, ledger: Path) -> None:
    """Watch until standard input is closed."""
    view, known, seen_at, is_over = BoundedView(url), set[str](), 0, False
    with ledger.open("a", encoding="utf-8") as book:
        while not is_over:
            is_over = bool(select.select([sys.stdin], [], [], LOOK_EVERY_SECONDS)[0])
            for sight in view.look(0 if is_over else max(0, seen_at - LOOK_BACK_US)):
                seen_at = sight.seen_at
                if sight.id not in known:
                    known.add(sight.id)
                    book.write(json.dumps(asdict(sight)) + "\n")
            book.flush()
        os.fsync(book.fileno())


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
