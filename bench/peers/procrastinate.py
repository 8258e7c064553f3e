"""Procrastinate on PostgreSQL, as its documentation says is fastest.

Chosen: async tasks with a concurrency of 30 over a pool of as many connections (the how-to on
concurrency: raise it for short async tasks; 1, 5 and 10 were slower here, more was not tried);
LISTEN and NOTIFY on; `fetch_job_polling_interval` of 20 ms instead of 5 s, because what is deferred
to an instant is found by polling alone; runs are made by `batch_defer`. `delete_jobs` is "never",
the default: what was done stays on record, as with Duly. Complete: the status is "succeeded", which
is committed.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import procrastinate
import psycopg

from bench.peers.journal import note_starts
from bench.peers.protocol import Promises, main, say_ready

CONCURRENCY = 30
CHUNK = 5000


class Procrastinate:
    """An application with one task."""

    def __init__(self, url: str) -> None:
        self._url = url
        pool = {"min_size": 1, "max_size": CONCURRENCY + 2}
        connector = procrastinate.PsycopgConnector(conninfo=url, **pool)
        self._app = procrastinate.App(connector=connector)
        self._loop = asyncio.new_event_loop()
        self._is_open = False

    def prepare(self) -> None:
        with self._app.open():
            self._app.schema_manager.apply_schema()

    def promise(self, promises: Promises) -> None:
        self._loop.run_until_complete(self._promise(promises))

    async def _promise(self, promises: Promises) -> None:
        size = 1 if promises.is_single or promises.step_us else CHUNK
        if not self._is_open:
            await self._app.open_async()
            self._is_open = True
        for numbers in promises.chunks(size):
            at = datetime.fromtimestamp(promises.due(numbers[0]) / 1e6, UTC)
            deferrer = self._app.configure_task("ping", schedule_at=at)
            if size == 1:
                await deferrer.defer_async(number=numbers[0])
            else:
                await deferrer.batch_defer_async(*({"number": one} for one in numbers))

    def work(self) -> None:
        note = note_starts()

        @self._app.task(name="ping")
        async def ping(number: int) -> None:
            note(number)

        asyncio.run(self._work())

    async def _work(self) -> None:
        async with self._app.open_async():
            say_ready()
            ways = {"concurrency": CONCURRENCY, "fetch_job_polling_interval": 0.02}
            await self._app.run_worker_async(listen_notify=True, **ways)

    def complete(self) -> int:
        sql = "SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'"
        ((count,),) = self._look.execute(sql).fetchall()
        return int(count)

    @cached_property
    def _look(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self._url, autocommit=True)


if __name__ == "__main__":
    main(Procrastinate)
