"""A worker that people take out of service: it hears of it with its beat, and heeds it."""

from __future__ import annotations

from duly.domain.outcomes import Failed, Succeeded
from duly.store.ports.dispatch import WorkerStatus
from duly.telemetry import WorkerDraining
from duly_conformance.claiming import order
from tests.engine.rig import SECOND


def ordered(rig, shop, standing, **parts):
    order(rig.store, shop.worker.member, standing, **parts)
    shop.worker.wake()


def test_a_drained_worker_takes_nothing_and_ends_when_its_work_is_done(rig):
    """Its work may take longer than any grace; nobody is to take its place."""
    first = rig.enqueue("first")
    shop = rig.worker(grace_us=5 * SECOND)
    rig.run("1s")
    ordered(rig, shop, WorkerStatus.DRAINING)
    second = rig.enqueue("second")
    rig.run("600s")

    assert ("running", "queued") == (rig.state(first), rig.state(second))
    assert (True, False, []) == (shop.worker.is_draining, shop.worker.is_over, shop.executor.asked)
    shop.end(Succeeded())
    rig.run("1s")
    assert ("succeeded", "queued") == (rig.state(first), rig.state(second))
    assert (True, True) == (shop.worker.is_over, shop.worker.is_dismissed)
    assert [1] == [event.running for event in rig.recorder.of(WorkerDraining)]
    assert () == rig.store.status().members


def test_an_idle_worker_that_is_drained_ends_at_once(rig):
    shop = rig.worker()
    rig.run("1s")
    ordered(rig, shop, WorkerStatus.DRAINING)
    rig.run("1s")

    assert shop.worker.is_over


def test_a_signal_sets_the_grace_of_a_worker_that_is_drained(rig):
    """Whoever ends the process does not wait for ever, and gives back what does not finish."""
    run = rig.enqueue()
    shop = rig.worker(grace_us=20 * SECOND)
    shop.executor.on_ask = lambda work: work.ended(Failed("CancelledError"))
    rig.run("1s")
    ordered(rig, shop, WorkerStatus.DRAINING)
    rig.run("100s")
    shop.worker.drain()
    rig.run("19s")

    assert "running" == rig.state(run)
    rig.run("2s")
    assert [("given-back", "shutdown")] == rig.ended(run)
    assert (True, False) == (shop.worker.is_over, shop.worker.is_dismissed)


def test_a_worker_that_is_released_before_it_has_ended_goes_on(rig):
    first = rig.enqueue("first")
    shop = rig.worker()
    rig.run("1s")
    ordered(rig, shop, WorkerStatus.DRAINING)
    rig.run("5s")
    ordered(rig, shop, None)
    second = rig.enqueue("second")
    rig.run("5s")

    assert not shop.worker.is_draining
    assert ("running", "running") == (rig.state(first), rig.state(second))


def test_a_worker_in_quarantine_stays_and_asks_for_nothing(rig):
    """It finishes what it holds, and does not ask again and again."""
    first = rig.enqueue("first")
    shop = rig.worker()
    rig.run("1s")
    ordered(rig, shop, WorkerStatus.QUARANTINED)
    second = rig.enqueue("second")
    rig.run("10s")
    shop.end(Succeeded())
    asked = shop.line.calls.count("claim_runs")
    rig.run("60s")

    assert ("succeeded", "queued") == (rig.state(first), rig.state(second))
    assert (0, False) == (shop.line.calls.count("claim_runs") - asked, shop.worker.is_over)
    assert [WorkerStatus.QUARANTINED] == [one.standing for one in rig.store.status().members]


def test_a_worker_that_is_released_from_quarantine_claims_at_once(rig):
    shop = rig.worker()
    rig.run("1s")
    ordered(rig, shop, WorkerStatus.QUARANTINED)
    run = rig.enqueue()
    rig.run("60s")
    ordered(rig, shop, None)
    rig.run("4s")

    assert "running" == rig.state(run)


def test_what_is_fenced_off_is_done_by_another_and_the_worker_stays_out(rig):
    """It joins anew, is in quarantine there, too, and what it still says is refused."""
    rig.dispatcher()
    run = rig.enqueue()
    shop = rig.worker()
    rig.run("1s")
    member = shop.worker.member
    ordered(rig, shop, WorkerStatus.QUARANTINED, is_fenced=True)
    rig.run("10s")
    shop.works[0].ended(Succeeded())
    rig.run("60s")

    assert member != shop.worker.member
    assert ("queued", [("lost", "lost")]) == (rig.state(run), rig.ended(run))
    assert 1 == len(shop.works)
