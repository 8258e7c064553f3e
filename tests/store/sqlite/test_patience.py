"""Who waits for the lock tries again soon, and gives up when it was told to."""

from __future__ import annotations

import threading

import apsw
import pytest

from duly.errors import StoreUnavailable
from duly.store.sqlite import SqliteSettings, SqliteStore
from duly.store.sqlite.patience import PAUSE_MAX_US, PAUSE_MIN_US, patience
from duly_conformance.kit import add_runs, new_run


def tries_of(wait):
    tries = 0
    while wait(tries):
        tries += 1
    return tries


def test_who_has_no_patience_does_not_wait():
    assert 0 == tries_of(patience(0))


def test_pauses_are_short_and_add_up_to_the_time_given():
    """None is longer than a millisecond, and none so short that waiting takes a processor."""
    given_us = 20 * PAUSE_MAX_US

    tries = tries_of(patience(given_us))

    assert given_us // PAUSE_MAX_US <= tries <= given_us // PAUSE_MIN_US


def test_each_wait_has_all_of_the_time():
    wait = patience(3 * PAUSE_MIN_US)

    assert tries_of(wait) == tries_of(wait) > 0


def test_a_writer_goes_on_when_the_other_program_is_done(path, clock):
    store = SqliteStore(path, clock)
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    writing = threading.Thread(target=store.add_runs, args=(add_runs(new_run(None, "a")),))
    writing.start()
    writing.join(0.01)
    assert writing.is_alive()

    other.execute("COMMIT")
    writing.join()

    assert 1 == store.status().queued
    other.close()
    store.close()


def test_a_writer_gives_up_when_the_other_program_is_not_done(path, clock):
    store = SqliteStore(path, clock, settings=SqliteSettings(busy_timeout_us=2000))
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(StoreUnavailable):
        store.add_runs(add_runs(new_run(None, "a")))

    other.close()
    store.close()
