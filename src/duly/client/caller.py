"""Whoever gives orders: on which store, for which tenant, under which name, within which limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from duly.client.reading import read_reason
from duly.domain.audit import Actor

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

    @property
    def store(self) -> Store:
        """The store, opened if it was not."""
        return self.open_store()

    def ordering(self, reason: str | None = None) -> Actor:
        """Return who gives an order, from where and why, as the audit trail records it."""
        return Actor(self.actor, self.source, read_reason(reason))
