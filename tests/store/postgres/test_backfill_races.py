"""Races about backfills, held in the middle on purpose: steps, fires, orders."""

from __future__ import annotations

import pytest

from duly.domain.backfill import BackfillOccurrenceKind, BackfillStatus
from duly.domain.enums import Lane, Overlap, ScheduleStatus
from duly.domain.ids import occurrence_run_id
from duly.store.ports.dispatch import FireResult
from duly_conformance import backfills as kit
from duly_conformance import steps
from duly_conformance.kit import on_time
from tests.store.postgres.turnstile import LIMIT_S

FIRED, GONE, FENCED = FireResult.FIRED, FireResult.GONE, FireResult.FENCED
NOTES = "duly.backfill_slots"
"""Written by a step after its runs, and before its cursor."""


pytestmark = pytest.mark.usefixtures("patient")


@pytest.fixture
def store(patient_store):
    return patient_store


def deleting(store, record):
    """Return an order to delete a schedule, decided on what is known now."""
    seen = steps.look(store, record)
    return lambda: steps.delete(store, seen)


def expected_ids(record):
    return [occurrence_run_id(record.id, instant) for instant in kit.instants(record)]


# Steps beside steps


def test_of_the_same_step_sent_many_times_at_once_one_is_done(store, clock, watch):
    """INV-17: whoever comes second finds the cursor elsewhere."""
    record = kit.past(store, clock)
    backfill = kit.begun(store, record)
    fence = steps.own(store)

    def step():
        return kit.step_from(store, backfill, fence, count=2)

    stepped = watch.at_once(*[step] * 4)

    results = sorted(one.result for one in stepped)
    assert [FIRED, GONE, GONE, GONE] == results
    assert expected_ids(record)[:2] == [run.id for run in kit.runs_of(store, record)]
    assert 2 == kit.seen(store, backfill).looked_at
    assert [] == store.check()


@pytest.mark.parametrize("policy", [Overlap.ALLOW, Overlap.SERIALIZE])
def test_two_backfills_of_one_span_make_each_run_once(store, clock, watch, policy):
    """INV-3: the second waits for what the first is about to make, and looks again."""
    parts = {"serialize_by": "account:7"} if policy is Overlap.SERIALIZE else {}
    record = kit.past(store, clock, overlap=policy, **parts)
    first, second = kit.begun(store, record), kit.begun(store, record, name="second")
    fence = steps.own(store)
    watch.put_turnstile("INSERT", NOTES)
    early = watch.start(lambda: kit.step_from(store, first, fence, count=100))
    assert watch.stands_at_the_turnstile()
    late = watch.start(lambda: kit.step_from(store, second, fence, count=100))
    assert watch.is_blocked()
    watch.open_turnstile()

    assert (FIRED, kit.SLOTS) == (early.result(LIMIT_S).result, early.result().made)
    assert (FIRED, 0) == (late.result(LIMIT_S).result, late.result().made)
    assert expected_ids(record) == [run.id for run in kit.runs_of(store, record)]
    kinds = {slot.kind for slot in store.list_slots(second.id, None, 100)}
    assert {BackfillOccurrenceKind.IN_FLIGHT} == kinds
    assert [] == store.check()


def test_who_lost_the_lease_while_another_steps_makes_nothing(store, clock, watch):
    """INV-5: a step that is under way is waited for; none comes after the takeover."""
    record = kit.past(store, clock)
    backfill = kit.begun(store, record)
    old = steps.own(store)
    watch.put_turnstile("INSERT", NOTES)
    stepping = watch.start(lambda: kit.step_from(store, backfill, old, count=2))
    assert watch.stands_at_the_turnstile()
    leaving = watch.start(lambda: store.leave(old.member))
    assert watch.is_blocked()
    watch.open_turnstile()
    assert FIRED is stepping.result(LIMIT_S).result
    leaving.result(LIMIT_S)
    new = steps.own(store)

    assert FENCED is kit.step(store, backfill, fence=old).result
    assert (FIRED, kit.SLOTS - 2) == (kit.step(store, backfill, fence=new).result, 3)
    assert expected_ids(record) == [run.id for run in kit.runs_of(store, record)]


def test_the_same_backfill_written_down_many_times_at_once_is_one(store, clock, watch):
    """INV-17: whoever is overtaken finds what the other has written."""
    record = kit.past(store, clock)

    made = watch.at_once(*[lambda: kit.begun(store, record)] * 4)

    assert [made[0]] * 4 == made
    assert [made[0]] == store.list_backfills(record.tenant, None, 10)
    entries = steps.audit(store, subject_id=made[0].id)
    assert ["backfill.created"] == [entry.action for entry in entries]


# Fires beside steps


def test_a_fire_does_not_wait_for_a_step_of_its_schedule(store, clock, watch):
    """What is due now is punctual, and what it makes is not made again."""
    record = steps.create(store)
    steps.fall_due(clock, record)
    assert record.pending is not None
    due = record.pending.scheduled_for
    backfill = kit.begun(store, record, until=due + 1)
    fence = steps.own(store)
    watch.put_turnstile("INSERT", NOTES)
    stepping = watch.start(lambda: kit.step_from(store, backfill, fence, count=100))
    assert watch.stands_at_the_turnstile()

    assert (FIRED,) == steps.fire(store, fence, on_time(record)).results
    watch.open_turnstile()
    assert FIRED is stepping.result(LIMIT_S).result
    ids = [run.id for run in kit.runs_of(store, record)]
    assert len(set(ids)) == len(ids)
    last = store.list_slots(backfill.id, None, 100)[-1]
    assert (due, BackfillOccurrenceKind.IN_FLIGHT, None) == last
    assert [] == store.check()


def test_a_step_beside_an_open_fire_passes_its_occurrence_over(store, clock, watch):
    """INV-3: it is pending until the fire is committed, and has its run afterwards."""
    record = steps.create(store)
    steps.fall_due(clock, record)
    assert record.pending is not None
    due = record.pending.scheduled_for
    backfill = kit.begun(store, record, since=due, until=due + 1, total=1)
    fence = steps.own(store)
    watch.put_turnstile("INSERT", "duly.ready")
    firing = watch.start(lambda: steps.fire(store, fence, on_time(record)))
    assert watch.stands_at_the_turnstile()

    stepped = kit.step_from(store, backfill, fence, count=100)
    watch.open_turnstile()
    assert (FIRED, 0) == (stepped.result, stepped.made)
    assert (FIRED,) == firing.result(LIMIT_S).results
    assert 1 == len(kit.runs_of(store, record))


# Orders beside steps


@pytest.mark.parametrize("status", [BackfillStatus.CANCELLED, BackfillStatus.PAUSED])
def test_an_order_waits_for_a_step_and_keeps_what_it_did(store, clock, watch, status):
    """The runs that were made are counted, and no more come."""
    record = kit.past(store, clock)
    backfill = kit.begun(store, record)
    fence = steps.own(store)
    watch.put_turnstile("INSERT", NOTES)
    stepping = watch.start(lambda: kit.step_from(store, backfill, fence, count=2))
    assert watch.stands_at_the_turnstile()
    ordering = watch.start(lambda: kit.order(store, backfill, status=status))
    assert watch.is_blocked()
    watch.open_turnstile()

    assert FIRED is stepping.result(LIMIT_S).result
    ordered = ordering.result(LIMIT_S)
    assert (status, 2, 2) == (ordered.status, ordered.made, ordered.looked_at)
    assert kit.instants(record)[2] == ordered.cursor
    assert GONE is kit.step(store, backfill, fence=fence).result
    assert 2 == len(kit.runs_of(store, record))


def test_a_step_that_comes_after_an_order_makes_nothing(store, clock, watch):
    """It waits for the order, and finds that it is called off."""
    record = kit.past(store, clock)
    backfill = kit.begun(store, record)
    fence = steps.own(store)
    watch.put_turnstile("INSERT", "duly.audit")
    status = BackfillStatus.CANCELLED
    ordering = watch.start(lambda: kit.order(store, backfill, status=status))
    assert watch.stands_at_the_turnstile()
    stepping = watch.start(lambda: kit.step_from(store, backfill, fence, count=2))
    assert watch.is_blocked()
    watch.open_turnstile()

    assert BackfillStatus.CANCELLED is ordering.result(LIMIT_S).status
    assert GONE is stepping.result(LIMIT_S).result
    assert [] == kit.runs_of(store, record)


def test_a_deletion_waits_for_a_step_and_none_comes_after_it(store, clock, watch):
    """INV-13: what was made before stays; nothing is made of a deleted schedule."""
    record = kit.past(store, clock)
    backfill = kit.begun(store, record)
    fence = steps.own(store)
    delete = deleting(store, record)
    watch.put_turnstile("INSERT", NOTES)
    stepping = watch.start(lambda: kit.step_from(store, backfill, fence, count=2))
    assert watch.stands_at_the_turnstile()
    ending = watch.start(delete)
    assert watch.is_blocked()
    watch.open_turnstile()

    assert 2 == stepping.result(LIMIT_S).made
    assert ScheduleStatus.DELETED is ending.result(LIMIT_S).status
    assert GONE is kit.step(store, backfill, fence=fence).result
    assert BackfillStatus.CANCELLED is kit.seen(store, backfill).status
    assert 2 == len(kit.runs_of(store, record))


def test_a_step_waits_for_a_deletion_and_calls_the_backfill_off(store, clock, watch):
    """INV-13."""
    record = kit.past(store, clock)
    backfill = kit.begun(store, record)
    fence = steps.own(store, (Lane.BACKFILL,))
    delete = deleting(store, record)
    watch.put_turnstile("INSERT", "duly.audit")
    ending = watch.start(delete)
    assert watch.stands_at_the_turnstile()
    stepping = watch.start(lambda: kit.step_from(store, backfill, fence, count=2))
    assert watch.is_blocked()
    watch.open_turnstile()

    assert ScheduleStatus.DELETED is ending.result(LIMIT_S).status
    assert GONE is stepping.result(LIMIT_S).result
    assert BackfillStatus.CANCELLED is kit.seen(store, backfill).status
    assert [] == kit.runs_of(store, record)
