"""Time zones to choose from: found by what somebody types, each with what its clock shows now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from duly import UsageError, default_zones, search_zones
from duly.api.views import clock_name_and_offset

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from duly import ZoneMatch

FOUND_MAX = 30
RECENT_MAX = 5
SUGGESTED = ("UTC",)


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneRow:
    """One zone to choose."""

    key: str
    city: str
    country: str
    clock: str
    offset: str
    """What its clock is called now, and what it is off UTC: GMT (+00:00)."""
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneGroup:
    """Zones under one heading."""

    name: str
    rows: tuple[ZoneRow, ...]


def zone_row(key: str, now: datetime) -> ZoneRow | None:
    """Show one zone; None for what is none."""
    if key not in default_zones().keys:
        return None
    found = search_zones(key, at=now, limit=1)
    return _row(found[0]) if found else None


def found_zones(typed: str, now: datetime) -> tuple[ZoneGroup, ...]:
    """Return the zones that somebody may mean, the likeliest group first."""
    try:
        found = search_zones(typed, at=now, limit=FOUND_MAX)
    except UsageError:
        return ()
    groups: dict[str, list[ZoneRow]] = {}
    for one in found:
        groups.setdefault(one.group, []).append(_row(one))
    return tuple(ZoneGroup(name=name, rows=tuple(rows)) for name, rows in groups.items())


def offered_zones(now: datetime, mine: str | None, recent: Iterable[str]) -> tuple[ZoneGroup, ...]:
    """Return what is offered before anybody has typed anything: their own, and what they used."""
    suggested = _rows((mine, *SUGGESTED), now)
    known = {one.key for one in suggested}
    lately = [row for row in _rows(list(recent)[:RECENT_MAX], now) if row.key not in known]
    groups = (
        ZoneGroup(name="Suggested", rows=suggested),
        ZoneGroup(name="Recent", rows=(*lately,)),
    )
    return tuple(one for one in groups if one.rows)


def _rows(keys: Iterable[str | None], now: datetime) -> tuple[ZoneRow, ...]:
    named = dict.fromkeys(key for key in keys if key)
    return tuple(row for key in named if (row := zone_row(key, now)) is not None)


def _row(match: ZoneMatch) -> ZoneRow:
    return ZoneRow(
        key=match.key,
        city=match.city,
        country=", ".join(match.countries[:2]),
        clock=f"{match.local_at:%H:%M}",
        offset=clock_name_and_offset(match.abbreviation, match.offset),
        why=match.why,
    )
