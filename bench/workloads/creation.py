"""W3: future runs made one by one, each durable before the next, and in bulk.

Timed inside the process that makes them, after ten that are not counted; connecting is not timed.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from bench.harness import SECOND_US, Figures, Turn
from bench.peers.protocol import now_us
from bench.running import told

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bench.contenders import Contender
    from bench.grounds import Grounds

NAME = "W3 creation"
DAY_US = 86_400 * SECOND_US


def turns(contenders: Iterable[Contender], count: int, singles: int) -> list[Turn]:
    """Return turns in bulk and one by one."""
    return [
        Turn(
            workload=NAME,
            contender=one,
            settings={"count": number, "way": way},
            measure=partial(creation, one, number, way),
            rounds_max=one.rounds_max(number),
        )
        for one in contenders
        for way, number in (("bulk", count), ("single", singles))
    ]


def creation(contender: Contender, count: int, way: str, grounds: Grounds) -> Figures:
    """Make so many runs for tomorrow."""
    with grounds.site(contender) as site:
        told(contender, site.journal, "prepare", site.url)
        ways = (f"--count={count}", f"--due={now_us() + DAY_US}", "--warm")
        single = ("--single",) if way == "single" else ()
        answer = told(contender, site.journal, "promise", site.url, *ways, *single)
    return {"per_second": round(count / answer["took_us"] * SECOND_US)}
