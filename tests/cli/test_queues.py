"""`duly queue`, `duly status`, `duly top`: what waits where, and who does it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.outcomes import Failed
from duly.domain.runs import TASK_GONE
from duly_conformance.effects import UNSAFE, begin, taken
from duly_conformance.kit import finish
from tests.cli.scripted_worker import PlayedWorker
from tests.cli.test_run_orders import HERE, undo

if TYPE_CHECKING:
    from duly.store.sqlite import SqliteStore
    from tests.cli.duly_command import Workplace


def test_a_queue_is_paused_shown_and_resumed_by_what_was_told(place: Workplace, store: SqliteStore):
    PlayedWorker(store).queue()
    paused = place.duly("queue", "pause", "mail", "--reason", "migration", *HERE)
    listed = place.duly("queue", "list").out
    held = place.duly("queue", "list", "--json").json
    resumed = undo(place, paused)
    again = place.duly("queue", "resume", "mail")

    assert "Paused queue mail. 1 run waits; nothing of it runs." in paused.out
    assert "ada" in listed
    assert [("mail", 1, "ada", "migration")] == [
        (one["name"], one["queued"], one["paused_by"], one["reason"]) for one in held
    ]
    assert "undo: duly queue pause mail --reason migration" in resumed.out
    assert "Queue mail was not paused. Nothing was changed." in again.out


def test_draining_waits_for_what_runs_and_leaves_the_queue_paused(
    place: Workplace, store: SqliteStore
):
    worker = PlayedWorker(store)
    worker.queue()
    claimed = worker.take()
    late = place.duly("queue", "drain", "mail", "--reason", "move", "--timeout", "1ms")
    draining = place.start("queue", "drain", "mail", "--reason", "move", "--json")
    worker.succeed(claimed)
    out, err = draining.communicate(timeout=120)

    assert (124, True) == (late.status, "is paused; 1 run" in late.out)
    assert (0, "", True) == (draining.returncode, err, '"is_drained": true' in out)
    assert ["mail"] == [one["name"] for one in place.duly("queue", "list", "--json").json]


def test_due_work_without_a_worker_is_degraded(place: Workplace, store: SqliteStore):
    worker = PlayedWorker(store)
    worker.queue()
    served = place.duly("status")
    store.leave(worker.member)
    alone = place.duly("status")
    PlayedWorker(store, queues=("reports",))
    unserved = place.duly("status", "--json")

    assert (0, True) == (served.status, "0 of 10" in served.out), served.out
    assert (1, True) == (alone.status, "No worker is alive." in alone.out)
    assert "degraded: 1 run waits in queue mail, the oldest for " in alone.out
    assert alone.out.endswith("and no worker is alive: start duly worker\n")
    assert (1, True, False) == (
        unserved.status,
        unserved.json["dispatch"]["is_well"],
        unserved.json["work"]["is_well"],
    )
    assert "no worker serves it: start duly worker --queue mail" in unserved.json["findings"][0]
    resting = PlayedWorker(store)
    place.duly("worker", "quarantine", str(resting.member), "--reason", "it smokes")
    (finding,) = place.duly("status", "--json").json["findings"]
    assert f"the one worker that serves it, {resting.member}, is in quarantine" in finding
    assert f"duly worker release {resting.member}, or start duly worker --queue mail" in finding


def test_what_somebody_paused_and_what_is_dead_is_noted_and_not_degraded(
    place: Workplace, store: SqliteStore
):
    worker = PlayedWorker(store)
    worker.dead()
    store.leave(worker.member)
    worker.queue("b")
    place.duly("queue", "pause", "mail", "--reason", "migration")
    answer = place.duly("status")

    assert 0 == answer.status, answer.out
    assert "note: queue mail is paused by ada: migration; 1 run waits in it" in answer.out
    assert "note: 1 dead run is to be looked at: duly run list --state dead" in answer.out
    assert "0 running, 0 retrying, 1 dead" in answer.out


def test_what_is_in_doubt_is_wrong_and_told(place: Workplace, store: SqliteStore):
    """Whoever looks at the store is told, by the exit code too, and where to go on."""
    worker, claimed = taken(store)
    begin(store, worker, claimed)
    unheard = finish(claimed, Failed("boom"), policy=UNSAFE, has_begun_effects=True)
    store.finish_runs(worker, [unheard])
    answer = place.duly("status")

    assert 1 == answer.status
    told = "1 run is in doubt until a person decides what became of it: duly inbox"
    assert f"degraded: {told}" in answer.out
    assert "0 dead, 1 in doubt" in answer.out
    listed = place.duly("status", "--json")
    assert (1, 1, False) == (listed.status, listed.json["ambiguous"], listed.json["is_well"])
    assert told in listed.json["work"]["findings"]
    worker, claimed = taken(store, "b")
    begin(store, worker, claimed, "another")
    unheard = finish(claimed, Failed("boom"), policy=UNSAFE, has_begun_effects=True)
    store.finish_runs(worker, [unheard])
    both = "2 runs are in doubt until a person decides what became of them: duly inbox"
    assert both in place.duly("status").out


def test_a_schedule_whose_task_is_gone_is_degraded(place: Workplace):
    """It is paused, and that is said."""
    words = ("--task", "nightly_report", "--when", "every day at 2")
    place.duly("schedule", "create", "nightly", *words)
    place.duly("schedule", "pause", "nightly", "--reason", f"{TASK_GONE}: nightly_report")
    answer = place.duly("status")

    assert 1 == answer.status, answer.out
    assert "degraded: schedule nightly is paused, because no worker has the code" in answer.out


def test_one_frame_of_the_live_view_shows_all_of_it(place: Workplace, store: SqliteStore):
    """Two lights side by side, never one."""
    worker = PlayedWorker(store)
    dead = str(worker.dead())
    running = str(worker.queue("b"))
    worker.advance(worker.take(), done=30)
    told = place.duly("top").out
    found = place.duly("top", "--json").json

    assert "● dispatch well" in told
    assert "● work     well" in told
    assert all(word in told for word in (dead, running, "30 of 40 (75 %)", "1 of 10"))
    assert "ValueError: no such class" in told
    assert ([running], [dead]) == (
        [one["id"] for one in found["running"]],
        [one["id"] for one in found["failed"]],
    )


def test_the_live_view_ends_by_q_and_leaves_the_terminal_as_it_was(place: Workplace):
    seen = place.typed("xq", "top")

    assert 0 == seen.status
    assert "dispatch" in seen.out
    assert "\x1b[?1049l" in seen.out
