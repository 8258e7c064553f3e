"""What was acknowledged is in the file: after closing, after a crash, and for other processes."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

import apsw

from duly.store.sqlite import SqliteStore
from duly_conformance import steps
from duly_conformance.kit import HOUR_US, SECOND_US, add_runs, new_run, new_schedule, snapshot

CREATE_AND_DIE = """
import os, signal, sys
from duly.store.sqlite import SqliteStore
from duly_conformance.kit import add_runs, new_run, new_schedule
from duly.engine.manual_clock import ManualClock

clock = ManualClock()
store = SqliteStore(sys.argv[1], clock)
store.create_schedule(new_schedule(clock.now_us()))
with store.transaction(1_000_000) as lent:
    store.joined(lent).add_runs(add_runs(new_run(None, "not committed")))
    os.kill(os.getpid(), signal.SIGKILL)
"""

COUNT_UP = """
import sys
from duly.store.sqlite import SqliteStore
from duly_conformance.kit import add_runs, new_run
from duly.engine.manual_clock import ManualClock

store = SqliteStore(sys.argv[1], ManualClock())
for number in range(20):
    store.add_runs(add_runs(new_run(None, f"{sys.argv[2]} {number}")))
store.close()
"""


def test_what_was_written_is_there_when_the_file_is_opened_again(store, path, clock):
    record = steps.create(store)
    steps.fire_due(store, clock, record)
    steps.delay(store, clock.now_us() + HOUR_US, key="class:42")
    before = snapshot(store)
    store.close()

    again = SqliteStore(path, clock)

    assert before == snapshot(again)
    again.close()


def test_a_killed_process_leaves_what_it_acknowledged_and_nothing_else(path, clock):
    """INV-2, INV-18: the kill falls into an open transaction."""
    done = subprocess.run([sys.executable, "-c", CREATE_AND_DIE, str(path)], check=False)
    store = SqliteStore(path, clock)

    assert -signal.SIGKILL == done.returncode
    assert [new_schedule(clock.now_us()).id] == [one.id for one in snapshot(store).schedules]
    assert () == snapshot(store).runs
    assert [] == store.check()
    store.close()


def test_commits_wait_for_the_disk(store):
    """Anything less than FULL may lose an acknowledged commit when the power fails."""
    with store._connections.write() as work:  # noqa: SLF001 - how the file is used is private
        synchronous = work.connection.pragma("synchronous")
        mode = work.connection.pragma("journal_mode")

    assert (2, "wal") == (synchronous, mode)


def test_processes_share_a_file(path, clock):
    """Several processes of one host, one file."""
    store = SqliteStore(path, clock)
    command = [sys.executable, "-c", COUNT_UP, str(path)]
    running = [subprocess.Popen([*command, name]) for name in ("one", "two", "three")]

    assert [0, 0, 0] == [process.wait(timeout=120) for process in running]
    assert 60 == store.status().queued
    assert [] == store.check()
    store.close()


def test_threads_share_a_store(path, clock):
    """Its methods may be called from several threads."""
    store = SqliteStore(path, clock)
    failures: list[BaseException] = []

    def work(name: str) -> None:
        try:
            for number in range(25):
                store.add_runs(add_runs(new_run(None, f"{name} {number}")))
                store.status()
        except BaseException as error:  # noqa: BLE001 - told below, by the main thread
            failures.append(error)

    threads = [threading.Thread(target=work, args=(str(number),)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [] == failures
    assert 100 == store.status().queued
    store.close()


def test_looking_does_not_wait_for_a_writer(store, path):
    """Reads have connections of their own, and see what was committed."""
    record = steps.create(store)
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    other.execute("DELETE FROM duly_schedules")

    assert record == steps.look(store, record)
    other.execute("ROLLBACK")
    other.close()


def test_a_store_on_another_file_is_another_store(store, tmp_path, clock):
    other = SqliteStore(tmp_path / "other.db", clock)
    steps.create(store)

    assert () == snapshot(other).schedules
    assert store.name != other.name
    other.close()


def test_the_number_of_shards_is_that_of_the_file(path, clock):
    """It decides where timers lie, so it never changes."""
    SqliteStore(path, clock, shards=3).close()
    store = SqliteStore(path, clock, shards=5)

    assert 3 == store.status().shards
    assert 9 == len(store.status().leases)
    store.close()


def test_the_feed_goes_on_when_the_file_was_opened_again(store, path, clock):
    """A cursor means the same to every process."""
    cursor = store.start_of_arrivals()
    store.close()
    again = SqliteStore(path, clock)
    delayed = steps.delay(again, clock.now_us() + SECOND_US)

    told = again.read_arrivals(cursor, tuple(range(8)))

    assert [delayed.id] == [timer.ref for timer in told.timers]
    again.close()


def test_a_cursor_of_a_restored_file_begins_anew(store, clock):
    """Better told twice than not at all."""
    delayed = steps.delay(store, clock.now_us() + SECOND_US)

    told = store.read_arrivals("1000", tuple(range(8)))

    assert [delayed.id] == [timer.ref for timer in told.timers]
    assert store.start_of_arrivals() == told.cursor


def test_no_file_is_left_beside_the_database_after_closing(store, path):
    steps.create(store)
    store.close()

    assert [path] == list(path.parent.iterdir())


def test_a_store_stays_with_its_file_when_the_program_moves_on(tmp_path, clock, monkeypatch):
    """A relative path means what it meant when the store was opened."""
    monkeypatch.chdir(tmp_path)
    store = SqliteStore("duly.db", clock)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    steps.create(store)

    assert "sqlite:///duly.db" == store.name
    assert [] == list((tmp_path / "elsewhere").iterdir())
    assert 1 == len(snapshot(store).schedules)
    store.close()
