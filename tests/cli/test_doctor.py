"""`duly doctor`: what is wrong, and what to do about it."""

from __future__ import annotations

import re
import stat
from typing import TYPE_CHECKING

import apsw
import pytest

from duly.app import App
from duly.app import doctor as doctor_module
from duly.app.doctor import Level, examine
from duly.clock import SystemClock
from duly.store.memory import MemoryStore
from tests.cli.scripted_worker import PlayedWorker

if TYPE_CHECKING:
    from datetime import datetime

    from duly.store.sqlite import SqliteStore
    from tests.cli.duly_command import Answer, Workplace

SECOND_US = 1_000_000


def codes(answer: Answer) -> dict[str, str]:
    return {one["code"]: one["level"] for one in answer.json["checks"] if one["code"]}


class SetOff:
    """A clock that is off by some microseconds."""

    def __init__(self, off_us: int) -> None:
        self._own, self._off_us = SystemClock(), off_us

    def now(self) -> datetime:
        raise NotImplementedError

    def now_us(self) -> int:
        return self._own.now_us() + self._off_us

    def monotonic_us(self) -> int:
        return self._own.monotonic_us()


def test_a_fresh_store_is_well(place: Workplace):
    """Green the first time; whatever the system's own time zones are is no more than a note."""
    told = place.duly("doctor")
    found = place.duly("doctor", "--json")

    assert (0, 0, True) == (told.status, found.status, found.json["is_well"]), told.out
    assert {"SQLite", "time zones", "store", "clock", "disk", "schema"} <= {
        one["about"] for one in found.json["checks"]
    }
    assert re.search(r"^ok +SQLite +3\.\d+\.\d+", told.out, re.MULTILINE)
    assert re.search(r"^(ok|note) +time zones +tzdata 20\d\d\w", told.out, re.MULTILINE)


def test_where_there_is_no_store_it_is_broken_until_it_is_fixed(place: Workplace):
    """Looking makes none; --fix does, and says so."""
    url = ("--url", "sqlite:///other.db")
    before = place.duly("doctor", *url, "--json", DULY_APP="")
    is_made = (place.folder / "other.db").exists()
    fixed = place.duly("doctor", "--fix", *url, DULY_APP="")

    assert (5, {"schema-mismatch": "broken"}) == (
        before.status,
        {code: level for code, level in codes(before).items() if level == "broken"},
    )
    assert not is_made
    assert (0, True) == (fixed.status, "mended    applied migration 0001_pre_" in fixed.out)


def test_work_that_nobody_would_do_is_degraded_with_its_remedy(
    place: Workplace, store: SqliteStore
):
    """A queue with work and no worker, dead letters, doubt: each by its code."""
    worker = PlayedWorker(store)
    worker.dead("a")
    worker.doubt("b")
    store.leave(worker.member)
    PlayedWorker(store, queues=("reports",)).queue("c", queue="mail")
    told = place.duly("doctor")
    found = place.duly("doctor", "--json")

    assert (1, 1) == (told.status, found.status)
    assert {
        "queue-without-worker": "degraded",
        "dead-letters": "note",
        "ambiguous-runs": "degraded",
    }.items() <= codes(found).items()
    assert "do: start duly worker --queue mail" in told.out
    assert "[queue-without-worker]" in told.out


def test_a_store_that_can_not_be_read_is_broken(place: Workplace):
    (place.folder / "promises.db").write_bytes(b"not a database" * 100)
    answer = place.duly("doctor", "--json")

    assert (5, False) == (answer.status, answer.json["is_well"])
    assert ["is not an SQLite database"] == [
        one["says"].partition(": ")[2] for one in answer.json["checks"] if one["level"] == "broken"
    ]


def test_how_many_serve_a_queue_is_said_in_words(place: Workplace, store: SqliteStore):
    worker = PlayedWorker(store)
    worker.queue()
    one = place.duly("doctor").out
    PlayedWorker(store)

    assert "1 worker in service; queue mail: 1 queued, served by 1 worker" in one
    assert "queue mail: 1 queued, served by 2 workers" in place.duly("doctor").out


def test_a_newer_store_is_not_mended(place: Workplace):
    """An old program does not touch what a newer one has made."""
    file = apsw.Connection(str(place.folder / "promises.db"))
    file.execute(
        "insert into duly_migrations select 9999, phase, 'newer', checksum, applied_at"
        " from duly_migrations where number = 1"
    )
    file.close()
    answer = place.duly("doctor", "--fix", "--json")
    status, as_json = place.duly("status"), place.duly("status", "--json").json

    assert (0, [], "note") == (answer.status, answer.json["mended"], codes(answer)["newer-store"])
    assert "note: the store is newer than this program: it has 9999_pre_newer" in status.out
    assert (False, ["9999_pre_newer"]) == (
        "All is well" in status.out,
        as_json["schema"]["unknown"],
    )


@pytest.mark.parametrize(
    ("off_us", "expected"),
    [(0, None), (-5 * SECOND_US, "clock-skew"), (5 * SECOND_US, "clock-skew")],
)
def test_a_clock_that_is_off_the_stores_is_told(off_us, expected):
    """Beyond 100 ms a dispatcher would not fire here."""
    with App(store=MemoryStore(SystemClock())) as app:
        (found,) = (one for one in examine(app, SetOff(off_us)).checks if one.about == "clock")

    assert expected == found.code


@pytest.mark.parametrize(
    ("free", "level"), [(1 << 40, Level.OK), (1 << 29, Level.NOTE), (1 << 20, Level.DEGRADED)]
)
def test_a_disk_that_is_almost_full_is_told(place, monkeypatch, free, level):
    """What can't be written down can't be promised."""
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": free}))
    with App(f"sqlite:///{place.folder / 'promises.db'}") as app:
        (found,) = (one for one in examine(app).checks if one.about == "disk")

    assert level == found.level


@pytest.mark.parametrize(
    ("mode", "wanted"), [(0o644, 0o600), (0o664, 0o660), (0o666, 0o660), (0o640, 0o600)]
)
def test_a_file_that_others_can_open_is_told_and_closed(place: Workplace, mode: int, wanted: int):
    """A group that may write shares the store on purpose."""
    file = place.folder / "promises.db"
    file.chmod(mode)
    found = place.duly("doctor")
    fixed = place.duly("doctor", "--fix")

    assert (1, True) == (found.status, "[store-open-to-others]" in found.out), found.out
    assert f"do: chmod {wanted:o} {file.resolve()}" in found.out
    assert "duly doctor --fix would mend 1 of these." in found.out
    assert (0, True) == (fixed.status, "closed" in fixed.out), fixed.out
    assert wanted == stat.S_IMODE(file.stat().st_mode)


def test_the_logs_beside_a_file_are_closed_too(place: Workplace, store: SqliteStore):
    """They hold what the file does not hold yet."""
    PlayedWorker(store).queue("a")
    logs = [place.folder / "promises.db-wal", place.folder / "promises.db-shm"]
    for log in logs:
        log.chmod(0o644)
    found = place.duly("doctor", "--json")
    fixed = place.duly("doctor", "--fix", "--json")

    (told,) = (one for one in found.json["checks"] if one["about"] == "permissions")
    assert (
        "other users of this machine can open promises.db-wal and promises.db-shm" == (told["says"])
    )
    assert [str(log.resolve()) for log in logs] == fixed.json["mended"]
    assert [0o600, 0o600] == [stat.S_IMODE(log.stat().st_mode) for log in logs]


@pytest.mark.parametrize("mode", [0o600, 0o660])
def test_a_file_of_its_owner_or_of_a_group_that_shares_it_is_well(place: Workplace, mode: int):
    file = place.folder / "promises.db"
    file.chmod(mode)
    with App(f"sqlite:///{file}") as app:
        (found,) = (one for one in examine(app).checks if one.about == "permissions")

    assert (Level.OK, "promises.db is closed to other users") == (found.level, found.says)


def test_other_rules_of_time_zones_on_the_system_are_told(tmp_path, monkeypatch):
    """Which release is used is shown, and that other programs may use another."""
    (tmp_path / "tzdata.zi").write_text("# version 1999a\n")
    monkeypatch.setattr(doctor_module, "SYSTEM_ZONES", tmp_path)
    with App(store=MemoryStore(SystemClock())) as app:
        told = [one for one in examine(app).checks if one.code == "system-time-zones-differ"]

    assert [Level.NOTE] == [one.level for one in told]
    assert "the system has 1999a" in told[0].says
