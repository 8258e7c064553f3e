"""Misfire, overlap (gates), retry and backoff, presets of all three.

`fire_planning` applies a `Misfire` policy to a span of occurrences.

A `Gate` admits the runs of one schedule, or of one business key that several schedules share, one
at a time. A run that arrives meanwhile waits or is skipped, by the overlap policy. The functions
are pure. The store calls them while it holds the gate, so that no two decisions are based on the
same state.

A `Retry` derives its wait from the run's id and the number of the try. So a worker, and the reaper
that settles what a dead worker left, come to the same instant.

A `Preset` fills in only the policies that the caller did not set. A schedule stores the policies
themselves, with the preset's name beside them, so that a release that changes a preset changes no
existing schedule. `never-twice` declares the effects of the task: a run that has begun an effect is
not retried automatically, a run that has not is.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple, assert_never, cast

from duly.domain.enums import Effects, MisfirePolicy, Overlap, RunState, SkipReason
from duly.errors import UsageError
from duly.timetable.instants import duration_microseconds, duration_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

    from duly.domain.ids import RunId, ScheduleId


GRACE_DEFAULT = "60s"
NOT_OLDER_DEFAULT = "1d"
AT_MOST_MAX = 10_000
CATCH_UP_PER_MINUTE_MAX = 60_000
NO_BOUND = "none"
"""How files and commands write that a bound is lifted: they have no word for nothing."""


@dataclass(frozen=True, slots=True, init=False)
class Misfire:
    """A misfire policy: which missed occurrences are run, when one counts as missed, and bounds."""

    policy: MisfirePolicy
    grace_us: int
    at_most: int | None
    not_older_us: int | None
    per_minute: int | None

    def __init__(  # noqa: PLR0913 - the parts of it, as they are given by name
        self,
        policy: str = "latest",
        *,
        grace: str | timedelta = GRACE_DEFAULT,
        at_most: int | None = None,
        not_older: str | timedelta | None = NOT_OLDER_DEFAULT,
        per_minute: int | None = None,
    ) -> None:
        """Take the policy `skip`, `latest` or `all`, the grace, and the bounds on what is run late.

        `grace` is how late still counts as on time. At most `at_most` missed occurrences are run,
        the newest, and none that is older than `not_older`; None lifts a bound. `per_minute` of
        them are made runs of in a minute at the most, whatever the fleet could do.
        """
        choices = ", ".join(MisfirePolicy)
        if policy not in list(MisfirePolicy):
            raise UsageError("misfire", policy, "is not a misfire policy", f"use one of {choices}")
        set_field = object.__setattr__
        set_field(self, "policy", MisfirePolicy(policy))
        set_field(self, "grace_us", _not_negative("grace", grace))
        older = None if not_older is None else _not_negative("not_older", not_older)
        set_field(self, "not_older_us", older)
        is_number = isinstance(at_most, int) and not isinstance(at_most, bool)
        if at_most is not None and not (is_number and 1 <= at_most <= AT_MOST_MAX):
            remedy = f"give 1 to {AT_MOST_MAX:,}, or None for no such bound"
            raise UsageError("at_most", at_most, "is out of range", remedy)
        set_field(self, "at_most", at_most)
        is_number = isinstance(per_minute, int) and not isinstance(per_minute, bool)
        if per_minute is not None and not (
            is_number and 1 <= per_minute <= CATCH_UP_PER_MINUTE_MAX
        ):
            most = f"{CATCH_UP_PER_MINUTE_MAX:,}"
            remedy = f"give 1 to {most}, or None for as many as the fleet catches up"
            raise UsageError("per_minute", per_minute, "is out of range", remedy)
        set_field(self, "per_minute", per_minute)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values that `read_misfire` reads back."""
        older = self.not_older_us
        said = {
            "policy": str(self.policy),
            "grace": duration_text(self.grace_us),
            "at_most": self.at_most,
            "not_older": None if older is None else duration_text(older),
        }
        # Only where it is set: programs of the release before this one refuse what they don't know.
        return said if self.per_minute is None else {**said, "per_minute": self.per_minute}


def read_misfire(value: object) -> Misfire:
    """Read a misfire policy as people give it: a name, a Misfire, or the parts of one."""
    if isinstance(value, Misfire):
        return value
    if isinstance(value, dict):
        unknown = sorted(str(key) for key in value if key not in _KEYS)
        if unknown:
            raise UsageError("misfire", unknown[0], "is not a part of it", f"use {_KEYS_TEXT}")
        given: dict[str, Any] = {
            key: None if part == NO_BOUND else part for key, part in value.items()
        }
        return Misfire(**given)
    if not isinstance(value, str):
        remedy = 'give "skip", "latest", "all" or a duly.Misfire'
        raise UsageError("misfire", value, "is not a misfire policy", remedy)
    return Misfire(value)


_KEYS = ("policy", "grace", "at_most", "not_older", "per_minute")
_KEYS_TEXT = ", ".join(_KEYS)


def _not_negative(field: str, duration: str | timedelta) -> int:
    length = duration_microseconds(duration, field)
    if length < 0:
        raise UsageError(field, duration, "is negative", "give a duration such as '60s' or '2d'")
    return length


WAITING_MAX = 1_000
"""How many may wait at one gate; a longer row says that something is wrong, and is not fed."""


class GateEntryOutcome(StrEnum):
    """What becomes of the run that comes."""

    GOES = "goes"
    WAITS = "waits"
    SKIPPED = "skipped"
    """It is not made; the occurrence is recorded as skipped, with the reason."""


class Gate(NamedTuple):
    """A gate as it is when a run comes to it."""

    is_held: bool
    """Whether an earlier run has gone ahead and is still open: queued, running, waiting for another
    attempt, or ambiguous. One that is closed or dead is in nobody's way."""
    waiting: int


class GateEntry(NamedTuple):
    """What is decided about a run that comes, and about those that were there before."""

    coming: GateEntryOutcome
    reason: SkipReason | None = None
    """Why it is skipped."""
    closes_waiting: RunState | None = None
    """What those that wait are closed as, because the newcomer stands for them."""
    stops_holder: bool = False
    """Whether the open one is asked to stop; it keeps the gate until it has."""


GOES = GateEntry(GateEntryOutcome.GOES)
WAITS = GateEntry(GateEntryOutcome.WAITS)
GATELESS = frozenset((Overlap.ALLOW, Overlap.SKIP))
"""Under these nobody ever waits, so that nothing need be kept of a gate."""


def enter(policy: Overlap, gate: Gate) -> GateEntry:
    """Decide about a run that comes to a gate."""
    if policy is Overlap.ALLOW or gate == (False, 0):
        return GOES
    match policy:
        case Overlap.SKIP:
            return _skipped(SkipReason.OVERLAP)
        case Overlap.QUEUE_ONE:
            return _skipped(SkipReason.OVERFLOW) if gate.waiting else WAITS
        case Overlap.QUEUE_ALL | Overlap.SERIALIZE:
            return WAITS if gate.waiting < WAITING_MAX else _skipped(SkipReason.OVERFLOW)
        case Overlap.COALESCE:
            return GateEntry(GateEntryOutcome.WAITS, closes_waiting=RunState.COALESCED)
        case Overlap.REPLACE:
            return GateEntry(
                GateEntryOutcome.WAITS, closes_waiting=RunState.REPLACED, stops_holder=True
            )
        case _:
            assert_never(policy)


def may_go_on(gate: Gate) -> bool:
    """Say whether the first that waits may go: asked anew whenever something has changed."""
    return not gate.is_held and gate.waiting > 0


def schedule_gate(schedule_id: ScheduleId) -> str:
    """Return the name of a schedule's own gate."""
    return f"schedule:{schedule_id.hex()}"


def key_gate(tenant: str, key: str) -> str:
    """Return the name of the gate of a business key, which belongs to one tenant."""
    return f"key:{len(tenant)}:{tenant}:{key}"


def gate_of(
    policy: Overlap, tenant: str, schedule_id: ScheduleId, serialize_by: str | None
) -> str | None:
    """Return the gate that a schedule's runs stand at; None if nobody ever waits there."""
    if policy in GATELESS:
        return None
    if policy is Overlap.SERIALIZE:
        assert serialize_by is not None, "who serializes says by what"
        return key_gate(tenant, serialize_by)
    return schedule_gate(schedule_id)


def _skipped(reason: SkipReason) -> GateEntry:
    return GateEntry(GateEntryOutcome.SKIPPED, reason)


ATTEMPTS_DEFAULT = 5
ATTEMPTS_MAX = 1_000
BASE_DEFAULT = "10s"
CAP_DEFAULT = "1h"
CAP_MAX_US = 30 * 86_400 * 1_000_000
PER_MINUTE_MAX = 1_000_000
_DOUBLINGS_MAX = 40
_MINUTE_US = 60 * 1_000_000
_DRAW_BYTES = 7


@dataclass(frozen=True, slots=True, init=False)
class Retry:
    """A task's budget of attempts, and its backoff: full jitter under a doubling bound, capped."""

    attempts: int
    base_us: int
    cap_us: int
    errors: tuple[str, ...] | None
    """Names of the exceptions that are tried again, by class name; None for all."""
    per_minute: int | None
    """At most this many retries of all runs of the task in a minute; more come later."""

    def __init__(  # noqa: PLR0913 - each has a default that is right for most
        self,
        attempts: int = ATTEMPTS_DEFAULT,
        *,
        base: str | timedelta = BASE_DEFAULT,
        cap: str | timedelta = CAP_DEFAULT,
        on: Sequence[type[BaseException] | str] | None = None,
        per_minute: int | None = None,
    ) -> None:
        """Take how many attempts in all (1: no retry), the bounds of the wait, and which errors.

        After the n-th attempt a run waits a random time below `base` x 2^(n-1), at most `cap`. `on`
        names the exceptions (or their base classes) that are worth another try, by the name of the
        class alone; a group of exceptions is worth it when each one in it is.
        """
        set_field = object.__setattr__
        set_field(self, "attempts", _whole("attempts", attempts, ATTEMPTS_MAX))
        set_field(self, "base_us", duration_microseconds(base, "base"))
        set_field(self, "cap_us", duration_microseconds(cap, "cap"))
        set_field(self, "errors", None if on is None else tuple(_error_name(one) for one in on))
        rate = None if per_minute is None else _whole("per_minute", per_minute, PER_MINUTE_MAX)
        set_field(self, "per_minute", rate)
        if not 0 <= self.base_us <= self.cap_us <= CAP_MAX_US:
            remedy = "give 0 <= base <= cap <= 30d, such as base='10s', cap='1h'"
            raise UsageError("retry", (base, cap), "are waits that contradict each other", remedy)

    @property
    def spacing_us(self) -> int:
        """How far apart the task's retries lie at its budget's rate; 0 for no budget."""
        return 0 if self.per_minute is None else _MINUTE_US // self.per_minute

    def delay_us(self, run: RunId, number: int) -> int:
        """Return how long to wait after a run's n-th charged attempt: uniform up to the bound."""
        assert number >= 1, "the first wait comes after the first attempt"
        bound = min(self.cap_us, self.base_us << min(number - 1, _DOUBLINGS_MAX))
        seed = run + number.to_bytes(4)
        draw = blake2b(seed, digest_size=_DRAW_BYTES, person=b"duly.backoff").digest()
        return int.from_bytes(draw) * bound >> 8 * _DRAW_BYTES

    def is_worth(self, error: BaseException) -> bool:
        """Say whether an exception is tried again: by its class, or if all that it groups are."""
        return self.errors is None or all(self._names(leaf) for leaf in leaves_of(error))

    def _names(self, error: BaseException) -> bool:
        return any(one.__name__ in (self.errors or ()) for one in type(error).__mro__)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values that `read_retry` reads back."""
        return {
            "attempts": self.attempts,
            "base": duration_text(self.base_us),
            "cap": duration_text(self.cap_us),
            "on": None if self.errors is None else list(self.errors),
            "per_minute": self.per_minute,
        }


def leaves_of(error: BaseException) -> list[BaseException]:
    """Return what an exception group holds, groups within it opened; any other as it is."""
    leaves: list[BaseException] = []
    left = [error]
    while left:
        one = left.pop()
        # By its type: what a class of the task's own says about itself is not asked.
        if issubclass(type(one), BaseExceptionGroup):
            left += cast("BaseExceptionGroup[BaseException]", one).exceptions
        else:
            leaves.append(one)
    return leaves


def read_retry(value: object) -> Retry:
    """Read a budget as people give it: a number of attempts, a Retry, or the parts of one."""
    if isinstance(value, Retry):
        return value
    if isinstance(value, dict):
        unknown = sorted(str(key) for key in value if key not in _RETRY_KEYS)
        if unknown:
            raise UsageError(
                "retry", unknown[0], "is not a part of it", f"use {', '.join(_RETRY_KEYS)}"
            )
        return Retry(**value)
    if isinstance(value, int) and not isinstance(value, bool):
        return Retry(value)
    remedy = "give a number of attempts, or duly.Retry(attempts=5, base='10s', cap='1h')"
    raise UsageError("retry", value, "is not a budget of attempts", remedy)


def stored_retry(stored: Mapping[str, Any]) -> Retry:
    """Read a budget from what `to_json` returned; what another release has added is passed over."""
    return Retry(**{key: stored[key] for key in _RETRY_KEYS if key in stored})


_RETRY_KEYS = ("attempts", "base", "cap", "on", "per_minute")


def _error_name(error: object) -> str:
    if isinstance(error, str) and error.isidentifier():
        return error
    if isinstance(error, type) and issubclass(error, BaseException):
        return error.__name__
    remedy = "give exception classes, such as on=(TimeoutError, ConnectionError)"
    raise UsageError("on", error, "is not an exception class", remedy)


def _whole(field: str, value: object, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        remedy = f"give a whole number, 1 to {most:,}"
        raise UsageError(field, value, "is not such a number", remedy)
    return value


NO_PRESET = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """Policies of schedules and of tasks, for one kind of work."""

    words: str
    """For which work it is."""
    misfire: Misfire
    overlap: Overlap
    retry: Retry
    effects: Effects = Effects.IDEMPOTENT


PRESETS: Mapping[str, Preset] = {
    "best-effort": Preset(
        words="worth doing on time or not at all: a heartbeat, a sample, a clean-up",
        misfire=Misfire("skip"),
        overlap=Overlap.SKIP,
        retry=Retry(1),
    ),
    "refresh": Preset(
        words="only the newest state counts: a cache, an index, a copy",
        misfire=Misfire("latest"),
        overlap=Overlap.COALESCE,
        retry=Retry(3, base="5s", cap="1m"),
    ),
    "one-result": Preset(
        words="every occurrence owes its own result: a close, a statement, a duty report",
        misfire=Misfire("all", not_older=None),
        overlap=Overlap.QUEUE_ALL,
        retry=Retry(20, base="30s", cap="1h"),
    ),
    "serialized": Preset(
        words="runs that touch the same thing go one after the other: an account, a device",
        misfire=Misfire("all"),
        overlap=Overlap.SERIALIZE,
        retry=Retry(),
    ),
    "never-twice": Preset(
        words="never tried again once its effect has begun; a person decides: a payment, a letter",
        misfire=Misfire("all"),
        overlap=Overlap.QUEUE_ALL,
        retry=Retry(),
        effects=Effects.UNSAFE,
    ),
}


def read_preset(value: object) -> Preset:
    """Read the name of a preset."""
    if isinstance(value, str) and value in PRESETS:
        return PRESETS[value]
    remedy = f"use one of {', '.join(PRESETS)}"
    raise UsageError("preset", value, "is not a preset", remedy)


def with_preset(policies: Mapping[str, Any]) -> dict[str, Any]:
    """Return policies of a schedule with what its preset says about those that nobody has named."""
    name = policies.get("preset")
    given = {key: value for key, value in policies.items() if value is not None}
    if name is None:
        return given
    if name == NO_PRESET:
        return {**given, "preset": None}
    preset = read_preset(name)
    filled: dict[str, Any] = {"misfire": preset.misfire}
    if "serialize_by" not in given:
        filled["overlap"] = preset.overlap
    return filled | given
