"""Admission: whether an attempt that a worker has claimed may begin, waits, or comes back later.

Looked at in this order: is the other side well (B2), is there a place at each limit that it falls
under (R8), is it its turn at each rate (B4). Who can't begin for one reason uses up nothing of the
others: it holds no place meanwhile, and takes no turn. Pure: the store asks while it holds the
limits, so that no two decisions are made about the same state of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from duly.domain.breakers import BACK_EVERY_US, Breaker, ask
from duly.domain.instants import MINUTE, SECOND_US
from duly.domain.limits import LimitKind, Why, keyed_place, scope_of, why_text
from duly.domain.rates import Pace, take_turn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.domain.identity import RunId
    from duly.domain.limits import Limits
    from duly.domain.rates import Rate

PROBE_US = MINUTE * SECOND_US
"""After so long without an answer a probe is given up for lost, and another goes."""


class Way(StrEnum):
    """What becomes of a claim."""

    GOES = "goes"
    """Its attempt may begin; it holds its places until that has ended."""
    LATER = "later"
    """It is ours no more: its run waits for a timer, and has used up no attempt."""
    STANDS = "stands"
    """It is ours no more: its run stands at a gate until there is a place."""
    GONE = "gone"
    """It was ours no more already."""


class Verdict(NamedTuple):
    """What is decided about one claim."""

    way: Way
    why: str | None = None
    """Why it can't begin, and because of which limit: what its run's record says from now on."""
    at: int | None = None
    """If later: when it falls due again."""


GOES = Verdict(Way.GOES)
GONE = Verdict(Way.GONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comer:
    """An attempt that asks, and all that it falls under."""

    run_id: RunId
    destination: str | None = None
    caps: tuple[tuple[str, int], ...] = ()
    """Places of which there are only so many."""
    rates: tuple[tuple[str, Rate], ...] = ()
    places: tuple[str, ...] = ()
    """All that it takes when it begins: also those of which there is no end, to be seen there."""
    holds: frozenset[str] = frozenset()
    """What it has already: the place that it stood for and was let go with."""
    given_at: int | None = None
    """Its turn at its rates, if it was given one."""
    probe_us: int = PROBE_US


@dataclass(slots=True)
class Books:
    """What the decisions of a batch start from, and what they leave."""

    held: dict[str, int] = field(default_factory=dict)
    """How many hold each place."""
    kept: dict[str, int] = field(default_factory=dict)
    """How many of these have not been claimed since they were let go."""
    waiting: dict[str, int] = field(default_factory=dict)
    """How many stand for it: who comes now stands behind them."""
    paces: dict[str, Pace] = field(default_factory=dict)
    breakers: dict[str, Breaker] = field(default_factory=dict)


class Falling(NamedTuple):
    """What the runs of a task, a tenant and a destination fall under."""

    caps: tuple[tuple[str, int], ...]
    rates: tuple[tuple[str, Rate], ...]
    places: tuple[str, ...]


def falls_under(  # noqa: PLR0913, PLR0917 - all that limits ask for
    limits: Limits,
    task: str,
    tenant: str,
    destination: str | None,
    keys: Sequence[tuple[str, str]] = (),
) -> Falling:
    """Return the limits that an attempt falls under, each once and by the names of its places."""
    scopes = [scope_of(LimitKind.TASK, task), scope_of(LimitKind.TENANT, tenant)]
    if destination is not None:
        scopes.append(scope_of(LimitKind.DESTINATION, destination))
    by = dict(limits.of(scopes[0]).running_by)
    keyed = {
        keyed_place(task, tenant, parameter, value): by[parameter]
        for parameter, value in keys
        if parameter in by
    }
    found = {scope: limits.of(scope) for scope in scopes}
    caps = {scope: limit.running for scope, limit in found.items() if limit.running is not None}
    rates = {scope: limit.rate for scope, limit in found.items() if limit.rate is not None}
    places = {*caps, *keyed, *rates, *scopes[2:]}
    return Falling(
        tuple(sorted((caps | keyed).items())), tuple(sorted(rates.items())), tuple(sorted(places))
    )


def decide(comers: Sequence[Comer], books: Books, now: int) -> list[Verdict]:
    """Decide about those that ask, one after the other; the books are kept meanwhile."""
    return [_decide(comer, books, now) for comer in comers]


def _decide(comer: Comer, books: Books, now: int) -> Verdict:
    breaker = None
    if comer.destination is not None:
        known = books.breakers.get(comer.destination, Breaker())
        until, breaker = ask(known, comer.run_id, now, comer.probe_us)
        if until is not None:
            _leave(comer, books)
            at = _take_turn_back(comer.destination, books, until)
            return Verdict(Way.LATER, why_text(Why.BREAKER, comer.destination), at)
    full = _first_full(comer, books)
    if full is not None:
        _leave(comer, books)
        books.waiting[full] = books.waiting.get(full, 0) + 1
        return Verdict(Way.STANDS, why_text(Why.CAP, full))
    if comer.rates:
        at = _take_turn(comer, books, now)
        if at > now:
            _leave(comer, books)
            return Verdict(Way.LATER, why_text(Why.RATE, _slowest(comer, books)), at)
    for place in comer.places:
        if place not in comer.holds:
            books.held[place] = books.held.get(place, 0) + 1
    if comer.destination is not None and breaker is not None:
        books.breakers[comer.destination] = breaker
    return GOES


def _first_full(comer: Comer, books: Books) -> str | None:
    """Return the first place at which there is no room.

    Who comes for the first time stands behind all who wait, or were let go. One who was let go
    himself makes way only for those that run: two who were let go, each at a place that the other
    one needs as well, would make way for each other for ever.
    """
    for place, most in comer.caps:
        taken = books.held.get(place, 0)
        if comer.holds:
            taken -= books.kept.get(place, 0) + (place in comer.holds)
        else:
            taken += books.waiting.get(place, 0)
        if taken >= most:
            return place
    return None


def _take_turn(comer: Comer, books: Books, now: int) -> int:
    """Give it its turn; return when that is."""
    asked = [(rate, books.paces.get(place, Pace())) for place, rate in comer.rates]
    turn = take_turn(asked, comer.given_at, now)
    for (place, _), pace in zip(comer.rates, turn.paces, strict=True):
        books.paces[place] = pace
    return turn.at


def turns_back(destination: str) -> str:
    """Return under which name the turns are kept of those who wait for a destination."""
    return why_text(Why.BREAKER, destination)


def _take_turn_back(destination: str, books: Books, until: int) -> int:
    """Give one that waits for a destination its turn to ask again, not before an instant."""
    name = turns_back(destination)
    pace = books.paces.get(name, Pace())
    at = max(until, pace.promised_at)
    books.paces[name] = pace._replace(promised_at=at + BACK_EVERY_US)
    return at


def _slowest(comer: Comer, books: Books) -> str:
    """Return which of its rates has given out turns furthest ahead."""
    return max(comer.rates, key=lambda one: books.paces[one[0]].promised_at)[0]


def _leave(comer: Comer, books: Books) -> None:
    """Give back what it was let go with: it can't begin now."""
    for place in comer.holds:
        books.held[place] = books.held.get(place, 1) - 1


def room(most: int | None, held: int, waiting: int) -> int:
    """Return how many of those that stand for a place may go now."""
    return waiting if most is None else max(0, min(most - held, waiting))
