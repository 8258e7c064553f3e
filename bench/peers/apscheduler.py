"""APScheduler 3 on PostgreSQL or SQLite, through its SQLAlchemy store.

Chosen: one process with a pool of ten threads, its default (other numbers were not tried);
`misfire_grace_time=None` and `coalesce=False`, so that nothing that is late is dropped;
`max_instances` high. With SQLite the file is in WAL mode, synchronous=FULL. There is no call for
many, and another process's additions are not noticed, so runs are made before the scheduler is
started. It keeps no record of what was done: complete is when the task has run and its row has left
the store, whichever comes last, although a crash between the two loses the run.
"""

from __future__ import annotations

import os
import signal
import threading
from datetime import UTC, datetime
from functools import cached_property

import sqlalchemy
from apscheduler.schedulers.background import BackgroundScheduler

from bench.peers.journal import JOURNAL, Started, note_starts
from bench.peers.protocol import Promises, main, say_ready

THREADS = 10
ADD = "add_job"
"""Their word for what we call a run or a schedule; ours has other meanings."""
NOTE = note_starts() if JOURNAL in os.environ else None


def ping(number: int) -> None:
    """Note when it began; found by its name in the store, so it stands by itself."""
    assert NOTE is not None
    NOTE(number)


class Scheduler:
    """A scheduler with one task."""

    def __init__(self, url: str) -> None:
        self._url = url.replace("postgresql://", "postgresql+psycopg://")

    def prepare(self) -> None:
        if self._url.startswith("sqlite"):
            with sqlalchemy.create_engine(self._url).connect() as connection:
                connection.exec_driver_sql("PRAGMA journal_mode=WAL")
        self._made(is_paused=True).shutdown()

    def promise(self, promises: Promises) -> None:
        scheduler = self._waiting
        for number in promises.numbers:
            at = datetime.fromtimestamp(promises.due(number) / 1e6, UTC)
            # By its name: run as a program, this module is called __main__.
            getattr(scheduler, ADD)(
                "bench.peers.apscheduler:ping",
                "date",
                run_date=at,
                args=(number,),
                id=str(number),
                replace_existing=True,
            )

    def work(self) -> None:
        stopped = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: stopped.set())
        scheduler = self._made(is_paused=False)
        say_ready()
        stopped.wait()
        scheduler.shutdown(wait=False)

    def _made(self, *, is_paused: bool) -> BackgroundScheduler:
        scheduler = BackgroundScheduler(
            {
                "apscheduler.jobstores.default": {"type": "sqlalchemy", "url": self._url},
                "apscheduler.executors.default": {"type": "threadpool", "max_workers": THREADS},
                "apscheduler.job_defaults.misfire_grace_time": None,
                "apscheduler.job_defaults.coalesce": False,
                "apscheduler.job_defaults.max_instances": 1000,
                "apscheduler.timezone": "UTC",
            }
        )
        scheduler.start(paused=is_paused)
        return scheduler

    def complete(self) -> int:
        sql = "SELECT count(*) FROM apscheduler_jobs"
        waiting = int(self._look.execute(sqlalchemy.text(sql)).scalar_one())
        started = self._started.count()
        self._most = max(self._most, waiting + started)
        return min(started, self._most - waiting)

    _most = 0

    @cached_property
    def _started(self) -> Started:
        return Started()

    @cached_property
    def _waiting(self) -> BackgroundScheduler:
        return self._made(is_paused=True)

    @cached_property
    def _look(self) -> sqlalchemy.Connection:
        engine = sqlalchemy.create_engine(self._url, isolation_level="AUTOCOMMIT")
        return engine.connect()


if __name__ == "__main__":
    main(Scheduler)
