"""DBOS Transact on PostgreSQL or SQLite, as its documentation says is fastest.

Chosen: an async workflow without steps, enqueued by `DBOSClient` with a delay on a queue without
limits; the queue is polled every 50 ms instead of once a second. What is delayed becomes due once
a second, which can't be set. Runs in bulk are made by `enqueue_in_transaction`, a thousand to a
transaction, as there is no call for many. Complete: the workflow's status is SUCCESS.
"""

from __future__ import annotations

import signal
import threading
from functools import cached_property

import sqlalchemy
from dbos import DBOS, DBOSClient

from bench.peers.journal import note_starts
from bench.peers.protocol import Promises, main, now_us, say_ready

POLL_SECONDS = 0.05
CHUNK = 1000
VERSION = "bench"


class Dbos:
    """An application with one workflow and one queue."""

    def __init__(self, url: str) -> None:
        self._url = url.replace("postgresql://", "postgresql+psycopg://")
        self._schema = "dbos." if url.startswith("postgresql") else ""

    def prepare(self) -> None:
        self._launch()
        DBOS.destroy()

    def promise(self, promises: Promises) -> None:
        client, engine = self._client, self._engine
        for numbers in promises.chunks(1 if promises.is_single else CHUNK):
            if promises.is_single:
                client.enqueue(self._options(promises.due(numbers[0])), numbers[0])
                continue
            with engine.begin() as connection:
                for one in numbers:
                    options = self._options(promises.due(one))
                    client.enqueue_in_transaction(connection, options, one)

    def _options(self, due_at: int) -> dict[str, object]:
        return {
            "workflow_name": "ping",
            "queue_name": "bench",
            "app_version": VERSION,
            "delay_seconds": (due_at - now_us()) / 1e6,
        }

    def work(self) -> None:
        note = note_starts()

        @DBOS.workflow(name="ping")
        async def ping(number: int) -> None:
            note(number)

        stopped = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: stopped.set())
        self._launch()
        say_ready()
        stopped.wait()
        DBOS.destroy(workflow_completion_timeout_sec=0)

    def _launch(self) -> None:
        DBOS(
            config={
                "name": "bench",
                "system_database_url": self._url,
                "application_version": VERSION,
                "log_level": "ERROR",
            }
        )
        DBOS.launch()
        DBOS.register_queue("bench", polling_interval_sec=POLL_SECONDS)

    def complete(self) -> int:
        sql = f"SELECT count(*) FROM {self._schema}workflow_status WHERE status = 'SUCCESS'"  # noqa: S608
        return int(self._look.execute(sqlalchemy.text(sql)).scalar_one())

    @cached_property
    def _client(self) -> DBOSClient:
        return DBOSClient(system_database_url=self._url)

    @cached_property
    def _engine(self) -> sqlalchemy.Engine:
        return sqlalchemy.create_engine(self._url)

    @cached_property
    def _look(self) -> sqlalchemy.Connection:
        engine = sqlalchemy.create_engine(self._url, isolation_level="AUTOCOMMIT")
        return engine.connect()


if __name__ == "__main__":
    main(Dbos)
