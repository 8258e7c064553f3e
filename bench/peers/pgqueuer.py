"""PgQueuer on PostgreSQL, as its guide "Performance Tuning" and its own benchmark say is fastest.

Chosen: the asyncpg driver (their benchmark: 1.7 times psycopg) on uvloop; one connection and one
queue manager; batches of 500, because tasks are short (1,000 were no faster in three pairs);
`pgq autovac` settings; durability "durable", the default. `dequeue_timeout` may stay long: the
manager itself shortens it to the next deferred run. Runs are made by one `enqueue` of lists.
Complete: the row has left the queue table for the log, in one statement.
"""

from __future__ import annotations

import asyncio
import signal
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import asyncpg
import uvloop
from pgqueuer.db import AsyncpgDriver
from pgqueuer.qm import QueueManager
from pgqueuer.queries import Queries

from bench.peers.journal import note_starts
from bench.peers.protocol import Promises, main, now_us, say_ready

if TYPE_CHECKING:
    from collections.abc import Coroutine

BATCH = 500
CHUNK = 5000


class PgQueuer:
    """A queue with one entry point."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._loop = uvloop.new_event_loop()
        self._look: Any = None
        self._producer: Any = None

    def prepare(self) -> None:
        self._run(self._prepare())

    async def _prepare(self) -> None:
        queries = Queries(AsyncpgDriver(await self._connect()))
        await queries.install()
        await queries.optimize_autovacuum()

    def promise(self, promises: Promises) -> None:
        self._run(self._promise(promises))

    async def _promise(self, promises: Promises) -> None:
        if self._producer is None:
            self._producer = Queries(AsyncpgDriver(await self._connect()))
        queries = self._producer
        for numbers in promises.chunks(1 if promises.is_single else CHUNK):
            now = now_us()
            after = [timedelta(microseconds=promises.due(one) - now) for one in numbers]
            payloads = [str(one).encode() for one in numbers]
            if promises.is_single:
                await queries.enqueue("ping", payloads[0], execute_after=after[0])
            else:
                names, priorities = ["ping"] * len(numbers), [0] * len(numbers)
                await queries.enqueue(names, payloads, priorities, after)

    def work(self) -> None:
        self._run(self._work())

    async def _work(self) -> None:
        note = note_starts()
        manager = QueueManager(Queries(AsyncpgDriver(await self._connect())))

        @manager.entrypoint("ping")
        async def ping(run: Any) -> None:
            note(int(run.payload))

        self._loop.add_signal_handler(signal.SIGTERM, manager.shutdown.set)
        say_ready()
        await manager.run(batch_size=BATCH, dequeue_timeout=timedelta(seconds=30))

    def complete(self) -> int:
        if self._look is None:
            self._look = self._run(self._connect())
        found = self._run(self._look.fetchval("SELECT count(*) FROM pgqueuer"))
        return -int(found)

    async def _connect(self) -> Any:
        return await asyncpg.connect(self._url)

    def _run(self, what: Coroutine[Any, Any, Any]) -> Any:
        asyncio.set_event_loop(self._loop)
        return self._loop.run_until_complete(what)


if __name__ == "__main__":
    main(PgQueuer)
