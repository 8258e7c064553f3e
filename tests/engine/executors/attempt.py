"""One attempt in a test's hands: what an executor is given, and what it said."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from duly.domain.effects import EffectPermission, Grant
from duly.domain.enums import Lane, Origin, RunState, TaskKind
from duly.domain.runs import AttemptCounts, Progress, RunRecord, TaskPolicy
from duly.domain.schedules import Call
from duly.domain.tasks import NO_LIMITS, TaskLimits
from duly.engine.executors.task_output import Redactor
from duly.errors import LeaseLost
from duly.store.ports.execution import ClaimedRun
from duly_conformance.kit import run_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.domain.ids import RunId
    from duly.domain.outcomes import End
    from duly.domain.verification import ItemReport

LIMIT_SECONDS = 120.0
"""How long anything may take that is waited for: far longer than it takes on a slow machine."""


def claimed_run(task: str, arguments: str = "{}", **parts: Any) -> ClaimedRun:
    identity: RunId = run_id(task)
    tries = AttemptCounts(fence=7, attempt=2, charged=1, begun_at=5)
    record: dict[str, Any] = {
        "id": identity,
        "tenant": "default",
        "schedule_id": None,
        "schedule_name": None,
        "definition_number": None,
        "key": "class:42",
        "call": Call(task=task, arguments=arguments),
        "origin": Origin.NOW,
        "lane": Lane.LIVE,
        "root": identity,
        "scheduled_for": 1_000_000,
        "not_before": 1_000_000,
        "window_from": None,
        "created_at": 3,
        "fired_at": 4,
        "state": RunState.RUNNING,
        "state_reason": None,
        "finished_at": None,
        "tries": tries,
        "progress": Progress(1, 2, "half"),
        **parts,
    }
    return ClaimedRun.of(RunRecord(**record), tries, 6)


class RecordedLive:
    """Remembers what a run says; a checkpoint can be refused."""

    def __init__(self) -> None:
        self.is_cancelled = False
        self.progress: list[Progress] = []
        self.lines: list[tuple[str, str]] = []
        self.states: dict[str, str] = {}
        self.concealed: list[str] = []
        self._concealer = Redactor()
        self.is_lost = False
        self.effects: dict[str, str | None] = {}
        self.done: list[str] = []
        self.advanced = threading.Event()

    def advance(self, progress: Progress) -> None:
        self.progress.append(progress)
        self.advanced.set()

    def save(self, partition: str, state: str) -> None:
        if self.is_lost:
            raise LeaseLost("test", "the run was taken from this worker", "stop")
        self.states[partition] = state

    def saved(self, partition: str) -> str | None:
        return self.states.get(partition)

    def begin_effect(self, key: str | None) -> EffectPermission:
        return EffectPermission(Grant.GRANTED)

    def end_effect(self, key: str, result: str | None, *, is_done: bool = True) -> None:
        self.effects[key] = result

    def note_scope(self, report: ItemReport) -> None:
        self.done += report.done

    def done_items(self, items: tuple[str, ...]) -> frozenset[str]:
        return frozenset(items) & frozenset(self.done)

    def write(self, level: str, text: str) -> None:
        self.lines.append((level, text))

    def conceal(self, text: str) -> None:
        self.concealed.append(text)
        self._concealer.add(text)

    def hide(self, text: str, *, is_cut: bool = False) -> str:
        return self._concealer.hide(text, is_cut=is_cut)

    def texts(self, level: str) -> list[str]:
        return [text for at, text in self.lines if at == level]


class LookedAt(RecordedLive):
    """Remembers, too, how often somebody has looked whether to stop."""

    def __init__(self) -> None:
        self.looks = 0
        super().__init__()

    @property
    def is_cancelled(self) -> bool:
        self.looks += 1
        return True

    @is_cancelled.setter
    def is_cancelled(self, value: bool) -> None: ...


class Unbound:
    """A proxy of something that is not there: whoever looks at it gets an error."""

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        raise RuntimeError("working outside of its context")

    def __str__(self) -> str:
        raise RuntimeError("working outside of its context")


@dataclass
class Code:
    """A task's code, as an executor sees it."""

    function: Callable[..., Any]
    name: str = "code"
    kind: TaskKind = TaskKind.THREAD
    policy: TaskPolicy = field(default_factory=TaskPolicy)
    plan: Any = None
    limits: TaskLimits = NO_LIMITS

    def prepare(self, claimed: ClaimedRun, live: Any) -> Callable[[], Any]:
        return self.function


@dataclass(eq=False)
class Attempt:
    """One attempt, and how it began and ended."""

    runnable: Any
    claimed: ClaimedRun = field(default_factory=lambda: claimed_run("code"))
    live: Any = field(default_factory=RecordedLive)
    begun: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)
    gone: threading.Event = field(default_factory=threading.Event)
    rung: threading.Event = field(default_factory=threading.Event)
    ends: list[End] = field(default_factory=list)
    trace: Any = None

    def began(self) -> None:
        self.begun.set()

    def ended(self, end: End, *, is_gone: bool = True, is_quiet: bool = False) -> None:
        self.ends.append(end)
        self.over.set()
        if is_gone:
            self.gone.set()
        if not is_quiet:
            self.rung.set()

    def ring(self) -> None:
        self.rung.set()

    def wait_begun(self) -> None:
        assert self.begun.wait(LIMIT_SECONDS), f"it has not begun; {self.ends}"

    def wait_end(self) -> End:
        assert self.over.wait(LIMIT_SECONDS), "it has not ended"
        return self.ends[0]

    def wait_gone(self) -> None:
        assert self.gone.wait(LIMIT_SECONDS), "it is not gone"


def attempt_of(function: Callable[..., Any]) -> Attempt:
    return Attempt(Code(function))
