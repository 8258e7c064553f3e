"""`duly run list`, `show`, `logs`, `wait`, `why`: looking at runs."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from duly.domain.outcomes import Succeeded
from duly.domain.runs import TaskPolicy
from duly.store.ports.execution import FinishResult, Heartbeat
from duly_conformance import kit, steps
from tests.cli.scripted_worker import PlayedWorker
from tests.waiting import read_line

if TYPE_CHECKING:
    from duly.store.sqlite import SqliteStore
    from tests.cli.duly_command import Workplace

HOSTILE = "\x1b[2J\x1b]0;gotcha\x07 caf\xe9 \x9b31m \u202e"
SPELLED = r"\x1b[2J\x1b]0;gotcha\x07 café \x9b31m \u202e"


def test_runs_are_listed_by_several_states_and_by_why_they_are_dead(
    place: Workplace, store: SqliteStore
):
    worker = PlayedWorker(store)
    dead = str(worker.dead())
    queued = str(worker.queue("b"))
    listed = place.duly("run", "list", "--state", "dead", "--state", "queued", "--json").json
    by_reason = place.duly("run", "list", "--reason", "not-retryable")
    by_task = place.duly("run", "list", "--task", "nightly_report", "--json").json

    assert {dead: "dead", queued: "queued"} == {one["id"]: one["state"] for one in listed}
    assert dead in by_reason.out
    assert queued not in by_reason.out
    assert [] == by_task


def test_runs_are_found_by_a_text_of_their_error_and_page_by_page(
    place: Workplace, store: SqliteStore
):
    """Each page says how to go on."""
    worker = PlayedWorker(store)
    dead = {str(worker.dead(text)) for text in "abc"}
    queued = str(worker.queue("d"))
    options = ("run", "list", "--error", "no such class", "-n", "2", "--json", "--cursor")
    first = place.duly(*options, "first").json
    rest = place.duly(*options, first["next_cursor"]).json
    told = place.duly("run", "list", "-n", "3", "--cursor", "first").out
    nobody = place.duly("run", "list", "--error", "No Such Class", "--json").json
    refused = place.duly("run", "list", "--error", "x", "--cursor", first["next_cursor"])

    found = [one["id"] for page in (first, rest) for one in page["items"]]
    assert (2, 3) == (len(first["items"]), len(found))
    assert dead == set(found)
    assert queued not in found
    assert rest["next_cursor"] is None
    assert "Go on with the same options and --cursor " in told
    assert [] == nobody
    assert "is of a search with other filters" in refused.err


def test_runs_are_found_by_their_origin_lane_and_line(place: Workplace, store: SqliteStore):
    """What a person ran once more is told from what it repeats."""
    worker = PlayedWorker(store)
    first, other = str(worker.dead("a")), str(worker.dead("b"))
    place.duly("run", "rerun", first, "--reason", "mended")
    again = place.duly("run", "list", "--origin", "rerun", "--json").json
    line = place.duly("run", "list", "--root", first, "--lane", "live", "--json").json
    none = place.duly("run", "list", "--lane", "backfill", "--json").json

    assert [first] == [one["root"] for one in again]
    assert {first, again[0]["id"]} == {one["id"] for one in line}
    assert other not in {one["id"] for one in line}
    assert [] == none


def test_a_list_into_a_pipe_is_not_cut_and_one_on_a_narrow_terminal_shows_the_id(
    place: Workplace, store: SqliteStore
):
    run = str(PlayedWorker(store).dead("x", task="t" * 150))
    piped = place.duly("run", "list", COLUMNS="60").out
    narrow = place.typed("", "run", "list").out

    heading, row = (line.split("\t") for line in piped.splitlines())
    assert ("t" * 150 + "@", run) == (row[2].partition("@")[0] + "@", row[0])
    assert ["id", "state", "run"] == heading[:3]
    assert len(heading) == len(row)
    assert run in narrow


def test_a_run_is_shown_with_each_attempt_and_each_recorded_time(
    place: Workplace, store: SqliteStore
):
    """Separate facts, each with its time and zone; fences of every claim."""
    worker = PlayedWorker(store)
    run = str(worker.queue())
    worker.put_off(worker.take())
    place.duly("run", "retry", run)
    claimed = worker.take()
    worker.advance(claimed, done=30)
    told = place.duly("run", "show", run).out
    worker.succeed(claimed)
    done = place.duly("run", "show", run)
    found = place.duly("run", "show", run, "--json").json

    assert "30 of 40 (75 %), third file" in told
    assert "heartbeat" in told
    assert all(f"\n{step}\t" in told for step in ("due", "queued", "claimed", "started"))
    assert f"run {run} → 2 attempts" in done.out
    assert '"sent": 1' in done.out
    assert [(1, 1, "failed", "error"), (2, 2, "succeeded", None)] == [
        (one["number"], one["fence"], one["state"], one["reason"]) for one in found["attempts"]
    ]
    assert "no such class" in found["attempts"][0]["error"]
    assert [30] == [one["done"] for one in found["progress_steps"]]


def test_a_run_that_gave_nothing_shows_no_result(place: Workplace, store: SqliteStore):
    """Most tasks give nothing, and "null" says less than that."""
    worker = PlayedWorker(store)
    run = str(worker.queue())
    worker.succeed(worker.take(), result="null")
    shown = place.duly("run", "show", run)

    assert (0, False, False) == (shown.status, "null" in shown.out, "result" in shown.out)
    assert shown.out.endswith("\n")


def test_the_late_word_of_a_lost_worker_is_shown_as_evidence(place: Workplace, store: SqliteStore):
    """A completion by a lost owner is refused and recorded."""
    worker = PlayedWorker(store)
    run = str(worker.queue())
    claimed = worker.take()
    store.leave(worker.member)
    steps.settle_lost(store, steps.maintain(store), *steps.lost_claims(store))
    late = store.finish_runs(worker.member, [kit.finish(claimed, Succeeded("7"))])
    told = place.duly("run", "show", run).out

    assert (FinishResult.REFUSED,) == late.results
    assert "late word: the lost worker of fence 1 said succeeded at 20" in told


def test_the_steps_of_a_schedules_run_are_told_in_its_own_zone_too(place: Workplace):
    place.duly(
        *("schedule", "create", "n", "--task", "nightly_report"),
        *("--when", "every day at 2", "--tz", "Europe/Berlin"),
    )
    run = place.duly("schedule", "trigger", "n", "--json").json
    told = place.duly("run", "show", run["id"][:20]).out

    assert "Europe/Berlin" in told
    assert " (+0" in told
    assert "lineage         schedule n (" in told


def test_what_a_task_wrote_can_not_command_the_terminal(place: Workplace, store: SqliteStore):
    """Escapes are spelled out, in text and in JSON."""
    worker = PlayedWorker(store)
    run = str(worker.queue())
    claimed = worker.take()
    worker.advance(claimed, HOSTILE)
    worker.bury(claimed, f"ValueError: {HOSTILE}")
    logged, shown = place.duly("run", "logs", run).out, place.duly("run", "show", run).out
    why, as_json = place.duly("run", "why", run).out, place.duly("run", "logs", run, "--json").out

    assert SPELLED in logged
    assert SPELLED in shown
    assert SPELLED in why
    assert all(
        text.replace("\n", "").replace("\t", "").isprintable()
        for text in (logged, shown, why, as_json)
    )
    assert HOSTILE == json.loads(as_json)["text"]


def test_logs_are_followed_until_the_run_is_over(place: Workplace, store: SqliteStore):
    worker = PlayedWorker(store)
    run = str(worker.queue())
    claimed = worker.take()
    worker.advance(claimed, "first")
    following = place.start("run", "logs", run, "-f", "--json")
    first = json.loads(read_line(following))
    worker.advance(claimed, "second", "third")
    more = [json.loads(read_line(following))["text"] for _ in range(2)]
    worker.succeed(claimed)
    rest, errors = following.communicate(timeout=120)

    assert ("first", "info", 1) == (first["text"], first["level"], first["fence"])
    assert (["second", "third"], "", 0) == (more, rest, following.returncode), errors


def test_waiting_ends_with_the_code_of_the_worst_end(place: Workplace, store: SqliteStore):
    worker = PlayedWorker(store)
    good = str(worker.queue())
    worker.succeed(worker.take())
    dead = str(worker.dead("b"))
    open_run = str(worker.queue("c"))
    well = place.duly("run", "wait", good)
    badly = place.duly("run", "wait", good, dead, "--json")
    late = place.duly("run", "wait", open_run, "--timeout", "1ms")

    assert (0, True) == (well.status, "succeeded in " in well.out)
    assert "" == well.err
    states = [json.loads(line)["state"] for line in badly.out.splitlines()]
    assert (1, ["succeeded", "dead"]) == (badly.status, states)
    assert (124, True) == (
        late.status,
        f"still queued. Ask why: duly run why {open_run}" in late.out,
    )


def test_waiting_for_a_run_that_ends_meanwhile(place: Workplace, store: SqliteStore):
    worker = PlayedWorker(store)
    run = str(worker.queue())
    claimed = worker.take()
    waiting = place.start("run", "wait", run, "--timeout", "110s")
    worker.succeed(claimed)
    out, err = waiting.communicate(timeout=120)

    assert (0, "") == (waiting.returncode, err)
    assert "succeeded" in out


def test_a_delayed_run_is_waited_for_by_its_key(place: Workplace):
    order = ("enqueue", "send_reminder", "-a", "class_id=7", "--in", "1h", "--key", "class:7")
    promised = place.duly(*order, "--wait", "--timeout", "1ms", "--json")
    again = place.duly("run", "wait", "class:7", "--timeout", "1ms")
    why = place.duly("run", "why", "class:7", "--json").json
    documents = [json.loads(line) for line in promised.out.splitlines()]

    assert (124, "pending", False) == (
        promised.status,
        documents[1]["state"],
        documents[1]["is_over"],
    )
    assert (124, True) == (again.status, "is still pending" in again.out)
    assert ("not-due", "pending") == (why["cause"], why["state"])


def test_a_run_is_found_by_its_key(place: Workplace):
    run = place.duly("enqueue", "nightly_report", "--key", "class:7", "--json").json["id"]
    shown = place.duly("run", "show", "class:7", "--json")

    assert run == shown.json["id"]


def test_on_a_terminal_the_end_of_a_run_has_a_line_of_its_own(place: Workplace, store: SqliteStore):
    run = str(PlayedWorker(store).dead())
    seen = place.typed("", "run", "wait", run).out

    # Between what is being waited for and what came of it, the line is wiped.
    assert re.search(r"waiting.*\x1b\[2K.*dead", seen, re.DOTALL)


def test_why_names_the_cause_the_evidence_and_the_remedy(place: Workplace, store: SqliteStore):
    worker = PlayedWorker(store, queues=("reports",))
    run = str(worker.queue())
    unserved = place.duly("run", "why", run)
    store.leave(worker.member)
    nobody = place.duly("run", "why", run, "--json").json
    place.duly("queue", "pause", "mail", "--reason", "migration")
    paused = place.duly("run", "why", run).out

    assert "no living worker serves the queue mail." in unserved.out
    assert "remedy: start duly worker --queue mail" in unserved.out
    assert ("no-worker", "queued", "start duly worker") == (
        nobody["cause"],
        nobody["state"],
        nobody["remedy"],
    )
    assert {"fact": "workers", "is": "none is alive"} == nobody["evidence"][1]
    assert "Its queue mail is paused by ada since " in paused
    assert ": migration." in paused


@pytest.mark.parametrize("order", ["show", "why", "logs", "wait", "cancel", "edit", "retry"])
def test_a_run_that_is_not_there_is_exit_code_3(place: Workplace, order: str):
    extra = {"cancel": ("--reason", "x"), "edit": ("-a", "class_id=1")}.get(order, ())
    answer = place.duly("run", order, "nothing", *extra)

    assert (3, "") == (answer.status, answer.out)
    assert "'nothing' was not found; see duly run list" in answer.err


def test_an_attempt_whose_worker_is_silent_or_that_does_not_advance_says_so(
    place: Workplace, store: SqliteStore
):
    """In the attempts, the run and the view of all; its run is running all the same."""
    store.register_policies({"send_reminder": TaskPolicy(stall_us=1)})
    silent, stalled = PlayedWorker(store), PlayedWorker(store)
    runs = []
    for worker in (silent, stalled):
        runs.append(str(worker.queue(str(worker.member))))
        worker.advance(worker.take(), done=1)
    store.beat(Heartbeat(worker=silent.member, ttl_us=1))  # its lease has run out by now

    states = ["heartbeat-stale", "stalled"]
    shown = [place.duly("run", "show", run).out for run in runs]
    top = place.duly("top").out
    told = place.duly("top", "--json").json["running"]
    attempts = [place.duly("run", "attempts", run, "--json").json for run in runs]

    assert states == [one[-1]["state"] for one in attempts]
    assert all(
        f"running; its attempt is {state}" in out for state, out in zip(states, shown, strict=True)
    )
    assert all(f"1, {state}" in top for state in states)
    found = {one["id"]: (one["state"], one["attempt_state"]) for one in told}
    assert {run: ("running", state) for run, state in zip(runs, states, strict=True)} == found
