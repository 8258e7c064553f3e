"""Runs tasks of the kind webhook: one signed request for each attempt, on an event loop of its own.

`WebhookExecutor` connects three modules to a worker: `domain.webhooks` builds the request,
`address_guard` decides where it may go, `webhook_client` interprets the answer. Secrets are read
just before they are used, and stay out of everything that is recorded.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from duly.domain.enums import Effects
from duly.domain.outcomes import CancelledEnd, End, Failed, Succeeded
from duly.domain.webhooks import (
    WebhookPlan,
    compose,
    signed_headers,
)
from duly.engine.executors.address_guard import AddressGuard, Lookup, look_up
from duly.engine.executors.executor import permitted
from duly.engine.executors.results import unprepared
from duly.engine.executors.webhook_client import WebhookAnswer, judge_answer, revealed
from duly.errors import NoSecret, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.clock import Clock
    from duly.domain.outbound_urls import Allowed
    from duly.domain.secret_refs import ReadSecret, Secret, SecretReference
    from duly.engine.executors.executor import AttemptWork
    from duly.store.ports.execution import ClaimRef

CLOSE_S_MAX = 5.0
LOOKUPS_MAX = 32
_CLOSING = "the worker is closing"


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSettings:
    """What the operator of a worker says about webhooks."""

    read_secret: ReadSecret
    """Reads what plans refer to."""
    allow: tuple[Allowed, ...] = ()
    """Hosts and networks beyond the public ones; loopback and private ones are refused without."""
    lookup: Lookup = look_up


class WebhookExecutor:
    """Sends webhooks, many at a time, from one thread."""

    def __init__(self, clock: Clock, settings: WebhookSettings) -> None:
        """Start the loop; without aiohttp there is no sending."""
        try:
            import duly.engine.executors.webhook_client as _  # noqa: F401 - as early as possible
        except ImportError as error:
            remedy = "pip install 'duly[webhooks]'"
            raise UsageError("webhooks", "aiohttp", "is not installed", remedy) from error
        self._clock = clock
        self._settings = settings
        self._sending: dict[ClaimRef, asyncio.Task[End]] = {}
        self._draining: asyncio.Task[None] | None = None
        self._loop = asyncio.new_event_loop()
        # A name that takes long to look up keeps a thread; a few of them must not stop all others.
        lookups = ThreadPoolExecutor(LOOKUPS_MAX, thread_name_prefix="duly-lookup")
        self._loop.set_default_executor(lookups)
        self._thread = threading.Thread(target=self._run, name="duly-webhooks", daemon=True)
        self._thread.start()

    def start(self, work: AttemptWork) -> None:
        """Send it soon."""
        self._tell(self._begin, work)

    def ask(self, work: AttemptWork) -> None:
        """Drop the request."""
        self._tell(self._cancel, work)

    def insist(self, work: AttemptWork) -> bool:
        """Drop the request, which can always be done."""
        self._tell(self._cancel, work)
        return True

    def close(self) -> None:
        """Drop all requests and end the loop."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._stop)
        self._thread.join(CLOSE_S_MAX)

    def _tell(self, what: Callable[[AttemptWork], None], work: AttemptWork) -> None:
        try:
            self._loop.call_soon_threadsafe(what, work)
        except RuntimeError:
            work.ended(CancelledEnd(_CLOSING))

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            # Connections that were closed last are let go of in the loop's next rounds.
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()

    def _begin(self, work: AttemptWork) -> None:
        if self._draining is not None:
            work.ended(CancelledEnd(_CLOSING))
            return
        task = self._loop.create_task(self._attempt(work))
        self._sending[work.claimed.hold] = task
        task.add_done_callback(lambda done: self._done(work, done))

    def _cancel(self, work: AttemptWork) -> None:
        task = self._sending.get(work.claimed.hold)
        if task is not None:
            task.cancel()

    def _stop(self) -> None:
        for task in self._sending.values():
            task.cancel()
        self._draining = self._draining or self._loop.create_task(self._drain())

    async def _drain(self) -> None:
        await asyncio.gather(*self._sending.values(), return_exceptions=True)
        self._loop.call_soon(self._loop.stop)

    def _done(self, work: AttemptWork, task: asyncio.Task[End]) -> None:
        del self._sending[work.claimed.hold]
        if task.cancelled():
            words = "the request was dropped; whether it had arrived is not known"
            work.ended(CancelledEnd(words))
            return
        error = task.exception()
        if error is not None:
            # Its text may hold anything, a secret too; its kind says where to look.
            work.ended(Failed(f"sending failed with {type(error).__name__}"))
            return
        work.ended(task.result())

    async def _attempt(self, work: AttemptWork) -> End:
        from duly.engine.executors.webhook_client import WebhookRequest, send

        plan = work.runnable.plan
        assert isinstance(plan, WebhookPlan), "a webhook has the plan of one"
        try:
            arguments = work.runnable.prepare(work.claimed, work.live)()
            body = compose(work.claimed.record, work.claimed.tries, arguments)
            headers = self._headers(work, body)
        except (NoSecret, UsageError) as error:
            return unprepared(error, work.runnable.policy, work.live)
        request = WebhookRequest(
            address=plan.address,
            guard=AddressGuard(plan.address, self._settings.allow, self._settings.lookup),
            body=body,
            headers=headers,
            timeout_us=plan.timeout_us,
            response_bytes_max=plan.response_bytes_max,
        )
        if work.runnable.policy.effects is Effects.UNSAFE:
            # The store is never asked on the loop, where all the others wait.
            refused = await asyncio.to_thread(permitted, work)
            if refused is not None:
                return refused
        work.began()
        answer = await send(request)
        if isinstance(answer, WebhookAnswer):
            end = judge_answer(answer, self._clock.now(), work.live)
            if isinstance(end, Succeeded) and answer.status == 202:
                work.live.write("info", f"{answer.origin} accepted it and goes on by itself")
            return end
        return answer

    def _headers(self, work: AttemptWork, body: bytes) -> dict[str, str]:
        """Return all headers of a request; what is read for them is concealed from then on."""
        plan, claimed = work.runnable.plan, work.claimed
        field = f"webhook {work.runnable.name}"

        def read(reference: SecretReference, of: str) -> Secret:
            secret = self._settings.read_secret(reference, of)
            for shape in secret.shapes():
                work.live.conceal(shape)
            return secret

        headers, keys = revealed(plan, field, read)
        ours = signed_headers(claimed.record, claimed.tries, claimed.claimed_at, (body, keys))
        return {**_traced(work, headers), **ours}


def _traced(work: AttemptWork, headers: dict[str, str]) -> dict[str, str]:
    """Return headers that tell of the attempt's span, whatever they said of another."""
    if work.trace is None:
        return headers
    carrier = work.trace.carrier()
    others = {name: value for name, value in headers.items() if name.lower() not in carrier}
    return {**others, **carrier}
