"""Claims that are carried out as soon as they are ordered, for stores that answer in one go."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.store.execution import Claimed, ClaimRuns, ExecutionStore


class DirectClaims:
    """Claims at once, and keeps the answer until it is asked for."""

    def __init__(self, store: ExecutionStore) -> None:
        self._store = store

    def __call__(self, order: ClaimRuns) -> Callable[[], Claimed]:
        """Claim; what is raised is raised at once."""
        claimed = self._store.claim_runs(order)
        return lambda: claimed
