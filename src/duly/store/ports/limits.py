"""Limits, rates, breakers, admission of claimed runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duly.domain.admission import AdmissionDecision, Breaker
    from duly.domain.audit import Actor
    from duly.domain.limits import Limit, LimitRecord, Limits
    from duly.store.ports.dispatch import MemberId
    from duly.store.ports.execution import ClaimRef


class BreakerRecord(NamedTuple):
    """What is known of a destination."""

    destination: str
    breaker: Breaker
    running: int
    updated_at: int
    waiting: int = 0
    """How many runs were put off because of it, and have not come back; 0 while it is closed."""


class PlaceRecord(NamedTuple):
    """What is going on at a limit."""

    place: str
    held: int
    """How many attempts are there, or have been let go and are about to be."""
    waiting: int
    next_at: int | None
    """When the next turn would be at its rate; None if it has none, or the turn is now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetLimit:
    """Limit something, by a person's order; a part that is not given is left to who says it."""

    scope: str
    limit: Limit
    actor: Actor


class Admitted(NamedTuple):
    """What became of those that asked, in the order they were given."""

    now: int
    verdicts: tuple[AdmissionDecision, ...]


class Request(NamedTuple):
    """A claim that asks to begin."""

    hold: ClaimRef
    tenant: str
    task: str
    destination: str | None = None
    """Whom its attempt speaks to; None if nobody in particular."""
    keys: tuple[tuple[str, str], ...] = ()
    """Of the parameters by which its task is limited: each with its value, as text."""


class LimitingStore(Protocol):
    """What workers ask before they begin, and what people say about limits."""

    def admit(self, worker: MemberId, requests: Sequence[Request]) -> Admitted:
        """Decide about claims that fall under limits, in one transaction.

        GOES takes a place at each limit, and a turn at each rate; asked again under the same claim
        it says so again, and takes nothing more. LATER and STANDS end the claim: its run waits for
        its timer or at the gate, its attempt number is free again, nothing is charged, and no
        attempt is on record; the fence stays grown. GONE for what is not the worker's under that
        fence. A claim that somebody asked to cancel before it was let begin is closed as cancelled,
        and GONE.
        """
        ...

    def declare_limits(self, limits: Mapping[str, Limit | None], actor: Actor) -> None:
        """Remember what code says about limits; None: it says nothing. Writes what has changed.

        The version grows by one with every order that has changed anything, and with no other.
        """
        ...

    def set_limit(self, command: SetLimit) -> LimitRecord:
        """Limit something by a person's order, on record (`limit.set`).

        In the same way as by any other change of a limit: who stands for a place goes if there is
        one now, what runs already takes its places, and who waits for a turn at a rate that has
        changed gets another by the new one.
        """
        ...

    def remove_limit(self, scope: str, actor: Actor) -> bool:
        """Take a person's limit away, on record (`limit.removed`); False if there is none."""
        ...

    def list_limits(self) -> Limits:
        """Return all limits, and the version that every beat tells."""
        ...

    def list_places(self) -> list[PlaceRecord]:
        """Return limits at which somebody is or waits, or whose turns are given out ahead."""
        ...

    def list_breakers(self) -> list[BreakerRecord]:
        """Return what is known of destinations, by name: of those that any end has told about."""
        ...

    def reset_breaker(self, destination: str, actor: Actor) -> BreakerRecord:
        """Take a destination for well, on record (`breaker.reset`); NotFound for a stranger.

        What was put off because of it comes back soon, one after the other.
        """
        ...
