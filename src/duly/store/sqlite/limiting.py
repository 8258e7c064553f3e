"""Limits in the file: what is said about them, who holds a place, who stands for one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.admission import Breaker, falls_under, reset_of
from duly.domain.ids import RunId
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
from duly.store.limit_rows import breaker_of, breaker_row, limit_record, limit_row
from duly.store.ports.limits import BreakerRecord
from duly.store.sqlite.rows import SHARE, one, pairs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import apsw

    from duly.domain.admission import EndAtDestination
    from duly.domain.audit import Actor
    from duly.domain.limits import Limit, Rate
    from duly.store.ports.limits import PlaceRecord, SetLimit
    from duly.store.records import Row
    from duly.store.sqlite.work import Look, Work

READ_VERSION = "SELECT limits_version FROM duly_cluster"
LIST_LIMITS = """
SELECT scope, source, running, rate, running_by, set_at, set_by, reason FROM duly_limits"""
PUT_LIMIT = """
INSERT INTO duly_limits (scope, source, running, rate, running_by, set_at, set_by, reason)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
ON CONFLICT DO UPDATE SET running = ?3, rate = ?4, running_by = ?5, set_at = ?6, set_by = ?7,
    reason = ?8"""
DROP_LIMIT = "DELETE FROM duly_limits WHERE scope = ? AND source = ?"
GROW_VERSION = "UPDATE duly_cluster SET limits_version = limits_version + 1"
LIST_RUNNING = """
SELECT c.run_id, r.task, r.tenant FROM duly_claims c CROSS JOIN duly_runs r ON r.id = c.run_id"""
TAKE_PLACE = """
INSERT INTO duly_held_places (run_id, place, fence) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"""
MARK_CLAIM = "UPDATE duly_claims SET is_gated = 1 WHERE run_id = ?"
LEAVE_PLACES = "DELETE FROM duly_held_places WHERE run_id = ? RETURNING place"
DROP_TURN = "DELETE FROM duly_turns WHERE run_id = ?"
IS_STOOD_FOR = "SELECT 1 FROM duly_blocked WHERE gate = ? LIMIT 1"
# One search for each gate, however many stand there.
NEXT_GATE = "SELECT min(gate) FROM duly_blocked WHERE gate > ? AND gate < 'cap;'"
COUNT_HELD = "SELECT count(*) FROM duly_held_places WHERE place = ?"
STANDING = "SELECT run_id FROM duly_blocked WHERE gate = ? ORDER BY priority, number LIMIT ?"
LET_GO = f"""
INSERT INTO duly_ready (queue, priority, tenant, rank, run_id, fired_at, not_before, fence, attempt,
    charged, begun_at, is_gated)
SELECT r.queue, b.priority, {SHARE.format("r")}, r.not_before, b.run_id, ?2, r.not_before, b.fence,
    b.attempt, b.charged, b.begun_at, 1
FROM duly_blocked b JOIN duly_runs r ON r.id = b.run_id WHERE b.run_id = ?1"""  # noqa: S608 - ours
DROP_BLOCKED = "DELETE FROM duly_blocked WHERE run_id = ?"
COUNT_PLACES = "SELECT place, count(*) FROM duly_held_places GROUP BY place"
COUNT_STANDING = """
SELECT substr(gate, 5), count(*) FROM duly_blocked WHERE gate > 'cap:' AND gate < 'cap;'
GROUP BY gate"""
LIST_AHEAD = "SELECT place, promised_at FROM duly_paces"
_BREAKER = """state, counted_from, succeeded, failed, opened_at, retry_at, pause_us, probe, epoch"""
READ_BREAKER = f"SELECT {_BREAKER} FROM duly_breakers WHERE destination = ?"  # noqa: S608 - ours
LIST_BREAKERS = f"""
SELECT destination, updated_at, {_BREAKER} FROM duly_breakers
ORDER BY destination"""  # noqa: S608 - columns of ours
PUT_BREAKER = f"""
INSERT OR REPLACE INTO duly_breakers (destination, updated_at, {_BREAKER})
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""  # noqa: S608 - columns of ours
COUNT_PUT_OFF = """
SELECT reason, count(*) FROM duly_waiting WHERE reason > 'breaker ' AND reason < 'breaker!'
GROUP BY reason"""
LIST_PUT_OFF = "SELECT run_id, shard FROM duly_waiting WHERE reason = ? ORDER BY due_at, run_id"
CALL_BACK = "UPDATE duly_waiting SET due_at = ? WHERE run_id = ?"
PUT_TURN = "INSERT OR REPLACE INTO duly_turns (run_id, at) VALUES (?, ?)"
PUT_PACE = """
INSERT OR REPLACE INTO duly_paces (place, promised_at, begun_at, again_at) VALUES (?, ?, ?, ?)"""
FORGET_PACES = "DELETE FROM duly_paces WHERE max(promised_at, begun_at, again_at) < ?"
FORGET_BREAKERS = "DELETE FROM duly_breakers WHERE state = 'closed' AND updated_at < ?"


def read_limits(connection: apsw.Connection) -> Limits:
    """Return all limits, as they are now."""
    (version,) = one(connection, READ_VERSION)
    return Limits(version, [limit_record(row) for row in connection.execute(LIST_LIMITS)])


def list_limits(look: Look) -> Limits:
    """Return all limits."""
    return read_limits(look.connection)


def declare_limits(work: Work, said: Mapping[str, Limit | None], actor: Actor) -> None:
    """Remember what code says."""
    limits = read_limits(work.connection)
    known = limits.said(LimitSource.CODE)
    changed = {scope: limit for scope, limit in said.items() if limit != known.get(scope)}
    for scope, limit in sorted(changed.items()):
        _change(work, (scope, LimitSource.CODE), known.get(scope), limit, actor)
    if changed:
        _apply(work, limits)


def set_limit(work: Work, command: SetLimit) -> LimitRecord:
    """Limit something by a person's order."""
    scope, actor = command.scope, command.actor
    limits = read_limits(work.connection)
    before = limits.said(LimitSource.PERSON).get(scope)
    _change(work, (scope, LimitSource.PERSON), before, command.limit, actor)
    _apply(work, limits)
    said = (work.now, actor.name, actor.reason)
    return LimitRecord(scope, LimitSource.PERSON, command.limit, *said)


def remove_limit(work: Work, scope: str, actor: Actor) -> bool:
    """Take a person's limit away."""
    limits = read_limits(work.connection)
    before = limits.said(LimitSource.PERSON).get(scope)
    if before is None:
        return False
    _change(work, (scope, LimitSource.PERSON), before, None, actor)
    _apply(work, limits)
    return True


def _change(  # noqa: PLR0913, PLR0917 - who says what about which limit
    work: Work,
    key: tuple[str, LimitSource],
    before: Limit | None,
    limit: Limit | None,
    actor: Actor,
) -> None:
    if limit is None:
        work.connection.execute(DROP_LIMIT, key)
    else:
        record = LimitRecord(*key, limit, work.now, actor.name, actor.reason)
        work.connection.execute(PUT_LIMIT, limit_row(record))
    action = "limit.removed" if limit is None else "limit.set"
    work.record(actor, action, changed_limit_subject(key[0], before, limit))


def _apply(work: Work, before: Limits) -> None:
    """Let what runs already hold its places at limits that are new; who waits may go on."""
    connection = work.connection
    connection.execute(GROW_VERSION)
    _count_running(work)
    paced: list[str] = list(pairs(connection, LIST_AHEAD))
    for place, rate in changed_rates(before, read_limits(connection), paced).items():
        _give_turns_anew(work, place, rate)
    work.freed += [cap_gate(place) for place in standing_places(work)]


def _give_turns_anew(work: Work, place: str, rate: Rate | None) -> None:
    waiting = _put_off(work, why_text(LimitReason.RATE, place))
    turns, pace = spread_turns(rate, len(waiting), work.now)
    _call_back(work, waiting, turns)
    given = [(run_id, at) for (run_id, _), at in zip(waiting, turns, strict=True)]
    work.connection.executemany(PUT_TURN, given)
    work.connection.execute(PUT_PACE, (place, *pace))


def _put_off(work: Work, why: str) -> list[Row]:
    """Return runs that were put off for one reason, each with its shard; the first back first."""
    return work.connection.execute(LIST_PUT_OFF, (why,)).fetchall()


def _call_back(work: Work, waiting: Sequence[Row], due_at: Sequence[int]) -> None:
    """Let runs that were put off come back at other times."""
    for (run_id, shard), at in zip(waiting, due_at, strict=True):
        work.connection.execute(CALL_BACK, (at, run_id))
        work.announce("retry", run_id, at, shard)


def _count_running(work: Work) -> None:
    """Let what runs already hold its places at limits that are new."""
    connection, limits = work.connection, read_limits(work.connection)
    running: list[Row] = connection.execute(LIST_RUNNING).fetchall()
    for run_id, task, tenant in running:
        places = falls_under(limits, task, tenant, None).places
        if places:
            rows = [(run_id, place, NOT_ADMITTED) for place in places]
            connection.executemany(TAKE_PLACE, rows)
            connection.execute(MARK_CLAIM, (run_id,))


def leave_places(work: Work, run_id: RunId, but: Sequence[str] = ()) -> list[str]:
    """Give back all places that a run holds; who stands for one of them may go.

    One who takes some of them anew, in this transaction, says which: nobody is called for those.
    """
    found: list[Row] = work.connection.execute(LEAVE_PLACES, (run_id,)).fetchall()
    left: list[str] = [place for (place,) in found]
    for gate in (cap_gate(place) for place in left if place not in but):
        if work.connection.execute(IS_STOOD_FOR, (gate,)).fetchone() is not None:
            work.freed.append(gate)
    return left


def leave_limits(work: Work, run_id: RunId) -> None:
    """Forget a run that is over: its places, and its turn."""
    leave_places(work, run_id)
    work.connection.execute(DROP_TURN, (run_id,))


class EndsAtLimits:
    """Ends of attempts that were admitted: places are given back, and destinations judged."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._ends: dict[str, list[EndAtDestination]] = {}

    def add(self, end: EndAtDestination) -> None:
        """Give back the places of an attempt."""
        destination = destination_of(leave_places(self._work, end.run_id))
        if destination is not None:
            self._ends.setdefault(destination, []).append(end)

    def write(self) -> None:
        """Write what was learnt, once for each destination."""
        for destination, ends in self._ends.items():
            known = read_breaker(self._work.connection, destination)
            before = Breaker() if known is None else known
            after = fold(before, ends, self._work.now)
            if after != before:
                write_breaker(self._work, destination, after)
        self._ends.clear()


def read_breaker(connection: apsw.Connection, destination: str) -> Breaker | None:
    """Return what is known of a destination."""
    row = connection.execute(READ_BREAKER, (destination,)).fetchone()
    return None if row is None else breaker_of(row)


def write_breaker(work: Work, destination: str, breaker: Breaker) -> None:
    """Write what is known of a destination."""
    row = (destination, work.now, *breaker_row(breaker))
    work.connection.execute(PUT_BREAKER, row)


class SqliteOpening(Opening):
    """The gates of places, alone for as long as the lock is held."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def limits(self) -> Limits:
        """Return all limits."""
        return read_limits(self._work.connection)

    def lock_place(self, place: str) -> None:
        """Nothing: nobody else writes."""

    def count_held(self, place: str) -> int:
        """Return how many hold a place."""
        (held,) = one(self._work.connection, COUNT_HELD, (place,))
        return int(held)

    def standing(self, place: str, limit: int) -> Sequence[RunId]:
        """Return who stands for a place, the first to go first."""
        found = self._work.connection.execute(STANDING, (cap_gate(place), limit))
        return [RunId(run_id) for (run_id,) in found]

    def let_go(self, place: str, run_ids: Sequence[RunId]) -> None:
        """Queue runs that have stood for a place."""
        connection, now = self._work.connection, self._work.now
        connection.executemany(LET_GO, [(run_id, now) for run_id in run_ids])
        connection.executemany(DROP_BLOCKED, [(run_id,) for run_id in run_ids])
        connection.executemany(TAKE_PLACE, [(run_id, place, NOT_ADMITTED) for run_id in run_ids])
        self._work.has_orders = True


def standing_places(look: Look | Work) -> list[str]:
    """Return the places that somebody stands for, in order."""
    found: list[str] = []
    (gate,) = one(look.connection, NEXT_GATE, ("cap:",))
    while gate is not None:
        place = capped_place(gate)
        assert place is not None, "only such gates were looked for"
        found.append(place)
        (gate,) = one(look.connection, NEXT_GATE, (gate,))
    return found


def list_places(look: Look) -> list[PlaceRecord]:
    """Return limits at which somebody is or waits, or whose turns are given out ahead."""
    statements: Iterable[str] = (COUNT_PLACES, COUNT_STANDING, LIST_AHEAD)
    held, waiting, ahead = (pairs(look.connection, statement) for statement in statements)
    return place_records(held, waiting, ahead, look.now)


def list_breakers(look: Look) -> list[BreakerRecord]:
    """Return what is known of destinations, by name."""
    found: list[Row] = look.connection.execute(LIST_BREAKERS).fetchall()
    known = [_told(look, row[0], row[1], breaker_of(row[2:])) for row in found]
    return with_waiting(known, lambda: pairs(look.connection, COUNT_PUT_OFF))


def _told(look: Look | Work, destination: str, updated_at: int, breaker: Breaker) -> BreakerRecord:
    place = scope_of(LimitKind.DESTINATION, destination)
    (running,) = one(look.connection, COUNT_HELD, (place,))
    return BreakerRecord(destination, breaker, running, updated_at)


def reset_breaker(work: Work, destination: str, actor: Actor) -> BreakerRecord:
    """Take a destination for well."""
    known = read_breaker(work.connection, destination)
    if known is None:
        raise unknown_destination(destination)
    reset = reset_of(known, work.now)
    write_breaker(work, destination, reset)
    waiting = _put_off(work, why_text(LimitReason.BREAKER, destination))
    _call_back(work, waiting, spread_again(len(waiting), work.now))
    work.record(actor, "breaker.reset", reset_breaker_subject(destination, known))
    return _told(work, destination, work.now, reset)


def forget_limits(work: Work) -> None:
    """Remove what says nothing any more of rates and destinations."""
    work.connection.execute(FORGET_PACES, (work.now,))
    work.connection.execute(FORGET_BREAKERS, (work.now - BREAKERS_KEPT_US,))
