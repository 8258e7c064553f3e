"""Decides whether a claimed run may start: limits, rates, circuit breakers, fair shares.

A `Breaker` is one row for the whole fleet. While closed, it counts successes and failures. After
enough failures it opens: due attempts at its destination are put off, and take neither a worker's
slot nor an attempt. After its pause the next due attempt is made alone, as a probe. If the probe
succeeds the breaker closes; otherwise it stays open for twice as long, or for as long as the
destination asked for (Retry-After).

`decide` checks in this order: the breaker of the destination, a place at each limit, a turn at each
rate. A run that fails one check uses up nothing of the others: it holds no place and takes no turn.
The functions are pure. The store calls them while it holds the limits, so that no two decisions are
based on the same state.

`share_out` takes runs in order of priority, whatever their tenant. Within a priority the tenants
form a ring, in the order of their names, and a claim begins after the tenant that was served last.
Each tenant gets an even share of the claim; an unused share goes to the others, in the same order.
Within a tenant the oldest run goes first, or the newest if the queue asks for that.

A claim names no more tenants than it may take runs, so that its cost depends on what it takes and
not on what is waiting. The tenants after them on the ring have their turn with the next claim.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from duly.domain.limits import (
    LimitKind,
    LimitReason,
    RateState,
    keyed_place,
    scope_of,
    take_turn,
    why_text,
)
from duly.timetable.instants import HOUR, MINUTE, SECOND_US

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from duly.domain.ids import RunId
    from duly.domain.limits import Limits, Rate


WINDOW_US = 30 * SECOND_US
FAILURES_MIN = 10
"""Fewer failures than this open nothing, whatever their share."""
FAILED_SHARE_MIN = 0.5
PAUSE_FIRST_US = 5 * SECOND_US
PAUSE_MAX_US = 5 * MINUTE * SECOND_US
ASKED_PAUSE_MAX_US = HOUR * SECOND_US
"""A destination that asks for a longer pause (Retry-After) is probed after this."""
LOOK_US = SECOND_US
"""While a probe is under way, the others ask again after so long."""
BACK_EVERY_US = SECOND_US // 200
"""Who is put off comes back in a turn of its own: however many wait for a destination that is down,
they do not keep the fleet busy with asking, nor do they all call it at once when it is back."""


class BreakerState(StrEnum):
    """Whether attempts at a destination are made."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"
    """A probe is under way; everything else waits for its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """What is known of a destination."""

    state: BreakerState = BreakerState.CLOSED
    counted_from: int = 0
    succeeded: int = 0
    failed: int = 0
    """In the present window; while open, in the window that opened it and by probes since."""
    opened_at: int | None = None
    """When it opened after having been closed."""
    retry_at: int | None = None
    """While open: when a probe may go. While half-open: when it is given up for lost."""
    pause_us: int = 0
    probe: RunId | None = None
    epoch: int = 0
    """Grows with every opening."""

    @property
    def is_closed(self) -> bool:
        """Whether attempts are made as they fall due."""
        return self.state is BreakerState.CLOSED


class EndAtDestination(NamedTuple):
    """What the end of an attempt tells about its destination."""

    run_id: RunId
    is_answered: bool | None
    """Whether the destination did its part; None: the end does not tell."""
    wait_us: int | None = None
    """How long the destination asked to wait, if it failed."""


class Pass(NamedTuple):
    """Whether an attempt may be made, and what that does to the breaker."""

    put_off_until: int | None
    """When to ask again at the earliest; None if it goes."""
    breaker: Breaker


def count(breaker: Breaker, succeeded: int, failed: int, now: int) -> Breaker:
    """Take in how attempts have ended that were no probe."""
    if breaker.state is not BreakerState.CLOSED:
        return breaker  # they began before it opened
    if now - breaker.counted_from >= WINDOW_US:
        breaker = replace(breaker, counted_from=now, succeeded=0, failed=0)
    counted = replace(
        breaker, succeeded=breaker.succeeded + succeeded, failed=breaker.failed + failed
    )
    total = counted.succeeded + counted.failed
    is_bad = counted.failed >= FAILURES_MIN and counted.failed >= total * FAILED_SHARE_MIN
    if not is_bad:
        return counted
    return _opened(replace(counted, opened_at=now), PAUSE_FIRST_US, now)


def probe_when_asked(breaker: Breaker, wait_us: int, now: int) -> Breaker:
    """Let the next probe of an open breaker go when the destination asked for it (Retry-After)."""
    return replace(breaker, retry_at=now + min(wait_us, ASKED_PAUSE_MAX_US))


def ask(breaker: Breaker, run: RunId, now: int, probe_us: int) -> Pass:
    """Decide about an attempt that is due; a probe has so long before it is given up for lost."""
    if breaker.state is BreakerState.CLOSED or breaker.probe == run:
        return Pass(None, breaker)
    assert breaker.retry_at is not None, "who is not closed knows when to go on"
    if now < breaker.retry_at:
        is_probing = breaker.state is BreakerState.HALF_OPEN
        # A probe may take its time; the others look again soon, and not after all of that.
        return Pass(now + LOOK_US if is_probing else breaker.retry_at, breaker)
    probing = replace(
        breaker, state=BreakerState.HALF_OPEN, probe=run, retry_at=now + max(probe_us, SECOND_US)
    )
    return Pass(None, probing)


def probed(breaker: Breaker, end: EndAtDestination, now: int) -> Breaker:
    """Take in how a probe has ended, which may have told nothing, such as a cancelled one."""
    if breaker.state is not BreakerState.HALF_OPEN or breaker.probe != end.run_id:
        return breaker
    if end.is_answered is None:
        return replace(breaker, state=BreakerState.OPEN, probe=None, retry_at=now)
    if end.is_answered:
        return reset_of(breaker, now)
    failed = replace(breaker, failed=breaker.failed + 1)
    if end.wait_us is not None:
        # The destination says when: the pauses do not grow.
        return probe_when_asked(_opened(failed, breaker.pause_us, now), end.wait_us, now)
    return _opened(failed, min(breaker.pause_us * 2, PAUSE_MAX_US), now)


def reset_of(breaker: Breaker, now: int) -> Breaker:
    """Take a destination for well, because a person says so."""
    return Breaker(counted_from=now, epoch=breaker.epoch)


def _opened(breaker: Breaker, pause_us: int, now: int) -> Breaker:
    return replace(
        breaker,
        state=BreakerState.OPEN,
        retry_at=now + pause_us,
        pause_us=pause_us,
        probe=None,
        epoch=breaker.epoch + 1,
    )


PROBE_US = MINUTE * SECOND_US
"""After so long without an answer a probe is given up for lost, and another goes."""


class AdmissionRoute(StrEnum):
    """What becomes of a claim."""

    GOES = "goes"
    """Its attempt may begin; it holds its places until that has ended."""
    LATER = "later"
    """It is ours no more: its run waits for a timer, and has used up no attempt."""
    STANDS = "stands"
    """It is ours no more: its run stands at a gate until there is a place."""
    GONE = "gone"
    """It was ours no more already."""


class AdmissionDecision(NamedTuple):
    """What is decided about one claim."""

    way: AdmissionRoute
    why: str | None = None
    """Why it can't begin, and because of which limit: what its run's record says from now on."""
    at: int | None = None
    """If later: when it falls due again."""


GOES = AdmissionDecision(AdmissionRoute.GOES)
GONE = AdmissionDecision(AdmissionRoute.GONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionRequest:
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
class AdmissionState:
    """What the decisions of a batch start from, and what they leave."""

    held: dict[str, int] = field(default_factory=dict)
    """How many hold each place."""
    kept: dict[str, int] = field(default_factory=dict)
    """How many of these have not been claimed since they were let go."""
    waiting: dict[str, int] = field(default_factory=dict)
    """How many stand for it: who comes now stands behind them."""
    paces: dict[str, RateState] = field(default_factory=dict)
    breakers: dict[str, Breaker] = field(default_factory=dict)


class ApplicableLimits(NamedTuple):
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
) -> ApplicableLimits:
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
    return ApplicableLimits(
        tuple(sorted((caps | keyed).items())), tuple(sorted(rates.items())), tuple(sorted(places))
    )


def decide(
    comers: Sequence[AdmissionRequest], books: AdmissionState, now: int
) -> list[AdmissionDecision]:
    """Decide about those that ask, one after the other; the books are kept meanwhile."""
    return [_decide(comer, books, now) for comer in comers]


def _decide(comer: AdmissionRequest, books: AdmissionState, now: int) -> AdmissionDecision:
    breaker = None
    if comer.destination is not None:
        known = books.breakers.get(comer.destination, Breaker())
        until, breaker = ask(known, comer.run_id, now, comer.probe_us)
        if until is not None:
            _leave(comer, books)
            at = _take_turn_back(comer.destination, books, until)
            return AdmissionDecision(
                AdmissionRoute.LATER, why_text(LimitReason.BREAKER, comer.destination), at
            )
    full = _first_full(comer, books)
    if full is not None:
        _leave(comer, books)
        books.waiting[full] = books.waiting.get(full, 0) + 1
        return AdmissionDecision(AdmissionRoute.STANDS, why_text(LimitReason.CAP, full))
    if comer.rates:
        at = _take_turn(comer, books, now)
        if at > now:
            _leave(comer, books)
            return AdmissionDecision(
                AdmissionRoute.LATER, why_text(LimitReason.RATE, _slowest(comer, books)), at
            )
    for place in comer.places:
        if place not in comer.holds:
            books.held[place] = books.held.get(place, 0) + 1
    if comer.destination is not None and breaker is not None:
        books.breakers[comer.destination] = breaker
    return GOES


def _first_full(comer: AdmissionRequest, books: AdmissionState) -> str | None:
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


def _take_turn(comer: AdmissionRequest, books: AdmissionState, now: int) -> int:
    """Give it its turn; return when that is."""
    asked = [(rate, books.paces.get(place, RateState())) for place, rate in comer.rates]
    turn = take_turn(asked, comer.given_at, now)
    for (place, _), pace in zip(comer.rates, turn.paces, strict=True):
        books.paces[place] = pace
    return turn.at


def turns_back(destination: str) -> str:
    """Return under which name the turns are kept of those who wait for a destination."""
    return why_text(LimitReason.BREAKER, destination)


def _take_turn_back(destination: str, books: AdmissionState, until: int) -> int:
    """Give one that waits for a destination its turn to ask again, not before an instant."""
    name = turns_back(destination)
    pace = books.paces.get(name, RateState())
    at = max(until, pace.promised_at)
    books.paces[name] = pace._replace(promised_at=at + BACK_EVERY_US)
    return at


def _slowest(comer: AdmissionRequest, books: AdmissionState) -> str:
    """Return which of its rates has given out turns furthest ahead."""
    return max(comer.rates, key=lambda one: books.paces[one[0]].promised_at)[0]


def _leave(comer: AdmissionRequest, books: AdmissionState) -> None:
    """Give back what it was let go with: it can't begin now."""
    for place in comer.holds:
        books.held[place] = books.held.get(place, 1) - 1


def room(most: int | None, held: int, waiting: int) -> int:
    """Return how many of those that stand for a place may go now."""
    return waiting if most is None else max(0, min(most - held, waiting))


_Name = TypeVar("_Name", int, str)


class Waiting(NamedTuple):
    """A run in its queue, as the queue is ordered."""

    priority: int
    tenant: str
    rank: int
    run_id: RunId
    is_passed: bool = False
    """Whether it stays where it is, whoever's turn it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """How a claim goes about one queue."""

    most: int
    """How many it may take from there; what the shares are shares of."""
    begin: str = ""
    """The first tenant on the ring, or where he would stand."""
    first: int | None = None
    """The priority from which on it looks, and then round; None for all in their order."""
    newest_first: bool = False
    """Whether it takes only runs of the first priority that it finds, and the newest of those."""


def begin_behind(tenant: str) -> str:
    """Return where the ring begins if this tenant is to be the last."""
    return tenant + "\x01"


def share_out(waiting: Iterable[Waiting], sharing: Sharing) -> list[Waiting]:
    """Return what a claim takes of what waits, in the order in which it does."""
    lines: dict[int, dict[str, list[Waiting]]] = {}
    for one in sorted(waiting, reverse=sharing.newest_first):
        lines.setdefault(one.priority, {}).setdefault(one.tenant, []).append(one)
    taken: list[Waiting] = []
    for priority in ring(sorted(lines), sharing.first):
        taken += _share_out(lines[priority], sharing)
        if sharing.newest_first:
            break
    return taken[: sharing.most]


def _share_out(lines: dict[str, list[Waiting]], sharing: Sharing) -> list[Waiting]:
    """Return the runs of one priority in their order."""
    tenants = ring(sorted(lines), sharing.begin)
    named, others = tenants[: sharing.most], tenants[sharing.most :]
    share = sharing.most // max(1, len(named))
    fit = {tenant: [one for one in line if not one.is_passed] for tenant, line in lines.items()}
    shares = [one for tenant in named for one in fit[tenant][:share]]
    rests = [one for tenant in named for one in fit[tenant][share:]]
    return [*shares, *rests, *(one for tenant in others for one in fit[tenant])]


def ring(names: Sequence[_Name], begin: _Name | None) -> list[_Name]:
    """Return names in their order, from one on and round."""
    first: int = 0 if begin is None else bisect_left(names, begin)
    return list(names[first:]) + list(names[:first])
