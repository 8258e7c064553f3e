"""Places to wait at: between processes of one host, and within one process.

A wake-up is a hint alone, so nothing here is ever an error: a datagram that is lost, or sent to a
process that is gone, costs a little time and no promise.
"""

from __future__ import annotations

import select
import socket
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, NamedTuple, Protocol

from duly.entropy import SystemDraws

if TYPE_CHECKING:
    from collections.abc import Iterable

SECOND_US = 1_000_000
WAIT_MAX_US = 86_400 * SECOND_US
LOOPBACK = "127.0.0.1"
_SCHEME = f"udp:{LOOPBACK}:"
WRITTEN, _NUDGE, _QUESTION, _ANSWER, _TAKES, _OFFER = b"!", b".", b"?", b"=", b"+", b">"
DATAGRAM_MAX = 32
HEARD_MAX = 1000
"""So much is heard at a time, however much is said."""
LONG_MAX = 1 << 16
"""Of an offer, which is as long as a datagram may be."""
PORT_MAX = 65_535
_TOKEN_BYTES = 8
_MOST_BYTES = 4
_ROOM_BYTES = 16 * LONG_MAX
"""So much may have been said before it is heard; the system may allow less."""

Sender = tuple[str, int]
"""Where a datagram came from."""


class Mail(Protocol):
    """Takes what is offered at a place (`postgres/handing.py`)."""

    most: int
    """How many timers it takes at a time; 0 while none."""

    def put(self, said: bytes, sender: Sender) -> None:
        """Keep an offer."""
        ...


class WakeAddress(NamedTuple):
    """Where a place can be rung on its host, and how one finds out whether that is this host."""

    port: int
    token: bytes
    """Drawn by the place: another one at the same port, on another host, has another."""

    @classmethod
    def read(cls, address: str) -> WakeAddress | None:
        """Read an address; None if it is not one."""
        port, _, token = address.removeprefix(_SCHEME).partition(":")
        try:
            plate = cls(int(port), bytes.fromhex(token))
        except ValueError:
            return None
        return plate if plate.token and 0 < plate.port <= PORT_MAX else None

    @property
    def address(self) -> str:
        """Return it as members tell it each other."""
        return f"{_SCHEME}{self.port}:{self.token.hex()}"

    @property
    def question(self) -> bytes:
        """Return what is sent to find out whether it is this host."""
        return _QUESTION + self.token

    @property
    def answer(self) -> bytes:
        """Return what the place says to that."""
        return _ANSWER + self.token

    @property
    def takes(self) -> bytes:
        """Return what it says besides if it takes offers; how many at a time comes after it."""
        return _TAKES + self.token

    @property
    def offer(self) -> bytes:
        """Return with what an offer to it begins."""
        return _OFFER + self.token


class UdpWakeups:
    """A place that other processes of this host can wake, by a datagram to its address."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((LOOPBACK, 0))
        self._socket.settimeout(0)
        self._own = self._socket.getsockname()
        self.address = f"{_SCHEME}{self._own[1]}"
        self.doorplate = WakeAddress(self._own[1], SystemDraws().draw(_TOKEN_BYTES))
        self._mail: Mail | None = None
        self._is_woken = self._is_nudged = False
        """Whether somebody has rung, or has ended the wait, while nobody waited."""

    def wait(self, timeout_us: int) -> bool:
        """Wait at most that long; True when woken. Never raises, never waits longer."""
        is_over = self._is_woken or self._is_nudged
        bounded_us = 0 if is_over else min(max(timeout_us, 0), WAIT_MAX_US)
        try:
            self._wait_readable(bounded_us)
        except (OSError, ValueError):
            return False  # closed meanwhile
        self.hear()
        is_woken, self._is_woken, self._is_nudged = self._is_woken, False, False
        return is_woken

    def hear(self) -> None:
        """Hear what was said so far, without waiting; whoever waits next is told of it."""
        is_woken, is_nudged = self._drain()
        self._is_woken, self._is_nudged = self._is_woken or is_woken, self._is_nudged or is_nudged

    def hear_offers(self, mail: Mail) -> None:
        """Have what is offered here put somewhere."""
        self._mail = mail
        with suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _ROOM_BYTES)

    def say(self, said: bytes, to: Sender) -> None:
        """Say something to whoever has said something here."""
        with suppress(OSError):
            self._socket.sendto(said, to)

    def wake(self) -> None:
        """Wake whoever waits here, from any thread or signal handler."""
        with suppress(OSError):
            # By its own socket: making one takes several times as long, and runs ring often.
            self._socket.sendto(WRITTEN, self._own)

    def nudge(self) -> None:
        """End the wait, though nothing was written; from any thread or signal handler."""
        with suppress(OSError):
            self._socket.sendto(_NUDGE, self._own)

    def close(self) -> None:
        """Wake whoever still waits, and let go of the address."""
        self.wake()
        self._socket.close()

    def _wait_readable(self, timeout_us: int) -> None:
        # select counts in microseconds, poll in milliseconds; but select knows only low numbers.
        try:
            select.select([self._socket], [], [], timeout_us / SECOND_US)
        except ValueError:
            if self._socket.fileno() < 0:
                raise
            poll = select.poll()
            poll.register(self._socket, select.POLLIN)
            poll.poll(timeout_us // 1000)

    def _drain(self) -> tuple[bool, bool]:
        """Say whether somebody has rung, and whether somebody has ended the wait."""
        is_woken = is_nudged = False
        plate, mail = self.doorplate, self._mail
        longest = DATAGRAM_MAX if mail is None else LONG_MAX
        with suppress(OSError):
            for _ in range(HEARD_MAX):
                said, sender = self._socket.recvfrom(longest)
                is_nudged = is_nudged or said == _NUDGE
                if said == WRITTEN:
                    is_woken = True
                elif said == plate.question:
                    self._socket.sendto(plate.answer, sender)
                    if mail is not None and mail.most:
                        most = mail.most.to_bytes(_MOST_BYTES)
                        self._socket.sendto(plate.takes + most, sender)
                elif mail is not None and said.startswith(plate.offer):
                    mail.put(said[len(plate.offer) :], sender)
                    is_woken = True
        return is_woken, is_nudged


class LocalWakeups:
    """A place for threads of one process."""

    def __init__(self, address: str = "") -> None:
        self.address = address
        # Putting into this queue is safe at any moment, also in a signal handler that interrupts
        # a wait; an Event's lock is not.
        self._calls: SimpleQueue[bool] = SimpleQueue()
        """Whether something was written."""

    def wait(self, timeout_us: int) -> bool:
        """Wait at most that long; True when woken."""
        bounded_us = min(max(timeout_us, 0), WAIT_MAX_US)
        try:
            is_woken = self._calls.get(timeout=bounded_us / SECOND_US)
        except Empty:
            return False
        with suppress(Empty):
            while True:
                is_woken = self._calls.get_nowait() or is_woken
        return is_woken

    def wake(self) -> None:
        """Wake whoever waits here, from any thread or signal handler."""
        self._calls.put(True)  # noqa: FBT003 - that something was written

    def nudge(self) -> None:
        """End the wait, though nothing was written; from any thread or signal handler."""
        self._calls.put(False)  # noqa: FBT003 - that nothing was

    def close(self) -> None:
        """Wake whoever still waits."""
        self.wake()


def wake_all(addresses: Iterable[str]) -> None:
    """Send a wake-up to every address of this host; others, and whatever fails, are ignored."""
    ports = [address.removeprefix(_SCHEME) for address in addresses if address.startswith(_SCHEME)]
    if not ports:
        return
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.settimeout(0)
        for port in ports:
            with suppress(OSError, ValueError, OverflowError):
                sender.sendto(WRITTEN, (LOOPBACK, int(port)))
