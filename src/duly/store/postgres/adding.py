"""Adding runs: plain ones in a single statement, all others in a few over arrays.

One id must never be both pending and a run, though the two live in two tables, and the same request
may be made again while its first attempt is still under way, perhaps when its time has come. Two at
once, or two later, are told apart by the primary key of the one table. For one of each:

* Who makes something pending claims its id among the runs, too, for the time of his transaction. If
  there is such a run, or about to be, he waits for it and then finds the key taken.
* Who makes a run while its id is claimed waits for that, and then looks among what is pending, with
  fresh eyes: what was committed meanwhile is found.

Whoever comes second undoes what he has written, looks again, and finds what the first one made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from psycopg import errors

from duly.domain.enums import Origin, RunState
from duly.domain.ids import shard_of
from duly.domain.policies import GateEntryOutcome
from duly.domain.runs import AttemptCounts, DelayedRecord
from duly.store import records
from duly.store.adding import Adding, EarlierRequest, delayed_row, roots_of
from duly.store.gates import in_the_way
from duly.store.gathering import LANE_OFFSETS, ordered_row
from duly.store.ports.schedules import NEAR_US, AddedRun
from duly.store.postgres import rows
from duly.store.postgres.arrays import (
    Int4s,
    Int8s,
    OptionalInt4s,
    OptionalInt8s,
    OptionalUuids,
    Text,
    Texts,
    Uuids,
)
from duly.store.postgres.by_hand import ByHand
from duly.store.postgres.confirming import confirm_runs
from duly.store.postgres.gates import LOCK_STATES
from duly.store.postgres.pending import close_all
from duly.store.postgres.quotas import PostgresCounting
from duly.store.postgres.rows import RANKED, SHARE
from duly.store.postgres.savepoints import OvertakenError, unless_overtaken
from duly.store.postgres.session import one, uid
from duly.store.postgres.settlements import write_runs
from duly.store.postgres.trail import record_all
from duly.store.rulings import LIBRARY
from duly.store.runs_alike import alike_later

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.domain.audit import Actor, AuditSubject
    from duly.domain.ids import RunId, ScheduleId
    from duly.store.ports.schedules import AddRuns, NewRun
    from duly.store.postgres.session import Session
    from duly.store.postgres.work import Work
    from duly.store.records import Row
    from duly.store.runs_alike import UniformRuns

DELAYED_BY_IDS = f"{rows.DELAYED} WHERE id = ANY($1::uuid[])"
RUNS_BY_IDS = f"{rows.RUN} WHERE r.id = ANY($1::uuid[])"
LOCK_BY_KEYS = f"""{rows.DELAYED} WHERE id IN (
    SELECT p.id FROM unnest($1::text[], $2::text[]) AS u(tenant, key)
    CROSS JOIN LATERAL (
        SELECT d.id FROM duly.delayed d WHERE d.tenant = u.tenant AND d.key = u.key OFFSET 0) p)
ORDER BY tenant COLLATE "C", key COLLATE "C" FOR UPDATE"""  # noqa: S608 - columns of ours
# A deletion changes the row, so it waits for us, or we for it.
SET_ROOT = "UPDATE duly.runs SET root = $2::uuid WHERE id = $1::uuid"
LOCK_SCHEDULES = """
SELECT uuid_send(id), tenant, name, status FROM duly.schedules
WHERE id = ANY($1::uuid[]) ORDER BY id FOR SHARE"""
INSERT_DELAYED = """
INSERT INTO duly.delayed (id, tenant, key, task, arguments, queue, priority, origin, lane,
    schedule_id, definition_number, shard, due_at, fingerprint, created_at, generation)
SELECT u.*, $1::int8, 1
FROM unnest($2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],
    $8::int4[],
    $9::text[], $10::text[], $11::uuid[], $12::int4[], $13::int4[], $14::int8[], $15::text[]) u"""
CLAIM = "SELECT duly.claim_ids($1::uuid[])"
ARE_PENDING = "SELECT duly.are_pending($1::uuid[])"

# The last column is looked at when all is written; a division by zero is how it undoes that. Ids
# that were drawn for this very order nobody else can have used: there is nothing to be looked at.
ADD_PLAIN = f"""
WITH clock AS MATERIALIZED (SELECT duly.now_us() AS now),
asked AS MATERIALIZED (
    SELECT u.id, u.tenant, u.key, u.task, u.arguments, u.queue, u.priority, u.origin, u.lane,
        u.shard, u.fingerprint, c.now, coalesce(c.now + u.delay_us, u.due_at) AS due_at
    FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[],
        $6::text[], $7::int4[],
        $8::text[], $9::text[], $10::int4[], $11::text[], $12::int8[], $13::int8[])
        u(id, tenant, key, task, arguments, queue, priority, origin, lane, shard, fingerprint,
        due_at, delay_us)
    CROSS JOIN clock c),
verdict AS MATERIALIZED (
    SELECT NOT EXISTS (SELECT 1 FROM asked WHERE due_at <= now)
        AND NOT EXISTS (
            SELECT 1 FROM duly.quotas q
            WHERE q.counted = 'pending' AND EXISTS (
                SELECT 1 FROM asked a
                WHERE a.due_at IS NOT NULL AND q.scope IN ('tenant:*', 'tenant:' || a.tenant)))
        AND NOT EXISTS (
            SELECT 1 FROM asked a CROSS JOIN LATERAL (
                SELECT 1 FROM duly.delayed d
                WHERE d.tenant = a.tenant AND d.key = a.key OFFSET 0) p
            WHERE a.key IS NOT NULL)
        AS is_plain),
wanted AS NOT MATERIALIZED (SELECT * FROM asked WHERE (SELECT is_plain FROM verdict)),
made AS (
    INSERT INTO duly.runs (id, tenant, key, task, arguments, queue, priority, origin, lane,
        scheduled_for, not_before, created_at, fired_at)
    SELECT id, tenant, key, task, arguments, queue, priority, origin, lane, now, now, now, now
    FROM wanted WHERE due_at IS NULL RETURNING id),
queued AS (
    INSERT INTO duly.ready (queue, priority, tenant, rank, run_id, fired_at, not_before, era)
    SELECT queue, {RANKED}, {SHARE}, now, id, now, now, (SELECT era FROM duly.cluster WHERE id = 1)
    FROM wanted WHERE due_at IS NULL),
kept AS (
    INSERT INTO duly.delayed (id, tenant, key, task, arguments, queue, priority, origin, lane,
        shard, due_at, fingerprint, created_at, generation)
    SELECT id, tenant, key, task, arguments, queue, priority, origin, lane, shard, due_at,
        fingerprint, now, 1
    FROM wanted WHERE due_at IS NOT NULL RETURNING id),
told AS (
    INSERT INTO duly.arrivals (at, ref, shard, era, is_schedule)
    SELECT now, id, shard, (SELECT era FROM duly.cluster WHERE id = 1), false
    FROM wanted WHERE due_at - now <= {NEAR_US}),
counted AS (
    INSERT INTO duly.tally_changes (name, change)
    SELECT 'delayed', count(*) FROM wanted WHERE due_at IS NOT NULL HAVING count(*) > 0)
SELECT c.now, v.is_plain, CASE
    WHEN $14::int8 = 1 THEN 1
    WHEN EXISTS (SELECT 1 FROM kept) AND NOT duly.claim_ids(ARRAY(SELECT id FROM kept)) THEN 0
    WHEN EXISTS (SELECT 1 FROM made)
    THEN 1 / (CASE WHEN duly.are_pending(ARRAY(SELECT id FROM made)) THEN 0 ELSE 1 END) END
FROM clock c CROSS JOIN verdict v"""  # noqa: S608 - numbers of ours

# What is to come, has no key and an id that was drawn for it: nothing about it can be in anybody's
# way. One instant, and all but ids and arguments alike: that is how many are ordered,
# and what is said once need not be taken apart row by row. A statement that does less is begun in
# half the time. Where a quota bounds what is pending, it has to be counted: not here.
ADD_LATER = f"""
WITH verdict AS MATERIALIZED (
    SELECT d.now, d.due_at, d.due_at > d.now AND NOT EXISTS (
        SELECT 1 FROM duly.quotas q
        WHERE q.counted = 'pending' AND q.scope IN ('tenant:*', 'tenant:' || $4::text)) AS is_later
    FROM (
        SELECT c.now, c.now * $11::int8 + $10::int8 AS due_at
        FROM (SELECT duly.now_us() AS now) c) d),
kept AS (
    INSERT INTO duly.delayed (id, tenant, task, arguments, queue, priority, origin, lane, shard,
        due_at, fingerprint, created_at, generation)
    SELECT u.id, $4::text, $5::text, u.arguments, $6::text, $9::int8::int4, $7::text, $8::text,
        u.shard, v.due_at, '', v.now, 1
    FROM verdict v CROSS JOIN unnest($1::uuid[], $2::text[], $3::int4[]) u(id, arguments, shard)
    WHERE v.is_later),
told AS (
    INSERT INTO duly.arrivals (at, ref, shard, era, is_schedule)
    SELECT v.now, u.id, u.shard, (SELECT era FROM duly.cluster WHERE id = 1), false
    FROM verdict v CROSS JOIN unnest($1::uuid[], $3::int4[]) u(id, shard)
    WHERE v.is_later AND v.due_at - v.now <= {NEAR_US}),
counted AS (
    INSERT INTO duly.tally_changes (name, change)
    SELECT 'delayed', cardinality($1::uuid[]) FROM verdict WHERE is_later)
SELECT now, is_later FROM verdict"""  # noqa: S608 - a number of ours


class Plain(NamedTuple):
    """What became of a command that was plain."""

    added: list[AddedRun]
    has_arrivals: bool
    """Whether something near was announced, so that dispatchers are to be woken."""
    has_orders: bool
    """Whether something was queued, so that workers are."""


def add_plain(session: Session, command: AddRuns, shards: int) -> Plain | None:
    """Make runs in one statement, if nothing about them has to be looked at first.

    None when it is not so, or when anything stands in the way; then nothing was written, and
    `add_runs` decides. The statement commits by itself; inside a transaction it belongs into a
    savepoint, for it may fail.
    """
    try:
        alike = alike_later(command)
        added = None if alike is None else _add_later(session, alike, shards)
        return added or _add_plain(session, command, shards)
    except (errors.UniqueViolation, errors.DivisionByZero):
        return None


def _add_plain(session: Session, command: AddRuns, shards: int) -> Plain | None:
    if not _is_plain(command):
        return None
    are_drawn = all(new.is_drawn for new in command.runs)
    is_free = are_drawn and not any(new.key is not None for new in command.runs)
    # In a fixed order wherever somebody might have to wait for somebody.
    asked = command.runs if is_free else sorted(command.runs, key=_place)
    values = _plain_values(asked, shards)
    now, is_plain, _ = one(session, ADD_PLAIN, (*values, int(are_drawn)))
    return _plainly_added(command, now) if is_plain else None


def _add_later(session: Session, alike: UniformRuns, shards: int) -> Plain | None:
    """Make runs that are alike and to come; None if their time has come: nothing is written."""
    due = (alike.due_at, 0) if alike.due_at is not None else (alike.delay_us, 1)
    values = (
        Uuids(alike.ids),
        Texts(alike.arguments),
        Int4s([shard_of(run_id, shards) for run_id in alike.ids]),
        *(Text(one) for one in (alike.tenant, alike.task, alike.queue, alike.origin, alike.lane)),
        alike.priority,
        *due,
    )
    now, is_later = one(session, ADD_LATER, values)
    if not is_later:
        return None
    due_at = alike.due(now)
    return Plain(alike.added(due_at), has_arrivals=due_at - now <= NEAR_US, has_orders=False)


def _plain_values(asked: Sequence[NewRun], shards: int) -> tuple[object, ...]:
    """Return what both statements are told."""
    calls = [new.call for new in asked]
    return (
        Uuids([new.id for new in asked]),
        Texts([new.tenant for new in asked]),
        Texts([new.key for new in asked]),
        Texts([call.task for call in calls]),
        Texts([call.arguments for call in calls]),
        Texts([call.queue for call in calls]),
        Int4s([call.priority for call in calls]),
        Texts([new.origin for new in asked]),
        Texts([new.lane for new in asked]),
        Int4s([shard_of(new.id, shards) for new in asked]),
        Texts([new.fingerprint for new in asked]),
        OptionalInt8s([new.due_at for new in asked]),
        OptionalInt8s([new.delay_us for new in asked]),
    )


def _place(new: NewRun) -> tuple[str, str, bytes]:
    """Return where a run stands among others: by key, so that nobody waits in a circle."""
    return new.tenant, new.key or "", new.id


def _is_plain(command: AddRuns) -> bool:
    if command.actor.source != LIBRARY or not command.runs:
        return False
    keys = [(new.tenant, new.key) for new in command.runs if new.key is not None]
    are_distinct = len({new.id for new in command.runs}) == len(command.runs)
    return (
        are_distinct
        and len(set(keys)) == len(keys)
        and not any(
            new.replaces
            or new.schedule_id is not None
            or new.root is not None
            or new.origin is Origin.MANUAL
            for new in command.runs
        )
    )


def _plainly_added(command: AddRuns, now: int) -> Plain:
    added: list[AddedRun] = []
    has_arrivals = has_orders = False
    for new in command.runs:
        due_at = now + new.delay_us if new.delay_us is not None else new.due_at
        has_orders = has_orders or due_at is None
        has_arrivals = has_arrivals or (due_at is not None and due_at - now <= NEAR_US)
        added.append(AddedRun(new.id, now if due_at is None else due_at, is_new=True))
    return Plain(added, has_arrivals, has_orders)


def add_runs(work: Work, command: AddRuns) -> list[AddedRun]:
    """Make runs, all or none."""

    def add() -> list[AddedRun]:
        seen = _look(work, command)
        adding = _PostgresAdding(work, command.actor, seen)
        adding.by_hand.expect_new([new for new in command.runs if new.id not in seen.known])
        added = adding.add_all(command)
        adding.flush()
        for run_id, root in roots_of(command, added):
            work.session.run(SET_ROOT, (uid(run_id), uid(root)))
        PostgresCounting(work.session).check_pending(command, added, work.now)
        confirm_runs(work, [one.id for one in added if not one.is_new])
        return added

    return unless_overtaken(work.session, "duly_adding", add, [new.id for new in command.runs])


@dataclass(slots=True)
class _Seen:
    """What a command's decisions are based on, read at once for all of its runs."""

    known: dict[RunId, EarlierRequest]
    schedules: dict[ScheduleId, tuple[str, str, str]]
    pending: dict[tuple[str, str], DelayedRecord]


def _look(work: Work, command: AddRuns) -> _Seen:
    """Read what is there, and hold on to what must stay so until the commit."""
    session, runs = work.session, command.runs
    of = sorted({new.schedule_id for new in runs if new.schedule_id is not None})
    if of:
        session.rows(LOCK_STATES, (Uuids(of),))
    found = session.rows(LOCK_SCHEDULES, (Uuids(of),)) if of else []
    schedules = {row[0]: (row[1], row[2], row[3]) for row in found}
    keys = sorted({(new.tenant, new.key) for new in runs if new.key is not None})
    pending: dict[tuple[str, str], DelayedRecord] = {}
    if keys:
        values = (Texts([tenant for tenant, _ in keys]), Texts([key for _, key in keys]))
        for row in session.rows(LOCK_BY_KEYS, values):
            record = records.delayed_record(row)
            assert record.key is not None, "it was found by its key"
            pending[record.tenant, record.key] = record
    seen = _Seen(_known(session, [new.id for new in runs]), schedules, pending)
    work.look_at_the_clock()
    return seen


def _known(session: Session, ids: Sequence[RunId]) -> dict[RunId, EarlierRequest]:
    """Return what requests that were made before have become.

    What is pending is read first: what fires in between is among the runs then.
    """
    known: dict[RunId, EarlierRequest] = {}
    asked = Uuids(ids)
    for row in session.rows(DELAYED_BY_IDS, (asked,)):
        pending = records.delayed_record(row)
        known[pending.id] = EarlierRequest(pending, pending.due_at, pending.fingerprint)
    for row in session.rows(RUNS_BY_IDS, (asked,)):
        run = records.run_record(row)
        known[run.id] = EarlierRequest(run, run.not_before)
    return known


class _PostgresAdding(Adding):
    """Decides by what was read for all, and gathers what is to be written."""

    def __init__(self, work: Work, actor: Actor, seen: _Seen) -> None:
        super().__init__(actor, work.now)
        self._work = work
        self._seen = seen
        self.by_hand = ByHand(work)
        self._replaced: list[DelayedRecord] = []
        self._runs: list[Row] = []
        self._kept: dict[bytes, Row] = {}
        self._entries: list[tuple[str, AuditSubject]] = []

    def known(self, new: NewRun) -> EarlierRequest | None:
        return self._seen.known.get(new.id)

    def schedule(self, schedule_id: ScheduleId) -> tuple[str, str, str] | None:
        return self._seen.schedules.get(schedule_id)

    def pending(self, tenant: str, key: str) -> DelayedRecord | None:
        return self._seen.pending.get((tenant, key))

    def replace(self, pending: DelayedRecord) -> None:
        if pending.id in self._kept:
            # It is one of this very command: it has to be there before it can end.
            self.flush()
        assert pending.key is not None, "it was found by its key"
        del self._seen.pending[pending.tenant, pending.key]
        self._seen.known[pending.id] = EarlierRequest(pending, pending.due_at)
        self._replaced.append(pending)

    def run_at_once(self, new: NewRun, instant: int) -> None:
        priority = new.call.priority + LANE_OFFSETS[new.lane]
        if self._runs and self.by_hand.may_replace(new.id):
            # The run that it replaces may be one of this command: it has to be there to make way.
            self.flush()
        arrival = self.by_hand.come(new.id, priority, AttemptCounts())
        if arrival.coming is GateEntryOutcome.SKIPPED:
            assert new.schedule_id is not None, "others come to no gate"
            raise in_the_way(self.by_hand.schedules[new.schedule_id].name, arrival)
        self._seen.known[new.id] = EarlierRequest(new, instant)
        self._runs.append(ordered_row(new, instant, self.now))

    def keep(self, new: NewRun, due_at: int) -> None:
        self._seen.known[new.id] = EarlierRequest(new, due_at, new.fingerprint)
        if new.key is not None:
            self._seen.pending[new.tenant, new.key] = DelayedRecord(
                id=new.id,
                tenant=new.tenant,
                key=new.key,
                call=new.call,
                due_at=due_at,
                generation=1,
                fingerprint=new.fingerprint,
                created_at=self.now,
            )
        shard = shard_of(new.id, self._work.shards)
        self._kept[new.id] = delayed_row(new, due_at, self.now, shard)

    def record(self, action: str, subject: AuditSubject) -> None:
        self._entries.append((action, subject))

    def flush(self) -> None:
        """Write what has been gathered."""
        close_all(self._work, self._replaced, RunState.REPLACED, self.actor)
        self._make_runs()
        self._make_pending()
        record_all(self._work, self.actor, self._entries)
        self._replaced, self._runs, self._kept, self._entries = [], [], {}, []

    def _make_runs(self) -> None:
        if self._runs:
            ids = Uuids([row[0] for row in self._runs])
            made = write_runs(self._work, self._runs, self.by_hand.arrivals)
            self.by_hand.write()
            if len(made) < len(self._runs) or one(self._work.session, ARE_PENDING, (ids,))[0]:
                raise OvertakenError

    def _make_pending(self) -> None:
        if self._kept:
            kept = sorted(self._kept.values(), key=lambda row: (row[1], row[2] or "", row[0]))
            _insert(self._work, kept)
            self._work.session.rows(CLAIM, (Uuids(sorted(self._kept)),))
            self._work.count_on("delayed", len(kept))
            self._work.announce_all("delayed", [(row[0], row[12], row[11]) for row in kept])


def _insert(work: Work, kept: Sequence[Row]) -> None:
    columns = list(zip(*kept, strict=True))
    values = (
        work.now,
        Uuids(columns[0]),
        Texts(columns[1]),
        Texts(columns[2]),
        Texts(columns[3]),
        Texts(columns[4]),
        Texts(columns[5]),
        Int4s(columns[6]),
        Texts(columns[7]),
        Texts(columns[8]),
        OptionalUuids(columns[9]),
        OptionalInt4s(columns[10]),
        Int4s(columns[11]),
        Int8s(columns[12]),
        Texts(columns[13]),
    )
    work.session.run(INSERT_DELAYED, values)
