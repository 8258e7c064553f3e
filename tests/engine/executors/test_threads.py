"""Plain functions in threads: each ends by itself, and one that can't be stopped is left."""

from __future__ import annotations

import logging
import sys
import threading
from contextvars import ContextVar
from typing import TYPE_CHECKING

import pytest

from duly.domain.outcomes import Failed, Snoozed, Succeeded, snooze
from duly.domain.runs import Reason
from duly.engine.executors import thread_executor
from duly.engine.executors.task_output import task_logging
from duly.engine.executors.thread_executor import ThreadExecutor
from duly.errors import UsageError
from tests.engine.executors.attempt import LIMIT_SECONDS, Attempt, Code, Unbound, attempt_of
from tests.waiting import comes_true, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def executor() -> Iterator[ThreadExecutor]:
    made = ThreadExecutor(slots=2)
    yield made
    made.close()


def test_a_function_ends_with_what_it_returns(executor: ThreadExecutor):
    attempt = attempt_of(lambda: {"sent": 3})
    executor.start(attempt)

    assert Succeeded('{"sent":3}') == attempt.wait_end()
    assert attempt.begun.is_set()


def test_what_a_function_answers_is_its_end(executor: ThreadExecutor):
    attempt = attempt_of(lambda: snooze("10m"))
    executor.start(attempt)

    assert Snoozed(600_000_000) == attempt.wait_end()


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), KeyboardInterrupt()])
def test_whatever_a_function_raises_is_the_end_of_it_alone(
    executor: ThreadExecutor, error: BaseException
):
    """Sys.exit in a task ends the attempt, and not the thread or the worker."""

    def fail() -> None:
        raise error

    attempt, other = attempt_of(fail), attempt_of(lambda: 1)
    executor.start(attempt)
    end = attempt.wait_end()
    executor.start(other)

    assert isinstance(end, Failed)
    assert type(error).__name__ in end.error
    assert Succeeded("1") == other.wait_end()


def test_arguments_that_do_not_fit_end_it_before_it_begins(executor: ThreadExecutor):
    class Choosy(Code):
        def prepare(self, claimed, live):
            raise UsageError("class_id", "x", "is not a number", "give one")

    attempt = Attempt(Choosy(lambda: None))
    executor.start(attempt)
    end = attempt.wait_end()

    assert isinstance(end, Failed)
    assert (Reason.BAD_ARGUMENTS, False) == (end.reason, end.is_retryable)
    assert not attempt.begun.is_set()


def test_no_more_threads_run_than_there_are_slots(executor: ThreadExecutor):
    gate = threading.Event()
    attempts = [attempt_of(lambda: gate.wait(LIMIT_SECONDS)) for _ in range(3)]
    before = {*threading.enumerate()}
    for attempt in attempts:
        executor.start(attempt)
    for attempt in attempts[:2]:
        attempt.wait_begun()

    assert 2 == len({*threading.enumerate()} - before)
    assert not attempts[2].begun.is_set()
    gate.set()
    assert [Succeeded("true")] * 3 == [attempt.wait_end() for attempt in attempts]


def test_a_thread_is_used_again(executor: ThreadExecutor):
    names = []
    for _ in range(3):
        attempt = attempt_of(threading.get_ident)
        executor.start(attempt)
        names.append(attempt.wait_end())
        # A thread reports the end of its work shortly before it is idle; nothing else tells when.
        wait_until("the thread is idle", lambda: executor._idle)  # noqa: SLF001

    assert 1 == len(set(names))


def test_one_thread_takes_the_place_of_an_abandoned_one(executor: ThreadExecutor):
    """As many as there are slots run beside those that were abandoned."""
    before, gate = {*threading.enumerate()}, threading.Event()
    attempts = [attempt_of(lambda: gate.wait(LIMIT_SECONDS)) for _ in range(4)]
    for attempt in attempts[:2]:
        executor.start(attempt)
        attempt.wait_begun()
    assert executor.insist(attempts[0]) is False
    executor.start(attempts[2])
    attempts[2].wait_begun()
    executor.start(attempts[3])
    started = {*threading.enumerate()} - before
    gate.set()

    assert 3 == len(started)
    assert [Succeeded("true")] * 4 == [attempt.wait_end() for attempt in attempts]


def test_idle_threads_end_when_it_is_closed(executor: ThreadExecutor, monkeypatch):
    monkeypatch.setattr(thread_executor, "IDLE_SECONDS_MAX", 10_000.0)
    before = {*threading.enumerate()}
    attempt = attempt_of(lambda: 1)
    executor.start(attempt)
    attempt.wait_end()
    (thread,) = {*threading.enumerate()} - before
    executor.close()

    assert comes_true(lambda: not thread.is_alive())


def test_a_thread_that_goes_on_is_abandoned_and_replaced():
    """Code that ignores its time-out keeps its thread, and nobody else's."""
    executor, gate = ThreadExecutor(slots=1), threading.Event()
    stuck, next_one = attempt_of(lambda: gate.wait(LIMIT_SECONDS)), attempt_of(lambda: "fine")
    executor.start(stuck)
    stuck.wait_begun()
    executor.ask(stuck)

    assert executor.insist(stuck) is False
    executor.start(next_one)
    assert Succeeded('"fine"') == next_one.wait_end()
    assert executor.insist(stuck) is False
    gate.set()
    assert Succeeded("true") == stuck.wait_end()
    assert executor.insist(stuck) is True
    executor.close()


def test_what_waits_for_a_thread_gets_that_of_the_abandoned_one():
    executor, gate = ThreadExecutor(slots=1), threading.Event()
    stuck, waiting = attempt_of(lambda: gate.wait(LIMIT_SECONDS)), attempt_of(lambda: 2)
    executor.start(stuck)
    stuck.wait_begun()
    executor.start(waiting)
    executor.insist(stuck)

    assert Succeeded("2") == waiting.wait_end()
    gate.set()
    stuck.wait_end()
    executor.close()


def test_what_a_task_logs_goes_to_its_own_run(executor: ThreadExecutor):
    gate, logger = threading.Barrier(2), logging.getLogger("anybody")

    def log(word: str) -> None:
        gate.wait(LIMIT_SECONDS)
        logger.warning("I am %s", word)

    one, two = attempt_of(lambda: log("one")), attempt_of(lambda: log("two"))
    with task_logging():
        for attempt in (one, two):
            executor.start(attempt)
        for attempt in (one, two):
            attempt.wait_end()
        logger.error("nobody's")

    assert [("warning", "I am one")] == one.live.lines
    assert [("warning", "I am two")] == two.live.lines


def test_handlers_of_the_program_go_on(executor: ThreadExecutor):
    heard: list[str] = []

    class Own(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            heard.append(record.getMessage())

    own, logger = Own(), logging.getLogger("anybody")
    logger.addHandler(own)
    attempt = attempt_of(lambda: logger.warning("both"))
    try:
        with task_logging():
            executor.start(attempt)
            attempt.wait_end()
    finally:
        logger.removeHandler(own)

    assert (["both"], [("warning", "both")]) == (heard, attempt.live.lines)


def test_context_of_one_task_is_nothing_to_the_next(executor: ThreadExecutor):
    who: ContextVar[str] = ContextVar("who", default="nobody")
    first, second = attempt_of(lambda: str(who.set("first"))), attempt_of(who.get)
    executor.start(first)
    first.wait_end()
    executor.start(second)

    assert Succeeded('"nobody"') == second.wait_end()


def test_a_result_that_is_no_json_is_not_kept_and_that_is_told(executor: ThreadExecutor):
    attempt = attempt_of(lambda: sys)
    executor.start(attempt)

    assert Succeeded(None) == attempt.wait_end()
    assert "not JSON" in attempt.live.texts("warning")[0]


def test_a_result_that_can_t_be_looked_at_is_an_end_all_the_same(executor: ThreadExecutor):
    """Whatever a task returns, its slot is free again."""
    attempt = attempt_of(Unbound)
    executor.start(attempt)

    assert Succeeded(None) == attempt.wait_end()


def test_a_defect_on_the_way_to_an_end_is_an_end(executor: ThreadExecutor):
    """An end that nobody says would keep a slot for ever."""
    attempt = attempt_of(lambda: None)
    attempt.began = fail_to_begin  # type: ignore[method-assign]
    executor.start(attempt)
    end = attempt.wait_end()

    assert isinstance(end, Failed)
    assert "IndexError" in end.error


def fail_to_begin() -> None:
    raise IndexError


def test_what_no_thread_could_be_started_for_is_never_begun(
    executor: ThreadExecutor, monkeypatch: pytest.MonkeyPatch
):
    """The worker has given it up by then."""
    refused, later = attempt_of(lambda: 1), attempt_of(lambda: 2)

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start"):
            executor.start(refused)
    executor.start(later)

    assert Succeeded("2") == later.wait_end()
    assert not refused.begun.is_set()


def test_functions_that_wait_for_each_other_are_all_begun():
    """Each that comes calls the next, whether threads are new or idle."""
    executor = ThreadExecutor(slots=8)
    for _ in range(2):
        gate = threading.Barrier(8)
        attempts = [attempt_of(lambda gate=gate: gate.wait(LIMIT_SECONDS)) for _ in range(8)]
        executor.start_all(attempts)

        assert all(isinstance(attempt.wait_end(), Succeeded) for attempt in attempts)
    executor.close()


def test_of_several_that_no_thread_could_be_started_for_none_is_begun(
    executor: ThreadExecutor, monkeypatch: pytest.MonkeyPatch
):
    """The worker has given them up by then."""
    refused, later = [attempt_of(lambda: 1) for _ in range(3)], attempt_of(lambda: 2)

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start"):
            executor.start_all(refused)
    executor.start(later)

    assert Succeeded("2") == later.wait_end()
    assert not any(attempt.begun.is_set() for attempt in refused)
