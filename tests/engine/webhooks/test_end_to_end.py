"""From a promise to its record: webhooks and secrets through a worker and a real store."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

import duly
from duly.domain.enums import TaskKind
from duly.domain.outbound_urls import read_allow_list
from duly.engine.executors.thread_executor import ThreadExecutor
from duly.engine.executors.webhook_executor import WebhookExecutor, WebhookSettings
from duly.engine.manual_clock import ManualClock
from duly.engine.worker import Worker, WorkerSettings
from duly.store.sqlite import SqliteStore
from duly.testing import SeededDraws
from tests.engine.webhooks.rig import KEY, TOKEN
from tests.waiting import wait_until

if TYPE_CHECKING:
    from contextlib import ExitStack

    from duly.engine.executors.executor import Executor


class House:
    """An application on a store in a file, with a worker that sends webhooks."""

    def __init__(self, folder, stack: ExitStack) -> None:
        self.folder = folder
        self.clock = ManualClock()
        self.app = duly.App(store=SqliteStore(folder / "duly.db", self.clock), clock=self.clock)
        self._stack = stack
        stack.callback(self.app.close)

    def worker(self, *allow: str) -> Worker:
        settings = WebhookSettings(
            read_secret=self.app.secret_sources().read_declared, allow=read_allow_list(allow)
        )
        executors: dict[TaskKind, Executor] = {
            TaskKind.WEBHOOK: WebhookExecutor(self.clock, settings),
            TaskKind.THREAD: ThreadExecutor(2),
        }
        worker = Worker(
            self.app.store,
            self.clock,
            self.app.catalogue(),
            executors,
            WorkerSettings(slots=2),
            draws=SeededDraws(),
        )
        self._stack.callback(worker.stop)
        return worker

    def until(self, worker: Worker, run: duly.EnqueuedRun, *states: str) -> duly.Run:
        """Let a worker work until a run is in one of these states."""

        def found() -> duly.Run | None:
            worker.tick()
            found = self.app.runs.get(run.id)
            if str(found.state) in states:
                return found
            if not worker.running:  # no lease runs out while a receiver takes its time
                self.clock.advance("10ms")
            return None

        return wait_until(f"the run is {' or '.join(states)}", found)

    def written(self) -> bytes:
        """Return every byte that the store has on disk."""
        return b"".join(
            path.read_bytes() for path in sorted(self.folder.iterdir()) if path.is_file()
        )


@pytest.fixture
def house(tmp_path, closing, monkeypatch):
    monkeypatch.setenv("HOOK", KEY)
    monkeypatch.setenv("DULY_SECRET_TOKEN", TOKEN)
    return House(tmp_path, closing)


def test_a_webhook_is_sent_and_its_answer_recorded(house, receive):
    receiver = receive()
    hook = house.app.webhook(
        "order.paid", receiver.url, secret=duly.secret("env:HOOK"), parameters={"order": int}
    )
    run = house.app.enqueue(hook.bind(order=42))
    found = house.until(house.worker(receiver.place), run, "succeeded")

    assert {"status": 204} == found.result
    assert [str(run.id)] == [one.headers["webhook-id"] for one in receiver.seen]


def test_a_webhook_to_a_private_address_is_dead_and_says_why(house, receive):
    receiver = receive()
    hook = house.app.webhook("order.paid", receiver.url, secret=duly.secret("env:HOOK"))
    run = house.app.enqueue(hook)
    found = house.until(house.worker(), run, "dead")

    assert ("refused-address", []) == (found.reason, receiver.seen)
    assert "a loopback address" in (found.error or "")


def test_a_receiver_that_is_gone_has_its_schedule_paused(house, receive):
    """It has said that it wants no more, and is called no more."""

    async def gone(request):
        return web.Response(status=410)

    receiver = receive(gone)
    hook = house.app.webhook("order.paid", receiver.url, secret=duly.secret("env:HOOK"))
    house.app.schedules.create("hourly", hook, duly.every("1h"))
    run = house.app.schedules.trigger("hourly")
    worker = house.worker(receiver.place)
    found = house.until(worker, run, "failed")
    worker.tick()

    seen = house.app.schedules.get("hourly")
    assert "gone" == found.reason
    assert (
        "paused",
        "its receiver wants no more of it: task 'order.paid' was answered 410 (Gone)",
    ) == (
        seen.status,
        seen.reason,
    )


def test_a_receiver_that_asks_to_wait_is_waited_for(house, receive):
    async def busy(request):
        return web.Response(status=429, headers={"Retry-After": "120"})

    receiver = receive(busy)
    hook = house.app.webhook("order.paid", receiver.url, secret=duly.secret("env:HOOK"))
    run = house.app.enqueue(hook)
    found = house.until(house.worker(receiver.place), run, "retrying")
    [attempt] = house.app.runs.attempts(run.id)

    assert ("retry-after", "failed") == (attempt.reason, str(attempt.state))
    assert found.next_at is not None
    assert attempt.ended_at is not None
    assert 120 == (found.next_at - attempt.ended_at).total_seconds()


@pytest.mark.parametrize(
    ("status", "state"),
    [
        (204, "succeeded"),
        (400, "retrying"),
        (429, "retrying"),
        (409, "ambiguous"),
        (500, "ambiguous"),
        (503, "ambiguous"),
    ],
)
def test_an_unsafe_webhook_is_sent_again_only_where_it_was_refused(house, receive, status, state):
    """INV-11: all of it is one effect; a receiver that failed may have done it."""

    async def answer(request):
        return web.Response(status=status)

    receiver = receive(answer)
    hook = house.app.webhook(
        "order.paid", receiver.url, secret=duly.secret("env:HOOK"), effects="unsafe"
    )
    run = house.app.enqueue(hook)
    house.until(house.worker(receiver.place), run, state)
    [attempt] = house.app.runs.attempts(run.id)

    assert attempt.effects_at is not None


def test_an_unsafe_webhook_that_found_nobody_is_sent_again(house, receive):
    """Nothing was sent."""
    with socket.socket() as silent:  # bound, so that nothing else listens there
        silent.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{silent.getsockname()[1]}"
        hook = house.app.webhook(
            "order.paid", f"http://{place}", secret=duly.secret("env:HOOK"), effects="unsafe"
        )
        run = house.app.enqueue(hook)

        assert "error" == house.until(house.worker(place), run, "retrying").reason


def test_a_secret_is_nowhere_in_the_store_whatever_code_and_receivers_do_with_it(house, receive):
    """Looked for in every byte that was written."""

    async def echo(request):
        return web.Response(status=500, text=f"{request.headers['Authorization']} {KEY}")

    receiver = receive(echo)
    hook = house.app.webhook(
        "order.paid",
        receiver.url,
        secret=duly.secret("env:HOOK"),
        headers={"Authorization": duly.secret("env:DULY_SECRET_TOKEN")},
        retry=1,
    )

    @house.app.task(retry=1)
    def careless(token: duly.Secret, run: duly.Run) -> str:
        run.log(f"shown: {token}")
        run.log(f"told: {token.reveal()}")
        raise ValueError(f"could not log in with {token.reveal()}")

    @house.app.task
    def returning(token: duly.Secret) -> dict[str, str]:
        return {"token": token.reveal()}

    reference = duly.secret("env:DULY_SECRET_TOKEN")
    runs = [
        house.app.enqueue(hook),
        house.app.enqueue(careless.bind(token=reference)),
        house.app.enqueue(returning.bind(token=reference)),
    ]
    worker = house.worker(receiver.place)
    ends = [house.until(worker, run, "dead", "succeeded") for run in runs]
    house.clock.advance("5s")
    worker.tick()

    assert ["dead", "dead", "succeeded"] == [str(end.state) for end in ends]
    assert TOKEN == receiver.seen[0].headers["authorization"]
    assert "could not log in with ***" in (ends[1].error or "")
    assert {"token": "***"} == ends[2].result
    written = house.written()
    assert b"env:DULY_SECRET_TOKEN" in written
    assert b"canary" not in written
    assert KEY.encode() not in written


def test_arguments_can_not_lend_the_workers_environment_to_a_task(house, monkeypatch):
    monkeypatch.setenv("DATABASE_URL", TOKEN)

    @house.app.task
    def returning(token: duly.Secret) -> str:
        return token.reveal()

    run = house.app.enqueue(returning.bind(token=duly.secret("env:DATABASE_URL")))
    found = house.until(house.worker(), run, "dead")

    assert "bad-arguments" == found.reason
    assert "env:DATABASE_URL" in (found.error or "")
    assert os.environ["DATABASE_URL"] not in (found.error or "")
