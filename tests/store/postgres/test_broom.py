"""The broom: what claims leave behind does not stay at the front of the queue."""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from duly.engine.manual_clock import ManualClock
from duly.store.postgres import broom, rotation
from duly_conformance import steps as work
from tests.postgres.reused_databases import with_store
from tests.waiting import comes_true

NUMBERS = itertools.count()
"""Names of runs, of which each is new: claims end, so their count may be what it was before."""
ERA = "SELECT era FROM duly.cluster"
SWEPT = """
SELECT count(*) FROM pg_stat_user_tables
WHERE schemaname = 'duly' AND relname LIKE 'ready%' AND last_vacuum IS NOT NULL"""


@pytest.fixture
def url(new_database):
    """Make a new database: in no other test was anything swept there."""
    return new_database(with_store)


@pytest.fixture
def eager(monkeypatch):
    """A broom that takes little for much."""
    monkeypatch.setattr(broom, "LOOK_AFTER", 1)
    monkeypatch.setattr(broom, "DEAD_MAX", 5)
    monkeypatch.setattr(broom, "APART_US", (10_000, 10_000))


def claim_some(store, worker, line):
    """Claim a few more; say whether anything was swept by now."""
    for _ in range(10):
        work.queue(store, f"{next(NUMBERS)}")
    work.take(store, worker)
    return line.execute(SWEPT).fetchone()[0] > 0


@pytest.mark.usefixtures("eager")
def test_who_claims_much_has_it_swept(url, open_store):
    """A claim begins to read at the front of the queue."""
    store = open_store(url)
    worker = work.join_worker(store)
    with psycopg.connect(url, autocommit=True) as line:
        assert comes_true(lambda: claim_some(store, worker, line))


@pytest.mark.usefixtures("eager")
def test_what_cannot_be_swept_is_left_behind(url, open_store, monkeypatch):
    """A transaction that somebody leaves open does not make claims slower and slower."""
    monkeypatch.setattr(rotation, "ERA_PRESSED_US", 0)
    store = open_store(url)
    worker = work.join_worker(store)
    with psycopg.connect(url) as old, psycopg.connect(url, autocommit=True) as line:
        old.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        old.execute("SELECT count(*) FROM pg_class")
        began = line.execute(ERA).fetchone()

        def has_moved_on() -> bool:
            claim_some(store, worker, line)
            return line.execute(ERA).fetchone() != began

        assert comes_true(has_moved_on)
        assert began is not None
        (era,) = began
        size = f"SELECT pg_relation_size('duly.ready_{era}')"

        def is_emptied() -> bool:
            claim_some(store, worker, line)
            return line.execute(size).fetchone() == (0,)

        assert comes_true(is_emptied), "while the transaction is still open"


class AtOnce:
    """An errand that is done by the caller, at once."""

    is_closed = False

    def __init__(self, name, do, clock, apart_us):
        self.call = do


class Line:
    """A connection to a server on which each statement takes its time, as the clock has it."""

    def __init__(self, took_us: int = 0) -> None:
        self.clock = ManualClock()
        self.took_us = took_us
        self.full = ["duly.claims"]
        self.asked: list[tuple[object, ...]] = []
        self.swept: list[bytes] = []

    @contextmanager
    def statement(self):
        yield self

    borrowed = statement

    def rows(self, _question, values):
        self.asked.append(values)
        return [(name,) for name in self.full]

    def execute(self, statement, *, prepare):
        self.clock.advance(self.took_us)
        self.swept.append(statement)


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(broom, "Errand", AtOnce)


def made_broom(line: Line) -> broom.Broom:
    connections: Any = line
    return broom.Broom(connections)


@pytest.mark.usefixtures("at_once")
def test_the_queue_is_looked_at_after_every_two_thousand_claims():
    """For more dead rows than ten thousand."""
    line = Line()
    line.full = []
    made = made_broom(line)
    looked = []
    for taken in (1999, 1, 1999, 1, 2000, 5000, 1):
        made.note(taken)
        looked.append(len(line.asked))

    assert [0, 1, 1, 2, 3, 4, 4] == looked
    assert {(10_000,)} == {*line.asked}
    assert [] == line.swept


@pytest.mark.usefixtures("at_once")
def test_sweeping_takes_a_twentieth_of_the_time_at_the_most():
    """It may be in vain, and long."""
    line = Line(took_us=3_000)
    made = made_broom(line)
    made.note(2000)
    line.clock.advance(20 * 3_000 - 1)
    made.note(2000)
    too_soon = len(line.swept)
    line.clock.advance(1)
    made.note(2000)

    assert (1, 2) == (too_soon, len(line.swept))
    assert line.swept[0].endswith(b" duly.claims")


@pytest.mark.usefixtures("at_once")
def test_a_closed_broom_sweeps_no_more(monkeypatch):
    line = Line()
    monkeypatch.setattr(AtOnce, "is_closed", True)
    made_broom(line).note(2000)

    assert [] == line.asked
