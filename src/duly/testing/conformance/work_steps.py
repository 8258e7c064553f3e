"""Steps that tests about workers begin with: queue runs, join, claim, end an attempt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly.domain.attempts import Reason
from duly.domain.concluding import Attempted, Failed, LostEnd, conclude
from duly.domain.literals import Lane
from duly.domain.schedules import Call
from duly.store.dispatch import Fence, FireResult, FireRetry, FireTimers, LeaseKey
from duly.store.execution import WORKER_TTL_US, ClaimRuns, FinishResult, Loss, SettleLost
from duly.testing import factories
from duly.testing.conformance import steps

if TYPE_CHECKING:
    from duly.domain.concluding import End
    from duly.domain.identity import RunId
    from duly.domain.runs import RunRecord
    from duly.store.dispatch import Fired, MemberId
    from duly.store.execution import ClaimedRun, LostClaim
    from duly.store.protocol import Store
    from duly.testing.manual_clock import ManualClock

OVERDUE_US = 60 * factories.SECOND_US
"""How long after an attempt's deadline somebody else ends it, in tests."""
MAINTENANCE = LeaseKey(0, Lane.BACKFILL)
FATAL = Failed("no use", Reason.NOT_RETRYABLE, is_retryable=False)
"""An end after which a run is dead."""


def join(store: Store, **parts: Any) -> MemberId:
    """Join as a worker."""
    return store.join(factories.worker(**parts))[0]


def queue(store: Store, text: str = "a", **parts: Any) -> RunId:
    """Queue a run, now; `parts` are those of its call, or its lane and its tenant."""
    own = {name: parts.pop(name) for name in ("lane", "tenant") if name in parts}
    given: dict[str, Any] = {"task": "remind", "arguments": "{}"} | parts
    new = factories.new_run(None, text, call=Call(**given), **own)
    (added,) = store.add_runs(factories.add_runs(new))
    assert added.is_new
    return added.id


def take(store: Store, worker: MemberId, limit: int = 100, **parts: Any) -> list[ClaimedRun]:
    """Claim what there is."""
    return list(store.claim_runs(ClaimRuns(worker=worker, limit=limit, **parts)).runs)


def take_ids(store: Store, worker: MemberId, limit: int = 100, **parts: Any) -> list[RunId]:
    """Claim what there is; return the runs' ids in the order they came."""
    return [claimed.record.id for claimed in take(store, worker, limit, **parts)]


def take_one(store: Store, worker: MemberId) -> ClaimedRun:
    """Claim the one run there is."""
    (claimed,) = take(store, worker)
    return claimed


def queue_and_take(store: Store, text: str = "a", **parts: Any) -> tuple[MemberId, ClaimedRun]:
    """Queue a run, and claim it as a new worker."""
    queue(store, text, **parts)
    worker = join(store)
    return worker, take_one(store, worker)


def end(
    store: Store, worker: MemberId, claimed: ClaimedRun, how: End, **parts: Any
) -> FinishResult:
    """End one attempt; return what became of the completion."""
    finished = store.finish_runs(worker, [factories.finish(claimed, how, **parts)])
    assert store.now() == finished.now
    (result,) = finished.results
    return result


def look(store: Store, run_id: RunId) -> RunRecord:
    """Return a run as it is now."""
    record = store.get_run(run_id)
    assert record is not None
    return record


def make_dead(store: Store, text: str = "a", **parts: Any) -> RunId:
    """Return a run that is among the dead letters."""
    worker, claimed = queue_and_take(store, text, **parts)
    assert FinishResult.ACCEPTED == end(store, worker, claimed, FATAL)
    store.leave(worker)
    return claimed.record.id


def make_waiting(store: Store, text: str = "a", after_us: int = 7_000_000) -> RunId:
    """Return a run that waits for its second attempt."""
    worker, claimed = queue_and_take(store, text)
    failed = Failed("try again", after_us=after_us)
    assert FinishResult.ACCEPTED == end(store, worker, claimed, failed)
    store.leave(worker)
    return claimed.record.id


def maintain(store: Store) -> Fence:
    """Join as a dispatcher and take the maintenance lease."""
    member = steps.join(store)
    return Fence(member, tuple(store.acquire_leases(member, [MAINTENANCE])))


def lost_claims(store: Store, limit: int = 100) -> tuple[LostClaim, ...]:
    """Return claims that somebody else must settle."""
    return store.find_lost(limit, OVERDUE_US).claims


def settle(store: Store, fence: Fence, *lost: LostClaim, how: End | None = None) -> list[bool]:
    """Settle lost claims, as a crash unless told otherwise."""
    losses = tuple(loss_of(store, claim, how or LostEnd()) for claim in lost)
    return store.settle_lost(SettleLost(fence=fence, losses=losses, overdue_us=OVERDUE_US))


def declare_dead(store: Store, clock: ManualClock, worker: MemberId) -> None:
    """Let a worker's lease run out, and have somebody settle a run that it holds."""
    held = queue(store, f"held by {worker}")
    assert held in take_ids(store, worker)
    clock.advance(WORKER_TTL_US)
    fence = maintain(store)
    assert all(settle(store, fence, *lost_claims(store)))
    store.leave(fence.member)


def loss_of(store: Store, claim: LostClaim, how: End) -> Loss:
    """Return what is decided about a lost claim."""
    attempted = Attempted(
        run_id=claim.hold.run_id,
        policy=claim.policy,
        tries=claim.tries,
        now=store.now(),
        has_begun_effects=claim.effects_at is not None,
    )
    return Loss(claim, conclude(how, attempted))


def fire_retries(store: Store, clock: ManualClock) -> Fired:
    """Let every retry fall due, and fire them as a new owner of all shards."""
    timers = [timer for timer in steps.load(store, 1 << 60) if timer.kind == "retry"]
    clock.set(max([clock.now_us(), *(timer.due_at for timer in timers)]))
    fence = steps.own(store, (Lane.LIVE,))
    retries = tuple(FireRetry(timer) for timer in timers)
    fired = store.fire_timers(FireTimers(fence=fence, retries=retries))
    assert {FireResult.FIRED} >= set(fired.results)
    store.leave(fence.member)
    return fired
