"""What a newcomer is told: why he waits, which store is used, and how to say what he means."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from duly import telemetry
from duly.app.services import _awaited
from duly.cli.event_lines import sentence
from tests.cli.scripted_worker import PlayedWorker

if TYPE_CHECKING:
    from duly.store.sqlite import SqliteStore
    from tests.cli.duly_command import Workplace

REMIND = ("enqueue", "send_reminder", "-a", "class_id=7")
BRIEFLY = ("--wait", "--timeout", "1ms")
NO_WORKER = "no worker is alive: start duly worker"
NO_DISPATCHER = "no dispatcher is alive: start duly dispatcher"
OWN = "from duly.app import App\n\napp = App('sqlite:///own.db')\n"


def test_waiting_says_at_once_that_nobody_is_there(place: Workplace):
    queued = place.duly(*REMIND, *BRIEFLY)
    delayed = place.duly(*REMIND, "--in", "1h", "--key", "class:7", *BRIEFLY)
    as_json = place.duly("run", "wait", "class:7", "--timeout", "1ms", "--json")

    assert f"note: waiting, but {NO_WORKER}\n" == queued.err
    assert f"note: waiting, but {NO_DISPATCHER}, and {NO_WORKER}\n" == delayed.err
    assert {"note": f"waiting, but {NO_DISPATCHER}, and {NO_WORKER}"} == json.loads(as_json.err)


def test_waiting_beside_a_worker_says_nothing(place: Workplace, store: SqliteStore):
    PlayedWorker(store)

    assert "" == place.duly(*REMIND, *BRIEFLY).err


def test_the_result_of_what_was_waited_for_is_printed(place: Workplace, store: SqliteStore):
    worker = PlayedWorker(store)
    run = str(worker.queue())
    worker.succeed(worker.take(), '{"sent":12}')
    answer = place.duly("run", "wait", run)

    assert answer.out.endswith('result\n  {\n    "sent": 12\n  }\n'), answer.out


def test_a_run_that_succeeded_is_explained_as_such(place: Workplace, store: SqliteStore):
    worker = PlayedWorker(store)
    run = str(worker.queue())
    worker.succeed(worker.take())

    assert place.duly("run", "why", run).out.startswith("It succeeded. It was on time: queued ")


def test_with_notes_not_all_is_well(place: Workplace, store: SqliteStore):
    PlayedWorker(store).dead()
    answer = place.duly("status")

    assert (0, False) == (answer.status, "All is well" in answer.out)
    assert answer.out.endswith("Dispatch and work go on; the note above should be looked at.\n")


def test_a_variable_that_is_not_used_is_warned_of_without_its_password(place: Workplace):
    (place.folder / "own.py").write_text(OWN)
    other = "postgresql://me:secret@host/shop"
    warned = place.duly("db", "migrate", "--app", "own:app", DULY_URL=other)
    same = f"sqlite:///{place.folder / 'own.db'}"
    silent = place.duly("status", "--app", "own:app", DULY_URL=same)
    unknown = place.duly("status", "--app", "own:app", DULY_URL="me:secret")

    assert (0, 1, False) == (warned.status, warned.err.count("\n"), "secret" in warned.err)
    assert warned.err.startswith(
        "warning: $DULY_URL names postgresql://host/shop, but own:app names sqlite:///own.db itself"
    )
    assert (0, "") == (silent.status, silent.err)
    assert (0, False) == (unknown.status, "secret" in unknown.err)


def test_another_url_than_the_application_names_is_refused_with_a_remedy(place: Workplace):
    (place.folder / "own.py").write_text(OWN)
    answer = place.duly("status", "--app", "own:app", "--url", "sqlite:///promises.db")

    assert (2, True) == (
        answer.status,
        "make the application with duly.App() and no URL" in answer.err,
    )


def test_a_short_beginning_that_several_have_is_ambiguous(place: Workplace):
    place.python("import tasks\nfor _ in range(4): tasks.app.enqueue(tasks.nightly_report.bind())")
    runs = [one["id"] for one in place.duly("run", "list", "--json").json]
    answer = place.duly("run", "show", runs[0][:4])
    told = place.duly("run", "why", runs[0][:4]).err

    assert (2, 3) == (answer.status, sum(run in answer.err for run in runs)), answer.err
    assert f"run: '{runs[0][:4]}' is ambiguous: it begins {runs[0]}, " in answer.err
    assert answer.err == told


def test_a_short_beginning_that_one_has_is_asked_about(place: Workplace):
    run = place.duly(*REMIND, "--json").json["id"]
    answer = place.duly("run", "show", run[:4])

    assert (3, True) == (answer.status, answer.err.endswith(f"; did you mean {run}? [not-found]\n"))


def test_orders_about_many_need_an_answer_or_yes(place: Workplace, store: SqliteStore):
    run = str(PlayedWorker(store).dead())
    answer = place.duly("run", "discard", run, "--reason", "obsolete")
    said = "error: --yes: 1 run would be touched, and nobody can be asked here; give it to go on"

    assert (2, True) == (answer.status, answer.err.startswith(said)), answer.err


def test_a_number_where_text_is_wanted_shows_how_to_quote_it(place: Workplace):
    answer = place.duly(*REMIND, "-a", "note=5")
    wrong = place.duly("enqueue", "send_reminder", "-a", "class_id=true")

    assert (2, True) == (answer.status, """-a note='"5"'""" in answer.err), answer.err
    assert (2, True) == (wrong.status, wrong.err.endswith("give int [invalid-value]\n")), wrong.err


@pytest.mark.parametrize(
    ("option", "value"),
    [("--in", "soon"), ("--in", "99y"), ("--at", "soon"), ("--at", "2020-01-01")],
)
def test_what_is_wrong_is_named_as_it_was_typed(place: Workplace, option: str, value: str):
    answer = place.duly(*REMIND, option, value)

    assert (2, True) == (answer.status, answer.err.startswith(f"error: {option}: '{value}")), answer


def test_a_limit_that_is_no_duration_is_named_as_it_was_typed(place: Workplace):
    answer = place.duly(*REMIND, "--wait", "--timeout", "soon")

    assert (2, True) == (answer.status, answer.err.startswith("error: --timeout: 'soon' is not"))


def test_pausing_a_queue_that_nobody_has_used_is_noted(place: Workplace, store: SqliteStore):
    PlayedWorker(store).queue()
    unused = place.duly("queue", "pause", "nosuchqueue", "--reason", "r")
    used = place.duly("queue", "pause", "mail", "--reason", "r")

    assert "note: nothing was ever queued under the name nosuchqueue" in unused.out
    assert "note: " not in used.out


def test_a_queue_is_drained_without_a_reason(place: Workplace):
    answer = place.duly("queue", "drain", "mail")
    held = place.duly("queue", "list", "--json").json

    assert (0, ["drained"]) == (answer.status, [one["reason"] for one in held]), answer.err


@pytest.mark.parametrize(
    ("schedule", "end"), [("", "is dead"), ("nightly", "is dead, and schedule nightly is paused")]
)
def test_a_missing_task_is_told_with_the_schedule_if_there_is_one(schedule: str, end: str):
    event = telemetry.TaskMissing(member=1, task="report", run_id="r1", schedule=schedule)

    assert f"nobody knows the task report: its run r1 {end}" == sentence(event)


@pytest.mark.parametrize(
    ("cause", "words"), [("worker", "is gone"), ("overdue", "did not end it in time")]
)
def test_a_lost_attempt_is_told_with_why_it_was_taken(cause: str, words: str):
    event = telemetry.AttemptLost(
        member=1, task="counter", run_id="r1", attempt_id="r1/1", worker=5, cause=cause
    )

    assert f"counter was taken from worker 5, which {words}: r1/1" == sentence(event)


def test_a_worker_that_stops_counts_in_words():
    assert "nothing runs" == _awaited(0)
    assert "waiting for 1 run; a second signal gives it back at once" == _awaited(1)
    assert "waiting for 2 runs; a second signal gives them back at once" == _awaited(2)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("schedule", "delete", "x"), "--reason is missing; say why, in a few words"),
        (
            ("schedule", "delete", "x", "--reason"),
            "--reason needs a value; say why, in a few words",
        ),
        (("schedule", "show"), "NAME is missing: the schedule's name or id, or a beginning that"),
        (("schedule", "create", "x"), "--task is missing: the task to run: one of --app, or one"),
        (("run", "list", "--limit"), "--limit needs a value: how many to show at the most; see"),
        (
            ("run", "list", "--limt", "5"),
            "unknown option --limt; did you mean --limit? See duly run",
        ),
        (("export", "--out", "x"), "FILE is given without an option, as in duly export FILE; see"),
        (("enqueue", "nightly_report", "--in", "-5m"), "--in: '-5m' is negative; give a duration"),
        (("status", "--interval", "-1s"), "interval: '-1s' is too short; give 100ms or more"),
        (("schedule", "delete", "x", "--raeson", "y"), "Did you mean --reason"),
        (("status", "--server", "http://h"), "--url https://host:8420, with $DULY_TOKEN"),
        (("status", "--token", "t"), "a token is taken from $DULY_TOKEN"),
    ],
)
def test_what_is_left_out_or_called_otherwise_is_named_with_what_to_type(
    place: Workplace, words, said
):
    refused = place.duly(*words)

    assert (2, True) == (refused.status, said in refused.err), refused.err


def test_who_gives_a_schedule_or_a_task_in_place_of_a_run_is_told_where_its_runs_are(
    place: Workplace,
):
    rule = ("--task", "nightly_report", "--when", "every day at 2")
    place.duly("schedule", "create", "nightly", *rule)
    place.duly("enqueue", "send_reminder", "-a", "class_id=1")
    schedule, task = place.duly("run", "show", "nightly"), place.duly("run", "why", "send_reminder")

    assert (3, 3) == (schedule.status, task.status)
    assert "it is a schedule, whose runs are in duly run list --schedule nightly" in schedule.err
    assert "it is a task, whose runs are in duly run list --task send_reminder" in task.err


def test_an_undo_of_a_resume_pauses_until_the_same_time(place: Workplace):
    rule = ("--task", "nightly_report", "--when", "every day at 2")
    place.duly("schedule", "create", "nightly", *rule)
    place.duly("schedule", "pause", "nightly", "--reason", "r", "--until", "2099-09-01T09:00")
    resumed = place.duly("schedule", "resume", "nightly", "--json").json
    skipped = place.duly("schedule", "skip", "nightly", "--json").json

    assert resumed["undo"].endswith("--reason r --until 2099-09-01T09:00:00Z")
    assert skipped["undo"].startswith("none; one that stands for now is made by duly schedule trig")
