"""Coroutines on one loop: asked to stop by cancelling, abandoned when they go on."""

from __future__ import annotations

import asyncio
import logging
import threading
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import pytest

from duly.domain.outcomes import CancelledEnd, Failed, Succeeded
from duly.engine.executors import async_executor
from duly.engine.executors.async_executor import EventLoopExecutor
from duly.engine.executors.task_output import task_logging
from tests.engine.executors.attempt import (
    LIMIT_SECONDS,
    Attempt,
    Code,
    LookedAt,
    Unbound,
    attempt_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def executor() -> Iterator[EventLoopExecutor]:
    made = EventLoopExecutor()
    yield made
    made.close()


async def forever() -> None:
    await asyncio.Event().wait()


async def quick() -> None:
    pass


def test_a_coroutine_ends_with_what_it_returns(executor: EventLoopExecutor):
    async def send() -> int:
        await asyncio.wait_for(asyncio.create_task(quick()), LIMIT_SECONDS)
        return 3

    attempt = attempt_of(send)
    executor.start(attempt)

    assert Succeeded("3") == attempt.wait_end()
    assert attempt.begun.is_set()


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), KeyboardInterrupt()])
def test_whatever_a_coroutine_raises_is_the_end_of_it_alone(
    executor: EventLoopExecutor, error: BaseException
):
    """Sys.exit ends the attempt; the loop goes on for the others."""

    async def fail() -> None:
        raise error

    async def fine() -> int:
        return 1

    attempt, other = attempt_of(fail), attempt_of(fine)
    executor.start(attempt)
    end = attempt.wait_end()
    executor.start(other)

    assert isinstance(end, Failed)
    assert type(error).__name__ in end.error
    assert Succeeded("1") == other.wait_end()


def test_asking_cancels_the_coroutine(executor: EventLoopExecutor):
    attempt = attempt_of(forever)
    executor.start(attempt)
    attempt.wait_begun()
    attempt.live.is_cancelled = True
    executor.ask(attempt)

    assert isinstance(attempt.wait_end(), CancelledEnd)
    assert executor.insist(attempt) is True


def test_one_that_is_asked_before_its_first_step_ends_too(executor: EventLoopExecutor):
    """The loop is held, so that order to begin and order to stop arrive together."""
    gate, holder, attempt = threading.Event(), attempt_of(forever), attempt_of(forever)

    async def hold() -> None:
        gate.wait(LIMIT_SECONDS)

    holder = attempt_of(hold)
    executor.start(holder)
    holder.wait_begun()
    executor.start(attempt)
    attempt.live.is_cancelled = True
    executor.ask(attempt)
    gate.set()

    assert isinstance(attempt.wait_end(), CancelledEnd)
    assert not attempt.begun.is_set()


def test_coroutines_run_side_by_side(executor: EventLoopExecutor):
    async def meet() -> None:
        meeting.append(asyncio.current_task())
        while len(meeting) < 3:
            await asyncio.wait_for(turn(), LIMIT_SECONDS)

    async def turn() -> None:
        future = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(future.set_result, None)
        await future

    meeting: list[object] = []
    attempts = [attempt_of(meet) for _ in range(3)]
    for attempt in attempts:
        executor.start(attempt)

    assert [Succeeded(None)] * 3 == [attempt.wait_end() for attempt in attempts]


def test_one_that_swallows_its_cancellation_is_abandoned(executor: EventLoopExecutor):
    swallowed, leave = threading.Event(), threading.Event()

    async def stubborn() -> str:
        while not leave.is_set():
            try:
                await forever()
            except asyncio.CancelledError:
                swallowed.set()
        return "after all"

    attempt = attempt_of(stubborn)
    executor.start(attempt)
    attempt.wait_begun()
    executor.ask(attempt)

    assert swallowed.wait(LIMIT_SECONDS)
    assert executor.insist(attempt) is False
    leave.set()
    executor.ask(attempt)
    assert Succeeded('"after all"') == attempt.wait_end()


def test_one_that_blocks_the_loop_does_not_block_what_comes_after(executor: EventLoopExecutor):
    gate = threading.Event()

    async def blocking() -> None:
        gate.wait(LIMIT_SECONDS)

    async def fine() -> int:
        return 1

    stuck, other = attempt_of(blocking), attempt_of(fine)
    executor.start(stuck)
    stuck.wait_begun()
    executor.ask(stuck)

    assert executor.insist(stuck) is False
    executor.start(other)
    assert Succeeded("1") == other.wait_end()
    gate.set()
    stuck.wait_end()


def test_what_a_coroutine_logs_goes_to_its_own_run(executor: EventLoopExecutor):
    logger = logging.getLogger("anybody")

    async def log(word: str) -> None:
        await asyncio.wait_for(asyncio.create_task(inner(word)), LIMIT_SECONDS)

    async def inner(word: str) -> None:
        logger.warning("I am %s", word)

    one, two = attempt_of(lambda: log("one")), attempt_of(lambda: log("two"))
    with task_logging():
        for attempt in (one, two):
            executor.start(attempt)
        for attempt in (one, two):
            attempt.wait_end()

    assert [("warning", "I am one")] == one.live.lines
    assert [("warning", "I am two")] == two.live.lines


def test_closing_cancels_what_still_runs():
    executor, attempt = EventLoopExecutor(), attempt_of(forever)
    executor.start(attempt)
    attempt.wait_begun()
    attempt.live.is_cancelled = True
    executor.close()

    assert isinstance(attempt.wait_end(), CancelledEnd)


async def leaving(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_what_a_coroutine_starts_may_exit_without_ending_the_loop(
    executor: EventLoopExecutor, error: BaseException
):
    """Asyncio lets these out of the loop itself; others that run on it must not hang."""
    gate = threading.Event()

    async def gathering() -> None:
        await asyncio.gather(leaving(error))

    async def waiting() -> int:
        await asyncio.to_thread(gate.wait, LIMIT_SECONDS)
        return 1

    other, attempt = attempt_of(waiting), attempt_of(gathering)
    executor.start(other)
    executor.start(attempt)
    end = attempt.wait_end()
    gate.set()

    assert isinstance(end, Failed)
    assert type(error).__name__ in end.error
    assert Succeeded("1") == other.wait_end()


def test_a_task_that_stops_the_loop_does_not_end_it(executor: EventLoopExecutor):
    """The loop belongs to all of them."""

    async def stopping() -> int:
        asyncio.get_running_loop().stop()
        await asyncio.create_task(quick())
        return 1

    attempt = attempt_of(stopping)
    executor.start(attempt)

    assert Succeeded("1") == attempt.wait_end()


def test_a_loop_that_breaks_down_ends_what_runs_on_it_and_is_replaced(executor: EventLoopExecutor):
    """Nobody waits for a loop that is no more."""

    async def breaking() -> None:
        loop: Any = asyncio.get_running_loop()

        def break_down() -> None:
            del loop._run_once  # noqa: SLF001 - so that it can tidy up
            raise OSError("its selector fails")

        loop._run_once = break_down  # noqa: SLF001 - nothing else breaks so surely
        await forever()

    async def fine() -> int:
        return 1

    other, attempt, next_one = attempt_of(forever), attempt_of(breaking), attempt_of(fine)
    for one in (other, attempt):
        executor.start(one)
    ends = [one.wait_end() for one in (other, attempt)]
    executor.start(next_one)

    assert all(isinstance(end, Failed) and "broken down" in end.error for end in ends)
    assert Succeeded("1") == next_one.wait_end()


def test_a_task_that_changes_how_the_loop_makes_tasks_changes_nothing_for_others(
    executor: EventLoopExecutor,
):
    def refuse(*_: object, **__: object) -> Any:
        raise ValueError("no more")

    async def spoiling() -> None:
        asyncio.get_running_loop().set_task_factory(refuse)

    spoiler, attempt = attempt_of(spoiling), attempt_of(quick)
    executor.start(spoiler)
    spoiler.wait_end()
    executor.start(attempt)

    assert Succeeded(None) == attempt.wait_end()


def test_a_result_that_can_t_be_looked_at_is_an_end_all_the_same(executor: EventLoopExecutor):
    async def odd() -> object:
        return Unbound()

    attempt = attempt_of(odd)
    executor.start(attempt)

    assert Succeeded(None) == attempt.wait_end()


def test_a_coroutine_that_was_cancelled_has_seen_that_it_should_stop(executor: EventLoopExecutor):
    """What it returns afterwards is not its own word."""
    attempt = Attempt(Code(tidying), live=LookedAt())
    executor.start(attempt)
    attempt.wait_begun()
    executor.ask(attempt)

    assert Succeeded('"tidied up"') == attempt.wait_end()
    assert attempt.live.looks > 0


async def tidying() -> str:
    try:
        await forever()
    except asyncio.CancelledError:
        return "tidied up"
    return "never"


def test_what_has_not_begun_moves_from_a_loop_that_is_blocked(executor: EventLoopExecutor):
    """INV-22: nobody's time runs out because another one blocks, and nothing is run twice."""
    gate, ran = threading.Event(), []

    async def blocking() -> str:
        gate.wait(LIMIT_SECONDS)
        return "after all"

    async def fine(number: int) -> int:
        ran.append(number)
        return number

    stuck = attempt_of(blocking)
    handed = [attempt_of(lambda number=number: fine(number)) for number in range(2)]
    executor.start(stuck)
    for attempt in handed[:1]:
        executor.start(attempt)  # with the one that blocks, or right after it
    stuck.wait_begun()
    executor.start(handed[1])
    ends = [attempt.wait_end() for attempt in handed]
    gate.set()

    assert [Succeeded("0"), Succeeded("1")] == ends
    assert Succeeded('"after all"') == stuck.wait_end()
    executor.close()
    assert [0, 1] == sorted(ran)


def test_what_was_handed_over_together_with_one_that_blocks_moves_too(executor: EventLoopExecutor):
    """INV-22: also what has its place on the loop by then, and no call is left to be made."""
    first, second = threading.Event(), threading.Event()

    async def blocking(gate: threading.Event) -> None:
        gate.wait(LIMIT_SECONDS)

    async def fine() -> int:
        return 1

    holder, stuck = attempt_of(lambda: blocking(first)), attempt_of(lambda: blocking(second))
    innocent = attempt_of(fine)
    executor.start(holder)
    holder.wait_begun()
    for attempt in (stuck, innocent):
        executor.start(attempt)  # both wait for the loop, and get their places together
    first.set()
    end = innocent.wait_end()
    second.set()

    assert Succeeded("1") == end
    stuck.wait_end()


def test_a_loop_that_was_blocked_ends_when_nothing_is_left_on_it(executor: EventLoopExecutor):
    gate, threads = threading.Event(), []

    async def blocking() -> None:
        threads.append(threading.current_thread())
        gate.wait(LIMIT_SECONDS)

    stuck, other = attempt_of(blocking), attempt_of(quick)
    executor.start(stuck)
    stuck.wait_begun()
    executor.start(other)
    other.wait_end()
    gate.set()
    stuck.wait_end()
    threads[0].join(LIMIT_SECONDS)

    assert not threads[0].is_alive()


def test_what_was_asked_to_stop_before_it_moved_is_cancelled(executor: EventLoopExecutor):
    gate = threading.Event()

    async def blocking() -> None:
        gate.wait(LIMIT_SECONDS)

    stuck, attempt = attempt_of(blocking), attempt_of(forever)
    executor.start(stuck)
    stuck.wait_begun()
    executor.start(attempt)
    attempt.live.is_cancelled = True
    executor.ask(attempt)
    end = attempt.wait_end()
    gate.set()

    assert isinstance(end, CancelledEnd)
    stuck.wait_end()


def together(executor: EventLoopExecutor, *attempts: Attempt) -> list[Any]:
    """Hand attempts over while the loop is held, so that they are begun in one go."""
    gate = threading.Event()

    async def hold() -> None:
        gate.wait(LIMIT_SECONDS)

    holder = attempt_of(hold)
    executor.start(holder)
    holder.wait_begun()
    for attempt in attempts:
        executor.start(attempt)
    gate.set()
    return [attempt.wait_end() for attempt in attempts]


def test_context_of_one_coroutine_is_nothing_to_the_next(executor: EventLoopExecutor):
    who: ContextVar[str] = ContextVar("who", default="nobody")

    async def first() -> None:
        who.set("first")

    async def second() -> str:
        return who.get()

    ends = together(executor, attempt_of(first), attempt_of(second))

    assert [Succeeded(None), Succeeded('"nobody"')] == ends


def test_a_coroutine_that_cancels_itself_cancels_no_other(executor: EventLoopExecutor):
    async def first() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    async def second() -> int:
        await asyncio.create_task(quick())
        return 2

    ends = together(executor, attempt_of(first), attempt_of(second))

    assert Succeeded("2") == ends[1]


def test_a_coroutine_that_waits_is_alone_in_its_task(executor: EventLoopExecutor):
    """Whoever is asked to stop is, and nobody else."""
    tasks: list[object] = []

    async def waiting() -> None:
        tasks.append(asyncio.current_task())
        await forever()

    stopped, other = attempt_of(waiting), attempt_of(waiting)
    together(executor, attempt_of(quick), attempt_of(quick))
    for attempt in (stopped, other):
        executor.start(attempt)
        attempt.wait_begun()
    stopped.live.is_cancelled = True
    executor.ask(stopped)

    assert isinstance(stopped.wait_end(), CancelledEnd)
    assert not other.over.is_set()
    assert 2 == len(set(tasks))


def test_a_limit_of_time_inside_a_coroutine_is_its_own(executor: EventLoopExecutor):
    async def quickly() -> int:
        async with asyncio.timeout(LIMIT_SECONDS):
            await quick()
            return 1

    async def late() -> None:
        async with asyncio.timeout(0):
            await forever()

    ends = together(executor, attempt_of(quickly), attempt_of(late), attempt_of(quickly))

    assert [Succeeded("1")] * 2 == [ends[0], ends[2]]
    assert "TimeoutError" in ends[1].error


def test_those_that_end_in_one_go_ring_together(
    executor: EventLoopExecutor, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(async_executor, "TURN_SECONDS", LIMIT_SECONDS)
    monkeypatch.setattr(async_executor, "RING_SECONDS", LIMIT_SECONDS)
    attempts = [attempt_of(quick) for _ in range(9)]
    together(executor, *attempts)

    assert attempts[-1].rung.wait(LIMIT_SECONDS)
    assert not any(attempt.rung.is_set() for attempt in attempts[:-1])
