"""Orders about runs and queues, singly or by a filter, and what is known of attempts."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest

import duly
from duly import Conflict, NotFound, UsageError
from duly.client.runs import Runs
from duly.domain.runs import TASK_GONE
from duly.store.ports.execution import ClaimRuns
from duly.store.ports.queries import AuditFilter
from duly_conformance.kit import worker
from tests.client.conftest import refused, work

NOBODY = UUID(int=7)


@pytest.fixture
def charge(app):
    """A task that fails until it is given a good number."""

    @app.task(retry=1, queue="money")
    def charge(number: int) -> int:
        if number < 0:
            raise ValueError("a negative amount")
        return number

    return charge


@pytest.fixture
def dead(app, clock, charge):
    """Two runs that have used up their budget."""
    made = app.enqueue_many([charge.bind(-1), charge.bind(-2)])
    work(app, clock)
    return [one.id for one in made]


def audited(app, action):
    return [
        (one.actor.name, one.actor.reason)
        for one in app.store.list_audit(AuditFilter(action=action))
    ]


def test_a_dead_run_says_why(app, dead):
    run = app.runs.get(dead[0])

    assert ("dead", "budget", 1, 1) == (run.state, run.reason, run.attempt, run.charged)
    assert "a negative amount" in (run.error or "")
    assert run.is_over


def test_runs_are_listed_by_state_and_reason(app, dead, charge, clock):
    good = app.enqueue(charge.bind(1))
    work(app, clock)

    assert [good.id] == [one.id for one in app.runs.list(state="succeeded")]
    assert set(dead) == {one.id for one in app.runs.list(state=["dead", "retrying"])}
    assert set(dead) == {one.id for one in app.runs.list(reason="budget")}
    assert [] == app.runs.list(reason="timeout")
    assert 1 == app.runs.get(good.id).result


def test_a_selection_is_frozen_and_touches_dead_runs_alone(app, dead, charge, clock):
    chosen = app.runs.select(task="charge", reason="budget")
    app.enqueue(charge.bind(-3))
    work(app, clock)
    done = app.runs.retry(chosen, reason="the bank is back")

    assert set(dead) == set(chosen.ids) == {one.id for one in chosen}
    assert (2, 2) == (len(chosen), chosen.to_json()["count"])
    assert [True, True] == [one.is_done for one in done]
    assert 1 == len(app.runs.select())
    assert [("ada", "the bank is back")] * 2 == audited(app, "run.retried")


def test_a_dead_run_is_edited_and_retried(app, dead, clock):
    edited = app.runs.edit(dead[0], {"number": 5}, reason="typing error")
    (done,) = app.runs.retry(dead[0])
    work(app, clock)
    run = app.runs.get(dead[0])

    assert {"number": 5} == edited.arguments
    told = {"id": str(dead[0]), "is_done": True, "state": "dead", "why": None, "made": None}
    assert told == done.to_json()
    assert ("succeeded", 5, 2) == (run.state, run.result, run.attempt)


def test_arguments_that_do_not_fit_are_refused_before_anything_is_changed(app, dead):
    for arguments in ({"number": "5"}, {}, {"amount": 5}, [5]):
        assert refused(app, UsageError, lambda: app.runs.edit(dead[0], arguments))  # noqa: B023


def test_only_a_dead_run_is_edited(app, charge):
    made = app.enqueue(charge.bind(1))

    assert refused(app, Conflict, lambda: app.runs.edit(made.id, {"number": 5}))


def test_a_discarded_run_is_closed_for_good(app, dead, clock):
    app.runs.discard(dead, reason="too old")
    work(app, clock)
    again = app.runs.retry(dead)

    assert ["discarded"] * 2 == [app.runs.get(one).state for one in dead]
    assert [(False, "discarded")] * 2 == [(one.is_done, one.state) for one in again]
    assert [("ada", "too old")] * 2 == audited(app, "run.discarded")


def test_what_can_not_be_retried_is_told(app, charge, clock):
    made = app.enqueue(charge.bind(1))
    done = app.runs.retry([made.id, NOBODY, made.id])

    assert [(made.id, False, "queued"), (NOBODY, False, None)] == [
        (one.id, one.is_done, one.state) for one in done
    ]


def test_more_runs_than_one_transaction_takes_are_split(app, charge):
    assert 1500 == len(app.runs.retry([UUID(int=one) for one in range(1, 1501)]))


@pytest.mark.parametrize("runs", [5, None, [5], [None]])
def test_what_names_no_run_is_refused(app, runs):
    assert refused(app, UsageError, lambda: app.runs.retry(runs))


def test_a_queued_run_is_cancelled_at_once(app, charge, clock):
    made = app.enqueue(charge.bind(1))
    run = app.runs.cancel(made.id, reason="no need")
    work(app, clock)

    assert ("cancelled", "cancelled") == (run.state, app.runs.get(run).state)
    assert [("ada", "no need")] == audited(app, "run.cancelled")


def test_a_run_is_named_by_its_label_or_by_itself(app, charge):
    made = app.enqueue(charge.bind(1))
    run = app.runs.get(made.label)

    assert made.id == app.runs.get(run).id == app.runs.cancel(run.label).id


def test_a_pending_run_is_cancelled_by_its_id(app, charge):
    made = app.enqueue(charge.bind(1), delay="1h")

    assert "cancelled" == app.runs.cancel(made.id).state


def test_a_dead_run_is_not_cancelled_but_discarded(app, dead):
    message = refused(app, Conflict, lambda: app.runs.cancel(dead[0]))

    assert "discard" in message


def test_what_does_not_exist_is_not_found(app):
    orders = [
        lambda: app.runs.get(NOBODY),
        lambda: app.runs.cancel(NOBODY),
        lambda: app.runs.edit(NOBODY, {}),
        lambda: app.runs.attempts(NOBODY),
        lambda: app.runs.progress(NOBODY),
        lambda: app.runs.lines(NOBODY),
        lambda: app.runs.wait(NOBODY),
    ]

    assert all(refused(app, NotFound, order) for order in orders)


def test_runs_of_another_tenant_are_not_touched(app, dead, store, clock):
    other = duly.App(store=store, clock=clock, tenant="other")

    assert [(False, None)] * 2 == [(one.is_done, one.state) for one in other.runs.discard(dead)]
    with pytest.raises(NotFound):
        other.runs.attempts(dead[0])


def test_every_attempt_is_shown(app, clock):
    @app.task(retry=duly.Retry(2, base="0s", cap="0s"))
    def fail(run: duly.Run) -> None:
        run.progress(run.attempt, total=2, note="so far")
        run.log(f"try {run.attempt}")
        raise ValueError("no")

    made = app.enqueue(fail)
    work(app, clock)
    first, second = app.runs.attempts(made.id)
    shown = first.to_json()

    assert (f"{made.id}.1", 1, 1) == (first.id, first.number, first.fence)
    assert ("failed", "error", None) == (first.state, first.reason, first.late)
    assert (made.id, 2) == (second.run, second.number)
    assert first.started_at is not None
    assert "ValueError" in (shown["error"] or "")
    assert {"done": 1, "total": 2, "note": "so far"} == shown["progress"]
    assert [(1, 1), (2, 2)] == [(one.fence, one.done) for one in app.runs.progress(made.id)]
    assert ["try 1", "try 2"] == [one.text for one in app.runs.lines(made.id)]
    number = app.runs.lines(made.id)[0].number
    assert ["try 2"] == [one.text for one in app.runs.lines(made.id, after=number)]


def test_a_closed_run_shows_who_finished_it_and_how_far_it_came(app, clock):
    @app.task
    def count(run: duly.Run) -> list[int]:
        run.progress(2, total=2, note="all")
        return [1, 2]

    made = app.enqueue(count)
    work(app, clock)
    run = app.runs.get(made.id)
    shown = run.to_json()

    assert ("succeeded", [1, 2], 1, 1) == (run.state, run.result, run.attempt, run.fence)
    assert (clock.now(), clock.now()) == (run.claimed_at, run.started_at)
    assert {"done": 2, "total": 2, "note": "all"} == shown["progress"]
    assert run.worker is not None
    assert ([1, 2], None, None) == (shown["result"], shown["error"], shown["next_at"])


def test_a_run_that_waits_says_until_when(app, clock):
    @app.task
    def later() -> object:
        return duly.snooze("1h")

    made = app.enqueue(later)
    work(app, clock)
    run = app.runs.get(made.id)

    assert ("retrying", "snoozed", 0) == (run.state, run.reason, run.charged)
    assert clock.now() + timedelta(hours=1) == run.next_at


@pytest.mark.parametrize("after", [-1, "1", None, True])
def test_a_line_that_can_not_be_is_refused(app, dead, after):
    assert refused(app, UsageError, lambda: app.runs.lines(dead[0], after=after))


def test_waiting_ends_with_the_run(app, charge, clock):
    made = app.enqueue(charge.bind(1))
    rests: list[int] = []

    def rest(duration_us: int) -> None:
        rests.append(duration_us)
        clock.advance(duration_us)
        if len(rests) == 3:
            work(app, clock)

    waiting = Runs(replace(app._caller, rest=rest))  # noqa: SLF001 - whoever lets time pass
    run = waiting.wait(made.id)

    assert ("succeeded", 3) == (run.state, len(rests))
    assert sorted(rests) == rests


def test_waiting_ends_with_its_time(app, charge, clock):
    made = app.enqueue(charge.bind(1))
    waiting = Runs(replace(app._caller, rest=clock.advance))  # noqa: SLF001 - as above
    begun = clock.now()
    run = waiting.wait(made.id, timeout="10s")

    assert ("queued", False) == (run.state, run.is_over)
    assert timedelta(seconds=10) == clock.now() - begun


def test_a_paused_queue_hands_out_nothing(app, charge, clock):
    made = app.enqueue(charge.bind(1))
    paused = app.queues.pause("money", reason="audit")
    work(app, clock)

    assert ("queued", True, "ada", "audit") == (
        app.runs.get(made.id).state,
        paused.is_paused,
        paused.paused_by,
        paused.reason,
    )
    assert [paused] == app.queues.list()
    assert ("money",) == app.status().paused_queues
    assert paused.to_json()["queued"] == 1

    app.queues.resume("money")
    work(app, clock)

    assert "succeeded" == app.runs.get(made.id).state
    assert [] == app.queues.list()


def test_a_queue_that_holds_nothing_can_be_paused_and_resumed(app):
    assert app.queues.pause("new").is_paused
    assert not app.queues.resume("new").is_paused
    assert not app.queues.resume("new").is_paused


@pytest.mark.parametrize("name", ["", "a b", 5, None])
def test_what_names_no_queue_is_refused(app, name):
    assert refused(app, UsageError, lambda: app.queues.pause(name))


def test_the_status_counts_what_is_dead_and_retrying(app, dead, clock):
    @app.task
    def later() -> object:
        return duly.snooze("1h")

    app.enqueue(later)
    work(app, clock)
    status = app.status()

    assert (2, 1, 0, 0) == (status.dead, status.retrying, status.running, status.queued)
    assert {"dead": 2, "retrying": 1}.items() <= status.to_json().items()


def test_the_status_names_schedules_whose_task_is_gone(app, tasks):
    app.schedules.create("hourly", tasks.report, duly.every("1h"))
    app.schedules.create("daily", tasks.report, duly.every("1d"))
    app.schedules.pause("daily", reason="holidays")
    app.schedules.pause("hourly", reason=f"{TASK_GONE}: report")

    assert ("hourly",) == app.status().taskless
    assert ["hourly"] == app.status().to_json()["taskless"]


def test_reconciling_tells_the_store_what_tasks_say_about_their_runs(app, charge, clock, store):
    app.reconcile()
    app.enqueue(charge.bind(1))
    member, _ = store.join(worker())
    store.claim_runs(ClaimRuns(worker=member, limit=1))
    clock.advance("1h")
    (lost,) = store.find_lost(10, 0).claims

    assert charge.policy == lost.policy


async def _awaited(app, dead):
    runs = await app.aio.runs.retry(dead)
    queue = await app.aio.queues.pause("money")
    return runs, queue


def test_the_same_surface_is_awaited(app, dead):
    import asyncio

    runs, queue = asyncio.run(_awaited(app, dead))

    assert (2, True) == (len(runs), queue.is_paused)
