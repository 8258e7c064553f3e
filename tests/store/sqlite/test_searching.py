"""Searching in a file: bounded pages, each by an index."""

from __future__ import annotations

import pytest

from duly.domain.enums import AttemptState, RunState
from duly.domain.ids import RunId, ScheduleId
from duly.store.ports.queries import AttemptFilter, AuditFilter, RunFilter
from duly.store.sqlite.searching import SqliteSearch
from tests.store.searched import missed_within

RUN, SCHEDULE = RunId(b"9" * 16), ScheduleId(b"1" * 16)
DEFAULT = RunFilter(tenant="default")
RECENT = AuditFilter(since=1 << 50)


def states(*names):
    return frozenset(RunState(name) for name in names)


def test_pages_that_are_cut_off_go_on_where_they_were(store, clock):
    """Nothing is missed, and nothing comes twice."""
    assert {} == missed_within(store, clock, SqliteSearch)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (DEFAULT, {"SCAN p"}),
        (RunFilter(tenant="default", before_id=RUN), {"PRIMARY KEY (id<?)"}),
        (RunFilter(tenant="theirs"), {"duly_runs_tenant (tenant=?)"}),
        (RunFilter(tenant="default", schedule_id=SCHEDULE), {"duly_runs_schedule"}),
        (RunFilter(tenant="default", key="k"), {"duly_runs_key (tenant=? AND key=?)"}),
        (RunFilter(tenant="default", root=RUN), {"duly_runs_root", "PRIMARY KEY (id=?)"}),
        (
            RunFilter(tenant="default", error="boom"),
            {"duly_outcomes_failed", "duly_attempts_failed"},
        ),
        (
            RunFilter(tenant="default", states=states("failed", "cancelled")),
            {"duly_outcomes_noted (state=?)"},
        ),
        (
            RunFilter(tenant="default", states=states("dead"), since=1 << 50, until=1 << 51),
            {
                "PRIMARY KEY (run_id>? AND run_id<?)",
                "duly_runs_strays (tenant=? AND scheduled_for>? AND scheduled_for<?)",
            },
        ),
        (
            RunFilter(tenant="default", since=1 << 50),
            {"PRIMARY KEY (id>?)", "duly_runs_strays (tenant=? AND scheduled_for>?)"},
        ),
        (AttemptFilter(tenant="default", worker=3), {"duly_attempts_worker (worker=?)"}),
        (
            AttemptFilter(tenant="default", error="boom"),
            {"duly_outcomes_failed", "duly_attempts_failed"},
        ),
        (
            AttemptFilter(tenant="default", states=frozenset({AttemptState.FAILED})),
            {"duly_outcomes_noted (state=?)"},
        ),
        (AuditFilter(tenant="default"), {"duly_audit_tenant (tenant=?)"}),
        (AuditFilter(action="run.dead", actor="ada"), {"duly_audit_action (action=?)"}),
        (AuditFilter(actor="ada"), {"duly_audit_people (actor=?)"}),
        (AuditFilter(subject="nightly"), {"duly_audit_name (subject=?)"}),
        (AuditFilter(subject_id=b"1" * 16), {"duly_audit_subject (subject_id=?)"}),
        (RECENT, {"duly_audit_time (at>?)"}),
    ],
)
def test_every_search_goes_by_an_index(store, wanted, expected):
    """The one that narrows it most, in its order; no search reads a table."""
    plans: list[str] = []
    with store._connections.read() as look:  # noqa: SLF001 - how it is read is private

        class Explained(SqliteSearch):
            def _rows(self, sql, where):
                explained = look.connection.execute(f"EXPLAIN QUERY PLAN {sql}", where.bound())
                plans.extend(line for *_, line in explained)
                return super()._rows(sql, where)

        kind = {RunFilter: "runs", AttemptFilter: "attempts", AuditFilter: "audit"}[type(wanted)]
        getattr(Explained(look), f"search_{kind}")(wanted)

    missing = {one for one in expected if not any(one in line for line in plans)}
    assert set() == missing, plans
    assert [] == [line for line in plans if line.startswith("SCAN r")]
    # What is walked from its newest on, without anything that narrows it, is cut off by its bound.
    is_whole = wanted in (DEFAULT, RECENT) or isinstance(wanted, AttemptFilter)
    assert is_whole or not {"SCAN p", "SCAN duly_audit"} & set(plans), plans
