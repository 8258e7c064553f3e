"""Steps that tests about overlap begin with: make, fire, drain, trigger, work off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly.domain.concluding import CancelledEnd, Succeeded
from duly.domain.literals import Lane, Origin, Overlap, RunState
from duly.domain.schedules import TENANT_DEFAULT
from duly.domain.settling import plan_late, settle
from duly.store.dispatch import DrainOwed, FirePlanned, FireResult
from duly.store.execution import FinishResult
from duly.store.reading import RunFilter
from duly.testing.conformance import steps
from duly.testing.conformance import work_steps as work
from duly.testing.factories import (
    HOUR_US,
    MINUTE_US,
    add_runs,
    cancel_run,
    new_run,
    template_of,
    timer_of,
)

if TYPE_CHECKING:
    from duly.domain.concluding import End
    from duly.domain.identity import RunId
    from duly.domain.runs import RunRecord
    from duly.domain.schedules import Owed, ScheduleRecord
    from duly.store.dispatch import Fence
    from duly.store.execution import ClaimedRun
    from duly.store.planning import NewRun
    from duly.store.protocol import Store
    from duly.testing.manual_clock import ManualClock

ONE_AT_A_TIME = tuple(one for one in Overlap if one is not Overlap.ALLOW)


def made(store: Store, policy: Overlap, name: str = "nightly", **parts: Any) -> ScheduleRecord:
    """Make an hourly schedule of a policy."""
    if policy is Overlap.SERIALIZE:
        parts.setdefault("serialize_by", "account:1")
    return steps.create(store, name, overlap=policy, **parts)


def fired(store: Store, clock: ManualClock, policy: Overlap, times: int = 1) -> ScheduleRecord:
    """Make a schedule of a policy, and let it fire so many times; nobody works meanwhile."""
    record = made(store, policy)
    for _ in range(times):
        record = steps.fire_due(store, clock, record)
    return record


def owing(store: Store, clock: ManualClock, fence: Fence, record: ScheduleRecord) -> Owed:
    """Let a schedule miss three occurrences, and return the range that it owes."""
    steps.fall_due(clock, record, late_us=2 * HOUR_US + 2 * MINUTE_US)
    assert record.pending is not None
    plan = plan_late(template_of(record), record.pending, clock.now_us())
    planned = FirePlanned(timer_of(record), plan, None)
    assert (FireResult.FIRED,) == steps.fire(store, fence, planned).results
    (owed,) = store.list_owed(record.id)
    return owed


def drain(  # noqa: PLR0913, PLR0917 - what is drained, by whom and how far
    store: Store, fence: Fence, record: ScheduleRecord, owed: Owed, until: int
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
    worker = work.join(store)
    taken: list[ClaimedRun] = work.take(store, worker)
    for claimed in taken:
        assert FinishResult.ACCEPTED == work.end(store, worker, claimed, Succeeded())
    store.leave(worker)
    return len(taken)


def end_somehow(store: Store, how: str) -> None:
    """End the one run that is queued."""
    if how == "cancelled in the queue":
        command = RunFilter(tenant=TENANT_DEFAULT, states=frozenset((RunState.QUEUED,)))
        (run,) = store.list_runs(command)
        store.cancel_run(cancel_run(run.id))
        return
    worker = work.join(store)
    claimed = work.take_one(store, worker)
    ends: dict[str, End] = {
        "closed": Succeeded(),
        "dead": work.FATAL,
        "cancelled": CancelledEnd(),
    }
    assert FinishResult.ACCEPTED == work.end(store, worker, claimed, ends[how])
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
