"""Finishing: plain successes by one statement, all other ends in a short transaction.

A plain success closes its run and has nothing else to tell. The claim's own row is the fence: it is
deleted at the worker and the fence that the completion names, or nothing happens. Whatever that
leaves (retries, deaths, lines; runs that hold a gate or were permitted effects; claims that
somebody has taken away, and those that this very worker has ended before) is decided row by row on
locked claims.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from duly.domain.enums import AttemptState, RunState
from duly.domain.outcomes import DONE, Close
from duly.store.auditing import refused_subject
from duly.store.ports.execution import Finished, FinishResult
from duly.store.postgres.arrays import Int4s, Int8s, Texts, Uuids
from duly.store.postgres.beating import NONE, write_lines, write_steps
from duly.store.postgres.claiming import (
    FINISHED,
    claim_from_leaf,
    claim_runs,
    claimed_from_leaf,
    leaf_values,
)
from duly.store.postgres.confirming import confirm_runs
from duly.store.postgres.ending import Endings, lock_claims, read_facts
from duly.store.postgres.limiting import EndsAtLimits
from duly.store.postgres.rotation import ERAS
from duly.store.postgres.scopes import write_scopes
from duly.store.postgres.session import one, uid
from duly.store.work_rulings import new_lines, said_result, said_state, taken_away

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.store.ports.dispatch import MemberId
    from duly.store.ports.execution import Claimed, ClaimRef, ClaimRuns, FinishAttempt
    from duly.store.postgres.connection import Connections
    from duly.store.postgres.ending import Claim
    from duly.store.postgres.work import Work
    from duly.store.records import Row

# The ids are in order, so that whatever goes with one is found by its place: there is nothing to be
# joined, and no plan that could turn out quadratic.
_DONE = f"""
done AS (
    DELETE FROM duly.claims c
    WHERE c.run_id = ANY($2::uuid[]) AND c.worker + 0 = $1::int8
        AND c.fence = ($3::int4[])[pg_catalog.width_bucket(c.run_id, $2::uuid[])]
        AND c.is_gated IS NOT TRUE AND c.effects_at IS NULL
        AND (SELECT now FROM f) IS NOT NULL
    RETURNING c.run_id, c.worker, c.claimed_at, c.started_at, c.begun_at, c.fence, c.attempt,
        c.charged, c.cancel_asked_at, c.progress_at, c.progress_done, c.progress_total,
        c.progress_note, pg_catalog.width_bucket(c.run_id, $2::uuid[]) AS place),
closed AS (
    INSERT INTO duly.outcomes (run_id, finished_at, state, worker, claimed_at, started_at, begun_at,
        fence, attempt, charged, result, cancel_asked_at, progress_at, progress_done,
        progress_total, progress_note)
    SELECT run_id, (SELECT now FROM f), 'succeeded', worker, claimed_at,
        coalesce(started_at, nullif(($4::int8[])[place], {NONE})), begun_at,
        fence, attempt, charged + 1, ($5::text[])[place], cancel_asked_at, progress_at,
        progress_done, progress_total, progress_note FROM done),
told AS (
    SELECT count(*) AS count, CASE WHEN count(*) <> pg_catalog.cardinality($2::uuid[])
        THEN pg_catalog.array_agg(place) END AS places FROM done)"""  # noqa: S608 - a number of ours
FINISH_PLAIN = f"""
WITH f AS MATERIALIZED (SELECT duly.now_us() AS now),{_DONE}
SELECT f.now, t.count, t.places FROM f CROSS JOIN told t"""  # noqa: S608 - a part of ours
# The member's row is locked before the claims, here as everywhere, and only then is the clock
# looked at: so the clock's row asks for the member's. Who is not alive ends all the same.
_AFTER_THE_MEMBER = """
f AS MATERIALIZED (
    SELECT duly.now_us() AS now FROM (SELECT count(*) AS held FROM n) h WHERE h.held >= 0)"""
_TOLD = ", (SELECT now FROM f), (SELECT count FROM told), (SELECT places FROM told)"
FINISH_AND_CLAIM_FROM_LEAF = tuple(
    claim_from_leaf(era, 6, f"{_AFTER_THE_MEMBER},{_DONE},", _TOLD) for era in range(ERAS)
)
ENDS = """
SELECT a.worker, a.state, o.worker, o.state
FROM unnest($1::uuid[], $2::int4[]) WITH ORDINALITY u(run_id, fence, place)
LEFT JOIN LATERAL (
    SELECT a.worker, a.state FROM duly.attempts a
    WHERE a.run_id = u.run_id AND a.fence = u.fence OFFSET 0) a ON true
LEFT JOIN LATERAL (
    SELECT o.worker, o.state FROM duly.outcomes o
    WHERE o.run_id = u.run_id AND o.fence = u.fence OFFSET 0) o ON true
ORDER BY u.place"""
_LATE = "SET late_at = $3::int8, late_state = $4, late_error = $5, late_result = $6"
_OF = "WHERE run_id = $1::uuid AND fence = $2::int4 AND late_at IS NULL"
LATE_IN_ATTEMPTS = f"UPDATE duly.attempts {_LATE} {_OF}"
LATE_IN_OUTCOMES = f"UPDATE duly.outcomes {_LATE} {_OF}"
NO_RESULTS = Texts([])


class End(NamedTuple):
    """What is on record of a claim that is no longer there, as an attempt or as an outcome."""

    worker: int | None
    state: str | None
    closing_worker: int | None
    closing_state: str | None

    def is_said_by(self, worker: int, finish: FinishAttempt) -> bool:
        """Say whether this very claim has ended so: then only the answer was lost."""
        said = (worker, finish.conclusion.attempt_state)
        if self.worker is not None:
            return (self.worker, self.state) == said
        if self.closing_worker is None or self.closing_state is None:
            return False
        return (self.closing_worker, said_state(self.closing_state)) == said


def finish_runs(
    connections: Connections, worker: MemberId, finishes: Sequence[FinishAttempt]
) -> Finished:
    """End attempts, each with its own result."""
    plain = _plain(finishes)
    answer = None
    if plain:
        with connections.statement(for_dispatch=True) as session:
            values = plain_values(worker, [finish for _, finish in plain])
            answer = one(session, FINISH_PLAIN, values)
    return _finished(connections, worker, finishes, (plain, answer))


def finish_and_claim(
    connections: Connections, finishes: Sequence[FinishAttempt], claim: ClaimRuns
) -> tuple[Finished, Claimed]:
    """End attempts and take runs: by one statement, if all ends are plain and few are queued."""
    aim = connections.aim
    plain, leaf = _plain(finishes), aim.leaf(claim)
    if leaf is None or not plain or len(plain) < len(finishes):
        finished = finish_runs(connections, claim.worker, finishes)
        with connections.statement(for_dispatch=True) as session:
            return finished, claim_runs(session, claim, aim)
    values = plain_values(claim.worker, [finish for _, finish in plain])
    with connections.statement(for_dispatch=True) as session:
        found = session.rows(FINISH_AND_CLAIM_FROM_LEAF[leaf], (*values, *leaf_values(claim)))
        claimed = claimed_from_leaf(session, claim, aim, found)
    answer = found[0][FINISHED]
    return _finished(connections, claim.worker, finishes, (plain, answer)), claimed


def _finished(
    connections: Connections,
    worker: MemberId,
    finishes: Sequence[FinishAttempt],
    told: tuple[list[tuple[int, FinishAttempt]], Row | None],
) -> Finished:
    """Say what became of ends, of which the plain ones were told; end those that are left."""
    plain, answer = told
    now, count, places = answer or (0, 0, None)
    if count == len(finishes) > 0:
        # Nearly always.
        return Finished(now, (FinishResult.ACCEPTED,) * count)
    results: list[FinishResult | None] = [None] * len(finishes)
    # Nothing is listed when all of them were ours.
    done = plain if count == len(plain) else [plain[number - 1] for number in places or ()]
    for place, _ in done:
        results[place] = FinishResult.ACCEPTED
    left = [place for place, result in enumerate(results) if result is None]
    with connections.write(for_dispatch=True) as work:
        rest = _finish_others(work, worker, [finishes[place] for place in left])
        now = work.now
    for place, result in zip(left, rest, strict=True):
        results[place] = result
    return Finished(now, tuple(one for one in results if one is not None))


def _plain(finishes: Sequence[FinishAttempt]) -> list[tuple[int, FinishAttempt]]:
    """Return those that one statement can end, with their places, in the order of their runs."""
    if len({finish.hold.run_id for finish in finishes}) < len(finishes):
        # Told twice in one batch: in order, then.
        return []
    plain = [(place, finish) for place, finish in enumerate(finishes) if is_plain(finish)]
    plain.sort(key=_by_run)
    return plain


def _by_run(placed: tuple[int, FinishAttempt]) -> ClaimRef:
    return placed[1].hold


def is_plain(finish: FinishAttempt) -> bool:
    """Say whether an end is a success that tells nothing but its result."""
    conclusion = finish.conclusion
    if finish.scope is not None or finish.follow_up is not None:
        return False
    if conclusion is DONE:
        return finish.progress is None and not finish.lines
    after = conclusion.next
    return (
        isinstance(after, Close)
        and (after.state, after.reason) == (RunState.SUCCEEDED, None)
        and conclusion.attempt_state is AttemptState.SUCCEEDED
        and conclusion.is_started
        and conclusion.is_charged
        and conclusion.error is None
        and finish.progress is None
        and not finish.lines
    )


def plain_values(worker: MemberId, finishes: Sequence[FinishAttempt]) -> tuple[object, ...]:
    """Return the values of FINISH_PLAIN for successes in the order of their runs."""
    holds = [finish.hold for finish in finishes]
    results = [
        None if finish.conclusion is DONE else said_result(finish.conclusion) for finish in finishes
    ]
    starts = [finish.started_at for finish in finishes]
    return (
        worker,
        Uuids([run_id for run_id, _ in holds]),
        Int4s([fence for _, fence in holds]),
        Int8s([NONE if start is None else start for start in starts]),
        Texts(results) if any(result is not None for result in results) else NO_RESULTS,
    )


def _finish_others(
    work: Work, worker: MemberId, finishes: Sequence[FinishAttempt]
) -> list[FinishResult]:
    """End what is not plain, each run once at a time: one that is there twice comes in turn."""
    results: list[FinishResult] = []
    ends = EndsAtLimits(work)
    begin = 0
    while begin < len(finishes):
        seen: set[bytes] = set()
        end = begin
        while end < len(finishes) and finishes[end].hold.run_id not in seen:
            seen.add(finishes[end].hold.run_id)
            end += 1
        results += _finish_distinct(work, worker, finishes[begin:end], ends)
        begin = end
    ends.write()
    return results


def _finish_distinct(
    work: Work, worker: MemberId, finishes: Sequence[FinishAttempt], ends: EndsAtLimits
) -> list[FinishResult]:
    ids = [one.hold.run_id for one in finishes]
    claims = lock_claims(work, ids)
    work.look_at_the_clock()
    ours = [_is_held(claims.get(one.hold.run_id), worker, one.hold) for one in finishes]
    facts = read_facts(work, ids)
    endings = Endings(work, facts, ends)
    gone = [one for one, is_ours in zip(finishes, ours, strict=True) if not is_ours]
    told = iter(_read_ends(work, gone))
    results: list[FinishResult] = []
    for finish, is_ours in zip(finishes, ours, strict=True):
        if is_ours:
            _end(work, endings, claims[finish.hold.run_id], finish)
            results.append(FinishResult.ACCEPTED)
        else:
            result, is_news = _judge(work, worker, finish, next(told))
            results.append(result)
            if is_news:
                fact = facts.get(finish.hold.run_id)
                subject = refused_subject(worker, finish, "" if fact is None else fact.tenant)
                endings.record("attempt.refused", subject)
    held = [one for one, is_ours in zip(finishes, ours, strict=True) if is_ours]
    _write(work, endings, [(claims[one.hold.run_id], one) for one in held])
    return results


def _end(work: Work, endings: Endings, claim: Claim, end: FinishAttempt) -> None:
    """End a claim that is ours; what it leaves on record comes in its turn."""
    told = _told(work, claim, end)
    endings.end(told, end.conclusion, is_answered=end.is_answered, wait_us=end.wait_us)
    endings.follow(end.follow_up)


def _write(work: Work, endings: Endings, held: Sequence[tuple[Claim, FinishAttempt]]) -> None:
    """Write the ends of claims, and keep what their attempts have told."""
    write_steps(work, [(end.hold, end.progress) for _, end in held if end.progress is not None])
    lines = [(end.hold, claim.lines, new_lines(end, claim.lines)) for claim, end in held]
    write_lines(work, lines)
    endings.write()
    write_scopes(work, [(end.hold, end.scope) for _, end in held])


def finish_within(work: Work, store: str, worker: MemberId, finish: FinishAttempt) -> None:
    """End an attempt among other things; raise when it is not this worker's to end."""
    run_id = finish.hold.run_id
    claim = lock_claims(work, [run_id]).get(run_id)
    if claim is None or not _is_held(claim, worker, finish.hold):
        raise taken_away(store)
    work.look_at_the_clock()
    freed_before = len(work.freed)
    endings = Endings(work, read_facts(work, [run_id]))
    _end(work, endings, claim, finish)
    _write(work, endings, [(claim, finish)])
    # Its gate is opened by whoever tends the store: the caller's commit may never come.
    del work.freed[freed_before:]


def _is_held(claim: Claim | None, worker: MemberId, hold: ClaimRef) -> bool:
    return claim is not None and (claim.worker, claim.fence) == (worker, hold.fence)


def _told(work: Work, claim: Claim, finish: FinishAttempt) -> Claim:
    """Return a claim with what its end has told besides."""
    if claim.started_at is None:
        claim.started_at = finish.started_at
    if finish.progress is not None:
        step = finish.progress
        claim.done, claim.total, claim.note = step.done, step.total, step.note
        claim.progress_at = work.now
    return claim


def _read_ends(work: Work, gone: Sequence[FinishAttempt]) -> list[End]:
    if not gone:
        return []
    values = (
        Uuids([one.hold.run_id for one in gone]),
        Int4s([one.hold.fence for one in gone]),
    )
    return [End(*row) for row in work.session.rows(ENDS, values)]


def _judge(
    work: Work, worker: MemberId, finish: FinishAttempt, end: End
) -> tuple[FinishResult, bool]:
    """Tell a lost answer from a lost claim; keep what was said about the latter.

    Say besides whether that is news.
    """
    hold, conclusion = finish.hold, finish.conclusion
    if end.is_said_by(worker, finish):
        confirm_runs(work, [hold.run_id])
        return FinishResult.ACCEPTED, False
    word = (work.now, conclusion.attempt_state, conclusion.error, said_result(conclusion))
    key = (uid(hold.run_id), hold.fence)
    if end.worker == worker:
        return FinishResult.REFUSED, work.session.run(LATE_IN_ATTEMPTS, (*key, *word)) > 0
    if end.closing_worker == worker:
        return FinishResult.REFUSED, work.session.run(LATE_IN_OUTCOMES, (*key, *word)) > 0
    return FinishResult.REFUSED, True
