"""Draining: a worker that takes no more runs, because it was asked to end or is worn out (R6, R9).

What runs may finish within the grace; then it is asked to stop, and given back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.engine.worker.held import Cause
from duly.telemetry import WorkerDraining, WorkerRecycling

if TYPE_CHECKING:
    from duly.engine.worker.holdings import Holdings
    from duly.engine.worker.parts import WorkerParts
    from duly.engine.worker.stopping import Limits


FOR_EVER = 1 << 62
"""Later than any monotonic clock comes."""


class Draining:
    """Knows whether the worker is to end, and until when work may finish."""

    def __init__(self, parts: WorkerParts, holdings: Holdings, limits: Limits) -> None:
        self._parts = parts
        self._holdings = holdings
        self._limits = limits
        self.is_asked = False
        """Set by whoever wants the worker to end; from a signal handler, too."""
        self.is_ordered = False
        """Whether people have ordered it through the store: then work may take its time."""
        self.is_worn = False
        """Whether the worker has lost too many slots to go on."""
        self.until: int | None = None
        """How long work may finish, on the monotonic clock; None while we do not drain."""

    def note(self, member: int, monotonic: int) -> None:
        """Begin when it is asked for or needed; past the grace, ask what still runs to stop."""
        settings, holdings = self._parts.settings, self._holdings
        leaked = len(holdings.leaked)
        if not self.is_worn and leaked >= min(settings.leaked_max, settings.slots):
            self.is_worn = self.is_asked = True
            self._parts.emit(WorkerRecycling(member=member, leaked=leaked))
        until = self._until(monotonic)
        if until is not None and self.until is None:
            self._parts.emit(WorkerDraining(member=member, running=len(holdings.running)))
        self.until = until
        if until is not None and monotonic >= until:
            for held in holdings.running:
                if held.stopping is None:
                    self._limits.stop(held, Cause.SHUTDOWN)

    def _until(self, monotonic: int) -> int | None:
        """Return how long work may finish: for the grace once it is asked for, else for ever."""
        if not self.is_asked:
            return FOR_EVER if self.is_ordered else None
        asked = monotonic + self._parts.settings.grace_us
        return asked if self.until is None else min(asked, self.until)

    def next_at(self) -> int | None:
        """Return when work is to be asked to stop; None when there is none, or it has been."""
        running = self._holdings.running
        return self.until if any(held.stopping is None for held in running) else None
