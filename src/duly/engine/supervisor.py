"""The supervisor: keeps worker processes running, and never runs a task's code itself.

A task may end its worker's process (os.abort, a segmentation fault, exhausted memory).
`Supervisor` starts another process: at once if the worker asked to be replaced, after a growing
wait if it crashed. A worker's request counts only if it comes through the worker's pipe, since a
task can exit with any status.

When the supervisor is asked to stop, it asks its workers to stop and waits for them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from duly.engine.executors.child_process import status_words
from duly.engine.executors.process_lifetime import ProcessPipe, lifeline_variables
from duly.telemetry import (
    NullTelemetry,
    WorkerProcessCrashed,
    WorkerProcessEnded,
    WorkerProcessStarted,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from duly.clock import Clock
    from duly.store.ports.dispatch import Wakeups
    from duly.telemetry import Telemetry

RECYCLE_STATUS = 75
"""With this a worker's process asks to be replaced at once: too many of its slots are lost."""
DISMISSED_STATUS = 76
"""With this one says that people have ordered it to drain: it is not replaced."""
USAGE_STATUS = 2
"""With this a process that has not come up says that it was started wrongly: starting it again
would change nothing."""
LOOK_EVERY_US = 1_000_000
"""How soon we notice that a process has said that it is over, and is still there."""
_SECOND_US = 1_000_000
_FAR_US = 3600 * _SECOND_US


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorSettings:
    """How many workers are kept going, and how soon a crashed one is replaced."""

    processes: int = 1
    backoff_min_us: int = 500_000
    backoff_max_us: int = 30 * _SECOND_US
    healthy_us: int = 60 * _SECOND_US
    """One that has lived so long has not crashed because of how it was started."""
    kill_after_us: int = 10 * _SECOND_US
    """How long workers may take after a second signal, or after they have said that they are over,
    before they are killed."""


class Supervisor:
    """Starts worker processes, replaces those that end, and stops them all in the end."""

    def __init__(  # noqa: PLR0913 - what it works with, each replaceable
        self,
        argv: Sequence[str],
        clock: Clock,
        wakeups: Wakeups,
        settings: SupervisorSettings | None = None,
        *,
        telemetry: Telemetry | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """Take the command of a worker process; `env` is added to our own variables."""
        self._env = dict(env or {})
        self._argv = tuple(argv)
        self._clock = clock
        self._wakeups = wakeups
        self._settings = settings or SupervisorSettings()
        self._telemetry = telemetry or NullTelemetry()
        self._places = [_Place() for _ in range(self._settings.processes)]
        self._signals_asked = self._signals_sent = 0
        self._kill_at: int | None = None
        self.on_over: Callable[[], None] = _nothing
        """Told once, when all workers have ended and none is to be started."""
        self.is_over = False
        self.exit_status = 0
        """The worst that a worker ended with after it was told to stop."""
        self._lifeline, self._lifeline_kept = os.pipe()

    @property
    def processes(self) -> list[int]:
        """The ids of the processes that run."""
        return [place.popen.pid for place in self._places if place.popen is not None]

    def wake(self) -> None:
        """Do nothing: a tick looks at everything."""

    def drain(self) -> None:
        """Tell workers to stop; told again, to stop at once. Safe in a signal handler."""
        self._signals_asked += 1
        self._wakeups.wake()

    def tick(self) -> int:
        """Note who has ended, and start who is missing; return when to be called next."""
        now = self._clock.monotonic_us()
        for place in self._places:
            self._look_at(place, now)
        self._pass_on_signals(now)
        if self._signals_asked:
            if not self.processes and not self.is_over:
                self.is_over = True
                self.on_over()
            return min(now + LOOK_EVERY_US, max(now, self._kill_at or now + _FAR_US))
        for place in self._places:
            if place.popen is None and not place.is_closed and now >= place.start_at:
                self._start(place, now)
        starts = [one.start_at for one in self._places if one.popen is None and not one.is_closed]
        start_at = min(starts, default=None)
        return now + LOOK_EVERY_US if start_at is None else min(now + LOOK_EVERY_US, start_at)

    def stop(self) -> None:
        """Leave nothing behind: whoever still runs is killed."""
        self._signals_asked += 1
        for place in self._places:
            if place.popen is not None:
                with suppress(ProcessLookupError):
                    place.popen.kill()
                place.popen.wait()
            if place.words is not None:
                place.words.close()
                place.words = None
        for descriptor in (self._lifeline, self._lifeline_kept):
            with suppress(OSError):
                os.close(descriptor)

    def _start(self, place: _Place, now: int) -> None:
        words = ProcessPipe()
        try:
            popen = self._launch(words)
        except OSError:
            words.close()
            raise
        finally:
            os.close(words.there)
        place.popen, place.words, place.started_at, place.kill_at = popen, words, now, None
        threading.Thread(target=self._wait_for, args=(popen,), daemon=True).start()
        self._telemetry.emit(WorkerProcessStarted(member=0, process=popen.pid))

    def _launch(self, words: ProcessPipe) -> subprocess.Popen[bytes]:
        variables = lifeline_variables(self._lifeline, words.there)
        return subprocess.Popen(  # noqa: S603 - our own program
            self._argv,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **self._env, **variables},
            pass_fds=(self._lifeline, words.there),
            # Ctrl-C in a terminal goes to a whole group: the workers hear of it from us, once.
            start_new_session=True,
        )

    def _wait_for(self, popen: subprocess.Popen[bytes]) -> None:
        popen.wait()
        self._wakeups.wake()

    def _look_at(self, place: _Place, now: int) -> None:
        """Note the end of a process; end one that is over, and lingers."""
        popen, words = place.popen, place.words
        if popen is None or words is None:
            return
        has_ended = popen.poll() is not None
        words.hear()
        if has_ended:
            words.close()
            place.popen = place.words = None
            self._note_end(place, popen, words, now)
        elif words.over_status is not None:
            if place.kill_at is None:
                place.kill_at = now + self._settings.kill_after_us
            elif now >= place.kill_at:
                popen.kill()

    def _note_end(
        self, place: _Place, popen: subprocess.Popen[bytes], words: ProcessPipe, now: int
    ) -> None:
        said, process = words.over_status, popen.pid
        status = popen.returncode if said is None else said
        is_healthy = now - place.started_at >= self._settings.healthy_us
        if is_healthy:
            place.backoff_us = 0
        if self._signals_asked:
            # One that had not yet learnt what SIGTERM means had no work to give back either.
            is_early = status == -signal.SIGTERM and self._signals_sent == 1
            worst = 0 if is_early else 1 if status < 0 else status
            self.exit_status = max(self.exit_status, worst)
            self._tell_ended(process, status_words(status))
        elif said == RECYCLE_STATUS:
            place.start_at = now
            self._tell_ended(process, "it asked to be replaced")
        elif said == DISMISSED_STATUS:
            place.is_closed = True
            self._tell_ended(process, "it was drained")
            if all(one.is_closed for one in self._places):
                self._signals_asked = 1
        elif status == USAGE_STATUS and not words.is_working and not is_healthy:
            self.exit_status = USAGE_STATUS
            self._tell_ended(process, "it was started wrongly")
            self._signals_asked = 1
        else:
            least = self._settings.backoff_min_us
            place.backoff_us = min(max(2 * place.backoff_us, least), self._settings.backoff_max_us)
            place.start_at = now + place.backoff_us
            how = status_words(status)
            self._telemetry.emit(
                WorkerProcessCrashed(member=0, process=process, how=how, again_us=place.backoff_us)
            )

    def _tell_ended(self, process: int, how: str) -> None:
        self._telemetry.emit(WorkerProcessEnded(member=0, process=process, how=how))

    def _pass_on_signals(self, now: int) -> None:
        """Tell workers what we were told: to stop, then to stop at once; kill who does not."""
        if self._kill_at is not None and now >= self._kill_at:
            self._kill_at = now + self._settings.kill_after_us
            self._send(signal.SIGKILL)
        while self._signals_sent < self._signals_asked:
            self._signals_sent += 1
            self._send(signal.SIGTERM)
            if self._signals_sent > 1 and self._kill_at is None:
                self._kill_at = now + self._settings.kill_after_us

    def _send(self, number: signal.Signals) -> None:
        for place in self._places:
            if place.popen is not None:
                with suppress(ProcessLookupError):
                    place.popen.send_signal(number)


@dataclass(slots=True)
class _Place:
    """Where one worker process is kept going."""

    popen: subprocess.Popen[bytes] | None = None
    words: ProcessPipe | None = None
    kill_at: int | None = None
    started_at: int = 0
    start_at: int = 0
    backoff_us: int = 0
    is_closed: bool = False
    """Whether nobody is to be started here any more."""


def _nothing() -> None:
    """Do nothing."""
