"""The event-loop executor: runs async functions, all on one loop in a thread of its own.

A coroutine is asked to stop by cancelling it. One that goes on all the same can't be made to; it is
abandoned. One that blocks the loop blocks all others, so that new work gets a loop of its own.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass
from typing import TYPE_CHECKING

from duly.domain.concluding import Failed
from duly.engine.ends import end_of_error, end_of_value, error_text
from duly.engine.executors.calling import carried_out, end_of_fault, prepared
from duly.engine.executors.task_logging import logged_by

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.domain.concluding import End
    from duly.engine.work import Work

CLOSE_SECONDS_MAX = 2.0
"""How long coroutines that were cancelled may take to tidy up when the executor is closed."""
CALLS_MAX = 128
"""How many calls of `asyncio.to_thread` go on at a time, of all coroutines together."""


class EventLoopExecutor:
    """Runs coroutines; none of them waits for another, unless it asks to."""

    def __init__(self) -> None:
        self._loop: _LoopThread | None = None
        self._places: dict[int, _Place] = {}
        self._lock = threading.Lock()

    def start(self, work: Work) -> None:
        """Begin on the loop, which is started when it is first needed."""
        with self._lock:
            if self._loop is None or self._loop.is_dead:
                self._loop = _LoopThread(self._bury)
            place = _Place(work, self._loop)
            self._places[id(work)] = place
        place.loop.call(self._begin, place)

    def ask(self, work: Work) -> None:
        """Cancel the coroutine."""
        with self._lock:
            place = self._places.get(id(work))
        if place is not None:
            place.is_asked = True
            place.loop.call(_cancel, place)

    def insist(self, work: Work) -> bool:
        """Cancel it once more; False if it has not ended since it was asked."""
        with self._lock:
            place = self._places.get(id(work))
        if place is None:
            return True
        if place.is_asked and not place.is_heard and place.loop is self._loop:
            self._loop = None  # something blocks it: what is started from now on gets another
        self.ask(work)
        return False

    def close(self) -> None:
        """Cancel what still runs, and end the loop; what ignores that goes with the process."""
        with self._lock:
            loops = {id(place.loop): place.loop for place in self._places.values()}
        if self._loop is not None:
            loops[id(self._loop)] = self._loop
        self._loop = None
        for one in loops.values():
            one.close()

    def _begin(self, place: _Place) -> None:
        # Not by the loop, which may have been told to make its tasks in another way.
        place.task = asyncio.Task(_awaited(place.work), context=Context())
        place.task.add_done_callback(lambda task: self._settle(place.work, task))

    def _settle(self, work: Work, task: asyncio.Task[End]) -> None:
        if task.cancelled():  # before its first step: nobody has seen that error yet
            end = end_of_error(asyncio.CancelledError(), work.runnable.policy, work.live)
        else:
            end = carried_out(task.result)
        self._end(work, end)

    def _end(self, work: Work, end: End) -> None:
        with self._lock:
            self._places.pop(id(work), None)
        work.ended(end)

    def _bury(self, loop: _LoopThread, error: BaseException) -> None:
        """End all that ran on a loop which is no more; what is started next gets another."""
        with self._lock:
            loop.is_dead = True
            lost = [place.work for place in self._places.values() if place.loop is loop]
        end = Failed(f"its event loop has broken down\n{error_text(error)}")
        for work in lost:
            self._end(work, end)


@dataclass(slots=True, eq=False)
class _Place:
    """Where one attempt runs."""

    work: Work
    loop: _LoopThread
    task: asyncio.Task[End] | None = None
    is_asked: bool = False
    is_heard: bool = False
    """Whether the loop has come round to cancelling it."""


def _cancel(place: _Place) -> None:
    place.is_heard = True
    if place.task is not None and place.task.cancel():
        # It learns of it inside, so it knows: what it returns now, it returns having been stopped.
        bool(place.work.live.is_cancelled)


async def _awaited(work: Work) -> End:
    """Run a coroutine to its end. Nothing that it raises goes further, not even sys.exit."""
    with logged_by(work.live):
        try:
            call = prepared(work)
            if not callable(call):
                return call
            work.began()
            value = await call()
        except BaseException as error:  # noqa: BLE001 - a task's fault is never the executor's
            return end_of_fault(error, work)
        return end_of_value(value, work.live)


class _LoopThread:
    """An event loop in a daemon thread, which outlives whatever is done to it by what it runs."""

    def __init__(self, bury: Callable[[_LoopThread, BaseException], None]) -> None:
        self._loop = asyncio.new_event_loop()
        # Calls that hang keep their threads; a few of them must not stop those of all others.
        self._loop.set_default_executor(ThreadPoolExecutor(CALLS_MAX, "duly-to-thread"))
        self._bury = bury
        self.is_dead = False
        """Whether it has ended though nobody has closed it."""
        self._is_closed = False
        self._calls: deque[tuple[Callable[[_Place], None], _Place]] = deque()
        self._has_rung = False
        """Whether the loop was told of the calls that wait."""
        self._thread = threading.Thread(target=self._run, name="duly-event-loop", daemon=True)
        self._thread.start()

    def call(self, function: Callable[[_Place], None], place: _Place) -> None:
        """Have the loop call a function soon; one that has ended has nothing left to call."""
        self._calls.append((function, place))
        # Once for all calls until the loop comes round to them: waking it takes longest.
        if not self._has_rung:
            self._has_rung = True
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._make_calls)

    def close(self) -> None:
        """Cancel everything and end; wait for that, but not for long."""
        self._is_closed = True
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSE_SECONDS_MAX)

    def _make_calls(self) -> None:
        self._has_rung = False  # before the first is taken: whoever calls later rings again
        while self._calls:
            function, place = self._calls.popleft()
            self._loop.call_soon(function, place)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._run_until(lambda: self._is_closed)
        except BaseException as error:  # noqa: BLE001 - whoever waits for it must hear of it
            self._bury(self, error)
        with suppress(Exception):  # one that has broken down may not even be able to end
            ending = asyncio.Task(_end_all(self._loop), loop=self._loop)
            ending.add_done_callback(lambda _: self._loop.stop())
            self._run_until(ending.done)
            self._loop.close()

    def _run_until(self, is_over: Callable[[], bool]) -> None:
        """Run on, though a task stops the loop, or exits: asyncio lets that out of the loop.

        It has been noted by then as the end of whichever coroutine has done it.
        """
        while not is_over():
            with suppress(SystemExit, KeyboardInterrupt):
                self._loop.run_forever()


async def _end_all(loop: asyncio.AbstractEventLoop) -> None:
    others = asyncio.all_tasks(loop) - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=CLOSE_SECONDS_MAX / 2)
    await loop.shutdown_asyncgens()
