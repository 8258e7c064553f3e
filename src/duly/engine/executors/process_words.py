"""What a worker and a task's own process say to each other: one JSON document on each line.

Nothing is pickled: a process that a task has taken over can say what it likes, and no more than
these words is ever made of it.
"""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

from duly.domain.answers import AFTER_MAX_US
from duly.domain.attempts import Progress, Reason, Tries
from duly.domain.concluding import CancelledEnd, End, Failed, GaveUp, Snoozed, Succeeded
from duly.domain.identity import RunId, ScheduleId
from duly.domain.literals import Lane, Origin, RunState
from duly.domain.runs import RunRecord
from duly.domain.schedules import Call
from duly.domain.scope import NOTHING, ScopeReport, read_expected, read_items
from duly.store.execution import ClaimedRun

WORD_BYTES_MAX = 4 * 1024 * 1024
"""Longer than any checkpoint or result that is taken, in JSON within JSON."""

_ENDS = {kind.__name__: kind for kind in (Succeeded, Failed, GaveUp, Snoozed, CancelledEnd)}
"""How an attempt can end by its own word; the other ways are the worker's to say."""
_MAY_BE_NONE = {("Succeeded", "result"), ("CancelledEnd", "error"), ("Failed", "after_us")}


def written(word: dict[str, Any]) -> bytes:
    """Write one word as a line."""
    text = json.dumps(word, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "replace") + b"\n"


def read_word(line: str) -> dict[str, Any]:
    """Read one word; ValueError for what is none."""
    word = json.loads(line)
    if not isinstance(word, dict):
        raise TypeError("a word is a map")
    return word


def end_to_json(end: End) -> dict[str, Any]:
    """Return an end as JSON values that `end_from_json` reads back."""
    parts = {one.name: getattr(end, one.name) for one in fields(end)}
    return {"kind": type(end).__name__, **parts}


def end_from_json(said: dict[str, Any]) -> End:
    """Read an end; KeyError, TypeError or ValueError for what is none."""
    parts = dict(said)
    name = parts.pop("kind")
    kind = _ENDS[name]
    for field, value in parts.items():
        if value is None and (name, field) in _MAY_BE_NONE:
            continue
        match field:
            case "reason":
                parts[field] = Reason(value)
            case "error" | "result" if not isinstance(value, str):
                raise TypeError(f"{field} is not a text")
            case "after_us" if type(value) is not int or not 0 <= value <= AFTER_MAX_US:
                raise ValueError(f"{field} is not a wait")
            case "is_retryable" | "is_answered" | "is_undone" if not isinstance(value, bool):
                raise TypeError(f"{field} is neither true nor false")
            case _:
                pass
    return kind(**parts)


def claimed_to_json(claimed: ClaimedRun) -> dict[str, Any]:
    """Return a claimed run as JSON values that `claimed_from_json` reads back."""
    record = claimed.record
    plain = {one.name: getattr(record, one.name) for one in fields(record)}
    plain["id"] = record.id.hex()
    plain["root"] = record.root.hex()
    plain["schedule_id"] = None if record.schedule_id is None else record.schedule_id.hex()
    plain["call"] = _parts(record.call)
    plain["tries"] = record.tries._asdict()
    plain["progress"] = None if record.progress is None else _parts(record.progress)
    return {"record": plain, "tries": claimed.tries._asdict(), "claimed_at": claimed.claimed_at}


def claimed_from_json(said: dict[str, Any]) -> ClaimedRun:
    """Read a claimed run from what `claimed_to_json` returned."""
    plain = dict(said["record"])
    schedule = plain["schedule_id"]
    plain["id"] = RunId(bytes.fromhex(plain["id"]))
    plain["root"] = RunId(bytes.fromhex(plain["root"]))
    plain["schedule_id"] = None if schedule is None else ScheduleId(bytes.fromhex(schedule))
    plain["call"] = Call(**plain["call"])
    plain["origin"] = Origin(plain["origin"])
    plain["lane"] = Lane(plain["lane"])
    plain["state"] = RunState(plain["state"])
    plain["tries"] = Tries(**plain["tries"])
    plain["progress"] = None if plain["progress"] is None else Progress(**plain["progress"])
    return ClaimedRun.of(RunRecord(**plain), Tries(**said["tries"]), said["claimed_at"])


def scope_from_json(said: dict[str, Any]) -> ScopeReport:
    """Read what is said about a scope; UsageError for what is none."""
    expected = said["expected"]
    report = NOTHING if expected is None else read_expected(expected)
    names, done = read_items("names", said["names"]), read_items("done", said["done"])
    return replace(report, names=names, done=done)


def _parts(value: Call | Progress) -> dict[str, Any]:
    return {one.name: getattr(value, one.name) for one in fields(value)}
