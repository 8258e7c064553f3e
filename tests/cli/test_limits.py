"""`duly limit`, `duly breaker`: what is limited, how much of it is taken, who is down."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.clock import SystemClock
from duly.engine.manual_clock import ManualClock
from duly.store.ports.limits import Request
from duly.store.sqlite import SqliteStore
from duly.timetable.instants import SECOND_US
from tests.cli.scripted_worker import PlayedWorker
from tests.cli.test_run_orders import HERE, undo

if TYPE_CHECKING:
    from duly.store.ports.execution import ClaimedRun
    from tests.cli.duly_command import Workplace

FAILURES = 10
PAUSES_US = [5 * SECOND_US * 2**number for number in range(6)]
"""After each a probe goes, and fails, too."""


def admit(store: SqliteStore, worker: PlayedWorker, claimed: ClaimedRun, to: str | None) -> str:
    request = Request(claimed.hold, "default", claimed.task, to)
    return str(store.admit(worker.member, [request]).verdicts[0].way)


def break_down(place: Workplace, destination: str) -> None:
    """Let attempts at a destination fail until it is left alone for minutes, by the end of the past.

    It is left alone for seconds at first, and commands of a busy machine may take as long as that.
    """
    hands = ManualClock(SystemClock().now_us() - sum(PAUSES_US))
    store = SqliteStore(place.folder / "promises.db", hands)
    worker = PlayedWorker(store)
    for number, pause_us in enumerate((*[0] * FAILURES, *PAUSES_US)):
        hands.advance(pause_us)
        worker.queue(f"call {number}")
        claimed = worker.take()
        assert "goes" == admit(store, worker, claimed, destination)
        worker.fail_to_answer(claimed)
    store.close()


def test_a_limit_is_set_listed_and_taken_back_by_what_was_told(
    place: Workplace, store: SqliteStore
):
    made = place.duly("limit", "set", "tenant:acme", "--running", "20", "--rate", "50/s", *HERE)
    changed = place.duly(
        "limit", "set", "tenant:acme", "--running", "5", "--reason", "flood", *HERE
    )
    listed = place.duly("limit", "list").out
    [held] = place.duly("limit", "list", "--json").json["limits"]
    back = undo(place, changed)
    removed = undo(place, made)
    again = place.duly("limit", "remove", "tenant:acme")

    assert "tenant:acme: at most 20 running at a time, at most 50/1s burst 50.\n" in made.out
    assert ("tenant:acme", 5, "flood") == (held["name"], held["running"], held["reason"])
    assert "flood" in listed
    assert "at most 20 running" in back.out
    assert "Removed the limit for tenant:acme." in removed.out
    assert "Nobody has set a limit for tenant:acme. Nothing was changed." in again.out


def test_nothing_is_limited_at_first(place: Workplace):
    assert "Nothing is limited." in place.duly("limit", "list").out
    assert "No task has called a destination yet." in place.duly("breaker", "list").out


def test_a_limit_by_a_parameter(place: Workplace):
    made = place.duly("limit", "set", "task:bill", "--by", "account_id=2", "--json").json
    wrong = place.duly("limit", "set", "task:bill", "--by", "account_id")

    assert {"account_id": 2} == made["running_by"]
    assert (2, True) == (wrong.status, "by: 'account_id' is not such a pair; give" in wrong.err)


def test_what_names_nothing_is_refused(place: Workplace):
    wrong = place.duly("limit", "set", "acme", "--running", "5")
    empty = place.duly("limit", "set", "task:send")

    assert (2, True) == (wrong.status, "name a task, a tenant or a destination" in wrong.err)
    assert (2, True) == (empty.status, "would limit nothing" in empty.err)


def test_a_run_says_for_which_place_it_waits(place: Workplace, store: SqliteStore):
    """How many are taken, and what to do."""
    place.duly("limit", "set", "task:send_reminder", "--running", "1")
    worker = PlayedWorker(store)
    worker.queue("first")
    assert "goes" == admit(store, worker, worker.take(), None)
    run = worker.queue("second")
    assert "stands" == admit(store, worker, worker.take(), None)
    why = place.duly("run", "why", str(run)).out
    listed = place.duly("limit", "list").out
    shown = place.duly("run", "show", str(run)).out

    sentence = (
        "It waits for a place under the limit of task:send_reminder: 1 of 1 places are taken."
    )
    assert sentence in why
    assert "duly limit set task:send_reminder --running" in why
    assert "task:send_reminder\t1" in listed
    assert "cap task:send_reminder" in shown


def test_a_breaker_is_shown_and_reset(place: Workplace, store: SqliteStore):
    """On record, with the reason."""
    break_down(place, "api.example.com")
    worker = PlayedWorker(store)
    run = worker.queue("later")
    assert "later" == admit(store, worker, worker.take(), "api.example.com")
    listed = place.duly("breaker", "list").out
    (told,) = place.duly("breaker", "list", "--json").json
    shown = place.duly("breaker", "show", "api.example.com").out
    why = place.duly("run", "why", str(run)).out
    noted = place.duly("status").out
    reset = place.duly("breaker", "reset", "api.example.com", "--reason", "mended", *HERE)
    audited = place.duly("audit").out
    again = place.duly("breaker", "reset", "api.example.com", "--reason", "mended")

    assert "open" in listed
    assert (16, 1) == (told["failed"], told["waiting"])
    assert "waiting" in listed
    assert "16 failed" in shown
    assert shown.startswith("api.example.com is left alone until ")
    assert "It waits for api.example.com, whose breaker is open until " in why
    assert "note: runs wait for api.example.com to be up again: duly breaker list" in noted
    assert "Closed the breaker of api.example.com" in reset.out
    assert "breaker.reset" in audited
    assert "was closed; it is counted anew" in again.out


def test_a_breaker_that_nobody_has_is_not_found(place: Workplace, store: SqliteStore):
    assert 3 == place.duly("breaker", "show", "nowhere").status
    assert 3 == place.duly("breaker", "reset", "nowhere", "--reason", "r").status
