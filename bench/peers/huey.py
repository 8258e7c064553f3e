"""Huey on SQLite or PostgreSQL, as its documentation says is fastest and durable.

Chosen: WAL, its default, with `fsync=True`, which is synchronous=FULL; four threads, which is what
its documentation starts with (other numbers were not tried); short poll delays. Its scheduler looks
once a second, and can't be told to look more often. There is no call for many. A task leaves the
queue before it runs and so may be lost; complete is when its result is stored.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from huey import PostgresHuey, SqliteHuey

from bench.peers.journal import note_starts
from bench.peers.protocol import Promises, main, say_ready

if TYPE_CHECKING:
    from collections.abc import Callable

WORKERS = 4


def _do_nothing(number: int) -> None:
    """Stand for the task where it is only called."""


class Huey:
    """A queue with one task."""

    def __init__(self, url: str) -> None:
        ways = {"results": True, "store_none": True, "utc": True}
        if url.startswith("sqlite"):
            path = url.removeprefix("sqlite:///")
            self._huey = SqliteHuey("bench", filename=path, fsync=True, timeout=60, **ways)
        else:
            self._huey = PostgresHuey("bench", dsn=url, **ways)

    def prepare(self) -> None:
        """Do nothing: tables are made when it is opened."""

    def promise(self, promises: Promises) -> None:
        task = self._task(_do_nothing)
        for number in promises.numbers:
            # With its zone: of a naive one Huey drops the fraction of the second, and is early.
            at = datetime.fromtimestamp(promises.due(number) / 1e6, UTC)
            task.schedule((number,), eta=at)

    def work(self) -> None:
        logging.getLogger("huey").setLevel(logging.ERROR)
        self._task(note_starts())
        consumer = self._huey.create_consumer(
            workers=WORKERS,
            worker_type="thread",
            periodic=False,
            initial_delay=0.005,
            max_delay=0.02,
            scheduler_interval=1,
            graceful_signal="TERM",
        )
        say_ready()
        consumer.run()

    def complete(self) -> int:
        return int(self._huey.result_count())

    def _task(self, body: Callable[[int], None]):
        # Defined here in both processes, because a task is found by its module and name.
        def ping(number: int) -> None:
            body(number)

        return self._huey.task()(ping)


if __name__ == "__main__":
    main(Huey)
