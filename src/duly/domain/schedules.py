"""Schedules: the template that a person wrote, and what the store knows about one."""

from __future__ import annotations

import json
import re
import unicodedata
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from shlex import quote
from typing import TYPE_CHECKING, Any, NamedTuple

from duly.domain.enums import Missed, Overlap, ScheduleStatus
from duly.domain.policies import Misfire, read_misfire
from duly.timetable.instants import duration_microseconds, duration_text
from duly.timetable.serialization import timetable_from_json

if TYPE_CHECKING:
    from duly.domain.ids import RunId, ScheduleId
    from duly.timetable.timetable import Timetable
    from duly.timetable.zones import ZoneDatabase

QUEUE_DEFAULT = "default"
OVERLAP_DEFAULT = Overlap.SKIP
"""What a schedule gets whose maker says nothing about it."""
PRIORITY_DEFAULT = 4
PRIORITY_MAX = 9
TENANT_DEFAULT = "default"
NAME_LENGTH_MAX = 200
JITTER_MAX_US = 7 * 86_400 * 1_000_000


_ALPHABETS = ("LATIN", "CYRILLIC", "GREEK")
"""Alphabets that share the shapes of letters: a, \u0430 and \u03b1 look alike."""
_WORD = re.compile(r"[^\W\d_]+")


def mixed_alphabets(name: str) -> list[str]:
    """Return the alphabets that a word of a name mixes, of those that look alike; none usually."""
    if name.isascii():
        return []
    for word in _WORD.findall(name):
        used = {unicodedata.name(letter, "").partition(" ")[0] for letter in word}
        found = [one.capitalize() for one in _ALPHABETS if one in used]
        if len(found) > 1:
            return found
    return []


def tenant_option(tenant: str) -> str:
    """Return how a command that is to be copied says whose things it is about; else the usual."""
    return "" if tenant == TENANT_DEFAULT else f" --tenant {quote(tenant)}"


@dataclass(slots=True, kw_only=True, unsafe_hash=True)
class Call:
    """What is to be run: a task by its name, and its arguments as JSON text.

    Nobody changes one. It is not frozen, as that would treble what it takes to make one.
    """

    task: str
    arguments: str = "{}"
    queue: str = QUEUE_DEFAULT
    priority: int = PRIORITY_DEFAULT


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """The template of a schedule: what an edit changes and every run of it refers to."""

    call: Call
    timetable: Timetable
    misfire: Misfire = Misfire()  # noqa: RUF009 - an immutable value
    jitter_us: int = 0
    overlap: Overlap = Overlap.ALLOW
    """What becomes of an occurrence while an earlier run is open."""
    serialize_by: str | None = None
    """Under `serialize`: the business key whose runs go one after the other."""
    preset: str | None = None
    """The name of the preset that its policies were filled in by."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values that `definition_from_json` reads back."""
        named = {} if self.preset is None else {"preset": self.preset}
        return {
            "task": self.call.task,
            "arguments": json.loads(self.call.arguments),
            "queue": self.call.queue,
            "priority": self.call.priority,
            "timetable": self.timetable.to_json(),
            "misfire": self.misfire.to_json(),
            "jitter": duration_text(self.jitter_us),
            "overlap": str(self.overlap),
            "serialize_by": self.serialize_by,
            **named,
        }

    def under(self, zones: ZoneDatabase) -> Definition:
        """Return it with its timetable read under a release of the time-zone database."""
        return replace(self, timetable=self.timetable.under(zones))


def definition_from_json(stored: dict[str, Any]) -> Definition:
    """Read a definition from what `to_json` returned."""
    overlap = stored.get("overlap") or Overlap.ALLOW
    arguments = canonical_json(stored["arguments"])
    return Definition(
        call=_call(stored["task"], arguments, stored["queue"], stored["priority"]),
        timetable=timetable_from_json(stored["timetable"]),
        misfire=_misfire(**stored["misfire"]),
        jitter_us=_jitter_us(stored["jitter"]),
        overlap=Overlap(overlap),
        serialize_by=stored.get("serialize_by"),
        preset=stored.get("preset"),
    )


# Most schedules of a program say the same about all but when and with what they are run: one value
# serves all of them, and is read once.


@lru_cache(maxsize=1024)
def _call(task: str, arguments: str, queue: str, priority: int) -> Call:
    return Call(task=task, arguments=arguments, queue=queue, priority=priority)


@lru_cache(maxsize=1024)
def _misfire(**stored: Any) -> Misfire:  # noqa: ANN401 - JSON values
    return read_misfire(stored)


@lru_cache(maxsize=1024)
def _jitter_us(stored: str) -> int:
    return duration_microseconds(stored, "jitter")


def canonical_json(value: Any) -> str:  # noqa: ANN401 - whatever JSON can hold
    """Write JSON so that equal values are equal texts."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def jitter_offset_us(schedule: ScheduleId, jitter_us: int) -> int:
    """Return how much later than its nominal time a schedule falls due: always the same."""
    if jitter_us == 0:
        return 0
    return (
        int.from_bytes(blake2b(schedule, digest_size=8, person=b"duly.jitter").digest()) % jitter_us
    )


class NextOccurrence(NamedTuple):
    """The one next instant of a schedule: its nominal time, and when it falls due after jitter."""

    scheduled_for: int
    due_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRecord:
    """Everything the store knows about a schedule, at one moment."""

    id: ScheduleId
    tenant: str
    name: str
    owner: str | None
    declared_by: str | None
    """Where it is declared (`code:app`, `file:app:schedules.toml`), or None when made by hand."""
    status: ScheduleStatus
    version: int
    """Grows with every change that a person or the system makes; a fire does not change it."""
    definition_number: int
    """The version that made the definition in force; a run refers to it."""
    definition: Definition
    shard: int
    pending: NextOccurrence | None
    held_for: int | None
    """While paused or deleted: the occurrence that was pending; resuming begins there."""
    last_for: int | None
    """The last occurrence that was run; the window of the next run begins here."""
    last_run: RunId | None
    last_fired_at: int | None
    fires: int
    active_run: RunId | None = None
    """The last run that went ahead: under `skip`, while it is open no other does."""
    overlaps: int = 0
    """How many occurrences found an earlier run open."""
    reason: str | None
    """Why it is paused, ended or deleted."""
    resume_at: int | None
    resume_missed: Missed | None
    status_before: ScheduleStatus | None
    """While deleted: what a restoration goes back to."""
    pruned_through: int | None
    """Up to here a missing occurrence is unknown, because its history was removed."""
    created_at: int
    updated_at: int
    updated_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CatchUpRange:
    """A range of occurrences that are still to be made or skipped, under one definition."""

    schedule_id: ScheduleId
    first_for: int
    last_for: int
    definition_number: int
