"""Maintenance: pauses end by themselves, newer time-zone rules move what they move, history is pruned."""

from __future__ import annotations

from dataclasses import replace

from duly.domain.enums import Lane, Missed, RunState, ScheduleStatus, SkipReason
from duly.domain.schedule_changes import decide_delete, decide_pause
from duly.engine.dispatcher.settings import RETENTION_DEFAULT
from duly.engine.manual_clock import START_US
from duly.errors import LeaseLost
from duly.store.ports.queries import AuditFilter
from duly.telemetry import (
    HistoryPruned,
    ItemSkipped,
    ScheduleResumed,
    TimerRetimed,
    TzdataOutdated,
    TzdataRecomputed,
)
from duly.timetable.cron import cron
from duly.timetable.interval import every
from duly_conformance.kit import cancel
from tests.engine.rig import HOUR, MINUTE, SECOND
from tests.timetable.made_zones import release, tzif

OLD_RULES = release("2026a", Here=tzif((0, False, "AAA")), UTC=tzif((0, False, "UTC")))
NEW_RULES = release("2026b", Here=tzif((3600, False, "BBB")), UTC=tzif((0, False, "UTC")))


def paused(rig, until, missed, **parts):
    record = rig.schedule(timetable=every("1m"), **parts)
    change = decide_pause(record, reason="migration", until=rig.at(until), missed=missed)
    return rig.change(record, change)


def test_a_pause_ends_by_itself(rig):
    """From the moment it was paused until; what fell into it is skipped, on record."""
    record = paused(rig, "3m30s", Missed.SKIP)
    rig.dispatcher()
    rig.run("5m10s")

    assert [240, 300] == rig.instants(record)
    assert [SkipReason.PAUSED] == [one.reason for one in rig.store.list_skips(record.id, 5)]
    assert [record.name] == [event.schedule for event in rig.recorder.of(ScheduleResumed)]
    entry = rig.store.list_audit(AuditFilter(action="schedule.resumed"))[0]
    assert ("duly", "dispatcher") == (entry.actor.name, entry.actor.source)


def test_what_dead_workers_held_is_settled_and_pauses_end_however_much_is_due(rig):
    """INV-21: under sustained load, too; there they matter most."""
    paused(rig, "60s", Missed.SKIP)
    rig.dispatcher(batch_max=1, batch_backlog_min=1, batches_per_tick=1)
    run = rig.enqueue()
    shop = rig.worker()
    rig.run("1s")
    rig.kill(shop.worker)
    for number in range(600):
        rig.delay(SECOND, f"d{number}")
    for _ in range(240):
        rig.advance(400_000)
        rig.fleet[0].tick()

    assert rig.fleet[0].statistics.fired < 600, "there was more to do than time"
    assert "lost" == rig.attempts(run)[0].state
    assert rig.recorder.of(ScheduleResumed)


def test_who_loses_the_maintenance_lease_while_settling_prunes_no_more(rig):
    """INV-5: it is told by the store; the tick goes on with what is still its own."""
    rig.dispatcher(prune_every_us=SECOND, reap_every_us=SECOND)
    rig.enqueue()
    dead = rig.worker()
    rig.run("2s")
    rig.kill(dead.worker)
    line = rig.lines[0]
    line.breaks["settle_lost"] = lambda _: True
    line.breaks_with = LeaseLost("memory", "another has it", "go on")
    rig.run("30s")

    assert "settle_lost" in line.asked
    assert [] == rig.recorder.of(ItemSkipped)


def test_what_falls_due_as_the_pause_ends_is_run(rig):
    """Paused until 08:03 means that 08:03 runs, however late somebody looks."""
    record = paused(rig, "3m", Missed.SKIP)
    rig.dispatcher()
    rig.run("4m10s")

    assert [180, 240] == rig.instants(record)


def test_resuming_by_the_misfire_policy_makes_up_for_the_pause(rig):
    """As after an outage."""
    record = paused(rig, "3m30s", Missed.MISFIRE)
    rig.dispatcher()
    rig.run("4m10s")

    assert [180, 240] == rig.instants(record)
    assert [SkipReason.COALESCED] == [one.reason for one in rig.store.list_skips(record.id, 5)]


def test_one_schedule_that_can_not_be_resumed_does_not_stop_the_others(rig):
    bad = paused(rig, "1m", Missed.SKIP, name="bad")
    good = rig.schedule("good", timetable=every("1m"))
    good = rig.change(good, decide_pause(good, reason=None, until=rig.at("1m"), missed=Missed.SKIP))
    rig.dispatcher()
    rig.lines[0].breaks["get_schedule"] = lambda schedule_id: schedule_id == bad.id
    rig.run("2m10s")

    assert [60, 120] == rig.instants(good)
    assert ScheduleStatus.PAUSED is rig.see(bad).status
    assert rig.recorder.of(ItemSkipped)


def local_schedule(rig, zones, name="local"):
    """Make a schedule for 12:00 in a zone, under a release."""
    timetable = replace(cron("0 12 * * *", tz="UTC"), tz="Here", zones=zones)
    return rig.schedule(name, timetable=timetable)


def test_the_first_dispatcher_notes_its_release(rig):
    rig.dispatcher(zones=OLD_RULES)
    rig.run("5s")

    assert "2026a" == rig.store.status().tzdata


def test_newer_rules_move_pending_instants_and_say_which(rig):
    """FAULT-18: recomputed from intent; told, and in the audit trail."""
    moving = local_schedule(rig, OLD_RULES)
    staying = rig.schedule("staying", timetable=every("1h"))
    rig.store.note_tzdata("2026a")
    rig.dispatcher(zones=NEW_RULES)
    rig.run("10s")
    moved = rig.recorder.of(TimerRetimed)
    entry = rig.store.list_audit(AuditFilter(action="schedule.retimed"))[0]

    assert START_US + 4 * HOUR == moving.pending.scheduled_for
    assert START_US + 3 * HOUR == rig.see(moving).pending.scheduled_for
    assert staying.pending == rig.see(staying).pending
    assert [("local", START_US + 4 * HOUR, START_US + 3 * HOUR)] == [
        (event.schedule, event.before, event.after) for event in moved
    ]
    assert ("duly", "time-zone rules 2026a -> 2026b") == (entry.actor.name, entry.actor.reason)
    assert "2026b" == rig.store.status().tzdata
    assert [(2, 1)] == [
        (event.looked_at, event.moved) for event in rig.recorder.of(TzdataRecomputed)
    ]


def test_a_schedule_goes_on_by_the_new_rules(rig):
    """What it fires next is computed under our release, too."""
    record = local_schedule(rig, OLD_RULES)
    rig.store.note_tzdata("2026a")
    almost_noon = tzif((4 * 3600 - 60, False, "BBB"))
    rig.dispatcher(zones=release("2026b", Here=almost_noon))
    rig.run("2m")

    assert [60] == rig.instants(record)
    assert START_US + MINUTE + 24 * HOUR == rig.see(record).pending.scheduled_for


def test_many_pages_are_walked(rig):
    """Bounded pages, crowds at one instant included."""
    for number in range(40):
        local_schedule(rig, OLD_RULES, f"local{number}")
    for number in range(40):
        rig.schedule(f"other{number}", timetable=every(f"{number + 1}h"))
    rig.store.note_tzdata("2026a")
    rig.dispatcher(zones=NEW_RULES, retime_page=10)
    rig.run("10s")

    assert 40 == len({event.schedule for event in rig.recorder.of(TimerRetimed)})
    assert "2026b" == rig.store.status().tzdata


def test_a_dispatcher_with_older_rules_owns_nothing_and_says_so(rig):
    """It would compute by rules that the fleet has left behind."""
    local_schedule(rig, OLD_RULES)
    old = rig.dispatcher(zones=OLD_RULES)
    rig.run("5s")
    new = rig.dispatcher(zones=NEW_RULES)
    rig.run("20s")

    assert () == old.shards(Lane.LIVE)
    assert old.is_holding
    assert tuple(range(4)) == new.shards(Lane.LIVE)
    assert [("2026a", "2026b")] == [
        (event.ours, event.newest) for event in rig.recorder.of(TzdataOutdated)
    ]


def test_beside_older_dispatchers_the_walk_is_made_twice(rig):
    """What they fired during the first walk was put forward by the old rules."""
    rig.dispatcher(zones=OLD_RULES)
    rig.run("5s")
    rig.dispatcher(zones=NEW_RULES)
    rig.run("30s")

    assert 2 == len(rig.recorder.of(TzdataRecomputed))


def test_history_is_pruned_by_age(rig):
    """In bounded batches, once a minute."""
    for number in range(5):
        rig.delay(HOUR, f"r{number}", key=f"k{number}")
        rig.store.cancel_delayed(cancel(f"k{number}"))
    kept_us = dict(RETENTION_DEFAULT.outcomes_us) | {RunState.CANCELLED: 10 * MINUTE}
    retention = replace(RETENTION_DEFAULT, outcomes_us=kept_us)
    rig.dispatcher(retention=retention, prune_limit=2)
    rig.run("9m")

    assert 5 == len(rig.runs())

    rig.run("3m")

    assert [] == rig.runs()
    assert rig.recorder.of(HistoryPruned)


def test_a_deleted_schedule_can_be_restored_until_its_retention_is_over(rig):
    record = rig.schedule()
    rig.change(record, decide_delete(record, None))
    retention = replace(RETENTION_DEFAULT, deleted_schedules_us=10 * MINUTE)
    rig.dispatcher(retention=retention)
    rig.run("9m")

    assert rig.store.get_schedule(record.id) is not None

    rig.run("3m")

    assert rig.store.get_schedule(record.id) is None


def test_only_the_owner_of_maintenance_looks_after_the_store(rig):
    """One owner, fenced."""
    rig.dispatcher()
    rig.dispatcher()
    rig.run("10s")
    for line in rig.lines:
        line.calls.clear()
    rig.run(30 * SECOND)
    callers = [line for line in rig.lines if "due_resumes" in line.calls]

    assert 1 == len(callers)


def test_the_audit_trail_is_sealed_by_the_owner_of_maintenance(rig):
    """Once a minute, in bounded batches until all of it is sealed."""
    for number in range(5):
        rig.schedule(f"s{number}")
    rig.dispatcher(seal_limit=2)
    rig.dispatcher(seal_limit=2)
    rig.run("70s")
    seals = rig.store.list_seals(0, 100)
    callers = [line for line in rig.lines if "seal_audit" in line.calls]

    assert 1 == len(callers)
    assert [2, 2, 1] == [len(one.entries) for one in seals][:3]


def test_who_loses_the_maintenance_lease_while_sealing_goes_on_with_the_rest(rig):
    """INV-5: it is told by the store."""
    rig.schedule()
    rig.dispatcher(seal_every_us=SECOND)
    rig.run("500ms")
    line = rig.lines[0]
    line.breaks["seal_audit"] = lambda _: True
    line.breaks_with = LeaseLost("memory", "another has it", "go on")
    rig.run("10s")

    assert "seal_audit" in line.asked
    assert [] == rig.recorder.of(ItemSkipped)
