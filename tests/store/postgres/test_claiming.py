"""Claiming from one leaf of the queue: only while all there is lies in it, and nobody can tell."""

from __future__ import annotations

from dataclasses import replace

import psycopg
import pytest

from duly.domain.enums import RunState
from duly.domain.outcomes import Succeeded
from duly.store.ports.execution import ClaimRef, ClaimRuns, FinishResult
from duly.store.postgres import claiming, finishing
from duly.store.postgres.claiming import AIM_KEPT_US, ERA_SETTLED_US, NOTHING_KEPT_US
from duly_conformance import steps as work
from duly_conformance.kit import ADA, finish

MOVE_ON = "UPDATE duly.cluster SET era = 1, era_since = duly.now_us()"
PUT_INTO_ANOTHER = "UPDATE duly.ready SET era = 2"


@pytest.fixture
def line(timed_url):
    with psycopg.connect(timed_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def looks_at_all(monkeypatch):
    """A list that grows with every look at all leaves."""
    looks = []
    statement = claiming._statement  # noqa: SLF001 - it is told apart there

    def noted(*values, **rest):
        looks.append(values)
        return statement(*values, **rest)

    monkeypatch.setattr(claiming, "_statement", noted)
    return looks


@pytest.fixture
def aimed(store, looks_at_all):
    """A worker that has seen all leaves a moment ago, and found them empty."""
    worker = work.join_worker(store)
    assert [] == work.take(store, worker)
    assert 1 == len(looks_at_all)
    return worker


def test_who_has_just_seen_all_leaves_looks_at_one(store, aimed, looks_at_all):
    ids = [work.queue(store, text) for text in "abc"]

    assert sorted(ids) == sorted(work.take_ids(store, aimed))
    assert 1 == len(looks_at_all)


def test_one_leaf_is_read_in_the_same_order(store, aimed, looks_at_all):
    late, first, second = (work.queue(store, f"{rank}", priority=rank) for rank in (9, 1, 5))

    assert [first, second, late] == work.take_ids(store, aimed)
    assert 1 == len(looks_at_all)


def test_what_lies_in_another_leaf_is_found_when_ours_is_empty(store, clock, aimed, line):
    queued = work.queue(store)
    line.execute(PUT_INTO_ANOTHER)
    clock.advance(NOTHING_KEPT_US)

    assert [queued] == work.take_ids(store, aimed)


def test_what_lies_in_another_leaf_is_found_after_a_moment(store, clock, aimed, line):
    """A caller's transaction that was open for long has left it there."""
    queued = work.queue(store, "there")
    line.execute(PUT_INTO_ANOTHER)
    here = work.queue(store, "here")

    assert [here] == work.take_ids(store, aimed)
    clock.advance(AIM_KEPT_US)
    again = work.queue(store, "again")
    assert {queued, again} == set(work.take_ids(store, aimed))


def test_all_leaves_are_seen_after_the_era_has_moved_on(store, clock, aimed, line, looks_at_all):
    old = work.queue(store, "old")
    line.execute(MOVE_ON)
    new = work.queue(store, "new")

    assert {old, new} == set(work.take_ids(store, aimed))
    work.queue(store, "soon after")
    assert 1 == len(work.take_ids(store, aimed))
    assert 3 == len(looks_at_all), "somebody may still write to the leaf before"
    clock.advance(ERA_SETTLED_US)
    work.take_ids(store, aimed)
    work.queue(store, "later")
    assert 1 == len(work.take_ids(store, aimed))
    assert 4 == len(looks_at_all)


def test_ends_and_claims_go_by_one_statement(store, aimed, looks_at_all, monkeypatch):
    """One transaction, in which attempts end and others begin."""
    first = work.queue(store, "a")
    claimed = work.take_one(store, aimed)
    second = work.queue(store, "b")
    monkeypatch.setattr(finishing, "FINISH_PLAIN", "this is not sent")
    order = ClaimRuns(worker=aimed, limit=10)
    finished, taken = store.finish_and_claim([finish(claimed, Succeeded("1"))], order)

    assert (FinishResult.ACCEPTED,) == finished.results
    assert [second] == [run.run_id for run in taken.runs]
    assert (RunState.SUCCEEDED, "1") == (
        work.get_run(store, first).state,
        work.get_run(store, first).result,
    )
    assert taken.runs[0].record == work.get_run(store, second)
    assert 1 == len(looks_at_all)


def test_an_end_that_is_refused_goes_with_a_claim(store, aimed):
    """What is not ours changes nothing; the others end, and the claim holds."""
    for text in "ab":
        work.queue(store, text)
    one, other = work.take(store, aimed)
    queued = work.queue(store, "c")
    refused = replace(finish(one, Succeeded()), hold=ClaimRef(one.run_id, 7))
    ends = [refused, finish(other, Succeeded())]
    finished, taken = store.finish_and_claim(ends, ClaimRuns(worker=aimed, limit=10))

    assert (FinishResult.REFUSED, FinishResult.ACCEPTED) == finished.results
    assert [queued] == [run.run_id for run in taken.runs]
    assert RunState.RUNNING is work.get_run(store, one.run_id).state


def test_a_queue_that_is_paused_is_not_taken_from(store, aimed):
    work.queue(store, "a", queue="mail")
    other = work.queue(store, "b", queue="other")
    store.pause_queue("mail", ADA)

    assert [other] == work.take_ids(store, aimed)


def test_one_queue_is_taken_from_by_itself(store, looks_at_all):
    worker, mail = work.join_worker(store), ("mail",)
    assert [] == work.take(store, worker, queues=mail)
    work.queue(store, "a", queue="lair")
    wanted = work.queue(store, "b", queue="mail")
    work.queue(store, "c", queue="mailbox")

    assert [wanted] == work.take_ids(store, worker, queues=mail)
    assert 1 == len(looks_at_all)
    assert 2 == len(work.take(store, worker)), "of others it has seen nothing yet"
    assert 2 == len(looks_at_all)


def test_who_has_passed_over_something_has_not_seen_all(store, aimed, line, looks_at_all):
    passed = work.queue(store, "a", task="other")
    line.execute(PUT_INTO_ANOTHER)
    assert [] == work.take(store, aimed, without=frozenset(("other",)))
    here = work.queue(store, "b")

    assert {passed, here} == set(work.take_ids(store, aimed))
    assert 3 == len(looks_at_all)


def test_queues_take_turns_when_there_is_a_crowd(store, aimed):
    """None is always first, although one statement takes them by their names."""
    for number in range(4):
        for queue in ("mail", "other"):
            work.queue(store, f"{queue} {number}", queue=queue)
    taken = [work.take(store, aimed, 1, rotation=turn)[0].queue for turn in range(3)]

    assert {"mail", "other"} == set(taken)


def test_a_worker_that_is_not_alive_gets_nothing(store, clock, aimed):
    work.queue(store)
    clock.advance(AIM_KEPT_US // 2)
    store.leave(aimed)

    assert [] == work.take(store, aimed)
