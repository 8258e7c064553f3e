"""How claims end: what is recorded of each, and where its run goes; all written together.

Whoever ends claims has locked their rows, in the order of the runs. Retry budgets are locked after
them, in the order of the tasks, and the ledger of effects at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from duly.domain.admission import EndAtDestination
from duly.domain.enums import RunState
from duly.domain.ids import RunId, shard_of
from duly.domain.outcomes import Close, DeadLetter, MarkAmbiguous, Requeue, RetryLater
from duly.domain.runs import AttemptCounts, Reason
from duly.store.auditing import SYSTEM, dead_subject, doubt_subject
from duly.store.gates import closed_state
from duly.store.postgres.arrays import (
    Int4s,
    Int8s,
    OptionalInt8s,
    OptionalUuids,
    Texts,
    Uuids,
)
from duly.store.postgres.effects import forget_intentions
from duly.store.postgres.following import follow_up
from duly.store.postgres.gates import give_back
from duly.store.postgres.limiting import EndsAtLimits
from duly.store.postgres.rows import IS_GATED, RANKED, SHARE
from duly.store.postgres.slots import open_calendars
from duly.store.postgres.trail import record_all
from duly.store.retry_slots import reserve_retry_time
from duly.store.work_rulings import CancelledRun, ended_tries, next_place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from duly.domain.audit import AuditSubject
    from duly.domain.outcomes import Conclusion
    from duly.domain.verification import CheckRun
    from duly.store.postgres.arrays import Encoded
    from duly.store.postgres.work import Work
    from duly.store.records import Row

LOCK_CLAIMS = """
SELECT uuid_send(run_id), worker, fence, attempt, charged, begun_at, claimed_at, deadline_at,
    started_at, cancel_asked_at, progress_done, progress_total, progress_note, progress_at, lines,
    effects_at, coalesce(is_gated, false), uuid_send(replaced_by)
FROM duly.claims WHERE run_id = ANY($1::uuid[]) ORDER BY run_id FOR UPDATE"""
DELETE_CLAIMS = "DELETE FROM duly.claims WHERE run_id = ANY($1::uuid[])"
READ_RUNS = """
SELECT uuid_send(r.id), r.tenant, r.task,
    EXISTS (SELECT 1 FROM duly.task_orders t WHERE t.task = r.task AND t.is_suspended)
FROM duly.runs r WHERE r.id = ANY($1::uuid[])"""
INSERT_ATTEMPTS = """
INSERT INTO duly.attempts (ended_at, run_id, fence, number, worker, state, reason, error,
    claimed_at, started_at, cancel_asked_at, progress_done, progress_total, progress_note,
    progress_at, effects_at)
SELECT $1::int8, u.* FROM unnest($2::uuid[], $3::int4[], $4::int8[], $5::int8[], $6::text[],
    $7::text[], $8::text[], $9::int8[], $10::int8[], $11::int8[], $12::int8[], $13::int8[],
    $14::text[], $15::int8[], $16::int8[]) u"""
INSERT_OUTCOMES = """
INSERT INTO duly.outcomes (finished_at, run_id, state, reason, fence, attempt, charged, begun_at,
    worker, claimed_at, started_at, cancel_asked_at, progress_done, progress_total, progress_note,
    progress_at, effects_at, error, result, into_run)
SELECT $1::int8, u.* FROM unnest($2::uuid[], $3::text[], $4::text[], $5::int4[], $6::int4[],
    $7::int4[], $8::int8[], $9::int8[], $10::int8[], $11::int8[], $12::int8[], $13::int8[],
    $14::int8[], $15::text[], $16::int8[], $17::int8[], $18::text[], $19::text[], $20::uuid[]) u"""
INSERT_WAITING = """
INSERT INTO duly.waiting (run_id, shard, due_at, fence, attempt, charged, begun_at, reason)
SELECT u.* FROM unnest($1::uuid[], $2::int4[], $3::int8[], $4::int4[], $5::int4[], $6::int4[],
    $7::int8[], $8::text[]) u"""
INSERT_DEAD = """
INSERT INTO duly.dead (died_at, run_id, reason, fence, attempt, charged, begun_at)
SELECT $1::int8, u.* FROM unnest($2::uuid[], $3::text[], $4::int4[], $5::int4[], $6::int4[],
    $7::int8[]) u"""
INSERT_AMBIGUOUS = """
INSERT INTO duly.ambiguous (since, run_id, reason, fence, attempt, charged, begun_at)
SELECT $1::int8, u.* FROM unnest($2::uuid[], $3::text[], $4::int4[], $5::int4[], $6::int4[],
    $7::int8[]) u"""
# Behind its priority, from now on.
QUEUE_AGAIN = f"""
INSERT INTO duly.ready (queue, priority, rank, run_id, fired_at, not_before, era, fence, attempt,
    charged, begun_at, is_gated, tenant)
SELECT r.queue, r.ranked, $1::int8, u.run_id, $1::int8, $1::int8,
    (SELECT era FROM duly.cluster WHERE id = 1), u.fence, u.attempt, u.charged, u.begun_at,
    {IS_GATED.format("u.run_id")}, r.share
FROM unnest($2::uuid[], $3::int4[], $4::int4[], $5::int4[], $6::int8[])
    u(run_id, fence, attempt, charged, begun_at)
CROSS JOIN LATERAL (
    SELECT queue, {RANKED} AS ranked, {SHARE} AS share FROM duly.runs
    WHERE id = u.run_id OFFSET 0) r"""  # noqa: S608 - expressions of ours


@dataclass(slots=True)
class Claim:
    """A claim whose row is locked."""

    run_id: RunId
    worker: int
    fence: int
    attempt: int
    charged: int
    begun_at: int
    claimed_at: int
    deadline_at: int | None
    started_at: int | None
    cancel_asked_at: int | None
    done: int | None
    total: int | None
    note: str | None
    progress_at: int | None
    lines: int
    effects_at: int | None
    is_gated: bool
    replaced_by: RunId | None

    @property
    def tries(self) -> AttemptCounts:
        """Return the run's tries with this claim counted in."""
        return AttemptCounts(self.fence, self.attempt, self.charged, self.begun_at)

    @property
    def told(self) -> Row:
        """Return what its attempt has told, as attempts and outcomes keep it."""
        progress = (self.done, self.total, self.note, self.progress_at)
        told = (self.claimed_at, self.started_at, self.cancel_asked_at, *progress)
        return (*told, self.effects_at)


class RunFacts(NamedTuple):
    """What of a run is looked at when a claim of it ends."""

    tenant: str
    task: str
    is_suspended: bool
    """Whether retries of its task are."""


def lock_claims(work: Work, ids: Iterable[RunId]) -> dict[RunId, Claim]:
    """Hold on to claims of runs, whosever they are."""
    found = work.session.rows(LOCK_CLAIMS, (Uuids(sorted(set(ids))),))
    return {RunId(row[0]): Claim(*row) for row in found}


def read_facts(work: Work, ids: Iterable[RunId]) -> dict[RunId, RunFacts]:
    """Read whose runs they are, and of which tasks."""
    found = work.session.rows(READ_RUNS, (Uuids(sorted(set(ids))),))
    return {RunId(run_id): RunFacts(*facts) for run_id, *facts in found}


class Endings:
    """Ends that are gathered in one transaction, to be written together.

    Who ends more after them says at which limits, and writes that himself when all is told.
    """

    def __init__(
        self, work: Work, facts: dict[RunId, RunFacts], ends: EndsAtLimits | None = None
    ) -> None:
        self._work = work
        self._facts = facts
        self._is_all = ends is None
        self._ends = ends or EndsAtLimits(work)
        self._ended: list[RunId] = []
        self._attempts: list[Row] = []
        self._outcomes: list[Row] = []
        self._waits: list[tuple[Claim, AttemptCounts, Conclusion, RetryLater]] = []
        self._queued: list[Row] = []
        self._dead: list[Row] = []
        self._ambiguous: list[Row] = []
        self._intending: list[tuple[RunId, int]] = []
        """Claims that may have left effects open."""
        self._checks: list[CheckRun | None] = []
        self._given_back: list[RunId] = []
        """Who holds a gate no longer."""
        self._limited: dict[RunId, EndAtDestination] = {}
        """Runs that may hold places at limits."""
        self._entries: list[tuple[str, AuditSubject]] = []

    def record(self, action: str, subject: AuditSubject) -> None:
        """Have an audit entry written, in its turn."""
        self._entries.append((action, subject))

    def follow(self, check: CheckRun | None) -> None:
        """Have the check of a run made, where it has one."""
        self._checks.append(check)

    def end(
        self,
        claim: Claim,
        conclusion: Conclusion,
        *,
        is_answered: bool | None = None,
        wait_us: int | None = None,
    ) -> None:
        """End a claim that we hold, and put its run where it was decided."""
        run_id, tries = claim.run_id, ended_tries(claim.tries, conclusion)
        asked = claim.cancel_asked_at is not None
        facts = self._facts.get(run_id)
        is_suspended = facts is not None and facts.is_suspended
        after = next_place(conclusion, is_cancel_asked=asked, is_suspended=is_suspended)
        self._ended.append(run_id)
        if claim.effects_at is not None:
            self._intending.append((run_id, claim.fence))
        if claim.is_gated:
            self._limited[run_id] = EndAtDestination(run_id, is_answered, wait_us)
        if claim.is_gated and not isinstance(after, RetryLater | Requeue | MarkAmbiguous):
            self._given_back.append(run_id)
        if isinstance(after, Close):
            state, into = closed_state(after.state, claim.replaced_by)
            told = (claim.worker, *claim.told, conclusion.error, after.result, into)
            self._outcomes.append((run_id, state, after.reason, *columns_of(tries), *told))
            return
        number = claim.attempt if conclusion.is_started else None
        said = (conclusion.attempt_state, conclusion.reason, conclusion.error)
        self._attempts.append((run_id, claim.fence, number, claim.worker, *said, *claim.told))
        match after:
            case RetryLater():
                self._waits.append((claim, tries, conclusion, after))
            case Requeue():
                self._queued.append((run_id, *columns_of(tries)))
            case DeadLetter():
                self._dead.append((run_id, after.reason, *columns_of(tries)))
                tenant = self._facts[run_id].tenant
                self.record("run.dead", dead_subject(run_id, tenant, after.reason, tries))
            case MarkAmbiguous():
                self._ambiguous.append((run_id, after.reason, *columns_of(tries)))
                subject = doubt_subject(run_id, self._facts[run_id].tenant, after.reason, tries)
                self.record("run.ambiguous", subject)
            case CancelledRun():
                state, into = closed_state(RunState.CANCELLED, claim.replaced_by)
                self._outcomes.append(closed(run_id, state, Reason.CANCELLED, tries, into))

    def write(self) -> None:
        """Write everything."""
        if self._ended:
            self._work.session.run(DELETE_CLAIMS, (Uuids(sorted(self._ended)),))
        give_back(self._work, self._given_back)
        self._ends.add(self._limited)
        if self._is_all:
            self._ends.write()
        self._write_attempts()
        write_outcomes(self._work, self._outcomes)
        self._write_waits()
        queue_again(self._work, self._queued)
        for statement, rows in ((INSERT_DEAD, self._dead), (INSERT_AMBIGUOUS, self._ambiguous)):
            if rows:
                kinds = (Uuids, Texts, Int4s, Int4s, Int4s, OptionalInt8s)
                self._work.session.run(statement, (self._work.now, *encoded(rows, kinds)))
        follow_up(self._work, self._checks)
        forget_intentions(self._work, self._intending)
        record_all(self._work, SYSTEM, self._entries)

    def _write_attempts(self) -> None:
        if self._attempts:
            said = (Uuids, Int4s, OptionalInt8s, Int8s, Texts, Texts, Texts)
            values = encoded(self._attempts, (*said, Int8s, *_TOLD))
            self._work.session.run(INSERT_ATTEMPTS, (self._work.now, *values))

    def _write_waits(self) -> None:
        if not self._waits:
            return
        work = self._work
        calendars = open_calendars(work, self._spaced_tasks())
        rows: list[Row] = []
        for claim, tries, conclusion, wait in self._waits:
            due_at = work.now + wait.delay_us
            if wait.spacing_us:
                slots = calendars[self._facts[claim.run_id].task]
                due_at = reserve_retry_time(slots, due_at, wait.spacing_us)
            shard = shard_of(claim.run_id, work.shards)
            rows.append((claim.run_id, shard, due_at, *columns_of(tries), conclusion.reason))
        kinds = (Uuids, Int4s, Int8s, Int4s, Int4s, Int4s, OptionalInt8s, Texts)
        work.session.run(INSERT_WAITING, encoded(rows, kinds))
        work.announce_all("retry", [(row[0], row[2], row[1]) for row in rows])

    def _spaced_tasks(self) -> set[str]:
        return {self._facts[one.run_id].task for one, _, _, wait in self._waits if wait.spacing_us}


_PROGRESS = (OptionalInt8s, OptionalInt8s, Texts, OptionalInt8s)
_TOLD = (OptionalInt8s, OptionalInt8s, *_PROGRESS, OptionalInt8s)
"""From the start of an attempt to its last progress, and when its effects began."""


def encoded(rows: Sequence[Row], kinds: Sequence[Callable[[Any], Encoded]]) -> tuple[Encoded, ...]:
    """Return the columns of rows as a statement takes them."""
    return tuple(kind(column) for kind, column in zip(kinds, zip(*rows, strict=True), strict=True))


def closed(  # noqa: PLR0913, PLR0917 - what is known of it
    run_id: RunId, state: RunState, reason: str, tries: AttemptCounts, into: RunId | None = None
) -> Row:
    """Return the outcome of a run that no claim has closed."""
    return (run_id, state, reason, *columns_of(tries), *(None,) * 11, into)


def write_outcomes(work: Work, outcomes: Sequence[Row]) -> None:
    """Close runs."""
    if outcomes:
        itself = (Uuids, Texts, Texts, Int4s, Int4s, Int4s, OptionalInt8s, OptionalInt8s)
        values = encoded(outcomes, (*itself, OptionalInt8s, *_TOLD, Texts, Texts, OptionalUuids))
        work.session.run(INSERT_OUTCOMES, (work.now, *values))


def queue_again(work: Work, queued: Sequence[Row]) -> None:
    """Queue runs that were claimed before, each with its tries."""
    if queued:
        values = encoded(queued, (Uuids, Int4s, Int4s, Int4s, OptionalInt8s))
        work.session.run(QUEUE_AGAIN, (work.now, *values))
        work.has_orders = True


def columns_of(tries: AttemptCounts) -> Row:
    """Return a run's tries as columns."""
    return (tries.fence, tries.attempt, tries.charged, tries.begun_at)
