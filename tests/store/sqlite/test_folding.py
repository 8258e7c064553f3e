"""The log is folded into the file beside whoever writes, and stays short."""

from __future__ import annotations

import apsw
import pytest

from duly.store.sqlite import SqliteSettings, SqliteStore
from duly_conformance.kit import add_runs, new_run

PAGES = 60
FRAME_BYTES = 4096 + 24


@pytest.fixture
def store(path, clock):
    settings = SqliteSettings(busy_timeout_us=0, log_pages=PAGES)
    opened = SqliteStore(path, clock, settings=settings)
    wait_for_fold(opened)  # making the tables is a long log already, and nobody here has patience
    yield opened
    opened.close()


def wait_for_fold(store):
    store._connections._folding.wait()  # noqa: SLF001 - how the file is used is private


def write_much(store, name="run"):
    for number in range(PAGES):
        store.add_runs(add_runs(new_run(None, f"{name} {number}")))
        wait_for_fold(store)


def pages_of_log(path):
    return (path.parent / f"{path.name}-wal").stat().st_size // FRAME_BYTES


def test_a_long_log_begins_anew(store, path):
    """Without a store that is closed, and without a commit that folds it."""
    write_much(store)

    assert PAGES <= pages_of_log(path) <= 2 * PAGES


def test_what_was_folded_is_in_the_file(store, path):
    write_much(store)

    looked = apsw.Connection(str(path))
    found = looked.execute("SELECT count(*) FROM duly_runs").fetchone()
    looked.close()
    assert (PAGES,) == found
    assert [] == store.check()


def test_somebody_who_reads_for_long_delays_the_fold_and_no_commit(store, path):
    """And when the reader is gone, the log begins anew."""
    reader = apsw.Connection(str(path))
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM duly_runs").fetchall()

    write_much(store)

    grown = pages_of_log(path)
    assert grown > 2 * PAGES
    reader.close()
    write_much(store, "another")
    assert grown + PAGES > pages_of_log(path)
