"""Steps that many tests begin with: make a schedule, own its shard, let it fall due, fire."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly.domain.literals import Lane, Missed
from duly.domain.planning import decide_delete, decide_edit, decide_pause
from duly.store.dispatch import (
    Fence,
    Fired,
    FireDelayed,
    FireResult,
    FireSchedule,
    FireTimers,
    LeaseKey,
    LoadTimers,
)
from duly.store.planning import Stale
from duly.store.reading import PAGE_MAX, AuditFilter
from duly.testing import factories

if TYPE_CHECKING:
    from duly.domain.audit import AuditEntry
    from duly.domain.planning import Change
    from duly.domain.runs import DelayedRecord
    from duly.domain.schedules import Definition, ScheduleRecord
    from duly.domain.settling import Plan
    from duly.store.dispatch import MemberId, Timer
    from duly.store.protocol import Store
    from duly.testing.manual_clock import ManualClock


def create(store: Store, name: str = "nightly", **parts: Any) -> ScheduleRecord:
    """Make a schedule, hourly unless told otherwise."""
    made = store.create_schedule(factories.new_schedule(store.now(), name, **parts))
    assert made.is_new
    return made.record


def delay(store: Store, due_at: int, text: str = "reminder", **parts: Any) -> DelayedRecord:
    """Ask for a run at an instant, and return what is pending."""
    (added,) = store.add_runs(factories.add_runs(factories.new_run(due_at, text, **parts)))
    found = store.get_delayed(added.id)
    assert found is not None
    return found


def look(store: Store, record: ScheduleRecord) -> ScheduleRecord:
    """Return a schedule as it is now."""
    seen = store.get_schedule(record.id)
    assert seen is not None
    return seen.record


def apply(store: Store, record: ScheduleRecord, change: Change) -> ScheduleRecord:
    """Apply a change that is not stale."""
    changed = store.change_schedule(factories.change_of(record, change))
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
    return store.join(factories.dispatcher(**parts))[0]


def every_key(store: Store, lanes: tuple[Lane, ...] = tuple(Lane)) -> list[LeaseKey]:
    """Return every lease there is."""
    return [LeaseKey(shard, lane) for shard in range(store.status().shards) for lane in lanes]


def own(store: Store, lanes: tuple[Lane, ...] = tuple(Lane), **parts: Any) -> Fence:
    """Join and take every lease that is free."""
    member = join(store, **parts)
    return Fence(member, tuple(store.acquire_leases(member, every_key(store, lanes))))


def on_time_plan(record: ScheduleRecord) -> Plan:
    """Return the plan of a schedule's pending occurrence."""
    return factories.on_time(record).plan


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
    fired = fire(store, fence, factories.on_time(record))
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
    fired = fire(store, fence, factories.delayed_fire(pending, store.status().shards))
    assert ["fired"] == list(fired.results)
    store.leave(fence.member)
