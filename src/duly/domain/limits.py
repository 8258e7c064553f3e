"""Concurrency limits and rates (token pacing), per task, tenant, destination.

A limit applies to one task, tenant or destination, or to each of them separately. Code declares
limits and operators set them. For each part of a limit a named scope precedes `*`, and an
operator's value precedes the code's. A running attempt holds one place at each limit that applies.

A run put off by a rate becomes a timer at its turn, so that it blocks nothing behind it.
`RateState` remembers the turns given out, and separately those that have begun, as one instant
each: when the next would come if all had come evenly. A run that returns at its turn must conform
once more to those that have begun. So runs that are late together, after an outage, do not all
begin at once.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

from duly.errors import UsageError, read_text, require_text
from duly.timetable.instants import DAY, SECOND_US, UNITS_US, duration_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


COUNT_MAX = 1_000_000
BURST_MAX = 100_000
EVERY_MAX_US = DAY * SECOND_US
LENGTH_MAX = 50
SLACK_MAX_US = SECOND_US
_RATE = re.compile(r"([0-9]{1,7}) ?/ ?([0-9]{1,5})? ?(ms|s|m|h|d)(?: burst ([0-9]{1,6}))?")


class Rate(NamedTuple):
    """How many may begin in how long, and how many of them at once after a quiet time."""

    times: int
    period_us: int
    burst: int

    @property
    def every_us(self) -> int:
        """How far apart they lie when they come evenly."""
        return -(-self.period_us // self.times)

    @property
    def slack_us(self) -> int:
        """How late a run may begin without shifting the next: less than one interval.

        Workers take runs a little after their turns. With a whole interval of slack, one more than
        the burst would begin at once.
        """
        return min(self.every_us // 2, SLACK_MAX_US)

    @property
    def text(self) -> str:
        """Write it as it is read: "100/1m burst 10"."""
        return f"{self.times}/{duration_text(self.period_us)} burst {self.burst}"


class RateState(NamedTuple):
    """What is remembered of a rate: three instants, 0 while nobody has come."""

    promised_at: int = 0
    """When the turn after the last that was given out would be."""
    begun_at: int = 0
    """When the next would begin after the last that has begun."""
    again_at: int = 0
    """The turn after the last of those that came back at theirs and could not begin."""


class Turn(NamedTuple):
    """When one that comes may begin, and the paces as they are then."""

    at: int
    """Now or earlier, if it begins."""
    paces: tuple[RateState, ...]


def read_rate(field: str, value: object) -> Rate:
    """Read a rate as people write it: "100/m", "5/s burst 20", "30/15m"."""
    if isinstance(value, Rate):
        return value
    found = None
    if isinstance(value, str) and len(value) <= LENGTH_MAX:
        found = _RATE.fullmatch(value.strip())
    if found is None:
        remedy = "give so many in a while, such as '100/m', '30/15m' or '5/s burst 20'"
        raise UsageError(field, value, "is not a rate", remedy)
    count, many, unit, burst_text = found.groups()
    number, period_us = int(count), int(many or 1) * UNITS_US[unit]
    if not (1 <= number <= COUNT_MAX and 1 <= period_us // max(number, 1) <= EVERY_MAX_US):
        remedy = "give at least one a day, and at most a million a second"
        raise UsageError(field, value, "is out of range", remedy)
    burst = number if burst_text is None else int(burst_text)
    if not 1 <= burst <= BURST_MAX:
        remedy = f"say how many may begin at once: 'burst 1' to 'burst {BURST_MAX}'"
        raise UsageError(field, value, "is out of range", remedy)
    return Rate(number, period_us, burst)


def take_turn(rates: Sequence[tuple[Rate, RateState]], given_at: int | None, now: int) -> Turn:
    """Give a turn, at all of its rates, to one that comes; `given_at` was its turn if it had one.

    It begins if that is not later than now. In any while there begin no more than the burst and one
    for each share of the while and of the rate's slack.
    """
    begins_at = max(_earliest(rate, pace.begun_at, now, rate.slack_us) for rate, pace in rates)
    if given_at is None:
        promised_at = max(_earliest(rate, pace.promised_at, now) for rate, pace in rates)
        at = max(promised_at, begins_at)
        return Turn(
            at, tuple(_promised(rate, pace, now, is_begun=at <= now) for rate, pace in rates)
        )
    if given_at > now:
        return Turn(given_at, tuple(pace for _, pace in rates))
    if begins_at <= now:
        return Turn(now, tuple(_begun(rate, pace, now) for rate, pace in rates))
    at = max(begins_at, *(pace.again_at for _, pace in rates))
    return Turn(at, tuple(pace._replace(again_at=at + rate.every_us) for rate, pace in rates))


def spread_turns(rate: Rate | None, count: int, now: int) -> tuple[list[int], RateState]:
    """Give turns anew to so many that wait, because the rate has changed or is none any more."""
    if rate is None:
        return [now] * count, RateState()
    allowance_us = (rate.burst - 1) * rate.every_us
    at = [max(now, now + number * rate.every_us - allowance_us) for number in range(count)]
    return at, RateState(promised_at=now + count * rate.every_us)


def _earliest(rate: Rate, even_at: int, now: int, slack_us: int = 0) -> int:
    return max(now, even_at - (rate.burst - 1) * rate.every_us - slack_us)


def _promised(rate: Rate, pace: RateState, now: int, *, is_begun: bool) -> RateState:
    promised = pace._replace(promised_at=max(pace.promised_at, now) + rate.every_us)
    return _begun(rate, promised, now) if is_begun else promised


def _begun(rate: Rate, pace: RateState, now: int) -> RateState:
    return pace._replace(begun_at=max(pace.begun_at, now) + rate.every_us)


RUNNING_MAX = 100_000
PARAMETERS_MAX = 10
"""By how many of its parameters one task may be limited."""
NAME_LENGTH_MAX = 300
VALUE_LENGTH_MAX = 200
"""A longer value of a parameter is known by its digest."""
EACH = "*"
_DIGEST_BYTES = 16
_KEYED = "key:"
_CAP = "cap:"


class LimitKind(StrEnum):
    """What a limit is of."""

    TASK = "task"
    TENANT = "tenant"
    DESTINATION = "destination"


class LimitSource(StrEnum):
    """Who says so."""

    PERSON = "person"
    CODE = "code"


class LimitReason(StrEnum):
    """Why an attempt that is due was not begun."""

    CAP = "cap"
    RATE = "rate"
    BREAKER = "breaker"


@dataclass(frozen=True, slots=True)
class Limit:
    """How much there may be of something. A part that is not given limits nothing."""

    running: int | None = None
    """How many attempts at once."""
    rate: Rate | None = None
    """How many may begin in a while."""
    running_by: tuple[tuple[str, int], ...] = ()
    """By a parameter of the task: how many at once that have the same value, within a tenant."""

    @property
    def is_empty(self) -> bool:
        """Say whether it limits nothing at all."""
        return self.running is None and self.rate is None and not self.running_by

    def to_json(self) -> dict[str, Any]:
        """Return it as an audit entry tells it."""
        return {
            "running": self.running,
            "rate": None if self.rate is None else self.rate.text,
            "running_by": dict(self.running_by),
        }


NO_LIMIT = Limit()


def read_limit(running: object, rate: object, running_by: object) -> Limit:
    """Read a limit as people give it; what is no limit is refused with the field that is wrong."""
    by: list[tuple[str, int]] = []
    if running_by is not None:
        if not isinstance(running_by, dict) or len(running_by) > PARAMETERS_MAX:
            remedy = f"give up to {PARAMETERS_MAX} parameters, such as {{'account': 1}}"
            raise UsageError("running_by", running_by, "does not name parameters", remedy)
        for parameter, many in running_by.items():
            require_text("running_by", parameter, NAME_LENGTH_MAX)
            by.append((parameter, _read_running("running_by", many)))
    return Limit(
        None if running is None else _read_running("running", running),
        None if rate is None else read_rate("rate", rate),
        tuple(sorted(by)),
    )


def _read_running(field: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= RUNNING_MAX:
        remedy = f"give how many may run at once, 1 to {RUNNING_MAX:,}"
        raise UsageError(field, value, "is out of range", remedy)
    return value


def read_scope(value: object) -> str:
    """Read what a limit is of: "task:send", "tenant:acme", "destination:*"."""
    text = read_text("limit", value, NAME_LENGTH_MAX)
    kind, colon, name = text.partition(":")
    if not colon or not name or kind not in tuple(LimitKind):
        remedy = "name a task, a tenant or a destination: 'task:send', 'tenant:acme', 'tenant:*'"
        raise UsageError("limit", text, "names nothing that has limits", remedy)
    return text


def scope_of(kind: LimitKind, name: str) -> str:
    """Return how the limit of something is called; the place there is called the same."""
    return f"{kind}:{name}"


def keyed_place(task: str, tenant: str, parameter: str, value: str) -> str:
    """Return what the place is called of a task's attempts with one value of a parameter."""
    if len(value) > VALUE_LENGTH_MAX:
        value = blake2b(value.encode(), digest_size=_DIGEST_BYTES).hexdigest()
    parts = [task, tenant, parameter, value]
    return _KEYED + json.dumps(parts, ensure_ascii=False, separators=(",", ":"))


def tenant_of(place: str) -> str | None:
    """Return whose a limit or a place at one is; None for one that tenants share."""
    if place.startswith(_KEYED):
        return str(json.loads(place.removeprefix(_KEYED))[1])
    kind, _, name = place.partition(":")
    return name if kind == LimitKind.TENANT and name != EACH else None


def place_text(place: str) -> str:
    """Return how people call a place."""
    if not place.startswith(_KEYED):
        return place
    task, tenant, parameter, value = json.loads(place.removeprefix(_KEYED))
    return f"task:{task} with {parameter}={value} in {tenant}"


def cap_gate(place: str) -> str:
    """Return the gate at which those stand who find all places taken."""
    return _CAP + place


def capped_place(gate: str) -> str | None:
    """Return the place that those who stand at a gate wait for; None if it is not of this kind."""
    return gate.removeprefix(_CAP) if gate.startswith(_CAP) else None


def why_text(why: LimitReason, which: str) -> str:
    """Return the reason that a run's record gives for its waiting."""
    return f"{why} {which}"


def why_of(reason: str | None) -> tuple[LimitReason, str] | None:
    """Return why a run waits, and for what; None if it is not because of a limit."""
    code, blank, which = (reason or "").partition(" ")
    return (LimitReason(code), which) if blank and code in tuple(LimitReason) else None


def known_why(reason: str | None) -> tuple[LimitReason, str]:
    """Return why a run waits that waits because of a limit."""
    found = why_of(reason)
    assert found is not None, "it waits because of a limit"
    return found


class LimitRecord(NamedTuple):
    """A limit as the store knows it."""

    scope: str
    source: LimitSource
    limit: Limit
    at: int
    """Since when."""
    by: str
    reason: str | None


class Limits:
    """All limits, looked up by what they are of."""

    def __init__(self, version: int, records: Iterable[LimitRecord]) -> None:
        self.version = version
        """Grows with every change of any."""
        self.records = tuple(sorted(records))
        self._said = {(record.scope, record.source): record.limit for record in self.records}
        self._found: dict[str, Limit] = {}

    def said(self, source: LimitSource) -> dict[str, Limit]:
        """Return what one of those says who may, by scope."""
        return {record.scope: record.limit for record in self.records if record.source is source}

    def of(self, scope: str) -> Limit:
        """Return what holds for a task, a tenant or a destination."""
        found = self._found.get(scope)
        if found is None:
            found = self._found[scope] = self._look_up(scope)
        return found

    def of_place(self, place: str) -> int | None:
        """Return how many may be at a place; None for no limit."""
        if not place.startswith(_KEYED):
            return self.of(place).running
        task, _, parameter, _ = json.loads(place.removeprefix(_KEYED))
        by = dict(self.of(scope_of(LimitKind.TASK, task)).running_by)
        return by.get(parameter)

    def is_limited(self, task: str, tenant: str) -> bool:
        """Say whether there is any limit for a task's runs of a tenant."""
        scopes = (scope_of(LimitKind.TASK, task), scope_of(LimitKind.TENANT, tenant))
        return any(not self.of(scope).is_empty for scope in scopes)

    def _look_up(self, scope: str) -> Limit:
        each = f"{scope.partition(':')[0]}:{EACH}"
        words = [
            self._said[key]
            for key in ((one, source) for one in (scope, each) for source in LimitSource)
            if key in self._said
        ]
        if not words:
            return NO_LIMIT
        by: dict[str, int] = {}
        for word in reversed(words):
            by |= dict(word.running_by)
        return Limit(
            next((word.running for word in words if word.running is not None), None),
            next((word.rate for word in words if word.rate is not None), None),
            tuple(sorted(by.items())),
        )
