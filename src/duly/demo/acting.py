"""Acting: runs tasks' code in virtual time, any number at once, and only one at any moment.

Each attempt has a thread of its own. It goes on until its code rests or ends, while whoever started
it waits; when the clock has reached the end of its rest, it goes on from there. So what a task logs
and when it ends lie apart by the time that it takes, and nobody sleeps.
"""

from __future__ import annotations

import threading
from functools import partial
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from duly.demo.pacing import paced_by
from duly.engine.executors.calling import called, carried_out

if TYPE_CHECKING:
    from duly.clock import Clock
    from duly.engine.work import Work


class Abandoned(BaseException):
    """Raised in code that nobody waits for any more."""


class VirtualExecutor:
    """Runs each work until it rests, and goes on with it when its rest is over."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._resting: list[tuple[int, int, _Actor]] = []
        self._idle: list[_Actor] = []
        self._count = 0
        self.ended = 0
        """How many have ended."""

    def start(self, work: Work) -> None:
        """Begin, up to the first rest."""
        actor = self._idle.pop() if self._idle else _Actor(self._clock)
        actor.work = work
        self._play(actor)

    def next_at(self) -> int | None:
        """Return when the first rest is over; None when nobody rests."""
        return self._resting[0][0] if self._resting else None

    def go_on(self) -> bool:
        """Go on with all whose rest is over; say whether there were any."""
        has_gone_on = False
        while self._resting and self._resting[0][0] <= self._clock.now_us():
            self._play(heappop(self._resting)[2])
            has_gone_on = True
        return has_gone_on

    def ask(self, work: Work) -> None:
        """Let its code look at once whether it is to stop."""
        for actor in self._taken_out(work):
            self._play(actor)

    def insist(self, work: Work) -> bool:
        """End its code where it rests."""
        for actor in self._taken_out(work):
            actor.is_abandoned = True
            self._play(actor)
        return True

    def close(self) -> None:
        """End all that rests where it is, and the threads."""
        while self._resting:
            actor = heappop(self._resting)[2]
            actor.is_abandoned = True
            self._play(actor)
        for actor in self._idle:
            actor.end()
        self._idle.clear()

    def _taken_out(self, work: Work) -> list[_Actor]:
        found = [actor for _, _, actor in self._resting if actor.work is work]
        self._resting = sorted(one for one in self._resting if one[2] not in found)
        return found

    def _play(self, actor: _Actor) -> None:
        wake_at = actor.play()
        if wake_at is None:
            self._idle.append(actor)
            self.ended += 1
        else:
            self._count += 1
            heappush(self._resting, (wake_at, self._count, actor))


class _Actor:
    """A thread that runs one attempt after the other, and only while its executor waits for it."""

    def __init__(self, clock: Clock) -> None:
        self.work: Work | None = None
        """What it is to run; None for nothing any more."""
        self.is_abandoned = False
        """Whether the code is to end where it rests."""
        self._clock = clock
        self._turn, self._answer = _closed(), _closed()
        self._wake_at: int | None = None
        self._thread = threading.Thread(target=self._act, name="duly-past", daemon=True)
        self._thread.start()

    def play(self) -> int | None:
        """Go on until the work rests or ends; return until when it rests."""
        self._wake_at = None
        self._turn.release()
        self._answer.acquire()
        return self._wake_at

    def end(self) -> None:
        """Let the thread end."""
        self.work = None
        self._turn.release()
        self._thread.join()

    def _act(self) -> None:
        while True:
            self._turn.acquire()
            if (work := self.work) is None:
                return
            self.is_abandoned = False
            with paced_by(self._rest):
                work.ended(carried_out(partial(called, work)))
            self._answer.release()

    def _rest(self, duration_us: int) -> None:
        if self.is_abandoned:
            raise Abandoned
        self._wake_at = self._clock.now_us() + duration_us
        self._answer.release()
        self._turn.acquire()
        if self.is_abandoned:
            raise Abandoned


def _closed() -> threading.Lock:
    """Return a lock for one thread to wait at until another opens it; cheaper than a semaphore."""
    lock = threading.Lock()
    lock.acquire()
    return lock
