"""Steps with which tests of stores begin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly.domain.admission import FAILURES_MIN, PAUSE_FIRST_US, AdmissionRoute
from duly.domain.enums import Lane, Missed, Origin, Overlap, RunState
from duly.domain.fire_planning import plan_late, settle
from duly.domain.limits import read_limit
from duly.domain.outcomes import AttemptFacts, CancelledEnd, Failed, Succeeded, WorkerLost, conclude
from duly.domain.runs import Reason
from duly.domain.schedule_changes import decide_delete, decide_edit, decide_pause
from duly.domain.schedules import TENANT_DEFAULT, Call
from duly.store.ports.dispatch import (
    DrainOwed,
    Fence,
    Fired,
    FireDelayed,
    FirePlanned,
    FireResult,
    FireRetry,
    FireSchedule,
    FireTimers,
    LeaseKey,
    LoadTimers,
    MemberKind,
)
from duly.store.ports.execution import (
    WORKER_TTL_US,
    ClaimRuns,
    FinishResult,
    LostClaimDecision,
    SettleLost,
)
from duly.store.ports.limits import Request, SetLimit
from duly.store.ports.queries import PAGE_MAX, AuditFilter, RunFilter
from duly.store.ports.schedules import Stale
from duly_conformance import kit
from duly_conformance.kit import (
    ADA,
    HOUR_US,
    MINUTE_US,
    SECOND_US,
    add_runs,
    cancel_run,
    new_run,
    template_of,
    timer_of,
)

if TYPE_CHECKING:
    from duly.domain.admission import AdmissionDecision
    from duly.domain.audit import AuditEntry
    from duly.domain.fire_planning import Plan
    from duly.domain.ids import RunId
    from duly.domain.outcomes import End
    from duly.domain.runs import DelayedRecord, RunRecord
    from duly.domain.schedule_changes import ScheduleChange
    from duly.domain.schedules import CatchUpRange, Definition, ScheduleRecord
    from duly.engine.manual_clock import ManualClock
    from duly.store.ports import Store
    from duly.store.ports.dispatch import MemberId, Timer, Wakeups
    from duly.store.ports.execution import ClaimedRun, LostClaim
    from duly.store.ports.limits import BreakerRecord
    from duly.store.ports.schedules import NewRun


WAIT_MAX_US = 60 * SECOND_US
"""How long a test waits for a wake-up that is on its way."""


class AtPlaces:
    """Knows how a place to wait at begins."""

    begins_with_a_hint = False
    """Whether it wakes who waits there as soon as it hears others: what was rung for before is not
    known to it."""

    def place(self, store: Store, kind: MemberKind = MemberKind.DISPATCHER) -> Wakeups:
        """Return one that hears others and is quiet: who is woken now was rung for."""
        place = store.wakeups(kind)
        if self.begins_with_a_hint:
            assert place.wait(WAIT_MAX_US)
        return place


def create(store: Store, name: str = "nightly", **parts: Any) -> ScheduleRecord:
    """Make a schedule, hourly unless told otherwise."""
    made = store.create_schedule(kit.new_schedule(store.now(), name, **parts))
    assert made.is_new
    return made.record


def delay(store: Store, due_at: int, text: str = "reminder", **parts: Any) -> DelayedRecord:
    """Ask for a run at an instant, and return what is pending."""
    (added,) = store.add_runs(kit.add_runs(kit.new_run(due_at, text, **parts)))
    found = store.get_delayed(added.id)
    assert found is not None
    return found


def look(store: Store, record: ScheduleRecord) -> ScheduleRecord:
    """Return a schedule as it is now."""
    seen = store.get_schedule(record.id)
    assert seen is not None
    return seen.record


def apply(store: Store, record: ScheduleRecord, change: ScheduleChange) -> ScheduleRecord:
    """Apply a change that is not stale."""
    changed = store.change_schedule(kit.change_of(record, change))
    assert not isinstance(changed, Stale)
    return changed


def pause(store: Store, record: ScheduleRecord, until: int | None = None) -> ScheduleRecord:
    """Pause a schedule."""
    change = decide_pause(record, reason="a rest", until=until, missed=Missed.SKIP)
    return apply(store, record, change)


def delete(store: Store, record: ScheduleRecord) -> ScheduleRecord:
    """Delete a schedule."""
    return apply(store, record, decide_delete(record, "not needed"))


def edit(store: Store, record: ScheduleRecord, definition: Definition) -> ScheduleRecord:
    """Edit a schedule."""
    return apply(store, record, decide_edit(record, definition, store.now(), "better so"))


def join(store: Store, **parts: Any) -> MemberId:
    """Join as a dispatcher."""
    return store.join(kit.dispatcher(**parts))[0]


def every_key(store: Store, lanes: tuple[Lane, ...] = tuple(Lane)) -> list[LeaseKey]:
    """Return every lease there is."""
    return [LeaseKey(shard, lane) for shard in range(store.status().shards) for lane in lanes]


def own(store: Store, lanes: tuple[Lane, ...] = tuple(Lane), **parts: Any) -> Fence:
    """Join and take every lease that is free."""
    member = join(store, **parts)
    return Fence(member, tuple(store.acquire_leases(member, every_key(store, lanes))))


def on_time_plan(record: ScheduleRecord) -> Plan:
    """Return the plan of a schedule's pending occurrence."""
    return kit.on_time(record).plan


def fall_due(clock: ManualClock, record: ScheduleRecord, late_us: int = 0) -> None:
    """Let the clock reach a schedule's due instant, or pass it."""
    assert record.pending is not None
    clock.set(record.pending.due_at + late_us)


def fire(store: Store, fence: Fence, *fires: FireSchedule | FireDelayed) -> Fired:
    """Fire a batch."""
    schedules = tuple(one for one in fires if isinstance(one, FireSchedule))
    delayed = tuple(one for one in fires if isinstance(one, FireDelayed))
    return store.fire_timers(FireTimers(fence=fence, schedules=schedules, delayed=delayed))


def fire_due(store: Store, clock: ManualClock, record: ScheduleRecord) -> ScheduleRecord:
    """Let a schedule fall due and fire it, as a new member; return what it has become."""
    fall_due(clock, record)
    fence = own(store, (Lane.LIVE,))
    fired = fire(store, fence, kit.on_time(record))
    assert (FireResult.FIRED,) == fired.results
    store.leave(fence.member)
    return look(store, record)


def load(store: Store, until: int, after: int | None = None) -> tuple[Timer, ...]:
    """Load the timers of all shards."""
    shards = tuple(range(store.status().shards))
    command = LoadTimers(shards=shards, after=after, until=until, limit=PAGE_MAX)
    return store.load_timers(command).timers


def audit(store: Store, **parts: Any) -> list[AuditEntry]:
    """Read the audit trail, newest first."""
    return store.list_audit(AuditFilter(**parts))


def queued(store: Store) -> int:
    """Return how many runs wait for a worker."""
    return store.status().queued


def due_and_owned(
    store: Store, clock: ManualClock, name: str = "nightly"
) -> tuple[ScheduleRecord, Fence]:
    """Return a schedule that is due, and a member that owns all there is to own."""
    record = create(store, name)
    fall_due(clock, record)
    for lease in store.status().leases:
        if lease.owner is not None:
            store.leave(lease.owner)
    return record, own(store)


def fire_delayed(store: Store, clock: ManualClock, identity: bytes) -> None:
    """Let a delayed run fall due, and fire it."""
    pending: DelayedRecord | None = store.get_delayed(identity)  # type: ignore[arg-type]
    assert pending is not None
    clock.set(pending.due_at)
    fence = own(store)
    fired = fire(store, fence, kit.delayed_fire(pending, store.status().shards))
    assert ["fired"] == list(fired.results)
    store.leave(fence.member)


OVERDUE_US = 60 * kit.SECOND_US
"""How long after an attempt's deadline somebody else ends it, in tests."""
MAINTENANCE = LeaseKey(0, Lane.BACKFILL)
FATAL = Failed("no use", Reason.NOT_RETRYABLE, is_retryable=False)
"""An end after which a run is dead."""


def join_worker(store: Store, **parts: Any) -> MemberId:
    """Join as a worker."""
    return store.join(kit.worker(**parts))[0]


def queue(store: Store, text: str = "a", **parts: Any) -> RunId:
    """Queue a run, now; `parts` are those of its call, or its lane and its tenant."""
    own = {name: parts.pop(name) for name in ("lane", "tenant") if name in parts}
    given: dict[str, Any] = {"task": "remind", "arguments": "{}"} | parts
    new = kit.new_run(None, text, call=Call(**given), **own)
    (added,) = store.add_runs(kit.add_runs(new))
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
    worker = join_worker(store)
    return worker, take_one(store, worker)


def end(
    store: Store, worker: MemberId, claimed: ClaimedRun, how: End, **parts: Any
) -> FinishResult:
    """End one attempt; return what became of the completion."""
    finished = store.finish_runs(worker, [kit.finish(claimed, how, **parts)])
    assert store.now() == finished.now
    (result,) = finished.results
    return result


def get_run(store: Store, run_id: RunId) -> RunRecord:
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
    member = join(store)
    return Fence(member, tuple(store.acquire_leases(member, [MAINTENANCE])))


def lost_claims(store: Store, limit: int = 100) -> tuple[LostClaim, ...]:
    """Return claims that somebody else must settle."""
    return store.find_lost(limit, OVERDUE_US).claims


def settle_lost(store: Store, fence: Fence, *lost: LostClaim, how: End | None = None) -> list[bool]:
    """Settle lost claims, as a crash unless told otherwise."""
    losses = tuple(loss_of(store, claim, how or WorkerLost()) for claim in lost)
    return store.settle_lost(SettleLost(fence=fence, losses=losses, overdue_us=OVERDUE_US))


def declare_dead(store: Store, clock: ManualClock, worker: MemberId) -> None:
    """Let a worker's lease run out, and have somebody settle a run that it holds."""
    held = queue(store, f"held by {worker}")
    assert held in take_ids(store, worker)
    clock.advance(WORKER_TTL_US)
    fence = maintain(store)
    assert all(settle_lost(store, fence, *lost_claims(store)))
    store.leave(fence.member)


def loss_of(store: Store, claim: LostClaim, how: End) -> LostClaimDecision:
    """Return what is decided about a lost claim."""
    attempted = AttemptFacts(
        run_id=claim.hold.run_id,
        policy=claim.policy,
        tries=claim.tries,
        now=store.now(),
        has_begun_effects=claim.effects_at is not None,
    )
    return LostClaimDecision(claim, conclude(how, attempted))


def fire_retries(store: Store, clock: ManualClock) -> Fired:
    """Let every retry fall due, and fire them as a new owner of all shards."""
    timers = [timer for timer in load(store, 1 << 60) if timer.kind == "retry"]
    clock.set(max([clock.now_us(), *(timer.due_at for timer in timers)]))
    fence = own(store, (Lane.LIVE,))
    retries = tuple(FireRetry(timer) for timer in timers)
    fired = store.fire_timers(FireTimers(fence=fence, retries=retries))
    assert {FireResult.FIRED} >= set(fired.results)
    store.leave(fence.member)
    return fired


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


def ask(
    store: Store, worker: MemberId, *claimed: ClaimedRun, **parts: Any
) -> list[AdmissionDecision]:
    """Ask about claims."""
    admitted = store.admit(worker, [request(one, **parts) for one in claimed])
    assert store.now() == admitted.now
    return list(admitted.verdicts)


def ways(
    store: Store, worker: MemberId, *claimed: ClaimedRun, **parts: Any
) -> list[AdmissionRoute]:
    """Ask about claims; return only what becomes of them."""
    return [verdict.way for verdict in ask(store, worker, *claimed, **parts)]


def queue_many(store: Store, count: int, **parts: Any) -> list[RunId]:
    """Queue several runs at once; return them as they will be claimed."""
    return sorted(queue(store, f"run {number}", **parts) for number in range(count))


def join_limited_worker(store: Store) -> MemberId:
    """Join as a worker for as long as a test lasts."""
    return join_worker(store, ttl_us=1000 * HOUR_US)


def states_of(store: Store, ids: list[RunId]) -> list[RunState]:
    """Return where runs are."""
    return [get_run(store, run_id).state for run_id in ids]


def end_all(store: Store, worker: MemberId, *claimed: ClaimedRun, **parts: Any) -> None:
    """End attempts well."""
    for one in claimed:
        assert FinishResult.ACCEPTED == end(store, worker, one, Succeeded(), **parts)


def fire_due_retries(store: Store) -> int:
    """Fire the timers of runs that are due by now; return how many."""
    timers = [timer for timer in load(store, store.now()) if timer.kind == "retry"]
    fence = own(store, (Lane.LIVE,))
    fired = store.fire_timers(FireTimers(fence=fence, retries=tuple(map(FireRetry, timers))))
    assert {FireResult.FIRED} >= set(fired.results)
    store.leave(fence.member)
    return len(timers)


def fail_often(store: Store) -> MemberId:
    """Let a destination fail until it is left alone; return the worker that tried."""
    worker = join_limited_worker(store)
    for number in range(FAILURES_MIN):
        queue(store, f"failing {number}")
        claimed = take_one(store, worker)
        assert [AdmissionRoute.GOES] == ways(store, worker, claimed, destination=API)
        end(store, worker, claimed, FATAL, is_answered=False)
    return worker


def probing(
    store: Store, clock: ManualClock, *, is_lasting: bool = True
) -> tuple[MemberId, ClaimedRun]:
    """Return a probe that is under way, and its worker."""
    fail_often(store)
    clock.advance(PAUSE_FIRST_US)
    queue(store, "probe")
    worker = join_limited_worker(store) if is_lasting else join_worker(store)
    probe = take_one(store, worker)
    assert [AdmissionRoute.GOES] == ways(store, worker, probe, destination=API)
    return worker, probe


def known(store: Store) -> BreakerRecord:
    """Return what is known of the destination."""
    (record,) = store.list_breakers()
    assert API == record.destination
    return record


ONE_AT_A_TIME = tuple(one for one in Overlap if one is not Overlap.ALLOW)


def made(store: Store, policy: Overlap, name: str = "nightly", **parts: Any) -> ScheduleRecord:
    """Make an hourly schedule of a policy."""
    if policy is Overlap.SERIALIZE:
        parts.setdefault("serialize_by", "account:1")
    return create(store, name, overlap=policy, **parts)


def fired(store: Store, clock: ManualClock, policy: Overlap, times: int = 1) -> ScheduleRecord:
    """Make a schedule of a policy, and let it fire so many times; nobody works meanwhile."""
    record = made(store, policy)
    for _ in range(times):
        record = fire_due(store, clock, record)
    return record


def owing(store: Store, clock: ManualClock, fence: Fence, record: ScheduleRecord) -> CatchUpRange:
    """Let a schedule miss three occurrences, and return the range that it owes."""
    fall_due(clock, record, late_us=2 * HOUR_US + 2 * MINUTE_US)
    assert record.pending is not None
    plan = plan_late(template_of(record), record.pending, clock.now_us())
    planned = FirePlanned(timer_of(record), plan, None)
    assert (FireResult.FIRED,) == fire(store, fence, planned).results
    (owed,) = store.list_owed(record.id)
    return owed


def drain(  # noqa: PLR0913, PLR0917 - what is drained, by whom and how far
    store: Store, fence: Fence, record: ScheduleRecord, owed: CatchUpRange, until: int
) -> FireResult:
    """Make the runs of a range up to an occurrence."""
    settled = settle(template_of(record), owed.first_for, owed.last_for, store.now(), 1)
    assert until == settled.runs[0].scheduled_for
    order = DrainOwed(fence=fence, shard=record.shard, owed=owed, settlement=settled)
    return store.drain_owed(order)


def runs_of(store: Store, record: ScheduleRecord) -> list[RunRecord]:
    """Return a schedule's runs, oldest first."""
    command = RunFilter(tenant=record.tenant, schedule_id=record.id, limit=100)
    return sorted(store.list_runs(command), key=lambda run: run.scheduled_for)


def states(store: Store, record: ScheduleRecord) -> list[str]:
    """Return the states of a schedule's runs, oldest first."""
    return [str(run.state) for run in runs_of(store, record)]


def only_run(store: Store) -> RunRecord:
    """Return the one run there is."""
    (run,) = store.list_runs(RunFilter(tenant=TENANT_DEFAULT))
    return run


def work_off(store: Store) -> int:
    """Claim what there is, and end it well; say how many there were."""
    worker = join_worker(store)
    taken: list[ClaimedRun] = take(store, worker)
    for claimed in taken:
        assert FinishResult.ACCEPTED == end(store, worker, claimed, Succeeded())
    store.leave(worker)
    return len(taken)


def end_somehow(store: Store, how: str) -> None:
    """End the one run that is queued."""
    if how == "cancelled in the queue":
        command = RunFilter(tenant=TENANT_DEFAULT, states=frozenset((RunState.QUEUED,)))
        (run,) = store.list_runs(command)
        store.cancel_run(cancel_run(run.id))
        return
    worker = join_worker(store)
    claimed = take_one(store, worker)
    ends: dict[str, End] = {
        "closed": Succeeded(),
        "dead": FATAL,
        "cancelled": CancelledEnd(),
    }
    assert FinishResult.ACCEPTED == end(store, worker, claimed, ends[how])
    store.leave(worker)


def trigger(store: Store, record: ScheduleRecord, overlap: Overlap | None = None) -> RunId:
    """Ask for a run of a schedule, now."""
    (added,) = store.add_runs(add_runs(by_hand(record, f"by hand {store.now()}", overlap)))
    return added.id


def trigger_many(store: Store, record: ScheduleRecord, count: int) -> None:
    """Ask for many runs of a schedule, now."""
    runs = [by_hand(record, f"by hand {number}") for number in range(count)]
    assert count == len(store.add_runs(add_runs(*runs)))


def by_hand(record: ScheduleRecord, text: str, overlap: Overlap | None = None) -> NewRun:
    """Return a run of a schedule, now."""
    return new_run(
        None,
        text,
        call=record.definition.call,
        origin=Origin.MANUAL,
        lane=Lane.LIVE,
        schedule_id=record.id,
        definition_number=record.definition_number,
        overlap=overlap,
    )
