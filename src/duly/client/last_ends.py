"""How a schedule's newest runs ended, as people and programs see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from duly.timetable.instants import from_microseconds, iso_or_none, iso_utc, moment_or_none

if TYPE_CHECKING:
    from datetime import datetime

    from duly.domain.vitals import LastEnd, LastEnds, LastError


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How one run of a schedule ended, or was found to have."""

    run: UUID
    scheduled_for: datetime
    at: datetime

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "run": str(self.run),
            "scheduled_for": iso_utc(self.scheduled_for),
            "at": iso_utc(self.at),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class BadEnding(Ending):
    """What went wrong with a run; a later attempt of it may have made it good."""

    reason: str | None
    error: str | None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        own = {"reason": self.reason, "error": self.error}
        return {**Ending.to_json(self), **own}


@dataclass(frozen=True, slots=True, kw_only=True)
class Endings:
    """When a schedule's work last succeeded, was last found to be done, and last went wrong."""

    success: Ending | None
    verified: Ending | None
    """The newest success that a check has found to be in place, and when it did: another fact."""
    error: BadEnding | None
    unknown_through: datetime | None
    """What fell due up to then is no longer kept, or was not looked at: None above is not never."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        through = self.unknown_through
        return {
            "success": None if self.success is None else self.success.to_json(),
            "verified": None if self.verified is None else self.verified.to_json(),
            "error": None if self.error is None else self.error.to_json(),
            "unknown_through": iso_or_none(through),
        }


def endings_view(found: LastEnds) -> Endings:
    """Show how runs ended."""
    through = found.unknown_through
    return Endings(
        success=_ending(found.success),
        verified=_ending(found.verified),
        error=None if found.error is None else _bad_ending(found.error),
        unknown_through=moment_or_none(through),
    )


def _ending(end: LastEnd | None) -> Ending | None:
    if end is None:
        return None
    return Ending(
        run=UUID(bytes=end.run_id),
        scheduled_for=from_microseconds(end.scheduled_for),
        at=from_microseconds(end.at),
    )


def _bad_ending(error: LastError) -> BadEnding:
    return BadEnding(
        run=UUID(bytes=error.run_id),
        scheduled_for=from_microseconds(error.scheduled_for),
        at=from_microseconds(error.at),
        reason=error.reason,
        error=error.error,
    )
