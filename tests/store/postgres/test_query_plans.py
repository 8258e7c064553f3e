"""Statements search by an index: what they cost follows what is due, not what is pending."""

from __future__ import annotations

import importlib
import pkgutil
import re
from typing import Any

import psycopg
import pytest

from duly.domain.ids import RunId
from duly.domain.outcomes import AttemptFacts, Snoozed, Succeeded, WorkerLost, conclude
from duly.domain.runs import AttemptCounts, LogLine, Progress, TaskPolicy
from duly.engine.manual_clock import START_US
from duly.store import postgres
from duly.store.ports.dispatch import FireRetry, FireTimers, Timer
from duly.store.ports.execution import (
    ClaimRef,
    ClaimRuns,
    FinishAttempt,
    FinishResult,
    Heartbeat,
    LostClaimDecision,
    Report,
    SettleLost,
)
from duly.store.ports.schedules import AddRuns
from duly.store.postgres import PostgresSettings, PostgresStore, rotation
from duly.store.postgres.arrays import Texts
from duly.store.postgres.firing import run_values
from duly.store.postgres.handed import FIRE_HANDED
from duly_conformance import kit
from duly_conformance.kit import MINUTE_US, PROGRAM, SECOND_US, new_run
from tests.postgres.database_clock import DatabaseClock
from tests.postgres.reused_databases import with_store_and_clock
from tests.store.postgres.loaded import (
    BATCH,
    Meter,
    due_timers,
    fill,
    fire_all,
    own_for_long,
    tidy,
)

PENDING = 20_000
SMALL = frozenset(
    (
        "cluster",
        "codes",
        "members",
        "leases",
        "migrations",
        "tallies",
        "tasks",
        "quarantined_hosts",
        "watch",
        "alerts",
        "alert_deliveries",
        "alert_terms",
        "tokens",
        "queues",
        "quotas",
        "limits",
        "paces",
        "breakers",
        "retry_budgets",
        "retry_slots",
        "task_orders",
        "worker_tasks",
        "workers",
    )
)
"""Tables that do not grow with promises."""
SCANNING = {
    "reading.READ_TALLIES": "changes that maintenance has not folded yet",
    "reading.COUNT_QUEUES": "the status tells how long each queue is, and counts it",
    "reading.COUNT_HELD": "claims, as many as workers have slots; the status counts them",
    "reading.COUNT_WAITING": "the status counts them",
    "reading.COUNT_DEAD": "the status counts them",
    "reading.COUNT_AMBIGUOUS": "the status counts them",
    "ordering.LIST_QUEUED": "how long each queue is; counted for people",
    "ordering.COUNT_CLAIMED": "claims, as many as workers have slots; counted for people",
    "reading.COUNT_OWED": "ranges that are left from an outage; the status counts them",
    "limiting.CLAIMED_TASKS": "claims, as many as workers have slots, when a limit has changed",
    "limiting.COUNT_PLACES": "as many as attempts run that are limited; counted for people",
    "backfilling.LIST_ACTIVE": "by an index of those alone that go on",
    "trouble.STALLABLE": "claims, as many as workers have slots, each time somebody looks",
    "trouble.TRIED": "claims, and by their own index those that wait for a third attempt",
    "doubts.LIST_DOUBTS": "the oldest, as many as are asked for, by their own index",
    "doubts.LIST_DOUBTS_OF": "the same, passing over those of other tenants",
    "reading.COUNT_EARLY": "by an index that is empty for ever",
    "retention.FOLD_TALLIES": "some of the changes that are there, whichever",
    "schema.HAS_SCHEMA": "the names of schemas",
    "schema.READ_ACCESS": "policies, as many as tables have, at the first use of a store",
    "connection.FIRST_LOOK": "the same",
    "access_grants.LIST_HELD": "policies, when somebody grants access",
    "access_grants.LIST_TABLES": "the names of tables",
    "access_grants.READ_ROLE": "the names of roles",
    "broom.COUNT_DEAD": "the names of tables",
    "rotation.has_runs": "whether there is any row at all",
    "rotation.has_arrivals": "whether there is any row at all",
    "rotation.newest_arrival": "one row, from the end of the index",
    "rotation.delete_arrivals": "a few rows, from the beginning of the index",
    "rotation.old_arrivals": "a leaf that is about to be emptied as a whole",
    "trailing.NEWEST": "one row, from the end of the index",
    "sealing.LAST": "one row, from the end of the index",
    "trailing.WRITERS": "the names of databases; locks are no table",
    "rotation.young_arrivals": "the same leaf once more, when nobody writes to it any more",
}
"""Statements that may read a table from its beginning, and what they do so for."""
FROM_THE_QUEUE = {
    "claiming.CLAIM_NAMED": "as many as are wanted, from the front of each leaf's index",
    "claiming.CLAIM_ANY": "the same, and one row of each queue",
    "claiming.CLAIM_NAMED_WITHOUT": "the same, and whatever is passed over on the way",
    "claiming.CLAIM_ANY_WITHOUT": "the same, and one row of each queue",
    **{
        f"{name}[{era}]": "as many as are wanted, from the front of its index"
        for name in ("claiming.CLAIM_FROM_LEAF", "finishing.FINISH_AND_CLAIM_FROM_LEAF")
        for era in range(rotation.ERAS)
    },
    "claiming.CLAIM_NAMED_NEWEST": "as many, from the end of each leaf's first priority",
    "claiming.CLAIM_ANY_NEWEST": "the same, and one row of each queue",
    "claiming.CLAIM_NAMED_WITHOUT_NEWEST": "the same, and whatever is passed over on the way",
    "claiming.CLAIM_ANY_WITHOUT_NEWEST": "the same, and one row of each queue",
    **{
        f"claiming.SHARE_{name}": "one row of each tenant, as many as are wanted, and the last of each share"
        for name in (
            "NAMED",
            "NAMED_NEWEST",
            "NAMED_WITHOUT",
            "NAMED_WITHOUT_NEWEST",
            "ANY",
            "ANY_NEWEST",
            "ANY_WITHOUT",
            "ANY_WITHOUT_NEWEST",
        )
    },
    "handed.FIRE_HANDED": "one row of each queue that is served, or the first of all",
    "ordering.TAKE_QUEUED": "one row, by all that its index knows",
    "gates.MARK_READY": "one row, by all that its index knows",
    "admission.COUNT_KEPT": "one row for each that holds a place which is asked for",
    **dict.fromkeys(
        ("gates.MARK_READY_AGAIN", "gates.TAKE_READY", "ordering.TAKE_READY", "gates.HURRY"),
        "one row, by the index of those that were claimed before or hold a gate",
    ),
}
"""Statements that may read the queue, and what they do so for."""
RUNS_AS_THEY_ARE = re.compile(r"LEFT JOIN duly.ready y ON y.run_id = r.id AND y.fence > 0")
"""Of runs that are looked at: their row in the queue, if they were claimed before."""
PARTS = frozenset(("rows",))
"""Modules whose texts are parts of statements."""
STATEMENT = re.compile(r"\s*(SELECT|WITH|INSERT|UPDATE|DELETE)\b")
GENERIC = "?options=-c%20plan_cache_mode%3Dforce_generic_plan"
PREPARED_AFTER = 8
"""So often a statement must have been sent before it is surely prepared."""
WAIT_US = 30 * SECOND_US
READS_LITTLE = frozenset(("load retries", "find nothing"))
"""What finds little, in little."""
ONE_CONNECTION = PostgresSettings(fire_connections=1)


def statements():
    """Return every statement of the store by its name; a new one is among them by itself."""
    found = {}
    for module in pkgutil.iter_modules(postgres.__path__):
        if module.ispkg or module.name in PARTS:
            continue
        loaded = importlib.import_module(f"{postgres.__name__}.{module.name}")
        for name, value in vars(loaded).items():
            several = isinstance(value, tuple) and name.isupper()
            texts = value if several else (value,)
            for number, text in enumerate(texts):
                is_ours = name.isupper() and not name.startswith("_") and isinstance(text, str)
                if is_ours and STATEMENT.match(text):
                    suffix = f"[{number}]" if several else ""
                    found[f"{module.name}.{name}{suffix}"] = text
    leaf = rotation.LEAVES[1]
    for name in leaf.__slots__:
        text = getattr(leaf, name)
        if isinstance(text, str) and STATEMENT.match(text):
            found[f"rotation.{name}"] = text
    return found


def plan_of(line, statement):
    """Explain a statement as it is planned for any values."""
    line.execute(b"PREPARE explained AS " + statement.encode())
    try:
        (count,) = line.execute(
            "SELECT cardinality(parameter_types) FROM pg_prepared_statements WHERE name = 'explained'"
        ).fetchone()
        values = f"({', '.join(['NULL'] * count)})" if count else ""
        explained = line.execute(f"EXPLAIN (FORMAT JSON) EXECUTE explained{values}".encode())
        return explained.fetchone()[0][0]["Plan"]
    finally:
        line.execute("DEALLOCATE explained")


def scans_in(plan):
    """Return where a plan reads all of a table or of an index that grows with promises."""
    found = []
    kind, table = plan["Node Type"], plan.get("Relation Name", "")
    if table not in SMALL:
        if kind in {"Seq Scan", "Sample Scan"}:
            found.append(f"{kind} on {table}")
        if kind in {"Index Scan", "Index Only Scan", "Bitmap Index Scan"} and not plan.get(
            "Index Cond"
        ):
            found.append(f"{kind} of all of {plan['Index Name']}")
    for part in plan.get("Plans", ()):
        found += scans_in(part)
    return found


def leaves_in(plan):
    """Return the leaves of the queue that a plan reads."""
    own = [plan["Relation Name"]] if plan.get("Relation Name", "").startswith("ready") else []
    is_read = plan["Node Type"] != "ModifyTable"
    below = [leaf for part in plan.get("Plans", ()) for leaf in leaves_in(part)]
    return below + (own if is_read else [])


@pytest.mark.timeout(600)
def test_no_statement_reads_all_of_what_grows_with_promises(new_database):
    """Explained on a database that is full, for any values, as prepared statements are planned."""
    url = new_database(with_store_and_clock)
    fill(url, PENDING, has_history=True)
    tidy(url)
    with psycopg.connect(url + GENERIC, autocommit=True) as line:
        line.execute("SET jit = off")
        plans = {name: plan_of(line, text) for name, text in statements().items()}

        # Otherwise nothing would be proven here.
        assert ["Seq Scan on runs"] == scans_in(plan_of(line, "SELECT * FROM duly.runs"))
    scans = {name: found for name, plan in plans.items() if (found := scans_in(plan))}
    leaves = {
        name: found
        for name, plan in plans.items()
        if (found := leaves_in(plan)) and not RUNS_AS_THEY_ARE.search(statements()[name])
    }

    assert {} == {name: found for name, found in scans.items() if name not in SCANNING}
    allowed = SCANNING.keys() | FROM_THE_QUEUE.keys()
    assert {} == {name: found for name, found in leaves.items() if name not in allowed}
    assert set() == set(SCANNING) - set(scans), "these search by now: no exception is needed"


@pytest.fixture
def measured(new_database):
    """Open a store on a database whose clock is set by hand, with a meter beside it."""
    opened: list[Any] = []

    def measure(url, *, is_generic=False):
        clock = DatabaseClock(url, START_US)
        store = PostgresStore(url + GENERIC * is_generic, clock, settings=ONE_CONNECTION)
        meter = Meter(store, url)
        opened.extend((meter, store, clock))
        return store, clock, meter

    yield measure
    for one in opened:
        one.close()


def unknown_timer(kind, due_at):
    """Return a timer of something that is not there."""
    return Timer(
        kind=kind,
        ref=bytes(16),
        shard=0,
        due_at=due_at,
        scheduled_for=due_at,
        generation=1,
        definition_number=1,
    )


def exercise(parts, minute):
    """Do what dispatchers and clients do all day, once, with what falls due in a minute."""
    store, clock, meter, fence = parts
    clock.set(START_US + minute * MINUTE_US)
    cursor = store.start_of_arrivals()
    ids = [f"{minute}/{number}" for number in range(BATCH)]
    runs = tuple(new_run(clock.now_us() + 100 * SECOND_US, text) for text in ids)
    costs = {}

    def cost(name, call):
        before = meter.pages()
        answer = call()
        costs[name] = meter.pages() - before
        return answer

    # Where nothing is due, something that nobody knows is fired: it is planned for all the same.
    schedules = cost("load schedules", lambda: due_timers(store, fence, "schedule"))
    schedules = schedules or [unknown_timer("schedule", clock.now_us())]
    delayed = cost("load delayed", lambda: due_timers(store, fence, "delayed"))
    delayed = delayed or [unknown_timer("delayed", clock.now_us())]
    keys = [(timer.ref, 1) for timer in schedules]
    fired = [
        cost("fire schedules", lambda: fire_all(store, fence, schedules)),
        cost("fire delayed", lambda: fire_all(store, fence, delayed)),
    ]
    cost("definitions", lambda: store.read_definitions(keys))
    cost("add", lambda: store.add_runs(AddRuns(runs=runs, actor=PROGRAM)))
    cost("arrivals", lambda: store.read_arrivals(cursor, range(32)))
    work_on(store, fence, cost)
    clock.advance(WAIT_US)
    retries = cost("load retries", lambda: due_timers(store, fence, "retry"))
    retries = retries or [unknown_timer("retry", clock.now_us())]
    again = FireTimers(fence=fence, retries=tuple(FireRetry(timer) for timer in retries))
    cost("fire retries", lambda: store.fire_timers(again))
    return costs, [one.runs_made for one in fired]


def work_on(store, fence, cost):
    """Do what workers do all day, once: succeed with one batch of runs, and fail with another."""
    worker, _ = store.join(kit.worker(ttl_us=10**15, tasks=("report",)))
    unknown = ClaimRef(RunId(bytes(16)), 1)

    def claim(limit, queues=None):
        claimed = store.claim_runs(ClaimRuns(worker=worker, limit=limit, queues=queues))
        return [one.hold for one in claimed.runs] or [unknown]

    def finish(holds, end):
        return store.finish_runs(worker, [finish_of(hold, end) for hold in holds])

    held = cost("claim", lambda: claim(BATCH, ("default",)))
    cost("beat", lambda: store.beat(Heartbeat(worker=worker, holds=tuple(held), ttl_us=10**15)))
    cost("report", lambda: store.report(worker, [told(hold) for hold in held]))
    cost("find nothing", lambda: store.find_lost(BATCH, 0))
    cost("succeed", lambda: finish(held, Succeeded()))
    failing = cost("claim any", lambda: claim(BATCH // 4))
    cost("fail", lambda: finish(failing, Snoozed(WAIT_US)))
    late = cost("succeed too late", lambda: finish(failing, Succeeded()))

    assert {FinishResult.REFUSED} == set(late.results)
    few = ClaimRuns(worker=worker, limit=BATCH // 4)

    def finish_and_claim(holds):
        ends = [finish_of(hold, Succeeded()) for hold in holds]
        return store.finish_and_claim(ends, few)[1].runs

    aim = store._connections.aim  # noqa: SLF001 - all lies in the present leaf
    aim.hear(few, 0, is_all=True)
    held = cost("claim from a leaf", lambda: claim(few.limit))
    aim.hear(few, 0, is_all=True)
    both = cost("succeed and claim", lambda: finish_and_claim(held))
    aim.miss()
    lost = [*(one.hold for one in both), *cost("claim the rest", lambda: claim(BATCH // 2))]
    store.leave(worker)
    found = cost("find lost", lambda: store.find_lost(BATCH, 0)).claims
    losses = tuple(
        LostClaimDecision(claim, finish_of(claim.hold, WorkerLost()).conclusion) for claim in found
    )
    command = SettleLost(fence=fence, losses=losses, overdue_us=0)
    cost("settle", lambda: store.settle_lost(command))

    assert len(found) == len([hold for hold in lost if hold != unknown])


def finish_of(hold, end):
    """Return an end of an attempt."""
    tries = AttemptCounts(hold.fence, 1, 0, START_US)
    attempted = AttemptFacts(run_id=hold.run_id, policy=TaskPolicy(), tries=tries, now=START_US)
    return FinishAttempt(hold=hold, started_at=START_US, conclusion=conclude(end, attempted))


def told(hold):
    """Return what an attempt tells on its way."""
    line = LogLine(START_US, "info", "half")
    return Report(hold=hold, started_at=START_US, progress=Progress(1, 2), lines=(line,))


@pytest.mark.timeout(600)
def test_a_plan_that_was_made_for_nothing_does_for_much(new_database, measured):
    """A prepared statement may be planned while its tables are empty, and known to be.

    It then costs no more than one that was planned for what is there now.
    """
    url = new_database(with_store_and_clock)
    tidy(url)
    old = measured(url, is_generic=True)
    fence = own_for_long(old[0])
    for minute in range(PREPARED_AFTER):
        exercise((*old, fence), -1 - minute)
    with psycopg.connect(url, autocommit=True) as line:
        line.execute("TRUNCATE duly.delayed, duly.runs, duly.arrivals, duly.ready")
        line.execute("TRUNCATE duly.claims, duly.waiting, duly.outcomes, duly.attempts")
    fill(url, 10_000)
    costs, made = exercise((*old, fence), 1)
    tidy(url)
    new = measured(url)
    fresh, made_again = exercise((*new, fence), 2)

    assert [BATCH, BATCH] == made == made_again
    assert BATCH < min(costs[name] for name in costs if name not in READS_LITTLE), "it is counted"
    assert {} == {
        name: (cost, fresh[name])
        for name, cost in costs.items()
        if cost > 2 * fresh[name] + BATCH / 2
    }


def hand_over(parts, minute):
    """Fire and claim what falls due in a minute by one statement; return what each costs."""
    store, clock, meter, fence = parts
    clock.set(START_US + minute * MINUTE_US)
    worker, _ = store.join(kit.worker(ttl_us=10**15))
    due = due_timers(store, fence, "delayed") or [unknown_timer("delayed", clock.now_us())]
    due.sort(key=lambda timer: timer.ref)
    values = (*run_values(FireTimers(fence=fence), due), worker, Texts(()))
    before = meter.pages()
    with store._connections.statement(for_dispatch=True) as session:  # noqa: SLF001 - as a worker
        found = session.rows(FIRE_HANDED, values)
    return meter.pages() - before, len([row for row in found if row[3] is not None])


@pytest.mark.timeout(300)
def test_a_hand_over_that_was_planned_for_nothing_does_for_much(new_database, measured):
    """Nor does it depend on how many there were when it was planned."""
    url = new_database(with_store_and_clock)
    tidy(url)
    old = measured(url, is_generic=True)
    fence = own_for_long(old[0])
    assert 0 == hand_over((*old, fence), -1)[1]
    with psycopg.connect(url, autocommit=True) as line:
        line.execute("TRUNCATE duly.delayed, duly.runs, duly.ready, duly.claims")
    fill(url, 10_000)
    cost, made = hand_over((*old, fence), 1)
    tidy(url)
    fresh, made_again = hand_over((*measured(url), fence), 2)

    assert BATCH == made == made_again
    assert BATCH < cost, "it is counted"
    assert cost <= 2 * fresh + BATCH / 2


@pytest.mark.timeout(300)
def test_what_a_fire_costs_does_not_grow_with_what_is_pending(private_server, measured):
    """Pages and bytes of the log for a thousand fires, among 5,000 and among 50,000."""
    costs = []
    for pending in (5_000, 50_000):
        url = private_server.create_database()
        with_store_and_clock(url)
        fill(url, pending)
        tidy(url)
        store, clock, meter = measured(url)
        fence = own_for_long(store)
        exercise((store, clock, meter, fence), 1)
        before = meter.log_bytes()
        pages, made = exercise((store, clock, meter, fence), 2)
        costs.append({**pages, "log bytes": meter.log_bytes() - before})

        assert [BATCH, BATCH] == made
    few, many = costs

    assert {} == {
        name: (few[name], many[name]) for name in few if many[name] > 1.5 * few[name] + 50
    }
