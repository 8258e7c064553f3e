"""What a campaign with workers leaves behind, besides what one without them does.

Tasks write a line into a ledger of their own before they do anything and when they are done; the
system under test never reads it. Workers tell what the store has answered them. The store's own
records are read in the end, by SQL that Duly never sees.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from duly.clock import SystemClock

if TYPE_CHECKING:
    from pathlib import Path
    from uuid import UUID

START, END = "start", "end"
DONE = "done"
LEDGER_VARIABLE = "DULY_TEST_WORK"


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A line of a task's code: it was here, as this attempt, in this process, at this moment."""

    kind: str
    """start or end."""
    run: str
    attempt: int
    fence: int
    process: int
    """The worker's process, or the task's own if it has one."""
    at: int
    said: str = ""
    """Of an end: what the code was about to say; of a start: which task it is."""
    wait_us: int = 0
    """Of an end: how long it was about to ask to be left alone."""


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """A claim of a run, as the store recorded it."""

    run: str
    fence: int
    number: int | None
    """None: it was given back before it was started."""
    state: str
    reason: str | None
    process: int | None
    """Of the worker, as far as still known."""
    claimed_at: int
    ended_at: int | None
    """None: it has not ended."""
    late_state: str | None = None
    """What its worker still said when it had been taken away."""


@dataclass(frozen=True, kw_only=True)
class Fate:
    """A run as the store has it in the end."""

    run: str
    task: str
    state: str
    reason: str | None
    due_at: int
    charged: int
    places: int = 1
    """In how many places it is: an outcome, a queue, a claim, a wait, the dead letters."""


@dataclass(frozen=True, kw_only=True)
class Told:
    """What a worker says the store has answered it about an attempt."""

    event: str
    run: str
    number: int
    state: str


@dataclass(frozen=True)
class Left:
    """A worker's process that was told to stop, and ended in good order."""

    process: int
    at: int


@dataclass(frozen=True)
class Eviction:
    """A worker that was declared dead."""

    process: int
    at: int


@dataclass(kw_only=True)
class WorkEvidence:
    """Everything that the checker of workers judges by."""

    marks: list[Mark]
    attempts: list[Attempt]
    fates: list[Fate]
    budgets: dict[str, int]
    """How many attempts a run of a task may be charged, as its code says."""
    waits: dict[tuple[str, int], int]
    """How long a run waits by its backoff after its n-th charged attempt, by run and n."""
    told: list[Told] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)
    evictions: list[Eviction] = field(default_factory=list)
    harmed: set[int] = field(default_factory=set)
    """Processes that were killed or stopped, or ran code that kills its process."""
    outages: list[tuple[int, int]] = field(default_factory=list)
    """When the store or the way to it was out of order, for anybody."""
    refused: list[tuple[str, int]] = field(default_factory=list)
    """Completions that the audit trail names as refused: run and fence."""
    findings: list[str] = field(default_factory=list)
    """What the store finds wrong about itself."""
    doubtful: frozenset[str] = frozenset()
    """Tasks whose runs may be in doubt in the end: their effects may not be repeated."""
    decided: frozenset[str] = frozenset()
    """Runs about which a person has decided: they may be closed without having succeeded, or have
    begun anew with a fresh budget."""


class WorkLedger:
    """Where a task's code writes; a line is one write, whole or not there."""

    def __init__(self, path: str | None = None) -> None:
        place = path or os.environ[LEDGER_VARIABLE]
        self._file = os.open(place, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._clock = SystemClock()

    def write(
        self, kind: str, who: tuple[UUID, int, int], said: str = "", wait_us: int = 0
    ) -> None:
        """Append a line: run, attempt and fence as the code was told them."""
        run, attempt, fence = who
        mark = Mark(
            kind=kind,
            run=run.hex,
            attempt=attempt,
            fence=fence,
            process=os.getpid(),
            at=self._clock.now_us(),
            said=said,
            wait_us=wait_us,
        )
        os.write(self._file, (json.dumps(asdict(mark)) + "\n").encode())


def read_marks(path: Path) -> list[Mark]:
    """Read a ledger of tasks."""
    if not path.exists():
        return []
    return [Mark(**json.loads(line)) for line in path.read_text("utf-8").split("\n")[:-1]]


def read_told(lines: list[str]) -> list[Told]:
    """Read what workers told; whoever was killed may have left half a line."""
    return [
        Told(
            event=told["event"],
            run=told["run_id"].replace("-", ""),
            number=int(told["attempt_id"].rpartition(".")[2]),
            state=told["state"],
        )
        for told in map(_facts, lines)
        if "attempt_id" in told and "state" in told
    ]


def _facts(line: str) -> dict[str, Any]:
    try:
        facts = json.loads(line)
    except ValueError:
        return {}
    return facts if isinstance(facts, dict) else {}
