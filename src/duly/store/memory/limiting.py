"""Limits on the memory store: what is said about them, who holds a place, who stands for one."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from duly.domain.admission import Breaker, BreakerState, falls_under, reset_of
from duly.domain.limits import (
    LimitKind,
    LimitReason,
    LimitRecord,
    Limits,
    LimitSource,
    cap_gate,
    capped_place,
    scope_of,
    spread_turns,
    why_text,
)
from duly.store.admission import (
    BREAKERS_KEPT_US,
    NOT_ADMITTED,
    Opening,
    changed_limit_subject,
    changed_rates,
    destination_of,
    fold,
    place_records,
    reset_breaker_subject,
    spread_again,
    unknown_destination,
    with_waiting,
)
from duly.store.memory.attempts import task_of
from duly.store.ports.limits import BreakerRecord, PlaceRecord

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duly.domain.admission import EndAtDestination
    from duly.domain.audit import Actor
    from duly.domain.ids import RunId
    from duly.domain.limits import Limit, Rate
    from duly.store.memory.tables import Journal
    from duly.store.ports.limits import SetLimit


def list_limits(journal: Journal) -> Limits:
    """Return all limits."""
    tables = journal.tables
    return Limits(tables.cluster["limits_version"], tables.limits.values())


def declare_limits(journal: Journal, said: Mapping[str, Limit | None], actor: Actor) -> None:
    """Remember what code says."""
    limits = list_limits(journal)
    known = limits.said(LimitSource.CODE)
    changed = {scope: limit for scope, limit in said.items() if limit != known.get(scope)}
    for scope, limit in sorted(changed.items()):
        _change(journal, (scope, LimitSource.CODE), limit, actor)
    if changed:
        _apply(journal, limits)


def set_limit(journal: Journal, command: SetLimit) -> LimitRecord:
    """Limit something by a person's order."""
    limits, key = list_limits(journal), (command.scope, LimitSource.PERSON)
    _change(journal, key, command.limit, command.actor)
    _apply(journal, limits)
    return journal.tables.limits[key]


def remove_limit(journal: Journal, scope: str, actor: Actor) -> bool:
    """Take a person's limit away."""
    limits, key = list_limits(journal), (scope, LimitSource.PERSON)
    if key not in journal.tables.limits:
        return False
    _change(journal, key, None, actor)
    _apply(journal, limits)
    return True


def _change(
    journal: Journal, key: tuple[str, LimitSource], limit: Limit | None, actor: Actor
) -> None:
    tables = journal.tables
    before = tables.limits.get(key)
    if limit is None:
        journal.remove(tables.limits, key)
    else:
        row = LimitRecord(*key, limit, journal.now, actor.name, actor.reason)
        journal.put(tables.limits, key, row)
    action = "limit.removed" if limit is None else "limit.set"
    subject = changed_limit_subject(key[0], None if before is None else before.limit, limit)
    journal.record_about(actor, action, subject)


def _apply(journal: Journal, before: Limits) -> None:
    """Let what runs already hold its places at limits that are new; who waits may go on."""
    tables = journal.tables
    journal.put(tables.cluster, "limits_version", tables.cluster["limits_version"] + 1)
    _count_running(journal)
    for place, rate in changed_rates(before, list_limits(journal), tables.paces).items():
        _give_turns_anew(journal, place, rate)
    journal.freed |= {row.gate for row in tables.blocked.values() if capped_place(row.gate)}


def _give_turns_anew(journal: Journal, place: str, rate: Rate | None) -> None:
    tables = journal.tables
    waiting = _put_off(journal, why_text(LimitReason.RATE, place))
    turns, pace = spread_turns(rate, len(waiting), journal.now)
    _call_back(journal, waiting, turns)
    for run_id, at in zip(waiting, turns, strict=True):
        journal.put(tables.turns, run_id, at)
    journal.put(tables.paces, place, pace)


def _put_off(journal: Journal, why: str) -> list[RunId]:
    """Return runs that were put off for one reason, the first to come back first."""
    waiting = journal.tables.waiting
    found = [run_id for run_id, row in waiting.items() if row.reason == why]
    return sorted(found, key=lambda run_id: (waiting[run_id].due_at, run_id))


def _call_back(journal: Journal, run_ids: Sequence[RunId], due_at: Sequence[int]) -> None:
    """Let runs that were put off come back at other times."""
    waiting = journal.tables.waiting
    for run_id, at in zip(run_ids, due_at, strict=True):
        journal.put(waiting, run_id, replace(waiting[run_id], due_at=at))
        journal.announce("retry", run_id, at)


def _count_running(journal: Journal) -> None:
    """Let what runs already hold its places at limits that are new."""
    tables, limits = journal.tables, list_limits(journal)
    for run_id in tables.claims:
        task, tenant = task_of(journal, run_id), tables.runs[run_id].tenant
        for place in falls_under(limits, task, tenant, None).places:
            if (run_id, place) not in tables.held_places:
                journal.insert(tables.held_places, (run_id, place), NOT_ADMITTED)


def places_of(journal: Journal, run_id: RunId) -> dict[str, int]:
    """Return the places that a run holds, with their fences."""
    held = journal.tables.held_places.items()
    return {place: fence for (holder, place), fence in held if holder == run_id}


def leave_places(journal: Journal, run_id: RunId, but: Sequence[str] = ()) -> list[str]:
    """Give back places that a run holds, all but some; who stands for one of them may go."""
    places = [place for place in places_of(journal, run_id) if place not in but]
    for place in places:
        journal.remove(journal.tables.held_places, (run_id, place))
        journal.freed.add(cap_gate(place))
    return places


def leave_limits(journal: Journal, run_id: RunId) -> None:
    """Forget a run that is over: its places, and its turn."""
    leave_places(journal, run_id)
    journal.remove(journal.tables.turns, run_id)


def end_at_limits(journal: Journal, end: EndAtDestination) -> None:
    """Give back the places of an attempt that has ended; note how its destination did."""
    destination = destination_of(leave_places(journal, end.run_id))
    if destination is not None:
        journal.answers.setdefault(destination, []).append(end)


def take_in(journal: Journal) -> None:
    """Judge destinations by what was noted, once for each."""
    for destination, ends in journal.answers.items():
        known = journal.tables.breakers.get(destination)
        before = Breaker() if known is None else known[0]
        after = fold(before, ends, journal.now)
        if after != before:
            journal.put(journal.tables.breakers, destination, (after, journal.now))
    journal.answers.clear()


class MemoryOpening(Opening):
    """The gates of places, alone for as long as the journal is open."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._tables = journal.tables

    def limits(self) -> Limits:
        """Return all limits."""
        return list_limits(self._journal)

    def lock_place(self, place: str) -> None:
        """Nothing: a journal is alone."""

    def count_held(self, place: str) -> int:
        """Return how many hold a place."""
        return sum(held == place for _, held in self._tables.held_places)

    def standing(self, place: str, limit: int) -> Sequence[RunId]:
        """Return who stands for a place, the first to go first."""
        blocked = self._tables.blocked
        there = [run_id for run_id, row in blocked.items() if row.gate == cap_gate(place)]
        return sorted(there, key=lambda run_id: blocked[run_id].place)[:limit]

    def let_go(self, place: str, run_ids: Sequence[RunId]) -> None:
        """Queue runs that have stood for a place."""
        journal, tables = self._journal, self._tables
        for run_id in run_ids:
            row = tables.blocked[run_id]
            journal.remove(tables.blocked, run_id)
            journal.insert(tables.held_places, (run_id, place), NOT_ADMITTED)
            journal.queue(run_id, tables.runs[run_id].not_before, row.tries)
            ready = tables.ready[run_id]
            journal.put(tables.ready, run_id, replace(ready, priority=row.priority))


def list_places(journal: Journal) -> list[PlaceRecord]:
    """Return limits at which somebody is or waits, or whose turns are given out ahead."""
    tables = journal.tables
    held = Counter(place for _, place in tables.held_places)
    gates = (capped_place(row.gate) for row in tables.blocked.values())
    waiting = Counter(place for place in gates if place is not None)
    ahead = {key: pace.promised_at for key, pace in tables.paces.items()}
    return place_records(held, waiting, ahead, journal.now)


def list_breakers(journal: Journal) -> list[BreakerRecord]:
    """Return what is known of destinations, by name."""
    known = [_breaker(journal, destination) for destination in sorted(journal.tables.breakers)]
    return with_waiting(
        known, lambda: Counter(str(one.reason) for one in journal.tables.waiting.values())
    )


def _breaker(journal: Journal, destination: str) -> BreakerRecord:
    breaker, updated_at = journal.tables.breakers[destination]
    place = scope_of(LimitKind.DESTINATION, destination)
    running = MemoryOpening(journal).count_held(place)
    return BreakerRecord(destination, breaker, running, updated_at)


def reset_breaker(journal: Journal, destination: str, actor: Actor) -> BreakerRecord:
    """Take a destination for well."""
    known = journal.tables.breakers.get(destination)
    if known is None:
        raise unknown_destination(destination)
    reset = (reset_of(known[0], journal.now), journal.now)
    journal.put(journal.tables.breakers, destination, reset)
    waiting = _put_off(journal, why_text(LimitReason.BREAKER, destination))
    _call_back(journal, waiting, spread_again(len(waiting), journal.now))
    subject = reset_breaker_subject(destination, known[0])
    journal.record_about(actor, "breaker.reset", subject)
    return _breaker(journal, destination)


def forget_limits(journal: Journal) -> None:
    """Remove what says nothing any more of rates and destinations."""
    tables, now = journal.tables, journal.now
    for place in [key for key, pace in tables.paces.items() if max(pace) < now]:
        journal.remove(tables.paces, place)
    for destination, (breaker, updated_at) in list(tables.breakers.items()):
        if breaker.state is BreakerState.CLOSED and updated_at < now - BREAKERS_KEPT_US:
            journal.remove(tables.breakers, destination)
