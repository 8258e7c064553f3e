"""As much of PostgreSQL's protocol as a proxy must know: where a message ends and what it asks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SSL_REQUEST = 80_877_103
GSS_REQUEST = 80_877_104
READY = b"Z"


@dataclass(slots=True)
class Frames:
    """Cuts a stream into messages: a letter, a length, and what it says."""

    is_starting: bool
    """Whether the first messages have no letter, as a client's have."""
    buffer: bytes = b""

    def feed(self, received: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield each message that is complete by now, as its letter and all of its bytes."""
        self.buffer += received
        while True:
            head = 0 if self.is_starting else 1
            if len(self.buffer) < head + 4:
                return
            size = head + int.from_bytes(self.buffer[head : head + 4])
            if len(self.buffer) < size:
                return
            message, self.buffer = self.buffer[:size], self.buffer[size:]
            yield message[:head], message


@dataclass(slots=True)
class Asking:
    """What a client asks for on one connection: the text of each statement, prepared or not."""

    frames: Frames = field(default_factory=lambda: Frames(is_starting=True))
    groups: int = 0
    """How many groups of messages are complete; the server ends its answer to each with READY."""
    texts: dict[bytes, bytes] = field(default_factory=dict)
    is_refused_encryption_due: bool = False
    """Whether the server owes a single letter, which is no message."""

    def feed(self, received: bytes) -> Iterator[tuple[bytes, bytes | None]]:
        """Yield each complete message, with the text of the statement that it executes if it does."""
        for letter, message in self.frames.feed(received):
            if letter:
                yield message, self._executed(letter, message[5:])
                self.groups += letter in {b"Q", b"S"}
            elif int.from_bytes(message[4:8]) in {SSL_REQUEST, GSS_REQUEST}:
                self.is_refused_encryption_due = True
                yield message, None
            else:
                self.frames.is_starting = False
                # The server is READY after the greeting, too.
                self.groups = 1
                yield message, None

    def _executed(self, letter: bytes, said: bytes) -> bytes | None:
        match letter:
            case b"Q":
                return said
            case b"P":
                name, text, _ = said.split(b"\0", 2)
                self.texts[name] = text
            case b"B":
                _, name, _ = said.split(b"\0", 2)
                return self.texts.get(name, b"")
        return None
