"""Small pictures of figures, as SVG that we write ourselves: bars and lines, no more."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

WIDTH, BAR, LEFT, RIGHT, LETTER = 760, 24, 210, 90, 6.6
HEIGHT, TOP, BOTTOM = 320, 36, 46
COLOURS = ("#0b6e4f", "#c1440e", "#3b5ba5", "#8a6d00", "#7b3f8c", "#4d4d4d", "#b0316a", "#2a8fa8")
STYLE = "font: 12px system-ui, sans-serif; fill: #666"


@dataclass(frozen=True)
class Bar:
    """A value with its spread."""

    name: str
    value: float
    lowest: float
    highest: float


@dataclass(frozen=True)
class Line:
    """A curve."""

    name: str
    points: Sequence[tuple[float, float]] = field(default_factory=list)


@dataclass(frozen=True)
class Axes:
    """What curves are about."""

    title: str
    across: str
    upright: str
    floor: float | None = None
    """Where the upright one begins: else what hardly changes would fill the whole height, and look
    like much."""


def bars(path: Path, title: str, found: Sequence[Bar]) -> None:
    """Draw bars on a logarithmic scale: contenders lie far apart."""
    most = max(one.highest for one in found)
    least = min(max(one.lowest, 1.0) for one in found) / 2
    span = math.log10(most / least) or 1.0

    def across(value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log10(max(value, least) / least) / span

    parts = []
    for number, one in enumerate(found):
        y = TOP + number * BAR
        colour = COLOURS[0] if one.name.startswith("Duly") else COLOURS[5]
        end = across(one.value)
        parts += [
            _text(LEFT - 8, y + 15, one.name, "end"),
            _rectangle(y + 3, end - LEFT, colour),
            _whisker(y + 11, across(one.lowest), across(one.highest)),
            _text(across(one.highest) + 6, y + 15, f"{one.value:,.0f}", "start"),
        ]
    _write(path, title, TOP + len(found) * BAR + 12, parts)


def lines(path: Path, axes: Axes, found: Sequence[Line]) -> None:
    """Draw curves on two logarithmic scales."""
    points = [point for one in found for point in one.points]
    xs, ys = [x for x, _ in points if x > 0], [y for _, y in points if y > 0]
    ys += [] if axes.floor is None else [axes.floor]
    right = WIDTH - 40 - LETTER * max(len(one.name) for one in found)

    def place(value: float, values: list[float], low: float, high: float) -> float:
        least, most = min(values), max(values)
        span = math.log10(most / least) or 1.0
        return low + (high - low) * math.log10(max(value, least) / least) / span

    parts = [
        _text(70, HEIGHT - 8, axes.across, "start"),
        _text(8, TOP - 6, axes.upright, "start"),
        f'<path d="M70 {TOP}V{HEIGHT - BOTTOM}H{right}" fill="none" stroke="#999"/>',
    ]
    parts += [_tick_y(at, place(at, ys, HEIGHT - BOTTOM, TOP)) for at in _decades(ys)]
    parts += [_tick_x(at, place(at, xs, 70, right)) for at in _decades(xs)]
    for number, one in enumerate(found):
        colour = COLOURS[number % len(COLOURS)]
        # More lines than colours: from the first colour on again, they are broken.
        dashes = ' stroke-dasharray="6 4"' if number >= len(COLOURS) else ""
        path_points = " ".join(
            f"{place(x, xs, 70, right):.1f},{place(y, ys, HEIGHT - BOTTOM, TOP):.1f}"
            for x, y in one.points
            if x > 0 and y > 0
        )
        y = TOP + 14 * number + 10
        look = f'fill="none" stroke="{colour}" stroke-width="2"{dashes}'
        parts += [
            f'<polyline points="{path_points}" {look}/>',
            f'<path d="M{right + 8} {y - 4}h14" {look}/>',
            _text(right + 26, y, one.name, "start"),
        ]
    _write(path, axes.title, HEIGHT, parts)


def _rectangle(y: float, width: float, colour: str) -> str:
    size = f'width="{width:.1f}" height="{BAR - 8}"'
    return f'<rect x="{LEFT}" y="{y}" {size} fill="{colour}"/>'


def _whisker(y: float, start: float, end: float) -> str:
    return f'<path d="M{start:.1f} {y}H{end:.1f}" stroke="#999" stroke-width="2"/>'


def _decades(values: list[float]) -> list[float]:
    first, last = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return [10.0**one for one in range(first, last + 1) if min(values) <= 10.0**one <= max(values)]


def _tick_y(value: float, y: float) -> str:
    return f'<path d="M66 {y:.1f}h4" stroke="#999"/>' + _text(62, y + 4, f"{value:,.10g}", "end")


def _tick_x(value: float, x: float) -> str:
    mark = f'<path d="M{x:.1f} {HEIGHT - BOTTOM}v4" stroke="#999"/>'
    return mark + _text(x, HEIGHT - BOTTOM + 18, f"{value:,.10g}", "middle")


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _write(path: Path, title: str, height: float, parts: Sequence[str]) -> None:
    body = "\n".join(parts)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}"'
        f' style="{STYLE}">\n<title>{escape(title)}</title>\n'
        f'<text x="8" y="18" style="font-weight: 600">{escape(title)}</text>\n{body}\n</svg>\n',
        encoding="utf-8",
    )
