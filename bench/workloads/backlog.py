"""W4: a burst with many other runs pending, beside one with none.

What a run costs is counted, as noise hides the difference: pages looked at and bytes of log, by
everything that the database did from before the burst fell due until it was complete. The others
are due in any week of the next year; they are inserted directly, as Duly itself would have them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from bench.harness import START_SECONDS, Crowd, Figures, Kept, Turn, in_time, keep
from bench.running import told
from bench.stores.places import far_away
from bench.workloads.burst import summary

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bench.contenders import Contender
    from bench.grounds import Grounds, Site

NAME = "W4 backlog"
MANY = 1_000_000


def turns(
    contenders: Iterable[Contender], pendings: Iterable[int], count: int = 10_000
) -> list[Turn]:
    """Return a turn for each amount that is pending."""
    return [
        Turn(
            workload=NAME,
            contender=one,
            settings={"pending": pending, "count": count},
            measure=partial(backlog, one, pending, count),
        )
        for one in contenders
        for pending in pendings
    ]


def backlog(contender: Contender, pending: int, count: int, grounds: Grounds) -> Figures:
    """Run a burst beside what is pending."""

    def attempt(times: int) -> Kept:
        with grounds.site(contender) as site:
            told(contender, site.journal, "prepare", site.url)
            pend(contender, site, pending)
            if site.server is not None:
                grounds.checkpoint()
            # Filling takes minutes: not to be done again because a process started slowly.
            patience = 4 if pending >= MANY else 1
            lead = patience * START_SECONDS + 2 * count / contender.per_second
            return keep(contender, site, Crowd(count), times * lead)

    return summary(in_time(attempt), count)


def pend(contender: Contender, site: Site, pending: int) -> None:
    """Have so much pending that is not due for a long time."""
    if not pending:
        return
    if site.place is not None:
        site.place.fill(delayed=far_away(pending))
        return
    far_at = f"--due={next(far_away(1)).due_at}"
    told(contender, site.journal, "promise", site.url, f"--count={pending}", far_at)
