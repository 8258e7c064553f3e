"""What becomes of a run that comes while an earlier one is open."""

from __future__ import annotations

from duly.domain.enums import Overlap, RunState, SkipReason
from duly.domain.ids import ScheduleId
from duly.domain.policies import (
    GATELESS,
    GOES,
    WAITING_MAX,
    WAITS,
    Gate,
    GateEntry,
    GateEntryOutcome,
    enter,
    gate_of,
    key_gate,
    may_go_on,
)
from tests.each_row import each_row

FREE, TAKEN = Gate(is_held=False, waiting=0), Gate(is_held=True, waiting=0)
ONE_WAITS, FULL = Gate(is_held=True, waiting=1), Gate(is_held=True, waiting=WAITING_MAX)
SKIPPED = GateEntry(GateEntryOutcome.SKIPPED, SkipReason.OVERLAP)
OVERFLOWN = GateEntry(GateEntryOutcome.SKIPPED, SkipReason.OVERFLOW)
COALESCES = GateEntry(GateEntryOutcome.WAITS, closes_waiting=RunState.COALESCED)
REPLACES = GateEntry(GateEntryOutcome.WAITS, closes_waiting=RunState.REPLACED, stops_holder=True)
SCHEDULE = ScheduleId(bytes(range(16)))


@each_row("policy", Overlap)
def test_who_finds_nobody_goes(policy: Overlap):
    assert enter(policy, FREE) == GOES


@each_row(
    ("policy", "taken", "one_waits", "full"),
    [
        (Overlap.ALLOW, GOES, GOES, GOES),
        (Overlap.SKIP, SKIPPED, SKIPPED, SKIPPED),
        (Overlap.QUEUE_ONE, WAITS, OVERFLOWN, OVERFLOWN),
        (Overlap.QUEUE_ALL, WAITS, WAITS, OVERFLOWN),
        (Overlap.SERIALIZE, WAITS, WAITS, OVERFLOWN),
        (Overlap.COALESCE, COALESCES, COALESCES, COALESCES),
        (Overlap.REPLACE, REPLACES, REPLACES, REPLACES),
    ],
)
def test_each_policy_decides_by_who_is_open_and_who_waits(
    policy: Overlap, taken: GateEntry, one_waits: GateEntry, full: GateEntry
):
    """INV-8."""
    assert [enter(policy, gate) for gate in (TAKEN, ONE_WAITS, FULL)] == [taken, one_waits, full]


@each_row("policy", [one for one in Overlap if one not in GATELESS])
def test_nobody_overtakes_those_who_wait_for_a_line_that_has_just_come_free(policy: Overlap):
    """The first that waits is about to go; a newcomer stands behind it, or in its place."""
    between = Gate(is_held=False, waiting=1)

    assert enter(policy, between).coming is not GateEntryOutcome.GOES
    assert may_go_on(between)


def test_the_first_that_waits_goes_only_when_the_line_is_free():
    assert not may_go_on(FREE)
    assert not may_go_on(ONE_WAITS)


def test_gates_are_told_apart_by_schedule_and_by_tenant_and_key():
    """A key of one tenant holds up nobody else's."""
    assert gate_of(Overlap.SKIP, "a", SCHEDULE, None) is None
    assert gate_of(Overlap.QUEUE_ALL, "a", SCHEDULE, None) == f"schedule:{SCHEDULE.hex()}"
    assert gate_of(Overlap.SERIALIZE, "a", SCHEDULE, "b") == key_gate("a", "b")
    assert key_gate("a:b", "c") != key_gate("a", "b:c")
