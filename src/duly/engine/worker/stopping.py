"""Stopping: time-outs, stalls and orders to stop; it asks first, and insists later (R6).

Code that can't be made to stop is settled all the same: its run goes where it belongs, and its slot
is lost until the code ends by itself.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from duly.engine.worker.held import Cause, Stopping
from duly.telemetry import FencedOff

if TYPE_CHECKING:
    from collections.abc import Iterable

    from duly.domain.concluding import TimedOut
    from duly.engine.worker.held import Held
    from duly.engine.worker.holdings import Holdings
    from duly.engine.worker.membership import WorkerMembership
    from duly.engine.worker.parts import WorkerParts

FAR = 1 << 62


class Limits:
    """Looks after the limits of what runs, and ends what must end."""

    def __init__(
        self, parts: WorkerParts, holdings: Holdings, membership: WorkerMembership
    ) -> None:
        self._parts = parts
        self._holdings = holdings
        self._membership = membership
        self.next_at = FAR
        """Nothing is to be done before this, on the monotonic clock."""

    def watch(self, held: Held, monotonic: int) -> None:
        """Look at an attempt when it may have reached a limit at the earliest."""
        look_at = held.look_at(monotonic)
        if look_at is not None:
            self.next_at = min(self.next_at, look_at)

    def enforce(self, monotonic: int) -> None:
        """End what has reached a limit, and insist where asking did not help."""
        if monotonic < self.next_at:
            return
        self.next_at = FAR
        for held in tuple(self._holdings.running):
            if held.stopping is None:
                limit = held.limit()
                if limit is None:
                    continue
                if monotonic < limit.at:
                    self.watch(held, monotonic)
                    continue
                self.stop(held, Cause.LIMIT, limit.end())
            self._press(held, monotonic)

    def stop(self, held: Held, cause: Cause, end: TimedOut | None = None) -> None:
        """Ask an attempt to stop; a weightier cause takes the place of an earlier one."""
        stopping = held.stopping
        held.stop(is_fenced=cause is Cause.FENCED)
        if stopping is not None:
            if cause > stopping.cause:
                stopping.cause, stopping.end = cause, end
            return
        monotonic = self._parts.clock.monotonic_us()
        insist_at = monotonic + self._parts.settings.cancel_grace_us
        held.stopping = Stopping(cause, insist_at, end)
        self.next_at = min(self.next_at, insist_at)
        with suppress(Exception):  # an executor's defect must not keep us from insisting
            self._parts.executor(held.runnable).ask(held)

    def fence_off(self, helds: Iterable[Held], reason: str) -> None:
        """Stop what is no longer ours."""
        count = 0
        for held in helds:
            if held.committed is not None:  # its claim is gone because it has ended it itself
                continue
            count += 1
            self.stop(held, Cause.FENCED)
        if count:
            member = self._membership.number()
            self._parts.emit(FencedOff(member=member, count=count, reason=reason))

    def insist(self, held: Held) -> bool:
        """Make an attempt stop; False when that can't be done."""
        try:
            return self._parts.executor(held.runnable).insist(held)
        except Exception:  # noqa: BLE001 - an executor's defect must not keep a slot busy for ever
            return False

    def _press(self, held: Held, monotonic: int) -> None:
        stopping = held.stopping
        assert stopping is not None, "only what was asked to stop is pressed"
        if monotonic >= stopping.insist_at:
            if stopping.is_insisted or not self.insist(held):
                self._holdings.leak(held, self._membership.number())
                return
            # It will be over at once, and says so itself; should it not, we go on without it.
            stopping.is_insisted = True
            stopping.insist_at = monotonic + max(self._parts.settings.cancel_grace_us, 1)
        self.next_at = min(self.next_at, stopping.insist_at)
