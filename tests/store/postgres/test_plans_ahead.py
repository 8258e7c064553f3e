"""Plans ahead: who joins has what a crowd asks for planned before the crowd comes."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from duly.domain.enums import Lane
from duly.domain.outcomes import Succeeded
from duly.engine.manual_clock import ManualClock
from duly.store.ports.dispatch import FireDelayed, FireResult, Join, LoadTimers, MemberKind, Renew
from duly.store.ports.execution import ClaimRuns, Heartbeat
from duly.store.postgres import PostgresSettings, claiming, finishing, firing, plans_ahead
from duly.store.postgres.firing import PART_MIN
from duly.store.postgres.plans_ahead import ANEW_AFTER_US
from duly.store.postgres.prepared import PreparedSession
from duly.store.wakeups import SECOND_US
from duly_conformance import steps
from duly_conformance import steps as work
from duly_conformance.kit import add_runs, finish, new_run
from tests.waiting import LIMIT_S, comes_true

if TYPE_CHECKING:
    from psycopg.abc import PQGen

    from duly.store.postgres import PostgresStore
    from duly.store.postgres.session import BoundedConnection

PLANNED = "SELECT statement, generic_plans FROM pg_prepared_statements WHERE name LIKE 'duly%'"
LONG = "SELECT pg_catalog.repeat('x', 90) FROM pg_catalog.generate_series(1, $1::int8)"
LONG_BYTES = 50_000
DRIVERS_PART_BYTES = 16_384
"""So much the driver's library reads at a time, at first."""
STATE = "SELECT state FROM pg_stat_activity WHERE pid = $1::int8"
CLAIMS = {
    claiming.CLAIM_ANY,
    claiming.CLAIM_ANY_NEWEST,
    claiming.SHARE_ANY,
    claiming.SHARE_ANY_NEWEST,
}


@pytest.fixture(autouse=True)
def unlimited(monkeypatch):
    """Let a busy machine plan for longer than a member waits."""
    monkeypatch.setattr(plans_ahead, "LIMIT_S", LIMIT_S)


def joining(kind: MemberKind, **parts: object) -> Join:
    """Join as a service does, which can be woken."""
    given = {"host": "here", "process": 1, "wake_address": "127.0.0.1:9", "slots": 1000} | parts
    return Join(kind=kind, **given)  # type: ignore[arg-type]


def idle(store: PostgresStore) -> list[BoundedConnection]:
    return list(store._connections.idle[True])  # noqa: SLF001 - they are seen nowhere else


def planned(connection: BoundedConnection) -> dict[str, int]:
    """Return what is planned on a connection, and how many times."""
    return {text: times for text, times in connection.execute(PLANNED).fetchall() if times}


def test_a_worker_has_claims_planned_on_one_connection_and_ends_on_another(url, open_store):
    store = open_store(url)
    store.join(joining(MemberKind.WORKER))
    ours, spare = sorted(idle(store), key=lambda one: one.used_by == 0)

    assert planned(ours).keys() >= {*CLAIMS, finishing.FINISH_PLAIN}
    assert {finishing.FINISH_PLAIN} == planned(spare).keys()
    assert threading.get_ident() == ours.used_by
    assert 0 == spare.used_by


def test_who_claims_has_room_for_long_answers(url, open_store):
    """Each part of an answer is another wait for the interpreter, in a process that is busy."""
    store = open_store(url)
    store.join(joining(MemberKind.WORKER))
    ours, spare = sorted(idle(store), key=lambda one: one.used_by == 0)
    ours_waits, spare_waits = (waits_for(one, store) for one in (ours, spare))

    assert (True, False) == (ours.has_room, spare.has_room)
    assert ours_waits <= 2 < LONG_BYTES // DRIVERS_PART_BYTES <= spare_waits


def waits_for(connection: BoundedConnection, store: PostgresStore) -> int:
    """Return how often one waits for a long answer that has already come as a whole."""
    waits, wait = 0, connection.wait

    def counting(hearing: PQGen[Any]) -> PQGen[Any]:
        nonlocal waits
        try:
            wanted = next(hearing)
            while True:
                waits += 1
                wanted = hearing.send((yield wanted))
        except StopIteration as heard:
            return heard.value

    answer = PreparedSession(connection).begin(LONG, (LONG_BYTES // 100,))
    pid, watcher = connection.info.backend_pid, store._connections  # noqa: SLF001 - the same server

    def is_idle() -> bool:
        with watcher.statement() as session:
            return ["idle"] == [state for (state,) in session.rows(STATE, (pid,))]

    assert comes_true(is_idle)
    connection.wait = lambda hearing, *rest: wait(counting(hearing), *rest)  # type: ignore[method-assign]
    try:
        assert LONG_BYTES // 100 == len(answer())
    finally:
        del connection.wait
    return waits


def test_a_worker_of_some_queues_has_what_it_asks_for_planned(url, open_store):
    store = open_store(url)
    store.join(joining(MemberKind.WORKER, queues=("mail", "reports")))
    found = set().union(*(planned(one) for one in idle(store)))

    assert {claiming.CLAIM_NAMED, claiming.SHARE_NAMED_NEWEST} <= found
    assert not CLAIMS & found


def test_a_dispatcher_has_fires_planned_on_both_connections_that_fire(url, open_store):
    store = open_store(url)
    store.join(joining(MemberKind.DISPATCHER))
    ours, other = sorted(idle(store), key=lambda one: one.used_by == 0)

    for connection in (ours, other):
        assert {firing.FIRE_SCHEDULES, firing.FIRE_DELAYED} <= planned(connection).keys()
    assert (threading.get_ident(), 0) == (ours.used_by, other.used_by)


def test_a_crowd_of_delayed_runs_is_fired_on_both_connections(url, open_store):
    """One of them alone would be what everybody waits for."""
    store = open_store(url)
    due_at = store.now() + SECOND_US // 5
    runs = [new_run(due_at, f"r{number}") for number in range(2 * PART_MIN + 1)]
    store.add_runs(add_runs(*runs))
    fence = steps.own(store, wake_address="127.0.0.1:9")
    assert comes_true(lambda: store.now() >= due_at)
    shards = tuple(lease.key.shard for lease in fence.leases if lease.key.lane is Lane.LIVE)
    found = store.load_timers(LoadTimers(shards=shards, after=None, until=due_at, limit=1000))
    before = [planned(one)[firing.FIRE_DELAYED] for one in idle(store)]

    fired = steps.fire(store, fence, *map(FireDelayed, found.timers))

    assert {FireResult.FIRED} == set(fired.results)
    assert len(runs) == fired.runs_made
    after = [planned(one)[firing.FIRE_DELAYED] for one in idle(store)]
    assert [times + 1 for times in sorted(before)] == sorted(after)


def test_in_a_crowd_nothing_is_prepared_and_nobody_connects(url, open_store):
    """That is what it is for."""
    store = open_store(url)
    worker, _ = store.join(joining(MemberKind.WORKER))
    for _ in range(2):  # what is asked for in a quiet hour
        store.claim_runs(ClaimRuns(worker=worker, limit=1))
    for number in range(12):
        work.queue(store, f"r{number}")
    before = {id(one): one.prepared_count for one in idle(store)}

    first = store.claim_runs(ClaimRuns(worker=worker, limit=2, served={"default": ""}))
    newest = ClaimRuns(worker=worker, limit=2, newest_first=True)
    others = [store.claim_runs(newest), store.claim_runs(ClaimRuns(worker=worker, limit=2))]
    ends = [finish(one, Succeeded()) for one in first.runs]
    bring = threading.Thread(target=store.finish_runs, args=(worker, ends))
    bring.start()
    bring.join()

    assert [2, 2] == [len(one.runs) for one in others]
    assert before == {id(one): one.prepared_count for one in idle(store)}


def test_who_comes_beside_gets_the_connection_that_is_nobodys(url, open_store):
    store = open_store(url)
    store.join(joining(MemberKind.WORKER))
    (spare,) = [one for one in idle(store) if one.used_by == 0]
    taken = []

    def come() -> None:
        with store._connections.borrowed(for_dispatch=True) as connection:  # noqa: SLF001
            taken.append(connection)

    courier = threading.Thread(target=come)
    courier.start()
    courier.join()

    assert [spare] == taken


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        (MemberKind.DISPATCHER, {"wake_address": ""}),
        (MemberKind.WORKER, {"wake_address": ""}),
        (MemberKind.WORKER, {"slots": 1}),
        (MemberKind.WORKER, {"slots": 100}),
    ],
)
def test_who_meets_no_crowd_has_nothing_planned(url, open_store, kind, parts):
    """Such as a command that is wrapped, or a worker that has few slots."""
    store = open_store(url)
    store.join(joining(kind, **parts))

    assert 1 == len(idle(store))
    assert not {*CLAIMS, firing.FIRE_DELAYED} & planned(idle(store)[0]).keys()


@pytest.mark.parametrize("kind", list(MemberKind))
def test_plans_are_made_anew_with_the_beats(url, open_store, kind):
    clock = ManualClock()
    store = open_store(url, clock)
    member, _ = store.join(joining(kind))
    statement = {MemberKind.WORKER: claiming.SHARE_ANY, MemberKind.DISPATCHER: firing.FIRE_DELAYED}

    def beat() -> tuple[int, set[int]]:
        if kind is MemberKind.WORKER:
            store.beat(Heartbeat(worker=member))
        else:
            store.renew(Renew(member=member))
        times = max(planned(one).get(statement[kind], 0) for one in idle(store))
        return times, {one.planned_at for one in idle(store)}

    began_at = clock.monotonic_us()
    assert (1, {began_at}) == beat()
    clock.advance(ANEW_AFTER_US)
    assert (2, {clock.monotonic_us()}) == beat()
    assert (2, {clock.monotonic_us()}) == beat()


def test_a_connection_that_is_being_used_is_left_alone(url, open_store):
    clock = ManualClock()
    store = open_store(url, clock)
    worker, began_at = store.join(joining(MemberKind.WORKER))[0], clock.monotonic_us()
    clock.advance(ANEW_AFTER_US)
    with store._connections.borrowed(for_dispatch=True) as ours:  # noqa: SLF001
        store.beat(Heartbeat(worker=worker))

    assert began_at == ours.planned_at


def test_planning_is_a_favour_and_fails_nobody(url, open_store, monkeypatch):
    """And who could not have it done by joining has it done by beating."""
    clock = ManualClock()
    store = open_store(url, clock)
    asked = []

    def refuse(session: PreparedSession, _: object) -> None:
        asked.append(session)
        raise psycopg.OperationalError("not now")

    with monkeypatch.context() as broken:
        broken.setattr(PreparedSession, "plan", refuse)
        worker, _ = store.join(joining(MemberKind.WORKER))
        clock.advance(ANEW_AFTER_US)
        assert store.beat(Heartbeat(worker=worker)).is_alive
        assert 2 == len(asked)
    store.beat(Heartbeat(worker=worker))
    clock.advance(ANEW_AFTER_US)
    store.beat(Heartbeat(worker=worker))

    assert planned(idle(store)[0]).keys() >= CLAIMS


def test_planning_that_takes_long_is_done_seldom(url, open_store, monkeypatch):
    """Where the server is far away a dispatcher would stand still for it, again and again."""
    clock = ManualClock()
    store = open_store(url, clock)
    asked = []

    def take_long(session: PreparedSession, _: object) -> None:
        asked.append(session)
        clock.advance(SECOND_US // 10)

    monkeypatch.setattr(PreparedSession, "plan", take_long)
    member, _ = store.join(joining(MemberKind.DISPATCHER))
    for _ in range(19):
        clock.advance(ANEW_AFTER_US)
        store.renew(Renew(member=member, ttl_us=1000 * SECOND_US))
    assert 2 == len(asked), "one for each of its connections"
    clock.advance(ANEW_AFTER_US)
    store.renew(Renew(member=member, ttl_us=1000 * SECOND_US))

    assert 4 == len(asked)


def test_one_connection_is_enough_where_there_may_be_no_more(url, open_store):
    settings = PostgresSettings(connections_max=1)
    store = open_store(url, settings=settings)
    store.join(joining(MemberKind.WORKER))

    assert planned(idle(store)[0]).keys() >= CLAIMS


def test_a_connection_that_comes_back_to_a_closed_store_is_closed(url, open_store):
    store = open_store(url)
    store.join(joining(MemberKind.WORKER))
    seen = []

    def close(connection: BoundedConnection) -> None:
        seen.append(connection)
        store.close()

    store._connections.look_after_idle(close)  # noqa: SLF001 - as a beat does

    assert 1 == len(seen)
    assert seen[0].closed


def test_a_connection_that_has_gone_is_let_go_and_the_beat_goes_on(url, open_store):
    clock = ManualClock()
    store = open_store(url, clock)
    worker, _ = store.join(joining(MemberKind.WORKER))
    (spare,) = [one for one in idle(store) if one.used_by == 0]
    spare.close()
    clock.advance(ANEW_AFTER_US)

    assert store.beat(Heartbeat(worker=worker)).is_alive
    assert spare not in idle(store)


def test_after_one_that_does_not_answer_no_other_is_asked(url, open_store, monkeypatch):
    """Who waits for one after the other may lose its lease meanwhile."""
    clock = ManualClock()
    store = open_store(url, clock)
    worker, _ = store.join(joining(MemberKind.WORKER))
    asked = []

    def wait_in_vain(session: PreparedSession, _: object) -> None:
        asked.append((session.connection, session.connection.limit_s))
        raise psycopg.OperationalError("no answer")

    monkeypatch.setattr(PreparedSession, "plan", wait_in_vain)
    clock.advance(ANEW_AFTER_US)

    assert store.beat(Heartbeat(worker=worker)).is_alive
    ((connection, limit_s),) = asked
    assert connection.closed
    assert plans_ahead.LIMIT_S == limit_s
    assert 1 == len(idle(store))


def test_what_the_server_was_told_to_forget_is_planned_again(url, open_store):
    """The driver does so after a rollback."""
    clock = ManualClock()
    store = open_store(url, clock)
    worker, _ = store.join(joining(MemberKind.WORKER))
    for one in idle(store):
        one.execute("DEALLOCATE ALL")
    clock.advance(ANEW_AFTER_US)
    store.beat(Heartbeat(worker=worker))

    assert 2 == len(idle(store))
    assert all(finishing.FINISH_PLAIN in planned(one) for one in idle(store))


def test_behind_a_pooler_nothing_is_planned_ahead(url, pgbouncer_url, open_store):
    store = open_store(pgbouncer_url(url))
    worker, _ = store.join(joining(MemberKind.WORKER))

    assert store.beat(Heartbeat(worker=worker)).is_alive
    assert [{}] == [one.prepared for one in idle(store)]
