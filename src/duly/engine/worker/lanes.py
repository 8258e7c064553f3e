"""What is caught up and filled in has a part of a worker's slots, however much is live (M3).

Live runs come first, always; so a queue that is never empty would leave nothing to the other lanes.
While there is such a crowd, one of a few claims begins with them. It takes no more than an eighth
of the slots, with what such claims have brought before and still runs: so what takes long does not
fill the worker up.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle
from typing import TYPE_CHECKING

from duly.domain.literals import Lane

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from duly.domain.identity import RunId
    from duly.engine.worker.held import Held
    from duly.store.execution import ClaimedRun, ClaimRuns

CLAIMS_APART = 4
"""Of so many claims in a crowd one begins with another lane; those for the newest are not counted,
which come in between."""
SHARE = 8
"""One slot of so many is reserved, and one at least."""


class ReservedLanes:
    """Remembers whose turn it is, and what runs by that."""

    def __init__(self, slots: int) -> None:
        self._slots_max = max(1, slots // SHARE)
        self._turns = cycle((Lane.CATCH_UP, Lane.BACKFILL))
        self._claims = 0
        self._taken: set[RunId] = set()

    def order(self, order: ClaimRuns, running: Iterable[Held]) -> ClaimRuns:
        """Return a claim in a crowd: as it is, or as one for another lane, if it is its turn."""
        self._claims += 1
        if self._claims < CLAIMS_APART:
            return order
        self._claims = 0
        self._taken &= {held.claimed.run_id for held in running}
        limit = min(order.limit, self._slots_max - len(self._taken))
        return replace(order, first_lane=next(self._turns), limit=limit) if limit > 0 else order

    def note(self, order: ClaimRuns, runs: Sequence[ClaimedRun]) -> None:
        """Remember what a claim has brought, if it was one for another lane."""
        if order.first_lane is not Lane.LIVE:
            self._taken.update(claimed.run_id for claimed in runs if not claimed.is_live)
