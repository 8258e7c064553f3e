"""How soon another dispatcher fires what one owned that has ended, on SQLite and on PostgreSQL.

.venv/bin/python -m bench.parts.takeover            print the table
.venv/bin/python -m bench.parts.takeover --write    and put it into BENCHMARKS.md
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from bench import tables
from bench.parts.processes import takeover
from bench.stores.database import Database, boot
from bench.stores.file import SqliteFile
from bench.stores.places import SECOND_US
from duly.store.ports.dispatch import MEMBER_TTL_US

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.stores.places import Place

ENDS = {"kill -9": signal.SIGKILL, "SIGTERM": signal.SIGTERM}


def measure(times: int) -> list[str]:
    """Let both stores and both ends take turns."""
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="duly-bench-") as folder, boot() as server:
        stores: dict[str, Callable[[], Place]] = {
            "SQLite": lambda: SqliteFile(Path(folder) / "takeover.db"),
            "PostgreSQL": lambda: Database(server),
        }
        for _ in range(times):
            for store, made in stores.items():
                for end, how in ENDS.items():
                    found.setdefault(f"{end}, on {store}", []).append(takeover(made(), how))
    rows = tables.takeover_table(found.items())
    return [*rows, "", f"A lease lasts {MEMBER_TTL_US / SECOND_US:.0f} s from its last renewal."]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="put it into BENCHMARKS.md")
    options = parser.parse_args()
    settings = (
        f"Python {platform.python_version()}, Duly {version('duly')}, {os.cpu_count()} cores;"
        f" load before the run: {os.getloadavg()[0]:.1f}."
    )
    text = "\n".join([settings, "", *measure(options.times)])
    print(text)
    if options.write:
        tables.write(text, "takeover")


if __name__ == "__main__":
    main()
