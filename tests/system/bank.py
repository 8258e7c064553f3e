"""A bank: an outside system in a process of its own, with a book that only ever grows.

    python -m tests.system.bank BOOK PLACE

It serves one caller after the other, in the order in which they came: who asks what has been paid
after a caller has died is answered after that caller was served. Who is recognised by a key is not
paid twice; who is not, is. It writes where it listens into PLACE.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from duly.clock import SystemClock

PLACE_VARIABLE = "DULY_TEST_BANK"
PAID, RECOGNISED, REFUSED = "paid", "recognised", "refused"
PAY, ASK = "pay", "ask"
CALLERS_MAX = 1000
PATIENCE_SECONDS = 1.0
"""A caller that was stopped before it has said what it wants must not hold up all others."""
LIMIT_SECONDS = 120.0


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A line of the book: what somebody asked for, and what came of it."""

    kind: str
    """paid, recognised or refused."""
    line: str
    """The idempotency key that the caller gave."""
    key: str
    run: str
    attempt: int
    fence: int
    process: int
    at: int


class Bank:
    """What it knows, and its book."""

    def __init__(self, book: Path) -> None:
        self._book = os.open(book, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._paid: set[tuple[str, str]] = set()
        self._clock = SystemClock()

    def answer(self, order: dict[str, Any]) -> str:
        """Do what is asked for, in the book first."""
        what = order.pop("what")
        place = (order["line"], order["key"])
        if what == ASK:
            return PAID if place in self._paid else "unknown"
        kind = PAID
        if order.pop("is_refused"):
            kind = REFUSED
        elif order.pop("is_recognised") and place in self._paid:
            kind = RECOGNISED
        order.pop("is_recognised", None)
        entry = Entry(kind=kind, at=self._clock.now_us(), **order)
        os.write(self._book, (json.dumps(asdict(entry)) + "\n").encode())
        if kind != REFUSED:
            self._paid.add(place)
        return kind


def read_book(path: Path) -> list[Entry]:
    """Read what has happened."""
    if not path.exists():
        return []
    return [Entry(**json.loads(line)) for line in path.read_text("utf-8").split("\n")[:-1]]


class Call:
    """A caller's side: what it wants is said at once, and the answer is heard later, or never."""

    def __init__(self, order: dict[str, Any]) -> None:
        port = int(Path(os.environ[PLACE_VARIABLE]).read_text(encoding="utf-8"))
        self._line = socket.create_connection(("127.0.0.1", port), LIMIT_SECONDS)
        self._line.sendall((json.dumps(order) + "\n").encode())

    def hear(self) -> str:
        """Return the answer."""
        with self._line, self._line.makefile("r", encoding="utf-8") as lines:
            answer = lines.readline().strip()
        if not answer:
            raise ConnectionResetError("the bank gave no answer")
        return answer


def is_paid(line: str, key: str) -> bool:
    """Ask the bank itself."""
    return Call({"what": ASK, "line": line, "key": key}).hear() == PAID


def serve(bank: Bank, caller: socket.socket) -> None:
    """Serve one caller; whoever says nothing in time is not served."""
    caller.settimeout(PATIENCE_SECONDS)
    with suppress(OSError), caller, caller.makefile("r", encoding="utf-8") as lines:
        said = lines.readline()
        if said.endswith("\n"):
            caller.sendall((bank.answer(json.loads(said)) + "\n").encode())


def main(book: Path, place: Path) -> None:
    """Serve callers until somebody ends it."""
    bank = Bank(book)
    with socket.create_server(("127.0.0.1", 0), backlog=CALLERS_MAX) as listener:
        written = place.with_suffix(".new")
        written.write_text(str(listener.getsockname()[1]), encoding="utf-8")
        written.rename(place)
        while True:
            serve(bank, listener.accept()[0])


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
