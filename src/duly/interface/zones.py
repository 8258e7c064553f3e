"""Time zones over the wire."""

from __future__ import annotations

from duly.interface.shapes import Asked, InstantText, Shown


class ZonesAsked(Asked, frozen=True, kw_only=True):
    """What a person typed: a city, a country, a zone, an abbreviation, an offset."""

    search: str
    limit: int = 10


class Zone(Shown, frozen=True, kw_only=True):
    """A zone that may be meant, what its clock shows, and why it was found."""

    zone: str
    city: str
    countries: list[str]
    group: str
    offset: str
    abbreviation: str
    local_time: str
    why: str


class RuleAsked(Asked, frozen=True, kw_only=True):
    """A rule as a person says it, to be shown."""

    when: str
    tz: str | None = None
    gap: str | None = None
    fold: str | None = None
    calendar: str | None = None
    dtstart: str | None = None
    name: str | None = None
    """What cron's H is spread by: a schedule's name."""
    after: InstantText | None = None
    count: int = 5
