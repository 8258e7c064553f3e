"""Problems: what is answered when an order is refused (RFC 9457)."""

from __future__ import annotations

from duly.interface.shapes import Shown


class Problem(Shown, frozen=True, kw_only=True, omit_defaults=True):
    """Why something was not done, and what to do next."""

    type: str
    """urn:duly:problem: and the code."""
    title: str
    status: int
    code: str
    """Stays as it is; programs decide by it."""
    detail: str
    """One sentence: what happened, to what, and what to do."""
    field: str | None = None
    """What it is about: what was given, or what was looked for."""
    value: str | None = None
    """Which one, as far as it can be shown."""
    remedy: str | None = None
    most: int | None = None
    """Of a quota: how many there may be,"""
    count: int | None = None
    """and how many there are."""
