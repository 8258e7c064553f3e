"""Gates in the database: who has gone through and who waits, decided by whoever has locked one.

A gate is a row of its own, so that there is something to lock while nobody holds it. Whoever lets a
run arrive, or lets one go, has locked it until his commit. Rows are locked in this order: leases,
the states of schedules, claims, gates in the order of their names, those that wait, the ledger of
effects.

The end of a run locks no gate: it deletes the row by which the run held it. Afterwards, in another
transaction, whoever ended it looks who waits:

* One who was deciding about the gate at that moment may have seen it held, and have put his run
  among those that wait. He has the gate locked; so it is locked once here, which waits for him,
  and only then is looked, with fresh eyes.
* Whoever locks it later sees that nobody holds it.
* We die in between. Then maintenance finds a gate that nobody holds and at which somebody waits.

A run that is over or gone holds nothing, even where its row says so: a program that knows of no
gates may have ended it. Such a row is deleted by the next that comes to the gate.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from psycopg import errors

from duly.domain.enums import RunState
from duly.domain.ids import RunId
from duly.domain.limits import capped_place
from duly.errors import StoreUnavailable
from duly.store.gates import OPENED_MAX, OVERLAP, Gates
from duly.store.postgres.arrays import Texts, Uuids
from duly.store.postgres.gate_locks import lock_gates
from duly.store.postgres.limiting import gates_with_room, leave_limits, open_places
from duly.store.postgres.rows import RANKED, SHARE, WENT_AHEAD
from duly.store.postgres.savepoints import savepoint
from duly.store.postgres.session import first, uid

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from duly.domain.runs import AttemptCounts
    from duly.store.gates import GateDecision
    from duly.store.postgres.connection import Connections
    from duly.store.postgres.work import Work
    from duly.store.records import Row

_IS_OVER = """(EXISTS (SELECT 1 FROM duly.outcomes o WHERE o.run_id = {0} OFFSET 0)
        OR EXISTS (SELECT 1 FROM duly.dead x WHERE x.run_id = {0} OFFSET 0))"""
_HOLDS_NO_MORE = f"""(NOT EXISTS (SELECT 1 FROM duly.runs r WHERE r.id = h.run_id OFFSET 0)
        OR {_IS_OVER.format("h.run_id")})"""  # noqa: S608 - a part of ours
THOSE_THERE = "SELECT uuid_send(id) FROM duly.runs WHERE id = ANY($1::uuid[])"
THOSE_OPEN = f"""
SELECT uuid_send(r.id) FROM duly.runs r
WHERE r.id = ANY($1::uuid[]) AND NOT {_IS_OVER.format("r.id")}"""  # noqa: S608 - a part of ours
THOSE_WAITING = """
SELECT uuid_send(run_id) FROM duly.blocked
WHERE run_id = ANY($1::uuid[]) AND gate NOT LIKE 'cap:%'"""

LOCK_FREE_GATES = """
SELECT name FROM duly.gates WHERE name = ANY($1::text[]) ORDER BY name FOR UPDATE SKIP LOCKED"""
MISSING_GATES = """
SELECT u.name FROM unnest($1::text[]) u(name)
WHERE NOT EXISTS (SELECT 1 FROM duly.gates g WHERE g.name = u.name)"""
READ_GATES = f"""
SELECT u.name, uuid_send(h.run_id), h.run_id IS NOT NULL AND {_HOLDS_NO_MORE},
    ARRAY(SELECT uuid_send(b.run_id) FROM duly.blocked b WHERE b.gate = u.name
        ORDER BY b.priority, b.number)
FROM unnest($1::text[]) u(name) LEFT JOIN duly.held_gates h ON h.gate = u.name"""  # noqa: S608

HOLDS = "SELECT 1 FROM duly.held_gates WHERE run_id = $1::uuid"
TAKE = "INSERT INTO duly.held_gates (run_id, gate) VALUES ($1::uuid, $2)"
GIVE_BACK = "DELETE FROM duly.held_gates WHERE run_id = ANY($1::uuid[]) RETURNING gate"
LAST_LET_GO = f"""
SELECT uuid_send({WENT_AHEAD.format("t.")})
FROM duly.runs r JOIN duly.schedule_state t ON t.schedule_id = r.schedule_id
WHERE r.id = $1::uuid"""  # noqa: S608 - a part of ours
# Unless it goes beside one that is open: whoever comes then still finds that.
GO_AHEAD = f"""
UPDATE duly.schedule_state t SET active_run = $1::uuid
WHERE t.schedule_id = (SELECT schedule_id FROM duly.runs WHERE id = $1::uuid)
    AND NOT EXISTS (
        SELECT 1 FROM duly.runs r
        WHERE r.id = {WENT_AHEAD.format("t.")} AND NOT {_IS_OVER.format("r.id")}
            AND NOT EXISTS (
                SELECT 1 FROM duly.blocked b
                WHERE b.run_id = r.id AND b.gate NOT LIKE 'cap:%' OFFSET 0)
        OFFSET 0)"""  # noqa: S608 - parts of ours
STAND = """
INSERT INTO duly.blocked (run_id, gate, priority, since, fence, attempt, charged, begun_at)
VALUES ($1::uuid, $2, $3::int4, $4::int8, $5::int4, $6::int4, $7::int4, $8::int8)"""
LEAVE = """
DELETE FROM duly.blocked WHERE run_id = $1::uuid RETURNING fence, attempt, charged, begun_at"""
CLOSE_INTO = """
INSERT INTO duly.outcomes (run_id, state, reason, finished_at, fence, attempt, charged, begun_at,
    into_run)
VALUES ($1::uuid, $2, $3, $4::int8, $5::int4, $6::int4, $7::int4, $8::int8, $9::uuid)"""
LET_GO = f"""
WITH gone AS (DELETE FROM duly.blocked WHERE run_id = $1::uuid RETURNING *),
taken AS (INSERT INTO duly.held_gates (run_id, gate) SELECT run_id, gate FROM gone)
INSERT INTO duly.ready (queue, priority, rank, run_id, fired_at, not_before, era, fence, attempt,
    charged, begun_at, is_gated, tenant)
SELECT r.queue, r.ranked, r.not_before, g.run_id, $2::int8, r.not_before,
    (SELECT era FROM duly.cluster WHERE id = 1), g.fence, g.attempt, g.charged, g.begun_at, true,
    r.share
FROM gone g CROSS JOIN LATERAL (
    SELECT queue, {RANKED} AS ranked, not_before, {SHARE} AS share FROM duly.runs
    WHERE id = g.run_id OFFSET 0) r"""  # noqa: S608 - an expression of ours

MARK_CLAIM = "UPDATE duly.claims SET is_gated = true WHERE run_id = $1::uuid"
# One that holds no gate and was never claimed is where its run says.
MARK_READY = f"""
UPDATE duly.ready y SET is_gated = true FROM (
    SELECT id, queue, {RANKED} AS ranked, {SHARE} AS share, not_before FROM duly.runs
    WHERE id = $1::uuid OFFSET 0) r
WHERE y.queue = r.queue AND y.priority = r.ranked AND y.tenant = ANY(ARRAY['', r.share])
    AND y.rank = r.not_before AND y.run_id = r.id"""  # noqa: S608 - an expression of ours
MARK_READY_AGAIN = """
UPDATE duly.ready SET is_gated = true
WHERE run_id = $1::uuid AND (fence > 0 OR is_gated)"""
IS_WAITING = "SELECT 1 FROM duly.waiting WHERE run_id = $1::uuid"
ASK_FOR_WAY = """
UPDATE duly.claims
SET cancel_asked_at = coalesce(cancel_asked_at, $2::int8), replaced_by = $3::uuid, is_gated = true
WHERE run_id = $1::uuid"""
TAKE_READY = """
DELETE FROM duly.ready WHERE run_id = $1::uuid AND (fence > 0 OR is_gated)
RETURNING fence, attempt, charged, begun_at"""
TAKE_WAITING = """
DELETE FROM duly.waiting WHERE run_id = $1::uuid RETURNING fence, attempt, charged, begun_at"""
HURRY = """
UPDATE duly.ready SET priority = $2::int4
WHERE run_id = $1::uuid AND (fence > 0 OR is_gated) AND priority > $2::int4"""
HURRY_STANDING = """
UPDATE duly.blocked SET priority = $2::int4 WHERE run_id = $1::uuid AND priority > $2::int4"""

# From gate to gate along the index: how many wait at each is not counted.
FREE_GATES = f"""
WITH RECURSIVE found(gate) AS (
    (SELECT b.gate FROM duly.blocked b WHERE b.gate > '' ORDER BY b.gate LIMIT 1)
    UNION ALL
    SELECT (SELECT b.gate FROM duly.blocked b WHERE b.gate > f.gate ORDER BY b.gate LIMIT 1)
    FROM found f WHERE f.gate IS NOT NULL)
SELECT f.gate FROM found f WHERE f.gate IS NOT NULL AND f.gate NOT LIKE 'cap:%' AND NOT EXISTS (
    SELECT 1 FROM duly.held_gates h WHERE h.gate = f.gate AND NOT {_HOLDS_NO_MORE})
LIMIT $1::int8"""  # noqa: S608 - a part of ours
# Waits for whoever is deciding about a gate, and for nobody for long.
WAIT_FOR_DECISIONS = """
SELECT 1 FROM duly.gates WHERE name = ANY($1::text[])
    AND (SELECT set_config('lock_timeout', '100ms', true)) IS NOT NULL
ORDER BY name FOR UPDATE"""
FIRST_THERE = """
SELECT u.name, uuid_send(r.schedule_id) FROM unnest($1::text[]) u(name)
CROSS JOIN LATERAL (
    SELECT b.run_id FROM duly.blocked b WHERE b.gate = u.name
    ORDER BY b.priority, b.number LIMIT 1) b
CROSS JOIN LATERAL (SELECT r.schedule_id FROM duly.runs r WHERE r.id = b.run_id OFFSET 0) r"""
_LOCK_STATES = """
SELECT uuid_send(schedule_id) FROM duly.schedule_state WHERE schedule_id = ANY($1::uuid[])
ORDER BY schedule_id FOR UPDATE"""
LOCK_STATES, LOCK_FREE_STATES = _LOCK_STATES, f"{_LOCK_STATES} SKIP LOCKED"

AT_ONCE_MAX = 50
"""How many gates one transaction opens: fires of their schedules wait for it."""
LOOKS_MAX = 5
"""How often a run may move on while we look for it, and others may come first at a gate."""


@dataclass(slots=True)
class _State:
    """A gate that is locked, as it was read."""

    holder: RunId | None
    waiting: list[RunId]


class PostgresGates(Gates):
    """The gates that one transaction has to do with."""

    def __init__(self, work: Work) -> None:
        super().__init__()
        self._work = work
        self._session = work.session
        self._locked: set[str] = set()
        self._states: dict[str, _State] = {}
        self._there: dict[RunId, bool] = {}
        self._open: dict[RunId, bool] = {}
        self._waits: dict[RunId, bool] = {}

    def foresee(self, ids: Iterable[RunId], went_ahead: Iterable[RunId | None]) -> None:
        """Learn at once which runs there are, and which that went ahead are still open."""
        self._learn(THOSE_THERE, ids, self._there)
        asked = {one for one in went_ahead if one is not None}
        self._learn(THOSE_OPEN, asked, self._open)
        self._learn(THOSE_WAITING, (one for one in asked if self._open[one]), self._waits)

    def _learn(self, statement: str, ids: Iterable[RunId], known: dict[RunId, bool]) -> None:
        asked = sorted(set(ids))
        if asked:
            found = {run_id for (run_id,) in self._session.rows(statement, (Uuids(asked),))}
            known.update((run_id, run_id in found) for run_id in asked)

    def exists(self, run_id: RunId) -> bool:
        """Say whether there is such a run."""
        if run_id not in self._there:
            self._learn(THOSE_THERE, [run_id], self._there)
        return self._there[run_id]

    def is_stored_open(self, run_id: RunId) -> bool:
        """Say whether a run is still to end."""
        if run_id not in self._open:
            self._learn(THOSE_OPEN, [run_id], self._open)
        return self._open[run_id]

    def lock(self, gate: str) -> None:
        """Wait for whoever decides about a gate, and let nobody else until the end."""
        self.lock_all([gate])

    def lock_all(self, gates: Iterable[str], *, only_free: bool = False) -> set[str]:
        """Lock gates in the order of their names; return those that are locked.

        `only_free` passes over those that somebody else decides about.
        """
        asked = sorted(set(gates))
        new = [gate for gate in asked if gate not in self._locked]
        if new and only_free:
            new = self._lock_free(new)
        elif new:
            lock_gates(self._session, new)
        self._locked.update(new)
        self._read(new)
        return self._locked.intersection(asked)

    def _lock_free(self, names: Sequence[str]) -> list[str]:
        locked = [name for (name,) in self._session.rows(LOCK_FREE_GATES, (Texts(names),))]
        if len(locked) < len(names):
            others = Texts([name for name in names if name not in locked])
            missing = [name for (name,) in self._session.rows(MISSING_GATES, (others,))]
            # Who makes the same at this moment is waited for, unless he takes his time.
            with suppress(errors.LockNotAvailable), savepoint(self._session, "duly_gates"):
                lock_gates(self._session, missing)
                locked += missing
        return locked

    def _read(self, gates: Sequence[str]) -> None:
        """Read gates that are locked: others may only give them back meanwhile."""
        if not gates:
            return
        over: list[RunId] = []
        for gate, holder, is_over, waiting in self._session.rows(READ_GATES, (Texts(gates),)):
            # One that we let go ourselves may not be written yet.
            is_past = is_over and holder not in self.gone
            if is_past:
                over.append(holder)
            self._states[gate] = _State(None if is_past else holder, waiting)
        if over:
            self._session.rows(GIVE_BACK, (Uuids(over),))

    def _state(self, gate: str) -> _State:
        if gate not in self._states:
            self._read([gate])
        return self._states[gate]

    def holder(self, gate: str) -> RunId | None:
        """Return the open run that has gone through."""
        return self._state(gate).holder

    def waiting(self, gate: str) -> list[RunId]:
        """Return who waits, the first to go first."""
        return [*self._state(gate).waiting]

    def waits(self, run_id: RunId) -> bool:
        """Say whether a run waits for another one."""
        if run_id not in self._waits:
            self._learn(THOSE_WAITING, [run_id], self._waits)
        return self._waits[run_id]

    def holds(self, run_id: RunId) -> bool:
        """Say whether a run holds any gate."""
        return bool(self._session.rows(HOLDS, (uid(run_id),)))

    def last_let_go(self, run_id: RunId) -> RunId | None:
        """Return the run of the same schedule that went ahead last."""
        row = first(self._session, LAST_LET_GO, (uid(run_id),))
        return None if row is None or row[0] is None else RunId(row[0])

    def take(self, gate: str, run_id: RunId) -> None:
        """Note that a run has gone through; it may have gone before there was a gate."""
        self._session.run(TAKE, (uid(run_id), gate))
        self._state(gate).holder = run_id
        if self.exists(run_id):
            self._mark(run_id)

    def _mark(self, run_id: RunId) -> None:
        """Let the end of a run that is under way be looked at by itself.

        Where it waits for another attempt, it is marked when it is queued again. Who has waited for
        its row to move on looks where it is now.
        """
        key = (uid(run_id),)
        for _ in range(LOOKS_MAX):
            for statement in (MARK_CLAIM, MARK_READY, MARK_READY_AGAIN):
                if self._session.run(statement, key):
                    return
            if self._session.rows(IS_WAITING, key) or not self._is_open_now(run_id):
                return

    def _is_open_now(self, run_id: RunId) -> bool:
        self._open.pop(run_id, None)
        return self.is_stored_open(run_id)

    def let_go(self, gate: str, run_id: RunId) -> None:
        """Queue one that has waited."""
        key = uid(run_id)
        is_gone = self._session.run(LET_GO, (key, self._work.now))
        assert is_gone, "who takes one away has locked the gate"
        self._session.run(GO_AHEAD, (key,))
        self._states.pop(gate, None)
        self._waits[run_id] = False
        self._work.has_orders = True

    def stand(
        self, run_id: RunId, arrival: GateDecision, priority: int, tries: AttemptCounts
    ) -> None:
        """Let a run wait at its gate."""
        assert arrival.gate is not None, "who waits has a gate"
        place = (uid(run_id), arrival.gate, priority, self._work.now)
        self._session.run(STAND, (*place, *tries))
        self._states.pop(arrival.gate, None)
        self._waits[run_id] = True
        if arrival.in_the_way is not None:
            hurried = (uid(arrival.in_the_way), priority)
            if not self._session.run(HURRY, hurried):
                self._session.run(HURRY_STANDING, hurried)

    def close_waiting(self, run_id: RunId, state: RunState, into: RunId) -> None:
        """Close one that waits, because another stands for it."""
        tries = first(self._session, LEAVE, (uid(run_id),))
        assert tries is not None, "who takes one away has locked the gate"
        self._close(run_id, state, tries, into)
        # Its gate is not told: all are read anew that are asked for again.
        self._states.clear()

    def stop(self, run_id: RunId, into: RunId) -> bool:
        """Close an open run as replaced, or ask its worker to stop."""
        key = uid(run_id)
        for _ in range(LOOKS_MAX):
            if self._session.run(ASK_FOR_WAY, (key, self._work.now, uid(into))):
                self._work.has_orders = True
                return False
            tries = first(self._session, TAKE_READY, (key,))
            tries = tries or first(self._session, TAKE_WAITING, (key,))
            # One that has gone through may stand at a limit. Who lets it go at this moment takes
            # the same row away, and it is found in the queue by the next look.
            tries = tries or first(self._session, LEAVE, (key,))
            if tries is not None:
                leave_limits(self._work, run_id)
                give_back(self._work, [run_id])
                self._close(run_id, RunState.REPLACED, tries, into)
                self._states.clear()
                return True
            if not self._is_open_now(run_id):
                # Over since we looked; whoever ended it has given the gate back.
                self._states.clear()
                return True
        return False  # nobody knows what it did, and it keeps its gate

    def _close(self, run_id: RunId, state: RunState, tries: Row, into: RunId) -> None:
        values = (uid(run_id), state, OVERLAP, self._work.now, *tries, uid(into))
        self._session.run(CLOSE_INTO, values)
        self._open[run_id] = False

    def open_all(self, gates: Iterable[str], *, only_free: bool) -> tuple[int, list[str]]:
        """Let the first go at gates that are free; return how many did, and what to look at again.

        Whose turn it is is told by the gate, and the state of its schedule is locked before that:
        if meanwhile one of another schedule has come first, it is looked at again. `only_free`
        passes over what somebody else has locked.
        """
        expected = self._first_there(sorted(set(gates)))
        schedules = Uuids(sorted({of for of in expected.values() if of is not None}))
        statement = LOCK_FREE_STATES if only_free else LOCK_STATES
        ours = {None, *(of for (of,) in self._session.rows(statement, (schedules,)))}
        possible = [gate for gate, of in expected.items() if of in ours]
        locked = self.lock_all(possible, only_free=only_free)
        self._work.look_at_the_clock()
        now_first = self._first_there(sorted(locked))
        again = [gate for gate, of in now_first.items() if expected[gate] != of]
        return sum(self.open(gate) for gate in now_first if gate not in again), again

    def _first_there(self, gates: Sequence[str]) -> dict[str, bytes | None]:
        """Return the schedule of the first that waits at each gate where anybody does."""
        return dict(self._session.rows(FIRST_THERE, (Texts(gates),))) if gates else {}


def give_back(work: Work, ids: Sequence[RunId]) -> None:
    """Give back the gates that runs held: they are closed, or dead."""
    if ids:
        held = work.session.rows(GIVE_BACK, (Uuids(sorted(ids)),))
        work.freed += [gate for (gate,) in held]


def open_gates(connections: Connections, limit: int) -> int:
    """Let the first go at gates that nobody holds, and who stands where there is a place."""
    with connections.statement(for_dispatch=True) as session:
        free = [gate for (gate,) in session.rows(FREE_GATES, (limit,))]
        capped = gates_with_room(session, limit)
    return _open(connections, free, only_free=True) + _open_places(connections, capped)


def open_freed(connections: Connections, gates: Sequence[str]) -> None:
    """Let the first go at gates that were given back, and of which that is committed.

    Whoever decides about one of them for long is not waited for: maintenance comes by.
    """
    names = Texts(sorted(set(gates)))
    with suppress(StoreUnavailable):
        with connections.statement(for_dispatch=True) as session:
            session.rows(WAIT_FOR_DECISIONS, (names,))
            waited_at = [gate for gate, _ in session.rows(FIRST_THERE, (names,))]
        capped = [gate for gate in waited_at if capped_place(gate) is not None]
        _open_places(connections, capped)
        others = [gate for gate in waited_at if gate not in capped]
        _open(connections, others, only_free=False)


def _open_places(connections: Connections, gates: Sequence[str]) -> int:
    if not gates:
        return 0
    with connections.write(for_dispatch=True) as work:
        return open_places(work, gates, OPENED_MAX)


def _open(connections: Connections, gates: Sequence[str], *, only_free: bool) -> int:
    opened = 0
    for begin in range(0, len(gates), AT_ONCE_MAX):
        left: Sequence[str] = gates[begin : begin + AT_ONCE_MAX]
        for _ in range(LOOKS_MAX):
            if not left:
                break
            with connections.write(for_dispatch=True) as work:
                let_go, left = PostgresGates(work).open_all(left, only_free=only_free)
            opened += let_go
    return opened
