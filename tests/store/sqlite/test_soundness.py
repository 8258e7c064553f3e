"""`check` finds what must never be: each broken by hand, on a file that was sound."""

from __future__ import annotations

import apsw
import pytest

from duly.domain.enums import Finding
from duly.domain.verification import ItemReport
from duly.store.ports.effects import AddVerdict
from duly.store.ports.execution import Report
from duly_conformance import steps
from duly_conformance import steps as work
from duly_conformance.effects import begin, in_doubt
from duly_conformance.kit import HOUR_US, add_runs, cancel, new_run

CLOSE_WHAT_IS_QUEUED = """
INSERT INTO duly_outcomes (run_id, state, finished_at)
SELECT run_id, 'succeeded', 1 FROM duly_ready"""
CLAIM_WHAT_IS_QUEUED = """
INSERT INTO duly_claims (run_id, worker, fence, attempt, charged, begun_at, claimed_at)
SELECT run_id, 1, 1, 1, 0, 1, 1 FROM duly_ready"""


@pytest.fixture
def full(store, clock):
    """A store with some of everything."""
    in_doubt(store, "doubt")
    worker, intends = work.queue_and_take(store, "intends")
    begin(store, worker, intends)
    found = AddVerdict(run_id=intends.run_id, finding=Finding.PARTIAL, evidence=None, by="check")
    store.add_verdict(found)
    store.report(worker, [Report(hold=intends.hold, scope=ItemReport(expected=1, done=("a",)))])
    work.make_waiting(store, "waiting")
    work.make_dead(store, "dead")
    work.queue_and_take(store, "claimed")
    steps.fire_due(store, clock, steps.create(store))
    steps.pause(store, steps.create(store, "paused"))
    steps.delay(store, clock.now_us() + HOUR_US, "pending")
    cancelled = steps.delay(store, clock.now_us() + HOUR_US, "cancelled")
    store.cancel_delayed(cancel(cancelled.id))
    store.add_runs(add_runs(new_run(None, "at once")))
    steps.own(store)
    return store


def test_a_sound_file_has_no_findings(full):
    assert [] == full.check()


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        ("UPDATE duly_schedule_state SET next_for = NULL, next_due = NULL", "timer"),
        ("UPDATE duly_schedule_state SET next_for = 1, next_due = 1", "timer"),
        ("DELETE FROM duly_schedule_definitions", "schedule"),
        ("DELETE FROM duly_schedule_state", "schedule"),
        ("INSERT INTO duly_owed VALUES (zeroblob(16), 1, 2, 1, 0, 0)", "schedule"),
        ("DELETE FROM duly_timers", "timer"),
        ("UPDATE duly_timers SET generation = 7", "timer"),
        ("DELETE FROM duly_delayed", "timer"),
        ("DELETE FROM duly_ready", "place"),
        ("DELETE FROM duly_runs", "place"),
        (CLOSE_WHAT_IS_QUEUED, "place"),
        ("DELETE FROM duly_claims", "place"),
        ("DELETE FROM duly_waiting", "place"),
        ("DELETE FROM duly_dead", "place"),
        (
            "INSERT INTO duly_dead SELECT run_id, 1, 1, 1, 1, 'budget', 1 FROM duly_waiting",
            "place",
        ),
        (CLAIM_WHAT_IS_QUEUED, "place"),
        ("DELETE FROM duly_ambiguous", "place"),
        (
            "INSERT INTO duly_ambiguous SELECT run_id, 1, 1, 1, 1, 'error', 1 FROM duly_dead",
            "place",
        ),
        ("UPDATE duly_ambiguous SET run_id = randomblob(16)", "place"),
        ("UPDATE duly_ambiguous SET fence = 0", "attempt"),
        ("UPDATE duly_effects SET root = randomblob(16)", "effect"),
        ("UPDATE duly_effects SET state = 'intended'", "effect"),
        ("UPDATE duly_effects SET fence = fence + 1 WHERE state = 'intended'", "effect"),
        ("UPDATE duly_claims SET effects_at = NULL", "effect"),
        ("UPDATE duly_scopes SET root = randomblob(16)", "effect"),
        ("UPDATE duly_scope_items SET root = randomblob(16)", "effect"),
        ("UPDATE duly_verdicts SET run_id = randomblob(16)", "verdict"),
        ("UPDATE duly_attempts SET fence = fence + 100", "attempt"),
        ("UPDATE duly_attempts SET number = number + 1", "attempt"),
        ("UPDATE duly_attempts SET run_id = randomblob(16)", "attempt"),
        ("UPDATE duly_tallies SET count = count + 1 WHERE name = 'retrying'", "tally"),
        ("UPDATE duly_tallies SET count = count + 1 WHERE name = 'dead'", "tally"),
        ("UPDATE duly_leases SET owner = 999", "lease"),
        ("UPDATE duly_tallies SET count = count + 1 WHERE name = 'delayed'", "tally"),
        ("UPDATE duly_runs SET fired_at = not_before - 1 WHERE fired_at IS NOT NULL", "early"),
    ],
)
def test_a_broken_invariant_is_found(full, path, damage, what):
    vandal = apsw.Connection(str(path))
    vandal.pragma("ignore_check_constraints", 1)
    vandal.execute(damage)
    vandal.close()

    assert what in {finding.what for finding in full.check()}


def test_a_run_can_not_be_made_early(full, path):
    """Whatever wrote it, the file refuses."""
    vandal = apsw.Connection(str(path))

    with pytest.raises(apsw.ConstraintError, match="never_early"):
        vandal.execute("UPDATE duly_runs SET fired_at = not_before - 1 WHERE fired_at IS NOT NULL")
    with pytest.raises(apsw.ConstraintError, match="never_early"):
        vandal.execute("UPDATE duly_ready SET fired_at = not_before - 1")
    vandal.close()
