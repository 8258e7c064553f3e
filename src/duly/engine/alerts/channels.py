"""Channel protocol, delivery result, time limit of one attempt, and the log channel.

`DeliveryTimeout` bounds one attempt as a whole. A socket timeout applies to each read, so a server
that sends one byte now and then never exceeds it, and a DNS lookup has no timeout at all. Each
attempt therefore runs in a thread of its own, and its connection is cut when the limit expires.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from threading import Event
from typing import TYPE_CHECKING, Protocol, TypeAlias

from duly.domain.alert_messages import PAGE, log_line, one_line
from duly.domain.outcomes import End, Failed, GaveUp, Succeeded, TimedOut
from duly.engine.executors.task_output import Redactor
from duly.errors import NoSecret, UsageError
from duly.timetable.instants import SECOND_US, duration_text

if TYPE_CHECKING:
    from duly.clock import Clock
    from duly.domain.alert_messages import AlertNotice
    from duly.domain.outbound_urls import Allowed
    from duly.domain.secret_refs import ReadSecret, Secret, SecretReference


DETAIL_LENGTH_MAX = 500
"""How much is said of a delivery that went wrong."""

LookUp: TypeAlias = Callable[[str, int], list[str]]
"""Return the addresses of a host; OSError when there are none. It may take its time."""

Wait: TypeAlias = Callable[[Event, float], bool]
"""Wait for an event, for so many seconds at most; return whether it was set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryResult:
    """How one try of a delivery went."""

    is_done: bool
    """Whether the other side has taken it."""
    is_final: bool = False
    """Whether there is no use in trying again."""
    detail: str = ""
    """For people: one bounded line without secrets."""
    retry_after: timedelta | None = None
    """How long the other side asked to wait."""


DONE = DeliveryResult(is_done=True)


class Channel(Protocol):
    """A way by which alerts reach people; may be used from any thread."""

    def deliver(self, notice: AlertNotice) -> DeliveryResult:
        """Try once. It blocks, bounded in time, and raises nothing that the other side brought."""
        ...


def look_up(host: str, port: int) -> list[str]:
    """Return the addresses of a host, as the operating system knows them."""
    found = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=socket.AI_ADDRCONFIG
    )
    return [str(address[0]) for *_, address in found]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelSurroundings:
    """What the operator of whoever sends says, and nothing hidden beside it."""

    read_secret: ReadSecret
    """Reads what channels refer to. They are data: `SecretSources.read`, with its limits."""
    clock: Clock
    allow: tuple[Allowed, ...] = ()
    """Hosts and networks beyond the public ones; loopback and private ones are refused without."""
    lookup: LookUp = look_up
    wait: Wait = Event.wait
    """Ends the time of a try."""


class DeliverySecrets:
    """The secrets of one delivery: each is hidden in all that is said from when it is read."""

    def __init__(self, read_secret: ReadSecret) -> None:
        self._read_secret = read_secret
        self._concealer = Redactor()

    def read(self, reference: SecretReference, field: str) -> Secret:
        """Read a secret; NoSecret, UsageError."""
        secret = self._read_secret(reference, field)
        for shape in secret.shapes():
            self.conceal(shape)
        return secret

    def conceal(self, text: str) -> None:
        """Hide a text that gives a secret away."""
        self._concealer.add(text)

    def hide(self, text: str, *, is_cut: bool = False) -> str:
        """Return a text with secrets left out, so that it may be cut."""
        return self._concealer.hide(text, is_cut=is_cut)

    def failure(
        self, detail: str, *, is_final: bool = False, retry_after: timedelta | None = None
    ) -> DeliveryResult:
        """Return the result of a try that failed; what is said of it is fit for logs."""
        said = one_line(self.hide(detail), DETAIL_LENGTH_MAX)
        return DeliveryResult(
            is_done=False, is_final=is_final, detail=said, retry_after=retry_after
        )

    def unprepared(self, error: NoSecret | UsageError) -> DeliveryResult:
        """Return the result of a try for which something was missing.

        A secret that is not there may be put there; one that may not be read stays forbidden.
        """
        return self.failure(str(error), is_final=isinstance(error, UsageError))

    def result_of(self, end: End) -> DeliveryResult:
        """Return what the end of a request means for a delivery."""
        match end:
            case Succeeded():
                return DONE
            case Failed():
                asked = None if end.after_us is None else timedelta(microseconds=end.after_us)
                return self.failure(end.error, is_final=not end.is_retryable, retry_after=asked)
            case GaveUp():
                return self.failure(end.error, is_final=True)
            case TimedOut():
                return self.failure(end.error or "it gave no answer in time")
            case _:
                return self.failure(f"it ended as {type(end).__name__}")


LOGGER_NAME = "duly.alerts"


class LogChannel:
    """Writes a line for each notice: an error for a page, a warning, and word when it is over."""

    def __init__(self) -> None:
        self._logger = logging.getLogger(LOGGER_NAME)

    def deliver(self, notice: AlertNotice) -> DeliveryResult:
        """Write it; what a log does with its lines is the operator's matter."""
        level = logging.ERROR if notice.severity == PAGE else logging.WARNING
        self._logger.log(logging.INFO if notice.is_resolved else level, "%s", log_line(notice))
        return DONE


LEFT_MAX = 4
"""How many tries of one channel may hang where nothing can cut them off, in a look-up."""
CUT_S_MAX = 0.2
"""How long a try that was cut off may take to notice it."""


class DeliveryDeadline:
    """What ties a try to whoever waits for it: once it is cut, nothing more is sent."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection: socket.socket | None = None
        self._is_cut = False

    def hold(self, connection: socket.socket) -> None:
        """Tie a connection to it; TimeoutError when it is cut already."""
        # A copy: when TLS begins, the first object for a connection gives it up to another.
        copy = connection.dup()
        with self._lock:
            self._release()
            self._connection = copy
        self.check()

    def check(self) -> None:
        """Go on only while somebody waits; else TimeoutError."""
        with self._lock:
            if self._is_cut:
                raise TimeoutError("its time is up")

    def cut(self) -> None:
        """End the connection, whatever is being read from it or written to it."""
        with self._lock:
            self._is_cut = True
            if self._connection is not None:
                with contextlib.suppress(OSError):
                    self._connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Let go of the connection."""
        with self._lock:
            self._release()

    def _release(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class DeliveryTimeout:
    """Gives each try of a channel the same time, and counts those that do not end."""

    def __init__(self, who: str, limit_us: int, wait: Wait = threading.Event.wait) -> None:
        self._who = who
        self._limit_us = limit_us
        self._wait = wait
        self._lock = threading.Lock()
        self._begun = 0

    def wait_for(self, attempt: Callable[[DeliveryDeadline], DeliveryResult]) -> DeliveryResult:
        """Try, and return how it went, or that it took too long."""
        with self._lock:
            if self._begun >= LEFT_MAX:
                left = f"{self._begun} tries of {self._who} have not ended yet"
                return DeliveryResult(is_done=False, detail=left)
            self._begun += 1
        waiting = _Waiting(attempt, self._wait)
        try:
            threading.Thread(
                target=self._run, args=(waiting,), name="duly-delivery", daemon=True
            ).start()
        except RuntimeError:
            self._end()
            return DeliveryResult(is_done=False, detail="this machine can start no more threads")
        return waiting.result(self._limit_us / SECOND_US) or DeliveryResult(
            is_done=False,
            detail=f"{self._who} was not done with it within {duration_text(self._limit_us)}",
        )

    def _run(self, waiting: _Waiting) -> None:
        try:
            waiting.run()
        finally:
            self._end()

    def _end(self) -> None:
        with self._lock:
            self._begun -= 1


class _Waiting:
    """One try between the thread that makes it and the one that waits for it."""

    def __init__(self, attempt: Callable[[DeliveryDeadline], DeliveryResult], wait: Wait) -> None:
        self._attempt = attempt
        self._wait = wait
        self._tether = DeliveryDeadline()
        self._is_over = threading.Event()
        self._result: DeliveryResult | None = None

    def run(self) -> None:
        try:
            self._result = self._attempt(self._tether)
        except BaseException as error:  # noqa: BLE001 - nobody else would hear of it
            # Its text may hold anything, a secret too; its kind says where to look.
            detail = f"sending failed with {type(error).__name__}"
            self._result = DeliveryResult(is_done=False, detail=detail)
        finally:
            self._tether.close()
            self._is_over.set()

    def result(self, limit_s: float) -> DeliveryResult | None:
        """Return how it went; None if it took too long, unless it was done in the last moment."""
        if self._wait(self._is_over, limit_s):
            return self._result
        self._tether.cut()
        self._is_over.wait(CUT_S_MAX)
        result = self._result
        return result if result is not None and result.is_done else None
