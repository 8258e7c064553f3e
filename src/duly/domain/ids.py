"""Identities: 16 bytes that sort by time; the id of an occurrence's run is computed, not random.

Two dispatchers, a replay after a crash and a database that lost its last commits all compute the
same id for the same occurrence. So the primary key of runs makes a second run impossible.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Literal, NewType
from uuid import UUID

from duly.errors import UsageError

ScheduleId = NewType("ScheduleId", bytes)
RunId = NewType("RunId", bytes)
BackfillId = NewType("BackfillId", bytes)

RunKind = Literal["occurrence", "once", "manual", "rerun", "redo", "verify"]
"""What a run's identity is made of. An occurrence keeps one identity, whether it is made on time,
in catch-up or by a backfill that fills a hole; orders of people and delayed runs bring a nonce."""

ID_BYTES = 16
_MILLISECOND_US = 1000
_PREFIX_MASK = (1 << 48) - 1


def schedule_id(created_at: int, draw: bytes) -> ScheduleId:
    """Return a schedule's id: a UUIDv7 of the moment it is made and ten drawn bytes."""
    assert len(draw) >= 10, "an id takes ten drawn bytes"
    return ScheduleId(_stamped(created_at, int.from_bytes(draw[:10]), version=7))


def backfill_id(created_at: int, draw: bytes) -> BackfillId:
    """Return a backfill's id, of the same kind as a schedule's."""
    return BackfillId(schedule_id(created_at, draw))


_OCCURRENCE_MARK = 1 << 73
"""The first bit after the version: set in ids of occurrences, so that no caller's order has one."""
_OCCURRENCE_FRAME = b"duly.run" + bytes((len(b"occurrence"), ID_BYTES)) + b"occurrence"
_OCCURRENCE_BITS = 0x8 << 76 | 1 << 75 | 0b10 << 62
"""The version, the mark and the variant of such an id."""
_LOW_MASK = (1 << 62) - 1


def occurrence_run_id(schedule: ScheduleId, scheduled_for: int) -> RunId:
    """Return the id of the one run that an occurrence can have."""
    # The same as _run_id, written out: this is computed for every fire.
    framed = _OCCURRENCE_FRAME + schedule + scheduled_for.to_bytes(8, signed=True)
    rest = int.from_bytes(blake2b(framed, digest_size=10).digest())
    stamp = scheduled_for // _MILLISECOND_US & _PREFIX_MASK
    low = rest & _LOW_MASK
    number = stamp << 80 | _OCCURRENCE_BITS | (rest >> 62 & 0x7FF) << 64 | low
    return RunId(number.to_bytes(ID_BYTES))


def ordered_run_id(kind: RunKind, at: int, nonce: bytes, schedule: bytes = b"") -> RunId:
    """Return the id of a run that somebody ordered: a delayed one, a manual one, a rerun."""
    return _run_id(at, kind.encode(), schedule, nonce)


def drawn_run_ids(at: int, draw: bytes) -> list[RunId]:
    """Return ids of runs that are ordered together, sorted: two bytes for all, eight for each.

    They begin alike, so that they are neighbours in every index, and few pages are touched. Should
    two be the same, they count once: draw again then.
    """
    shared, each = draw[:2], draw[2:]
    count, rest = divmod(len(each), 8)
    assert count > 0, "somebody orders something"
    assert rest == 0, "each takes eight drawn bytes"
    stamp = (at // _MILLISECOND_US & _PREFIX_MASK).to_bytes(6)
    head = stamp + bytes((0x80 | shared[0] & 0x07, shared[1]))
    # The variant goes into all of them at once, as into one long number.
    mask = int.from_bytes((b"\x3f" + 7 * b"\xff") * count)
    variant = int.from_bytes((b"\x80" + bytes(7)) * count)
    tails = (int.from_bytes(each) & mask | variant).to_bytes(len(each))
    ids = {RunId(head + tails[at : at + 8]) for at in range(0, len(tails), 8)}
    return sorted(ids)


def is_occurrence_id(identity: bytes) -> bool:
    """Say whether an id is of the kind that is computed for occurrences, and for nothing else."""
    number = int.from_bytes(identity)
    return number >> 76 & 0xF == 8 and bool(number >> 75 & 1)


def shard_of(identity: bytes, shards: int) -> int:
    """Return which shard an identity belongs to; by its hashed end, since the front is time."""
    return int.from_bytes(identity[-4:]) % shards


def identity_text(identity: bytes) -> str:
    """Write an id as people see it: a UUID in its usual form."""
    digits = identity.hex()
    assert len(digits) == 2 * ID_BYTES, "an id is 16 bytes"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def read_identity(text: str | UUID | bytes, field: str) -> bytes:
    """Read an id in any of its forms."""
    if isinstance(text, UUID):
        return text.bytes
    if isinstance(text, bytes) and len(text) == ID_BYTES:
        return text
    try:
        return UUID(text).bytes  # type: ignore[arg-type]
    except (AttributeError, TypeError, ValueError) as error:
        remedy = "give a UUID such as 019a8a5c-7d00-7c3e-9b1f-0a2b3c4d5e6f"
        raise UsageError(field, text, "is not an id", remedy) from error


def _run_id(  # noqa: PLR0913 - the parts of an identity
    identity_at: int, kind: bytes, schedule: bytes, nonce: bytes, *, mark: int = 0
) -> RunId:
    # Fields are framed by their lengths: no two different sets of them feed the hash alike.
    lengths = bytes((len(kind), len(schedule)))
    at = identity_at.to_bytes(8, signed=True)
    framed = b"".join((b"duly.run", lengths, kind, schedule, at, nonce))
    rest = int.from_bytes(blake2b(framed, digest_size=10).digest()) & ~_OCCURRENCE_MARK | mark
    return RunId(_stamped(identity_at, rest, version=8))


def _stamped(at: int, rest: int, *, version: int) -> bytes:
    """Put 74 bits behind a millisecond, with version and variant where RFC 9562 wants them."""
    high = ((at // _MILLISECOND_US) & _PREFIX_MASK) << 16 | version << 12 | (rest >> 62) & 0xFFF
    low = 0b10 << 62 | rest & ((1 << 62) - 1)
    return (high << 64 | low).to_bytes(ID_BYTES)
