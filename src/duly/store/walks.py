"""By which indexes a search for runs goes: a few walks in the order of ids, newest first.

A walk is over one table. Places that a run may be in have few rows; of outcomes those are marked
that are out of the ordinary; errors have their own indexes; and all runs of a tenant or a schedule
are walked when nothing else narrows a search. Whatever a walk leads to is looked at as a whole
afterwards, so a walk may lead to too much, and never to too little.

An id begins with the instant that its run was scheduled for, so a span of time is a span of ids.
Strays are the runs for which that does not hold: delayed runs that were moved, repetitions, ids
that a caller chose. They have an index of their own, by time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from duly.domain.enums import AttemptState, RunState
from duly.domain.ids import ID_BYTES
from duly.domain.schedules import TENANT_DEFAULT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from duly.store.filters import Value
    from duly.store.ports.queries import AttemptFilter, RunFilter

    Term = tuple[str, tuple[Value, ...]]

STRAY_MS = 3_600_000
"""Up to here an id may begin with another instant than its run's, and be no stray."""
_STAMP_BITS = 48
_OPEN = {
    RunState.RUNNING: "claims",
    RunState.RETRYING: "waiting",
    RunState.DEAD: "dead",
    RunState.BLOCKED: "blocked",
    RunState.AMBIGUOUS: "ambiguous",
}
_LIVE = frozenset(
    {
        AttemptState.CLAIMED,
        AttemptState.RUNNING,
        AttemptState.HEARTBEAT_STALE,
        AttemptState.STALLED,
    }
)
_CLOSED = frozenset(RunState) - _OPEN.keys() - {RunState.QUEUED}
_SAID = {AttemptState.CANCELLED: (RunState.CANCELLED, RunState.REPLACED)}
"""States of a run that an attempt in a state leaves behind, where they are not called alike."""


class IdRange(NamedTuple):
    """Which ids: from one on, and before another; None for no bound."""

    first: bytes | None = None
    end: bytes | None = None


EVERYWHERE = IdRange()


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """Rows of a table, in the order of their runs' ids."""

    table: str
    column: str = "run_id"
    leads: tuple[tuple[str, Value], ...] = ()
    """The columns before the id in the index that it goes by, and their values."""
    terms: tuple[Term, ...] = ()
    """What else is known of its rows, for the index to be found."""
    span: IdRange = EVERYWHERE
    is_gathered: bool = False
    """No index has them in order: they are only walked if they are few."""
    has_many: bool = False
    """Whether a run may have several."""


class Marks(NamedTuple):
    """How a database tells what is out of the ordinary, and whether it knows whose that is."""

    outcome: str
    error: str
    stray: str
    has_tenants: bool


def run_walks(command: RunFilter, marks: Marks) -> tuple[Walk, ...]:
    """Return the walks that lead to every run that is looked for."""
    walks = _narrowest(command, marks)
    span = _span_of_time(command)
    if span == EVERYWHERE:
        return walks
    return (*(replace(walk, span=span) for walk in walks), _strays(command, marks))


def plain_walks(command: RunFilter) -> tuple[Walk, ...]:
    """Return the walk that is always in order, however much there is: by schedule, or all."""
    if command.schedule_id is not None:
        return (
            Walk(
                table="runs",
                column="id",
                leads=(("p.schedule_id", command.schedule_id),),
                terms=(("p.schedule_id IS NOT NULL", ()),),
            ),
        )
    return (all_of(command.tenant),)


def all_of(tenant: str) -> Walk:
    """Return the walk over all runs of a tenant: the default one's are in no index of their own."""
    if tenant == TENANT_DEFAULT:
        return Walk(table="runs", column="id")
    others = (f"p.tenant <> '{TENANT_DEFAULT}'", ())
    return Walk(table="runs", column="id", leads=(("p.tenant", tenant),), terms=(others,))


def attempt_walks(command: AttemptFilter, marks: Marks) -> tuple[Walk, ...]:
    """Return the walks that lead to every run which has an attempt that is looked for."""
    states = command.states or frozenset(AttemptState)
    walks: list[Walk] = []
    if states & _LIVE and command.error is None and command.reason is None:
        walks.append(Walk(table="claims"))
    ended = states - _LIVE
    if ended:
        tried = Walk(table="attempts")
        if command.error is not None:
            tried = _failed("attempts", command.tenant, marks)
        elif command.worker is not None:
            tried = Walk(table="attempts", leads=(("p.worker", command.worker),))
        walks.append(replace(tried, has_many=True))
        walks += _closing(command, ended, marks)
    return tuple(walks)


def states_left_by(states: Iterable[AttemptState]) -> frozenset[str]:
    """Return in which states attempts in these states leave a run that they close."""
    left = {str(one) for state in states for one in _SAID.get(state, (state,))}
    return frozenset(left & {str(one) for one in _CLOSED})


def _narrowest(command: RunFilter, marks: Marks) -> tuple[Walk, ...]:
    if command.key is not None:
        terms = (("p.tenant = ? AND p.key = ?", (command.tenant, command.key)),)
        return (Walk(table="runs", column="id", terms=terms, is_gathered=True),)
    if command.root is not None:
        itself = Walk(table="runs", column="id", terms=(("p.id = ?", (command.root,)),))
        known = ("p.root IS NOT NULL", ())
        return (itself, replace(itself, leads=(("p.root", command.root),), terms=(known,)))
    if command.schedule_id is not None:
        return plain_walks(command)
    if command.error is not None:
        return (
            _failed("outcomes", command.tenant, marks),
            replace(_failed("attempts", command.tenant, marks), has_many=True),
        )
    states = command.states
    if states is None and command.reason is not None:
        states = frozenset(RunState) - {RunState.QUEUED, RunState.RUNNING}
    if states is None or (RunState.SUCCEEDED in states and command.reason is None):
        return plain_walks(command)
    return tuple(_by_states(command, states, marks))


def _by_states(command: RunFilter, states: Iterable[RunState], marks: Marks) -> Iterable[Walk]:
    for state in sorted(states):
        if state is RunState.QUEUED:
            yield Walk(table="ready", is_gathered=True)
        elif state in _OPEN:
            has_tenant = state in (RunState.DEAD, RunState.AMBIGUOUS)
            leads = _tenant(command.tenant, marks) if has_tenant else ()
            yield Walk(table=_OPEN[state], leads=leads)
        else:
            yield _noted(command.tenant, state, marks)


def _closing(
    command: AttemptFilter, states: Iterable[AttemptState], marks: Marks
) -> Iterable[Walk]:
    if command.error is not None:
        yield _failed("outcomes", command.tenant, marks)
        return
    if AttemptState.SUCCEEDED in states:
        yield Walk(table="outcomes")
        return
    for state in sorted(states_left_by(states)):
        yield _noted(command.tenant, RunState(state), marks)


def _noted(tenant: str, state: RunState, marks: Marks) -> Walk:
    leads = (*_tenant(tenant, marks), ("p.state", str(state)))
    return Walk(table="outcomes", leads=leads, terms=((marks.outcome, ()),))


def _failed(table: str, tenant: str, marks: Marks) -> Walk:
    return Walk(table=table, leads=_tenant(tenant, marks), terms=((marks.error, ()),))


def _tenant(tenant: str, marks: Marks) -> tuple[tuple[str, Value], ...]:
    return (("p.tenant", tenant),) if marks.has_tenants else ()


def _strays(command: RunFilter, marks: Marks) -> Walk:
    terms: list[Term] = [(marks.stray, ()), ("p.tenant = ?", (command.tenant,))]
    if command.since is not None:
        terms.append(("p.scheduled_for >= ?", (command.since,)))
    if command.until is not None:
        terms.append(("p.scheduled_for < ?", (command.until,)))
    return Walk(table="runs", column="id", terms=tuple(terms), is_gathered=True)


def _span_of_time(command: RunFilter) -> IdRange:
    first = None if command.since is None else command.since // 1000 - STRAY_MS
    end = None if command.until is None else command.until // 1000 + STRAY_MS + 1
    return IdRange(None if first is None else _id_at(first), None if end is None else _id_at(end))


def _id_at(stamp_ms: int) -> bytes:
    """Return the first id that begins with a millisecond."""
    within = min(max(stamp_ms, 0), (1 << _STAMP_BITS) - 1)
    return within.to_bytes(_STAMP_BITS // 8).ljust(ID_BYTES, b"\0")
