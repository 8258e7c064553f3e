"""Claiming queued runs: one statement, in which no worker waits for another.

The worker's own row is held first, so that nobody declares it dead while it claims. Then rows of
the queue are locked one by one in their order, those that somebody else has locked are passed over,
and exactly what was locked moves to the claims. Each leaf of the queue is deleted from by itself:
a row's place is told by its leaf and its position there, not by either alone.

Nearly always there is less than is asked for, and all of it is in the leaf of the present era. Then
a statement that knows of no other leaf, and takes whatever queue and whatever tenant comes first,
costs half as much. Who gets as many as he has asked for goes another way the next time: he looks at
all leaves, and lets tenants have their shares (`sharing.py`), if there are several.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from duly.domain.enums import Lane, RunState
from duly.domain.runs import TIMEOUT_DEFAULT_US, AttemptCounts
from duly.store.ports.execution import Claimed, ClaimedRun, ClaimRuns
from duly.store.postgres.arrays import Int4s, Text, Texts, Uuids
from duly.store.postgres.rotation import ERAS
from duly.store.postgres.rows import LAST_ERROR
from duly.store.postgres.sharing import IS_KNOWN, Terms, shares
from duly.store.records import run_record, stored_arguments
from duly.store.wakeups import SECOND_US
from duly.store.work_rulings import begin_in, first_priority

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from duly.clock import Clock
    from duly.domain.runs import RunRecord
    from duly.store.ports.dispatch import MemberId
    from duly.store.postgres.session import Session
    from duly.store.records import Row

INT4_MAX = (1 << 31) - 1
INT4_MIN = -(1 << 31)
LAST_NAME = chr(0x10FFFF)
"""No queue's name comes after it."""
ERA_SETTLED_US = 5 * SECOND_US
"""So long after the era has moved on, nobody writes to the leaf before it: no statement takes as
long. Only a caller's own transaction may."""
AIM_KEPT_US = SECOND_US
"""What such a one has left in another leaf is found after this long,"""
NOTHING_KEPT_US = SECOND_US // 10
"""and after this long if there is nothing else."""
ALONE_KEPT_US = SECOND_US // 20
"""So long after a crowd was seen to be of one tenant alone, nobody looks for others in it."""

# The member's row is held first, and only then is the clock looked at.
_WORKER = """
WITH RECURSIVE n AS MATERIALIZED (
    SELECT t.now FROM (
        SELECT held.*, duly.now_us() AS now FROM (
            SELECT m.renewed_at, m.expires_at FROM duly.members m
            WHERE m.id = $1::int8 AND m.ended_at IS NULL AND m.standing IS NULL
            FOR KEY SHARE OF m) held) t
    WHERE t.now < t.expires_at AND t.renewed_at - t.now <= t.expires_at - t.renewed_at)"""
# The present era, if one may go by it.
_ERA = f"""
era AS MATERIALIZED (
    SELECT c.era FROM n CROSS JOIN duly.cluster c
    WHERE c.id = 1 AND n.now - c.era_since >= {ERA_SETTLED_US}
        AND NOT EXISTS (SELECT 1 FROM duly.queues))"""  # noqa: S608 - a number of ours

_IS_OPEN = "NOT EXISTS (SELECT 1 FROM duly.queues p WHERE p.name = {} OFFSET 0)"

_NAMED = f"""
q AS MATERIALIZED (
    SELECT u.name, u.most{{}}
    FROM n CROSS JOIN unnest($2::text[], $3::int4[]) WITH ORDINALITY u(name, most, place)
    WHERE {_IS_OPEN.format("u.name")} ORDER BY u.place)"""  # noqa: S608 - a condition of ours

# From name to name along the index: what a queue holds is not counted.
_EVERY = f"""
found(name) AS (
    (SELECT r.queue FROM duly.ready r WHERE r.queue > '' ORDER BY r.queue LIMIT 1)
    UNION ALL
    SELECT (SELECT r.queue FROM duly.ready r WHERE r.queue > f.name ORDER BY r.queue LIMIT 1)
    FROM found f WHERE f.name IS NOT NULL),
open AS MATERIALIZED (
    SELECT f.name, row_number() OVER (ORDER BY f.name) - 1 AS place, count(*) OVER () AS many
    FROM found f WHERE f.name IS NOT NULL AND {_IS_OPEN.format("f.name")}),
q AS MATERIALIZED (
    SELECT o.name, coalesce((SELECT u.most FROM unnest($2::text[], $3::int4[]) u(name, most)
        WHERE u.name = o.name LIMIT 1), $4::int4) AS most{{}}
    FROM n CROSS JOIN open o
    ORDER BY (o.place - $5::int8 % o.many + o.many) % o.many)"""  # noqa: S608 - a condition of ours

_BEGIN_NAMED = ", ($5::text[])[u.place] AS begin"
_BEGIN_EVERY = """,
        coalesce((SELECT u.begin FROM unnest($6::text[], $7::text[]) u(name, begin)
        WHERE u.name = o.name LIMIT 1), '') AS begin"""

_TAKE_FROM_LEAVES = ",".join(
    f"""
gone_{era} AS (
    DELETE FROM duly.ready_{era} WHERE ctid = ANY(ARRAY(
        SELECT tid FROM picked WHERE era = {era})))"""  # noqa: S608 - numbers of ours
    for era in range(ERAS)
)

# Rows are locked as they are read, and reading ends with the last that is wanted.
_PICKED = """r.run_id, r.fence, r.attempt, r.charged, r.begun_at, r.is_gated, r.schedule_name,
        r.arguments"""
_FROM_LEAVES = f"r.ctid AS tid, r.era, {_PICKED} AS carried, r.tenant"
_FROM_ALL = f"""
picked AS MATERIALIZED (
    SELECT p.* FROM q CROSS JOIN LATERAL ({{}}
        LIMIT q.most{{}}) p
    LIMIT $4::int4),{_TAKE_FROM_LEAVES}"""  # noqa: S608 - columns of ours
# In the order of the index: which tenant is first is of no consequence to who takes all.
_OLDEST = f"""
        SELECT {_FROM_LEAVES} FROM duly.ready r WHERE r.queue = q.name{{}}
        ORDER BY r.priority, r.tenant, r.rank, r.run_id"""  # noqa: S608 - columns of ours
_NEWEST = f"""
        SELECT {_FROM_LEAVES} FROM duly.ready r WHERE r.queue = q.name{{}}
            AND r.priority = (
                SELECT f.priority FROM duly.ready f WHERE f.queue = q.name
                ORDER BY f.priority LIMIT 1)
        ORDER BY r.tenant DESC, r.rank DESC, r.run_id DESC"""  # noqa: S608 - columns of ours
_FROM_ONE = f"""
picked AS MATERIALIZED (
    SELECT r.ctid AS tid, {_PICKED} AS carried FROM duly.ready_{{0}} r
    WHERE r.queue BETWEEN ${{1}}::text AND ${{2}}::text AND (SELECT era FROM era) = {{0}}
    ORDER BY r.queue, r.priority, r.tenant, r.rank, r.run_id LIMIT ${{3}}::int4
    FOR UPDATE OF r SKIP LOCKED),
gone AS (
    DELETE FROM duly.ready_{{0}} WHERE ctid = ANY(ARRAY(SELECT tid FROM picked)))"""  # noqa: S608
# What few ask for is put together when somebody does. What few runs need is not looked for here.
_REST = """r.tenant, r.schedule_id, r.definition_number, r.key, r.priority, r.origin, r.lane,
        r.root, r.scheduled_for, r.not_before, r.window_from, r.created_at, r.fired_at"""
_REST_TOLD = _REST.replace("r.schedule_id", "uuid_send(r.schedule_id)").replace(
    "r.root", "uuid_send(r.root)"
)
# Looked up once for all: whoever is not alive has picked nothing.
_NOW = "(SELECT now FROM n)"
# That they are written is asked for with the first row, so that rows are told when they are: all in
# one go, and nobody who hears them waits for some, and then for others.
_CLAIM = f"""
made AS MATERIALIZED (
    SELECT {_NOW} AS now, p.run_id, p.fence + 1 AS fence, p.attempt + 1 AS attempt, p.charged,
        coalesce(p.begun_at, {_NOW}) AS begun_at, p.is_gated, p.schedule_name, r.task, r.queue,
        coalesce(r.arguments, p.carried) AS arguments,
        p.fence > 0 OR coalesce(r.arguments, p.carried) IS NULL
            OR (p.schedule_name IS NULL AND r.schedule_id IS NOT NULL) AS is_more,
        {_REST},
        {_NOW} + CASE WHEN k.is_told THEN k.timeout_us ELSE {TIMEOUT_DEFAULT_US} END
            AS deadline_at{{}}
    FROM picked p
    CROSS JOIN LATERAL (SELECT r.* FROM duly.runs r WHERE r.id = p.run_id OFFSET 0) r
    LEFT JOIN LATERAL (
        SELECT k.timeout_us, k.policy IS NOT NULL AS is_told FROM duly.tasks k
        WHERE k.name = r.task OFFSET 0) k ON true),
claimed AS (
    INSERT INTO duly.claims (run_id, worker, claimed_at, begun_at, deadline_at, fence, attempt,
        charged, is_gated)
    SELECT run_id, $1::int8, now, begun_at, deadline_at, fence, attempt, charged, is_gated
    FROM made RETURNING fence)
SELECT coalesce((SELECT now FROM n), duly.now_us()),
    EXISTS (SELECT 1 FROM n) AND (SELECT count(*) FROM claimed) >= 0, (SELECT era FROM era),
    uuid_send(r.run_id), r.fence, r.attempt, r.charged, r.begun_at, r.task, r.arguments, r.queue,
    r.is_more, r.schedule_name, {_REST_TOLD}"""  # noqa: S608 - parts of ours
_CLAIMED = """
FROM (SELECT 1) AS always LEFT JOIN made r ON true"""
_RUN, _QUEUE, _LANE = 3, 10, 19
_SHARE, _IS_ALONE = 26, 27
"""Where one from all leaves tells whose a run is, and whether there was nobody to share with."""
_ITSELF = slice(13, 26)
"""Where it tells what few ask for."""
FINISHED = slice(26, 29)
"""Where an answer from one leaf tells what has ended besides."""


def _from_all(queues: str, picked: str, lock: str, *, is_shared: bool) -> str:
    also = (("p.tenant AS share", "share"), ("p.is_alone", "is_alone"))[: 1 + is_shared]
    made = "".join(f", {column}" for column, _ in also)
    told = "".join(f", r.{name}" for _, name in also)
    parts = (_WORKER, _ERA, queues, _FROM_ALL.format(picked, lock), _CLAIM.format(made))
    return f"{','.join(parts)}{told}{_CLAIMED}"


def _plainly(queues: str, without: str | None) -> tuple[str, str]:
    """Return the statements that take the oldest and the newest, whosever they are."""
    known = "" if without is None else IS_KNOWN.format(without)
    lock = " FOR UPDATE OF r SKIP LOCKED"
    oldest, newest = (
        _from_all(queues.format(""), order.format(known), lock, is_shared=False)
        for order in (_OLDEST, _NEWEST)
    )
    return oldest, newest


def _shared(queues: str, first: str, without: str | None) -> tuple[str, str]:
    """Return those that share between tenants."""
    oldest, newest = (
        _from_all(queues, shares(_FROM_LEAVES, terms), "", is_shared=True)
        for terms in (Terms(first, without, is_newest=False), Terms(first, without, is_newest=True))
    )
    return oldest, newest


def claim_from_leaf(era: int, first: int, also: str = "", columns: str = "") -> str:
    """Return the statement that claims from one leaf, and does something else besides.

    Beginning with the place `first` it takes the `leaf_values`.
    """
    places = (first, first + 1, first + 2)
    claim = f"{_ERA},{_FROM_ONE.format(era, *places)},{_CLAIM.format('')}{columns}{_CLAIMED}"
    return f"{_WORKER},{also}{claim}"


CLAIM_NAMED, CLAIM_NAMED_NEWEST = _plainly(_NAMED, None)
CLAIM_NAMED_WITHOUT, CLAIM_NAMED_WITHOUT_NEWEST = _plainly(_NAMED, "$5")
CLAIM_ANY, CLAIM_ANY_NEWEST = _plainly(_EVERY, None)
CLAIM_ANY_WITHOUT, CLAIM_ANY_WITHOUT_NEWEST = _plainly(_EVERY, "$6")
_NAMED_SHARES, _EVERY_SHARES = _NAMED.format(_BEGIN_NAMED), _EVERY.format(_BEGIN_EVERY)
SHARE_NAMED, SHARE_NAMED_NEWEST = _shared(_NAMED_SHARES, "$6", None)
SHARE_NAMED_WITHOUT, SHARE_NAMED_WITHOUT_NEWEST = _shared(_NAMED_SHARES, "$6", "$7")
SHARE_ANY, SHARE_ANY_NEWEST = _shared(_EVERY_SHARES, "$8", None)
SHARE_ANY_WITHOUT, SHARE_ANY_WITHOUT_NEWEST = _shared(_EVERY_SHARES, "$8", "$9")
NEWEST = {
    CLAIM_NAMED: CLAIM_NAMED_NEWEST,
    CLAIM_ANY: CLAIM_ANY_NEWEST,
    CLAIM_NAMED_WITHOUT: CLAIM_NAMED_WITHOUT_NEWEST,
    CLAIM_ANY_WITHOUT: CLAIM_ANY_WITHOUT_NEWEST,
    SHARE_NAMED: SHARE_NAMED_NEWEST,
    SHARE_ANY: SHARE_ANY_NEWEST,
    SHARE_NAMED_WITHOUT: SHARE_NAMED_WITHOUT_NEWEST,
    SHARE_ANY_WITHOUT: SHARE_ANY_WITHOUT_NEWEST,
}
"""For each statement the one that takes the newest first."""
CLAIM_FROM_LEAF = tuple(claim_from_leaf(era, 2) for era in range(ERAS))
# Of runs that were tried before, whose arguments are long, or whose schedule's name they lack.
READ_MORE = f"""
SELECT (SELECT s.name FROM duly.schedules s WHERE s.id = r.schedule_id),
    (SELECT d.definition FROM duly.schedule_definitions d
        WHERE d.schedule_id = r.schedule_id AND d.number = r.definition_number
            AND r.arguments IS NULL),
    {LAST_ERROR}
FROM pg_catalog.unnest($1::uuid[]) WITH ORDINALITY u(id, place)
CROSS JOIN LATERAL (
    SELECT r.id, r.schedule_id, r.definition_number, r.arguments FROM duly.runs r
    WHERE r.id = u.id OFFSET 0) r
ORDER BY u.place"""  # noqa: S608 - a part of ours


class Aim:
    """Which leaf of the queue alone is to be looked at, as long as we know that."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._leaf: int | None = None
        self._queues: tuple[str, ...] | None = None
        """Of which all leaves were looked at,"""
        self._seen_at = 0
        """and when, by the monotonic clock."""
        self._alone_at: int | None = None
        """When a crowd was seen to be of one tenant alone."""

    def leaf(self, command: ClaimRuns) -> int | None:
        """Return the leaf that an order can be carried out from; None when all have to be seen."""
        is_known = command.queues == self._queues and self.is_fresh(AIM_KEPT_US)
        return self._leaf if is_known and is_plain(command) else None

    def is_fresh(self, kept_us: int) -> bool:
        """Say whether all leaves were looked at not long ago."""
        return self._clock.monotonic_us() - self._seen_at < kept_us

    def hear(self, command: ClaimRuns, era: int | None, *, is_all: bool) -> None:
        """Learn whether a look at all leaves has found all there was, and which era it is."""
        self._leaf = era if is_all and is_plain(command) else None
        self._queues = command.queues
        self._seen_at = self._clock.monotonic_us()

    def looks_for_shares(self, command: ClaimRuns) -> bool:
        """Say whether tenants are to have their shares: in a crowd, unless it is one's alone."""
        if command.first_lane is not Lane.LIVE:
            return True
        is_alone = (
            self._alone_at is not None
            and self._clock.monotonic_us() - self._alone_at < ALONE_KEPT_US
        )
        return bool(command.served) and not is_alone

    def hear_of_shares(self, *, is_alone: bool) -> None:
        """Learn whether a crowd was one tenant's alone."""
        self._alone_at = self._clock.monotonic_us() if is_alone else None

    def miss(self) -> None:
        """Look at all leaves the next time."""
        self._leaf = None


class Asking(NamedTuple):
    """What a claim asks for first, and who reads the answer; that one may ask for more."""

    statement: str
    values: tuple[object, ...]
    hear: Callable[[Session, list[Row]], Claimed]


def claim_runs(session: Session, command: ClaimRuns, aim: Aim) -> Claimed:
    """Take queued runs for a worker that is alive."""
    asked = asking(command, aim)
    return asked.hear(session, session.rows(asked.statement, asked.values))


def asking(command: ClaimRuns, aim: Aim) -> Asking:
    """Return what is asked for to take runs."""
    leaf = aim.leaf(command)
    if leaf is None:
        return _asking_all(command, aim)
    values = (command.worker, *leaf_values(command))

    def hear(session: Session, found: list[Row]) -> Claimed:
        return claimed_from_leaf(session, command, aim, found)

    return Asking(CLAIM_FROM_LEAF[leaf], values, hear)


def is_plain(command: ClaimRuns) -> bool:
    """Say whether all of one queue or of every queue is asked for, and in the usual order."""
    is_whole = command.queues is None or len(command.queues) == 1
    is_usual = not (command.newest_first or command.served) and command.first_lane is Lane.LIVE
    return is_whole and is_usual and not (command.queue_limits or command.without)


def asked_in_a_crowd(order: ClaimRuns) -> list[tuple[str, tuple[object, ...]]]:
    """Return what is asked for while there is more than a worker has room for."""
    asked = []
    for is_shared in (False, True):
        statement, values = _statement(order, most_of(order), is_shared=is_shared)
        asked += [(statement, values), (NEWEST[statement], values)]
    return asked


def leaf_values(command: ClaimRuns) -> tuple[object, ...]:
    """Return from which queue to which, and how many."""
    names = command.queues or ("", LAST_NAME)
    return Text(names[0]), Text(names[-1]), most_of(command)


def most_of(command: ClaimRuns) -> int:
    """Return how many are asked for."""
    return min(max(command.limit, 0), INT4_MAX)


def claimed_from_leaf(session: Session, command: ClaimRuns, aim: Aim, found: list[Row]) -> Claimed:
    """Return what was found in one leaf; look at all of them if that may not be all."""
    _, is_alive, era, first, *_ = found[0]
    if len(found) == command.limit:
        # There is a crowd: the next time somebody else may come first.
        aim.miss()
    is_sure = first is not None or not is_alive
    if is_sure or (era is not None and aim.is_fresh(NOTHING_KEPT_US)):
        return _claimed(session, command, found)
    asked = _asking_all(command, aim)
    return asked.hear(session, session.rows(asked.statement, asked.values))


def _asking_all(command: ClaimRuns, aim: Aim) -> Asking:
    most = most_of(command)
    is_shared = aim.looks_for_shares(command)
    statement, values = _statement(command, most, is_shared=is_shared)

    def hear(session: Session, found: list[Row]) -> Claimed:
        count = 0 if found[0][3] is None else len(found)
        is_all = count < most
        aim.hear(command, found[0][2], is_all=is_all)
        if is_all or not count:
            return _claimed(session, command, found)
        if is_shared:
            aim.hear_of_shares(is_alone=all(row[_IS_ALONE] for row in found))
        served = {row[_QUEUE]: row[_SHARE] for row in found}
        return _claimed(session, command, found, served)

    return Asking(NEWEST[statement] if command.newest_first else statement, values, hear)


def _claimed(
    session: Session,
    command: ClaimRuns,
    found: list[Row],
    served: Mapping[str, str] = MappingProxyType({}),
) -> Claimed:
    now, is_alive, _, first = found[0][:4]
    if first is None:
        return Claimed(now, is_alive, ())
    read_more(session, found, [place for place, row in enumerate(found) if row[11]])
    reader = _Reader(command.worker)
    runs = [
        ClaimedRun(
            row[3],
            row[4],
            now,
            row[8],
            stored_arguments(row[-2]) if row[9] is None else row[9],
            row[10],
            row,
            reader,
        )
        for row in found
    ]
    return Claimed(now, is_alive, tuple(runs), served)


def read_more(session: Session, found: list[Row], wanting: list[int]) -> None:
    """Add to those rows that want it what few runs need; each has its id at the same place."""
    if wanting:
        more = session.rows(READ_MORE, (Uuids([found[place][_RUN] for place in wanting]),))
        for place, rest in zip(wanting, more, strict=True):
            found[place] += rest


def _statement(command: ClaimRuns, most: int, *, is_shared: bool) -> tuple[str, tuple[object, ...]]:
    limits, served = command.queue_limits, command.served
    without = (Texts(sorted(command.without)),) if command.without else ()
    first = first_priority(command)
    begin = INT4_MIN if first is None else first
    if command.queues is None:
        bounds = Int4s([_bounded(limit, most) for limit in limits.values()])
        values = (command.worker, Texts([*limits]), bounds, most, command.rotation)
        if not is_shared:
            return CLAIM_ANY_WITHOUT if without else CLAIM_ANY, (*values, *without)
        begins = (Texts([*served]), Texts([begin_in(command, name) for name in served]), begin)
        return SHARE_ANY_WITHOUT if without else SHARE_ANY, (*values, *begins, *without)
    names = command.queues
    turn = command.rotation % len(names) if names else 0
    names = names[turn:] + names[:turn]
    bounds = Int4s([_bounded(limits.get(name, most), most) for name in names])
    values_named = (command.worker, Texts(names), bounds, most)
    if not is_shared:
        return CLAIM_NAMED_WITHOUT if without else CLAIM_NAMED, (*values_named, *without)
    begins_named = (Texts([begin_in(command, name) for name in names]), begin)
    statement = SHARE_NAMED_WITHOUT if without else SHARE_NAMED
    return statement, (*values_named, *begins_named, *without)


def _bounded(limit: int, most: int) -> int:
    return min(max(limit, 0), most)


class _Reader:
    """Reads what few ask for from a row that a worker has claimed."""

    def __init__(self, worker: MemberId) -> None:
        self._worker = worker

    def tries(self, row: Row) -> AttemptCounts:
        return AttemptCounts._make(row[4:8])

    def is_live(self, row: Row) -> bool:
        return bool(row[_LANE] == Lane.LIVE)

    def record(self, row: Row, tries: AttemptCounts) -> RunRecord:
        now, run_id, task, arguments, queue = row[0], row[3], row[8], row[9], row[10]
        name, definition, error = row[-3:] if row[11] else (row[12], None, None)
        tenant, schedule_id, number, key, priority, origin, lane, *rest = row[_ITSELF]
        itself = (run_id, tenant, schedule_id, name, number, key, task, arguments, definition)
        itself += (queue, priority, origin, lane, *rest)
        return running_record(itself, (*tries, self._worker, now), error)


def running_record(itself: Row, claim: Row, error: str | None) -> RunRecord:
    """Return the record of a run that was just claimed, in which try, by whom and when."""
    nothing_yet = (None,) * 6
    told = (*claim, *nothing_yet, error, None, None)
    return run_record((*itself, RunState.RUNNING, None, None, *told))
