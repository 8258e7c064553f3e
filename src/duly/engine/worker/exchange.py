"""Sends ends to the store while the worker claims more runs, if the store allows it.

`ThreadCourier` serves a database that handles several transactions at a time: it ends one batch
while it hands out the next. `DirectCourier` does everything in turn, for stores where one writer
waits for the other, and for simulated time.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.store.ports.execution import Claimed, ClaimRuns, Finished

    Order = Callable[[], Finished]
    BeginClaim = Callable[[ClaimRuns], Callable[[], Claimed]]


class StoreReply(Protocol):
    """The answer to an order, which may not be there yet."""

    def is_there(self) -> bool:
        """Say whether nobody need wait for it."""
        ...

    def __call__(self) -> Finished:
        """Wait for it, and return it or raise what it is; once."""
        ...


class StoreSender(Protocol):
    """Carries out one order at a time."""

    is_direct: bool
    """Whether orders are carried out at once, so that one call is better than two."""

    def send(self, order: Order) -> StoreReply:
        """Have an order carried out; return what gives its answer, or raises what it raised."""
        ...

    def close(self) -> None:
        """Let go; nothing is sent any more."""
        ...


class DirectCourier:
    """Carries out an order at once, and keeps the answer until it is asked for."""

    is_direct = True

    def send(self, order: Order) -> StoreReply:
        """Carry it out."""
        reply = _Reply()
        try:
            reply.put(order())
        except Exception as error:  # noqa: BLE001 - for whoever asks
            reply.put(error)
        return reply

    def close(self) -> None:
        """Let go of nothing."""


class ThreadCourier:
    """Carries out orders in a thread of its own."""

    is_direct = False

    def __init__(self) -> None:
        self._orders: SimpleQueue[tuple[Order, _Reply] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def send(self, order: Order) -> StoreReply:
        """Have it carried out meanwhile."""
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="duly-courier", daemon=True)
            with suppress(RuntimeError):  # the system has no more threads for us
                thread.start()
                self._thread = thread
        if self._thread is None:
            return DirectCourier().send(order)
        reply = _Reply()
        self._orders.put((order, reply))
        return reply

    def close(self) -> None:
        """Let the thread end."""
        self._orders.put(None)

    def _run(self) -> None:
        while (given := self._orders.get()) is not None:
            order, reply = given
            try:
                reply.put(order())
            except BaseException as error:  # noqa: BLE001 - for whoever asks
                reply.put(error)


class _Reply:
    """An answer that is put here by whoever has carried out the order."""

    def __init__(self) -> None:
        self._answers: SimpleQueue[Finished | BaseException] = SimpleQueue()

    def put(self, answer: Finished | BaseException) -> None:
        self._answers.put(answer)

    def is_there(self) -> bool:
        return not self._answers.empty()

    def __call__(self) -> Finished:
        answer = self._answers.get()
        if isinstance(answer, BaseException):
            raise answer
        return answer
