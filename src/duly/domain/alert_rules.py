"""Kinds of alerts with their default thresholds, and rules that override them.

A condition has one number, and a rule compares it with its threshold. The kind says what the number
counts.

A `Rulebook` has a default rule for each kind unless an operator sets others. The most specific rule
that fits a condition applies, so that a condition has one rule and raises one alert.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from duly.domain.vitals import BEHIND_MAX
from duly.errors import UsageError, read_text
from duly.timetable.instants import DAY, MINUTE, SECOND_US, duration_microseconds, duration_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from duly.domain.alerts import Condition


class AlertKind(StrEnum):
    """What can be wrong."""

    MISSING_RUN = "missing-run"
    LATE_RUN = "late-run"
    STALE_COMPLETION = "stale-completion"
    NO_EXECUTIONS = "no-executions"
    AMBIGUOUS_RUN = "ambiguous-run"
    STALLED_RUN = "stalled-run"
    SEVERAL_ATTEMPTS = "several-attempts"
    DEAD_LETTERS = "dead-letters"
    QUEUE_AGE = "queue-age"
    QUEUE_DEPTH = "queue-depth"
    BREAKER_OPEN = "breaker-open"
    CLOCK_SKEW = "clock-skew"
    EARLY_FIRE = "early-fire"
    CREATION_RATE = "creation-rate"
    OVERLAP = "overlap"
    SCHEDULE_PAUSED = "schedule-paused"


class Severity(StrEnum):
    """Whether a person is to look now, or in the morning."""

    PAGE = "page"
    WARN = "warn"


class Unit(StrEnum):
    """What the number of a condition counts."""

    SECONDS = "seconds"
    COUNT = "count"
    TIMES = "times"


THRESHOLD_MAX = 1e12


class AlertKindDefaults(NamedTuple):
    """What holds for a kind, unless somebody sets a rule."""

    unit: Unit
    threshold: float
    severity: Severity
    hold_us: int = 0
    clear_us: int = 0
    meaning: str = ""
    """What the threshold is compared with, in words."""
    counted_max: float = THRESHOLD_MAX
    """The detector counts no further: a rule with a higher threshold would never raise an alert."""


_MINUTE_US = MINUTE * SECOND_US
USUAL: dict[AlertKind, AlertKindDefaults] = {
    AlertKind.MISSING_RUN: AlertKindDefaults(
        Unit.COUNT,
        1,
        Severity.PAGE,
        meaning="occurrences of a schedule without any record",
        counted_max=1_000,
    ),
    AlertKind.LATE_RUN: AlertKindDefaults(
        Unit.SECONDS,
        60,
        Severity.WARN,
        clear_us=_MINUTE_US,
        meaning="how long something is due and has not fired",
    ),
    AlertKind.STALE_COMPLETION: AlertKindDefaults(
        Unit.COUNT,
        3,
        Severity.PAGE,
        meaning="occurrences of a schedule that fell due since its last useful completion",
        counted_max=BEHIND_MAX,
    ),
    AlertKind.NO_EXECUTIONS: AlertKindDefaults(
        Unit.SECONDS,
        60,
        Severity.PAGE,
        hold_us=_MINUTE_US // 2,
        clear_us=_MINUTE_US // 2,
        meaning="how long work is due while nothing is started",
    ),
    AlertKind.AMBIGUOUS_RUN: AlertKindDefaults(
        Unit.COUNT,
        1,
        Severity.PAGE,
        meaning="a run of which nobody knows what it did",
        counted_max=1,
    ),
    AlertKind.STALLED_RUN: AlertKindDefaults(
        Unit.SECONDS,
        0,
        Severity.WARN,
        clear_us=_MINUTE_US // 2,
        meaning="how far beyond its task's limit an attempt has not advanced",
    ),
    AlertKind.SEVERAL_ATTEMPTS: AlertKindDefaults(
        Unit.COUNT,
        3,
        Severity.WARN,
        clear_us=_MINUTE_US,
        meaning="attempts of one run that is still open",
    ),
    AlertKind.DEAD_LETTERS: AlertKindDefaults(
        Unit.COUNT,
        1,
        Severity.WARN,
        meaning="runs of a task that died within the last 15 minutes",
        counted_max=20_000,
    ),
    AlertKind.QUEUE_AGE: AlertKindDefaults(
        Unit.SECONDS,
        5 * MINUTE,
        Severity.WARN,
        clear_us=2 * _MINUTE_US,
        meaning="how long the first of a queue has waited",
    ),
    AlertKind.QUEUE_DEPTH: AlertKindDefaults(
        Unit.COUNT,
        10_000,
        Severity.WARN,
        hold_us=_MINUTE_US,
        clear_us=2 * _MINUTE_US,
        meaning="runs in a queue",
    ),
    AlertKind.BREAKER_OPEN: AlertKindDefaults(
        Unit.SECONDS,
        0,
        Severity.WARN,
        clear_us=2 * _MINUTE_US,
        meaning="how long a destination has been left alone",
    ),
    AlertKind.CLOCK_SKEW: AlertKindDefaults(
        Unit.SECONDS,
        0.1,
        Severity.PAGE,
        clear_us=_MINUTE_US // 2,
        meaning="how far a dispatcher's clock is off the store's",
    ),
    AlertKind.EARLY_FIRE: AlertKindDefaults(
        Unit.COUNT, 1, Severity.PAGE, meaning="runs that were fired before they were due"
    ),
    AlertKind.CREATION_RATE: AlertKindDefaults(
        Unit.TIMES,
        10,
        Severity.WARN,
        hold_us=_MINUTE_US,
        clear_us=5 * _MINUTE_US,
        meaning="promises made in a minute, beside how many usually are",
    ),
    AlertKind.OVERLAP: AlertKindDefaults(
        Unit.TIMES,
        0.8,
        Severity.WARN,
        clear_us=5 * _MINUTE_US,
        meaning="how long runs of a schedule take, beside its interval",
    ),
    AlertKind.SCHEDULE_PAUSED: AlertKindDefaults(
        Unit.COUNT,
        1,
        Severity.WARN,
        meaning="a schedule that is paused because what it needs is gone",
        counted_max=1,
    ),
}


CHANNELS_MAX = 50
"""How many a rule can name."""
NAME_LENGTH_MAX = 200
WAIT_MAX_US = 7 * DAY * SECOND_US
DECLARED_BY = "declared_by"
"""Beside what was said: the file that has said it, if none has by hand."""
FILTERS = ("tenant", "schedule", "task", "queue")
"""By what a rule can be narrowed, as conditions are labelled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """When a condition of a kind is an alert."""

    name: str
    kind: AlertKind
    threshold: float
    """From this number on; the kind says what is counted."""
    hold_us: int = 0
    """How long the condition must hold before it is raised."""
    clear_us: int = 0
    """How long it must be gone before it is resolved."""
    severity: Severity = Severity.WARN
    channels: tuple[str, ...] = ()
    """Who is told, by name; none named: all."""
    is_on: bool = True
    tenant: str | None = None
    schedule: str | None = None
    task: str | None = None
    queue: str | None = None
    is_default: bool = False
    """Whether nobody has set it."""

    def fits(self, condition: Condition) -> bool:
        """Say whether it is about such a condition."""
        if condition.kind is not self.kind:
            return False
        labels = {"tenant": condition.tenant, **condition.labels}
        wanted = ((name, getattr(self, name)) for name in FILTERS)
        return all(value is None or labels.get(name) == value for name, value in wanted)

    @property
    def particularity(self) -> tuple[int, bool, str]:
        """Return by what the most particular of several is chosen."""
        return (sum(getattr(self, name) is not None for name in FILTERS), not self.is_default, "")

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values that `rule_from_json` reads back."""
        return {
            "name": self.name,
            "kind": str(self.kind),
            "threshold": self.threshold,
            "hold_for": duration_text(self.hold_us),
            "clear_for": duration_text(self.clear_us),
            "severity": str(self.severity),
            "channels": list(self.channels),
            "is_on": self.is_on,
            **{name: getattr(self, name) for name in FILTERS},
        }


def default_rule(kind: AlertKind) -> Rule:
    """Return what holds for a kind unless somebody says other."""
    usual = USUAL[kind]
    return Rule(
        name=str(kind),
        kind=kind,
        threshold=float(usual.threshold),
        hold_us=usual.hold_us,
        clear_us=usual.clear_us,
        severity=usual.severity,
        is_default=True,
    )


class Rulebook:
    """Every rule: those that were set, and the usual ones of which none was set by their name."""

    def __init__(self, stored: Iterable[Rule] = ()) -> None:
        by_name = {str(kind): default_rule(kind) for kind in AlertKind}
        by_name |= {rule.name: rule for rule in stored}
        self._by_name = by_name
        self._by_kind: dict[AlertKind, list[Rule]] = {kind: [] for kind in AlertKind}
        for rule in sorted(by_name.values(), key=lambda one: one.name):
            self._by_kind[rule.kind].append(rule)
        for rules in self._by_kind.values():
            rules.sort(key=lambda one: one.particularity, reverse=True)

    def rules(self) -> list[Rule]:
        """Return all, by name."""
        return sorted(self._by_name.values(), key=lambda one: one.name)

    def rule_for(self, condition: Condition) -> Rule | None:
        """Return the rule that holds for a condition."""
        return next((one for one in self._by_kind[condition.kind] if one.fits(condition)), None)

    def named(self, name: str, kind: AlertKind) -> Rule:
        """Return the rule of a name; what is usual, if it is there no more, or of another kind."""
        found = self._by_name.get(name)
        return found if found is not None and found.kind is kind else default_rule(kind)


def read_rule(name: object, terms: Mapping[str, Any], before: Rule | None = None) -> Rule:
    """Read a rule: what is not said stays as it was, or as is usual for its kind."""
    named = _text("name", name)
    begun = before or _begun(named, terms.get("kind"))
    kind = begun.kind if terms.get("kind") is None else _kind(terms["kind"])
    if kind is not begun.kind:
        remedy = f"give another name: {named} is a rule of {begun.kind}"
        raise UsageError("kind", str(kind), "is not the kind of that rule", remedy)
    said = {key: value for key, value in terms.items() if value is not None and key != "kind"}
    readers: dict[str, Callable[[str, object], Any]] = {
        "threshold": _threshold,
        "hold_for": _wait,
        "clear_for": _wait,
        "severity": _severity,
        "channels": _channels,
        "is_on": _flag,
        **dict.fromkeys(FILTERS, _text),
    }
    unknown = sorted(said.keys() - readers.keys())
    if unknown:
        remedy = f"a rule has {', '.join(('kind', *readers))}"
        raise UsageError(unknown[0], said[unknown[0]], "is no part of a rule", remedy)
    fields = {"hold_for": "hold_us", "clear_for": "clear_us"}
    read = {fields.get(key, key): readers[key](key, value) for key, value in said.items()}
    made = replace(begun, name=named, is_default=False, **read)
    most = USUAL[made.kind].counted_max
    if made.threshold > most:
        problem = f"is never reached: {made.kind} counts up to {most:,.15g}"
        raise UsageError("threshold", made.threshold, problem, "give less, or turn the rule off")
    return made


def rule_from_json(stored: Mapping[str, Any]) -> Rule:
    """Read a rule from what `to_json` returned."""
    terms = {key: value for key, value in stored.items() if key not in {"name", DECLARED_BY}}
    threshold, kind = terms.get("threshold"), terms.get("kind")
    if isinstance(threshold, int | float) and kind in list(AlertKind):
        # A rule that was stored before this bound was checked raises where the count ends.
        terms["threshold"] = min(threshold, USUAL[AlertKind(kind)].counted_max)
    return read_rule(stored["name"], terms)


def _begun(name: str, kind: object) -> Rule:
    if kind is None and name not in list(AlertKind):
        remedy = f"say of which kind it is: one of {', '.join(AlertKind)}"
        raise UsageError("kind", None, f"is needed for a rule that is called {name}", remedy)
    begun = default_rule(_kind(name if kind is None else kind))
    if name in list(AlertKind) and name != str(begun.kind):
        remedy = "give it another name"
        raise UsageError("name", name, f"is the name of the rule of {name}", remedy)
    return begun


def _kind(value: object) -> AlertKind:
    if isinstance(value, str) and value in list(AlertKind):
        return AlertKind(value)
    raise UsageError("kind", value, "is not a kind of alert", f"use one of {', '.join(AlertKind)}")


def _threshold(field: str, value: object) -> float:
    """Read a number; of seconds also as a duration."""
    if isinstance(value, str):
        try:
            number = float(value)
        except ValueError:
            return duration_microseconds(value, field) / SECOND_US
    elif isinstance(value, int | float) and not isinstance(value, bool):
        number = float(value)
    else:
        number = -1.0
    if not 0 <= number <= THRESHOLD_MAX:
        raise UsageError(field, value, "is not a threshold", "give a number, such as 100 or '5m'")
    return number


def _wait(field: str, value: object) -> int:
    if not isinstance(value, str):
        raise UsageError(field, value, "is not a duration", "give one such as '30s' or '5m'")
    length = duration_microseconds(value, field)
    if not 0 <= length <= WAIT_MAX_US:
        raise UsageError(field, value, "is out of range", "give from '0s' to '7d'")
    return length


def _severity(field: str, value: object) -> Severity:
    if isinstance(value, str) and value in list(Severity):
        return Severity(value)
    raise UsageError(field, value, "is not a severity", f"use one of {', '.join(Severity)}")


def _channels(field: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or len(value) > CHANNELS_MAX:
        remedy = f"give a list of at most {CHANNELS_MAX} names"
        raise UsageError(field, value, "is not a list of channels", remedy)
    return tuple(dict.fromkeys(_text(field, one) for one in value))


def _flag(field: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise UsageError(field, value, "is neither true nor false", "give one of them")
    return value


def _text(field: str, value: object) -> str:
    text = read_text(field, value, NAME_LENGTH_MAX)
    if not text.strip() or not text.isprintable():
        raise UsageError(field, text, "is empty or not printable", "give printable characters")
    return text
