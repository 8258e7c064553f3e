"""A school at work on a real store, SQLite or PostgreSQL, by a clock that is set by hand.

For orders that a browser gives: each test makes what it orders about, and lets time pass.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duly
from duly import Retry, every
from duly.engine.manual_clock import ManualClock
from duly.store.postgres import PostgresStore
from duly.store.sqlite import SqliteStore
from duly.testing import VirtualClock
from duly.timetable.instants import SECOND_US
from duly_conformance import alerts
from tests.postgres.database_clock import DatabaseClock
from tests.postgres.reused_databases import with_schema
from tests.store.sqlite.made_file import made_file
from tests.web.conftest import Site, served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from duly.api.views import Alert
    from tests.postgres.server import Databases

WARM_UP_US = 5 * SECOND_US
START_US = 1_806_138_000 * SECOND_US
"""2027-03-27T09:00Z: the day before the clocks change in Europe."""


@dataclass
class Workplace:
    """A console that is served, and the time that passes in it."""

    app: duly.App
    site: Site
    clock: VirtualClock

    def schedule(self, name: str, task: str = "report", rule: str = "10m") -> duly.Schedule:
        """Make a schedule."""
        return self.app.schedules.create(name, self.app.call(task), every(rule))

    def run(self, task: str, **arguments: Any) -> duly.Run:
        """Order a run, and let it come to rest."""
        made = self.app.enqueue(self.app.call(task, arguments))
        self.clock.advance("5s")
        return self.app.runs.get(made.id)

    def state(self, run: duly.Run) -> str:
        """Return what has become of a run."""
        return str(self.app.runs.get(run.id).state)

    def alert(self, subject: str) -> Alert:
        """Have an alert raised, as a watcher would."""
        store = self.app.store
        alerts.look(store, alerts.watch(store), alerts.condition(subject))
        (found,) = [one for one in self.app.alerts.list() if one.subject == subject]
        return found


@contextmanager
def on_sqlite(folder: Path) -> Iterator[Workplace]:
    """Have it on a file."""
    clock = ManualClock(START_US)
    store = SqliteStore(made_file(folder / "duly.db", clock), clock)
    with at_work(store, clock) as work:
        yield work
    store.close()


@contextmanager
def on_postgres(server: Databases) -> Iterator[Workplace]:
    """Have it in a database of its own."""
    url = server.create_database(server.prepared(with_schema))
    with DatabaseClock(url, START_US) as clock:
        store = PostgresStore(url, clock)
        with at_work(store, clock) as work:
            yield work
        store.close()
    server.drop_database(url)


@contextmanager
def at_work(store: Any, clock: ManualClock) -> Iterator[Workplace]:
    """Serve a console on a store of which an hour has passed."""
    app = duly.App("memory:", actor="ada")
    declare(app)
    virtual = VirtualClock(app, store, clock, "UTC")
    with app.standing_in(store, clock, virtual.rest):
        virtual.open(clock.now_us() + WARM_UP_US)
        app.reconcile()
        app.queues.pause("mail", reason="the mail server moves")
        app.schedules.create("often", app.call("report"), every("10m"))
        virtual.advance("1h")
        try:
            with served(app) as site:
                yield Workplace(app, site, virtual)
        finally:
            virtual.close()


def declare(app: duly.App) -> None:
    """Declare tasks of which each ends in its own way."""

    @app.task
    def report(run: duly.Run) -> dict[str, int]:
        run.log("written")
        return {"rows": 100}

    @report.verify
    def look(run: duly.Run) -> duly.Verdict:
        return duly.Verdict.present(run.result)

    @app.task
    def digest(run: duly.Run) -> dict[str, int]:
        run.log("nothing new since the last one: nothing is sent")
        return {"new": 0}

    @app.task(queue="mail")
    def remind(class_id: int) -> None: ...

    @app.task(retry=Retry(attempts=1))
    def fail(how: str = "badly") -> None:
        raise ValueError(how)

    @app.task(retry=Retry(attempts=5, base="6h", cap="6h"))
    def fetch() -> None:
        raise ConnectionError("the registry did not answer")

    @app.task(effects="unsafe")
    def settle(run: duly.Run) -> None:
        run.checkpoint({"page": 3})
        run.once("pay:anna", lambda: {"receipt": 17})
        with run.effect("pay:ben"):
            raise ConnectionResetError("no answer after the request was sent")

    @settle.verify
    def ask_the_bank(run: duly.Run) -> duly.Verdict:
        return duly.Verdict.unknown({"bank": "is closed"})

    @app.task(destination="bank", retry=Retry(attempts=100, base="1h", cap="1h"))
    def charge(number: int) -> None:
        raise ConnectionError("nobody answers")
