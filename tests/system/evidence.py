"""What a campaign leaves behind: what clients asked for and were told, and what an observer saw.

Two ledgers that the system under test never reads: files of JSON lines, only ever appended to.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

DONE = "done"
REFUSED = "refused"
"""Answered with an error of the caller: it had fired, was gone, or its instant had passed."""


@dataclass(kw_only=True)
class Order:
    """A call of a client: what it asked for, and the answer if it lived to hear one."""

    kind: str
    """create, pause, resume, edit or delete a schedule; enqueue, move or cancel a delayed run."""
    subject: str
    """The schedule's name or the delayed run's key: each is one client's own."""
    asked_at: int
    period_us: int = 0
    due_at: int = 0
    """The instant that was asked for."""
    answer: str | None = None
    answered_at: int | None = None

    @property
    def is_done(self) -> bool:
        """Whether the client was told that it holds."""
        return self.answer == DONE

    @property
    def is_unknown(self) -> bool:
        """Whether it may have happened, or not."""
        return self.answer not in (DONE, REFUSED)


@dataclass(frozen=True, kw_only=True)
class Sight:
    """A run as the observer saw it first, by the observer's own clock."""

    id: str
    schedule: str | None
    key: str | None
    scheduled_for: int
    not_before: int
    fired_at: int | None
    state: str
    lane: str
    seen_at: int


@dataclass(frozen=True)
class Span:
    """A recorded range of occurrences that were not run, or are owed."""

    schedule: str
    first_for: int
    last_for: int


@dataclass(frozen=True)
class Standing:
    """A schedule as the file has it in the end."""

    id: str
    name: str
    status: str
    created_at: int
    next_for: int | None
    """The occurrence that is pending; of a deleted one, where it was stopped."""


@dataclass(frozen=True)
class Fault:
    """Something that was done to the system."""

    kind: str
    at: int
    until: int = 0
    """When it was taken back; 0 if it could not be."""


@dataclass(kw_only=True)
class Evidence:
    """Everything that the checker judges by."""

    orders: list[Order]
    sights: list[Sight]
    kept: list[Sight]
    """Runs that are in the file in the end."""
    skips: list[Span]
    owed: list[Span]
    schedules: list[Standing]
    until: int
    """Whatever was due by this instant must have its verdict."""
    pending_keys: list[str] = field(default_factory=list)
    audit: dict[str, int] = field(default_factory=dict)
    """How many entries of each action."""
    takeovers: int = 0
    """How many members were declared dead."""
    faults: list[Fault] = field(default_factory=list)
    unforeseen: list[str] = field(default_factory=list)
    """What dispatchers said of errors that nobody foresaw."""


class OrderBook:
    """A client's ledger: each order is on disk before it is given, each answer once it is heard."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8")

    def write(self, order: Order) -> None:
        """Append an order as it is now, and return when it is on disk."""
        self._file.write(json.dumps(asdict(order)) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


def read_orders(paths: Iterable[Path]) -> list[Order]:
    """Read ledgers of clients; the last word about an order counts."""
    found: dict[tuple[str, str, int], Order] = {}
    for path in paths:
        for line in _lines(path):
            order = Order(**line)
            found[order.subject, order.kind, order.asked_at] = order
    return sorted(found.values(), key=lambda order: order.asked_at)


def read_sights(path: Path) -> list[Sight]:
    """Read the observer's ledger: one line for each run, when it was first seen."""
    return [Sight(**line) for line in _lines(path)]


def _lines(path: Path) -> list[dict[str, Any]]:
    """Read whole lines; the last one may be cut short, as its writer was killed."""
    whole = path.read_text(encoding="utf-8").split("\n")[:-1]
    return [json.loads(line) for line in whole]
