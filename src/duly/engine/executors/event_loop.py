"""The event-loop executor: runs async functions, all on one loop in a thread of its own.

A coroutine is asked to stop by cancelling it. One that goes on all the same can't be made to; it is
abandoned. One that blocks the loop blocks all others on it: what has not begun when that is noticed
moves to a new loop, and so does all that comes after.
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

from duly.domain.concluding import CancelledEnd, Failed
from duly.engine.ends import end_of_error, end_of_value, error_text
from duly.engine.executors.calling import carried_out, end_of_fault, prepared
from duly.engine.executors.task_logging import logged_by

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.domain.concluding import End
    from duly.engine.work import Work

CLOSE_SECONDS_MAX = 2.0
"""How long coroutines that were cancelled may take to tidy up when the executor is closed."""
LOOK_SECONDS = 2.0
"""A loop that does not come round to a call from one look to the next is blocked."""
CALLS_MAX = 128
"""How many calls of `asyncio.to_thread` go on at a time, of all coroutines together."""


class EventLoopExecutor:
    """Runs coroutines; none of them waits for another, unless it asks to."""

    def __init__(self) -> None:
        self._loop: _LoopThread | None = None
        self._places: dict[int, _Place] = {}
        self._lock = threading.Lock()
        self._watch: threading.Thread | None = None
        self._closed = threading.Event()

    def start(self, work: Work) -> None:
        """Begin on the loop, which is started when it is first needed."""
        with self._lock:
            place = _Place(work, self._current())
            self._places[id(work)] = place
            if self._watch is None:
                self._watch = threading.Thread(
                    target=self._look_on, name="duly-event-loop-watch", daemon=True
                )
                self._watch.start()
        place.loop.call(self._begin, place)

    def _current(self) -> _LoopThread:
        if self._loop is None or self._loop.is_dead:
            self._loop = _LoopThread(self._bury)
        return self._loop

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
        self._closed.set()
        with self._lock:
            loops = {id(place.loop): place.loop for place in self._places.values()}
        if self._loop is not None:
            loops[id(self._loop)] = self._loop
        self._loop = None
        for one in loops.values():
            one.close()

    def _begin(self, place: _Place) -> None:
        if not place.is_here():
            return  # it has moved on
        # Not by the loop, which may have been told to make its tasks in another way.
        place.task = asyncio.Task(self._carry_out(place), context=Context())
        place.task.add_done_callback(lambda task: self._settle(place, task))

    async def _carry_out(self, place: _Place) -> End:
        with self._lock:
            is_here = place.is_here()
            place.has_begun = place.has_begun or is_here
        return await _awaited(place.work) if is_here else CancelledEnd()

    def _settle(self, place: _Place, task: asyncio.Task[End]) -> None:
        if place.task is not task:
            return  # it has moved on, and this was nothing
        work = place.work
        if task.cancelled():  # before its first step: nobody has seen that error yet
            end = end_of_error(asyncio.CancelledError(), work.runnable.policy, work.live)
        else:
            end = carried_out(task.result)
        self._end(work, end)

    def _end(self, work: Work, end: End) -> None:
        with self._lock:
            place = self._places.pop(id(work), None)
            loop = None if place is None else place.loop
            is_left = loop is not self._loop
            is_left = is_left and not any(one.loop is loop for one in self._places.values())
        work.ended(end)
        if loop is not None and is_left:
            loop.leave()  # another has taken its place, and nothing is left to do on it

    def _look_on(self) -> None:
        """Look now and then whether the loop still comes round to what it is given."""
        seen: tuple[_LoopThread | None, int] = (None, 0)
        while not self._closed.wait(LOOK_SECONDS):
            loop = self._loop
            if loop is None or not self._places:
                continue
            # Told once more at each look, or one that blocks after it was told all went unnoticed.
            if loop.is_waited_for and seen == (loop, loop.rings):
                self._move_from(loop)
            loop.ring()
            seen = (loop, loop.rings)

    def _move_from(self, loop: _LoopThread) -> None:
        """Give what has not begun on a loop that is blocked to another, which takes its place."""
        with self._lock:
            if self._loop is loop:
                self._loop = None
            places = [one for one in self._places.values() if one.loop is loop]
            moving = [place for place in places if not place.has_begun]
            for place in moving:
                place.loop, place.task = self._current(), None
        for place in moving:
            place.loop.call(self._begin, place)
            if place.is_asked:
                place.loop.call(_cancel, place)

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
    has_begun: bool = False
    is_asked: bool = False
    is_heard: bool = False
    """Whether the loop has come round to cancelling it."""

    def is_here(self) -> bool:
        """Say whether the loop that asks is the one on which it runs."""
        return self.loop.is_current()


def _cancel(place: _Place) -> None:
    if not place.is_here():
        return
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
        self.is_waited_for = False
        """Whether the loop was told of calls, and has not come round to them."""
        self.rings = 0
        """How often it was told."""
        self._thread = threading.Thread(target=self._run, name="duly-event-loop", daemon=True)
        self._thread.start()

    def call(self, function: Callable[[_Place], None], place: _Place) -> None:
        """Have the loop call a function soon; one that has ended has nothing left to call."""
        self._calls.append((function, place))
        self.ring()

    def ring(self) -> None:
        """Have the loop come round to what it was given."""
        # Once for all calls until it does: waking it takes longest.
        if not self.is_waited_for:
            self.rings += 1
            self.is_waited_for = True
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._make_calls)

    def is_current(self) -> bool:
        """Say whether this is the loop that the caller runs on."""
        return asyncio.get_running_loop() is self._loop

    def close(self) -> None:
        """Cancel everything and end; wait for that, but not for long."""
        self.leave()
        self._thread.join(CLOSE_SECONDS_MAX)

    def leave(self) -> None:
        """Cancel everything and end, soon."""
        self._is_closed = True
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._loop.stop)

    def _make_calls(self) -> None:
        self.is_waited_for = False  # before the first is taken: whoever calls later rings again
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
