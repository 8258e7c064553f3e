"""Celery on Valkey (or Redis), as its guide "Optimizing" says is fastest, made durable.

Chosen: one process with a pool of twenty threads (500 at one instant, on a busy machine: 185 a
second; prefork with one process 95, solo 18); prefetch without limit, as the guide says for many
short tasks; results ignored, events and gossip off. Durable: the server has `appendonly yes` and
`appendfsync always`, and tasks are acknowledged late, so that complete is when the acknowledged
message is gone from the broker, on disk. Runs are made by `apply_async` with an ETA over one
connection; there is no call for many.
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import celery
import redis
from celery.signals import worker_ready

from bench.peers.journal import note_starts
from bench.peers.protocol import Promises, main, say_ready

if TYPE_CHECKING:
    from collections.abc import Callable

VISIBLE_SECONDS = 3600


def _do_nothing(number: int) -> None:
    """Stand for the task where it is only called."""


class Celery:
    """An application with one task."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._app = celery.Celery("bench", broker=url)
        self._app.conf.update(
            task_ignore_result=True,
            task_acks_late=True,
            worker_prefetch_multiplier=0,
            worker_eta_task_limit=None,
            worker_send_task_events=False,
            worker_redirect_stdouts=False,
            worker_enable_remote_control=False,
            broker_transport_options={"visibility_timeout": VISIBLE_SECONDS},
            broker_connection_retry_on_startup=True,
        )

    def prepare(self) -> None:
        """Do nothing: queues are made when they are used."""

    def promise(self, promises: Promises) -> None:
        task = self._task(_do_nothing)
        with self._app.producer_pool.acquire(block=True) as producer:
            for number in promises.numbers:
                at = datetime.fromtimestamp(promises.due(number) / 1e6, UTC)
                task.apply_async((number,), eta=at, producer=producer)

    def work(self) -> None:
        logging.disable(logging.WARNING)
        self._task(note_starts())
        worker_ready.connect(lambda **_: say_ready(), weak=False)
        ways = (
            "--pool=threads",
            "--concurrency=20",
            "--without-gossip",
            "--without-mingle",
            "--without-heartbeat",
        )
        sys.argv = ["celery"]
        self._app.worker_main(["worker", "--loglevel=ERROR", *ways])

    def complete(self) -> int:
        waiting, taken = self._look.llen("celery"), self._look.hlen("unacked")
        return -(int(waiting) + int(taken))

    def _task(self, body: Callable[[int], None]):
        return self._app.task(name="ping")(body)

    @cached_property
    def _look(self) -> redis.Redis[Any]:
        return redis.Redis.from_url(self._url)


if __name__ == "__main__":
    main(Celery)
