"""What every benchmark has to do with its figures: spreads, shares, tables, and where they go."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

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


def share(ordered: list[int], part: float) -> int:
    """Return what so great a part of sorted values does not exceed."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))] if ordered else 0


def milliseconds(ordered: list[int]) -> str:
    """Write p50, p99 and the highest of sorted microseconds."""
    parts = (share(ordered, 0.5), share(ordered, 0.99), ordered[-1] if ordered else 0)
    return " | ".join(f"{one / 1000:,.2f}" for one in parts)


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Return the median of the ratios, each taken within a round."""
    return median(one / other for one, other in zip(ours, theirs, strict=True))


def header(*columns: str) -> list[str]:
    """Return the first two lines of a table."""
    return [row(*columns), "|---" * len(columns) + "|"]


def row(*cells: object) -> str:
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def record(workload: str, **facts: object) -> None:
    """Keep figures for whoever asks for them as JSON."""
    RECORDS.append({"workload": workload, **facts})


def lateness_table(found: Iterable[tuple[str, list[int]]]) -> list[str]:
    """Write how late things were, from sorted microseconds."""
    rows = header("lateness", "count", "p50 ms", "p99 ms", "max ms")
    for name, late in found:
        rows.append(row(name, len(late), milliseconds(late)))
    return rows


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


def options_of(about: str, parts: Sequence[str]) -> argparse.ArgumentParser:
    """Return what every benchmark of the engine can be told."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--only", nargs="+", choices=list(parts), default=list(parts))
    parser.add_argument("--write", action="store_true", help="put the tables into BENCHMARKS.md")
    parser.add_argument("--json", type=Path, help="write every figure as JSON lines")
    return parser


def tell(
    settings: str, parts: Iterable[tuple[str, Callable[[], list[str]]]], options: argparse.Namespace
) -> str:
    """Measure part by part, print each table when it is there; return all of them as text."""
    print(settings, flush=True)
    text = [settings, ""]
    for title, part in parts:
        lines = [f"### {title}", "", *part(), ""]
        print("\n".join(["", *lines]), flush=True)
        text += lines
        if options.json:
            write_records(options.json, settings)
    return "\n".join(text)
