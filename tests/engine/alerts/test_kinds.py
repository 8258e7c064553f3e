"""Every kind of alert, made real: raised once, about the right thing, and over by itself.

On each store, and told to a real mail server and a real web server: one message each when it is
raised, one when it is over, and what they say is what is on record.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from duly.cli import main as command
from duly.domain.alert_rules import AlertKind
from duly.domain.effects import Choice
from duly.domain.enums import Lane, Missed, Overlap
from duly.domain.ids import identity_text, ordered_run_id
from duly.domain.outcomes import Failed, Succeeded
from duly.domain.quotas import OWNER_GONE
from duly.domain.runs import RECEIVER_GONE, TASK_GONE, TaskPolicy
from duly.domain.schedule_changes import decide_pause, decide_resume
from duly.domain.schedules import TENANT_DEFAULT
from duly.store.ports.dispatch import Renew, WorkerStatus
from duly.store.ports.effects import ResolveAmbiguousRun
from duly.store.ports.execution import Report
from duly.store.ports.operations import OrderWorker
from duly.store.sqlite import SqliteStore
from duly.timetable.interval import every
from duly_conformance import kit, steps
from duly_conformance.effects import in_doubt
from duly_conformance.kit import ADA, HOUR_US, MINUTE_US, SECOND_US
from tests.engine.alerts.alert_rig import raw_sqlite
from tests.engine.alerts.conftest import store_of
from tests.engine.alerts.receivers import Servers, TellingRoom
from tests.engine.webhooks.rig import KEY
from tests.remote.test_commands import names_of

LONG_US = 100 * HOUR_US
FLOOR_US = 5 * MINUTE_US
"""No completion is stale before."""


@pytest.fixture(scope="module")
def servers():
    """A mail server and a web server."""
    made = Servers()
    yield made
    made.close()


@pytest.fixture(params=["sqlite", "postgres"])
def stored(request):
    """Each kind is raised on both: what raises it is read by SQL that is one store's own."""
    yield from store_of(request)


@pytest.fixture
def guard(stored, servers, monkeypatch):
    """Somebody who watches, and tells both servers."""
    monkeypatch.setenv("DULY_SECRET_KEY", KEY)
    servers.forget()
    return TellingRoom(stored[0], stored[1], servers=servers)


def raised(guard, kind: AlertKind, *subjects: str) -> None:
    """Look until it was raised, and some more: once, about these, and about nothing else."""
    guard.look(8)

    assert sorted(subjects) == guard.subjects(str(kind))
    assert [("raised", one) for one in sorted(subjects)] == sorted(guard.told(str(kind)))
    for alert in guard.alerts(str(kind)):
        assert alert.summary
        assert set() == unknown_commands(alert.remedy)
        # Whoever copies it has the same names in a tenant of their own.
        is_anothers = alert.tenant not in ("", None, TENANT_DEFAULT)
        assert is_anothers == (f" --tenant {alert.tenant}" in alert.remedy)
        assert alert.since <= alert.raised_at


def unknown_commands(remedy: str) -> set[str]:
    """Return what a remedy tells people to type, and is no command."""
    known = set(names_of(command.app))
    said = {words.strip() for words in re.findall(r"\bduly ((?:[a-z]+ ?){1,2})", remedy)}
    assert said, f"{remedy} names no command"
    return {words for words in said if words not in known and words.split()[0] not in known}


def resolved(guard, kind: AlertKind, *subjects: str) -> None:
    """Look until it is over: told once."""
    guard.look(60)

    assert [] == guard.alerts(str(kind))
    ends = [one for one in guard.told(str(kind)) if one[0] == "resolved"]
    assert [("resolved", one) for one in sorted(subjects)] == sorted(ends)


def dispatcher(guard, **parts):
    """Join as a dispatcher that stays, and owns nothing."""
    return steps.join(guard.store, ttl_us=LONG_US, **parts)


def worker(guard, **parts):
    """Join as a worker that stays."""
    return steps.join_worker(guard.store, ttl_us=LONG_US, **parts)


def test_what_is_due_and_does_not_fire_is_late(guard):
    """Late run, of a schedule, a delayed run and a retry."""
    dispatcher(guard)
    record = steps.create(guard.store, "nightly", tenant="acme")
    late = steps.delay(guard.store, guard.clock.now_us() + SECOND_US)
    retried = steps.make_waiting(guard.store, "b", after_us=SECOND_US)
    steps.fall_due(guard.clock, record, late_us=50 * SECOND_US)
    runs = [f"run {identity_text(one)}" for one in (late.id, retried)]

    raised(guard, AlertKind.LATE_RUN, "schedule nightly", *runs)

    steps.fire_retries(guard.store, guard.clock)
    fence = steps.own(guard.store, (Lane.LIVE,), ttl_us=LONG_US)
    pending = guard.store.get_delayed(late.id)
    shards = guard.store.status().shards
    steps.fire(guard.store, fence, kit.delayed_fire(pending, shards))
    steps.delete(guard.store, steps.look(guard.store, record))
    resolved(guard, AlertKind.LATE_RUN, "schedule nightly", *runs)


def test_nobody_who_fires_is_told_once_and_not_for_each_promise(guard):
    """No executions while work is due; without any dispatcher, by whoever watches."""
    for name in "abc":
        steps.create(guard.store, name)
    guard.clock.advance("62m")

    raised(guard, AlertKind.NO_EXECUTIONS, "store")
    assert ["store"] == guard.subjects("late-run")

    for name in "abc":
        steps.delete(guard.store, guard.store.find_schedule("default", name).record)
    resolved(guard, AlertKind.NO_EXECUTIONS, "store")
    assert [] == guard.subjects("late-run")


@pytest.mark.parametrize("who", ["nobody", "another queue", "in quarantine", "idle"])
def test_a_queue_of_which_nothing_is_begun_is_told_of(guard, who):
    """No executions, though workers may be alive."""
    if who != "nobody":
        queues = ("else",) if who == "another queue" else ()
        member = worker(guard, queues=queues, host="attic")
        if who == "in quarantine":
            rests = OrderWorker(worker=member, standing=WorkerStatus.QUARANTINED, actor=ADA)
            guard.store.order_worker(rests)
    steps.queue(guard.store, queue="mail")

    raised(guard, AlertKind.NO_EXECUTIONS, "queue mail")
    words = {"nobody": "no worker is alive", "another queue": "no worker serves it"}
    words |= {"in quarantine": "is in quarantine"}
    assert words.get(who, "although workers serve it") in guard.alerts()[0].summary

    steps.take(guard.store, worker(guard))
    resolved(guard, AlertKind.NO_EXECUTIONS, "queue mail")


def test_a_queue_that_somebody_has_paused_is_no_alert(guard):
    """It was done on purpose."""
    steps.queue(guard.store, queue="mail")
    guard.store.pause_queue("mail", ADA)
    guard.look(60)

    assert [] == guard.alerts()


def test_a_queue_whose_first_waits_for_long_is_old(guard):
    """Queue age."""
    busy = worker(guard)
    steps.queue(guard.store, "held", queue="mail")
    steps.take(guard.store, busy)
    steps.queue(guard.store, "waiting", queue="mail")
    guard.look(10)
    early = guard.alerts()
    guard.look(20)

    assert [] == early
    raised(guard, AlertKind.QUEUE_AGE, "queue mail")
    assert [] == guard.alerts("no-executions")
    steps.take(guard.store, busy)
    resolved(guard, AlertKind.QUEUE_AGE, "queue mail")


def test_a_queue_with_many_is_deep(guard):
    """Queue depth, if it stays so for a while."""
    guard.rule("queue-depth", threshold=3)
    busy = worker(guard)
    steps.queue(guard.store, "held", queue="mail")
    steps.take(guard.store, busy)
    for name in "abc":
        steps.queue(guard.store, name, queue="mail")
    guard.look(3)

    assert [] == guard.alerts()
    raised(guard, AlertKind.QUEUE_DEPTH, "queue mail")
    assert 3 == guard.alerts("queue-depth")[0].evidence["queued"]
    steps.take(guard.store, busy, limit=1)
    resolved(guard, AlertKind.QUEUE_DEPTH, "queue mail")


def test_a_run_in_doubt_waits_for_a_person(guard):
    """Ambiguous run, in its own tenant."""
    claimed = in_doubt(guard.store, tenant="acme")
    subject = f"run {identity_text(claimed.record.id)}"

    raised(guard, AlertKind.AMBIGUOUS_RUN, subject)
    assert "acme" == guard.alerts()[0].tenant
    assert "it has waited for a person for " in guard.alerts()[0].summary

    guard.store.settle_doubt(
        ResolveAmbiguousRun(tenant="acme", id=claimed.record.id, choice=Choice.SKIP, actor=ADA)
    )
    resolved(guard, AlertKind.AMBIGUOUS_RUN, subject)


def test_an_attempt_that_does_not_advance_is_stalled(guard):
    """Stalled run."""
    guard.store.register_policies({"remind": TaskPolicy(stall_us=30 * SECOND_US)})
    steps.queue(guard.store)
    busy = worker(guard)
    claimed = steps.take_one(guard.store, busy)
    start = Report(hold=claimed.hold, started_at=guard.clock.now_us())
    guard.store.report(busy, [start])
    guard.look(2)
    early = guard.alerts()
    subject = f"run {identity_text(claimed.record.id)}"

    assert [] == early
    raised(guard, AlertKind.STALLED_RUN, subject)
    steps.end(guard.store, busy, claimed, Succeeded())
    resolved(guard, AlertKind.STALLED_RUN, subject)


def test_a_run_that_is_tried_again_and_again_is_told_of(guard):
    """Several attempts of one run, from the third on."""
    run_id = steps.make_waiting(guard.store, after_us=SECOND_US)
    busy = worker(guard)
    steps.fire_retries(guard.store, guard.clock)
    second = steps.take_one(guard.store, busy)
    guard.look(2)
    assert [] == guard.alerts()
    steps.end(guard.store, busy, second, Failed("no", after_us=SECOND_US))
    steps.fire_retries(guard.store, guard.clock)
    claimed = steps.take_one(guard.store, busy)
    subject = f"run {identity_text(run_id)}"

    raised(guard, AlertKind.SEVERAL_ATTEMPTS, subject)
    assert 3 == guard.alerts()[0].evidence["attempts"]
    steps.end(guard.store, busy, claimed, Succeeded())
    resolved(guard, AlertKind.SEVERAL_ATTEMPTS, subject)


def test_new_dead_letters_are_told_of_by_task(guard):
    """Dead letters growing; those of long ago are known."""
    for name in "ab":
        steps.make_dead(guard.store, name, tenant="acme")

    raised(guard, AlertKind.DEAD_LETTERS, "task remind")
    assert ("acme", 2) == (guard.alerts()[0].tenant, guard.alerts()[0].evidence["died"])
    for name in "cde":
        steps.make_dead(guard.store, name, tenant="acme")
    guard.look(1)
    assert guard.alerts()[0].summary.startswith("5 runs of task remind died")
    assert ["raised"] == [one.change for one in guard.channel.notices if one.kind == "dead-letters"]
    resolved(guard, AlertKind.DEAD_LETTERS, "task remind")


def test_a_destination_that_is_down_is_told_of(guard):
    """Breaker open."""
    steps.fail_often(guard.store)
    subject = f"destination {steps.API}"

    raised(guard, AlertKind.BREAKER_OPEN, subject)
    guard.store.reset_breaker(steps.API, ADA)
    resolved(guard, AlertKind.BREAKER_OPEN, subject)


def test_a_dispatcher_whose_clock_is_off_is_named(guard):
    """Clock skew, beyond 100 ms."""
    members = [dispatcher(guard, host=f"host-{number}") for number in range(3)]
    skews = {members[0]: 99_000, members[1]: -250_000, members[2]: 0}

    def renew(skews):
        for member, skew_us in skews.items():
            is_holding = abs(skew_us) > 100_000
            guard.store.renew(
                Renew(member=member, ttl_us=LONG_US, skew_us=skew_us, is_holding=is_holding)
            )

    renew(skews)
    subject = f"dispatcher {members[1]}"

    raised(guard, AlertKind.CLOCK_SKEW, subject)
    assert "host-1 is -250.0 ms off" in guard.alerts()[0].summary
    renew(dict.fromkeys(members, 0))
    resolved(guard, AlertKind.CLOCK_SKEW, subject)


def test_a_run_that_fired_early_is_told_of(guard):
    """It must never be; a table that was tampered with shows it."""
    claimed = steps.queue_and_take(guard.store)[1]
    make_early(guard.store, claimed.record.id)

    raised(guard, AlertKind.EARLY_FIRE, "store")
    assert identity_text(claimed.record.id) in guard.alerts()[0].summary
    guard.look(1, after="61m")
    resolved(guard, AlertKind.EARLY_FIRE, "store")


def test_unusually_many_promises_are_told_of(guard):
    """Unusual creation rate, by what was usual while somebody watched."""
    guard.look(45)
    make_many(guard, 350)
    guard.look(1, after="1s")
    for _ in range(5):
        make_many(guard, 120)
        guard.look(1)

    assert ["store"] == guard.subjects("creation-rate")
    assert [("raised", "store")] == guard.told("creation-rate")
    resolved(guard, AlertKind.CREATION_RATE, "store")


def test_an_occurrence_without_any_record_is_missing(guard):
    """Missing run; as after a database that lost its last commits."""
    record = steps.create(guard.store, "nightly", timetable=every("10m"))
    for _ in range(2):
        record = steps.fire_due(guard.store, guard.clock, record)
    guard.clock.advance("1s")
    forget_run(guard.store, record.last_run)

    raised(guard, AlertKind.MISSING_RUN, "schedule nightly")
    assert 1 == len(guard.alerts("missing-run")[0].evidence["missing"])
    for _ in range(6):
        record = steps.fire_due(guard.store, guard.clock, record)
    resolved(guard, AlertKind.MISSING_RUN, "schedule nightly")


def test_a_schedule_that_completes_no_more_is_stale(guard):
    """Stale useful completion: it fires and fires, and nothing gets done."""
    busy = worker(guard)
    record = steps.create(guard.store, "nightly", timetable=every("10m"), overlap=Overlap.ALLOW)
    record = steps.fire_due(guard.store, guard.clock, record)
    steps.end(guard.store, busy, steps.take_one(guard.store, busy), Succeeded())
    stuck = []
    for number in range(3):
        record = steps.fire_due(guard.store, guard.clock, record)
        stuck += steps.take(guard.store, busy)
        guard.look(1)
        assert number == 2 or [] == guard.alerts("stale-completion")

    raised(guard, AlertKind.STALE_COMPLETION, "schedule nightly")
    for claimed in stuck:
        steps.end(guard.store, busy, claimed, Succeeded())
    resolved(guard, AlertKind.STALE_COMPLETION, "schedule nightly")


@pytest.mark.parametrize(
    ("period", "fires", "count", "threshold"),
    [("5s", 97, "97", 3), ("20s", 30, "30", 25), ("100ms", 3_001, "1,000 or more", 3)],
)
def test_a_frequent_schedule_that_completes_no_more_is_stale(
    guard, period, fires, count, threshold
):
    """However often it fires: what counts are the occurrences since its last completion."""
    busy = worker(guard)
    record = steps.create(guard.store, "often", timetable=every(period), overlap=Overlap.ALLOW)
    record = steps.fire_due(guard.store, guard.clock, record)
    steps.end(guard.store, busy, steps.take_one(guard.store, busy), Succeeded())
    done_at = guard.clock.now_us()
    fire_on(guard, record, fires)
    guard.rule("stale-completion", threshold=threshold)
    guard.look(1, after="1ms")

    (alert,) = guard.alerts("stale-completion")
    assert ("schedule often", done_at) == (alert.subject, alert.since)
    assert f"; {count} occurrences fell due since" in alert.summary


def test_runs_that_nearly_overlap_are_told_of_before_they_do(guard):
    """Overlap."""
    busy = worker(guard)
    record = steps.create(guard.store, "nightly", timetable=every("10m"), overlap=Overlap.SKIP)
    for minutes in (1, 9, 9, 9):
        record = steps.fire_due(guard.store, guard.clock, record)
        claimed = steps.take_one(guard.store, busy)
        guard.store.report(busy, [Report(hold=claimed.hold, started_at=guard.clock.now_us())])
        guard.clock.advance(minutes * MINUTE_US)
        steps.end(guard.store, busy, claimed, Succeeded())
        if minutes == 1:
            guard.look(1)
            assert [] == guard.alerts("overlap")

    guard.look(2, after="1s")
    assert ["schedule nightly"] == guard.subjects("overlap")
    assert "90%" in guard.alerts("overlap")[0].summary
    steps.edit(
        guard.store,
        record,
        replace(record.definition, timetable=every("1h"), overlap=Overlap.SKIP),
    )
    guard.look(30)
    assert [("raised", "schedule nightly"), ("resolved", "schedule nightly")] == guard.told(
        "overlap"
    )


def test_a_schedule_that_the_system_has_paused_is_told_of_with_its_owner(guard):
    """And one that a person has paused is not."""
    gone = steps.create(guard.store, "gone", owner="accounts")
    mine = steps.create(guard.store, "mine")
    reason = f"{TASK_GONE}: remind"
    pause = decide_pause(gone, reason=reason, until=None, missed=Missed.SKIP)
    guard.store.change_schedule(kit.change_of(gone, pause))
    steps.pause(guard.store, mine)

    raised(guard, AlertKind.SCHEDULE_PAUSED, "schedule gone")
    (alert,) = guard.alerts("schedule-paused")
    assert f"schedule gone of accounts is paused: {reason}" == alert.summary
    assert {"owner": "accounts", "reason": reason} == alert.evidence

    steps.delete(guard.store, steps.look(guard.store, gone))
    resolved(guard, AlertKind.SCHEDULE_PAUSED, "schedule gone")


@pytest.mark.parametrize("cause", [OWNER_GONE, RECEIVER_GONE])
def test_a_schedule_whose_owner_or_receiver_is_gone_is_told_of_until_it_goes_on(guard, cause):
    """To who hears of its tenant, with what to do."""
    gone = steps.create(guard.store, "gone", owner="ada", tenant="acme")
    pause = decide_pause(gone, reason=f"{cause}: 'it'", until=None, missed=Missed.SKIP)
    guard.store.change_schedule(kit.change_of(gone, pause))

    raised(guard, AlertKind.SCHEDULE_PAUSED, "schedule gone")
    (alert,) = guard.alerts("schedule-paused")
    assert f"schedule gone of ada is paused: {cause}: 'it'" == alert.summary
    assert "duly schedule resume gone --tenant acme" in alert.remedy
    assert ("--owner WHO" in alert.remedy) == (cause == OWNER_GONE)

    paused = steps.look(guard.store, gone)
    steps.apply(guard.store, paused, decide_resume(paused, guard.store.now(), Missed.SKIP, None))
    resolved(guard, AlertKind.SCHEDULE_PAUSED, "schedule gone")


def test_every_kind_was_made_real():
    """None is only a word. Each test above names its kind once it was raised."""
    source = Path(__file__).read_text(encoding="utf-8")
    named = {str(kind) for kind in AlertKind if f"AlertKind.{kind.name}" in source}

    assert set(map(str, AlertKind)) == named | {"overlap"}


def fire_on(guard, record, times: int) -> None:
    """Fire a schedule on time, so many times, as one dispatcher; no worker runs what it makes."""
    fence = steps.own(guard.store, (Lane.LIVE,), ttl_us=LONG_US)
    for _ in range(times):
        steps.fall_due(guard.clock, record)
        assert 1 == steps.fire(guard.store, fence, kit.on_time(record)).runs_made
        record = steps.look(guard.store, record)
    guard.store.leave(fence.member)


def make_many(guard, count: int) -> None:
    """Ask for runs under ids that begin with the time."""
    now = guard.clock.now_us()
    new = [
        replace(
            kit.new_run(now + LONG_US),
            id=ordered_run_id("once", now, f"{now}/{number}".encode()),
            fingerprint=f"{now}/{number}",
        )
        for number in range(count)
    ]
    guard.store.add_runs(kit.add_runs(*new))


def make_early(store, run_id: Any) -> None:
    """Write what no store of ours writes: a run that was fired before its time."""
    now = store.now()
    if isinstance(store, SqliteStore):
        with raw_sqlite(store) as connection:
            connection.pragma("ignore_check_constraints", 1)
            early = "UPDATE duly_runs SET not_before = ?, fired_at = ? WHERE id = ?"
            connection.execute(early, (now + 1, now, run_id))
            connection.pragma("ignore_check_constraints", 0)
        return
    with psycopg.connect(store.url, autocommit=True) as line:
        line.execute("ALTER TABLE duly.runs DROP CONSTRAINT never_early")
        early = "UPDATE duly.runs SET not_before = %s, fired_at = %s WHERE id = %s::uuid"
        line.execute(early, (now + 1, now, run_id.hex()))
        line.execute(
            "ALTER TABLE duly.runs ADD CONSTRAINT never_early"
            " CHECK (fired_at >= not_before AND not_before >= scheduled_for) NOT VALID"
        )


def forget_run(store, run_id: Any) -> None:
    """Lose a run and all that is told of it."""
    if isinstance(store, SqliteStore):
        with raw_sqlite(store) as connection:
            for statement in ("duly_ready WHERE run_id", "duly_runs WHERE id"):
                connection.execute(f"DELETE FROM {statement} = ?", (run_id,))  # noqa: S608 - ours
        return
    with psycopg.connect(store.url, autocommit=True) as line:
        for statement in ("duly.ready WHERE run_id", "duly.runs WHERE id"):
            line.execute(
                f"DELETE FROM {statement} = %s::uuid",  # noqa: S608 - ours
                (run_id.hex(),),
            )
