"""Audit entries, and the hash chain that seals them.

A seal names every entry of a stretch of the trail with the digest of all that the entry says, and
is hashed together with the seal before it. A changed, removed or inserted entry contradicts its
seal; a changed seal contradicts every seal that follows.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from duly.timetable.instants import from_microseconds, iso_utc

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from duly.domain.runs import DelayedRecord
    from duly.domain.schedules import ScheduleRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSubject:
    """What an audit entry is about."""

    name: str
    tenant: str = ""
    id: bytes | None = None
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Actor:
    """Whoever gives an order, and by which way it came in."""

    name: str
    """A person, a program, or `duly` when the system decides by itself."""
    source: str
    """Library, cli, dispatcher, declaration, …"""
    reason: str | None = None
    address: str | None = None
    """From which address of the network; None for whoever did not come over one."""
    credential: str | None = None
    """By which token or session he was known: `token:` or `session:` and its id, never a secret."""
    is_operator: bool = field(default=False, compare=False)
    """Whether an operator gives it: defaults for end users do not bind it. Not stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One order or decision, as it was recorded in the transaction that carried it out."""

    number: int
    """Grows with every entry; the order in which they were written."""
    at: int
    actor: Actor
    action: str
    """What was done: `schedule.paused`, `delayed.cancelled`, `lease.refused`."""
    tenant: str
    subject: str
    """What it was done to: a schedule's name, a delayed run's key or id, a member."""
    subject_id: bytes | None
    before: dict[str, Any] | None
    after: dict[str, Any] | None


def schedule_facts(record: ScheduleRecord) -> dict[str, Any]:
    """Return what an audit entry tells about a schedule before and after a change."""
    pending = record.pending
    return {
        "name": record.name,
        "owner": record.owner,
        "status": str(record.status),
        "version": record.version,
        "reason": record.reason,
        "next_for": instant_text(pending.scheduled_for if pending else None),
        "next_due": instant_text(pending.due_at if pending else None),
        "held_for": instant_text(record.held_for),
        "resume_at": instant_text(record.resume_at),
        "definition": record.definition.to_json(),
    }


def delayed_facts(record: DelayedRecord) -> dict[str, Any]:
    """Return what an audit entry tells about a delayed run before and after a change."""
    return {
        "key": record.key,
        "task": record.call.task,
        "due_at": instant_text(record.due_at),
        "generation": record.generation,
    }


def instant_text(instant: int | None) -> str | None:
    """Return an instant as audit entries tell it."""
    return None if instant is None else iso_utc(from_microseconds(instant))


FORMAT = 2
"""How digests and hashes are made; it is part of what is hashed."""
FORMATS = frozenset({1, FORMAT})
_SINCE = {"address": 2, "credential": 2}
"""What seals of an earlier format do not speak about."""
BEFORE_ALL = bytes(32)
"""What stands in the first seal for the hash of the one before it."""


class SealedEntry(NamedTuple):
    """An entry as a seal names it."""

    number: int
    digest: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal:
    """What was on the trail between two numbers, on the word of whoever sealed it."""

    number: int
    """One after the other, from 1."""
    after: int
    """The stretch begins after this entry,"""
    through: int
    """and ends with this one."""
    entries: tuple[SealedEntry, ...]
    sealed_at: int
    sealed_by: int
    """Which member of the fleet it was."""
    format: int = FORMAT
    hash: bytes = b""


class Tampering(StrEnum):
    """What does not agree with a seal."""

    CHANGED = "changed"
    REMOVED = "removed"
    INSERTED = "inserted"
    SEAL = "seal"
    """The chain itself: a seal was changed, or is not there."""


@dataclass(frozen=True, slots=True)
class Trace:
    """One thing that does not agree: the number of an entry, or of a seal, and what is wrong."""

    kind: Tampering
    number: int
    problem: str

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"kind": str(self.kind), "number": self.number, "problem": self.problem}


def entry_facts(entry: AuditEntry) -> dict[str, Any]:
    """Return all that an entry says, as JSON values."""
    return {
        "number": entry.number,
        "at": entry.at,
        "actor": entry.actor.name,
        "source": entry.actor.source,
        "address": entry.actor.address,
        "credential": entry.actor.credential,
        "reason": entry.actor.reason,
        "action": entry.action,
        "tenant": entry.tenant,
        "subject": entry.subject,
        "subject_id": None if entry.subject_id is None else entry.subject_id.hex(),
        "before": entry.before,
        "after": entry.after,
    }


def sealed_entry(facts: Mapping[str, Any], made_as: int = FORMAT) -> SealedEntry:
    """Return what a seal of a format says of an entry."""
    covered = {key: value for key, value in facts.items() if _SINCE.get(key, 1) <= made_as}
    return SealedEntry(facts["number"], sha256(_canonical(covered)).digest())


def is_covered(facts: Mapping[str, Any], made_as: int) -> bool:
    """Say whether a seal of a format speaks about all that an entry says."""
    return all(facts.get(key) is None for key, since in _SINCE.items() if made_as < since)


def make_seal(  # noqa: PLR0913 - each is a part of the seal
    previous: Seal | None, entries: Sequence[AuditEntry], *, now: int, by: int, made: int = 0
) -> Seal:
    """Seal the entries that follow the last seal; there must be one, and they must be settled.

    `made` is the highest number that a seal has had. No number is given twice, so that a gap
    remains in the chain where the last seals were removed.
    """
    seal = Seal(
        number=max(made, 0 if previous is None else previous.number) + 1,
        after=0 if previous is None else previous.through,
        through=entries[-1].number,
        entries=tuple(sealed_entry(entry_facts(one)) for one in entries),
        sealed_at=now,
        sealed_by=by,
    )
    return _hashed(seal, previous)


class Chain:
    """Goes along the chain, seal by seal, and says what does not agree."""

    def __init__(self) -> None:
        self.last: Seal | None = None

    def follow(self, seal: Seal, found: Sequence[SealedEntry]) -> Iterator[Trace]:
        """Compare the next seal with the one before it, and with the entries that were found."""
        previous, self.last = self.last, seal
        yield from _broken(previous, seal)
        named = dict(seal.entries)
        seen: set[int] = set()
        for number, digest in found:
            if number in seen or number not in named:
                yield Trace(Tampering.INSERTED, number, f"is not in seal {seal.number}")
            elif digest != named[number]:
                yield Trace(Tampering.CHANGED, number, f"is not as seal {seal.number} has it")
            seen.add(number)
        for number in named:
            if number not in seen:
                yield Trace(Tampering.REMOVED, number, f"is in seal {seal.number}, and not there")


def _broken(previous: Seal | None, seal: Seal) -> Iterator[Trace]:
    """Say what is wrong with a seal itself."""
    expected = 1 if previous is None else previous.number + 1
    after = 0 if previous is None else previous.through
    if seal.format not in FORMATS:
        problem = f"is of format {seal.format}, and this program knows those up to {FORMAT}"
        yield Trace(Tampering.SEAL, seal.number, problem)
    elif seal.number != expected:
        yield Trace(Tampering.SEAL, expected, f"is not there: seal {seal.number} comes next")
    elif seal.after != after:
        yield Trace(Tampering.SEAL, seal.number, f"begins after entry {seal.after}, not {after}")
    elif seal.hash != _hashed(seal, previous).hash:
        yield Trace(Tampering.SEAL, seal.number, "was changed, or the one before it: hashes differ")


def _hashed(seal: Seal, previous: Seal | None) -> Seal:
    document = {
        "format": seal.format,
        "number": seal.number,
        "after": seal.after,
        "through": seal.through,
        "sealed_at": seal.sealed_at,
        "sealed_by": seal.sealed_by,
        "previous": (BEFORE_ALL if previous is None else previous.hash).hex(),
        "entries": [[number, digest.hex()] for number, digest in seal.entries],
    }
    return replace(seal, hash=sha256(_canonical(document)).digest())


def _canonical(document: Mapping[str, Any]) -> bytes:
    """Write a document in the one way that is hashed: keys in order, no spaces, ASCII only."""
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode("ascii")
