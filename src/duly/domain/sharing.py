"""Fair shares: who of several tenants is claimed next from a queue (R8).

Priorities come first, whoever's they are. Within a priority the tenants form a ring, in the order
of their names, and a claim begins behind the one that was served last. Each gets an even share of
the claim; what some leave of theirs goes to the others, in the same order. Within a tenant nothing
changes: who has waited longest goes first, or who came last, if that is asked for.

A claim names no more tenants than it may take runs, so that it costs what it takes, and not what
there is. Those behind them on the ring have their turn with the next one.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from duly.domain.identity import RunId

_Name = TypeVar("_Name", int, str)


class Waiting(NamedTuple):
    """A run in its queue, as the queue is ordered."""

    priority: int
    tenant: str
    rank: int
    run_id: RunId
    is_passed: bool = False
    """Whether it stays where it is, whoever's turn it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """How a claim goes about one queue."""

    most: int
    """How many it may take from there; what the shares are shares of."""
    begin: str = ""
    """The first tenant on the ring, or where he would stand."""
    first: int | None = None
    """The priority from which on it looks, and then round; None for all in their order."""
    newest_first: bool = False
    """Whether it takes only runs of the first priority that it finds, and the newest of those."""


def begin_behind(tenant: str) -> str:
    """Return where the ring begins if this tenant is to be the last."""
    return tenant + "\x01"


def share_out(waiting: Iterable[Waiting], sharing: Sharing) -> list[Waiting]:
    """Return what a claim takes of what waits, in the order in which it does."""
    lines: dict[int, dict[str, list[Waiting]]] = {}
    for one in sorted(waiting, reverse=sharing.newest_first):
        lines.setdefault(one.priority, {}).setdefault(one.tenant, []).append(one)
    taken: list[Waiting] = []
    for priority in ring(sorted(lines), sharing.first):
        taken += _share_out(lines[priority], sharing)
        if sharing.newest_first:
            break
    return taken[: sharing.most]


def _share_out(lines: dict[str, list[Waiting]], sharing: Sharing) -> list[Waiting]:
    """Return the runs of one priority in their order."""
    tenants = ring(sorted(lines), sharing.begin)
    named, others = tenants[: sharing.most], tenants[sharing.most :]
    share = sharing.most // max(1, len(named))
    fit = {tenant: [one for one in line if not one.is_passed] for tenant, line in lines.items()}
    shares = [one for tenant in named for one in fit[tenant][:share]]
    rests = [one for tenant in named for one in fit[tenant][share:]]
    return [*shares, *rests, *(one for tenant in others for one in fit[tenant])]


def ring(names: Sequence[_Name], begin: _Name | None) -> list[_Name]:
    """Return names in their order, from one on and round."""
    first: int = 0 if begin is None else bisect_left(names, begin)
    return list(names[first:]) + list(names[:first])
