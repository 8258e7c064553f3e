"""Races at gates, held in the middle on purpose: who comes, who ends, who is let go (INV-8)."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from threading import Lock

import psycopg
import pytest

from duly.domain.enums import Lane, Origin, Overlap, RunState
from duly.domain.outcomes import CancelledEnd, Failed, ReturnedToQueue, Succeeded
from duly.domain.runs import Reason
from duly.domain.schedule_changes import decide_edit
from duly.errors import Conflict
from duly.store.ports.dispatch import FireResult
from duly.store.ports.execution import FinishResult, Heartbeat
from duly.store.ports.schedules import Stale
from duly.store.postgres import gates
from duly_conformance import steps
from duly_conformance import steps as work
from duly_conformance.kit import (
    HOUR_US,
    add_runs,
    cancel_run,
    change_of,
    new_run,
    on_time,
    order_runs,
)
from duly_conformance.steps import fired, made, runs_of, states, work_off
from tests.store.postgres.turnstile import LIMIT_S, patience, replaced

ACCEPTED = FinishResult.ACCEPTED
FIRED, GONE, BUSY = FireResult.FIRED, FireResult.GONE, FireResult.BUSY
LONG_US = 1000 * HOUR_US
OLD_CLAIM = """EXISTS (
    SELECT 1 FROM duly.claims c
    WHERE c.run_id = {} AND c.claimed_at < duly.now_us() - 60000000)"""
OPEN_AND_AHEAD = """
SELECT count(*) FROM duly.runs r
WHERE NOT EXISTS (SELECT 1 FROM duly.outcomes o WHERE o.run_id = r.id)
    AND NOT EXISTS (SELECT 1 FROM duly.dead x WHERE x.run_id = r.id)
    AND NOT EXISTS (SELECT 1 FROM duly.blocked b WHERE b.run_id = r.id)"""


@pytest.fixture
def store(patient_store):
    return patient_store


@pytest.fixture
def patient():
    with patience(), replaced(gates, "WAIT_FOR_DECISIONS", "100ms", "60s"):
        yield


def hold_at(watch, table):
    """Hold whoever writes a row of a table: statements that leave all as it is pass by."""
    watch.put_turnstile("INSERT", table, each="ROW")


def begin(store, worker=None):
    """Claim the one run that is queued."""
    worker = worker or work.join_worker(store, ttl_us=LONG_US)
    return worker, work.take_one(store, worker)


def fire(store, clock, record):
    """Return what fires a schedule once: its clock is set and its owner known beforehand."""
    steps.fall_due(clock, record)
    for member in {lease.owner for lease in store.status().leases} - {None}:
        store.leave(member)
    fence = steps.own(store, (Lane.LIVE,), ttl_us=LONG_US)
    return lambda: steps.fire(store, fence, on_time(record)).results


def by_hand(store, record, text, overlap=None):
    """Return what asks for a run of a schedule."""
    new = new_run(
        None,
        text,
        call=record.definition.call,
        origin=Origin.MANUAL,
        lane=Lane.LIVE,
        schedule_id=record.id,
        definition_number=record.definition_number,
        overlap=overlap,
    )
    return lambda: store.add_runs(add_runs(new))[0].id


# Two who come at once


def test_of_two_that_come_to_a_gate_at_once_one_goes(store, clock, watch):
    """A dispatcher does not wait for another; who was passed over comes again, and waits."""
    one = fired(store, clock, Overlap.SERIALIZE)
    assert 1 == work_off(store)
    two = made(store, Overlap.SERIALIZE, "two")
    steps.fall_due(clock, one)
    fence = steps.own(store, (Lane.LIVE,), ttl_us=LONG_US)
    hold_at(watch, "duly.runs")
    first = watch.start(lambda: steps.fire(store, fence, on_time(one)).results)
    assert watch.stands_at_the_turnstile()

    assert (BUSY,) == steps.fire(store, fence, on_time(two)).results
    watch.open_turnstile()
    assert (FIRED,) == first.result(LIMIT_S)
    assert (FIRED,) == steps.fire(store, fence, on_time(two)).results
    assert ["succeeded", "queued"] == states(store, one)
    assert ["blocked"] == states(store, two)
    assert [] == store.check()


def test_one_gate_that_is_held_up_holds_up_no_other(store, clock, watch):
    """The others of its batch fire."""
    held = made(store, Overlap.QUEUE_ALL, "held")
    free = made(store, Overlap.QUEUE_ALL, "free")
    for record in (held, free):
        steps.fire_due(store, clock, record)
    held, free = steps.look(store, held), steps.look(store, free)
    steps.fall_due(clock, held)
    fence = steps.own(store, (Lane.LIVE,), ttl_us=LONG_US)
    lock = "SELECT 1 FROM duly.gates WHERE name = %s FOR UPDATE"
    with watch.holding(lock, [f"schedule:{held.id.hex()}"]):
        results = steps.fire(store, fence, on_time(held), on_time(free)).results

    assert (BUSY, FIRED) == results


@pytest.mark.parametrize("policy", [Overlap.QUEUE_ALL, Overlap.SERIALIZE, Overlap.COALESCE])
def test_who_comes_by_hand_waits_for_a_fire_that_is_under_way(store, clock, watch, policy):
    """It finds the run that the fire makes, though it began before that was there."""
    record = made(store, policy)
    firing = fire(store, clock, record)
    hold_at(watch, "duly.runs")
    fired_first = watch.start(firing)
    assert watch.stands_at_the_turnstile()
    second = watch.start(by_hand(store, record, "by hand"))

    assert watch.is_blocked()
    watch.open_turnstile()
    assert (FIRED,) == fired_first.result(LIMIT_S)
    assert RunState.BLOCKED is work.get_run(store, second.result(LIMIT_S)).state
    assert 1 == work_off(store)
    assert [] == store.check()


@pytest.mark.parametrize("policy", [Overlap.SKIP, Overlap.QUEUE_ONE])
def test_a_fire_finds_a_run_by_hand_that_was_under_way(store, clock, watch, policy):
    """The plain statement has waited for the schedule's row, and goes by what is there now."""
    record = fired(store, clock, policy)
    assert 1 == work_off(store)
    firing = fire(store, clock, record)
    hold_at(watch, "duly.runs")
    first = watch.start(by_hand(store, record, "by hand"))
    assert watch.stands_at_the_turnstile()
    second = watch.start(firing)

    if policy is Overlap.SKIP:
        # The other one has no plain fires: it passes over what somebody holds.
        assert watch.is_blocked()
    watch.open_turnstile()
    first.result(LIMIT_S)
    while second.result(LIMIT_S) == (BUSY,):
        second = watch.start(firing)
    assert (FIRED,) == second.result(LIMIT_S)
    assert 1 == watch.value(OPEN_AND_AHEAD)
    assert 1 == steps.look(store, record).overlaps
    assert [] == store.check()


def test_who_comes_with_several_never_waits_in_a_circle(store, clock, watch):
    """Gates are locked in the order of their names, whatever the order they are asked in."""
    one, two = (
        made(store, Overlap.SERIALIZE, name, serialize_by=f"account:{name}") for name in "ab"
    )

    def asking(records, text):
        new = [
            new_run(
                None,
                f"{text} {record.name}",
                call=record.definition.call,
                origin=Origin.MANUAL,
                schedule_id=record.id,
                definition_number=1,
            )
            for record in records
        ]
        return lambda: store.add_runs(add_runs(*new))

    for number in range(10):
        watch.at_once(asking((one, two), f"there {number}"), asking((two, one), f"back {number}"))

    assert 2 == watch.value(OPEN_AND_AHEAD)
    assert 38 == watch.value("SELECT count(*) FROM duly.blocked")
    assert [] == store.check()


# Who comes while another ends


def arrive_while_another_ends(store, clock, watch):
    """Let a run come to a gate whose holder's end is not committed; return the run's state."""
    record = fired(store, clock, Overlap.QUEUE_ALL)
    worker, claimed = begin(store)
    firing = fire(store, clock, record)
    hold_at(watch, "duly.outcomes")
    ending = watch.start(lambda: work.end(store, worker, claimed, Succeeded()))
    assert watch.stands_at_the_turnstile()
    # What it sees is a gate that is held.
    assert (FIRED,) == firing()
    assert ["running", "blocked"] == states(store, record)
    watch.open_turnstile()
    assert ACCEPTED is ending.result(LIMIT_S)
    return states(store, record)[1]


def end_while_another_arrives(store, clock, watch):
    """Let a holder end while another, who has seen it, is not committed; return that one's state."""
    record = fired(store, clock, Overlap.QUEUE_ALL)
    worker, claimed = begin(store)
    firing = fire(store, clock, record)
    hold_at(watch, "duly.runs")
    arriving = watch.start(firing)
    assert watch.stands_at_the_turnstile()
    ending = watch.start(lambda: work.end(store, worker, claimed, Succeeded()))
    assert watch.is_blocked_unless(ending.done)
    watch.open_turnstile()
    assert (FIRED,) == arriving.result(LIMIT_S)
    assert ACCEPTED is ending.result(LIMIT_S)
    return states(store, record)[1]


@pytest.mark.parametrize("race", [arrive_while_another_ends, end_while_another_arrives])
def test_a_run_that_comes_while_the_end_is_being_committed_is_not_forgotten(
    store, clock, watch, race
):
    """Whoever ended the run lets it go, and nobody has to come by."""
    assert "queued" == race(store, clock, watch)
    assert 0 == store.open_gates(10)
    assert [] == store.check()


def test_who_looks_before_the_other_has_committed_forgets_it(store, clock, watch):
    """The race is one: without waiting for who decides, a run waits until maintenance comes by."""
    waits = gates.WAIT_FOR_DECISIONS
    looking = "SELECT 1 WHERE $1::text[] IS NOT NULL"
    with replaced(gates, "WAIT_FOR_DECISIONS", waits, looking):
        assert "blocked" == end_while_another_arrives(store, clock, watch)

    assert 1 == store.open_gates(10)
    assert [] == store.check()


def test_who_lets_another_go_in_the_statement_that_ends_forgets_one_that_comes(store, clock, watch):
    """The race is one: a look from before the commit does not see who has come meanwhile."""
    record = fired(store, clock, Overlap.QUEUE_ALL)
    _, claimed = begin(store)
    run_id = claimed.record.id.hex()
    close_and_let_go = """
    WITH over AS (DELETE FROM duly.claims WHERE run_id = %(run)s RETURNING run_id, fence, attempt),
    closed AS (
        INSERT INTO duly.outcomes (run_id, finished_at, state, fence, attempt)
        SELECT run_id, duly.now_us(), 'succeeded', fence, attempt FROM over),
    freed AS (DELETE FROM duly.held_gates WHERE run_id = %(run)s RETURNING gate)
    SELECT b.run_id FROM duly.blocked b, freed f WHERE b.gate = f.gate"""
    firing = fire(store, clock, record)
    with watch.holding("SELECT 1", []) as ending:
        found = ending.execute(close_and_let_go.encode(), {"run": run_id}).fetchall()
        assert (FIRED,) == firing()
        ending.commit()

    assert [] == found
    assert ["succeeded", "blocked"] == states(store, record)


@pytest.mark.parametrize("end", [Succeeded(), Failed("again", after_us=HOUR_US)])
def test_a_gate_is_kept_through_another_attempt_and_given_back_after_it(store, clock, end):
    """The retry is queued with its gate, so its end is looked at by itself."""
    record = fired(store, clock, Overlap.QUEUE_ALL, times=2)
    worker, claimed = begin(store)
    work.end(store, worker, claimed, Failed("again", after_us=1))
    work.fire_retries(store, clock)
    _, claimed = begin(store, worker)

    work.end(store, worker, claimed, end)

    expected = "queued" if isinstance(end, Succeeded) else "blocked"
    assert expected == states(store, record)[1]


def test_whom_somebody_cancels_is_not_let_go_as_well(store, clock, watch):
    """Who takes a run away from a gate has locked it; who lets the next go waits for him."""
    record = fired(store, clock, Overlap.QUEUE_ALL, times=3)
    _, second, third = runs_of(store, record)
    worker, claimed = begin(store)
    # Held after the place at the gate was left, and before the run is closed.
    hold_at(watch, "duly.audit")
    cancelling = watch.start(lambda: store.cancel_run(cancel_run(second.id)))
    assert watch.stands_at_the_turnstile()
    ending = watch.start(lambda: work.end(store, worker, claimed, Succeeded()))

    assert watch.is_blocked()
    watch.open_turnstile()
    assert RunState.CANCELLED is cancelling.result(LIMIT_S).state
    assert ACCEPTED is ending.result(LIMIT_S)
    assert ["succeeded", "cancelled", "queued"] == states(store, record)
    assert RunState.QUEUED is work.get_run(store, third.id).state
    assert [] == store.check()


def test_two_that_let_go_at_once_let_one_go(store, clock, watch):
    """INV-8: whoever ended a run, and maintenance, which finds the same gate."""
    record = fired(store, clock, Overlap.QUEUE_ALL, times=4)
    worker, claimed = begin(store)
    # As if whoever ended it had died before he looked.
    with replaced(
        gates, "FIRST_THERE", "u(name)", "u(name) JOIN (SELECT 1 WHERE false) no ON true"
    ):
        work.end(store, worker, claimed, Succeeded())
    assert ["succeeded", "blocked", "blocked", "blocked"] == states(store, record)

    opened = watch.at_once(*[lambda: store.open_gates(10)] * 4)

    assert 1 == sum(opened)
    assert ["succeeded", "queued", "blocked", "blocked"] == states(store, record)
    assert [] == store.check()


# Who takes another's place


def test_one_that_ends_beside_its_replacement_leaves_it_the_gate(store, clock, watch):
    """It was about to be asked to stop, and is over; the newcomer goes at once."""
    record = fired(store, clock, Overlap.REPLACE)
    worker, claimed = begin(store)
    firing = fire(store, clock, record)
    hold_at(watch, "duly.outcomes")
    ending = watch.start(lambda: work.end(store, worker, claimed, Succeeded()))
    assert watch.stands_at_the_turnstile()
    replacing = watch.start(firing)

    assert watch.is_blocked()
    watch.open_turnstile()
    assert ACCEPTED is ending.result(LIMIT_S)
    assert (FIRED,) == replacing.result(LIMIT_S)
    assert ["succeeded", "queued"] == states(store, record)
    assert 0 == watch.value("SELECT count(*) FROM duly.blocked")
    assert [] == store.check()


@pytest.mark.parametrize(
    ("end", "state"), [(CancelledEnd(), "replaced"), (Succeeded(), "succeeded")]
)
def test_one_that_ends_after_it_was_asked_to_make_way_says_for_whom(
    store, clock, watch, end, state
):
    """The end's statement began before that was asked, and goes by what is there now."""
    record = fired(store, clock, Overlap.REPLACE)
    worker, claimed = begin(store)
    firing = fire(store, clock, record)
    hold_at(watch, "duly.runs")
    replacing = watch.start(firing)
    assert watch.stands_at_the_turnstile()
    ending = watch.start(lambda: work.end(store, worker, claimed, end))

    assert watch.is_blocked()
    watch.open_turnstile()
    assert (FIRED,) == replacing.result(LIMIT_S)
    assert ACCEPTED is ending.result(LIMIT_S)
    first, second = runs_of(store, record)
    assert [state, "queued"] == states(store, record)
    assert (second.id if state == "replaced" else None) == first.into
    assert [] == store.check()


def test_one_that_is_being_claimed_is_asked_to_stop(store, clock, watch):
    """It has left the queue; whoever looked for it there finds it where it is now."""
    record = fired(store, clock, Overlap.REPLACE)
    worker = work.join_worker(store, ttl_us=LONG_US)
    firing = fire(store, clock, record)
    hold_at(watch, "duly.claims")
    claiming = watch.start(lambda: work.take_one(store, worker))
    assert watch.stands_at_the_turnstile()
    replacing = watch.start(firing)

    assert watch.is_blocked()
    watch.open_turnstile()
    claimed = claiming.result(LIMIT_S)
    assert (FIRED,) == replacing.result(LIMIT_S)
    assert ["running", "blocked"] == states(store, record)
    (stop,) = store.beat(Heartbeat(worker=worker, holds=(claimed.hold,))).stops
    assert (claimed.hold, "cancel") == (stop.hold, stop.kind)
    assert ACCEPTED is work.end(store, worker, claimed, CancelledEnd())
    assert ["replaced", "queued"] == states(store, record)
    assert [] == store.check()


# A worker that is lost, and runs on


def fire_beside_a_lost_one(store, clock):
    """Let an occurrence come an hour after the open run's worker was lost; say how many run."""
    record = fired(store, clock, Overlap.QUEUE_ALL)
    begin(store, work.join_worker(store))
    record = steps.fire_due(store, clock, record)
    work.take(store, work.join_worker(store))
    return states(store, record).count("running")


def test_a_gate_is_not_opened_by_time(store, clock):
    """INV-8: the lost worker may still be at it."""
    assert 1 == fire_beside_a_lost_one(store, clock)


def test_a_gate_that_expires_lets_two_run(store, clock):
    """The contract would notice: the defect that it is about is one."""
    old = OLD_CLAIM.format("h.run_id")
    expiring = f"h.run_id IS NOT NULL AND {old} OR h.run_id IS NOT NULL AND"
    is_open = f"WHERE NOT {OLD_CLAIM.format('r.id')} AND r.id"
    with (
        replaced(gates, "READ_GATES", "h.run_id IS NOT NULL AND", expiring),
        replaced(gates, "THOSE_OPEN", "WHERE r.id", is_open),
    ):
        assert 2 == fire_beside_a_lost_one(store, clock)


@pytest.mark.parametrize("policy", [Overlap.QUEUE_ALL, Overlap.SKIP])
def test_an_occurrence_that_comes_while_a_lost_claim_is_settled_finds_its_run(
    store, clock, watch, policy
):
    """INV-8: it goes from the claims to those that wait for another attempt, and is open."""
    record = fired(store, clock, policy)
    begin(store, work.join_worker(store))
    steps.fall_due(clock, record)
    assert 1 == len(work.lost_claims(store))
    firing, maintenance = fire(store, clock, record), work.maintain(store)
    hold_at(watch, "duly.attempts")
    settling = watch.start(lambda: work.settle_lost(store, maintenance, *work.lost_claims(store)))
    assert watch.stands_at_the_turnstile()

    assert (FIRED,) == firing()
    watch.open_turnstile()
    assert [True] == settling.result(LIMIT_S)
    assert 1 == watch.value(OPEN_AND_AHEAD)
    assert 1 == steps.look(store, record).overlaps
    assert [] == store.check()


# Orders beside fires


def test_a_policy_that_is_changed_beside_a_fire_finds_its_run(store, clock, watch):
    """The edit comes too late, is decided anew, and the open run is in the way."""
    record = made(store, Overlap.SKIP)
    firing = fire(store, clock, record)
    changed = replace(record.definition, overlap=Overlap.QUEUE_ALL)
    order = change_of(record, decide_edit(record, changed, store.now(), "one after the other"))
    hold_at(watch, "duly.runs")
    fired_first = watch.start(firing)
    assert watch.stands_at_the_turnstile()
    editing = watch.start(lambda: store.change_schedule(order))

    assert watch.is_blocked()
    watch.open_turnstile()
    assert (FIRED,) == fired_first.result(LIMIT_S)
    assert isinstance(editing.result(LIMIT_S), Stale)
    record = steps.edit(store, steps.look(store, record), changed)
    assert (FIRED,) == fire(store, clock, record)()
    assert ["queued", "blocked"] == states(store, record)
    assert [] == store.check()


def test_a_fire_beside_an_edit_of_the_policy_goes_by_the_new_one(store, clock, watch):
    """What was believed is gone; the timer is read anew, and comes to the gate."""
    record = fired(store, clock, Overlap.ALLOW)
    fence = steps.own(store, (Lane.LIVE,), ttl_us=LONG_US)
    changed = replace(record.definition, overlap=Overlap.QUEUE_ALL)
    order = change_of(record, decide_edit(record, changed, store.now(), "one after the other"))
    hold_at(watch, "duly.audit")
    editing = watch.start(lambda: store.change_schedule(order))
    assert watch.stands_at_the_turnstile()
    steps.fall_due(clock, record)
    fired_second = watch.start(lambda: steps.fire(store, fence, on_time(record)).results)

    assert watch.is_blocked()
    watch.open_turnstile()
    assert not isinstance(editing.result(LIMIT_S), Stale)
    assert (GONE,) == fired_second.result(LIMIT_S)
    assert (FIRED,) == fire(store, clock, steps.look(store, record))()
    assert ["queued", "blocked"] == states(store, record)
    assert [] == store.check()


@pytest.mark.parametrize("policy", [Overlap.SKIP, Overlap.QUEUE_ALL])
def test_a_dead_run_is_not_brought_back_beside_one_that_is_being_fired(store, clock, watch, policy):
    """Whoever brings it back waits for the schedule, and sees the run that goes ahead."""
    record = fired(store, clock, policy)
    worker, claimed = begin(store)
    work.end(store, worker, claimed, work.FATAL)
    firing = fire(store, clock, record)
    hold_at(watch, "duly.runs")
    fired_second = watch.start(firing)
    assert watch.stands_at_the_turnstile()
    retrying = watch.start(lambda: store.retry_runs(order_runs(claimed.record.id)))

    assert watch.is_blocked()
    watch.open_turnstile()
    assert (FIRED,) == fired_second.result(LIMIT_S)
    retrying.result(LIMIT_S)
    assert 1 == watch.value(OPEN_AND_AHEAD)
    expected = {Overlap.SKIP: "dead", Overlap.QUEUE_ALL: "blocked"}[policy]
    assert [expected, "queued"] == states(store, record)
    assert [] == store.check()


def test_of_two_runs_by_hand_at_once_one_is_refused(store, clock, watch):
    """Under skip, with the one that was in the way."""
    record = made(store, Overlap.SKIP)

    def ask(text):
        try:
            by_hand(store, record, text)()
        except Conflict:
            return False
        return True

    asked = watch.at_once(*[lambda text=text: ask(text) for text in "abcd"])

    assert 1 == sum(asked)
    assert 1 == watch.value(OPEN_AND_AHEAD)


# Crowds


class Crowd:
    """People who ask for runs and cancel some, and workers who give some back, all at once."""

    def __init__(self, store, schedules, total):
        self._store, self._schedules = store, schedules
        self._total = total
        self._lock = Lock()
        self._inside = 0
        self.most_inside = 0

    def ask(self, person, count):
        """Ask for runs; cancel every fifth, wherever it is."""
        for number in range(count):
            record = self._schedules[number % len(self._schedules)]
            run_id = by_hand(self._store, record, f"{person}/{number}")()
            if number % 5 == 4:
                with suppress(Conflict):
                    self._store.cancel_run(cancel_run(run_id))

    def toil(self, url):
        """Work until all runs are over; give every fourth back."""
        worker = work.join_worker(self._store, ttl_us=LONG_US)
        number = 0
        with psycopg.connect(url, autocommit=True) as line:
            while line.execute("SELECT count(*) FROM duly.outcomes").fetchone() != (self._total,):
                claimed = work.take(self._store, worker, 3)
                self._enter(len(claimed))
                for one in claimed:
                    number += 1
                    self._enter(-1)
                    is_done = number % 4 or one.record.tries.fence > 1
                    end = (
                        Succeeded()
                        if is_done
                        else ReturnedToQueue(Reason.SHUTDOWN, is_started=False)
                    )
                    assert ACCEPTED is work.end(self._store, worker, one, end)

    def _enter(self, count):
        with self._lock:
            self._inside += count
            self.most_inside = max(self.most_inside, self._inside)


@pytest.mark.parametrize("policy", [Overlap.QUEUE_ALL, Overlap.SERIALIZE])
def test_a_crowd_goes_through_a_gate_one_by_one_and_nobody_is_forgotten(store, watch, policy):
    """INV-8: maintenance never comes by, and nobody is left at the gate."""
    names = ("one", "two") if policy is Overlap.SERIALIZE else ("one",)
    count, people = 20, 3
    crowd = Crowd(store, [made(store, policy, name) for name in names], count * people)

    watch.at_once(
        *[partial(crowd.ask, person, count) for person in range(people)],
        *[partial(crowd.toil, watch.url)] * 3,
    )

    assert 1 == crowd.most_inside
    assert (0, 0) == (
        watch.value("SELECT count(*) FROM duly.blocked"),
        watch.value("SELECT count(*) FROM duly.held_gates"),
    )
    assert [] == store.check()
