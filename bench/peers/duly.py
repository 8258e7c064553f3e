"""Duly on PostgreSQL or SQLite, as anybody starts it: one `duly dispatcher`, one `duly worker`.

Chosen: an async task; two thousand slots, of which a crowd fills half by one claim while the
next is on its way; everything else is the default. Runs in bulk are made by
`enqueue_many`, as many at a time as an order takes. Complete: the outcome is on disk.
"""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

import apsw
import psycopg

import duly
from bench.peers.journal import JOURNAL, Started, note_starts
from bench.peers.protocol import Promises, main

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly import Task

SLOTS = 2000
CHUNK = 10_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
CLAIMED = "SELECT count(*) FROM duly.claims"
"""What has begun and is no longer claimed is over: a claim goes when the outcome is committed.
Counting outcomes would take a second in a long history."""


def made(url: str | None = None) -> tuple[duly.App, Task[..., ..., Any]]:
    """Return an application and its one task."""
    app = duly.App(url, name="bench")
    note = note_starts() if JOURNAL in os.environ else None

    @app.task(name="ping")
    async def ping(number: int = 0) -> None:
        """Note when it began."""
        assert note is not None
        note(number)

    return app, ping


app, _ = made()
"""What the worker is told to know: bench.peers.duly:app."""


def commands(url: str, *, dispatchers: int = 1, workers: int = 1) -> list[list[str]]:
    """Return what is started: processes as anybody has them."""
    duly_program = [sys.executable, "-m", "duly"]
    worker = ("--app", "bench.peers.duly:app", "--slots", str(SLOTS))
    return [
        *[[*duly_program, "dispatcher", "--json", "--url", url] for _ in range(dispatchers)],
        *[[*duly_program, "worker", "--json", "--url", url, *worker] for _ in range(workers)],
    ]


class Duly:
    """An application with one task, and its store."""

    def __init__(self, url: str) -> None:
        self._url = url

    def prepare(self) -> None:
        with made(self._url)[0] as one:
            one.store.note_tzdata(duly.default_zones().version)

    def promise(self, promises: Promises) -> None:
        one, ping = self._made
        if promises.is_single or promises.step_us:
            for number in promises.numbers:
                one.enqueue(ping.bind(number), at=_instant(promises.due(number)))
            return
        at = _instant(promises.due_at)
        for numbers in promises.chunks(CHUNK):
            one.enqueue_many((ping.bind(number) for number in numbers), at=at)

    def work(self) -> None:
        raise NotImplementedError("it is started by `commands`")

    def complete(self) -> int:
        # In this order: what begins meanwhile may be claimed, but is not counted as begun.
        started = self._started.count()
        return started - self._claimed()

    @cached_property
    def _started(self) -> Started:
        return Started()

    @cached_property
    def _made(self) -> tuple[duly.App, Task[..., ..., Any]]:
        return made(self._url)

    @cached_property
    def _claimed(self) -> Callable[[], int]:
        if self._url.startswith("sqlite"):
            path = self._url.removeprefix("sqlite:///")
            file = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
            sql = CLAIMED.replace("duly.", "duly_")
            return lambda: int(file.execute(sql).get)
        database: psycopg.Connection[Any] = psycopg.connect(self._url, autocommit=True)
        return lambda: int(database.execute(CLAIMED).fetchall()[0][0])


def _instant(at_us: int) -> datetime:
    return EPOCH + timedelta(microseconds=at_us)


if __name__ == "__main__":
    main(Duly)
