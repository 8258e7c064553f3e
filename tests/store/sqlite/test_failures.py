"""What can go wrong with a file: one clear sentence, nothing half done, usable afterwards."""

from __future__ import annotations

import apsw
import pytest

from duly.errors import SchemaMismatch, StoreError, StoreUnavailable, UsageError
from duly.store.sqlite import SqliteStore
from duly.store.sqlite.failures import failure, refuse_old_sqlite
from duly_conformance import steps
from duly_conformance.kit import new_schedule, snapshot
from tests.store.sqlite.conftest import AT_ONCE

PAGE_BYTES = 4096


def create_many(store, count):
    for number in range(count):
        steps.create(store, f"number {number}")


def test_a_locked_file_says_so_and_is_usable_afterwards(store, path):
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(StoreUnavailable, match="is locked by another program; try again"):
        steps.create(store)
    assert () == snapshot(store).schedules
    other.execute("ROLLBACK")
    other.close()
    assert steps.create(store).version == 1


def test_a_new_file_that_is_locked_says_so(path, clock):
    other = apsw.Connection(str(path))
    other.execute("BEGIN EXCLUSIVE")

    with pytest.raises(StoreUnavailable, match="is locked by another program"):
        SqliteStore(path, clock, settings=AT_ONCE)
    other.execute("ROLLBACK")
    other.close()
    SqliteStore(path, clock, settings=AT_ONCE).close()


def test_a_full_disk_says_so_and_is_usable_afterwards(store):
    """FAULT-11: clean refusal, no damage, recovery by itself."""
    writer = store._connections._writer  # noqa: SLF001 - its bound stands for a full disk
    pages = writer.pragma("page_count")
    writer.pragma("max_page_count", pages)

    with pytest.raises(StoreUnavailable, match="the disk is full; free some space"):
        create_many(store, 1000)
    made = len(snapshot(store).schedules)
    assert [] == store.check()
    writer.pragma("max_page_count", 1_000_000)
    steps.create(store, "one more")
    assert made + 1 == len(snapshot(store).schedules)


def test_a_file_that_is_no_database_says_so(path, clock):
    path.write_text("these are not the pages you are looking for" * 100)

    with pytest.raises(StoreUnavailable, match="is not an SQLite database"):
        SqliteStore(path, clock)


def test_a_damaged_file_is_found(store, path, clock):
    create_many(store, 50)
    store.close()
    with path.open("r+b") as file:
        file.seek(path.stat().st_size - 10 * PAGE_BYTES)
        file.write(b"\xff" * 10 * PAGE_BYTES)
    again = SqliteStore(path, clock)

    found = again.check()

    assert found
    assert "damage" in {finding.what for finding in found}
    again.close()


def test_a_folder_says_so(tmp_path, clock):
    with pytest.raises(StoreUnavailable, match="is a folder; name a file in it"):
        SqliteStore(tmp_path, clock)


def test_a_missing_folder_is_named(tmp_path, clock):
    with pytest.raises(StoreUnavailable, match=r"make the folder .*missing first"):
        SqliteStore(tmp_path / "missing" / "duly.db", clock)


def test_a_name_of_no_file_is_refused(clock):
    with pytest.raises(UsageError, match="is not a file; name a file, or :memory:"):
        SqliteStore("", clock)


def test_a_closed_store_says_so(store):
    store.close()

    with pytest.raises(StoreUnavailable, match="has been closed"):
        steps.create(store)
    with pytest.raises(StoreUnavailable, match="has been closed"):
        store.status()


@pytest.mark.parametrize("version", ["3.40.1", "3.51.2"])
def test_an_sqlite_that_damages_files_is_refused(version):
    with pytest.raises(StoreUnavailable, match=f"SQLite {version}; install apsw 3.51.3"):
        refuse_old_sqlite(version, "sqlite:///duly.db")


@pytest.mark.parametrize("version", ["3.51.3", "3.54.1", "4.0.0"])
def test_a_sound_sqlite_is_welcome(version):
    refuse_old_sqlite(version, "sqlite:///duly.db")


@pytest.mark.parametrize(
    ("error", "kind", "problem"),
    [
        (apsw.BusyError(), StoreUnavailable, "is locked by another program"),
        (apsw.LockedError(), StoreUnavailable, "is locked by another program"),
        (apsw.ReadOnlyError(), StoreUnavailable, "can't be written to"),
        (apsw.FullError(), StoreUnavailable, "can't be written to, for the disk is full"),
        (apsw.CorruptError(), StoreUnavailable, "is damaged"),
        (apsw.CantOpenError(), StoreUnavailable, "can't be opened"),
        (apsw.IOError("disk I/O error"), StoreUnavailable, "can't be used (disk I/O error)"),
        (
            apsw.SQLError("no such column: x"),
            SchemaMismatch,
            "has another schema than this program knows (no such column: x)",
        ),
        (
            apsw.ConstraintError("CHECK constraint failed: never_early"),
            StoreError,
            "refused what would break a promise (CHECK constraint failed: never_early)",
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_every_failure_has_a_meaning(error, kind, problem, path):
    found = failure(error, "sqlite:///duly.db", path)

    assert (kind, problem) == (type(found), found.problem)
    assert found.remedy


def test_a_read_only_file_can_be_looked_at_and_not_written(store, path, clock):
    """Its owner may have made it so: what is there is still to be seen."""
    record = steps.create(store)
    store._connections._writer.pragma("query_only", 1)  # noqa: SLF001 - stands for the mode bits

    with pytest.raises(StoreUnavailable, match="can't be written to; make the file"):
        store.create_schedule(new_schedule(clock.now_us(), "weekly"))
    assert record == steps.look(store, record)
