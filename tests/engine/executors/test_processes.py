"""Each attempt in a process of its own: whatever happens there is settled."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from duly.app.task_process import load_catalogue
from duly.clock import SystemClock
from duly.domain.enums import AttemptState, Origin
from duly.domain.ids import identity_text
from duly.domain.outcomes import (
    AttemptFacts,
    CancelledEnd,
    Failed,
    GaveUp,
    RetryLater,
    Snoozed,
    Succeeded,
    conclude,
)
from duly.domain.runs import ERROR_LENGTH_MAX, LINE_LENGTH_MAX, Progress, Reason, TaskPolicy
from duly.engine.executors.process_child import (
    ChildRunContext,
    claimed_from_json,
    claimed_to_json,
    end_from_json,
    end_to_json,
    read_word,
    written,
)
from duly.engine.executors.process_executor import (
    UNLOADABLE_AFTER_US,
    ProcessExecutor,
    ProcessSettings,
)
from tests.engine.executors.attempt import LIMIT_SECONDS, Attempt, LookedAt, claimed_run
from tests.forked_commands import bound, is_running
from tests.waiting import comes_true, read_line

if TYPE_CHECKING:
    from collections.abc import Iterator

PLACE = f"{Path(__file__).with_name('process_tasks.py')}:app"
ARGV = (sys.executable, "-m", "duly.app.task_process")


@pytest.fixture
def executor() -> Iterator[ProcessExecutor]:
    made = ProcessExecutor(SystemClock(), ProcessSettings(argv=ARGV, app=PLACE))
    yield made
    made.close()


@pytest.fixture(scope="module")
def catalogue() -> Any:
    return load_catalogue(PLACE)


@pytest.fixture
def begin(executor: ProcessExecutor, catalogue: Any) -> Any:
    def make(task: str, arguments: str = "{}", **parts: Any) -> Attempt:
        attempt = Attempt(catalogue.find(task), claimed_run(task, arguments, **parts))
        executor.start(attempt)
        return attempt

    return make


def advanced(attempt: Attempt) -> int:
    assert attempt.live.advanced.wait(LIMIT_SECONDS), f"no progress; {attempt.ends}"
    return int(attempt.live.progress[0].done)


def test_a_function_ends_with_what_it_returns(begin):
    attempt = begin("add", '{"one": 1, "two": 2}')

    assert Succeeded("3") == attempt.wait_end()
    assert attempt.begun.is_set()


def test_arguments_that_do_not_fit_end_it_before_it_begins(begin):
    attempt = begin("add", '{"one": "x", "two": 2}')
    end = attempt.wait_end()

    assert isinstance(end, Failed)
    assert (Reason.BAD_ARGUMENTS, False) == (end.reason, end.is_retryable)
    assert not attempt.begun.is_set()


def test_it_knows_its_run_and_its_idempotency_key(begin):
    """The id of its line's first run goes along; the process leads a group of its own."""
    root = claimed_run("root").record.id
    attempt = begin("who", root=root, origin=Origin.REPAIR)
    claimed = attempt.claimed
    expected = [identity_text(claimed.record.id), 2, 7, True]
    end = attempt.wait_end()
    assert isinstance(end, Succeeded)
    assert end.result is not None
    *facts, variables = read_word(f'{{"it": {end.result}}}')["it"]

    assert expected == facts
    assert identity_text(root) == variables["DULY_IDEMPOTENCY_KEY"]
    assert identity_text(claimed.record.id) == variables["DULY_RUN_ID"]
    assert ("2", "7", "who") == (
        variables["DULY_ATTEMPT"],
        variables["DULY_FENCE"],
        variables["DULY_TASK"],
    )


def test_what_it_says_reaches_the_worker(begin):
    """Lines, progress and checkpoints go through the worker, which has the store."""
    attempt = begin("talk")
    end = attempt.wait_end()

    assert Succeeded('[null,{"page":7}]') == end
    assert [Progress(3, 4, "nearly")] == attempt.live.progress
    assert {"": '{"page":7}'} == attempt.live.states
    assert ["logged 1"] == attempt.live.texts("warning")
    assert ["printed"] == attempt.live.texts("stdout")
    assert ["complained"] == attempt.live.texts("stderr")


@pytest.mark.parametrize("before", [3_950, 3_975, 3_990, 3_999])
def test_a_secret_is_hidden_over_there_before_anything_is_cut(begin, monkeypatch, before: int):
    """Neither a line nor an error ends in half of it."""
    monkeypatch.setenv("DULY_SECRET_TOKEN", "hunter2-is-secret")
    arguments = {"token": {"secret": "env:DULY_SECRET_TOKEN"}, "before": before}
    attempt = begin("babble", json.dumps(arguments))
    end = attempt.wait_end()
    said = [*attempt.live.texts("warning"), end.error]

    assert [] == [text for text in said if "hu" in text]
    assert {True} == {len(text) <= ERROR_LENGTH_MAX for text in said}


def test_a_process_waits_until_its_worker_knows_what_to_mask():
    """What it prints takes another way than its words, and may arrive before them."""
    read_from, write_to = os.pipe()
    live = ChildRunContext(write_to)
    waiting = threading.Thread(target=live.conceal, args=("hunter2-is-secret",), daemon=True)
    waiting.start()
    word = read_word(os.read(read_from, 1 << 16).decode())
    is_waiting = waiting.is_alive()
    live.take({"answer": word["id"], "value": None})
    waiting.join(LIMIT_SECONDS)
    os.close(read_from)
    os.close(write_to)

    assert ("conceal", "hunter2-is-secret") == (word["say"], word["text"])
    assert (True, False) == (is_waiting, waiting.is_alive())


def test_a_task_over_there_asks_before_its_effects_and_what_remains(executor, catalogue):
    """The worker asks the store, and answers."""
    attempt = Attempt(catalogue.find("settles"), claimed_run("settles"))
    attempt.live.done.append("a")
    executor.start(attempt)

    assert Succeeded("[]") == attempt.wait_end()
    assert {"b": '"B"'} == attempt.live.effects
    assert ["a", "b"] == attempt.live.done


def test_a_checkpoint_that_is_refused_is_refused_over_there(begin, executor, catalogue):
    attempt = Attempt(catalogue.find("talk"), claimed_run("talk"))
    attempt.live.is_lost = True
    executor.start(attempt)
    end = attempt.wait_end()

    assert isinstance(end, Failed)
    assert "LeaseLost: test: the run was taken from this worker; stop" in end.error


@pytest.mark.parametrize(
    ("task", "reason", "said"),
    [
        ("fail", Reason.ERROR, "ValueError: as it must"),
        ("leave", Reason.ERROR, "SystemExit: 3"),
        ("leave_at_once", Reason.EXIT_STATUS, "exit status 4"),
        ("abort", Reason.KILLED, "ended by SIGABRT"),
        ("segfault", Reason.KILLED, "ended by SIGSEGV"),
        ("eat_memory", Reason.ERROR, "MemoryError"),
    ],
)
def test_whatever_ends_it_is_told(begin, task: str, reason: Reason, said: str):
    """A crash ends its own process, and the attempt says how."""
    end = begin(task).wait_end()

    assert isinstance(end, Failed)
    assert (reason, True) == (end.reason, end.is_retryable)
    assert said in end.error


def test_a_crash_says_where_it_happened(begin):
    end = begin("abort").wait_end()

    assert "process_tasks.py" in end.error


def test_asking_makes_the_run_cancelled_over_there(begin, executor):
    attempt = begin("patient")
    advanced(attempt)
    executor.ask(attempt)

    assert Succeeded('"stopped"') == attempt.wait_end()


def test_asking_cancels_a_coroutine_over_there(begin, executor):
    attempt = begin("asynchronous")
    advanced(attempt)
    executor.ask(attempt)

    assert isinstance(attempt.wait_end(), CancelledEnd)


@pytest.mark.parametrize("task", ["stubborn", "endless_in_c"])
def test_insisting_kills_what_goes_on(begin, executor, task: str):
    """Also a loop in C, which no signal handler of Python interrupts."""
    attempt = begin(task)
    advanced(attempt)
    executor.ask(attempt)

    assert executor.insist(attempt) is True
    assert CancelledEnd() == attempt.wait_end()


def test_insisting_kills_the_whole_family(begin, executor):
    attempt = begin("stubborn")
    grandchild = advanced(attempt)
    executor.insist(attempt)
    attempt.wait_end()

    assert comes_true(lambda: not is_running(grandchild))


def test_one_that_is_stopped_before_it_has_started_ends_too(begin, executor):
    attempt = begin("patient")
    executor.insist(attempt)

    assert CancelledEnd() == attempt.wait_end()


def test_a_process_that_lingers_after_its_end_is_ended(begin, executor):
    """Its word counts at once; what keeps it alive afterwards holds a slot, but not for long."""
    attempt = begin("lingering")
    end = attempt.wait_end()
    was_gone = attempt.gone.is_set()
    attempt.wait_gone()

    assert (Succeeded('"done"'), False) == (end, was_gone)


def test_a_line_that_is_too_long_is_cut_and_no_fault(begin):
    """The same line in a thread is cut, too."""
    attempt = begin("long_winded")

    assert Succeeded('"done"') == attempt.wait_end()
    assert [f"{'é' * (LINE_LENGTH_MAX - 1)}…"] == attempt.live.texts("warning")


def test_processes_that_a_task_forks_end_by_a_signal(begin):
    """Leaving a pool sends SIGTERM, which means to them what it means to any process."""
    assert Succeeded('"done"') == begin("forking").wait_end()


def test_a_process_that_is_terminated_as_it_is_forked_ends(begin):
    """Before it has done anything, SIGTERM means to it what it means to any process."""
    assert Succeeded("[-15]") == begin("terminating_forks").wait_end()


def test_only_the_task_itself_is_heard_and_not_what_it_forks(begin):
    attempt = begin("speaking_in_a_fork")
    end = attempt.wait_end()

    assert ["own"] == attempt.live.texts("info")
    assert isinstance(end, Succeeded)
    assert "forked has no way to the worker" in str(end.result)


def test_a_coroutine_that_was_cancelled_over_there_has_seen_that_it_should_stop(
    executor, catalogue
):
    """What it returns afterwards is not its own word."""
    task = "cancelled_and_returning"
    attempt = Attempt(catalogue.find(task), claimed_run(task), live=LookedAt())
    executor.start(attempt)
    advanced(attempt)
    executor.ask(attempt)

    assert Succeeded('"tidied up"') == attempt.wait_end()
    assert attempt.live.looks > 0


def test_one_that_says_what_is_nested_without_end_is_killed(begin):
    """Whatever it says, its slot is free again."""
    attempt = begin("nested")
    end = attempt.wait_end()

    assert isinstance(end, Failed)
    assert "no word" in end.error
    attempt.wait_gone()


def test_somebody_left_behind_with_our_output_holds_nobody_up(begin):
    attempt = begin("daemonised")
    end = attempt.wait_end()
    with suppress(ProcessLookupError):
        os.kill(advanced(attempt), signal.SIGKILL)

    assert Succeeded('"done"') == end


def test_closing_leaves_no_process_behind(begin, executor):
    attempt = begin("stubborn")
    grandchild = advanced(attempt)
    executor.close()

    assert attempt.over.is_set()
    assert comes_true(lambda: not is_running(grandchild))


OTHER_PLACE = f"{Path(__file__).parents[2] / 'system' / 'worker_tasks.py'}:app"


@pytest.mark.parametrize("place", ["no_such:app", OTHER_PLACE], ids=["no program", "no such task"])
def test_a_run_whose_code_can_t_be_imported_is_put_off_and_charged_nothing(catalogue, place: str):
    """As while a deployment goes on. It is put off longer each time; the error is on record."""
    executor = ProcessExecutor(SystemClock(), ProcessSettings(argv=ARGV, app=place))
    attempt = Attempt(catalogue.find("add"), claimed_run("add"))
    executor.start(attempt)
    end = attempt.wait_end()
    executor.close()
    facts = AttemptFacts(
        run_id=attempt.claimed.run_id, policy=TaskPolicy(), tries=attempt.claimed.tries, now=6
    )
    concluded = conclude(end, facts)

    assert not attempt.begun.is_set()
    assert (AttemptState.GIVEN_BACK, False) == (concluded.attempt_state, concluded.is_charged)
    assert RetryLater(UNLOADABLE_AFTER_US << 5) == concluded.next
    assert ("no_such" if place == "no_such:app" else "has no task 'add'") in str(concluded.error)


def test_a_program_that_can_t_be_started_fails_the_attempt(catalogue):
    settings = ProcessSettings(argv=("/no/such/python",), app=PLACE)
    executor = ProcessExecutor(SystemClock(), settings)
    attempt = Attempt(catalogue.find("add"), claimed_run("add"))
    executor.start(attempt)
    end = attempt.wait_end()

    assert isinstance(end, Failed)
    assert "can't be started" in end.error


WORKER = """
import sys, threading
sys.path.insert(0, {root!r})
from tests.engine.executors.test_processes import ARGV, PLACE
from duly.app.task_process import load_catalogue
from duly.clock import SystemClock
from duly.engine.executors.process_executor import ProcessExecutor, ProcessSettings
from tests.engine.executors.attempt import Attempt, claimed_run
executor = ProcessExecutor(SystemClock(), ProcessSettings(argv=ARGV, app=PLACE))
attempt = Attempt(load_catalogue(PLACE).find({task!r}), claimed_run({task!r}))
executor.start(attempt)
attempt.live.advanced.wait()
print(executor._begun[id(attempt)].attempt._child.process, flush=True)
print(attempt.live.progress[0].done, flush=True)
threading.Event().wait()
"""


@pytest.mark.parametrize("task", ["patient", "endless_in_c", "stubborn"])
def test_no_process_outlives_its_worker(task: str):
    """A worker that is killed takes its tasks' processes along, and what they have started."""
    root = str(Path(__file__).resolve().parents[3])
    program = WORKER.format(root=root, task=task)
    argv = bound(sys.executable, "-c", program)
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as worker:
        child, done = int(read_line(worker)), int(read_line(worker))
        family = [child, done] if task == "stubborn" else [child]
        were_there = all(is_running(one) for one in family)
        worker.kill()

    assert were_there
    assert comes_true(lambda: not any(is_running(one) for one in family))


@pytest.mark.parametrize(
    "end",
    [
        Succeeded("[1]"),
        Failed("no", Reason.RETRY_AFTER, after_us=5),
        GaveUp(Reason.GAVE_UP, "why"),
        Snoozed(7),
        CancelledEnd("so"),
    ],
)
def test_ends_travel_between_processes(end):
    assert end == end_from_json(read_word(written(end_to_json(end)).decode()))


def test_claimed_runs_travel_between_processes():
    claimed = claimed_run("add", '{"one": 1}', schedule_id=claimed_run("x").record.id)

    assert claimed == claimed_from_json(read_word(written(claimed_to_json(claimed)).decode()))


@pytest.mark.parametrize(
    "said",
    [
        {"kind": "os.system"},
        {"kind": "Failed", "error": 3},
        {"kind": "Failed", "error": None},
        {"kind": "Failed", "error": "so", "is_retryable": 1},
        {"kind": "Snoozed"},
        {"kind": "Snoozed", "after_us": -1},
        {"kind": "Snoozed", "after_us": 10**30},
        {"kind": "Snoozed", "after_us": True},
        {"kind": "LostEnd"},
        {"kind": "GivenBack", "reason": "shutdown", "is_started": False},
    ],
)
def test_what_is_no_end_is_refused(said: dict[str, Any]):
    """A process that its task has taken over can say anything."""
    with pytest.raises((KeyError, TypeError, ValueError)):
        end_from_json(said)


def test_many_at_a_time_do_not_mix_up_what_they_say(begin):
    attempts = [begin("add", f'{{"one": {number}, "two": 0}}') for number in range(4)]

    assert [Succeeded(str(number)) for number in range(4)] == [one.wait_end() for one in attempts]
    assert threading.active_count() < 50
