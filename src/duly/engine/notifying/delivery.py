"""What became of a delivery, whoever delivers, and what a channel is given for it."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from threading import Event
from typing import TYPE_CHECKING, Protocol, TypeAlias

from duly.domain.concluding import End, Failed, GaveUp, Succeeded, TimedOut
from duly.domain.harmless import one_line
from duly.engine.concealing import Concealer
from duly.errors import NoSecret, UsageError

if TYPE_CHECKING:
    from duly.clock import Clock
    from duly.domain.alert_messages import AlertNotice
    from duly.domain.secrets import ReadSecret, Secret, SecretReference
    from duly.domain.web_addresses import Allowed

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


class Discretion:
    """The secrets of one delivery: each is hidden in all that is said from when it is read."""

    def __init__(self, read_secret: ReadSecret) -> None:
        self._read_secret = read_secret
        self._concealer = Concealer()

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
