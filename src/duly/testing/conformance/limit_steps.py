"""Steps that tests about limits begin with: limit something, ask, fail often."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly.domain.admission import Way
from duly.domain.breakers import FAILURES_MIN, PAUSE_FIRST_US
from duly.domain.concluding import Succeeded
from duly.domain.limits import read_limit
from duly.domain.literals import Lane, RunState
from duly.store.admission import Request, SetLimit
from duly.store.dispatch import FireResult, FireRetry, FireTimers
from duly.store.execution import FinishResult
from duly.testing.conformance import steps
from duly.testing.conformance import work_steps as work
from duly.testing.factories import ADA, HOUR_US

if TYPE_CHECKING:
    from duly.domain.admission import Verdict
    from duly.domain.identity import RunId
    from duly.store.admission import BreakerRecord
    from duly.store.dispatch import MemberId
    from duly.store.execution import ClaimedRun
    from duly.store.protocol import Store
    from duly.testing.manual_clock import ManualClock

TASK = "task:remind"
API = "api.example.com"


def limit(store: Store, scope: str = TASK, **parts: Any) -> None:
    """Limit something, as a person does."""
    told = {"running": None, "rate": None, "running_by": None} | parts
    store.set_limit(SetLimit(scope=scope, limit=read_limit(**told), actor=ADA))


def request(claimed: ClaimedRun, **parts: Any) -> Request:
    """Return what a worker asks about a claim."""
    asked = Request(claimed.hold, claimed.record.tenant, claimed.task)
    return asked._replace(**parts)


def ask(store: Store, worker: MemberId, *claimed: ClaimedRun, **parts: Any) -> list[Verdict]:
    """Ask about claims."""
    admitted = store.admit(worker, [request(one, **parts) for one in claimed])
    assert store.now() == admitted.now
    return list(admitted.verdicts)


def ways(store: Store, worker: MemberId, *claimed: ClaimedRun, **parts: Any) -> list[Way]:
    """Ask about claims; return only what becomes of them."""
    return [verdict.way for verdict in ask(store, worker, *claimed, **parts)]


def queue_many(store: Store, count: int, **parts: Any) -> list[RunId]:
    """Queue several runs at once; return them as they will be claimed."""
    return sorted(work.queue(store, f"run {number}", **parts) for number in range(count))


def join(store: Store) -> MemberId:
    """Join as a worker for as long as a test lasts."""
    return work.join(store, ttl_us=1000 * HOUR_US)


def states(store: Store, ids: list[RunId]) -> list[RunState]:
    """Return where runs are."""
    return [work.look(store, run_id).state for run_id in ids]


def end_all(store: Store, worker: MemberId, *claimed: ClaimedRun, **parts: Any) -> None:
    """End attempts well."""
    for one in claimed:
        assert FinishResult.ACCEPTED == work.end(store, worker, one, Succeeded(), **parts)


def fire_due(store: Store) -> int:
    """Fire the timers of runs that are due by now; return how many."""
    timers = [timer for timer in steps.load(store, store.now()) if timer.kind == "retry"]
    fence = steps.own(store, (Lane.LIVE,))
    fired = store.fire_timers(FireTimers(fence=fence, retries=tuple(map(FireRetry, timers))))
    assert {FireResult.FIRED} >= set(fired.results)
    store.leave(fence.member)
    return len(timers)


def fail_often(store: Store) -> MemberId:
    """Let a destination fail until it is left alone; return the worker that tried."""
    worker = join(store)
    for number in range(FAILURES_MIN):
        work.queue(store, f"failing {number}")
        claimed = work.take_one(store, worker)
        assert [Way.GOES] == ways(store, worker, claimed, destination=API)
        work.end(store, worker, claimed, work.FATAL, is_answered=False)
    return worker


def probing(
    store: Store, clock: ManualClock, *, is_lasting: bool = True
) -> tuple[MemberId, ClaimedRun]:
    """Return a probe that is under way, and its worker."""
    fail_often(store)
    clock.advance(PAUSE_FIRST_US)
    work.queue(store, "probe")
    worker = join(store) if is_lasting else work.join(store)
    probe = work.take_one(store, worker)
    assert [Way.GOES] == ways(store, worker, probe, destination=API)
    return worker, probe


def known(store: Store) -> BreakerRecord:
    """Return what is known of the destination."""
    (record,) = store.list_breakers()
    assert API == record.destination
    return record
