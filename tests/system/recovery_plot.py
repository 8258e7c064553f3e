"""A picture of a recovery: how late live work was in each second, and how much was overdue."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from tests.system.recovery_campaign import Recovery

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 320, 70, 80, 36, 46
STYLE = "font: 12px system-ui, sans-serif; fill: #666"
LATE, OVERDUE, ALONE = "#0b6e4f", "#c1440e", "#999"
FLOOR_MS = 0.1


def draw(path: Path, found: Recovery) -> None:
    """Draw lateness on a logarithmic scale, and what is overdue on a plain one, over seconds."""
    last = max(found.seconds, default=1) + 1
    late = [
        (second, max(sorted(one.live_us)[int(0.99 * len(one.live_us))] / 1000, FLOOR_MS))
        for second, one in sorted(found.seconds.items())
        if one.live_us
    ]
    left, behind = found.overdue, [(0, found.overdue)]
    for second in range(last):
        left -= found.seconds[second].caught_up if second in found.seconds else 0
        behind.append((second + 1, max(left, 0)))
    ordered = sorted(found.healthy_us)
    healthy = max(ordered[int(0.99 * len(ordered))] / 1000, FLOOR_MS) if ordered else FLOOR_MS
    most = max([ms for _, ms in late] + [healthy * 10])
    span = math.log10(most / FLOOR_MS)

    def across(second: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * second / last

    def up(ms: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * math.log10(ms / FLOOR_MS) / span

    def up_plain(count: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * count / max(found.overdue, 1)

    bottom, end = HEIGHT - BOTTOM, WIDTH - RIGHT
    parts = [
        f'<path d="M{LEFT} {TOP}V{bottom}H{end}V{TOP}" fill="none" stroke="#999"/>',
        f'<path d="M{LEFT} {up(healthy):.1f}H{end}" stroke="{ALONE}" stroke-dasharray="4 3"/>',
        _text(end - 4, up(healthy) - 4, "p99 of live work before the outage", "end"),
        _line([(across(x), up(y)) for x, y in late], LATE),
        _line([(across(x), up_plain(y)) for x, y in behind], OVERDUE),
        _text(LEFT, TOP - 8, "live work, p99, ms late", "start", LATE),
        _text(WIDTH - 4, TOP - 8, "overdue occurrences", "end", OVERDUE),
        _text(LEFT, HEIGHT - 8, "seconds after the dispatchers are back", "start"),
        _text(end + 6, up_plain(found.overdue) + 4, f"{found.overdue:,}", "start", OVERDUE),
        _text(end + 6, bottom + 4, "0", "start", OVERDUE),
    ]
    exponent = math.ceil(math.log10(FLOOR_MS))
    while 10.0**exponent <= most:
        parts.append(_text(LEFT - 6, up(10.0**exponent) + 4, f"{10.0**exponent:,g}", "end", LATE))
        exponent += 1
    every = max(1, round(last / 8, -1) or 5)
    parts += [
        _text(across(second), bottom + 18, f"{second:g}", "middle")
        for second in range(0, last, int(every))
    ]
    text = "\n".join(parts)
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'style="{STYLE}">\n<title>Recovery after an outage</title>\n{text}\n</svg>\n',
        encoding="utf-8",
    )


def _line(points: list[tuple[float, float]], colour: str) -> str:
    told = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{told}" fill="none" stroke="{colour}" stroke-width="2"/>'


def _text(x: float, y: float, text: str, anchor: str, colour: str = "#666") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" style="fill: {colour}">{text}</text>'
    )
