"""`duly worker list`, `drain`, `quarantine`, `release`: workers out of service and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.store.ports.dispatch import MemberId
from duly_conformance import steps as work
from duly_conformance.kit import HOUR_US

if TYPE_CHECKING:
    from duly.store.sqlite import SqliteStore
    from tests.cli.duly_command import Workplace


def joined(store: SqliteStore) -> str:
    return str(work.join_worker(store, host="attic", process=7, slots=3, ttl_us=HOUR_US))


def test_a_worker_is_drained_and_put_back(place: Workplace, store: SqliteStore):
    """What is said names it, what it holds, and how to take it back."""
    work.queue(store)
    worker = joined(store)
    work.take(store, MemberId(int(worker)))

    drained = place.duly("worker", "drain", worker, "--reason", "the attic is cleared")
    listed = place.duly("worker", "list")
    released = place.duly("worker", "release", worker)

    assert (
        f"Draining worker {worker} (attic, process 7): it claims nothing more. It holds 1 run; it"
        " ends when they are done.\n"
    ) in drained.out, drained.err
    assert f"undo: duly worker release {worker}" in drained.out
    assert "draining" in listed.out
    assert f"Worker {worker} (attic, process 7) may claim again.\n" == released.out
    (entry, *_) = place.duly("audit", "--json").json
    assert "worker.released" == entry["action"]


def test_a_whole_host_is_put_into_quarantine(place: Workplace, store: SqliteStore):
    worker = joined(store)

    done = place.duly("worker", "quarantine", worker, "--host", "--reason", "it smokes")
    listed = place.duly("worker", "list")
    found = place.duly("worker", "list", "--json").json

    assert "and every other worker of attic: it claims nothing more. It holds nothing." in done.out
    assert f"undo: duly worker release {worker} --host" in done.out
    assert "Host attic is in quarantine, by ada: it smokes.\n" in listed.out
    assert ("quarantined", "attic") == (
        found["workers"][0]["standing"],
        found["quarantined_hosts"][0]["host"],
    )


def test_what_is_fenced_off_is_said(place: Workplace, store: SqliteStore):
    """It is no member any more then."""
    worker = joined(store)

    done = place.duly("worker", "quarantine", worker, "--fence", "--reason", "it lies", "--json")

    assert (False, "quarantined") == (done.json["is_alive"], done.json["standing"])
    assert "No worker is alive.\n" == place.duly("worker", "list").out


def test_nobody_is_drained_who_is_not_there(place: Workplace):
    nobody = place.duly("worker", "drain", "99", "--reason", "why not")
    nonsense = place.duly("worker", "drain", "0", "--reason", "why not")

    assert (3, True) == (nobody.status, "duly worker list" in nobody.err)
    assert (2, True) == (nonsense.status, "is not the id of a worker" in nonsense.err)
