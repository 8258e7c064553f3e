"""A frozen set of schedules: which ones somebody saw, at which version, written in one field."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from duly import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from duly import Schedule

CHOSEN_MAX = 1000
TYPED_FROM = 100
"""Above so many, whoever orders types how many they are."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """One schedule as it was seen."""

    id: UUID
    version: int


def write_chosen(schedules: Iterable[Schedule]) -> str:
    """Write a set."""
    return " ".join(write_one(one.id, one.version) for one in schedules)


def write_one(schedule: UUID, version: int) -> str:
    """Write one of a set."""
    return f"{urlsafe_b64encode(schedule.bytes).decode().rstrip('=')}.{version}"


def read_chosen(texts: Iterable[str]) -> list[Chosen]:
    """Read a set; each once."""
    found: dict[UUID, Chosen] = {}
    for text in texts:
        for one in text.split():
            read = _read(one)
            found[read.id] = read
    if len(found) > CHOSEN_MAX:
        remedy = f"choose at most {CHOSEN_MAX:,}: narrow the list by a filter"
        raise UsageError("chosen", f"{len(found):,}", "are too many at once", remedy)
    return list(found.values())


def _read(text: str) -> Chosen:
    identity, _, version = text.partition(".")
    try:
        return Chosen(UUID(bytes=urlsafe_b64decode(identity + "==")), int(version))
    except (ValueError, TypeError) as error:
        remedy = "choose rows of the list"
        raise UsageError("chosen", text[:80], "names no schedule", remedy) from error
