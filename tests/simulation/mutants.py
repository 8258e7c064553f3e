"""Mutants: deliberate defects, each of which the simulation must notice.

Where the design has several layers against one danger, a defect in one of them alone is harmless by
intention. Those mutants say which other layer they take away so that it shows.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any
from unittest import mock

from duly.domain import fire_planning, schedule_changes
from duly.domain.enums import Lane, MisfirePolicy, ScheduleStatus
from duly.domain.runs import DelayedRecord
from duly.engine.dispatcher import fire_planner
from duly.engine.dispatcher.timer_loader import Loader, Sweep
from duly.store.memory import MemoryStore, firing, ownership
from duly.store.memory import delayed as memory_delayed
from duly.store.memory import planning as memory_planning
from duly.store.memory.tables import Journal
from duly.store.ports.dispatch import ArrivalsCursor, FireResult
from duly.store.ports.schedules import AddedRun
from tests.simulation.simulation import Mutant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.simulation.world import World


def patched(target: object, name: str, new: object) -> Callable[[World], Any]:
    """Replace a name for the time of one world."""
    return lambda _: mock.patch.object(target, name, new)


# The fence


def _held_at_any_epoch(journal, fence, lane):
    if not ownership.is_alive(journal, fence.member):
        return set(), [lease.key for lease in fence.leases]
    return {lease.key.shard for lease in fence.leases if lease.key.lane == lane}, []


def _held_by_the_dead(journal, fence, lane):
    held = set()
    for lease in fence.leases:
        row = journal.tables.leases[lease.key]
        if (row.owner, row.epoch) == (fence.member, lease.epoch) and lease.key.lane == lane:
            held.add(lease.key.shard)
    return held, []


def _acquire_at_the_same_epoch(journal, member, wanted):
    leases = journal.tables.leases
    before = {key: leases[key].epoch for key in wanted}
    taken = ORIGINAL_ACQUIRE(journal, member, wanted)
    for lease in taken:
        leases[lease.key] = replace(leases[lease.key], epoch=max(1, before[lease.key]))
    return [lease._replace(epoch=max(1, before[lease.key])) for lease in taken]


def _acquire_from_the_living(journal, member, wanted):
    with mock.patch.object(ownership, "is_alive", lambda _journal, one: one == member):
        return ORIGINAL_ACQUIRE(journal, member, wanted)


def _renew_whoever_asks(journal, command):
    row = journal.tables.members.get(command.member)
    if row is not None:
        expires_at = max(row.expires_at, journal.now + 1)
        revived = replace(row, is_alive=True, expires_at=expires_at)
        journal.put(journal.tables.members, command.member, revived)
    return ORIGINAL_RENEW(journal, command)


ORIGINAL_ACQUIRE = ownership.acquire_leases
ORIGINAL_RENEW = ownership.renew


# Firing


def _judge_without_comparing(journal, timer, held):
    if timer.shard not in held:
        return FireResult.FENCED
    pending = journal.tables.timer(timer.kind, timer.ref)
    if pending is None:
        return FireResult.GONE
    return FireResult.EARLY if timer.due_at > journal.now else None


def _judge_without_generation(journal, timer, held):
    if timer.kind != "delayed":
        return ORIGINAL_JUDGE(journal, timer, held)
    pending = journal.tables.timer(timer.kind, timer.ref)
    if pending is not None and timer.shard in held and timer.due_at <= journal.now:
        # The old timer of what was moved still counts.
        return None
    return ORIGINAL_JUDGE(journal, timer, held)


def _judge_and_clean_up(journal, timer, held):
    result = ORIGINAL_JUDGE(journal, timer, held)
    tables = journal.tables
    if result is FireResult.GONE and timer.kind == "schedule" and timer.ref in tables.schedules:
        # "It is void, so remove it": by its reference alone.
        record = tables.schedules[timer.ref]
        if record.status is ScheduleStatus.ACTIVE:
            journal.put(tables.schedules, timer.ref, replace(record, pending=None))
    elif result is FireResult.GONE and timer.kind == "delayed":
        journal.remove(tables.delayed, timer.ref)
    return result


def _late_at_the_grace(journal, item, held):
    if item.late_after is not None:
        item = item._replace(late_after=item.late_after - 1)
    return ORIGINAL_FIRE_SCHEDULE(journal, item, held)


def _never_late(journal, item, held):
    return ORIGINAL_FIRE_SCHEDULE(journal, item._replace(late_after=None), held)


ORIGINAL_JUDGE = firing._judge  # noqa: SLF001 - a mutant is made inside
ORIGINAL_FIRE_SCHEDULE = firing._fire_schedule  # noqa: SLF001 - as above


def _make_run_again(self, record, number, planned, *, is_going):
    self.tables.runs.pop(planned.run_id, None)
    self.tables.ready.pop(planned.run_id, None)
    return ORIGINAL_MAKE_RUN(self, record, number, planned, is_going=is_going)


ORIGINAL_MAKE_RUN = Journal.make_run


@contextmanager
def _no_key_and_no_comparison(_: World) -> Iterator[None]:
    with (
        mock.patch.object(firing, "_judge", _judge_without_comparing),
        mock.patch.object(Journal, "make_run", _make_run_again),
    ):
        yield


@contextmanager
def _local_clock(world: World) -> Iterator[None]:
    """Let whoever fires say what time it is."""
    fire_timers = world.store.fire_timers

    def fire_by_local_clock(command: Any) -> Any:
        assert world.executing is not None
        before = world.clock.offset_us
        world.clock.offset_us = world.executing.node.clock.now_us() - world.true_at
        try:
            return fire_timers(command)
        finally:
            world.clock.offset_us = before

    world.store.fire_timers = fire_by_local_clock
    yield


# Orders


class AckBeforeCommit(MemoryStore):
    """Answers first, and loses every seventh write after that."""

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self._counts = count(1)  # also of what is ordered in transactions

    def add_runs(self, command):
        number = next(self._counts)
        if self._transaction is None and number % 7 == 0:
            now = self.now()
            return [
                AddedRun(run.id, run.due_at or now + (run.delay_us or 0), is_new=True)
                for run in command.runs
            ]
        return super().add_runs(command)


def _change_without_version(journal, command):
    result = ORIGINAL_CHANGE(journal, command)
    if command.change.action == "schedule.paused":
        record = journal.tables.schedules[command.id]
        if record.version > command.expected_version:
            result = replace(record, version=record.version - 1)
            journal.put(journal.tables.schedules, command.id, result)
    return result


def _change_without_comparing(journal, command):
    record = journal.tables.schedules[command.id]
    return ORIGINAL_CHANGE(
        journal,
        replace(command, expected_version=record.version, expected_pending=record.pending),
    )


def _drain_anyway(journal, command):
    tables, owed = journal.tables, command.owed
    row = tables.owed.get((owed.schedule_id, owed.first_for))
    if row is None and tables.schedules[owed.schedule_id].status in firing.DRAINABLE:
        # The range has moved on; drain it all the same.
        held, _ = ownership.held_shards(journal, command.fence, Lane.CATCH_UP)
        if command.shard in held:
            return FireResult.FIRED
    return ORIGINAL_DRAIN(journal, command)


def _move_without_generation(journal, command):
    moved = ORIGINAL_MOVE(journal, command)
    if moved.generation > 2:
        moved = replace(moved, generation=1)
        journal.put(journal.tables.delayed, moved.id, moved)
    return moved


def _cancel_but_keep(journal, command):
    kept = memory_delayed.find(journal, command)
    run_id = ORIGINAL_CANCEL(journal, command)
    if isinstance(kept, DelayedRecord):
        journal.put(journal.tables.delayed, kept.id, kept)
    return run_id


def _create_every_time(journal, command):
    fresh = replace(command, id=type(command.id)(bytes(reversed(command.id))))
    if command.id in journal.tables.schedules:
        return ORIGINAL_CREATE(journal, replace(fresh, name=f"{command.name}-again"))
    return ORIGINAL_CREATE(journal, command)


ORIGINAL_CHANGE = memory_planning.change_schedule
ORIGINAL_CREATE = memory_planning.create_schedule
ORIGINAL_DRAIN = firing.drain_owed
ORIGINAL_MOVE = memory_delayed.move_delayed
ORIGINAL_CANCEL = memory_delayed.cancel_delayed


# Decisions


def _edit_and_forget(record, definition, now, reason):
    change = ORIGINAL_EDIT(record, definition, now, reason)
    return replace(change, settlement=fire_planning.NOTHING)


def _resume_and_forget(record, now, missed, reason):
    change = ORIGINAL_RESUME(record, now, missed, reason)
    return replace(change, settlement=fire_planning.NOTHING)


def _late_without_span(template, pending, now):
    plan = ORIGINAL_LATE(template, pending, now)
    return plan._replace(settlement=plan.settlement._replace(owed=None, skips=()))


def _late_without_jump(template, pending, now):
    return fire_planning.plan_on_time(template, pending)


def _skip_within_grace(template, pending, now):
    if template.definition.misfire.policy is not MisfirePolicy.SKIP:
        return ORIGINAL_LATE(template, pending, now)
    return ORIGINAL_LATE(template, pending, now + 2_000_000)


ORIGINAL_EDIT = schedule_changes.decide_edit
ORIGINAL_RESUME = schedule_changes.decide_resume
ORIGINAL_LATE = fire_planning.plan_late


# Loading: the sweep finds whatever the other ways have missed, so these take it away, too.


def _highest_number(journal, cursor, shards):
    seen, _, _ = cursor.partition(";")
    return ORIGINAL_ARRIVALS(journal, ArrivalsCursor(f"{seen};"), shards)


def _no_sweep(self, monotonic):
    every_us = self._around.settings.sweep_every_us
    self._recent_at = self._past_at = monotonic + every_us
    self._has_more_recent = self._has_more_past = False


def _only_the_future(self, shards):
    ORIGINAL_RELOAD(self, shards)
    now = self._sync.floor_now(self._around.clock.monotonic_us())
    for shard in shards:
        self._through[shard] = now


ORIGINAL_ARRIVALS = firing.read_arrivals
ORIGINAL_RELOAD = Loader.reload


@contextmanager
def _cursor_without_open(_: World) -> Iterator[None]:
    with (
        mock.patch.object(firing, "read_arrivals", _highest_number),
        mock.patch.object(Sweep, "read", _no_sweep),
    ):
        yield


@contextmanager
def _takeover_of_the_future(_: World) -> Iterator[None]:
    with (
        mock.patch.object(Loader, "reload", _only_the_future),
        mock.patch.object(Sweep, "read", _no_sweep),
    ):
        yield


MUTANTS = (
    Mutant(
        "no fence on the epoch",
        shows_in=10,
        patch=patched(firing, "held_shards", _held_at_any_epoch),
    ),
    Mutant(
        "no fence on the dead", shows_in=26, patch=patched(firing, "held_shards", _held_by_the_dead)
    ),
    Mutant(
        "same epoch after a takeover",
        patch=patched(ownership, "acquire_leases", _acquire_at_the_same_epoch),
    ),
    Mutant(
        "leases taken from the living",
        patch=patched(ownership, "acquire_leases", _acquire_from_the_living),
    ),
    Mutant("the dead renew", patch=patched(ownership, "renew", _renew_whoever_asks)),
    Mutant("no comparison of timers", patch=patched(firing, "_judge", _judge_without_comparing)),
    Mutant(
        "a moved run's old timer counts",
        patch=patched(firing, "_judge", _judge_without_generation),
    ),
    Mutant("clean-up by reference alone", patch=patched(firing, "_judge", _judge_and_clean_up)),
    Mutant("no key on runs, no comparison", patch=_no_key_and_no_comparison),
    Mutant("late at the grace itself", patch=patched(firing, "_fire_schedule", _late_at_the_grace)),
    Mutant("never late", patch=patched(firing, "_fire_schedule", _never_late)),
    Mutant("the local clock decides", shows_in=10, patch=_local_clock),
    Mutant("answer before commit", store=AckBeforeCommit),
    Mutant(
        "a pause keeps the version",
        patch=patched(memory_planning, "change_schedule", _change_without_version),
    ),
    Mutant(
        "orders without comparison",
        patch=patched(memory_planning, "change_schedule", _change_without_comparing),
    ),
    Mutant(
        "drained without comparison", shows_in=7, patch=patched(firing, "drain_owed", _drain_anyway)
    ),
    Mutant(
        "drained while paused",
        shows_in=2,
        patch=patched(firing, "DRAINABLE", frozenset(ScheduleStatus)),
    ),
    Mutant(
        "moves reuse a generation",
        shows_in=19,
        patch=patched(memory_delayed, "move_delayed", _move_without_generation),
    ),
    Mutant(
        "cancelled and still pending",
        patch=patched(memory_delayed, "cancel_delayed", _cancel_but_keep),
    ),
    Mutant(
        "asking again makes another",
        shows_in=7,
        patch=patched(memory_planning, "create_schedule", _create_every_time),
    ),
    Mutant(
        "an edit forgets what was owed",
        patch=patched(schedule_changes, "decide_edit", _edit_and_forget),
    ),
    Mutant(
        "a resumption forgets the pause",
        shows_in=2,
        patch=patched(schedule_changes, "decide_resume", _resume_and_forget),
    ),
    Mutant(
        "late and the span is lost", patch=patched(fire_planner, "plan_late", _late_without_span)
    ),
    Mutant("late and no jump", patch=patched(fire_planner, "plan_late", _late_without_jump)),
    Mutant(
        "skipped within the grace", patch=patched(fire_planner, "plan_late", _skip_within_grace)
    ),
    Mutant("highest arrival as cursor, no sweep", shows_in=4, patch=_cursor_without_open),
    Mutant("takeover of the future, no sweep", shows_in=4, patch=_takeover_of_the_future),
)
