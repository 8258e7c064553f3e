"""W1: so many runs that do nothing, all due at one instant.

Counted from that instant to the last completion on disk. The runs are delayed ones, made through
the front door; lateness is from due to what the task itself reads from the clock as it begins.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from bench.harness import SECOND_US, Crowd, Figures, Kept, Turn, kept, lateness, per_run

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bench.contenders import Contender
    from bench.grounds import Grounds

NAME = "W1 burst"


def turns(contenders: Iterable[Contender], counts: Iterable[int]) -> list[Turn]:
    """Return a turn for each contender and size."""
    return [
        Turn(
            workload=NAME,
            contender=one,
            settings={"count": count},
            measure=partial(burst, one, Crowd(count)),
            rounds_max=one.rounds_max(count),
        )
        for count in counts
        for one in contenders
    ]


def burst(contender: Contender, crowd: Crowd, grounds: Grounds) -> Figures:
    """Run a crowd to its end."""
    return summary(kept(contender, grounds, crowd), crowd.size)


def summary(found: Kept, count: int) -> Figures:
    """Describe what became of a burst."""
    took = (found.finished_at - found.due_at) / SECOND_US
    numbers = {number for number, _ in found.starts}
    return {
        "per_second": round(found.done / took),
        "seconds": round(took, 3),
        "done": found.done,
        "missed": count - len(numbers),
        "doubled": len(found.starts) - len(numbers),
        **lateness(at - found.due_at for _, at in found.starts),
        **per_run(found.cpu, count),
        **{f"{name} per run": round(one, 2) for name, one in found.counts.items()},
    }
