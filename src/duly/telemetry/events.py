"""Every event: fleet, runs, workers, alerts."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened in a process of the fleet."""

    name: ClassVar[str] = "event"
    level: ClassVar[int] = logging.INFO
    member: int
    """Which dispatcher or worker tells it; 0 before it has joined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberJoined(Event):
    """A process has become a member, under an id that nobody had before."""

    name: ClassVar[str] = "joined"
    kind: str = "dispatcher"
    host: str
    process: int
    tzdata: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberLeft(Event):
    """A member has left the fleet and given up what it held."""

    name: ClassVar[str] = "left"
    kind: str = "dispatcher"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredDead(Event):
    """The store no longer knows this member; it starts anew under another id."""

    name: ClassVar[str] = "declared-dead"
    level: ClassVar[int] = logging.WARNING
    kind: str = "dispatcher"
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasesAcquired(Event):
    """Leases are ours; taken over from a dead owner, or free."""

    name: ClassVar[str] = "leases-acquired"
    leases: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasesReleased(Event):
    """Leases were given up on purpose."""

    name: ClassVar[str] = "leases-released"
    leases: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasesLost(Event):
    """Leases that we believed to hold are somebody else's."""

    name: ClassVar[str] = "leases-lost"
    level: ClassVar[int] = logging.WARNING
    leases: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimersFired(Event):
    """A batch of timers was sent to the store, and what became of them."""

    name: ClassVar[str] = "batch-fired"
    level: ClassVar[int] = logging.DEBUG
    fired: int
    runs: int
    lateness_max_us: int
    """Of those that fired: store's now less due."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LatePlanned(Event):
    """Occurrences were later than their grace, and were planned by their misfire policies."""

    name: ClassVar[str] = "late-planned"
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteFenced(Event):
    """The store has refused what we wrote, because its shard is no longer ours."""

    name: ClassVar[str] = "write-fenced"
    level: ClassVar[int] = logging.WARNING
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SkewHoldBegun(Event):
    """Our clock and the store's disagree: this dispatcher has stopped firing."""

    name: ClassVar[str] = "skew-hold-begun"
    level: ClassVar[int] = logging.ERROR
    skew_us: int
    """How far our clock is ahead of the store's; negative if behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkewHoldEnded(Event):
    """The clocks agree again; this dispatcher takes part again."""

    name: ClassVar[str] = "skew-hold-ended"
    skew_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockStepped(Event):
    """The store's clock was set; firing waits a moment, late rather than early."""

    name: ClassVar[str] = "clock-stepped"
    level: ClassVar[int] = logging.WARNING
    step_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TzdataOutdated(Event):
    """Others compute by newer time-zone rules than we have; we own nothing until we have them."""

    name: ClassVar[str] = "tzdata-outdated"
    level: ClassVar[int] = logging.ERROR
    ours: str
    newest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerRetimed(Event):
    """A pending instant moved, because time-zone rules changed."""

    name: ClassVar[str] = "timer-retimed"
    schedule: str
    schedule_id: str
    before: int
    after: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TzdataRecomputed(Event):
    """Every pending instant was compared with newer time-zone rules."""

    name: ClassVar[str] = "tzdata-recomputed"
    before: str
    release: str
    looked_at: int
    moved: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleEnded(Event):
    """A schedule has no further instant, or it can't be computed."""

    name: ClassVar[str] = "schedule-ended"
    schedule_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleResumed(Event):
    """A pause has come to its end by itself."""

    name: ClassVar[str] = "schedule-resumed"
    schedule: str
    schedule_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemSkipped(Event):
    """One thing could not be handled; the others go on, and it is tried again later."""

    name: ClassVar[str] = "set-aside"
    level: ClassVar[int] = logging.ERROR
    what: str
    subject_id: str
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPruned(Event):
    """History past its retention was removed."""

    name: ClassVar[str] = "history-pruned"
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreLost(Event):
    """The store can't be reached; we go on trying."""

    name: ClassVar[str] = "store-lost"
    level: ClassVar[int] = logging.WARNING
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRecovered(Event):
    """The store answers again."""

    name: ClassVar[str] = "store-recovered"
    lost_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TickFailed(Event):
    """A service met an error that nobody foresaw; it goes on after a moment."""

    name: ClassVar[str] = "tick-failed"
    level: ClassVar[int] = logging.ERROR
    problem: str
    where: str
    """File and line at which it was raised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchTaken(Event):
    """This process watches for all from now on."""

    name: ClassVar[str] = "watch-taken"
    level: ClassVar[int] = logging.DEBUG
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchLost(Event):
    """Another process watches; what this one had decided was refused."""

    name: ClassVar[str] = "watch-lost"
    level: ClassVar[int] = logging.WARNING
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRaised(Event):
    """An alert is open; channels are told, unless it is silenced."""

    name: ClassVar[str] = "alert-raised"
    level: ClassVar[int] = logging.WARNING
    kind: str
    severity: str
    subject: str
    tenant: str
    summary: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertResolved(Event):
    """What an alert was about is over."""

    name: ClassVar[str] = "alert-resolved"
    kind: str
    subject: str
    tenant: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectorFailed(Event):
    """Some part of the store could not be looked at: what is known of it stays as it was."""

    name: ClassVar[str] = "observer-failed"
    level: ClassVar[int] = logging.ERROR
    observer: str
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryFailed(Event):
    """A channel did not take an alert; it is tried again, unless it was given up."""

    name: ClassVar[str] = "alert-delivery-failed"
    level: ClassVar[int] = logging.WARNING
    channel: str
    delivery: str
    tries: int
    is_given_up: bool
    problem: str


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
class RunAmbiguous(RunEvent):
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
class CompletionFenced(Event):
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
    """No living worker knows a run's task: the run is dead, and its schedule paused.

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
