"""`duly exec NAME -- CMD`: any command becomes a recorded run."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.waiting import LIMIT_S, read_line, wait_until

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

    from tests.cli.duly_command import Workplace

ASK = 'echo ready; read line; echo "got $line"'


def runs(place: Workplace, *more: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = place.duly("run", "list", "--json", *more).json
    return found


@pytest.fixture
def typed(place: Workplace) -> Iterator[subprocess.Popen[str]]:
    """A command that has begun, and waits for a signal or for a line of input."""
    words = ("exec", "asking", "--alone", "--", "sh", "-c", ASK)
    process = place.start(*words, has_input=True)
    assert "ready\n" == read_line(process)
    yield process
    process.kill()
    process.communicate()


def test_what_a_command_writes_is_shown_and_kept_and_its_status_passed_on(place: Workplace):
    """Command line, output, times and end are the run's own record."""
    program = "import sys; print('{a}'); print('oh', file=sys.stderr); sys.exit(3)"
    answer = place.duly("exec", "night", "--", sys.executable, "-c", program, "--json")
    (run,) = runs(place)
    lines = place.duly("run", "logs", "night", "--json").out

    assert (3, "{a}\n", "oh\n") == (answer.status, answer.out, answer.err)
    assert ("failed", "exec:night", "night", 1) == (
        run["state"],
        run["task"],
        run["key"],
        run["attempt"],
    )
    assert "print(" in run["arguments"]["command"]
    assert ('"{a}"' in lines, '"oh"' in lines) == (True, True)


def test_a_command_that_ends_well_succeeds_and_says_nothing_more(place: Workplace):
    answer = place.duly("exec", "quiet", "--", "true")
    (run,) = runs(place)

    assert (0, "", "") == (answer.status, answer.out, answer.err)
    assert "succeeded" == run["state"]


def test_a_program_that_is_not_there_is_recorded_too(place: Workplace):
    """One clear error; and whoever looks for last night's run finds out why there was none."""
    answer = place.duly("exec", "gone", "--", "no-such-program-here")
    (run,) = runs(place)

    assert 127 == answer.status
    assert "there is no program 'no-such-program-here'" in answer.err
    assert "failed" == run["state"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("exec", "x"), "give it after two hyphens"),
        (("exec", "a@b", "--", "true"), "can't be the name of a task"),
        (("exec", "x", "--effects", "maybe", "--", "true"), "is not a class of effects"),
        (("exec", "x", "--timeout", "soon", "--", "true"), "timeout"),
    ],
)
def test_a_bad_order_runs_nothing(place: Workplace, words, said):
    """Nothing is half done."""
    answer = place.duly(*words)

    assert (2, True, []) == (answer.status, said in answer.err, runs(place)), answer.err


def test_what_is_typed_goes_to_the_command(typed: subprocess.Popen[str], place: Workplace):
    """A recorded run is still the person's own: folder, variables, input."""
    out, _ = typed.communicate("hello\n", timeout=LIMIT_S)

    assert (0, "got hello\n") == (typed.returncode, out)
    assert ["succeeded"] == [one["state"] for one in runs(place)]


def test_a_signal_is_passed_on_and_recorded(typed: subprocess.Popen[str], place: Workplace):
    """What was stopped at the terminal says so."""
    typed.send_signal(signal.SIGTERM)
    typed.wait(LIMIT_S)

    assert 128 + signal.SIGTERM == typed.returncode
    assert [("failed", "cancelled")] == [(one["state"], one["reason"]) for one in runs(place)]


def test_while_it_runs_it_is_a_worker_of_one_and_its_command_dies_with_it(
    typed: subprocess.Popen[str], place: Workplace
):
    """If `duly exec` is killed, nothing claims that it went well."""
    (run,) = runs(place, "--state", "running")
    (worker,) = place.duly("status", "--json").json["members"]
    os.kill(typed.pid, signal.SIGKILL)
    typed.communicate(timeout=LIMIT_S)  # returns when nobody holds its pipes any more
    (after,) = runs(place)

    assert ("worker", 1) == (worker["kind"], worker["slots"])
    assert ("running", run["id"]) == (after["state"], after["id"])


def test_an_unsafe_command_that_fails_is_in_doubt(place: Workplace):
    """Nobody knows what it did before it failed."""
    answer = place.duly("exec", "pay", "--effects", "unsafe", "--", "false")
    (found,) = place.duly("inbox", "--json").json
    (run,) = runs(place)

    assert (1, "ambiguous", run["id"]) == (answer.status, run["state"], found["run"]["id"])


def test_an_operator_can_cancel_it_from_elsewhere(typed: subprocess.Popen[str], place: Workplace):
    """It is a run like any other."""
    place.duly("run", "cancel", "asking", "--reason", "it is in the way")
    typed.wait(LIMIT_S)

    assert 128 + signal.SIGTERM == typed.returncode
    assert ["cancelled"] == [one["state"] for one in runs(place)]


def test_two_of_one_name_run_after_each_other_if_told_so(
    typed: subprocess.Popen[str], place: Workplace
):
    """The second waits for as long as the first takes."""
    second = place.start("exec", "asking", "--alone", "--", "echo", "after")
    wait_until("the second run is made", lambda: len(runs(place)) == 2)
    typed.communicate("go on\n", timeout=LIMIT_S)
    out, _ = second.communicate(timeout=LIMIT_S)
    newest, oldest = runs(place)

    assert (0, "after\n") == (second.returncode, out)
    assert oldest["finished_at"] <= newest["started_at"]
