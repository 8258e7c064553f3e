"""`duly run cancel`, `retry`, `discard`, `edit`, and how each is taken back."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from duly.domain.ids import RunId
from tests.cli.scripted_worker import PlayedWorker

if TYPE_CHECKING:
    from uuid import UUID

    from duly.store.sqlite import SqliteStore
    from tests.cli.duly_command import Answer, Workplace


def state(store: SqliteStore, run: UUID) -> str:
    record = store.get_run(RunId(run.bytes))
    assert record is not None
    return str(record.state)


def undo(place: Workplace, answer: Answer) -> Answer:
    """Type what a command says takes it back."""
    line = next(line for line in answer.out.splitlines() if line.startswith("undo: "))
    for command in line.removeprefix("undo: ").partition(" (")[0].split(" && "):
        words = shlex.split(command)
        assert "duly" == words[0], line
        answer = place.duly(*words[1:], DULY_URL="sqlite:///elsewhere.db")
    return answer


HERE = ("--url", "sqlite:///promises.db")


def test_a_queued_run_is_cancelled_and_ordered_again(place: Workplace, store: SqliteStore):
    run = PlayedWorker(store).queue()
    answer = place.duly("run", "cancel", str(run)[:23], "--reason", "called off", *HERE)
    again = undo(place, answer)
    why = place.duly("run", "why", str(run)).out

    assert ("cancelled", 0) == (state(store, run), again.status), again.err
    assert 1 == len(place.duly("run", "list", "--state", "queued", "--json").json)
    assert "It was cancelled by ada (called off) at " in why


def test_a_running_run_is_asked_to_stop(place: Workplace, store: SqliteStore):
    worker = PlayedWorker(store)
    run = worker.queue()
    worker.take()
    answer = place.duly("run", "cancel", str(run), "--reason", "wrong class")
    why = place.duly("run", "why", str(run)).out
    as_json = place.duly("run", "cancel", str(run), "--reason", "again", "--json").json

    assert "to stop. See how it ends: duly run wait" in answer.out
    assert "undo: none; its worker has been told" in answer.out
    assert "by ada (wrong class), and its code has not ended yet" in why
    assert ("running", None) == (as_json["state"], as_json["undo"])


def test_what_is_over_can_not_be_cancelled(place: Workplace, store: SqliteStore):
    worker = PlayedWorker(store)
    run = worker.queue()
    worker.succeed(worker.take())
    answer = place.duly("run", "cancel", str(run), "--reason", "too late")

    assert (4, "") == (answer.status, answer.out), answer.err


def test_runs_are_cancelled_by_a_filter_after_they_were_shown(place: Workplace, store: SqliteStore):
    """These and no others; without a choice none is."""
    worker = PlayedWorker(store)
    over = worker.queue("over")
    worker.succeed(worker.take())
    runs = [worker.queue(name) for name in ("a", "b")]
    other = worker.queue("c", queue="other")
    why = ("--reason", "wrong class")
    previewed = place.duly("run", "cancel", "--queue", "mail", *why, "--dry-run", "--json").json
    before = {state(store, one) for one in (*runs, other)}
    unsaid = place.duly("run", "cancel", *why)
    done = place.duly("run", "cancel", "--state", "queued", "--queue", "mail", *why, "--yes")
    left = place.duly("run", "cancel", str(over), str(other), *why, "--json")

    assert {str(one) for one in runs} == {one["id"] for one in previewed["runs"]}
    assert ({"queued"}, 2) == (before, unsaid.status)
    assert (0, "Cancelled, or asked to stop: 2 runs.") == (done.status, done.out.splitlines()[0])
    assert 4 == left.status
    assert [(False, "succeeded"), (True, "queued")] == [
        (one["is_done"], one["state"]) for one in left.json["runs"]
    ]
    assert {"cancelled"} == {state(store, one) for one in (*runs, other)}


def test_a_dead_run_is_queued_again_and_stopped(place: Workplace, store: SqliteStore):
    run = PlayedWorker(store).dead()
    answer = place.duly("run", "retry", str(run), "--reason", "mended", *HERE)

    assert (0, "queued") == (answer.status, state(store, run)), answer.err
    assert 0 == undo(place, answer).status
    assert "cancelled" == state(store, run)


def test_dead_runs_are_chosen_by_a_filter_and_shown_before_they_are_touched(
    place: Workplace, store: SqliteStore
):
    """By filter with a preview; UX 39: what was seen is what is touched."""
    worker = PlayedWorker(store)
    mail, other = worker.dead("a"), worker.dead("b", task="nightly_report")
    order = ("run", "retry", "--dead", "--task", "send_reminder", "--cause", "not-retryable")
    shown = place.duly(*order, "--dry-run")
    unasked = place.duly(*order)
    before = state(store, mail)
    done = place.duly(*order, "--yes", "--json")

    assert (0, True) == (shown.status, "1 of send_reminder, dead: not-retryable" in shown.out)
    assert "Nothing was changed (--dry-run)." in shown.out
    assert (2, "") == (unasked.status, unasked.out)
    assert "--yes: 1 run would be touched, and nobody can be asked here" in unasked.err
    assert ("dead", 0, "queued", "dead") == (
        before,
        done.status,
        state(store, mail),
        state(store, other),
    )
    assert [str(mail)] == [one["id"] for one in done.json["runs"]]


def test_a_person_is_asked_and_may_say_no(place: Workplace, store: SqliteStore):
    run = PlayedWorker(store).dead()
    declined = place.typed("n\n", "run", "retry", "--dead")
    before = state(store, run)
    agreed = place.typed("y\n", "run", "retry", "--dead")

    assert (1, True, "dead") == (declined.status, "Nothing was changed." in declined.out, before)
    assert (0, True) == (agreed.status, "Queued again: send_reminder@" in agreed.out)
    assert "queued" == state(store, run)


def test_above_a_hundred_a_person_types_the_number(place: Workplace, store: SqliteStore):
    """A y out of habit does not touch many."""
    worker = PlayedWorker(store)
    runs = [worker.queue(str(number)) for number in range(101)]
    worker.bury_all()
    habit = place.typed("y\n", "run", "discard", "--dead", "--reason", "test data")
    before = state(store, runs[0])
    meant = place.typed("101\n", "run", "discard", "--dead", "--reason", "test data")

    assert (1, "dead") == (habit.status, before)
    assert "Discard 101 runs? Type the number to go on: " in habit.out
    assert (0, True) == (meant.status, "Discarded: 101 runs." in meant.out)
    assert {"discarded"} == {state(store, run) for run in runs}


def test_what_is_not_dead_is_told_and_left_alone(place: Workplace, store: SqliteStore):
    worker = PlayedWorker(store)
    run, dead = worker.queue(), None
    worker.succeed(worker.take())
    dead = worker.dead("b")
    answer = place.duly("run", "retry", str(run), str(dead))

    assert (4, "queued") == (answer.status, state(store, dead))
    assert " is succeeded, not dead or retrying. Id: " in answer.out


def test_a_run_that_waits_is_tried_at_once(place: Workplace, store: SqliteStore):
    worker = PlayedWorker(store)
    run = worker.queue()
    worker.put_off(worker.take())
    why = place.duly("run", "why", str(run), "--json").json
    answer = place.duly("run", "retry", "--retrying", "--queue", "mail", "--yes")

    assert "backing-off" == why["cause"]
    assert (0, "queued") == (answer.status, state(store, run))


def test_nothing_is_chosen_without_a_word(place: Workplace):
    assert (2, True) == (
        (answer := place.duly("run", "retry")).status,
        "name runs by their ids, or choose them: --dead" in answer.err,
    )
    beside = place.duly("run", "retry", "abc", "--dead")
    assert (2, True) == (beside.status, "is named beside a filter" in beside.err)


def test_a_discard_asks_and_is_for_good(place: Workplace, store: SqliteStore):
    run = PlayedWorker(store).dead()
    unasked = place.duly("run", "discard", str(run), "--reason", "nobody needs it")
    before = state(store, run)
    done = place.duly("run", "discard", str(run), "--reason", "nobody needs it", "--yes")
    why = place.duly("run", "why", str(run)).out

    assert (2, "dead") == (unasked.status, before)
    assert (0, "discarded") == (done.status, state(store, run))
    assert "undo: none; the record stays" in done.out
    assert "discarded by ada (nobody needs it)" in why


def test_a_dead_run_gets_other_arguments_and_its_old_ones_back(
    place: Workplace, store: SqliteStore
):
    run = PlayedWorker(store).dead()
    bad = place.duly("run", "edit", str(run), "-a", "class_id=soon")
    answer = place.duly("run", "edit", str(run), "-a", "note=late", "--reason", "wrong", *HERE)
    edited = place.duly("run", "show", str(run), "--json").json["arguments"]
    undone = undo(place, answer)
    after = place.duly("run", "show", str(run), "--json").json["arguments"]

    assert (2, "") == (bad.status, bad.out)
    assert {"class_id": 7, "note": "late"} == edited
    assert (0, {"class_id": 7, "note": ""}) == (undone.status, {"note": "", **after}), undone.err
