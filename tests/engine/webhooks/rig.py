"""A place to send webhooks from and to: real servers on loopback, and attempts that are recorded."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from aiohttp import web

from duly.domain.enums import Lane, Origin, RunState, TaskKind
from duly.domain.ids import RunId, ordered_run_id
from duly.domain.outbound_urls import read_allow_list
from duly.domain.runs import AttemptCounts, Progress, RunRecord, TaskPolicy
from duly.domain.schedules import Call
from duly.domain.secret_refs import Secret, SecretReference
from duly.domain.tasks import NO_LIMITS, TaskLimits
from duly.domain.webhooks import WebhookPlan, read_webhook_plan
from duly.engine.executors.address_guard import look_up
from duly.engine.executors.task_output import Redactor
from duly.engine.executors.webhook_executor import WebhookExecutor, WebhookSettings
from duly.engine.manual_clock import START_US, ManualClock
from duly.store.ports.execution import ClaimedRun

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Iterable

    from duly.domain.outcomes import End
    from duly.domain.secret_refs import ReadSecret
    from duly.domain.tasks import RunContext
    from duly.engine.executors.address_guard import Lookup
    from duly.engine.executors.executor import Runnable
    from duly.telemetry.tracing import AttemptTrace

PATIENCE_S = 120
ROUNDS = 5
KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OLD_KEY = "whsec_b2xkLXNlY3JldC1vZi10d2VudHktZm91ci1ieXRlcw=="
TOKEN = "Bearer canary-7f3a91"  # noqa: S105 - a canary, looked for in all that is written
SECRETS = {"env:HOOK": KEY, "env:OLD_HOOK": OLD_KEY, "env:TOKEN": TOKEN}
ROOT = ordered_run_id("manual", START_US, b"root")


def read_secret(reference: SecretReference, field: str) -> Secret:
    return Secret(SECRETS[reference.secret])


@dataclass
class Seen:
    """One request as a server saw it."""

    path: str
    headers: dict[str, str]
    body: bytes


class Receiver:
    """A real server on loopback; what it answers is decided by the test."""

    def __init__(
        self,
        answer: Callable[[web.Request], Awaitable[web.StreamResponse]],
        certified: ssl.SSLContext | None = None,
    ) -> None:
        self.seen: list[Seen] = []
        self.has_seen = threading.Event()
        self._answer = answer
        self._certified = certified
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._over: asyncio.Event
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(PATIENCE_S)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        while left := asyncio.all_tasks(self._loop):
            for task in left:
                task.cancel()
            self._loop.run_until_complete(asyncio.wait(left))
        # What was closed last is told so in the next rounds of the loop.
        for _ in range(ROUNDS):
            self._loop.call_soon(self._loop.stop)
            self._loop.run_forever()
        self._loop.close()

    async def _serve(self) -> None:
        self._over = asyncio.Event()
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=self._certified)
        await site.start()
        self.port = runner.addresses[0][1]
        self._ready.set()
        await self._over.wait()
        await site.stop()
        # A connection that is just being accepted is not yet one that cleaning up closes.
        others = asyncio.all_tasks() - {asyncio.current_task()}
        if others:
            await asyncio.wait(others, timeout=0.5)
        await runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.seen.append(Seen(request.path_qs, headers, await request.read()))
        self.has_seen.set()
        with contextlib.suppress(ConnectionError):
            return await self._answer(request)
        return web.Response()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def until_over(self) -> None:
        await self._over.wait()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()


class RawReceiver:
    """A server that says whatever bytes the test wants, right or wrong."""

    def __init__(self, talk: Callable[[socket.socket], None]) -> None:
        self.connections = 0
        self._talk = talk
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            with contextlib.suppress(OSError), connection:
                connection.recv(65_536)
                self._talk(connection)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.port}"

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()


@dataclass
class Told:
    """A run's live side, which remembers what it was told."""

    is_cancelled: bool = False
    lines: list[str] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)
    concealer: Redactor = field(default_factory=Redactor)

    def advance(self, progress: Progress) -> None:
        raise NotImplementedError

    def save(self, partition: str, state: str) -> None:
        raise NotImplementedError

    def saved(self, partition: str) -> str | None:
        raise NotImplementedError

    def write(self, level: str, text: str) -> None:
        self.lines.append(f"{level}: {text}")

    def conceal(self, text: str) -> None:
        self.hidden.append(text)
        self.concealer.add(text)

    def hide(self, text: str, *, is_cut: bool = False) -> str:
        return self.concealer.hide(text, is_cut=is_cut)


@dataclass
class Hook:
    """A webhook task with fixed arguments."""

    plan: WebhookPlan
    arguments: dict[str, Any]
    name: str = "order.paid"
    kind: TaskKind = TaskKind.WEBHOOK
    policy: TaskPolicy = field(default_factory=TaskPolicy)
    limits: TaskLimits = NO_LIMITS

    def prepare(self, claimed: ClaimedRun, live: object) -> Callable[[], Any]:
        return lambda: self.arguments


class Attempt:
    """One attempt of a webhook, and how it ended."""

    def __init__(self, plan: WebhookPlan, claimed: ClaimedRun, arguments: dict[str, Any]) -> None:
        self.claimed = claimed
        self.runnable: Runnable = Hook(plan, arguments)
        self.told = Told()
        self.live = cast("RunContext", self.told)
        self.has_begun = threading.Event()
        self._is_over = threading.Event()
        self._ends: list[End] = []
        self.trace: AttemptTrace | None = None

    def began(self) -> None:
        self.has_begun.set()

    def ended(self, end: End, *, is_gone: bool = True, is_quiet: bool = False) -> None:
        assert is_gone, "a request leaves nothing behind"
        assert not is_quiet, "nobody rings for it later"
        self._ends.append(end)
        self._is_over.set()

    def ring(self) -> None: ...

    @property
    def end(self) -> End:
        assert self._is_over.wait(PATIENCE_S), "the attempt did not end"
        return self._ends[0]


def claimed_run(claimed_at: int = START_US, tries: AttemptCounts | None = None) -> ClaimedRun:
    record = RunRecord(
        id=RunId(ordered_run_id("rerun", START_US, b"again")),
        tenant="default",
        schedule_id=None,
        schedule_name="nightly",
        definition_number=None,
        key=None,
        call=Call(task="order.paid", arguments='{"order":42}'),
        origin=Origin.REPAIR,
        lane=Lane.LIVE,
        root=ROOT,
        scheduled_for=START_US,
        not_before=START_US,
        window_from=None,
        created_at=START_US,
        fired_at=START_US,
        state=RunState.RUNNING,
        state_reason=None,
        finished_at=None,
    )
    tries = tries or AttemptCounts(fence=7, attempt=3, charged=2, begun_at=START_US)
    return ClaimedRun.of(record, tries, claimed_at)


class Sender:
    """An executor of webhooks, and the attempts that it is given."""

    def __init__(
        self,
        allow: Iterable[str] = (),
        lookup: Lookup = look_up,
        read_secret: ReadSecret = read_secret,
    ) -> None:
        self.clock = ManualClock()
        settings = WebhookSettings(
            read_secret=read_secret, allow=read_allow_list(allow), lookup=lookup
        )
        self.executor = WebhookExecutor(self.clock, settings)

    def start(self, url: str, claimed: ClaimedRun | None = None, **options: Any) -> Attempt:
        options = {"secret": "env:HOOK", "timeout": "10s", **options}
        arguments = options.pop("arguments", {"order": 42})
        plan = read_webhook_plan(url, options)
        attempt = Attempt(plan, claimed or claimed_run(), arguments)
        self.executor.start(attempt)
        return attempt

    def send(self, url: str, **options: Any) -> End:
        return self.start(url, **options).end
