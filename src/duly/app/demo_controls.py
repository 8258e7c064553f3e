"""Demo controls: what pages may do in the demo, and nowhere else.

An application has none (`app.demo` is None) unless `duly demo` has put them there: by that a page
knows that what it shows is demo data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from duly.timetable.instants import iso_or_none

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

LABEL = "demo data"


@dataclass(frozen=True, slots=True, kw_only=True)
class KilledWorker:
    """A worker that was killed in the middle of a run."""

    worker: int
    process: int
    run: UUID
    """What it was doing: nobody knows now whether it is done."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"worker": self.worker, "process": self.process, "run": str(self.run)}


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoState:
    """Where the demo stands: what could be killed, and what came of it."""

    payments: str
    """The schedule whose runs may not be done twice."""
    victim: KilledWorker | None
    """Whoever is in the middle of one of them; None between two of them."""
    in_doubt: tuple[UUID, ...]
    """Those of which nobody knows whether they are done, the newest first; the inbox has more."""
    clock_change: str
    """A schedule on whose time of day clocks will change."""
    clock_changes_at: datetime | None
    """When; None if they never do again."""
    clock_change_zone: str | None = None
    """Whose clocks those are."""
    killed: KilledWorker | None = None
    """Who was killed last by these controls; None before that."""
    label: str = LABEL

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        at = self.clock_changes_at
        return {
            "label": self.label,
            "payments": self.payments,
            "victim": None if self.victim is None else self.victim.to_json(),
            "in_doubt": [str(one) for one in self.in_doubt],
            "clock_change": self.clock_change,
            "clock_changes_at": iso_or_none(at),
            "clock_change_zone": self.clock_change_zone,
            "killed": None if self.killed is None else self.killed.to_json(),
        }


class DemoControls(Protocol):
    """What somebody who looks at the demo may do to it."""

    def state(self) -> DemoState:
        """Say where the demo stands."""
        ...

    def kill_worker(self) -> KilledWorker:
        """Kill a worker in the middle of a payment, as a power cut would; Conflict if none is."""
        ...
