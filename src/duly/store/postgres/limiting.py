"""Limits: what is said about them, who holds a place at one, and who is let go that stands there.

A place is a row for each attempt that is there; how many there are is counted. Whoever counts has
locked the place's gate, as with any other gate: it is the row that is locked while nobody stands
there. The end of an attempt only deletes its rows, and looks afterwards, in another transaction,
who may go. Rows are locked in this order: claims, gates in the order of their names, breakers in
the order of their destinations, runs that wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.admission import falls_under, room
from duly.domain.ids import RunId
from duly.domain.limits import (
    NO_LIMIT,
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
    NOT_ADMITTED,
    Opening,
    changed_limit_subject,
    changed_rates,
    destination_of,
    place_records,
)
from duly.store.limit_rows import limit_record, limit_row
from duly.store.postgres.arrays import Int4s, Int8s, Texts, Uuids
from duly.store.postgres.destinations import count_held, forget_breakers, take_in
from duly.store.postgres.gate_locks import lock_gates
from duly.store.postgres.put_off import call_back, list_put_off
from duly.store.postgres.rows import SHARE
from duly.store.postgres.session import one, pairs

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from duly.domain.admission import EndAtDestination
    from duly.domain.audit import Actor
    from duly.domain.limits import Limit, Rate, RateState
    from duly.store.ports.limits import PlaceRecord, SetLimit
    from duly.store.postgres.session import Session
    from duly.store.postgres.work import Look, Work

LIMITS = """
SELECT scope, source, running, rate, running_by, set_at, set_by, reason FROM duly.limits"""
LIMITS_OF = f"{LIMITS} WHERE scope = ANY($1::text[])"
READ_VERSION = "SELECT limits_version FROM duly.cluster WHERE id = 1"
# Changes come one after the other: whoever is second knows what the first has left.
NEW_VERSION = "UPDATE duly.cluster SET limits_version = limits_version + 1 WHERE id = 1"
WRITE_LIMIT = """
INSERT INTO duly.limits (scope, source, running, rate, running_by, set_at, set_by, reason)
VALUES ($1, $2, $3::int4, $4, $5, $6::int8, $7, $8)
ON CONFLICT (scope, source) DO UPDATE
SET running = excluded.running, rate = excluded.rate, running_by = excluded.running_by,
    set_at = excluded.set_at, set_by = excluded.set_by, reason = excluded.reason"""
REMOVE_LIMIT = "DELETE FROM duly.limits WHERE scope = $1 AND source = $2"
CLAIMED_TASKS = """
SELECT uuid_send(c.run_id), r.task, r.tenant FROM duly.claims c
CROSS JOIN LATERAL (SELECT r.task, r.tenant FROM duly.runs r WHERE r.id = c.run_id OFFSET 0) r"""
HOLD_CLAIMS = """
SELECT uuid_send(run_id) FROM duly.claims WHERE run_id = ANY($1::uuid[])
ORDER BY run_id FOR UPDATE"""
MARK_CLAIMS = """
UPDATE duly.claims SET is_gated = true
WHERE run_id = ANY($1::uuid[]) AND is_gated IS NOT TRUE"""
TAKE_PLACES = """
INSERT INTO duly.held_places (run_id, place, fence)
SELECT u.* FROM unnest($1::uuid[], $2::text[], $3::int4[]) u ON CONFLICT DO NOTHING"""
LEAVE_PLACES = """
DELETE FROM duly.held_places WHERE run_id = ANY($1::uuid[])
RETURNING uuid_send(run_id), place"""
PACED = "SELECT place FROM duly.paces"
WRITE_PACES = """
INSERT INTO duly.paces (place, promised_at, begun_at, again_at)
SELECT u.* FROM unnest($1::text[], $2::int8[], $3::int8[], $4::int8[]) u
ON CONFLICT (place) DO UPDATE SET promised_at = excluded.promised_at,
    begun_at = excluded.begun_at, again_at = excluded.again_at"""
NOTE_TURNS = """
INSERT INTO duly.turns (run_id, at) SELECT u.* FROM unnest($1::uuid[], $2::int8[]) u
ON CONFLICT (run_id) DO UPDATE SET at = excluded.at"""
FORGET_TURNS = "DELETE FROM duly.turns WHERE run_id = ANY($1::uuid[])"
STANDING = """
SELECT uuid_send(run_id) FROM duly.blocked WHERE gate = $1
ORDER BY priority, number LIMIT $2::int8"""
LET_GO = f"""
WITH gone AS (DELETE FROM duly.blocked WHERE run_id = ANY($1::uuid[]) RETURNING *),
taken AS (
    INSERT INTO duly.held_places (run_id, place, fence)
    SELECT run_id, $2, {NOT_ADMITTED} FROM gone)
INSERT INTO duly.ready (queue, priority, rank, run_id, fired_at, not_before, era, fence, attempt,
    charged, begun_at, is_gated, tenant)
SELECT r.queue, g.priority, r.not_before, g.run_id, $3::int8, r.not_before,
    (SELECT era FROM duly.cluster WHERE id = 1), g.fence, g.attempt, g.charged, g.begun_at, true,
    r.share
FROM gone g CROSS JOIN LATERAL (
    SELECT queue, not_before, {SHARE} AS share FROM duly.runs
    WHERE id = g.run_id OFFSET 0) r"""  # noqa: S608 - an expression of ours
# From gate to gate along the index: how many stand at each is not counted.
CAPPED_GATES = """
WITH RECURSIVE found(gate) AS (
    (SELECT b.gate FROM duly.blocked b WHERE b.gate >= 'cap:' ORDER BY b.gate LIMIT 1)
    UNION ALL
    SELECT (SELECT b.gate FROM duly.blocked b WHERE b.gate > f.gate ORDER BY b.gate LIMIT 1)
    FROM found f WHERE f.gate ^@ 'cap:')
SELECT f.gate, (
    SELECT count(*) FROM duly.held_places h
    WHERE h.place = pg_catalog.substr(f.gate, 5)) AS held
FROM found f WHERE f.gate ^@ 'cap:'"""
COUNT_PLACES = "SELECT place, count(*) FROM duly.held_places GROUP BY place"
COUNT_STANDING = """
SELECT pg_catalog.substr(gate, 5), count(*) FROM duly.blocked
WHERE gate >= 'cap:' AND gate < 'cap;' GROUP BY gate"""
# A role that is shown one tenant's rows has functions that count those of all.
_PLACES_OF_ALL = "SELECT place, held FROM duly.places_of_all()"
_STANDING_OF_ALL = "SELECT place, waiting FROM duly.standing_of_all()"
TURNS_AHEAD = "SELECT place, promised_at FROM duly.paces"
FORGET_PACES = """
DELETE FROM duly.paces WHERE place = ANY(ARRAY(
    SELECT place FROM duly.paces
    WHERE greatest(promised_at, begun_at, again_at) < $1::int8
    LIMIT $2::int8 FOR UPDATE SKIP LOCKED))"""
# One that nobody holds or stands at; who comes makes it anew.
FORGET_CAPPED_GATES = """
DELETE FROM duly.gates WHERE name = ANY(ARRAY(
    SELECT g.name FROM duly.gates g
    WHERE g.name >= 'cap:' AND g.name < 'cap;'
        AND NOT EXISTS (SELECT 1 FROM duly.blocked b WHERE b.gate = g.name)
        AND NOT EXISTS (
            SELECT 1 FROM duly.held_places h WHERE h.place = pg_catalog.substr(g.name, 5))
    LIMIT $1::int8 FOR UPDATE SKIP LOCKED))"""


def list_limits(session: Session) -> Limits:
    """Return all limits; the version first, so that what it stands for is among them."""
    (version,) = one(session, READ_VERSION)
    return Limits(version, map(limit_record, session.rows(LIMITS)))


def limits_of(session: Session, scopes: Iterable[str]) -> Limits:
    """Return the limits that have to do with some scopes."""
    every = [scope_of(kind, "*") for kind in LimitKind]
    return Limits(0, map(limit_record, session.rows(LIMITS_OF, (Texts([*scopes, *every]),))))


def declare_limits(work: Work, said: Mapping[str, Limit | None], actor: Actor) -> None:
    """Remember what code says; most programs say what is known already."""
    known = limits_of(work.session, said).said(LimitSource.CODE)
    if all(limit == known.get(scope) for scope, limit in said.items()):
        return
    before = _begin_change(work)
    # Looked at again: another program may have said the same at the same moment.
    known = before.said(LimitSource.CODE)
    for scope, limit in sorted(said.items()):
        if limit != known.get(scope):
            _change(work, (scope, LimitSource.CODE), known.get(scope), limit, actor)
    _apply(work, before)


def set_limit(work: Work, command: SetLimit) -> LimitRecord:
    """Limit something by a person's order."""
    before = _begin_change(work)
    key = (command.scope, LimitSource.PERSON)
    said = before.said(LimitSource.PERSON).get(command.scope)
    record = _change(work, key, said, command.limit, command.actor)
    _apply(work, before)
    return record


def remove_limit(work: Work, scope: str, actor: Actor) -> bool:
    """Take a person's limit away; what nobody has said is looked for before anybody waits."""
    if limits_of(work.session, [scope]).said(LimitSource.PERSON).get(scope) is None:
        return False
    before = _begin_change(work)
    said = before.said(LimitSource.PERSON).get(scope)
    if said is None:
        return False
    _change(work, (scope, LimitSource.PERSON), said, None, actor)
    _apply(work, before)
    return True


def _begin_change(work: Work) -> Limits:
    """Let nobody else change limits meanwhile; return them as they are."""
    work.session.run(NEW_VERSION)
    work.look_at_the_clock()
    return list_limits(work.session)


def _change(  # noqa: PLR0913, PLR0917 - who says what about which limit, and what was said before
    work: Work,
    key: tuple[str, LimitSource],
    before: Limit | None,
    limit: Limit | None,
    actor: Actor,
) -> LimitRecord:
    record = LimitRecord(*key, limit or NO_LIMIT, work.now, actor.name, actor.reason)
    if limit is None:
        work.session.run(REMOVE_LIMIT, key)
    else:
        work.session.run(WRITE_LIMIT, limit_row(record))
    action = "limit.removed" if limit is None else "limit.set"
    work.record(actor, action, changed_limit_subject(record.scope, before, limit))
    return record


def _apply(work: Work, before: Limits) -> None:
    """Let what runs already hold its places at limits that are new; who waits may go on."""
    limits = list_limits(work.session)
    _count_running(work, limits)
    paced = [place for (place,) in work.session.rows(PACED)]
    changed = changed_rates(before, limits, paced)
    if changed:
        lock_gates(work.session, map(cap_gate, changed))
        work.look_at_the_clock()
    for place, rate in changed.items():
        _give_turns_anew(work, place, rate)
    work.freed += [gate for gate, _ in work.session.rows(CAPPED_GATES)]


def _give_turns_anew(work: Work, place: str, rate: Rate | None) -> None:
    waiting = list_put_off(work, why_text(LimitReason.RATE, place))
    turns, pace = spread_turns(rate, len(waiting), work.now)
    call_back(work, waiting, turns)
    note_turns(work, dict(zip((run_id for run_id, _ in waiting), turns, strict=True)))
    write_paces(work, {place: pace})


def note_turns(work: Work, turns: Mapping[RunId, int]) -> None:
    """Note turns at rates that runs were given."""
    if turns:
        work.session.run(NOTE_TURNS, (Uuids([*turns]), Int8s([*turns.values()])))


def write_paces(work: Work, paces: Mapping[str, RateState]) -> None:
    """Write what is remembered of rates."""
    if paces:
        columns = zip(*paces.values(), strict=True)
        work.session.run(WRITE_PACES, (Texts([*paces]), *map(Int8s, columns)))


def _count_running(work: Work, limits: Limits) -> None:
    """Let what runs already hold its places."""
    falling: dict[RunId, tuple[str, ...]] = {}
    for run_id, task, tenant in work.session.rows(CLAIMED_TASKS):
        places = falls_under(limits, task, tenant, None).places
        if places:
            falling[RunId(run_id)] = places
    # Whoever ends one of them at this moment is waited for, and takes it out of the count.
    running = work.session.rows(HOLD_CLAIMS, (Uuids(sorted(falling)),)) if falling else []
    taken = [(run_id, place) for (run_id,) in running for place in falling[run_id]]
    if taken:
        mark_claims(work, [run_id for (run_id,) in running])
        take_places(work, [(run_id, place, NOT_ADMITTED) for run_id, place in taken])


def mark_claims(work: Work, run_ids: Sequence[RunId]) -> None:
    """Let the ends of claims be looked at each by itself."""
    work.session.run(MARK_CLAIMS, (Uuids(run_ids),))


def take_places(work: Work, taken: Sequence[tuple[RunId, str, int]]) -> None:
    """Note who holds which place, and the fence under which he was admitted."""
    if taken:
        ids, places, fences = zip(*taken, strict=True)
        work.session.run(TAKE_PLACES, (Uuids(ids), Texts(places), Int4s(fences)))


def leave_places(
    work: Work, run_ids: Sequence[RunId], taken_again: Container[tuple[RunId, str]] = ()
) -> list[tuple[RunId, str]]:
    """Give back all places that runs hold; who stands for one of them may go."""
    if not run_ids:
        return []
    found = work.session.rows(LEAVE_PLACES, (Uuids(sorted(run_ids)),))
    left = [(RunId(run_id), place) for run_id, place in found]
    work.freed += [cap_gate(one[1]) for one in left if one not in taken_again]
    return left


def leave_limits(work: Work, run_id: RunId) -> None:
    """Forget a run that is over: its places, and its turn."""
    leave_places(work, [run_id])
    work.session.run(FORGET_TURNS, (Uuids([run_id]),))


class EndsAtLimits:
    """Ends of attempts that were admitted: places are given back, and destinations judged."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._ends: dict[str, list[EndAtDestination]] = {}

    def add(self, ended: Mapping[RunId, EndAtDestination]) -> None:
        """Give back the places of attempts."""
        for run_id, place in leave_places(self._work, [*ended]):
            destination = destination_of([place])
            if destination is not None:
                self._ends.setdefault(destination, []).append(ended[run_id])

    def write(self) -> None:
        """Write what was learnt, once for each destination; from here on no claim is locked."""
        if self._ends:
            take_in(self._work, self._ends)
            self._ends.clear()


class PostgresOpening(Opening):
    """The gates of places in one transaction."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._session = work.session

    def limits(self) -> Limits:
        """Return all limits."""
        return list_limits(self._session)

    def lock_place(self, place: str) -> None:
        """Wait for whoever decides about a place, and let nobody else until the end."""
        lock_gates(self._session, [cap_gate(place)])

    def count_held(self, place: str) -> int:
        """Return how many hold a place."""
        return count_held(self._session, [place]).get(place, 0)

    def standing(self, place: str, limit: int) -> list[RunId]:
        """Return who stands for a place, the first to go first."""
        found = self._session.rows(STANDING, (cap_gate(place), limit))
        return [RunId(run_id) for (run_id,) in found]

    def let_go(self, place: str, run_ids: Sequence[RunId]) -> None:
        """Queue runs that have stood for a place; they hold it from now on."""
        now = self._work.look_at_the_clock()
        self._session.run(LET_GO, (Uuids(run_ids), place, now))
        self._work.has_orders = True


def open_places(work: Work, gates: Iterable[str], limit: int) -> int:
    """Let go as many as there is room for, at the gates of places."""
    places = sorted(place for place in map(capped_place, gates) if place is not None)
    return PostgresOpening(work).open(places, limit)


def gates_with_room(session: Session, limit: int) -> list[str]:
    """Return the gates of places at which somebody stands although there is room, as it seems."""
    found = session.rows(CAPPED_GATES)
    if not found:
        return []
    limits = list_limits(session)
    places = [(gate, capped_place(gate), held) for gate, held in found]
    free = [gate for gate, of, held in places if of and room(limits.of_place(of), held, 1)]
    return free[:limit]


def list_places(look: Look, *, is_held: bool) -> list[PlaceRecord]:
    """Return limits at which runs of any tenant are or wait, or whose turns are given out ahead."""
    counts = (_PLACES_OF_ALL, _STANDING_OF_ALL) if is_held else (COUNT_PLACES, COUNT_STANDING)
    statements = (*counts, TURNS_AHEAD)
    held, waiting, ahead = (pairs(look.session, statement) for statement in statements)
    return place_records(held, waiting, ahead, look.now)


def forget_limits(work: Work, limit: int) -> None:
    """Remove what says nothing any more of rates, destinations and gates of places."""
    work.session.run(FORGET_PACES, (work.now, limit))
    forget_breakers(work, limit)
    work.session.run(FORGET_CAPPED_GATES, (limit,))
