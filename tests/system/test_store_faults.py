"""The file fails its dispatchers: they say so, go on trying, and nothing is lost."""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING

import pytest

from duly.errors import StoreUnavailable
from duly.store.sqlite import SqliteStore
from tests.required_programs import required_program
from tests.system.campaign import Campaign, has_lost_store
from tests.system.checker import violations
from tests.system.disk import Disk
from tests.system.fleet import OUTLASTED_SECONDS, Fleet
from tests.waiting import wait_until

if TYPE_CHECKING:
    from tests.system.evidence import Order

pytestmark = pytest.mark.timeout(600)
SIZE_MAX = 100_000
"""More than a dispatcher tells in a test, less than the log of the file."""


@pytest.fixture
def disk(tmp_path):
    required_program("mount")
    made = Disk(tmp_path / "disk")
    if not made.mount():
        pytest.skip("mounting a file system is not allowed here")
    yield made
    made.unmount()


@pytest.fixture
def fleet_on_disk(tmp_path, disk):
    made = Fleet(tmp_path, f"sqlite:///{disk.folder / 'promises.db'}")
    yield made
    made.kill_all()


@pytest.mark.thorough
def test_nobody_is_declared_dead_while_another_program_holds_the_lock(fleet):
    """INV-21: who could not write could not renew; a whole lease of waiting proves nothing."""
    fleet.lease_seconds = OUTLASTED_SECONDS
    campaign = Campaign(fleet, "locked")
    campaign.start()
    campaign.hold_lock()
    wait_until("all recover", lambda: not any(map(has_lost_store, campaign.dispatchers)))
    evidence = campaign.finish()

    assert [] == violations(evidence)
    assert 0 == evidence.takeovers
    for dispatcher in campaign.dispatchers:
        assert dispatcher.count("store-lost") >= 1
        assert dispatcher.count("store-recovered") >= 1


def is_full(order: Order) -> bool:
    return "disk is full" in (order.answer or "")


def test_a_full_disk_is_said_and_survived(disk, fleet_on_disk):
    """Whoever is refused is told; whoever was acknowledged has it; firing goes on by itself."""
    campaign = Campaign(fleet_on_disk, "full")
    campaign.start()
    disk.fill()
    wait_until("they say so", lambda: all(one.count("store-lost") for one in campaign.dispatchers))
    wait_until("a client is told", lambda: any(map(is_full, fleet_on_disk.orders())))
    disk.make_room()
    wait_until(
        "they recover", lambda: all(one.count("store-recovered") for one in campaign.dispatchers)
    )
    evidence = campaign.finish()

    assert [] == violations(evidence)
    told = [one["problem"] for one in campaign.dispatchers[0].events() if "problem" in one]
    assert any("disk is full" in problem for problem in told), told


def test_a_store_that_is_opened_on_a_full_disk_says_so(disk):
    """SQLite calls it an I/O error: its files beside the store have no room."""
    path = disk.folder / "promises.db"
    SqliteStore(path).close()
    disk.fill()

    with pytest.raises(StoreUnavailable, match="the disk is full; free some space"):
        SqliteStore(path).status()
    disk.make_room()
    store = SqliteStore(path)
    assert [] == store.check()
    store.close()


@pytest.mark.thorough
@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="needs Linux")
def test_a_file_that_may_not_grow_is_said_and_survived(fleet):
    """The limit is set on one running dispatcher from outside, and taken back."""
    campaign = Campaign(fleet, "limited")
    campaign.start()
    victim = campaign.dispatchers[0]
    limits = resource.prlimit(victim.popen.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(victim.popen.pid, resource.RLIMIT_FSIZE, (SIZE_MAX, limits[1]))
    wait_until("it says so", lambda: victim.count("store-lost"))
    resource.prlimit(victim.popen.pid, resource.RLIMIT_FSIZE, limits)
    wait_until("it recovers", lambda: victim.count("store-recovered"))
    evidence = campaign.finish()

    assert [] == violations(evidence)


@pytest.mark.thorough
def test_a_file_that_can_not_be_written_to_is_said_and_survived(disk, fleet_on_disk):
    """Nobody has it open when it becomes read-only; who comes then waits until it is not."""
    campaign = Campaign(fleet_on_disk, "readonly")
    campaign.start()
    for dispatcher in campaign.dispatchers:
        dispatcher.terminate()
    campaign.clients[-1].close_input()
    runs = len(fleet_on_disk.evidence(fleet_on_disk.clock.now_us()).kept)
    fleet_on_disk.close_eyes()
    disk.make_readonly()
    dispatcher = fleet_on_disk.new_dispatcher()
    wait_until("it says so", lambda: dispatcher.count("store-lost"))
    disk.make_writable()
    fleet_on_disk.open_eyes()
    wait_until("firing goes on", lambda: fleet_on_disk.count_runs() > runs)

    (told,) = [one["problem"] for one in dispatcher.events() if "problem" in one]

    assert "can't be written to" in told
