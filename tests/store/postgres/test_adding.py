"""Adding runs on PostgreSQL: few statements for many runs, and one id for one promise."""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import replace
from itertools import product

import pytest

from duly.domain.enums import Origin
from duly.errors import Conflict, UsageError
from duly.store.ports.schedules import NEAR_US
from duly.store.postgres import adding
from duly_conformance import steps
from duly_conformance.kit import ADA, HOUR_US, MINUTE_US, SECOND_US, add_runs, delayed_fire, new_run
from tests.postgres.database_clock import DatabaseClock
from tests.postgres.reused_databases import with_store_and_clock
from tests.store.postgres.turnstile import LIMIT_S, Watch

MANY = 2000
STATEMENTS_MAX = 14


class Counting:
    """A session that counts what it is asked to run."""

    def __init__(self, session):
        self._session = session
        self.count = 0

    def rows(self, statement, values=()):
        self.count += 1
        return self._session.rows(statement, values)

    def run(self, statement, values=()):
        self.count += 1
        return self._session.run(statement, values)


def plainly(store, *runs, **parts):
    """Try to add runs in the one statement."""
    connections = store._connections  # noqa: SLF001 - which way is taken is private
    with connections.statement() as session:
        return adding.add_plain(session, replace(add_runs(*runs), **parts), connections.shards)


def counted(store, *runs):
    """Add runs in the general way; return what was added and how many statements it took."""
    with store._connections.write() as work:  # noqa: SLF001 - which way is taken is private
        work.session = Counting(work.session)
        return adding.add_runs(work, add_runs(*runs)), work.session.count


# The one statement


def test_plain_runs_take_one_statement(store, clock):
    now = clock.now_us()
    runs = (
        new_run(None, "now"),
        new_run(now + HOUR_US, "at"),
        new_run(None, "in", delay_us=MINUTE_US),
        new_run(now + HOUR_US, "keyed", key="k"),
    )

    plain = plainly(store, *runs)

    assert plain is not None
    assert [now, now + HOUR_US, now + MINUTE_US, now + HOUR_US] == [
        one.due_at for one in plain.added
    ]
    assert [run.id for run in runs] == [one.id for one in plain.added]
    assert (1, 3) == (store.status().queued, store.status().delayed)
    assert [] == store.check()


def test_ids_that_were_drawn_for_the_order_are_claimed_nowhere(new_database, open_store):
    """Nobody else can have used them, so that nothing is written but what is promised."""
    # A table that was emptied keeps its pages, so this is a new one.
    url = new_database(with_store_and_clock)
    with DatabaseClock(url) as clock, closing(Watch(url)) as watch:
        store = open_store(url, clock)
        later = clock.now_us() + HOUR_US
        size = "SELECT pg_relation_size('duly.runs')"
        drawn = plainly(store, *(new_run(later, f"d{one}", is_drawn=True) for one in range(100)))
        before = watch.value(size)
        given = plainly(store, new_run(later, "drawn", is_drawn=True), new_run(later, "given"))

        assert drawn is not None
        assert given is not None
        assert (0, 102) == (before, store.status().delayed)
        assert watch.value(size) > 0
        assert [] == store.check()


@pytest.mark.parametrize(
    ("delay_us", "is_told"), [(1, True), (NEAR_US, True), (NEAR_US + 1, False), (None, False)]
)
@pytest.mark.parametrize("is_drawn", [True, False])
def test_what_is_near_is_announced_and_said_so(store, delay_us, is_told, is_drawn):
    """A dispatcher may have loaded its window already."""
    cursor = store.start_of_arrivals()

    plain = plainly(store, new_run(None, delay_us=delay_us, is_drawn=is_drawn))

    told = store.read_arrivals(cursor, range(store.status().shards)).timers
    assert (is_told, is_told) == (plain.has_arrivals, bool(told))


def hour(clock):
    return clock.now_us() + HOUR_US


NOT_PLAIN = {
    "late": lambda clock: [new_run(clock.now_us() - 1, is_late_ok=True)],
    "refused": lambda clock: [new_run(clock.now_us() - 1)],
    "due now": lambda clock: [new_run(clock.now_us())],
    "replacing": lambda clock: [new_run(hour(clock), key="k", replaces=True)],
    "manual": lambda clock: [new_run(None, origin=Origin.MANUAL)],
    "id twice": lambda clock: [new_run(None, "x"), new_run(None, "x")],
    "key twice": lambda clock: [
        new_run(hour(clock), "x", key="k"),
        new_run(hour(clock), "y", key="k"),
    ],
    "known pending": lambda clock: [new_run(hour(clock), "pending")],
    "known run": lambda clock: [new_run(None, "run")],
    "key taken": lambda clock: [new_run(hour(clock), "x", key="taken")],
    "key taken, at once": lambda clock: [new_run(None, "x", key="taken")],
    "fired id, later": lambda clock: [
        replace(new_run(hour(clock), "x"), id=new_run(None, "run").id)
    ],
    "pending id, at once": lambda clock: [
        replace(new_run(None, "x"), id=new_run(hour(clock), "pending").id)
    ],
}


@pytest.mark.parametrize("kind", NOT_PLAIN)
def test_what_has_to_be_looked_at_writes_nothing(store, clock, kind):
    store.add_runs(add_runs(new_run(None, "run"), new_run(hour(clock), "pending", key="taken")))
    extra = new_run(hour(clock), "beside it")

    assert plainly(store, extra, *NOT_PLAIN[kind](clock)) is None
    assert (1, 1) == (store.status().queued, store.status().delayed)
    assert store.get_delayed(extra.id) is None


def test_what_a_person_orders_is_not_plain(store):
    """It leaves an audit entry."""
    assert plainly(store, new_run(None), actor=ADA) is None


def test_an_instant_in_the_past_is_refused_and_nothing_of_the_command_is_done(store, clock):
    with pytest.raises(UsageError, match="is in the past"):
        store.add_runs(add_runs(new_run(None), new_run(clock.now_us() - 1)))

    assert 0 == store.status().queued


# Many at once


def crowd(due_at, **parts):
    return [new_run(due_at, f"run {number}", **parts) for number in range(MANY)]


@pytest.mark.parametrize("is_later", [False, True])
def test_many_runs_take_a_handful_of_statements(store, clock, is_later):
    runs = crowd(hour(clock) if is_later else None)

    added, statements = counted(store, *runs)

    assert {True} == {one.is_new for one in added}
    assert statements <= STATEMENTS_MAX
    assert MANY == store.status().delayed + store.status().queued
    assert [] == store.check()


def test_many_that_are_known_take_a_handful_of_statements(store, clock):
    runs = crowd(hour(clock), key=None)
    store.add_runs(add_runs(*runs))

    added, statements = counted(store, *runs)

    assert {False} == {one.is_new for one in added}
    assert statements <= STATEMENTS_MAX


def test_many_that_replace_others_take_a_handful_of_statements(store, clock):
    before = [new_run(hour(clock), f"run {n}", key=f"{n}") for n in range(MANY)]
    after = [new_run(hour(clock), f"new {n}", key=f"{n}", replaces=True) for n in range(MANY)]
    store.add_runs(add_runs(*before))

    added, statements = counted(store, *after)

    assert {True} == {one.is_new for one in added}
    assert statements <= STATEMENTS_MAX
    assert MANY == store.status().delayed
    assert 1000 == len(steps.audit(store, action="delayed.replaced"))
    assert [] == store.check()


def test_one_command_may_replace_what_it_has_just_made(store, clock):
    """As if each were ordered by itself."""
    runs = [new_run(hour(clock), f"run {n}", key="k", replaces=True) for n in range(3)]

    added = store.add_runs(add_runs(*runs))

    assert [True] * 3 == [one.is_new for one in added]
    assert runs[-1].id == store.find_delayed("default", "k").id
    assert ["replaced"] * 2 == [store.get_run(run.id).state for run in runs[:2]]
    assert [] == store.check()


def test_in_one_command_the_same_again_is_known(store, clock):
    run, other = new_run(hour(clock), "x", key="k"), new_run(None, "y")

    added = store.add_runs(add_runs(run, run, other, other))

    assert [True, False, True, False] == [one.is_new for one in added]
    with pytest.raises(Conflict, match="pending with another request"):
        store.add_runs(add_runs(new_run(None, "z"), new_run(hour(clock), "w", key="k")))
    assert 1 == store.status().queued


# One id, one promise: the first has written and not committed when the second comes


def asked(clock, kind):
    """Return one request in its forms: at once, later, and late."""
    runs = {
        "at once": new_run(None, "x"),
        "later": new_run(hour(clock), "x"),
        "soon": new_run(clock.now_us() + SECOND_US, "x"),
        "late": new_run(clock.now_us() - 1, "x", is_late_ok=True),
    }
    return replace(runs[kind], id=new_run(None, "the one").id, fingerprint="the one")


KINDS = ["at once", "later", "soon", "late"]


def pairs():
    """Return all cases, of which every other one is thorough: each pair of values is in the rest."""
    places = product(range(len(KINDS)), range(len(KINDS)), (True, False))
    return [
        pytest.param(
            KINDS[first],
            KINDS[second],
            is_committed,
            marks=() if is_committed == ((first + second) % 2 == 0) else pytest.mark.thorough,
        )
        for first, second, is_committed in places
    ]


class Undone(Exception):  # noqa: N818 - what a caller's own code may raise
    """The first one gives up."""


@pytest.mark.parametrize(("first", "second", "is_committed"), pairs())
def test_who_comes_second_waits_and_finds_the_first(
    store, clock, watch, first, second, is_committed
):
    """No id is both pending and a run, and none is made twice."""
    earlier, later = asked(clock, first), asked(clock, second)
    with suppress(Undone), store.transaction(MINUTE_US) as lent:
        store.joined(lent).add_runs(add_runs(earlier))
        answer = watch.start(lambda: store.add_runs(add_runs(later)))
        assert watch.is_blocked()
        if not is_committed:
            raise Undone
    (added,) = answer.result(LIMIT_S)

    assert is_committed != added.is_new
    assert (store.get_run(later.id) is None) != (store.get_delayed(later.id) is None)
    assert 1 == store.status().queued + store.status().delayed
    assert [] == store.check()


def test_a_delayed_run_that_fired_is_known_by_its_id(store, clock):
    run = new_run(clock.now_us() + SECOND_US, "x")
    store.add_runs(add_runs(run))
    pending = store.get_delayed(run.id)
    clock.set(pending.due_at)
    fence = steps.own(store)
    steps.fire(store, fence, delayed_fire(pending, store.status().shards))

    (added,) = store.add_runs(add_runs(run))

    assert (False, pending.due_at) == (added.is_new, added.due_at)
    assert (1, 0) == (store.status().queued, store.status().delayed)
