"""Controls: kill a worker of the demo by its process id, and see what becomes of its run."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from duly.app.demo_controls import DemoState, KilledWorker
from duly.demo.cast import CLOCK_CHANGE, PAYMENTS
from duly.domain.timetable.combined import zone_of
from duly.domain.timetable.explain import clock_changes
from duly.errors import Conflict

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from datetime import datetime

    from duly.app import App
    from duly.domain.timetable.timetable import Timetable

DOUBTS_SHOWN_MAX = 20
_YEAR = timedelta(days=366)


class Controls:
    """The controls of a demo whose workers are processes of this machine."""

    def __init__(self, app: App, processes: Callable[[], Collection[int]]) -> None:
        """Take the application, and who says which processes are ours: no other is killed."""
        self._app = app
        self._processes = processes
        self._killed: KilledWorker | None = None

    def state(self) -> DemoState:
        """Say where the demo stands."""
        clock_change = self._app.schedules.get(CLOCK_CHANGE)
        runs = self._app.runs.list(schedule=PAYMENTS, state="ambiguous", limit=DOUBTS_SHOWN_MAX)
        return DemoState(
            payments=PAYMENTS,
            victim=self._victim(),
            in_doubt=tuple(run.id for run in runs),
            clock_change=CLOCK_CHANGE,
            clock_changes_at=self._clock_changes_at(clock_change.timetable),
            clock_change_zone=zone_of(clock_change.timetable),
            killed=self._killed,
        )

    def kill_worker(self) -> KilledWorker:
        """Kill a worker in the middle of a payment, as a power cut would; Conflict if none is."""
        victim = self._victim()
        if victim is None:
            problem = "is not under way just now"
            raise Conflict("payment", PAYMENTS, problem, "try again in a few seconds")
        with suppress(ProcessLookupError):
            os.kill(victim.process, signal.SIGKILL)
        self._killed = victim
        return victim

    def _victim(self) -> KilledWorker | None:
        """Return who has asked for permission, and not yet said that it is done."""
        alive = {one.id: one.process for one in self._app.workers.list() if one.is_alive}
        for run in self._app.runs.list(schedule=PAYMENTS, state="running", limit=1):
            process = alive.get(run.worker or 0)
            has_begun = any(one.state == "intended" for one in self._app.inbox.effects(run.id))
            if run.worker is not None and process in self._processes() and has_begun:
                assert process is not None, "one of ours"
                return KilledWorker(worker=run.worker, process=process, run=run.id)
        return None

    def _clock_changes_at(self, timetable: Timetable) -> datetime | None:
        now = self._app.status().now
        changes = clock_changes(timetable, now, now + _YEAR)
        return changes[0].at if changes else None
