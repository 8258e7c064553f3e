"""Moments as tests write them: ISO texts, in UTC where they name no offset."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duly import Timetable

NOON = "2026-01-01T12:00"  # a Thursday


def moment(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def moments(*texts: str) -> list[datetime]:
    return [moment(text) for text in texts]


def upcoming(timetable: Timetable, after: str, n: int) -> list[datetime]:
    return timetable.upcoming(moment(after), n)
