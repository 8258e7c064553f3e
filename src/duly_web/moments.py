"""How times are shown: absolute with their zone, and relative, always both (UX 3).

Whoever looks chooses whose clock on the wall they read: the schedule's, their own, or UTC.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Literal

from duly import default_zones
from duly.api.views import clock_name, units_text

Choice = Literal["schedule", "mine", "utc"]
CHOICES: tuple[Choice, ...] = ("schedule", "mine", "utc")
CHOICE_WORDS: dict[Choice, str] = {"schedule": "Schedule's", "mine": "Mine", "utc": "UTC"}
MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """An instant as one person reads it."""

    iso: str
    """For programs: UTC."""
    day: str
    clock: str
    zone: str
    """What the clock on the wall is called: CEST, UTC, UTC+05:30."""
    relative: str


@dataclass(frozen=True, slots=True)
class Clocks:
    """Whose clock somebody reads."""

    choice: Choice = "schedule"
    mine: str | None = None
    """The visitor's own zone, as far as their browser has said it."""

    def zone(self, own: str | None) -> str:
        """Return the zone that a time is shown in, whose schedule has `own`."""
        match self.choice:
            case "schedule":
                return own or self.mine or "UTC"
            case "mine":
                return self.mine or "UTC"
            case "utc":
                return "UTC"

    def moment(self, at: datetime, now: datetime, own: str | None = None) -> Moment:
        """Show an instant; `own` is its schedule's zone."""
        offset, name = _offset(at, self.zone(own))
        local = at.astimezone(UTC) + offset
        is_same_year = local.year == (now.astimezone(UTC) + offset).year
        day = f"{local:%a} {local.day} {local:%b}"
        return Moment(
            iso=at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            day=day if is_same_year else f"{day} {local.year}",
            clock=f"{local:%H:%M:%S}",
            zone=name,
            relative=relative(at, now),
        )

    def mine_at(self, at: datetime) -> datetime:
        """Return what the visitor's own clock shows, for axes of drawings."""
        offset, _ = _offset(at, self.mine or "UTC")
        return at.astimezone(UTC) + offset


def local_date(at: datetime, zone: str) -> date:
    """Return the date that a zone's calendar shows at an instant, by our own rules of zones."""
    offset, _ = _offset(at, zone)
    return (at.astimezone(UTC) + offset).date()


def read_choice(text: str) -> Choice:
    """Return whose clock is meant; the schedule's, unless another is named."""
    for one in CHOICES:
        if one == text:
            return one
    return CHOICES[0]


def read_zone(text: str | None) -> str | None:
    """Return a zone's name if it is one; a browser may say anything."""
    return text if text is not None and text in default_zones().keys else None


def relative(at: datetime, now: datetime) -> str:
    """Say how far an instant is: "in 3 min", "2 h 5 min ago"."""
    away = (at - now) // MICROSECOND
    text = units_text(abs(away))
    if not text:
        return "now"
    return f"in {text}" if away > 0 else f"{text} ago"


def span(length: timedelta | None) -> str:
    """Write a duration: milliseconds below a second, two units above."""
    if length is None:
        return "–"  # noqa: RUF001 - typography
    whole = length // MICROSECOND
    sign = "−" if whole < 0 else ""  # noqa: RUF001 - as above
    if abs(whole) < 1_000_000:
        return f"{sign}{abs(whole) / 1000:.0f} ms"
    return sign + units_text(abs(whole))


def _offset(at: datetime, zone: str) -> tuple[timedelta, str]:
    segment = default_zones().zone(zone).segment(int(at.timestamp() // 1))
    offset = timedelta(seconds=segment.offset)
    return offset, clock_name(segment.abbreviation, offset)
