"""How much a dispatcher process takes over a file of SQLite while nothing is due."""

from __future__ import annotations

import os
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, NamedTuple

from bench.parts.driving import idle_counts
from bench.parts.processes import dispatcher
from bench.stores.places import far_away

if TYPE_CHECKING:
    from collections import Counter

    from bench.stores.file import SqliteFile

TICKS = os.sysconf("SC_CLK_TCK")


class Footprint(NamedTuple):
    """What a dispatcher takes that has nothing to do for a week."""

    pending: int
    rss_mb: float
    file_mb: float
    cpu_seconds: float
    """In a minute."""
    counts: Counter[str]
    """In a minute."""


def footprint(file: SqliteFile, pending: int, seconds: int) -> Footprint:
    """Measure a dispatcher over a file full of promises, half schedules and half delayed runs."""
    file.fill(far_away(pending // 2), far_away(pending // 2))
    with dispatcher(file.url) as process:
        sleep(5)  # until it has settled down
        before = _cpu_seconds(process.pid)
        sleep(seconds)
        cpu = (_cpu_seconds(process.pid) - before) * 60 / seconds
        rss = _rss_mb(process.pid)
    counts = idle_counts(file, seconds)
    size = file.size_mb
    file.remove()
    return Footprint(pending, rss, size, cpu, counts)


def _cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def _rss_mb(process: int) -> float:
    for line in Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1000
    return 0.0
