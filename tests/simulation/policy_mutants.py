"""Deliberate defects of overlap, catch-up and backfills, each of which the simulation must notice.

As with the other mutants: where several layers stand against one danger, a mutant says which other
layer it takes away.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from unittest import mock

from duly.domain.backfill import BackfillOccurrenceKind, BackfillStatus, Slot
from duly.domain.enums import Overlap
from duly.domain.fire_planning import settle
from duly.domain.policies import WAITS, enter, schedule_gate
from duly.engine.dispatcher import background_lanes
from duly.engine.dispatcher.background_lanes import Backfilling
from duly.store import gates as shared_gates
from duly.store.gates import FREE, Gates
from duly.store.memory import ending, execution, firing, operating, reaping
from duly.store.memory import gates as memory_gates
from duly.store.memory import planning as memory_planning
from duly.store.memory.backfilling import MemoryBackfills
from duly.store.memory.gates import MemoryGates
from duly.store.memory.tables import Blocked, Outcome
from tests.simulation.mutants import patched
from tests.simulation.recipe import SECOND
from tests.simulation.simulation import Mutant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.domain.ids import RunId
    from tests.simulation.world import World

ORIGINAL_HOLDER = MemoryGates.holder
ORIGINAL_IS_OPEN = MemoryGates.is_stored_open
ORIGINAL_STOP = MemoryGates.stop
ORIGINAL_OPEN = Gates.open
ORIGINAL_ENTER = enter
ORIGINAL_GIVE_BACK = memory_gates.give_back
ORIGINAL_END = ending.end_claim
ORIGINAL_CLAIM = execution._claim  # noqa: SLF001 - a mutant is made inside
ORIGINAL_WRITE_SKIP = memory_planning.write_skip
ORIGINAL_FIND = MemoryBackfills.find
ORIGINAL_STEP = MemoryBackfills.step
ORIGINAL_TAKE_OUT = operating._take_out  # noqa: SLF001 - as above
ORIGINAL_SETTLE = settle


# Who holds a gate


def _holder_of_late(self, gate):
    """Lets a gate go that was held for ten seconds, as a lock with an expiry would."""
    found = ORIGINAL_HOLDER(self, gate)
    if found is not None and self._journal.now - self._tables.runs[found].created_at > 10 * SECOND:
        self._journal.remove(self._tables.held_gates, found)
        return None
    return found


def _lost_is_in_nobodys_way(self, run_id):
    """Forgets a run that was claimed once and is queued again: its worker was lost."""
    ready = self._tables.ready.get(run_id)
    return ORIGINAL_IS_OPEN(self, run_id) and (ready is None or not ready.tries.fence)


def _given_back_at_every_end(journal, run_id, claim, conclusion, **told):
    ORIGINAL_END(journal, run_id, claim, conclusion, **told)
    ORIGINAL_GIVE_BACK(journal, run_id)


def _dead_keep_theirs(journal, run_id, claim, conclusion, **told):
    gate = journal.tables.held_gates.get(run_id)
    ORIGINAL_END(journal, run_id, claim, conclusion, **told)
    if gate is not None and run_id in journal.tables.dead:
        journal.freed.discard(gate)
        journal.insert(journal.tables.held_gates, run_id, gate)


def _way_made_at_once(self, run_id, into):
    """Takes the gate from a run that was asked to stop and has not yet."""
    is_closed = ORIGINAL_STOP(self, run_id, into)
    if not is_closed:
        self._journal.remove(self._tables.held_gates, run_id)
    return True


def _nobody_elsewhere(self, comer):
    return None


def _last_is_who_came_last(journal, run_id):
    """A run that goes beside an open one takes its place in the schedule's memory."""
    tables = journal.tables
    schedule_id = tables.runs[run_id].schedule_id
    if schedule_id is not None:
        changed = replace(tables.schedules[schedule_id], active_run=run_id)
        journal.put(tables.schedules, schedule_id, changed)


@contextmanager
def _forgetful_go_ahead(_: World) -> Iterator[None]:
    with (
        mock.patch.object(memory_gates, "go_ahead", _last_is_who_came_last),
        mock.patch.object(operating, "go_ahead", _last_is_who_came_last),
        mock.patch("duly.store.memory.delayed.go_ahead", _last_is_who_came_last),
    ):
        yield


# Who is let go


def _two_at_once(self, gate):
    is_opened = ORIGINAL_OPEN(self, gate)
    waiting = self.waiting(gate)
    if is_opened and waiting:
        row = self._tables.blocked[waiting[0]]
        self._journal.remove(self._tables.blocked, waiting[0])
        self._journal.queue(waiting[0], self._tables.runs[waiting[0]].not_before, row.tries)
    return is_opened


def _beside_the_holder(self, gate):
    """Does not look again whether somebody has come meanwhile."""
    waiting = self.waiting(gate)
    if not waiting or self.holder(gate) is None:
        return ORIGINAL_OPEN(self, gate)
    row = self._tables.blocked[waiting[0]]
    self._journal.remove(self._tables.blocked, waiting[0])
    self._journal.queue(waiting[0], self._tables.runs[waiting[0]].not_before, row.tries)
    return True


@contextmanager
def _let_go_by_an_older_look(world: World) -> Iterator[None]:
    """Lets the next go in the statement that ends a run: it sees who waited when that began.

    And nobody looks again.
    """
    seen: dict[RunId, set[RunId]] = {}

    def claim(journal, run_id, worker):
        seen[run_id] = set(journal.tables.blocked)
        return ORIGINAL_CLAIM(journal, run_id, worker)

    def give_back(journal, run_id):
        gate = journal.tables.held_gates.get(run_id)
        ORIGINAL_GIVE_BACK(journal, run_id)
        gates = MemoryGates(journal)
        if gate is not None and seen.get(run_id, set()).intersection(gates.waiting(gate)):
            gates.open(gate)

    world.store._open = lambda *_: 0  # noqa: SLF001 - a mutant is made inside
    with (
        mock.patch.object(execution, "_claim", claim),
        mock.patch.object(ending, "give_back", give_back),
    ):
        yield


@contextmanager
def _left_closed(world: World) -> Iterator[None]:
    world.store.open_gates = lambda _: 0
    yield


def _by_coming_alone(self):
    return (0, self.number)


# What becomes of who comes


def _enter_two(policy, gate):
    if policy is Overlap.QUEUE_ONE and gate.waiting == 1:
        return WAITS
    return ORIGINAL_ENTER(policy, gate)


def _enter_and_keep_waiting(policy, gate):
    """Coalesces nobody."""
    entry = ORIGINAL_ENTER(policy, gate)
    return entry._replace(closes_waiting=None) if policy is Overlap.COALESCE else entry


def _closed_without_into(self, run_id, state, into):
    tries = self._tables.blocked[run_id].tries
    self._journal.remove(self._tables.blocked, run_id)
    outcome = Outcome(state, shared_gates.OVERLAP, self._journal.now, tries)
    self._journal.insert(self._tables.outcomes, run_id, outcome)


def _skip_without_into(journal, schedule_id, skip):
    ORIGINAL_WRITE_SKIP(journal, schedule_id, replace(skip, into=None))


def _not_skipped_at_all(journal, schedule_id, skip):
    if skip.reason not in {"overlap", "overflow"}:
        ORIGINAL_WRITE_SKIP(journal, schedule_id, skip)


def _cancelled_all_the_same(state, replaced_by):
    return state, None


def _by_schedule_alone(policy, tenant, schedule_id, serialize_by):
    return None if policy in {Overlap.ALLOW, Overlap.SKIP} else schedule_gate(schedule_id)


def _back_beside_others(journal, record):
    return FREE


def _cancelled_and_still_waiting(journal, run_id):
    row = journal.tables.blocked.get(run_id)
    ORIGINAL_TAKE_OUT(journal, run_id)
    if row is not None:
        journal.insert(journal.tables.blocked, run_id, row)


# Catch-up


def _drain_beside_others(journal, command, record):
    return True


def _drain_in_one_go(template, first, last, now, runs_max):
    return ORIGINAL_SETTLE(template, first, last, now, max(runs_max, 5))


# Backfills


def _all_is_missing(self, schedule_id, instants):
    return [Slot(instant, BackfillOccurrenceKind.MISSING) for instant in instants]


def _open_again_is_missing(self, schedule_id, instants):
    slots = ORIGINAL_CLASSIFY(self, schedule_id, instants)
    return [
        replace(slot, kind=BackfillOccurrenceKind.FAILED)
        if slot.kind is BackfillOccurrenceKind.IN_FLIGHT
        else slot
        for slot in slots
    ]


ORIGINAL_CLASSIFY = MemoryBackfills.classify


def _never_paused(self, backfill_id):
    record = ORIGINAL_FIND(self, backfill_id)
    if record is None or record.status is not BackfillStatus.PAUSED:
        return record
    return replace(record, status=BackfillStatus.ACTIVE)


def _nothing_open(self, backfill_id):
    record = ORIGINAL_FIND(self, backfill_id)
    return None if record is None else replace(record, open=0)


def _step_from_anywhere(self, command):
    record = self.find(command.id)
    if record is not None and record.cursor is not None:
        command = replace(command, expected_cursor=record.cursor)
    return ORIGINAL_STEP(self, command)


def _done_too_soon(self, command):
    return ORIGINAL_STEP(self, replace(command, slots=command.slots[:1], cursor=None))


def _ended_without_last(self, command):
    """Takes the end of a step for one before its last occurrence."""
    if len(command.slots) > 1:
        command = replace(command, slots=command.slots[:-1])
    return ORIGINAL_STEP(self, command)


def _as_fast_as_can_be(self, record, monotonic):
    pace = self._paces[record.id]
    pace.allowed_us = 3600 * SECOND
    pace.counted_at = monotonic
    return max(pace.wait_until, monotonic)


def _of_the_deleted(self, schedule_id):
    record = self._tables.schedules.get(schedule_id)
    return None if record is None else replace(record, status="active")


def _ending(new: Any) -> Any:
    @contextmanager
    def patch(_: World) -> Iterator[None]:
        with (
            mock.patch.object(execution, "end_claim", new),
            mock.patch.object(reaping, "end_claim", new),
        ):
            yield

    return patch


POLICY_MUTANTS = (
    Mutant(
        "a gate expires by time", shows_in=88, patch=patched(MemoryGates, "holder", _holder_of_late)
    ),
    Mutant(
        "a lost run is in nobody's way",
        shows_in=2,
        patch=patched(MemoryGates, "is_stored_open", _lost_is_in_nobodys_way),
    ),
    Mutant("a gate is given back at a retry", shows_in=52, patch=_ending(_given_back_at_every_end)),
    Mutant("the dead keep their gates", shows_in=133, patch=_ending(_dead_keep_theirs)),
    Mutant(
        "way is made at once", shows_in=21, patch=patched(MemoryGates, "stop", _way_made_at_once)
    ),
    Mutant(
        "a changed policy forgets who is open",
        shows_in=31,
        patch=patched(Gates, "_went_elsewhere", _nobody_elsewhere),
    ),
    Mutant("an override takes the place of the open run", shows_in=14, patch=_forgetful_go_ahead),
    Mutant("two are let go at once", shows_in=9, patch=patched(Gates, "open", _two_at_once)),
    Mutant(
        "let go beside the holder", shows_in=21, patch=patched(Gates, "open", _beside_the_holder)
    ),
    Mutant("let go in the statement that ends a run", shows_in=7, patch=_let_go_by_an_older_look),
    Mutant("a gate that was left closed stays so", shows_in=2, patch=_left_closed),
    Mutant(
        "who waits goes by coming alone",
        shows_in=93,
        patch=patched(Blocked, "place", property(_by_coming_alone)),
    ),
    Mutant(
        "two wait under queue-one", shows_in=59, patch=patched(shared_gates, "enter", _enter_two)
    ),
    Mutant(
        "coalesce closes nobody",
        shows_in=31,
        patch=patched(shared_gates, "enter", _enter_and_keep_waiting),
    ),
    Mutant(
        "coalesced into nobody",
        shows_in=31,
        patch=patched(MemoryGates, "close_waiting", _closed_without_into),
    ),
    Mutant(
        "skipped because of nobody",
        shows_in=42,
        patch=patched(memory_planning, "write_skip", _skip_without_into),
    ),
    Mutant(
        "passed over and not on record",
        shows_in=42,
        patch=patched(memory_planning, "write_skip", _not_skipped_at_all),
    ),
    Mutant(
        "replaced is told as cancelled",
        shows_in=21,
        patch=patched(ending, "closed_state", _cancelled_all_the_same),
    ),
    Mutant(
        "a key is not shared",
        shows_in=14,
        patch=patched(shared_gates, "gate_of", _by_schedule_alone),
    ),
    Mutant(
        "the dead come back beside others",
        shows_in=21,
        patch=patched(operating, "_come_again", _back_beside_others),
    ),
    Mutant(
        "cancelled and still waiting",
        shows_in=85,
        patch=patched(operating, "_take_out", _cancelled_and_still_waiting),
    ),
    Mutant(
        "catch-up ignores a held gate",
        shows_in=42,
        patch=patched(firing, "_may_drain", _drain_beside_others),
    ),
    Mutant(
        "a range is drained at one go",
        shows_in=7,
        patch=patched(background_lanes, "settle", _drain_in_one_go),
    ),
    Mutant(
        "a step without the lease",
        shows_in=7,
        patch=patched(MemoryBackfills, "is_ours", lambda *_: True),
    ),
    Mutant(
        "a backfill forgets what exists",
        shows_in=2,
        patch=patched(MemoryBackfills, "classify", _all_is_missing),
    ),
    Mutant(
        "a backfill repeats what is open",
        shows_in=14,
        patch=patched(MemoryBackfills, "classify", _open_again_is_missing),
    ),
    Mutant(
        "a paused backfill goes on",
        shows_in=31,
        patch=patched(MemoryBackfills, "find", _never_paused),
    ),
    Mutant(
        "a backfill has no concurrency",
        shows_in=85,
        patch=patched(MemoryBackfills, "find", _nothing_open),
    ),
    Mutant(
        "a step is done from anywhere",
        shows_in=123,
        patch=patched(MemoryBackfills, "step", _step_from_anywhere),
    ),
    Mutant(
        "a backfill is done too soon",
        shows_in=42,
        patch=patched(MemoryBackfills, "step", _done_too_soon),
    ),
    Mutant(
        "a step leaves its last out",
        shows_in=42,
        patch=patched(MemoryBackfills, "step", _ended_without_last),
    ),
    Mutant(
        "a backfill has no rate",
        shows_in=60,
        patch=patched(Backfilling, "_next_at", _as_fast_as_can_be),
    ),
    Mutant(
        "a backfill of the deleted goes on",
        shows_in=68,
        patch=patched(MemoryBackfills, "schedule", _of_the_deleted),
    ),
)
