"""Hand-overs: what a dispatcher offers next door, a worker fires and begins by one statement."""

from __future__ import annotations

from dataclasses import replace

import pytest

from duly.domain.enums import Lane, Origin, RunState
from duly.domain.outcomes import Succeeded
from duly.domain.runs import TIMEOUT_DEFAULT_US, AttemptCounts, TaskPolicy
from duly.domain.schedules import Call
from duly.store.ports.dispatch import Fence, FireResult, FireRetry, FireTimers, WorkerStatus
from duly.store.ports.execution import FinishResult
from duly.store.postgres import firing
from duly_conformance import steps
from duly_conformance import steps as work
from duly_conformance.claiming import order as order_worker
from duly_conformance.kit import ADA, HOUR_US, MINUTE_US, SECOND_US, cancel, finish, move, on_time
from tests.waiting import comes_true

FIRED, GONE, EARLY = FireResult.FIRED, FireResult.GONE, FireResult.EARLY
FENCED, BUSY = FireResult.FENCED, FireResult.BUSY
CLAIM_OF = "SELECT to_jsonb(c) - 'run_id' FROM duly.claims c WHERE c.run_id = %s"
RUN_OF = "SELECT to_jsonb(r) - '{id,key}'::text[] FROM duly.runs r WHERE r.id = %s"
LIMITS = """
SELECT r.task, c.deadline_at - c.claimed_at
FROM duly.claims c JOIN duly.runs r ON r.id = c.run_id ORDER BY r.task"""
MAKE_RUN = """
INSERT INTO duly.runs (id, scheduled_for, not_before, created_at, fired_at, priority, tenant, task,
    queue, origin, lane, arguments)
SELECT id, due_at, due_at, created_at, due_at, priority, tenant, task, queue, origin, lane,
    arguments FROM duly.delayed WHERE id = %s"""
LOCK_DELAYED = "SELECT 1 FROM duly.delayed WHERE id = %s FOR UPDATE"


@pytest.fixture(autouse=True)
def _small_crowds(request, monkeypatch):
    """Let a few runs be a crowd: what is told of eight holds for a thousand."""
    if "real_size" not in request.fixturenames:
        monkeypatch.setattr(firing, "HANDED_MIN", 4)


@pytest.fixture
def real_size():
    """Let a crowd be what it is."""


@pytest.fixture
def worker(street):
    return street.move_in()


def refs(command):
    return [fire.timer.ref for fire in command.delayed]


def ids(runs):
    return [run.run_id for run in runs]


def is_all(result, fired):
    return {result} == set(fired.results)


# What is done


def test_a_crowd_is_fired_and_begun_by_the_worker_next_door(real_size, street, worker):
    """Six hundred runs; nothing goes through the queue, and nothing is amiss."""
    command = street.crowd(600)
    answer = street.begin(command)
    first = worker.claim()
    rest = worker.claim()
    fired = answer()
    taken = [*first.runs, *rest.runs]

    assert (True, False) == (first.is_followed, rest.is_followed)
    assert sorted(refs(command)) == sorted(ids(taken))
    assert is_all(FIRED, fired)
    assert (street.clock.now_us(), 600, ()) == (fired.now, fired.runs_made, fired.lost)
    assert (0, 600, 0, 600) == street.counts()
    assert {AttemptCounts(1, 1, 0, street.clock.now_us())} == {one.tries for one in taken}
    assert {(RunState.RUNNING, worker.id)} == {
        (one.state, one.worker) for one in street.look(command)
    }
    assert [] == street.store.check()


def test_what_was_begun_so_is_finished_like_any_other(street, worker):
    """Under the fence of its claim."""
    answer = street.begin(street.crowd())
    taken = worker.claim_all()
    answer()
    status = street.store.status()
    finished = worker.store.finish_runs(worker.id, [finish(one, Succeeded()) for one in taken])

    assert (0, 0, 8) == (status.delayed, status.queued, status.running)
    assert {FinishResult.ACCEPTED} == set(finished.results)
    assert {RunState.SUCCEEDED} == {work.get_run(street.store, one).state for one in ids(taken)}
    status = street.store.status()
    assert (0, 0, 0) == (status.delayed, status.queued, status.running)
    assert [] == street.store.check()


def told(street, claimed):
    """Return all that is known of a claimed run, but for its own id and key."""
    found = work.get_run(street.store, claimed.run_id)
    records = [
        replace(one, id=b"", root=b"", key=one.key and "some") for one in (claimed.record, found)
    ]
    rows = [
        street.line.execute(statement, [claimed.run_id.hex()]).fetchone()
        for statement in (CLAIM_OF, RUN_OF)
    ]
    return records, claimed.claimed_at, claimed.tries, claimed.is_live, claimed.hold[1:], rows


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"tenant": "acme", "origin": Origin.MANUAL},
        {"call": Call(task="mail", arguments='{"to":"\u00e9"}', queue="mail", priority=7)},
        {"is_keyed": True},
    ],
)
def test_it_is_the_same_as_one_that_went_through_the_queue(street, worker, parts):
    """In every field, and in every time, since the clock stands still meanwhile."""
    parts = dict(parts)
    is_keyed = parts.pop("is_keyed", False)
    for text in "abcdefgh":
        street.promise(1, text, key=text if is_keyed else None, **parts)
    command = street.order()
    street.clock.advance(SECOND_US)
    few, rest = command.delayed[:2], command.delayed[2:]
    street.store.fire_timers(replace(command, delayed=few))
    queued = worker.claim().runs
    answer = street.begin(replace(command, delayed=rest))
    handed = worker.claim_all()
    assert is_all(FIRED, answer())
    expected, second = (told(street, one) for one in queued)

    assert expected == second, "or it proves nothing"
    assert 6 == len(handed)
    for one in handed:
        assert expected == told(street, one)


def test_an_attempt_may_take_as_long_as_its_task_says(street, worker):
    """As its code has told, without a limit, or the default where nothing was told."""
    quick, endless = TaskPolicy(timeout_us=7 * SECOND_US), TaskPolicy(timeout_us=None)
    worker.store.register_tasks(["known"])
    worker.store.register_policies({"quick": quick, "endless": endless})
    for task in ("endless", "known", "quick", "unknown"):
        street.promise(1, task, call=Call(task=task))
    command = street.order()
    street.clock.advance(SECOND_US)
    answer = street.begin(command)
    worker.claim_all()
    answer()

    assert [
        ("endless", None),
        ("known", TIMEOUT_DEFAULT_US),
        ("quick", 7 * SECOND_US),
        ("unknown", TIMEOUT_DEFAULT_US),
    ] == street.line.execute(LIMITS).fetchall()


def test_it_is_done_while_something_else_is(street, worker):
    """Who has begun to claim does not wait for it, and nor does who has begun to fire."""
    command = street.crowd()
    answer = street.begin(command)
    claimed = [worker.store.begin_claim(worker.order())]
    assert comes_true(lambda: street.count("claims") == 4)
    claimed.append(worker.store.begin_claim(worker.order()))
    assert comes_true(lambda: street.count("claims") == 8)
    taken = [run for one in claimed for run in one().runs]
    fired = answer()

    assert (8, {FIRED}) == (fired.runs_made, set(fired.results))
    assert sorted(refs(command)) == sorted(ids(taken))
    assert [] == street.store.check()


def test_who_ends_something_takes_what_it_was_offered_besides(street, worker):
    """By the one order that ends and claims."""
    held = worker_holds(street, worker)
    command = street.crowd()
    answer = street.begin(command)
    ends = [finish(held, Succeeded())]
    finished, claimed = worker.store.finish_and_claim(ends, worker.order())
    _, rest = worker.store.finish_and_claim([], worker.order())
    fired = answer()

    assert (FinishResult.ACCEPTED,) == finished.results
    assert RunState.SUCCEEDED is work.get_run(street.store, held.run_id).state
    assert (4, 4, True, False) == (
        len(claimed.runs),
        len(rest.runs),
        claimed.is_followed,
        rest.is_followed,
    )
    assert (8, {FIRED}) == (fired.runs_made, set(fired.results))
    assert sorted(refs(command)) == sorted(ids([*claimed.runs, *rest.runs]))


def worker_holds(street, worker):
    """Return a run that a worker has claimed in the usual way."""
    work.queue(street.store, "before")
    (held,) = worker.claim().runs
    return held


def test_schedules_and_retries_of_the_same_order_are_fired_besides(street, worker):
    """Each timer has its own result, whoever fires it."""
    record = steps.create(street.store)
    assert record.pending is not None
    retried = work.make_waiting(street.store, "retried", after_us=SECOND_US)
    street.clock.set(record.pending.due_at - SECOND_US)
    street.renew()
    delayed = street.crowd().delayed
    (retry,) = [
        one for one in steps.load(street.store, street.clock.now_us()) if one.kind == "retry"
    ]
    command = FireTimers(
        fence=street.fence,
        schedules=(on_time(record),),
        delayed=delayed,
        retries=(FireRetry(retry),),
    )
    answer = street.begin(command)
    worker.claim_all()
    fired = answer()

    assert ((FIRED,) * 10, 9) == (fired.results, fired.runs_made)
    assert retried in ids(worker.claim_all())
    assert [] == street.store.check()


def test_two_workers_have_their_parts(street, worker):
    """What is offered goes round."""
    other = street.move_in(process=3)
    assert comes_true(lambda: len(street.takers()) == 2)
    command = street.crowd()
    answer = street.begin(command)
    parts = [ids(one.claim_all()) for one in (worker, other)]

    assert is_all(FIRED, answer())
    assert [4, 4] == [len(one) for one in parts]
    assert sorted(refs(command)) == sorted([*parts[0], *parts[1]])


# What is refused, whoever carries it out


def test_nothing_is_fired_early(street, worker):
    """By the store's clock, whatever whoever has made the offer believes."""
    street.promise(8)
    command = street.order()
    answer = street.begin(command)
    assert 2 == worker.hear_all()
    claimed = worker.claim_all()
    fired = answer()

    assert [] == claimed
    assert (8, 0, 0, 0) == street.counts()
    assert (True, 0) == (is_all(EARLY, fired), fired.runs_made)
    assert 0 == street.store.status().early_fires


def test_of_some_that_are_due_and_some_that_are_not_the_former_are_fired(street, worker):
    """The last microsecond counts."""
    command = street.crowd()
    dues = street.spread(command)
    answer = street.begin(street.order())
    taken = worker.claim_all()
    fired = answer()

    assert {one for one, due_at in dues.items() if due_at <= fired.now} == set(ids(taken))
    assert [4, 4] == [fired.results.count(one) for one in (FIRED, EARLY)]
    assert 4 == fired.runs_made
    assert (4, 4, 0, 4) == street.counts()


def take_a_lease(street):
    """Let somebody else have one of the dispatcher's leases, at a higher epoch."""
    one = street.fence.leases[0]
    street.store.release_leases(Fence(street.fence.member, (one,)))
    other = steps.join(street.store, ttl_us=HOUR_US)
    (taken,) = street.store.acquire_leases(other, [one.key])
    assert taken.epoch > one.epoch


def take_back(street):
    """Let the dispatcher itself have it again: what was offered before is under the old epoch."""
    one = street.fence.leases[0]
    street.store.release_leases(Fence(street.fence.member, (one,)))
    (taken,) = street.store.acquire_leases(street.fence.member, [one.key])
    assert taken.epoch > one.epoch


def leave(street):
    street.store.leave(street.fence.member)


def expire(street):
    street.line.execute(
        "UPDATE duly.members SET expires_at = duly.now_us() WHERE id = %s", [street.fence.member]
    )


def end(street):
    """Let somebody have declared it dead, though its leases are still in its row."""
    street.line.execute("UPDATE duly.members SET ended_at = 1 WHERE id = %s", [street.fence.member])


@pytest.mark.parametrize("lose", [take_a_lease, take_back, leave, expire, end])
def test_nothing_is_fired_under_a_fence_that_was_lost(street, worker, lose):
    """It is the dispatcher's fence, and the statement looks at it, not who carries it out."""
    command = street.crowd(40)
    key = street.fence.leases[0].key
    answer = street.begin(command)
    assert 2 == worker.hear_all()
    lose(street)
    claimed = worker.claim_all()

    assert [] == claimed
    assert (40, 0, 0, 0) == street.counts()
    fired = answer()
    is_one_lost = lose in {take_a_lease, take_back}
    lost = [is_one_lost is False or one.timer.shard == key.shard for one in command.delayed]
    assert [FENCED if one else FIRED for one in lost] == list(fired.results)
    assert any(lost), "or it proves nothing"


def test_a_lease_that_the_store_never_gave_fires_nothing(street, worker):
    """An epoch is not to be guessed."""
    higher = tuple(lease._replace(epoch=lease.epoch + 1) for lease in street.fence.leases)
    command = replace(street.crowd(), fence=Fence(street.fence.member, higher))
    answer = street.begin(command)

    assert [] == worker.claim_all()
    assert is_all(FENCED, answer())
    assert (8, 0, 0, 0) == street.counts()


def die(street, worker):
    street.store.leave(worker.id)


def run_out(street, worker):
    street.line.execute(
        "UPDATE duly.members SET expires_at = duly.now_us() WHERE id = %s", [worker.id]
    )


def drain(street, worker):
    order_worker(street.store, worker.id, WorkerStatus.DRAINING)


def quarantine(street, worker):
    order_worker(street.store, worker.id, WorkerStatus.QUARANTINED)


@pytest.mark.parametrize("fail", [die, run_out, drain, quarantine])
def test_a_worker_that_may_not_claim_takes_nothing(street, worker, fail):
    """And says so at once, so that the dispatcher has it queued for others."""
    command = street.crowd()
    answer = street.begin(command)
    fail(street, worker)
    claimed = worker.claim()

    assert (False, ()) == (claimed.is_alive, claimed.runs)
    assert (8, 0, 0, 0) == street.counts()
    worker.claim()
    fired = answer()
    assert (8, {FIRED}) == (fired.runs_made, set(fired.results))
    assert (0, 8, 8, 0) == street.counts()
    assert [] == street.store.check()


def test_what_has_changed_since_is_left_out_and_told(street, worker):
    """Moved, cancelled, or fired before; the answer tells which of them have fired."""
    command = street.crowd()
    by_ref = sorted(refs(command))
    moved, cancelled, made = by_ref[0], by_ref[3], by_ref[5]
    early = [one for one in command.delayed if one.timer.ref == made]
    street.store.move_delayed(move(moved, street.clock.now_us() + HOUR_US))
    street.store.cancel_delayed(cancel(cancelled))
    street.store.fire_timers(replace(command, delayed=tuple(early)))
    assert [made] == ids(worker.claim().runs)
    answer = street.begin(command)
    taken = ids(worker.claim_all())
    fired = answer()

    changed = {moved, cancelled, made}
    assert set(by_ref) - changed == set(taken)
    assert [GONE if one in changed else FIRED for one in refs(command)] == list(fired.results)
    assert 5 == fired.runs_made
    assert street.store.get_delayed(moved) is not None
    assert [] == street.store.check()


@pytest.mark.parametrize(
    "change", ["generation = generation + 1", "due_at = due_at - 1", "shard = (shard + 1) % 32"]
)
def test_whatever_has_changed_of_a_timer_it_is_not_fired(street, worker, change):
    """Though it is due all the same."""
    command = street.crowd()
    changed = sorted(refs(command))[::3]
    for one in changed:
        statement = f"UPDATE duly.delayed SET {change} WHERE id = %s"  # noqa: S608 - ours
        street.line.execute(statement.replace("% 32", "%% 32").encode(), [one.hex()])
    answer = street.begin(command)
    taken = ids(worker.claim_all())
    fired = answer()

    assert set(refs(command)) - set(changed) == set(taken)
    assert [GONE if one in changed else FIRED for one in refs(command)] == list(fired.results)
    assert (3, 5, 0, 5) == street.counts()


def test_when_all_of_an_offer_is_gone_the_queue_is_looked_at_at_once(street, worker):
    """An offer that comes to nothing costs nobody a turn."""
    command = street.crowd()
    street.store.fire_timers(replace(command, delayed=command.delayed[:3]))
    before = worker.claim().runs
    street.store.fire_timers(replace(command, delayed=command.delayed[3:6]))
    before += worker.claim().runs
    street.store.fire_timers(replace(command, delayed=command.delayed[6:]))
    before += worker.claim().runs
    answer = street.begin(command)
    worker.hear_all()
    queued = work.queue(street.store, "mail", queue="mail")

    assert 8 == len(before)
    assert [queued] == ids(worker.claim().runs)
    assert [] == worker.claim_all()
    fired = answer()
    assert (True, 0) == (is_all(GONE, fired), fired.runs_made)


def test_a_run_that_exists_already_is_left_to_the_careful_way(street, worker):
    """INV-3: it is not made twice, and the others of its part are fired all the same."""
    command = street.crowd()
    there = sorted(refs(command))[2]
    street.line.execute(MAKE_RUN, [there.hex()])
    answer = street.begin(command)
    taken = worker.claim_all()
    fired = answer()
    rest = worker.claim_all()

    assert is_all(FIRED, fired)
    assert 7 == fired.runs_made
    assert (4, 3) == (len(taken), len(rest))
    assert set(refs(command)) - {there} == {*ids(taken), *ids(rest)}
    assert 8 == street.count("runs")


def test_a_row_that_somebody_holds_is_left_to_the_careful_way(street, worker, watch):
    """Who has it locked is waited for briefly; then it is busy, and the others are fired."""
    command = street.crowd()
    locked = sorted(refs(command))[6]
    with watch.holding(LOCK_DELAYED, [locked.hex()]):
        answer = street.begin(command)
        taken = worker.claim_all()
        fired = answer()

    assert [BUSY if one == locked else FIRED for one in refs(command)] == list(fired.results)
    assert (7, 4, 3) == (fired.runs_made, len(taken), len(worker.claim_all()))
    assert (1, 7, 0, 7) == street.counts()
    assert [] == street.store.check()


@pytest.mark.parametrize("served", [None, ("default",)])
def test_where_something_is_queued_that_the_worker_serves_nobody_goes_before_it(
    street, worker, served
):
    """What was there first is first, and tenants have their shares."""
    queued = work.queue(street.store, "before")
    command = street.crowd()
    answer = street.begin(command)
    claimed = worker.claim(queues=served)
    assert 1 == worker.hear_all()
    worker.refuse()
    fired = answer()

    assert [queued] == ids(claimed.runs)
    assert is_all(FIRED, fired)
    assert (0, 9, 8, 1) == street.counts()


def test_what_is_queued_for_others_is_in_nobodys_way(street, worker):
    """However long another queue is."""
    work.queue(street.store, "for others", queue="mail")
    command = street.crowd()
    answer = street.begin(command)
    taken = worker.claim_all(queues=("default",))

    assert sorted(refs(command)) == sorted(ids(taken))
    assert is_all(FIRED, answer())
    assert (0, 9, 1, 8) == street.counts()


def test_where_a_queue_is_paused_all_goes_through_the_queue(street, worker):
    """Nothing is handed out from it."""
    street.store.pause_queue("default", ADA)
    answer = street.begin(street.crowd())
    taken = worker.claim_all()
    fired = answer()

    assert [] == [*taken, *worker.claim_all()]
    assert is_all(FIRED, fired)
    assert (0, 8, 8, 0) == street.counts()


def test_what_the_worker_does_not_serve_is_queued_and_rung_for(street, worker):
    """By the same statement; nobody has to find it by chance."""
    mail = set(street.promise(4, "mail", call=Call(task="mail", queue="mail")))
    command = street.crowd(4, text="own")
    answer = street.begin(command)
    taken = worker.claim_all(queues=("default",))
    assert comes_true(lambda: not worker.place.wait(0)), "all that was sent is heard"
    fired = answer()

    assert {*refs(command)} - mail == set(ids(taken))
    assert (8, {FIRED}) == (fired.runs_made, set(fired.results))
    assert (0, 8, 4, 4) == street.counts()
    assert worker.place.wait(MINUTE_US), "it is rung for"
    assert mail == set(ids(worker.claim_all(queues=("mail",))))
    assert [] == street.store.check()


def test_when_all_was_begun_nobody_is_rung(street, worker):
    """There is nothing to be had."""
    answer = street.begin(street.crowd())
    worker.claim_all()
    assert comes_true(lambda: not worker.place.wait(0)), "all that was sent is heard"
    assert is_all(FIRED, answer())

    assert not worker.place.wait(0)


def test_what_is_not_live_is_queued_behind_what_is(street, worker):
    """It has its share, and no more."""
    command = street.crowd()
    caught_up = set(sorted(refs(command))[::2])
    for one in caught_up:
        street.line.execute("UPDATE duly.delayed SET lane = 'catch-up' WHERE id = %s", [one.hex()])
    answer = street.begin(command)
    first = worker.claim()
    fired_at_once = ids(first.runs)
    worker.refuse()
    fired = answer()

    assert is_all(FIRED, fired)
    assert 2 == len(fired_at_once)
    assert not caught_up & set(fired_at_once)
    assert (0, 8, 6, 2) == street.counts()
    rest = worker.claim_all()
    assert {Lane.CATCH_UP, Lane.LIVE} == {one.record.lane for one in rest}
    assert [] == street.store.check()
