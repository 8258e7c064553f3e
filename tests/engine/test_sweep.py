"""The sweep: whatever is overdue is found, and looking for it costs what is new and no more."""

from __future__ import annotations

from duly.engine.dispatcher import timer_loader
from duly.timetable.interval import every
from tests.engine.rig import MINUTE, SECOND


def _sweeps(rig, number=0):
    """Return the orders of sweeps: unlike the window's they may cut an instant."""
    return [order for order in rig.lines[number].asked["load_timers"] if not order.is_whole]


def test_what_is_recent_is_read_from_where_the_last_sweep_ended(rig):
    """Not from the beginning of time, where the traces of what was fired lie."""
    rig.schedule(timetable=every("1s"))
    rig.dispatcher()
    rig.run("10s")
    rig.lines[0].asked.clear()
    rig.run("30s")

    recent = [order for order in _sweeps(rig) if len(order.shards) == 4]
    assert len(recent) >= 25
    assert all(order.after is not None for order in recent)
    assert max(order.until - order.after for order in recent) <= 2 * SECOND


def test_the_whole_past_of_every_shard_is_read_once_a_minute(rig):
    """A net under everything else, a shard at a time."""
    rig.dispatcher()
    rig.run("10s")
    rig.lines[0].asked.clear()
    rig.run("1m")

    past = [order for order in _sweeps(rig) if order.after is None]
    assert {(0,), (1,), (2,), (3,)} == {order.shards for order in past}
    assert len(past) <= 6


def test_what_somebody_forgot_long_ago_is_found_within_a_minute(rig):
    """It was loaded, and lost from memory without a trace."""
    dispatcher = rig.dispatcher()
    rig.run("10s")
    run_id = rig.delay(SECOND)
    dispatcher._loader._cursor = rig.store.start_of_arrivals()  # noqa: SLF001 - the feed fails
    rig.advance(3 * SECOND)
    dispatcher._loader._sweep._through = rig.now  # noqa: SLF001 - the sweep thinks it has seen it
    rig.run("70s")

    assert [run_id] == [run.id for run in rig.runs()]
    assert max(rig.lateness()) <= 65 * SECOND


def test_an_heir_reads_the_past_of_its_shards_at_once(rig):
    """What fell due long before it came is fired within seconds."""
    ids = [rig.delay(number * SECOND + SECOND) for number in range(8)]
    rig.advance(5 * MINUTE)
    rig.dispatcher()
    rig.run("3s")

    assert set(ids) == {run.id for run in rig.runs()}


def test_a_past_that_is_too_long_to_walk_is_walked_shard_by_shard(rig):
    """A transaction held open elsewhere may have left a million traces."""
    ids = [rig.delay(number * SECOND + SECOND) for number in range(8)]
    rig.advance(5 * MINUTE)
    rig.dispatcher()
    rig.lines[0].refuses["load_timers"] = lambda order: (
        order.after is None and len(order.shards) > 1
    )
    rig.run("20s")

    assert set(ids) == {run.id for run in rig.runs()}


def test_a_past_that_nobody_can_walk_does_not_keep_fresh_work_waiting(rig):
    """What falls due now is fired, although the net is torn."""
    record = rig.schedule(timetable=every("1s"))
    rig.dispatcher()
    rig.lines[0].refuses["load_timers"] = lambda order: order.after is None and not order.is_whole
    rig.run("30s")

    assert len(rig.instants(record)) >= 25


def test_a_crowd_larger_than_memory_fires_whole_and_holds_up_nobody_for_ever(rig):
    """A part is loaded, fired, and the next part loaded."""
    crowd = {rig.delay(10 * SECOND, f"of {number}") for number in range(300)}
    later = rig.delay(12 * SECOND, "later")
    dispatcher = rig.dispatcher(entries_max=50, load_page=20, batch_max=10)
    rig.run("9s")
    assert dispatcher.loaded <= 60
    rig.run("10s")

    assert crowd | {later} == {run.id for run in rig.runs()}


def test_a_large_store_is_looked_at_slice_by_slice_and_nothing_is_passed_over(rig, monkeypatch):
    """What falls due does not wait for one look at all there is; every shard is looked at."""
    monkeypatch.setattr(timer_loader, "SLICE_US", -1)  # every look takes too long
    dispatcher = rig.dispatcher(sweep_page=3)
    rig.run("3s")
    forgotten = [rig.delay(3 * SECOND, f"of {number}") for number in range(40)]
    loader = dispatcher._loader  # noqa: SLF001 - nothing else forgets
    rig.run("2s")
    assert 40 == dispatcher.loaded
    loader.wheel.clear()
    rig.run("20s")

    recent = [order for order in _sweeps(rig) if order.after is not None]
    assert set(forgotten) == {run.id for run in rig.runs()}
    assert {1} == {len(order.shards) for order in recent[8:]}
    assert dispatcher.statistics.swept >= 40
