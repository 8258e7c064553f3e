"""Observers: read the store, and say what is so; each look has a bound (V3, P3).

Whether it is an alert is decided elsewhere, by rules. An observer reads what people read as well:
the state of the store, queues, breakers, doubts, schedules.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.domain.alerting import AlertRecord, Observation
    from duly.store.protocol import Store
    from duly.store.reading import StoreStatus

SUBJECTS_MAX = 50
"""How many things of one kind are told one by one."""


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What an observer works with, read for all of them."""

    store: Store
    status: StoreStatus
    alerts: tuple[AlertRecord, ...] = ()
    """Pending and open: what these are about is to be looked at again."""
    notes: dict[str, Any] = field(default_factory=dict)
    """What watchers have learnt so far; an observer may put something in under its own name."""
    is_time_up: Callable[[], bool] = _never
    """Whether whoever goes round has done enough for one look."""
    with_suspects: bool = True
    """Whether what alerts are about is looked at again: not by those who only go on."""

    @property
    def now(self) -> int:
        """The store's time."""
        return self.status.now


class Observer(Protocol):
    """Whoever looks at some part of the store."""

    def observe(self, asked: Asked) -> Observation:
        """Say what is so, and how far was looked; reads only."""
        ...


@runtime_checkable
class GoesRound(Protocol):
    """An observer that looks at a part each time, and goes on behind it."""

    @property
    def is_round_over(self) -> bool:
        """Whether the next part is the first one again."""
        ...
