"""What a server shows, seen as the library's own views: a command prints one as the other.

A view and its shape have the same fields, since the shape is made of the view's `to_json`; so one
function reads them all back, by the types of the view's fields. Few views need a word more.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from datetime import date, datetime, timedelta
from functools import cache
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints
from uuid import UUID

import msgspec

from duly.client.access import NewToken, Token
from duly.client.doubt_view import Check
from duly.client.explanations import RunExplanation
from duly.client.inbox import Settled
from duly.client.last_ends import Endings
from duly.client.run_view import Run
from duly.client.schedule_history import MissingFound, Occurrence
from duly.client.status import Finding
from duly.client.vitals import Proof, ProvenOccurrence
from duly.domain.effects import Advice, Choice
from duly.domain.policies import Misfire, read_misfire
from duly.domain.runs import Progress
from duly.domain.verification import Scope
from duly.domain.vitals import RunTimes
from duly.timetable.instants import duration_microseconds, iso_utc
from duly.timetable.serialization import timetable_from_json
from duly.timetable.timetable import Timetable

T = TypeVar("T")
Json = dict[str, Any]
# Views name some of their types for type checkers only; these are the ones that are read back.
_NAMES: dict[str, Any] = {
    "Endings": Endings,
    "Finding": Finding,
    "LentConnections": object,
    "RunContext": object,
    "Mapping": Mapping,
    "Misfire": Misfire,
    "Place": tuple,
    "Progress": Progress,
    "Run": Run,
    "RunTimes": RunTimes,
    "Scope": Scope,
    "Settled": Settled,
    "Timetable": Timetable,
    "UUID": UUID,
    "datetime": datetime,
    "timedelta": timedelta,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Promised:
    """A run that a server has promised, as `EnqueuedRun` shows one."""

    id: UUID
    due_at: datetime
    is_new: bool
    key: str | None
    label: str

    def to_json(self) -> Json:
        """Return it as JSON values."""
        told = {"id": str(self.id), "due_at": iso_utc(self.due_at), "is_new": self.is_new}
        return {**told, "key": self.key, "label": self.label}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvingRun:
    """As much of a run as a proof shows."""

    id: UUID
    origin: str
    state: str


def seen(view: type[T], shape: msgspec.Struct) -> T:
    """Return what a server shows as a view."""
    found: T = _read(view, msgspec.to_builtins(shape))
    return found


def _read(kind: Any, value: Any) -> Any:  # noqa: ANN401, PLR0911 - whatever a field holds
    """Return a JSON value as what a field of this type holds."""
    if value is None or kind is Any:
        return value
    if kind in _BY_TYPE:
        return _BY_TYPE[kind](value)
    origin, inner = get_origin(kind), get_args(kind)
    if origin is tuple:
        if inner[-1] is Ellipsis:
            return tuple(_read(inner[0], one) for one in value)
        return tuple(_read(of, one) for of, one in zip(inner, value, strict=True))
    if origin is list:
        return [_read(inner[0], one) for one in value]
    if NoneType in inner:
        (kind,) = (one for one in inner if one is not NoneType)
        return _read(kind, value)
    if is_dataclass(kind) and isinstance(kind, type):
        return _read_view(kind, value)
    return value


def _read_view(view: type[T], told: Json) -> T:
    told = _ADJUSTED[view](told) if view in _ADJUSTED else told
    hints = _hints(view)  # type: ignore[arg-type] # a class can be hashed
    known = {
        one.name: _read(hints[one.name], told[one.name])
        for one in fields(view)  # type: ignore[arg-type]
        if one.name in told or one.default is MISSING
    }
    return view(**known)


@cache
def _hints(view: type) -> dict[str, Any]:
    return get_type_hints(view, {**vars(sys.modules[view.__module__]), **_NAMES})


def _duration(value: str) -> timedelta:
    return timedelta(microseconds=duration_microseconds(value, "duration"))


def _run_times(told: Json) -> RunTimes:
    spans = {
        name: None if told[name] is None else timedelta(seconds=told[name])
        for name in ("interval", "usual", "open_for")
    }
    return RunTimes(**spans, count=told["runs"])


def _advice(told: Json) -> Advice:
    risks = {Choice(choice): risk for choice, risk in told["risks"].items()}
    return Advice(Choice(told["safest"]), told["why"], risks, told["may_repeat"])


def _scope(told: Json) -> Scope:
    return Scope(told["expected"], told["done"], told["repeated"], tuple(told["missing"]))


def _proven(told: Json) -> ProvenOccurrence:
    runs: Any = tuple(_read_view(ProvingRun, one) for one in told["runs"])
    return ProvenOccurrence(
        occurrence=_read_view(Occurrence, told),
        runs=runs,
        check=None if told["check"] is None else _read_view(Check, told["check"]),
        scope=_scope(told["scope"]),
        standing=told["standing"],
        why=told["why"],
    )


def _explanation(told: Json) -> Json:
    evidence = [(one["fact"], one["is"]) for one in told["evidence"]]
    return {**told, "evidence": evidence}


_BY_TYPE: dict[Any, Callable[[Any], Any]] = {
    Advice: _advice,
    # Of a status only sentences are sent.
    Finding: lambda told: Finding("stale-completion", told, ""),
    Misfire: read_misfire,
    NewToken: lambda told: NewToken(token=_read_view(Token, told), text=told["text"]),
    ProvenOccurrence: _proven,
    RunTimes: _run_times,
    Scope: _scope,
    Timetable: timetable_from_json,
    UUID: UUID,
    date: date.fromisoformat,
    datetime: datetime.fromisoformat,
    timedelta: _duration,
}
_ADJUSTED: dict[type, Callable[[Json], Json]] = {
    MissingFound: lambda told: {**told, "after": None},
    Proof: lambda told: {**told, "tz": told["zone"]},
    Run: lambda told: {**told, "last_progress": told["progress"]},
    RunExplanation: _explanation,
    Settled: lambda told: {**told, "as_": told["as"]},
}
