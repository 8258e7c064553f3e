"""What the doctor found over the wire: each thing that was looked at, and what to do about it."""

from __future__ import annotations

from duly.interface.shapes import Shown


class DoctorCheck(Shown, frozen=True, kw_only=True):
    """One thing that was looked at."""

    about: str
    level: str
    """From the best to the worst: ok, note, degraded, broken."""
    says: str
    code: str | None
    """Stable, of what is not as it should be."""
    remedy: str | None
    is_mendable: bool
    """Whether `duly doctor --fix` would do it."""


class Diagnosis(Shown, frozen=True, kw_only=True):
    """All that was looked at."""

    is_well: bool
    level: str
    """The worst of what was found."""
    checks: list[DoctorCheck]
