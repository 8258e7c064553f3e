"""Limited runs begin when the store lets them, and stand in nobody's way meanwhile."""

from __future__ import annotations

from itertools import pairwise

from duly.domain.admission import BreakerState
from duly.domain.audit import Actor
from duly.domain.limits import Limit, read_limit
from duly.domain.outcomes import SUCCEEDED, Failed
from duly.domain.policies import Retry
from duly.domain.runs import Reason, TaskPolicy
from duly.domain.schedules import Call
from duly.domain.tasks import TaskLimits
from duly.store.ports.limits import SetLimit
from duly.telemetry import ItemSkipped
from duly_conformance.kit import cancel_run
from tests.engine.rig import SECOND, Known

ADA = Actor("ada", "test")
OFTEN = TaskPolicy(retry=Retry(attempts=50, base="1s", cap="1s"))
CALLING = Known("call", OFTEN, limits=TaskLimits(destination="stripe"))


def limited(name="send", **parts):
    """Return a task with limits."""
    given = (parts.get("running"), parts.get("rate"), parts.get("running_by"))
    return Known(name, limits=TaskLimits(limit=read_limit(*given)))


def enqueue(rig, task, count=1, arguments="{}", **parts):
    call = Call(task=task, arguments=arguments)
    return [
        rig.enqueue(f"{task} {arguments} {number}", call=call, **parts) for number in range(count)
    ]


def states(rig, runs):
    """Return where runs are, in order of the word: which of them goes first is nobody's promise."""
    return sorted(rig.state(run) for run in runs)


def one_in(rig, runs, state):
    return next(run for run in runs if rig.state(run) == state)


def started(shop):
    return [work.claimed.run_id for work in shop.works]


def test_a_run_without_limits_asks_nobody(rig):
    """Not one call more."""
    enqueue(rig, "remind", 3)
    shop = rig.worker(Known("remind"), limited(running=1))
    shop.worker.tick()

    assert 3 == len(shop.works)
    assert "admit" not in shop.line.calls


def test_all_limited_runs_of_a_claim_are_asked_for_at_once(rig):
    runs = enqueue(rig, "send", 5)
    shop = rig.worker(limited(running=5))
    shop.worker.tick()

    assert (set(runs), 1) == (set(started(shop)), shop.line.calls.count("admit"))


def test_more_than_may_run_at_a_time_stand_in_line_and_free_their_slots(rig):
    """At most two; others have the slots, and each goes on when a place is free."""
    runs = enqueue(rig, "send", 4)
    shop = rig.worker(limited(running=2), Known("remind"), slots=4)
    shop.worker.tick()

    assert ["blocked", "blocked", "running", "running"] == states(rig, runs)
    stands = rig.look(one_in(rig, runs, "blocked"))
    assert ("cap task:send", 0) == (stands.state_reason, stands.tries.attempt)
    begun = started(shop)
    others = enqueue(rig, "remind", 2)
    rig.run("1s")
    assert {*begun, *others} == set(started(shop))
    shop.end(number=0)
    rig.run("1s")
    assert ["blocked", "running", "running", "succeeded"] == states(rig, runs)
    last = started(shop)[-1]
    assert ([("running", None)], 1) == (rig.ended(last), rig.look(last).tries.attempt)


def test_runs_with_the_same_value_of_a_parameter_go_one_by_one(rig):
    """What the task's code counts by is read from each run's arguments."""
    ones = enqueue(rig, "send", 2, '{"account":1}')
    twos = enqueue(rig, "send", 2, '{"account":2}')
    shop = rig.worker(limited(running_by={"account": 1}))
    shop.worker.tick()

    assert ["blocked", "running"] == states(rig, ones) == states(rig, twos)


def test_who_comes_too_soon_has_a_timer_and_no_attempt(rig):
    """A rate is a schedule, never a blocked head of a queue."""
    runs = enqueue(rig, "send", 3)
    rig.dispatcher()
    shop = rig.worker(limited(rate="1/s burst 1"))
    shop.worker.tick()

    assert ["retrying", "retrying", "running"] == states(rig, runs)
    waiting = [run for run in runs if rig.state(run) == "retrying"]
    assert [[], []] == [rig.attempts(run) for run in waiting]
    waits = sorted(rig.look(run).next_at - rig.now for run in waiting)
    assert [SECOND, 2 * SECOND] == waits
    rig.run("10s")
    assert set(runs) == set(started(shop))
    begun = [rig.look(run).started_at for run in started(shop)]
    assert all(later - earlier >= SECOND for earlier, later in pairwise(begun))


def test_an_operators_limit_is_heeded_within_a_beat_and_until_it_is_removed(rig):
    """Of a task whose code says nothing."""
    shop = rig.worker(Known("remind"), slots=20)
    shop.worker.tick()
    rig.store.set_limit(SetLimit(scope="task:remind", limit=Limit(running=1), actor=ADA))
    rig.run("4s")
    enqueue(rig, "remind", 3)
    rig.run("1s")
    assert 1 == len(shop.works)
    rig.store.remove_limit("task:remind", ADA)
    rig.dispatcher()
    rig.run("30s")
    assert 3 == len(shop.works)


def test_each_tenant_is_limited_by_itself(rig):
    """With one order for all of them, also those that nobody has heard of yet."""
    rig.store.set_limit(SetLimit(scope="tenant:*", limit=Limit(running=2), actor=ADA))
    enqueue(rig, "remind", 3, '{"class":1}', tenant="acme")
    enqueue(rig, "remind", 3, '{"class":2}', tenant="zenith")
    shop = rig.worker(Known("remind"), slots=20)
    rig.run("1s")

    tenants = [work.claimed.record.tenant for work in shop.works]
    assert ["acme", "acme", "zenith", "zenith"] == sorted(tenants)


def test_what_code_declares_is_on_record_when_a_worker_joins(rig):
    shop = rig.worker(limited(running=3, rate="5/s"), Known("remind"))
    shop.worker.tick()
    [record] = rig.store.list_limits().records

    assert ("task:send", "code", 3) == (record.scope, str(record.source), record.limit.running)


def test_while_the_store_is_away_nothing_begins_unadmitted_and_nothing_is_lost(rig):
    """Others of the same claim begin at once all the same."""
    [plain] = enqueue(rig, "remind")
    [run] = enqueue(rig, "send")
    shop = rig.worker(limited(running=1), Known("remind"))
    shop.line.refuses["admit"] = lambda _: True
    shop.worker.tick()

    assert [plain] == started(shop)
    rig.run("10s")
    assert ("running", [plain]) == (rig.state(run), started(shop))
    shop.line.refuses.clear()
    rig.run("3s")
    assert [plain, run] == started(shop)
    shop.end()
    assert "succeeded" == rig.state(run)


def test_ends_are_told_though_nobody_says_who_may_begin(rig):
    """What is done is done, whatever becomes of what waits."""
    [plain] = enqueue(rig, "remind")
    runs = enqueue(rig, "send", 3)
    shop = rig.worker(limited(running=1), Known("remind"), slots=4)
    shop.line.refuses["admit"] = lambda _: True
    shop.worker.tick()
    shop.works[0].ended(SUCCEEDED)
    rig.run("5s")

    assert ("succeeded", ["running"] * 3) == (rig.state(plain), states(rig, runs))
    assert [plain] == started(shop)


def test_an_answer_that_is_lost_lets_a_run_begin_once(rig):
    """Asked again, the store says the same, and takes no second place or turn."""
    runs = enqueue(rig, "send", 2)
    shop = rig.worker(limited(running=1, rate="100/s"))
    shop.line.loses.add("admit")
    shop.worker.tick()
    rig.run("3s")

    assert 1 == len(started(shop))
    assert ["blocked", "running"] == states(rig, runs)
    shop.end()
    rig.run("3s")
    assert set(runs) == set(started(shop))


def test_what_is_no_longer_ours_is_dropped(rig):
    """Cancelled between its claim and its admission."""
    [run] = enqueue(rig, "send")
    shop = rig.worker(limited(running=1))
    shop.line.refuses["admit"] = lambda _: True
    shop.worker.tick()
    rig.store.cancel_run(cancel_run(run))
    shop.line.refuses.clear()
    rig.run("3s")
    others = enqueue(rig, "send", 1, '{"other":1}')
    rig.run("3s")

    assert ("cancelled", others) == (rig.state(run), started(shop))


def test_whoever_drains_gives_back_what_was_not_admitted(rig):
    """At no cost, and at once."""
    [run] = enqueue(rig, "send")
    shop = rig.worker(limited(running=1))
    shop.line.refuses["admit"] = lambda _: True
    shop.worker.tick()
    shop.worker.drain()
    rig.run("3s")

    assert ("queued", []) == (rig.state(run), started(shop))
    assert 0 == rig.look(run).tries.attempt
    assert shop.worker.is_over


def test_what_can_not_be_asked_for_does_not_stop_the_others(rig):
    """A run that the store chokes on is given back, for later."""
    bad, good = enqueue(rig, "send", 2)
    shop = rig.worker(limited(running=5))
    shop.line.breaks["admit"] = lambda asked: any(one.hold.run_id == bad for one in asked)
    shop.worker.tick()
    shop.worker.tick()

    assert [good] == started(shop)
    assert "retrying" == rig.state(bad)
    assert 1 == len(rig.recorder.of(ItemSkipped))
    rig.dispatcher()
    shop.line.breaks.clear()
    rig.run("90s")
    assert [good, bad] == started(shop)


def test_a_worker_that_is_taken_for_dead_begins_nothing_of_what_it_had(rig):
    """Whoever comes after it has the run."""
    [run] = enqueue(rig, "send")
    rig.dispatcher()
    shop = rig.worker(limited(running=1))
    shop.line.refuses["admit"] = lambda _: True
    shop.worker.tick()
    shop.line.is_cut = True
    rig.run("60s")
    shop.line.is_cut = False
    shop.line.refuses.clear()
    rig.run("30s")

    assert [run] == started(shop)
    assert "running" == rig.state(run)


def fail(shop, count):
    """Let attempts fail."""
    for _ in range(count):
        shop.works.pop(0).ended(Failed("nobody answers"))
    shop.worker.wake()
    shop.worker.tick()


def breaker(rig):
    [found] = rig.store.list_breakers()
    return found.breaker.state


def test_a_destination_that_fails_is_left_alone_and_probed(rig):
    """No attempt is used while it is open; one probe goes, and all follow when it is back."""
    runs = enqueue(rig, "call", 30)
    rig.dispatcher()
    shop = rig.worker(CALLING, slots=10)
    shop.worker.tick()
    tried = started(shop)
    fail(shop, 10)

    assert BreakerState.OPEN is breaker(rig)
    rig.run("1s")
    assert [] == shop.works
    untouched = [run for run in runs if run not in tried]
    assert {"retrying"} == set(states(rig, untouched))
    assert {"breaker stripe"} == {rig.look(run).state_reason for run in untouched}
    assert {0} == {rig.look(run).tries.attempt for run in untouched}
    rig.run("10s")
    assert 1 == len(shop.works)
    assert BreakerState.HALF_OPEN is breaker(rig)
    shop.end()
    assert BreakerState.CLOSED is breaker(rig)
    shop.executor.does(SUCCEEDED)
    rig.run("20s")
    assert ["succeeded"] * 30 == states(rig, runs)


def test_a_probe_that_is_asked_to_wait_is_followed_when_the_destination_says(rig):
    """Not after a pause that doubles: 10 s, 20 s, 40 s."""
    enqueue(rig, "call", 30)
    rig.dispatcher()
    shop = rig.worker(CALLING, slots=10)
    shop.worker.tick()
    fail(shop, 10)
    rig.run("10s")
    probed_at = []
    for _ in range(3):
        assert 1 == len(shop.works)
        shop.works.pop().ended(Failed("429", Reason.RETRY_AFTER, after_us=4 * SECOND))
        shop.worker.wake()
        shop.worker.tick()
        probed_at.append(rig.now)
        assert rig.now + 4 * SECOND == rig.store.list_breakers()[0].breaker.retry_at
        rig.run("5s")

    assert [5 * SECOND] * 2 == [later - at for at, later in pairwise(probed_at)]


def test_what_says_no_is_there_and_its_breaker_stays_closed(rig):
    """A refusal is not a failure of the other side."""
    enqueue(rig, "call", 20)
    rig.dispatcher()
    shop = rig.worker(CALLING, slots=20)
    shop.executor.does(Failed("404", is_answered=True))
    rig.run("3s")

    assert 20 < len(shop.works)
    assert BreakerState.CLOSED is breaker(rig)


def test_success_is_told_to_the_breaker_too(rig):
    enqueue(rig, "call", 3)
    shop = rig.worker(CALLING)
    shop.worker.tick()
    shop.end()
    [found] = rig.store.list_breakers()

    assert (1, 0) == (found.breaker.succeeded, found.breaker.failed)
