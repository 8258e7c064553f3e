"""Run, DelayedRun, Attempt, progress, log lines, TaskPolicy.

A run is claimed under a fence that grows with every claim. A claim that is started gets the next
attempt number. Neither number is ever reused.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from duly.domain.enums import AttemptState, Effects, Origin, RunState, SkipReason
from duly.domain.policies import Retry, stored_retry
from duly.errors import UsageError
from duly.timetable.instants import duration_microseconds, duration_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from duly.domain.enums import Lane
    from duly.domain.ids import RunId, ScheduleId
    from duly.domain.schedules import Call


TIMEOUT_DEFAULT_US = 3_600 * 1_000_000
ERROR_LENGTH_MAX = 16_000
RESULT_BYTES_MAX = 64 * 1024
CHECKPOINT_BYTES_MAX = 256 * 1024
PARTITION_LENGTH_MAX = 200
LINE_LENGTH_MAX = 4_000
LINES_PER_ATTEMPT_MAX = 1_000
TASK_GONE = "no living worker knows its task, or may run it"
"""How the reason begins why a schedule is paused whose task's code is gone."""
RECEIVER_GONE = "its receiver wants no more of it"
"""How it begins where whoever is called has said so (410)."""


class Reason(StrEnum):
    """Why an attempt ended as it did, or a run went where it is: one code for each cause."""

    ERROR = "error"
    NOT_RETRYABLE = "not-retryable"
    BUDGET = "budget"
    """No attempts are left."""
    TIMEOUT = "timeout"
    RUN_TIMEOUT = "run-timeout"
    STALLED = "stalled"
    LOST = "lost"
    """Its worker is gone; whether the code went on, nobody knows."""
    ASKED = "asked"
    """The task asked to be tried again."""
    RETRY_AFTER = "retry-after"
    """The other side said when to try again."""
    SNOOZED = "snoozed"
    GAVE_UP = "gave-up"
    CANCELLED = "cancelled"
    SHUTDOWN = "shutdown"
    """Its worker was stopped, and gave it back."""
    NOT_STARTED = "not-started"
    BAD_ARGUMENTS = "bad-arguments"
    NO_SECRET = "no-secret"  # noqa: S105 - it says that there is none
    """A secret that it needs can't be had on its worker."""
    UNKNOWN_TASK = "unknown-task"
    EXIT_STATUS = "exit-status"
    KILLED = "killed"
    """Its process was ended by a signal."""
    HTTP_STATUS = "http-status"
    REFUSED_ADDRESS = "refused-address"
    NOT_ALLOWED = "not-allowed"
    GONE = "gone"
    """The receiver wants no more of it (410)."""
    ORDERED = "ordered"
    """A person ordered it."""
    EFFECT_UNKNOWN = "effect-unknown"
    """It came to an effect of which nobody knows whether it happened before."""
    EFFECT_DONE = "effect-done"
    """It came to an effect that was done before, and its code does not know what to do then."""
    SUSPENDED = "suspended"
    """Retries of its task are suspended."""
    RECONCILED = "reconciled"
    """A person looked, and recorded what has become of it."""
    RECONCILED_INCOMPLETE = "reconciled-incomplete"
    """A person recorded it as done although items are missing. It is no useful completion."""
    VERIFIED = "verified"
    """Its task's own check found what it was to do."""


DECIDED = frozenset((Reason.RECONCILED, Reason.RECONCILED_INCOMPLETE))
"""Why a run is closed that was in doubt until a person looked."""


class AttemptCounts(NamedTuple):
    """How often a run was claimed, started and charged so far; carried from place to place."""

    fence: int = 0
    """Grows with every claim."""
    attempt: int = 0
    """Grows with every start."""
    charged: int = 0
    """How many of its starts count against its budget; giving back and snoozing are free."""
    begun_at: int | None = None
    """When it was claimed for the first time."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an attempt says it has come."""

    done: int
    total: int | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPolicy:
    """What a task's code says about its runs: how often, how long, how safe to repeat."""

    retry: Retry = Retry()  # noqa: RUF009 - an immutable value
    timeout_us: int | None = TIMEOUT_DEFAULT_US
    """Of one attempt; None for no limit."""
    run_timeout_us: int | None = None
    """From the first claim to the end, retries and their waits included."""
    stall_us: int | None = None
    """How long an attempt may go on without reporting progress; None: it need not report any."""
    effects: Effects = Effects.IDEMPOTENT
    is_checked: bool = False
    """Whether the task can check the result of a run."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values that `policy_from_json` reads back."""
        return {
            "retry": self.retry.to_json(),
            "timeout": _text(self.timeout_us),
            "run_timeout": _text(self.run_timeout_us),
            "stall": _text(self.stall_us),
            "effects": str(self.effects),
            "checked": self.is_checked,
        }


def policy_from_json(stored: Mapping[str, Any]) -> TaskPolicy:
    """Read a policy from what `to_json` returned, here or in a program of another release.

    What this one does not know is passed over, and a part that it can't read is as if nobody had
    said: whoever settles a lost claim must come to a decision.
    """
    parts: dict[str, Any] = {}
    for name, (key, read) in _PARTS.items():
        with suppress(KeyError, TypeError, ValueError, UsageError):
            parts[name] = read(stored[key])
    return TaskPolicy(**parts)


@lru_cache(maxsize=1024)
def stored_policy(text: str | None) -> TaskPolicy:
    """Read a policy as a store keeps it, as JSON text; None is what nobody has said."""
    stored = None
    with suppress(TypeError, ValueError, RecursionError):
        stored = None if text is None else json.loads(text)
    return policy_from_json(stored) if isinstance(stored, dict) else TaskPolicy()


def policy_under(policy: TaskPolicy, *, is_unsafe: object) -> TaskPolicy:
    """Return the policy by which a claim is settled whose effects have begun under a class.

    That class stays, whatever is declared since: by an earlier release of the task's code that is
    still about, by a later one, or by nobody whom we can understand.
    """
    return replace(policy, effects=Effects.UNSAFE) if is_unsafe else policy


@dataclass(frozen=True, slots=True, kw_only=True)
class LateReport:
    """What a lost worker still said after its run was taken from it: evidence, no more."""

    state: AttemptState
    at: int
    error: str | None = None
    result: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecord:
    """One claim of a run and what became of it, as the store knows it."""

    run_id: RunId
    fence: int
    number: int | None
    """None for a claim that was given back before it was started."""
    worker: int
    worker_name: str
    """Host and process; remembered for as long as closed runs are, and at least three months."""
    state: AttemptState
    reason: str | None
    claimed_at: int
    started_at: int | None
    heartbeat_at: int | None
    """When its worker last renewed; of an ended one, only if that is known: not after its end."""
    progress: Progress | None
    progress_at: int | None
    cancel_asked_at: int | None
    ended_at: int | None
    error: str | None
    late: LateReport | None = None
    effects_at: int | None = None
    """When it was first permitted to do what can't be taken back."""


@dataclass(frozen=True, slots=True)
class ProgressRecord:
    """One step of an attempt's progress, kept for afterwards."""

    fence: int
    at: int
    progress: Progress


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line that an attempt wrote, before it is stored."""

    at: int
    """By the store's clock, as well as the worker knows it."""
    level: str
    text: str


@dataclass(frozen=True, slots=True)
class LineRecord:
    """A stored line; numbers grow, so that a reader can follow."""

    number: int
    fence: int
    line: LogLine


def attempt_name(run: str, number: int) -> str:
    """Return an attempt's id as people see it: the run's, and which try."""
    return f"{run}.{number}"


def _text(microseconds: int | None) -> str | None:
    return None if microseconds is None else duration_text(microseconds)


def _duration(text: str | None) -> int | None:
    return None if text is None else duration_microseconds(text, "timeout")


_PARTS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "retry": ("retry", stored_retry),
    "timeout_us": ("timeout", _duration),
    "run_timeout_us": ("run_timeout", _duration),
    "stall_us": ("stall", _duration),
    "effects": ("effects", Effects),
    "is_checked": ("checked", bool),
}
"""By field of a policy: its key in the stored form, and how that is read."""


KEY_LENGTH_MAX = 200
MAKING_GOOD = frozenset((Origin.REPAIR, Origin.BACKFILL))
"""Origins of runs that go on with what an earlier run has left undone, if there was one."""


def lineage_root_of(run_id: RunId, origin: Origin, root: RunId | None) -> RunId:
    """Return the first run of a run's line: all of it share effects, scope and idempotency key.

    A plain rerun is there to do everything again, so it begins a line of its own; whoever receives
    its calls must not take them for a repetition.
    """
    return root if root is not None and origin in MAKING_GOOD else run_id


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One run: where it came from, when it was due, made and queued, and what became of it."""

    id: RunId
    tenant: str
    schedule_id: ScheduleId | None
    schedule_name: str | None
    definition_number: int | None
    key: str | None
    call: Call
    origin: Origin
    lane: Lane
    root: RunId
    """The run that a rerun repeats; a run's own id otherwise."""
    scheduled_for: int
    not_before: int
    """When it fell due: its nominal time plus jitter."""
    window_from: int | None
    """The occurrence before this one that was run; None for the first."""
    created_at: int
    fired_at: int | None
    """When it became visible to workers, by the store's clock; None if it never did."""
    state: RunState
    state_reason: str | None
    finished_at: int | None
    tries: AttemptCounts = AttemptCounts()  # noqa: RUF009 - an immutable value
    """How often it was claimed, started and charged so far."""
    worker: int | None = None
    """Who holds it, or who finished it."""
    claimed_at: int | None = None
    """Of the claim that holds it or finished it, as is the start."""
    started_at: int | None = None
    progress: Progress | None = None
    cancel_asked_at: int | None = None
    next_at: int | None = None
    """While retrying: when its next attempt falls due."""
    error: str | None = None
    """The last attempt's, once there is one."""
    result: str | None = None
    """What it returned, as JSON text."""

    @property
    def line(self) -> RunId:
        """The first run of its line; its id is the idempotency key of them all."""
        return lineage_root_of(self.id, self.origin, self.root)

    into: RunId | None = None
    """The run that stands for it, if it was coalesced or replaced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayedRecord:
    """A delayed run that is still pending: it can be moved, cancelled or replaced by its key."""

    id: RunId
    tenant: str
    key: str | None
    call: Call
    due_at: int
    generation: int
    """Grows with every move; a timer of an earlier generation is void."""
    fingerprint: str
    """What was asked for, hashed: the same request made again is recognised by it."""
    created_at: int


class OccurrenceStatusKind(StrEnum):
    """What is known about an occurrence: every one has exactly one of these."""

    RUN = "run"
    SKIPPED = "skipped"
    COALESCED = "coalesced"
    """Its run never started: a later run that waited stands for it."""
    REPLACED = "replaced"
    """Its run was stopped, or never started: the run that replaced it stands for it."""
    OWED = "owed"
    PENDING = "pending"
    UNKNOWN = "unknown"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class OccurrenceStatus:
    """What became of one expected occurrence of a schedule."""

    scheduled_for: int
    kind: OccurrenceStatusKind
    run_id: RunId | None = None
    """Its run, or the run that stands for it."""
    reason: SkipReason | None = None


def status_of_run(
    instant: int, run_id: RunId, state: str | None, into: RunId | None
) -> OccurrenceStatus:
    """Return the status of an occurrence that has a run; `state` is how that run was closed."""
    match state:
        case RunState.COALESCED:
            kind = OccurrenceStatusKind.COALESCED
        case RunState.REPLACED:
            kind = OccurrenceStatusKind.REPLACED
        case _:
            return OccurrenceStatus(instant, OccurrenceStatusKind.RUN, run_id)
    return OccurrenceStatus(instant, kind, into, SkipReason.OVERLAP)


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipRecord:
    """A recorded range of occurrences that were not run."""

    schedule_id: ScheduleId
    first_for: int
    last_for: int
    count: int | None
    reason: SkipReason
    into: RunId | None
    at: int
