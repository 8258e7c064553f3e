"""What workers and their supervisor tell about themselves: runs, attempts, slots, processes."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import ClassVar

from duly.telemetry.events import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvent(Event):
    """Something that happened to a run: its ids are in each of these.

    Empty is what it has none of; and its schedule's, where nobody asked the store for it.
    """

    task: str
    run_id: str
    attempt_id: str = ""
    schedule_id: str = ""
    schedule: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(RunEvent):
    """A worker has begun an attempt."""

    name: ClassVar[str] = "run-started"
    level: ClassVar[int] = logging.DEBUG


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLogged(RunEvent):
    """A line was added to a run's log: by its code, or by what its process wrote."""

    name: ClassVar[str] = "run-log"
    line_level: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnded(RunEvent):
    """An attempt is over, and the store has taken note of it."""

    name: ClassVar[str] = "attempt-ended"
    number: int
    state: str
    reason: str
    then: str
    """Where its run is now: retrying, queued, dead, or its outcome."""
    took_us: int
    """From its start; 0 for one that was never started."""
    error: str
    """The last line of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSucceeded(AttemptEnded):
    """An attempt has succeeded, and the run is over."""

    name: ClassVar[str] = "run-succeeded"
    level: ClassVar[int] = logging.DEBUG


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFailed(AttemptEnded):
    """The task gave up: the run is over, and has failed."""

    name: ClassVar[str] = "run-failed"
    level: ClassVar[int] = logging.ERROR


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCancelled(AttemptEnded):
    """A run was stopped because somebody asked for it."""

    name: ClassVar[str] = "run-cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFailed(AttemptEnded):
    """An attempt has failed or taken too long."""

    name: ClassVar[str] = "attempt-failed"
    level: ClassVar[int] = logging.WARNING


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptGivenBack(AttemptEnded):
    """A run was given back without being done: its worker stops, or it asked to be run later."""

    name: ClassVar[str] = "attempt-given-back"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDead(RunEvent):
    """A run has gone to the dead letters, where a person can bring it back."""

    name: ClassVar[str] = "run-dead"
    level: ClassVar[int] = logging.ERROR
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInDoubt(RunEvent):
    """Nobody knows what a run did: it is not tried again, and waits for a person."""

    name: ClassVar[str] = "run-ambiguous"
    level: ClassVar[int] = logging.ERROR
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptLost(RunEvent):
    """An attempt was taken from a worker that is gone, or that did not end it in time."""

    name: ClassVar[str] = "attempt-lost"
    level: ClassVar[int] = logging.WARNING
    worker: int
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionRefused(RunEvent):
    """The store has refused what we said about an attempt, because it is no longer ours."""

    name: ClassVar[str] = "completion-refused"
    level: ClassVar[int] = logging.WARNING
    state: str
    """What we said that it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FencedOff(Event):
    """Attempts are no longer ours: they are asked to stop, and whatever they say is doubted."""

    name: ClassVar[str] = "fenced-off"
    level: ClassVar[int] = logging.WARNING
    count: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotLeaked(RunEvent):
    """Code that can't be stopped keeps its slot until its process ends."""

    name: ClassVar[str] = "slot-leaked"
    level: ClassVar[int] = logging.ERROR
    leaked: int
    """How many slots are lost by now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandsLeftOut(Event):
    """A worker may not run some commands of its application: they are left to others."""

    name: ClassVar[str] = "commands-left-out"
    level: ClassVar[int] = logging.WARNING
    tasks: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerDraining(Event):
    """A worker takes no more runs, lets those it has finish, and gives the rest back."""

    name: ClassVar[str] = "worker-draining"
    running: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRecycling(Event):
    """A worker has lost too many slots: it ends, so that a fresh one can take its place."""

    name: ClassVar[str] = "worker-recycling"
    level: ClassVar[int] = logging.ERROR
    leaked: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMissing(RunEvent):
    """No living worker knows a run's task: the run is dead, and its schedule paused (S6).

    The schedule is named only if it was paused.
    """

    name: ClassVar[str] = "task-missing"
    level: ClassVar[int] = logging.ERROR


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerProcessStarted(Event):
    """A supervisor has started the process of a worker."""

    name: ClassVar[str] = "worker-process-started"
    process: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerProcessEnded(Event):
    """The process of a worker has ended as it should: told to stop, or to be replaced."""

    name: ClassVar[str] = "worker-process-ended"
    process: int
    how: str
    """Its exit status or its signal, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerProcessCrashed(Event):
    """The process of a worker has ended by itself; another takes its place after a while."""

    name: ClassVar[str] = "worker-process-crashed"
    level: ClassVar[int] = logging.ERROR
    process: int
    how: str
    again_us: int
    """How long until another is started."""
