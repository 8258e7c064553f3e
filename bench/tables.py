"""What every benchmark has to do with its figures: spreads, shares, tables, and where they go."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PAGE = Path(__file__).resolve().parents[1] / "BENCHMARKS.md"
RECORDS: list[dict[str, object]] = []


class Spread(NamedTuple):
    """A median and how far the rounds lay apart."""

    median: float
    lowest: float
    highest: float

    def __str__(self) -> str:
        return f"{self.median:,.0f} ({self.lowest:,.0f}-{self.highest:,.0f})"


def spread(values: Sequence[float]) -> Spread:
    return Spread(median(values), min(values), max(values))


def header(*columns: str) -> list[str]:
    """Return the first two lines of a table."""
    return [row(*columns), "|---" * len(columns) + "|"]


def row(*cells: object) -> str:
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def record(workload: str, **facts: object) -> None:
    """Keep figures for whoever asks for them as JSON."""
    RECORDS.append({"workload": workload, **facts})


def takeover_table(found: Iterable[tuple[str, list[float]]]) -> list[str]:
    """Write how soon somebody else went on, in seconds."""
    rows = header(
        "one of two dispatchers ends", "times", "first fire by the heir, median s", "spread s"
    )
    for name, seconds in found:
        one = spread(seconds)
        times = f"{one.lowest:.2f}-{one.highest:.2f}"
        rows.append(row(name, len(seconds), f"{one.median:.2f}", times))
    return rows


def write(text: str, mark: str, page: Path = PAGE) -> None:
    """Replace what stands between two marks of the page."""
    start, end = f"<!-- {mark}: start -->", f"<!-- {mark}: end -->"
    before, rest = page.read_text(encoding="utf-8").split(start)
    _, after = rest.split(end)
    page.write_text(f"{before}{start}\n{text}\n{end}{after}", encoding="utf-8")


def write_records(path: Path, settings: str) -> None:
    lines = [json.dumps({"settings": settings, **one}) + "\n" for one in RECORDS]
    path.write_text("".join(lines), encoding="utf-8")
