"""W5: memory and processor time of a system that has much pending and nothing due."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from bench.harness import Figures, Turn, usage
from bench.running import memory_mb, started, told
from bench.workloads.backlog import pend

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bench.contenders import Contender
    from bench.grounds import Grounds

NAME = "W5 footprint"
SETTLING_SECONDS = 10


def turns(contenders: Iterable[Contender], pendings: Iterable[int], seconds: int) -> list[Turn]:
    """Return a turn for each amount that is pending."""
    return [
        Turn(
            workload=NAME,
            contender=one,
            settings={"pending": pending, "seconds": seconds},
            measure=partial(footprint, one, pending, seconds),
        )
        for one in contenders
        for pending in pendings
    ]


def footprint(contender: Contender, pending: int, seconds: int, grounds: Grounds) -> Figures:
    """Weigh processes that wait."""
    with grounds.site(contender) as site:
        told(contender, site.journal, "prepare", site.url)
        pend(contender, site, pending)
        with started(contender, site.url, site.journal) as processes:
            time.sleep(SETTLING_SECONDS)
            before = usage(contender, site, processes)
            time.sleep(seconds)
            after = usage(contender, site, processes)
            memory = [memory_mb(one.pid) for one in processes]
    names = [name for name in before if name != "server"]
    shares = {f"{name}_cpu_percent": 100 * (after[name] - before[name]) / seconds for name in after}
    weights = dict(zip(names, memory, strict=False))
    return {
        **{f"{name}_mb": round(weight, 1) for name, weight in weights.items()},
        **{name: round(share, 2) for name, share in shares.items()},
    }
