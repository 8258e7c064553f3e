"""Ends: from what a task's code returned or raised to how its attempt ended."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest

from duly.domain.outcomes import (
    CancelledEnd,
    Failed,
    GaveUp,
    Snoozed,
    Succeeded,
    TimedOut,
    give_up,
    retry,
    snooze,
)
from duly.domain.policies import Retry
from duly.domain.runs import ERROR_LENGTH_MAX, RESULT_BYTES_MAX, Reason, TaskPolicy
from duly.engine.executors import results
from duly.engine.executors.results import bounded, error_text, storable
from duly.engine.executors.task_output import Redactor
from duly.errors import (
    Cancelled,
    EffectDone,
    EffectNotDone,
    EffectUnknown,
    NoSecret,
    UsageError,
)
from tests.engine.rig import SECOND

POLICY = TaskPolicy()
end_of_error: Any = results.end_of_error
end_of_value: Any = results.end_of_value
fitted: Any = results.fitted
unfit: Any = results.unfit
unprepared: Any = results.unprepared


class Log:
    """What a live run is to an end: a log, and whether it should stop."""

    def __init__(self, *, is_cancelled: bool = False) -> None:
        self.is_cancelled = is_cancelled
        self.lines: list[str] = []

    def write(self, level: str, text: str) -> None:
        self.lines.append(f"{level}: {text}")

    def hide(self, text: str) -> str:
        return text.replace("hunter2", "***")


def raised(error):
    with pytest.raises(type(error)) as caught:
        raise error
    return caught.value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        (0, "0"),
        ("ü", '"ü"'),
        ({"b": 1, "a": [1.5, None]}, '{"a":[1.5,null],"b":1}'),
        ((1, 2), "[1,2]"),
        ("half \ud800", '"half ?"'),
    ],
)
def test_what_a_task_returns_is_kept_as_json(value, text):
    """Canonical, so that equal results are equal texts."""
    assert Succeeded(text) == end_of_value(value, Log())


@pytest.mark.parametrize("value", [object(), float("nan"), {1: 2, "a": 3}, [b"bytes"]])
def test_a_result_that_is_not_json_is_left_out_with_a_line_in_the_log(value):
    """The attempt has succeeded all the same."""
    log = Log()

    assert Succeeded(None) == end_of_value(value, log)
    assert log.lines[0].startswith("warning: the result is not kept: it is not JSON")


def test_a_result_that_is_too_large_is_left_out_with_a_line_in_the_log():
    """A limit on everything."""
    log = Log()
    largest = "x" * (RESULT_BYTES_MAX - 2)

    assert Succeeded(json.dumps(largest)) == end_of_value(largest, log)
    assert Succeeded(None) == end_of_value(largest + "x", log)
    assert [
        "warning: the result is not kept: it has 65,537 bytes, and at most 65,536 are kept"
    ] == (log.lines)


def test_a_result_without_end_is_left_out():
    """Whatever a task returns, the worker goes on."""
    endless: list[object] = []
    endless.append(endless)
    deep: object = 1
    for _ in range(100_000):
        deep = [deep]

    assert Succeeded(None) == end_of_value(endless, Log())
    assert Succeeded(None) == end_of_value(deep, Log())


def test_a_task_may_answer_that_it_is_not_done():
    """Answers are values."""
    assert Snoozed(600 * SECOND) == end_of_value(snooze("10m"), Log())
    asked = Failed("busy", Reason.ASKED, after_us=5 * SECOND, is_undone=True)
    assert asked == end_of_value(retry("5s", "busy"), Log())
    assert Failed("asked for", Reason.ASKED, is_undone=True) == end_of_value(retry(), Log())
    assert GaveUp(Reason.GAVE_UP, "no such class") == end_of_value(give_up("no such class"), Log())


@pytest.mark.parametrize("given", ["0s", "1ms", "999ms", timedelta(0)])
def test_nobody_is_run_again_at_once(given):
    """At no cost, that would be a circle at full speed, and a row of history each time."""
    assert Snoozed(SECOND) == end_of_value(snooze(given), Log())
    assert SECOND == end_of_value(retry(given, "busy"), Log()).after_us


def test_whoever_says_it_nobody_is_run_again_at_once_or_never():
    """A child process may say anything."""
    assert Snoozed(SECOND) == fitted(Snoozed(-5))
    assert Snoozed(366 * 86_400 * SECOND) == fitted(Snoozed(10**30))
    assert Failed("no", after_us=SECOND) == fitted(Failed("no", after_us=0))
    assert Failed("no") == fitted(Failed("no"))


def test_an_exception_is_a_failure_with_its_traceback():
    """Where it was raised can be read afterwards."""
    end = end_of_error(raised(ValueError("no luck")), POLICY, Log())

    assert isinstance(end, Failed)
    assert (Reason.ERROR, True, None) == (end.reason, end.is_retryable, end.after_us)
    assert end.error.startswith("Traceback")
    assert end.error.endswith("ValueError: no luck")
    assert __file__ in end.error


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_whatever_a_task_raises_is_its_own_failure(error):
    """Sys.exit in a task never ends the worker."""
    end = end_of_error(raised(error), POLICY, Log())

    assert isinstance(end, Failed)
    assert type(error).__name__ in end.error


def test_errors_that_are_not_worth_another_try_are_not_retried():
    """Retry on chosen errors only, subclasses included."""
    policy = TaskPolicy(retry=Retry(on=(ConnectionError,)))

    assert end_of_error(raised(ConnectionResetError()), policy, Log()).is_retryable
    end = end_of_error(raised(ValueError()), policy, Log())
    assert (Reason.NOT_RETRYABLE, False) == (end.reason, end.is_retryable)


@pytest.mark.parametrize(
    ("after", "after_us"),
    [
        (30, 30 * SECOND),
        ("1.5", 1_500_000),
        (timedelta(minutes=1), 60 * SECOND),
        (0, SECOND),
        (0.2, SECOND),
        (1e300, 366 * 86_400 * SECOND),
        (-1, None),
        ("soon", None),
        (None, None),
        (float("inf"), None),
    ],
)
def test_an_exception_may_say_when_to_try_again(after, after_us):
    """Retry-After is honoured, in seconds."""
    error = raised(RuntimeError("busy"))
    error.retry_after = after
    end = end_of_error(error, POLICY, Log())

    assert after_us == end.after_us
    assert (Reason.ERROR if after_us is None else Reason.RETRY_AFTER) == end.reason


def test_a_group_of_exceptions_asks_for_the_longest_wait_that_one_of_them_asks_for():
    """Asyncio.TaskGroup raises what several tasks raised."""
    first, second = RuntimeError("busy"), RuntimeError("busy")
    first.retry_after, second.retry_after = 30, 90  # type: ignore[attr-defined]
    group = ExceptionGroup("two", [first, ExceptionGroup("one", [second]), ValueError("other")])

    assert 90 * SECOND == end_of_error(raised(group), POLICY, Log()).after_us


DONE = EffectDone("mail", "was done before", "go on without it")
UNKNOWN = EffectUnknown("mail", "may have been done", "find out")
UNDONE = EffectNotDone("refused")


@pytest.mark.parametrize(
    ("error", "reason", "is_retryable", "is_undone"),
    [
        (DONE, Reason.EFFECT_DONE, False, False),
        (UNKNOWN, Reason.EFFECT_UNKNOWN, False, False),
        (UNDONE, Reason.ERROR, True, True),
        (ExceptionGroup("", [OSError(), DONE]), Reason.EFFECT_DONE, False, False),
        (ExceptionGroup("", [DONE, UNKNOWN]), Reason.EFFECT_UNKNOWN, False, False),
        (ExceptionGroup("", [UNDONE, UNDONE]), Reason.ERROR, True, True),
        (ExceptionGroup("", [UNDONE, OSError()]), Reason.ERROR, True, False),
    ],
)
def test_what_is_said_of_effects_counts_alone_and_in_a_group(
    error, reason, is_retryable, is_undone
):
    """What is done or unknown does not get better; nothing has happened if all say so."""
    end = end_of_error(raised(error), POLICY, Log())

    assert (reason, is_retryable, is_undone) == (end.reason, end.is_retryable, end.is_undone)


@pytest.mark.parametrize("kind", [asyncio.CancelledError, lambda: Cancelled("stop")])
def test_being_cancelled_is_an_end_of_its_own_only_if_somebody_asked(kind):
    """Otherwise the code has raised it by itself."""
    assert isinstance(end_of_error(raised(kind()), POLICY, Log(is_cancelled=True)), CancelledEnd)
    assert isinstance(end_of_error(raised(kind()), POLICY, Log()), Failed)


def test_arguments_that_do_not_fit_are_no_use_to_try_again():
    """They were checked when bound, and are again when run."""
    end = unfit(UsageError("class_id", "x", "is not a number", "give an int"))

    assert (Reason.BAD_ARGUMENTS, False) == (end.reason, end.is_retryable)
    assert end.error.startswith("UsageError: class_id: 'x' is not a number")


@pytest.mark.parametrize("on", [None, ("ConnectionError",)])
def test_a_secret_that_is_missing_here_is_tried_again_whatever_the_task_says_about_errors(on):
    """Another worker may have it, and the arguments are as they should be."""
    missing = NoSecret("charge(token)", "env:TOKEN", "is not set on this worker", "set it")
    end = unprepared(missing, TaskPolicy(retry=Retry(on=on)), Log())

    assert Failed(str(missing), Reason.NO_SECRET) == end


def test_what_prepares_a_run_may_raise_what_it_likes():
    """Only arguments that do not fit are buried at once."""
    unusable = unprepared(UsageError("class_id", "x", "is not a number", "give"), POLICY, Log())
    other = unprepared(raised(OSError("busy")), POLICY, Log())

    assert (Reason.BAD_ARGUMENTS, False) == (unusable.reason, unusable.is_retryable)
    assert (Reason.ERROR, True) == (other.reason, other.is_retryable)


def test_an_error_is_not_cut_before_secrets_are_left_out_of_it():
    """Half a secret would no longer be recognised."""
    text = "x" * 3_985 + "hunter2-is-secret" + "y" * 20_000
    concealer = Redactor()
    concealer.add("hunter2-is-secret")
    ends = [end_of_error(raised(ValueError(text[n:])), POLICY, Log()) for n in range(30)]
    told = [fitted(concealer.hide_in_end(end)).error for end in ends]

    assert [] == [error for error in told if "hunt" in error or "secret" in error]
    assert {True} == {len(error) <= ERROR_LENGTH_MAX for error in told}


def test_a_value_that_is_no_json_is_told_without_secrets():
    """Also where an error is cut to fit a line."""
    log = Log()
    for length in range(465, 477):
        end_of_value(type("x" * length + "hunter2", (), {})(), log)

    assert [] == [line for line in log.lines if "hu" in line]


def test_a_long_error_keeps_its_beginning_and_its_end():
    """Where it began and what it says in the end tell most."""
    text = bounded("first" + "x" * 50_000 + "last")

    assert ERROR_LENGTH_MAX == len(text)
    assert text.startswith("firstx")
    assert text.endswith("xlast")
    assert "34,009 characters are left out" in text


def test_an_exception_that_can_not_be_shown_is_told_by_its_name():
    """A task's own objects may do anything when they are looked at."""

    class NastyError(Exception):
        def __str__(self) -> str:
            raise SystemExit(1)

    assert "NastyError" in error_text(raised(NastyError()))
    assert "NastyError" in unfit(raised(NastyError())).error


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (Succeeded("x" * (RESULT_BYTES_MAX + 1)), Succeeded(None)),
        (Succeeded('"ü"'), Succeeded('"ü"')),
        (Failed("a\x00b", Reason.KILLED), Failed("a�b", Reason.KILLED)),
        (GaveUp(Reason.GONE, "a\x00b"), GaveUp(Reason.GONE, "a�b")),
        (CancelledEnd("x" * 90_000), CancelledEnd(bounded("x" * 90_000))),
        (TimedOut(Reason.TIMEOUT), TimedOut(Reason.TIMEOUT)),
    ],
)
def test_whatever_an_executor_tells_fits_every_store(end, expected):
    """A child process or another server may have said it."""
    assert expected == fitted(end)


def test_what_no_store_can_hold_is_replaced():
    """NUL and halves of characters."""
    assert "a�b?c" == storable("a\x00b\ud800c")
