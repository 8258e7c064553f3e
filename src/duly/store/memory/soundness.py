"""What must always hold of the memory store's tables, looked for by `check`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeAlias

from duly.domain.admission import room
from duly.domain.enums import ScheduleStatus
from duly.domain.ids import identity_text
from duly.domain.limits import capped_place
from duly.store.admission import NOT_ADMITTED
from duly.store.memory.limiting import MemoryOpening
from duly.store.memory.tables import Blocked, Claim, Dead, InDoubt, Outcome, Ready, Waiting
from duly.store.ports.maintenance import IntegrityFinding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from duly.domain.ids import RunId
    from duly.store.memory.tables import Journal, Tables

Placed: TypeAlias = Ready | Blocked | Claim | Waiting | Dead | InDoubt | Outcome

REMEDY = "this is a defect: keep the store and report it"


def check(journal: Journal) -> list[IntegrityFinding]:
    """Return everything that is not as it must be."""
    found = [*_schedules(journal), *_runs(journal), *_tries(journal), *_workers(journal)]
    found += [*_gates(journal), *_limits(journal)]
    return [IntegrityFinding(what, detail, REMEDY) for what, detail in found]


def _schedules(journal: Journal) -> Iterator[tuple[str, str]]:
    for record in journal.tables.schedules.values():
        is_active = record.status is ScheduleStatus.ACTIVE
        if is_active != (record.pending is not None):
            pending = "something pending" if record.pending else "nothing pending"
            yield "timer", f"schedule {record.name!r} is {record.status} and has {pending}"


def _runs(journal: Journal) -> Iterator[tuple[str, str]]:
    tables = journal.tables
    for run_id, row in tables.runs.items():
        places = sum(run_id in place for place in _places(tables))
        if places != 1:
            yield "place", f"run {identity_text(run_id)} is in {places} places"
        if row.fired_at is not None and row.fired_at < row.not_before:
            yield "early", f"run {identity_text(run_id)} fired before it was due"
    for place in _places(tables):
        for run_id in set(place) - set(tables.runs):
            yield "place", f"a place holds {identity_text(run_id)}, which is no run"


def _places(tables: Tables) -> tuple[Mapping[RunId, Placed], ...]:
    """Return where a run may be: in one of these."""
    return (
        tables.ready,
        tables.blocked,
        tables.claims,
        tables.waiting,
        tables.dead,
        tables.in_doubt,
        tables.outcomes,
    )


def _gates(journal: Journal) -> Iterator[tuple[str, str]]:
    """Find gates that several hold, or one that is over or waits."""
    tables = journal.tables
    for gate, holders in Counter(tables.held_gates.values()).items():
        if holders > 1:
            yield "gate", f"gate {gate} is held by {holders} runs"
    for run_id in tables.held_gates:
        stands = tables.blocked.get(run_id)
        is_waiting = stands is not None and capped_place(stands.gate) is None
        if run_id in tables.outcomes or run_id in tables.dead or is_waiting:
            yield "gate", f"run {identity_text(run_id)} holds a gate, and is over or waits"


def _limits(journal: Journal) -> Iterator[tuple[str, str]]:
    """Find places that nobody can be at, or that nobody has though he stands there."""
    tables = journal.tables
    for (run_id, place), fence in tables.held_places.items():
        name, claim = identity_text(run_id), tables.claims.get(run_id)
        is_let_go = fence == NOT_ADMITTED and (claim is not None or run_id in tables.ready)
        is_admitted = claim is not None and claim.tries.fence == fence
        if not is_let_go and not is_admitted:
            yield "limit", f"run {name} holds a place at {place}, and runs no attempt"
    opening = MemoryOpening(journal)
    for gate in {row.gate for row in tables.blocked.values()}:
        stood_for = capped_place(gate)
        if stood_for is None:
            continue
        if room(opening.limits().of_place(stood_for), opening.count_held(stood_for), 1):
            yield "limit", f"somebody stands for a place at {stood_for}, and there is one"
    for run_id in set(tables.turns) - set(tables.runs):
        yield "limit", f"a turn at a rate is of {identity_text(run_id)}, which is no run"


def _tries(journal: Journal) -> Iterator[tuple[str, str]]:
    """Numbers of claims and attempts grow, are never used twice, and agree with each other."""
    tables = journal.tables
    for place in _places(tables):
        for run_id, row in place.items():
            name, tries = identity_text(run_id), row.tries
            if not 0 <= tries.charged <= tries.attempt <= tries.fence:
                yield "tries", f"run {name} has tries that can't be"
            ended = {fence for known, fence in tables.attempts if known == run_id}
            holds = place is tables.claims or (isinstance(row, Outcome) and row.claim is not None)
            known = ended | ({tries.fence} if holds else set())
            unbegun = tables.unbegun.get(run_id, 0)
            if len(known) + unbegun != tries.fence or not known <= set(range(1, tries.fence + 1)):
                yield "tries", f"run {name} lacks one of its claims, or has one too many"
            numbers = [
                tables.attempts[run_id, fence].number
                for fence in sorted(ended)
                if tables.attempts[run_id, fence].number is not None
            ]
            numbers += [tries.attempt] if holds else []
            if numbers != list(range(1, tries.attempt + 1)):
                yield "tries", f"run {name} has attempts that are not numbered one by one"
    for run_id, fence in tables.attempts:
        if run_id not in tables.runs:
            yield "tries", f"claim {fence} of {identity_text(run_id)}, which is no run"


def _workers(journal: Journal) -> Iterator[tuple[str, str]]:
    tables = journal.tables
    for worker in {claim.worker for claim in tables.claims.values()} - set(tables.members):
        yield "worker", f"a run is held by member {worker}, which does not exist"
