"""Whoever gives orders: on which store, for which tenant, under which name, within which limits."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from duly.client.reading import read_reason
from duly.domain.audit import Actor
from duly.domain.instants import SECOND_US

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.client.lending import Lending
    from duly.client.tasks import Tasks
    from duly.clock import Clock
    from duly.config import Settings
    from duly.draws import Draws
    from duly.store.protocol import Store

LIBRARY = "library"
DECLARATION = "declaration"


def rest_for(duration_us: int) -> None:
    """Wait; nobody can wake it, for nobody knows what it waits for."""
    threading.Event().wait(duration_us / SECOND_US)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """What every part of the client works with."""

    open_store: Callable[[], Store]
    """Opens the store at first use: making an application touches nothing."""
    clock: Clock
    """For the front of new ids only; what is due or late, the store's clock decides."""
    draws: Draws
    tasks: Tasks
    settings: Settings
    lending: Lending
    tenant: str
    actor: str
    source: str = LIBRARY
    rest: Callable[[int], None] = rest_for
    """Lets so many microseconds pass between two looks; virtual time does it at once."""

    @property
    def store(self) -> Store:
        """The store, opened if it was not."""
        return self.open_store()

    def ordering(self, reason: str | None = None) -> Actor:
        """Return who gives an order, from where and why, as the audit trail records it."""
        return Actor(self.actor, self.source, read_reason(reason))
