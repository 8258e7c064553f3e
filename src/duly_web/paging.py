"""Cursors of lists whose place is a name and an id, as addresses carry them."""

from __future__ import annotations

from uuid import UUID

from duly.api.reading import read_cursor, write_cursor


def write_place(place: tuple[str, UUID] | None) -> str | None:
    """Write after which one a list goes on."""
    return None if place is None else write_cursor(place[0], place[1])


def read_place(text: str | None) -> tuple[str, UUID] | None:
    """Read it; what is no cursor is refused."""
    return read_cursor(text, tuple[str, UUID])
