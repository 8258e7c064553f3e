"""A store in which two days have passed, with something of each kind; in virtual time."""

from __future__ import annotations

import copyreg
import threading
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING
from unittest.mock import patch

import duly
from duly import Retry, cron, every
from duly.testing import virtual_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.testing import VirtualClock

HOSTILE = """<img src=x onerror="alert(1)">'"><script>alert(2)</script>{{7*7}}"""
"""A name, an error and a payload that would like to be more than a text."""


LOCKS = {
    type(make()): lambda _, make=make: (make, ()) for make in (threading.Lock, threading.RLock)
}
"""A copy has locks of its own, and nobody holds them."""


def copied(app: duly.App, clock: VirtualClock) -> tuple[duly.App, VirtualClock]:
    """Copy an application in virtual time with its store: cheaper than to live through it again."""
    with patch.dict(copyreg.dispatch_table, LOCKS):
        return deepcopy((app, clock))


@dataclass(frozen=True, slots=True)
class TwoDays:
    """An application after two days and some hours of a small school's work; made to be copied."""

    app: duly.App
    clock: VirtualClock
    held: list[VirtualClock]
    """The clock by which tasks let time pass."""

    def copy(self) -> duly.App:
        """Return a copy to give orders in; time passes in the newest one while its tasks run."""
        app, self.held[0] = copied(self.app, self.clock)
        return app


@contextmanager
def lived_in() -> Iterator[TwoDays]:
    """Live through two days and some hours."""
    app = duly.App("memory:", actor="ada")
    held: list[VirtualClock] = []
    _declare(app, held)
    with virtual_time(app, "2026-04-01T00:00") as clock:
        held.append(clock)
        _promise(app)
        clock.advance("2d")
        app.schedules.pause("in-tokyo", reason="golden week")
        clock.advance("9h")
        _order(app, clock)
        yield TwoDays(app, clock, held)


def _declare(app: duly.App, held: list[VirtualClock]) -> None:
    def passes(duration: str) -> None:
        held[0].advance(duration)

    @app.task(retry=Retry(attempts=3, base="1m"))
    def report(run: duly.Run) -> dict[str, int]:
        run.log("reading rows")
        run.progress(40, 100, "rows")
        passes("90s")
        run.progress(100, 100, "rows")
        run.log("written", level="warning")
        return {"rows": 100}

    @report.verify
    def look(run: duly.Run) -> duly.Verdict:
        return duly.Verdict.present({"found": run.result, HOSTILE: 1})

    @app.task(retry=Retry(attempts=2, base="20s"))
    def fetch(run: duly.Run) -> str:
        passes("25s")
        if run.scheduled_for.hour % 7 == 3 and run.attempt == 1:
            raise ConnectionError("the registry did not answer")
        return "ok"

    @app.task(retry=Retry(attempts=1))
    def fail(how: str = "badly") -> None:
        raise ValueError(how)

    @app.task(effects="unsafe")
    def settle(run: duly.Run) -> None:
        run.expect(["anna", "ben", "carla"])
        run.checkpoint({"page": 3})
        run.once("pay:anna", lambda: {"receipt": 17})
        run.done("anna")
        run.progress(1, 3, "families")
        passes("25s")
        with run.effect("pay:ben"):
            raise ConnectionResetError("no answer after the request was sent")

    @app.task(queue="mail", retry=Retry(attempts=5, base="6h", cap="6h"))
    def remind(class_id: int) -> None:
        passes("2s")
        if class_id % 4 == 3:
            raise TimeoutError(f"mail server is busy; class {class_id}")


def _promise(app: duly.App) -> None:
    made = {
        "nightly-report": ("report", cron("0 2 * * *", tz="Europe/Paris")),
        "attendance-sync": ("fetch", every("15m")),
        "timetable-export": ("report", cron("0 9 * * 1-5", tz="Europe/Paris")),
        "parents-newsletter": ("report", cron("0 9 * * 1-5", tz="Europe/Paris")),
        "canteen-order": ("fetch", cron("0 9 * * *", tz="Europe/Paris")),
        "in-tokyo": ("report", cron("30 9 * * 1-5", tz="Asia/Tokyo")),
        # At an instant of its own: runs of one instant go one after the other, in an order of chance.
        "fees": ("settle", cron("20 8 * * *", tz="Europe/Paris")),
        "broken-import": ("fail", every("2h")),
    }
    for name, (task, timetable) in made.items():
        app.schedules.create(name, app.call(task), timetable)
    app.schedules.create(HOSTILE, app.call("fail", {"how": HOSTILE}), every("6h"))


def _order(app: duly.App, clock: VirtualClock) -> None:
    for number in range(8):
        app.enqueue(app.call("remind", {"class_id": number}), key=f"class-{number}")
    clock.advance("1m")
    app.schedules.trigger("nightly-report", reason="the head asked")
    clock.advance("3m")
    report = app.runs.list(schedule="nightly-report", limit=1)[0]
    app.inbox.rerun(report.id, reason="one number was wrong", repair=True)
    clock.advance("5m")
    app.queues.pause("mail", reason="mail server moves")
    for number in range(20, 24):
        app.enqueue(app.call("remind", {"class_id": number}))
    clock.advance("3m")
