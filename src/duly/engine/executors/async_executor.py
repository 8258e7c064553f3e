"""The event-loop executor: runs async functions, all on one loop in a thread of its own.

`EventLoopExecutor` asks a coroutine to stop by cancelling it. A coroutine that continues all the
same cannot be forced to stop; it is abandoned. A coroutine that blocks the loop blocks all others
on it. When the executor notices that, work that has not begun moves to a new loop, and so does all
later work.

A host is a task that runs one coroutine after the other. In a burst most coroutines end without
waiting, and a task for each of them would cost more than the rest of their work. A coroutine that
waits keeps the host as its own task, and the next host continues with the others.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from typing import TYPE_CHECKING

from duly.domain.outcomes import SUCCEEDED, Failed
from duly.engine.executors.executor import end_of_fault, prepared
from duly.engine.executors.results import end_of_error, end_of_value, error_text
from duly.engine.executors.task_output import log_for

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from duly.domain.outcomes import End
    from duly.engine.executors.executor import AttemptWork
    from duly.telemetry.tracing import AttemptTrace

CLOSE_SECONDS_MAX = 2.0
"""How long coroutines that were cancelled may take to tidy up when the executor is closed."""
LOOK_SECONDS = 2.0
"""A loop that does not come round to a call from one look to the next is blocked."""
CALLS_MAX = 128
"""How many calls of `asyncio.to_thread` go on at a time, of all coroutines together."""
TURN_MAX = 256
TURN_SECONDS = 0.002
"""How many are begun, and for how long, before the loop looks after those that wait."""
RING_SECONDS = 0.005
"""How long ends may wait for more of them, while there are some to be begun."""


class EventLoopExecutor:
    """Runs coroutines; none of them waits for another, unless it asks to."""

    def __init__(self) -> None:
        self._loop: _LoopThread | None = None
        self._loops: dict[AttemptWork, _LoopThread] = {}
        """Of all that has not ended: where it runs, or waits to be begun."""
        self._hosts: dict[AttemptWork, _Host] = {}
        """Of all that has begun, and waits for something: the task that it runs in."""
        self.asked: dict[AttemptWork, bool] = {}
        """Of all that was asked to stop: whether its loop has come round to that."""
        self._lock = threading.Lock()
        self._watch: threading.Thread | None = None
        self._closed = threading.Event()

    def start(self, work: AttemptWork) -> None:
        """Begin on the loop, which is started when it is first needed."""
        self.start_all((work,))

    def start_all(self, works: Sequence[AttemptWork]) -> None:
        """Begin all of them, and wake the loop once."""
        with self._lock:  # or they might be given to a loop that is just being left
            loop = self._current()
            self._loops |= dict.fromkeys(works, loop)
            loop.waiting.extend(works)
            if self._watch is None:
                self._watch = threading.Thread(
                    target=self._look_on, name="duly-event-loop-watch", daemon=True
                )
                self._watch.start()
        loop.ring()

    def _current(self) -> _LoopThread:
        if self._loop is None or self._loop.is_dead:
            self._loop = _LoopThread(self)
        return self._loop

    def ask(self, work: AttemptWork) -> None:
        """Cancel the coroutine."""
        loop = self._loops.get(work)
        if loop is not None:
            self.asked.setdefault(work, False)
            loop.call(self._cancel, work)

    def insist(self, work: AttemptWork) -> bool:
        """Cancel it once more; False if it has not ended since it was asked."""
        loop = self._loops.get(work)
        if loop is None:
            return True
        if self.asked.get(work) is False:
            self._move_from(loop)  # something blocks it
        self.ask(work)
        return False

    def close(self) -> None:
        """Cancel what still runs, and end the loop; what ignores that goes with the process."""
        self._closed.set()
        with self._lock:
            loops = {*self._loops.values(), *filter(None, (self._loop,))}
            self._loop = None
        for one in loops:
            one.close()

    def keep(self, work: AttemptWork, host: _Host) -> None:
        """Note that something has the host that began it for itself."""
        self._hosts[work] = host

    def end(self, work: AttemptWork, end: End, *, is_quiet: bool = False) -> None:
        """Tell how something ended; quietly, if somebody rings in a moment."""
        loop = self._loops.pop(work, None)
        if self._hosts:
            self._hosts.pop(work, None)
        if self.asked:
            self.asked.pop(work, None)
        work.ended(end, is_quiet=is_quiet)
        if loop is not self._loop and loop is not None and loop not in self._in_use():
            loop.leave()  # another has taken its place, and nothing is left to do on it

    def bury(self, loop: _LoopThread, error: BaseException) -> None:
        """End all that ran on a loop which is no more; what is started next gets another."""
        with self._lock:
            loop.is_dead = True
            lost = [work for work, one in self._loops.items() if one is loop]
        end = Failed(f"its event loop has broken down\n{error_text(error)}")
        for work in lost:
            self.end(work, end)

    def _in_use(self) -> set[_LoopThread]:
        with self._lock:
            return set(self._loops.values())

    def _cancel(self, work: AttemptWork) -> None:
        loop = self._loops.get(work)
        if loop is None:
            self.asked.pop(work, None)
        elif loop.is_current():
            self.asked[work] = True
            host = self._hosts.get(work)
            if host is not None and host.task.cancel():
                # It learns of it inside, so it knows: what it returns now, it returns stopped.
                bool(work.live.is_cancelled)

    def _look_on(self) -> None:
        """Look now and then whether the loop still comes round to what it is given."""
        seen: tuple[_LoopThread | None, int] = (None, 0)
        while not self._closed.wait(LOOK_SECONDS):
            loop = self._loop
            if loop is None or not self._loops:
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
            moving: list[AttemptWork] = []
            with suppress(IndexError):
                while True:  # its own loop may come round, and take some, at any moment
                    moving.append(loop.waiting.popleft())
            if not moving:
                return
            other = self._current()
            self._loops |= dict.fromkeys(moving, other)
            other.waiting.extend(moving)
        other.ring()


class _Host:
    """A task that runs one coroutine after the other, until one of them has to wait."""

    def __init__(self, executor: EventLoopExecutor, waiting: deque[AttemptWork]) -> None:
        self._executor = executor
        self._waiting = waiting
        self.is_kept = False
        """Whether the one that it runs has waited for something: then it takes up no other."""
        self.work: AttemptWork | None = None
        """What it runs."""
        self.last: AttemptWork | None = None
        """The last that it has run to its end, and not rung for."""
        # Not by the loop, which may have been told to make its tasks in another way.
        self.task = asyncio.Task(self._run(), context=Context())

    async def _run(self) -> None:
        executor, waiting, asked = self._executor, self._waiting, self._executor.asked
        seconds = asyncio.get_running_loop().time
        until = seconds() + TURN_SECONDS
        for _ in range(TURN_MAX):
            if not waiting:
                return
            try:
                self.work = work = waiting.popleft()
            except IndexError:  # it has just moved on
                return
            try:
                call = _begun(work) if not asked or work not in asked else _not_begun(work)
                if callable(call):
                    value = await call()
                    end = SUCCEEDED if value is None else end_of_value(value, work.live)
                else:
                    end = call
            except BaseException as error:  # noqa: BLE001 - a task's fault, or a defect of our own
                end = _end_of(error, work)
            executor.end(work, end, is_quiet=not self.is_kept)
            if self.is_kept:
                return
            self.work, self.last = None, work
            if self._is_marked() or seconds() > until:
                return

    def _is_marked(self) -> bool:
        """Say whether anything is left of the last one that the next must not see.

        It may have asked for its own cancellation, or set variables of the context: one is ours.
        """
        return self.task.cancelling() > 0 or len(copy_context()) > 1


def _not_begun(work: AttemptWork) -> End:
    """Return how it ended that was asked to stop before it began."""
    return end_of_error(asyncio.CancelledError(), work.runnable.policy, work.live)


def _begun(work: AttemptWork) -> Callable[[], Awaitable[object]] | End:
    """Say that it begins, and return what to await; or how it ended, if it may not or can't."""
    log_for(work)
    call = prepared(work)
    if not callable(call):
        return call
    try:
        work.began()
    except BaseException as error:  # noqa: BLE001 - a task's fault is never the executor's
        return _end_of(error, work)
    return call if work.trace is None else partial(_traced, call, work.trace)


async def _traced(call: Callable[[], Awaitable[object]], trace: AttemptTrace) -> object:
    """Run a coroutine to its end, with its attempt's span as the current one."""
    with trace.current():
        return await call()


def _end_of(error: BaseException, work: AttemptWork) -> End:
    """Return how it ended by what was raised; nothing goes further, not even sys.exit."""
    trace = error.__traceback__
    try:
        if work.trace is not None and trace is not None and trace.tb_next is not None:
            error = error.with_traceback(trace.tb_next)  # the frame that has its span
        return end_of_fault(error, work)
    except BaseException as defect:  # noqa: BLE001 - also a defect of our own is an end
        return Failed(error_text(defect))


class _LoopThread:
    """An event loop in a daemon thread, which outlives whatever is done to it by what it runs."""

    def __init__(self, executor: EventLoopExecutor) -> None:
        self._loop = asyncio.new_event_loop()
        # Calls that hang keep their threads; a few of them must not stop those of all others.
        self._loop.set_default_executor(ThreadPoolExecutor(CALLS_MAX, "duly-to-thread"))
        self._executor = executor
        self.is_dead = False
        """Whether it has ended though nobody has closed it."""
        self._is_closed = False
        self.waiting: deque[AttemptWork] = deque()
        """What is to be begun: whoever takes something out begins it, or brings it elsewhere."""
        self._calls: deque[tuple[Callable[[AttemptWork], None], AttemptWork]] = deque()
        self._host: _Host | None = None
        """The last one, while another is about to follow it."""
        self._last: AttemptWork | None = None
        """The last that has ended, if nobody has rung for it."""
        self._ring_at = 0.0
        self.is_waited_for = False
        """Whether the loop was told of calls, and has not come round to them."""
        self.rings = 0
        """How often it was told."""
        self._thread = threading.Thread(target=self._run, name="duly-event-loop", daemon=True)
        self._thread.start()

    def call(self, function: Callable[[AttemptWork], None], work: AttemptWork) -> None:
        """Have the loop call a function soon; one that has ended has nothing left to call."""
        self._calls.append((function, work))
        self.ring()

    def ring(self) -> None:
        """Have the loop come round to what it was given."""
        # Once for all calls until it does: waking it takes longest.
        if not self.is_waited_for:
            self.rings += 1
            self.is_waited_for = True
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._come_round)

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

    def _come_round(self) -> None:
        self.is_waited_for = False  # before the first is taken: whoever calls later rings again
        while self._calls:
            function, work = self._calls.popleft()
            self._loop.call_soon(function, work)
        if self._host is None:
            self._begin()

    def _begin(self) -> None:
        """Begin what waits: a host does some of it, and is followed by another for the rest."""
        host, self._host = self._host, None
        if host is not None:
            host.is_kept = True  # it was not done in one go, unless it is over
            if host.work is not None:
                self._executor.keep(host.work, host)
            self._last = host.last or self._last
        seconds = self._loop.time()
        if self._last is not None and (not self.waiting or seconds >= self._ring_at):
            self._last.ring()
            self._last, self._ring_at = None, seconds + RING_SECONDS
        if self.waiting and not self._is_closed:
            self._host = _Host(self._executor, self.waiting)
            self._loop.call_soon(self._begin)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._run_until(lambda: self._is_closed)
        except BaseException as error:  # noqa: BLE001 - whoever waits for it must hear of it
            self._executor.bury(self, error)
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
