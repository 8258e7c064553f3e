"""Whoever gives orders: on which store, for which tenant, under which name, within which limits."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from duly.client.reading import read_reason
from duly.domain.audit import Actor
from duly.domain.instants import SECOND_US
from duly.errors import Forbidden
from duly.store.tenancy import part_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.client.lending import Lending
    from duly.client.tasks import Tasks
    from duly.clock import Clock
    from duly.config import Settings
    from duly.draws import Draws
    from duly.store.protocol import Store
    from duly.telemetry.tracing import Tracing

LIBRARY = "library"
DECLARATION = "declaration"


def rest_for(duration_us: int) -> None:
    """Wait; nobody can wake it, for nobody knows what it waits for."""
    threading.Event().wait(duration_us / SECOND_US)


@dataclass(slots=True)
class Traces:
    """Who is told of spans; one for all that stand for the same application.

    It is switched on when a program begins to run, and the tasks of that program order things, too.
    """

    tracing: Tracing | None = None


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
    address: str | None = None
    """From where whoever asks has come over the network, if so."""
    credential: str | None = None
    """By which token or session they are known, if so."""
    is_confined: bool = False
    """Whether it speaks for its tenant only: what all share it neither changes nor counts."""
    rest: Callable[[int], None] = rest_for
    """Lets so many microseconds pass between two looks; virtual time does it at once."""

    traces: Traces = field(default_factory=Traces)

    @property
    def tracing(self) -> Tracing | None:
        """Who is told of spans; None when nobody has asked for them."""
        return self.traces.tracing

    @property
    def store(self) -> Store:
        """The store, opened if it was not; told whose it is, where it keeps tenants apart."""
        return part_of(self.open_store(), self.tenant)

    def require_operator(self, what: str) -> None:
        """Refuse to a tenant's caller what concerns all: only an operator may do that."""
        if self.is_confined:
            problem = f"may not {what}: that concerns every tenant"
            remedy = "ask an operator, or use a token of all tenants with the scope admin"
            raise Forbidden(self.actor, problem, remedy)

    def ordering(self, reason: str | None = None) -> Actor:
        """Return who gives an order, from where and why, as the audit trail records it."""
        why = read_reason(reason)
        return Actor(self.actor, self.source, why, self.address, self.credential)
