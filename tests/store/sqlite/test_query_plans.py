"""Hot statements search by an index: their cost follows what is due, not what is pending."""

from __future__ import annotations

import re

import apsw
import pytest

from duly.store.sqlite import (
    access,
    alerting,
    attempts,
    claiming,
    delayed,
    doubts,
    effects,
    finishing,
    firing,
    firing_many,
    last_ends,
    leases,
    loading,
    operating,
    owed,
    places,
    planning,
    quotas,
    reading,
    reaping,
    retention,
    run_vitals,
    scopes,
    settlements,
    slots,
    telling,
    trouble,
)

HOT = {
    "live alerts": alerting.LIST_LIVE,
    "due deliveries": alerting.DUE_DELIVERIES,
    "old alerts": alerting.OLD_ALERTS,
    "stallable attempts": trouble.STALLABLE,
    "runs tried often": trouble.TRIED,
    "newly dead": trouble.NEWLY_DEAD,
    "early fires": trouble.EARLY,
    "promises made": trouble.MADE,
    "load schedules": loading.LOAD_SCHEDULES,
    "load delayed": loading.LOAD_DELAYED,
    "arrivals of schedules": loading.READ_SCHEDULE_ARRIVALS,
    "arrivals of delayed runs": loading.READ_DELAYED_ARRIVALS,
    "load retries": loading.LOAD_RETRIES,
    "arrivals of retries": loading.READ_RETRY_ARRIVALS,
    "definitions": loading.READ_DEFINITIONS.text,
    "believed": firing.READ_BELIEVED,
    "is believed delayed": firing.IS_BELIEVED_DELAYED,
    "advance": firing.ADVANCE,
    "count believed": firing_many.COUNT_BELIEVED.text,
    "make runs": firing_many.MAKE_RUNS.text,
    "queue runs": firing_many.QUEUE_RUNS.text,
    "advance timers": firing_many.ADVANCE_TIMERS.text,
    "count believed delayed": firing_many.COUNT_BELIEVED_DELAYED.text,
    "make delayed runs": firing_many.MAKE_DELAYED_RUNS.text,
    "queue delayed runs": firing_many.QUEUE_DELAYED_RUNS.text,
    "delete timers": firing_many.DELETE_TIMERS.text,
    "delete delayed": firing_many.DELETE_DELAYED.text,
    "insert run": settlements.INSERT_RUN,
    "last run before": settlements.LAST_RUN_BEFORE,
    "owed": owed.LOAD_OWED,
    "read owed": owed.READ_OWED,
    "resumes": reading.DUE_RESUMES,
    "active of an owner": quotas.ACTIVE_OF_OWNER,
    "active of a tenant": quotas.ACTIVE_OF_TENANT,
    "active of who is gone": quotas.ACTIVE_OF,
    "who is gone": quotas.LIST_GONE,
    "pending of a tenant": quotas.PENDING,
    "made in a minute": quotas.MADE_SINCE,
    "overdue": reading.OVERDUE,
    "next schedule": reading.NEXT_SCHEDULE,
    "next delayed": reading.NEXT_DELAYED,
    "early": reading.COUNT_EARLY,
    "covering skip": reading.COVERING_SKIP,
    "covering owed": reading.COVERING_OWED,
    "by id": planning.BY_ID,
    "by name": planning.BY_NAME,
    "are known": delayed.ARE_KNOWN.text,
    "delayed by id": delayed.DELAYED_BY_ID,
    "delayed by key": delayed.DELAYED_BY_KEY,
    "run by id": delayed.RUN_BY_ID,
    "run by key": delayed.NEWEST_RUN_BY_KEY,
    "membership": leases.READ_MEMBERSHIP,
    "lease": leases.READ_LEASE,
    "old outcomes": retention.OLD_OUTCOMES,
    "old skips": retention.OLD_SKIPS,
    "old schedules": retention.OLD_SCHEDULES,
    "oldest arrivals": retention.OLDEST_ARRIVALS,
    "surplus runs": retention.SURPLUS_RUNS,
    "believed retry": firing.READ_BELIEVED_RETRY,
    "delete retry": firing.DELETE_FIRED_RETRY,
    "next retry": reading.NEXT_RETRY,
    "next queue": claiming.NEXT_QUEUE,
    "next priority": claiming.NEXT_PRIORITY,
    "next tenant": claiming.NEXT_TENANT,
    "has others": claiming.HAS_OTHERS,
    **{
        f"{name} {way}": statement
        for way, taking in vars(claiming).items()
        if isinstance(taking, claiming.Taking)
        for name, statement in taking._asdict().items()
    },
    "served": claiming.HAS_WORKER,
    "beat": claiming.BEAT,
    "claim": telling.READ_CLAIM,
    "note progress": telling.NOTE_PROGRESS,
    "step": telling.INSERT_STEP,
    "last step": telling.LAST_STEP,
    "last line": telling.LAST_LINE,
    "checkpoint": telling.SAVE_CHECKPOINT,
    "checkpoints": telling.LIST_CHECKPOINTS,
    "close claimed": finishing.CLOSE_CLAIMED.text,
    "drop closed": finishing.DROP_CLOSED.text,
    "take claim": finishing.TAKE_CLAIM,
    "ended attempt": finishing.READ_ENDED_ATTEMPT,
    "closing attempt": finishing.READ_CLOSING_ATTEMPT,
    "call": places.READ_CALL,
    "is suspended": places.IS_SUSPENDED,
    "ledger": effects.FIND_LEDGER,
    "boundary": effects.READ_BOUNDARY,
    "effect": effects.READ_EFFECT,
    "forget intentions": effects.FORGET_INTENTIONS,
    "unknown effects": effects.LIST_UNKNOWN,
    "newest runs": run_vitals.NEWEST,
    "run vitals": run_vitals.VITALS,
    "definitions of a schedule": run_vitals.DEFINITIONS,
    "do item": scopes.DO_ITEM,
    "count items": scopes.COUNT_ITEMS,
    "missing items": scopes.LIST_MISSING,
    "next verdict": doubts.NEXT_VERDICT,
    "verdicts": doubts.LIST_VERDICTS,
    "slots": slots.FIND,
    "slots after": slots.FIND_AFTER,
    "put slots": slots.PUT,
    "drop slots": slots.DROP,
    "forget slots": slots.FORGET,
    "forget workers": retention.FORGET_WORKERS,
    "lease of the lost": reaping.READ_LEASE,
    "deadline": reaping.READ_DEADLINE,
    "take out first": operating.TAKE_OUT_FIRST,
    "take out again": operating.TAKE_OUT_AGAIN,
    "take out waiting": operating.TAKE_OUT_WAITING,
    "ask to stop": operating.ASK_TO_STOP,
    "attempts": attempts.LIST_ENDED,
    "closing": attempts.READ_CLOSING,
    "live": attempts.READ_LIVE,
    "progress": attempts.LIST_PROGRESS,
    "lines": attempts.LIST_LINES,
    "token": access.FIND_TOKEN,
    "use token": access.USE_TOKEN,
    "session": access.FIND_SESSION,
    "spend code": access.SPEND_CODE,
    "answer": access.FIND_ANSWER,
    "finish answer": access.FINISH_ANSWER,
    "make room": access.MAKE_ROOM,
    "frozen": access.FIND_FROZEN,
    "forget sessions": access.FORGET[1],
    "forget answers": access.FORGET[2],
    "forget frozen": access.FORGET[3],
}
WALKED = (
    # It holds what is pending and nothing else.
    "SCAN duly_alert_deliveries USING INDEX duly_alert_deliveries_due",
    "SCAN value",
    "SCAN json_each",
    "SCAN i VIRTUAL TABLE",
    "SCAN (subquery",
    "SCAN a",
    "SCAN 128 CONSTANT ROWS",
    "SCAN 128-ROW VALUES CLAUSE",
    # As many claims as workers have slots, and what subqueries have found.
    "SCAN held",
    "SCAN died",
    "SCAN newest",
    "SCAN CONSTANT ROW",
    "SCAN duly_alerts USING INDEX duly_alerts_live",
    "SCAN duly_runs USING INDEX duly_runs_early",
)
"""Lists of shards, what an inner search has found, the rows of a batch (`asked`), and the empty
index of early fires."""
SORTED_FEW = frozenset(
    (
        "arrivals of schedules",
        "arrivals of delayed runs",
        "arrivals of retries",
        "overdue",
        "made in a minute",
        "live alerts",
        "due deliveries",
        "newly dead",
        "run vitals",
    )
)
"""These gather what is near or due, or new, and see each once."""


def plan_of(store, statement, bindings=None):
    with store._connections.read() as look:  # noqa: SLF001 - how it is read is private
        values = _nothing(statement) if bindings is None else bindings
        explained = look.connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)
        return [line for *_, line in explained]


def _nothing(statement):
    numbered = [int(number) for number in re.findall(r"\?(\d+)", statement)]
    return (None,) * (max(numbered, default=0) or statement.count("?"))


@pytest.mark.parametrize("name", HOT)
def test_a_hot_statement_searches_by_an_index(store, name):
    plan = plan_of(store, HOT[name])

    scans = [line for line in plan if line.startswith("SCAN") and not line.startswith(WALKED)]
    assert [] == scans
    if name not in SORTED_FEW:
        assert [] == [line for line in plan if "TEMP B-TREE" in line]


def test_a_statement_that_scans_would_be_noticed(store):
    assert ["SCAN duly_schedule_state"] == plan_of(store, "SELECT * FROM duly_schedule_state")


def test_early_fires_are_counted_in_an_index_that_is_empty(store):
    (line,) = plan_of(store, reading.COUNT_EARLY)

    assert "duly_runs_early" in line


@pytest.mark.parametrize(
    "statement", [claiming.LIST_HELD, reaping.FIND_LOST, operating.COUNT_RUNNING]
)
def test_claims_are_walked_and_not_runs(store, statement):
    """Over as many rows as workers have slots."""
    scans = [line for line in plan_of(store, statement) if line.startswith("SCAN")]

    assert ["SCAN c"] == [line[:6] for line in scans]


def test_run_times_are_of_a_schedules_newest_runs(store):
    """And of no others."""
    plan = plan_of(store, reading.RUN_TIMES)

    assert any("SEARCH duly_runs USING INDEX duly_runs_schedule" in line for line in plan)
    assert ["SCAN r"] == [line for line in plan if line.startswith("SCAN")]


@pytest.mark.parametrize(
    "statement", [last_ends.SUCCESS, last_ends.VERIFIED, last_ends.ERROR, last_ends.BEYOND]
)
def test_last_ends_are_of_a_schedules_newest_runs(store, statement):
    """From the newest on, without sorting; nothing else is walked."""
    plan = plan_of(store, statement)

    assert "USING INDEX duly_runs_schedule (schedule_id=?" in plan[0]
    assert [] == [line for line in plan if line.startswith("SCAN") or "TEMP B-TREE" in line]


@pytest.mark.parametrize("kind", ["read", "write"])
def test_a_plan_does_not_depend_on_values(store, kind):
    """Else a statement is planned anew for each, which costs many times what running it does.

    Looking up a run took 160 us so, and takes 6.
    """
    with getattr(store._connections, kind)() as opened:  # noqa: SLF001 - how it is read is private
        is_stable = opened.connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, -1)

    assert is_stable
