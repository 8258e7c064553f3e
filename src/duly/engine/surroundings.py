"""What every part of a dispatcher works with: the store, the clock, its settings, who listens."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from duly.domain.zones.database import ZoneDatabase, default_zones
from duly.engine.statistics import Statistics

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.clock import Clock
    from duly.engine.settings import DispatcherSettings
    from duly.store.dispatch import Fired, FireTimers
    from duly.store.protocol import Store
    from duly.telemetry import Telemetry
    from duly.telemetry.tracing import Tracing

    BeginFire = Callable[[FireTimers], Callable[[], Fired] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Where a dispatcher runs, where it can be woken, and by which time-zone rules it computes."""

    host: str = "local"
    process: int = 0
    wake_address: str = ""
    zones: ZoneDatabase = field(default_factory=default_zones)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What is given to each part, and nothing hidden beside it."""

    store: Store
    clock: Clock
    settings: DispatcherSettings
    telemetry: Telemetry
    node: Node
    begin_fire: BeginFire | None = None
    """How a crowd is fired while we go on, where the store can do that."""
    tracing: Tracing | None = None
    """Who is told of spans; None when nobody has asked for them."""
    statistics: Statistics = field(default_factory=Statistics)
