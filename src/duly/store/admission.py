"""The port of limits: who may begin, what limits there are, and how the other side is doing.

Limits are looked at in one place: right after a worker has claimed runs, for those of them that
fall under any. Whoever can't begin is put off to a timer, or stands at a gate, in the transaction
that decides so; its claim is gone then, and no attempt was used. Every way in which a claim ends
gives its places back. What is held is counted, never kept as a number, and nothing is given back by
time: the place of an attempt that nobody ends is the place of an attempt that may still run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple

from duly.domain.admission import (
    BACK_EVERY_US,
    GOES,
    GONE,
    PAUSE_FIRST_US,
    PROBE_US,
    AdmissionRequest,
    AdmissionRoute,
    Breaker,
    count,
    decide,
    falls_under,
    probe_when_asked,
    probed,
    room,
    turns_back,
)
from duly.domain.audit import AuditSubject
from duly.domain.limits import LimitKind, LimitReason, known_why, scope_of
from duly.errors import NotFound
from duly.store.ports.limits import BreakerRecord, PlaceRecord, Request
from duly.timetable.instants import DAY, SECOND_US

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from duly.domain.admission import AdmissionDecision, AdmissionState, EndAtDestination
    from duly.domain.ids import RunId
    from duly.domain.limits import Limit, Limits, Rate, RateState
    from duly.store.ports.dispatch import MemberId
    from duly.store.ports.execution import ClaimRef


BREAKERS_KEPT_US = 7 * DAY * SECOND_US
"""How long a destination that is well is remembered after anybody has spoken to it."""
NOT_ADMITTED = 0
"""The fence of a place whose holder was let go from a gate, and has not been claimed since."""


class AskingClaim(NamedTuple):
    """What admission has to know of a claim that is the asker's."""

    deadline_at: int | None
    is_cancel_asked: bool


class Admission(ABC):
    """Admission of a store, within one transaction: asks for a batch at once, and writes so."""

    now: int

    @abstractmethod
    def claims(self, worker: MemberId, holds: Sequence[ClaimRef]) -> Mapping[ClaimRef, AskingClaim]:
        """Return those claims that are the worker's under that fence, and keep them so."""

    @abstractmethod
    def limits(self, scopes: Iterable[str]) -> Limits:
        """Return at least the limits that have to do with some scopes."""

    @abstractmethod
    def lock(self, places: Sequence[str]) -> None:
        """Let nobody else decide about places, in this order, until the transaction is over."""

    @abstractmethod
    def held_by(self, run_ids: Sequence[RunId]) -> Mapping[RunId, Mapping[str, int]]:
        """Return the places that runs hold, each with the fence under which it was admitted."""

    @abstractmethod
    def given_turns(self, run_ids: Sequence[RunId]) -> Mapping[RunId, int]:
        """Return turns at rates that runs were given."""

    @abstractmethod
    def books(self, places: Sequence[str], destinations: Sequence[str]) -> AdmissionState:
        """Return how many hold and wait for places, their paces, and breakers, as they are now.

        Among the places are names that have a pace alone: of turns back to a destination.
        """

    @abstractmethod
    def kept(self, places: Sequence[str]) -> Mapping[str, int]:
        """Return how many hold places who were let go, and are queued since then."""

    @abstractmethod
    def go(self, going: Sequence[tuple[ClaimRef, tuple[str, ...]]]) -> None:
        """Write places of claims that begin, over those they have; they have no turn any more.

        The claims are marked, so that their ends are looked at each by itself.
        """

    @abstractmethod
    def put_off(
        self, later: Sequence[tuple[ClaimRef, AdmissionDecision]], turns: Mapping[RunId, int]
    ) -> None:
        """Let runs wait for their timers, in place of their claims; and note turns at rates."""

    @abstractmethod
    def stand(self, standing: Sequence[tuple[ClaimRef, str]]) -> None:
        """Let runs stand at the gates of places, in place of their claims, in this order."""

    @abstractmethod
    def cancel(self, holds: Sequence[ClaimRef]) -> None:
        """Close runs as cancelled, which somebody has asked for, in place of their claims."""

    @abstractmethod
    def write_books(self, paces: Mapping[str, RateState], breakers: Mapping[str, Breaker]) -> None:
        """Write paces and breakers that have changed."""

    def admit(self, worker: MemberId, requests: Sequence[Request]) -> tuple[AdmissionDecision, ...]:
        """Decide about claims that ask, and write what was decided."""
        ours = self.claims(worker, [request.hold for request in requests])
        verdicts = dict.fromkeys((request.hold for request in requests), GONE)
        asking = {one.hold: one for one in requests if one.hold in ours}
        cancelled = self._unbegun([hold for hold in asking if ours[hold].is_cancel_asked])
        for hold in cancelled:
            del asking[hold]
        if cancelled:
            self.cancel(cancelled)
        if asking:
            verdicts |= self._decide(list(asking.values()), ours)
        return tuple(verdicts[request.hold] for request in requests)

    def _unbegun(self, holds: Sequence[ClaimRef]) -> list[ClaimRef]:
        """Return claims that were not let begin yet.

        A request may arrive after another for the same claim was answered, and its code runs by
        then: that one is stopped as anything that runs, and not closed as if it had never begun.
        """
        held = self.held_by([hold.run_id for hold in holds]) if holds else {}
        return [hold for hold in holds if hold.fence not in held.get(hold.run_id, {}).values()]

    def _decide(
        self, asking: Sequence[Request], ours: Mapping[ClaimRef, AskingClaim]
    ) -> dict[ClaimRef, AdmissionDecision]:
        limits = self.limits(sorted({scope for one in asking for scope in _scopes(one)}))
        falling = [
            falls_under(limits, one.task, one.tenant, one.destination, one.keys) for one in asking
        ]
        taken = {place for one in falling for place in one.places}
        back = {turns_back(one.destination) for one in asking if one.destination is not None}
        places = sorted(taken | back)
        self.lock(places)
        run_ids = [one.hold.run_id for one in asking]
        held, turns = self.held_by(run_ids), self.given_turns(run_ids)
        verdicts: dict[ClaimRef, AdmissionDecision] = {}
        new: list[tuple[Request, AdmissionRequest]] = []
        for one, under in zip(asking, falling, strict=True):
            run_id, fence = one.hold
            holds = held.get(run_id, {})
            if fence in holds.values():
                verdicts[one.hold] = GOES  # it has been told so, and the answer was lost
                continue
            comer = AdmissionRequest(
                run_id=run_id,
                destination=one.destination,
                **under._asdict(),
                holds=frozenset(holds),
                given_at=turns.get(run_id),
                probe_us=_probe_us(ours[one.hold], self.now),
            )
            new.append((one, comer))
        if new:
            verdicts |= self._decide_new(new, places)
        return verdicts

    def _decide_new(
        self, new: Sequence[tuple[Request, AdmissionRequest]], places: Sequence[str]
    ) -> dict[ClaimRef, AdmissionDecision]:
        destinations = sorted({one.destination for one, _ in new if one.destination is not None})
        books = self.books(places, destinations)
        if any(comer.holds for _, comer in new):
            books.kept = dict(self.kept(places))
        paces, breakers = dict(books.paces), dict(books.breakers)
        decided = decide([comer for _, comer in new], books, self.now)
        self._write(new, decided)
        self.write_books(
            {key: pace for key, pace in books.paces.items() if paces.get(key) != pace},
            {k: one for k, one in books.breakers.items() if breakers.get(k, Breaker()) != one},
        )
        return {one.hold: verdict for (one, _), verdict in zip(new, decided, strict=True)}

    def _write(
        self, new: Sequence[tuple[Request, AdmissionRequest]], decided: Sequence[AdmissionDecision]
    ) -> None:
        going: list[tuple[ClaimRef, tuple[str, ...]]] = []
        later: list[tuple[ClaimRef, AdmissionDecision]] = []
        standing: list[tuple[ClaimRef, str]] = []
        turns: dict[RunId, int] = {}
        for (request, comer), verdict in zip(new, decided, strict=True):
            if verdict.way is AdmissionRoute.GOES:
                going.append((request.hold, comer.places))
                continue
            why, which = known_why(verdict.why)
            if verdict.way is AdmissionRoute.STANDS:
                standing.append((request.hold, which))
            else:
                later.append((request.hold, verdict))
                if why is LimitReason.RATE:
                    assert verdict.at is not None, "who comes later knows when"
                    turns[comer.run_id] = verdict.at
        self.go(going)
        self.put_off(later, turns)
        self.stand(standing)


class Opening(ABC):
    """The gates of places in a store, within one transaction: lets go who stands there."""

    @abstractmethod
    def limits(self) -> Limits:
        """Return all limits."""

    @abstractmethod
    def lock_place(self, place: str) -> None:
        """Let nobody else decide about a place until the transaction is over."""

    @abstractmethod
    def count_held(self, place: str) -> int:
        """Return how many hold a place."""

    @abstractmethod
    def standing(self, place: str, limit: int) -> Sequence[RunId]:
        """Return who stands for a place, the first to go first."""

    @abstractmethod
    def let_go(self, place: str, run_ids: Sequence[RunId]) -> None:
        """Queue runs that have stood for a place; they hold it from now on."""

    def open(self, places: Iterable[str], limit: int) -> int:
        """Let go as many as there is room for, at places in order; return how many that were."""
        limits, opened = self.limits(), 0
        for place in places:
            self.lock_place(place)
            most = limits.of_place(place)
            free = room(most, self.count_held(place), limit - opened)
            going = self.standing(place, free) if free else ()
            if going:
                self.let_go(place, going)
            opened += len(going)
            if opened >= limit:
                break
        return opened


def fold(breaker: Breaker, ends: Iterable[EndAtDestination], now: int) -> Breaker:
    """Take in how attempts at a destination have ended."""
    succeeded = failed = 0
    wait_us: int | None = None
    for end in ends:
        if breaker.probe == end.run_id:
            breaker = probed(breaker, end, now)
        elif end.is_answered is not None:
            succeeded, failed = succeeded + end.is_answered, failed + (not end.is_answered)
            if end.wait_us is not None:
                wait_us = max(wait_us or 0, end.wait_us)
    if not succeeded and not failed:
        return breaker
    counted = count(breaker, succeeded, failed, now)
    has_opened = counted.epoch > breaker.epoch
    return counted if wait_us is None or not has_opened else probe_when_asked(counted, wait_us, now)


def with_waiting(
    known: Sequence[BreakerRecord], count_put_off: Callable[[], Mapping[str, int]]
) -> list[BreakerRecord]:
    """Add how many runs wait for each destination that is down; nothing is counted if none is."""
    is_down = any(not one.breaker.is_closed for one in known)
    counts = count_put_off() if is_down else {}
    return [
        one
        if one.breaker.is_closed
        else one._replace(waiting=counts.get(turns_back(one.destination), 0))
        for one in known
    ]


def place_records(
    held: Mapping[str, int], waiting: Mapping[str, int], ahead: Mapping[str, int], now: int
) -> list[PlaceRecord]:
    """Return what is going on at limits, by name; `ahead`: up to when turns are given out."""
    back = turns_back("")
    given = {place: at for place, at in ahead.items() if at > now and not place.startswith(back)}
    return [
        PlaceRecord(place, held.get(place, 0), waiting.get(place, 0), given.get(place))
        for place in sorted({*held, *waiting, *given})
    ]


def changed_rates(before: Limits, after: Limits, paced: Iterable[str]) -> dict[str, Rate | None]:
    """Return what the rates are now at those places where they have changed."""
    rates = {place: (before.of(place).rate, after.of(place).rate) for place in paced}
    return {place: new for place, (old, new) in sorted(rates.items()) if old != new}


def spread_again(count: int, now: int) -> list[int]:
    """Return when those come back who were put off to a destination that is taken for well."""
    every_us = max(PAUSE_FIRST_US // max(count, 1), BACK_EVERY_US)
    return [now + number * every_us for number in range(count)]


def destination_of(places: Iterable[str]) -> str | None:
    """Return the destination at which one of these places is, if there is one."""
    start = scope_of(LimitKind.DESTINATION, "")
    return next((one.removeprefix(start) for one in places if one.startswith(start)), None)


def changed_limit_subject(scope: str, before: Limit | None, after: Limit | None) -> AuditSubject:
    """Return what is told of a limit that was set or taken away."""
    told = [None if one is None else one.to_json() for one in (before, after)]
    return AuditSubject(name=scope, before=told[0], after=told[1])


def reset_breaker_subject(destination: str, before: Breaker) -> AuditSubject:
    """Return what is told of a destination that a person takes for well."""
    told = {"state": str(before.state), "failed": before.failed}
    return AuditSubject(name=destination, before=told, after={"state": "closed", "failed": 0})


def unknown_destination(destination: str) -> NotFound:
    """Return the error for a destination of which nothing is known."""
    return NotFound("destination", destination, "list the breakers to see what is known")


def _scopes(request: Request) -> Iterator[str]:
    yield scope_of(LimitKind.TASK, request.task)
    yield scope_of(LimitKind.TENANT, request.tenant)
    if request.destination is not None:
        yield scope_of(LimitKind.DESTINATION, request.destination)


def _probe_us(claim: AskingClaim, now: int) -> int:
    if claim.deadline_at is None:
        return PROBE_US
    return min(PROBE_US, max(claim.deadline_at - now, 0))
