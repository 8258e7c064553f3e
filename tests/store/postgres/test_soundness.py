"""`check` finds what must never be: each broken by hand, on a database that was sound."""
# ruff: noqa: S608 - statements of ours

from __future__ import annotations

import psycopg
import pytest

from duly.domain.enums import Finding
from duly.domain.verification import ItemReport
from duly.store.ports.effects import AddVerdict
from duly.store.ports.execution import Report
from duly_conformance import steps
from duly_conformance import steps as work
from duly_conformance.effects import begin, in_doubt
from duly_conformance.kit import HOUR_US, add_runs, cancel, new_run


@pytest.fixture
def full(store, clock):
    """A store with some of everything."""
    in_doubt(store, "doubt")
    worker, intends = work.queue_and_take(store, "intends")
    begin(store, worker, intends)
    found = AddVerdict(run_id=intends.run_id, finding=Finding.PARTIAL, evidence=None, by="check")
    store.add_verdict(found)
    store.report(worker, [Report(hold=intends.hold, scope=ItemReport(expected=1, done=("a",)))])
    steps.fire_due(store, clock, steps.create(store))
    steps.pause(store, steps.create(store, "paused"))
    steps.delay(store, clock.now_us() + HOUR_US, "pending")
    cancelled = steps.delay(store, clock.now_us() + HOUR_US, "cancelled")
    store.cancel_delayed(cancel(cancelled.id))
    store.add_runs(add_runs(new_run(None, "at once")))
    steps.own(store)
    return store


def test_a_sound_database_has_no_findings(full):
    assert [] == full.check()


DROP_EARLY = "ALTER TABLE duly.runs DROP CONSTRAINT never_early"


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        (
            "UPDATE duly.schedule_state SET next_for = NULL, next_due = NULL, load_at = NULL",
            "timer",
        ),
        ("UPDATE duly.schedule_state SET next_for = 1, next_due = 1, load_at = 1", "timer"),
        ("UPDATE duly.schedule_state SET load_at = next_due + 1", "timer"),
        ("UPDATE duly.schedule_state SET next_for = next_due + 1", "timer"),
        ("UPDATE duly.schedule_state SET next_for = NULL", "timer"),
        ("UPDATE duly.schedule_state SET load_at = NULL", "timer"),
        ("DELETE FROM duly.schedule_definitions", "schedule"),
        ("DELETE FROM duly.schedule_state", "schedule"),
        ("INSERT INTO duly.owed VALUES (gen_random_uuid(), 1, 2, 0, 1, 0)", "schedule"),
        ("DELETE FROM duly.delayed", "tally"),
        ("DELETE FROM duly.ready", "place"),
        ("DELETE FROM duly.runs", "place"),
        ("INSERT INTO duly.ready SELECT * FROM duly.ready", "place"),
        ("INSERT INTO duly.outcomes SELECT run_id, 1, 'succeeded' FROM duly.ready", "place"),
        (
            """INSERT INTO duly.runs (id, scheduled_for, not_before, created_at, priority, tenant,
                task, queue, origin, lane)
            SELECT id, 1, 1, 1, 1, '', '', '', '', '' FROM duly.delayed""",
            "place",
        ),
        ("DELETE FROM duly.ambiguous", "place"),
        (
            """INSERT INTO duly.ambiguous (run_id, since, fence, attempt, charged, reason)
            SELECT run_id, 1, 1, 1, 1, 'error' FROM duly.claims""",
            "place",
        ),
        ("UPDATE duly.ambiguous SET run_id = gen_random_uuid()", "place"),
        ("UPDATE duly.ambiguous SET fence = 0", "attempt"),
        ("UPDATE duly.effects SET root = gen_random_uuid()", "effect"),
        ("UPDATE duly.effects SET state = 'intended'", "effect"),
        ("UPDATE duly.effects SET fence = fence + 1 WHERE state = 'intended'", "effect"),
        ("UPDATE duly.claims SET effects_at = NULL", "effect"),
        ("UPDATE duly.scopes SET root = gen_random_uuid()", "effect"),
        ("UPDATE duly.scope_items SET root = gen_random_uuid()", "effect"),
        ("UPDATE duly.verdicts SET run_id = gen_random_uuid()", "verdict"),
        ("UPDATE duly.leases SET owner = 999", "lease"),
        ("UPDATE duly.tallies SET count = count + 1 WHERE name = 'delayed'", "tally"),
        ("INSERT INTO duly.tally_changes VALUES ('paused', 1)", "tally"),
        (
            f"{DROP_EARLY}; UPDATE duly.runs SET fired_at = not_before - 1 WHERE fired_at > 0",
            "early",
        ),
    ],
)
def test_a_broken_invariant_is_found(full, timed_url, damage, what):
    with psycopg.connect(timed_url) as vandal:
        vandal.execute(damage)

    assert what in {finding.what for finding in full.check()}


def test_a_run_can_not_be_made_early(full, timed_url):
    """Whatever wrote it, the database refuses."""
    with psycopg.connect(timed_url, autocommit=True) as vandal:
        for table in ("runs", "ready"):
            with pytest.raises(psycopg.errors.CheckViolation, match="never_early"):
                vandal.execute(f"UPDATE duly.{table} SET fired_at = not_before - 1")


def test_a_culprit_is_named(full, timed_url):
    with psycopg.connect(timed_url) as vandal:
        found = vandal.execute("DELETE FROM duly.ready RETURNING run_id").fetchall()
        culprit = found[0][0]

    assert f"run {culprit} is in no place" in {finding.detail for finding in full.check()}
