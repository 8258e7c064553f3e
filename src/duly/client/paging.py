"""Pages of what is searched for, and the cursors by which a search goes on.

A cursor says how far a search has come and what it was for. It holds no secret and promises
nothing: whoever changes one is told that it is none, or sees another part of what he may see.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from dataclasses import dataclass, fields
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from duly.client.parameters import read_limit
from duly.errors import UsageError
from duly.store.ports.queries import PAGE_MAX

if TYPE_CHECKING:
    from duly.store.ports.queries import AttemptFilter, AuditFilter, RunFilter

    Filter = RunFilter | AttemptFilter | AuditFilter

PAGE_DEFAULT = 100
_DIGEST_BYTES = 6
_LENGTH_MAX = 200
_POSITIONS = frozenset({"before_id", "before", "before_number", "limit"})
"""What tells pages of one search apart, and no two searches."""

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """A page of a search: what was found, and how to go on."""

    items: list[Item]
    """May be fewer than asked, and even none, while there is a next page: each is found at a
    bounded price."""
    next_cursor: str | None
    """To be given for the next page; None when everything has been seen."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        items = [one.to_json() for one in self.items]  # type: ignore[attr-defined]
        return {"items": items, "next_cursor": self.next_cursor}


def read_page_limit(limit: object) -> int:
    """Read how many a page is to have at the most."""
    return read_limit(limit, PAGE_MAX)


def write_cursor(command: Filter, position: bytes | None) -> str | None:
    """Return how to go on with a search from a position; None if there is nothing more."""
    if position is None:
        return None
    return urlsafe_b64encode(_digest(command) + position).rstrip(b"=").decode()


def read_cursor(command: Filter, cursor: object, length: int) -> bytes | None:
    """Return from where to go on with this search, in so many bytes; None: from its beginning."""
    if cursor is None:
        return None
    remedy = "give next_cursor of the page before, with the same filters, or none to begin anew"
    if not isinstance(cursor, str) or len(cursor) > _LENGTH_MAX:
        raise UsageError("cursor", cursor, "is not a cursor", remedy)
    try:
        read = urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4))
    except (NotBase64, UnicodeEncodeError, ValueError) as error:
        raise UsageError("cursor", cursor, "is not a cursor", remedy) from error
    digest, position = read[:_DIGEST_BYTES], read[_DIGEST_BYTES:]
    if len(position) != length:
        raise UsageError("cursor", cursor, "is not a cursor of this list", remedy)
    if digest != _digest(command):
        raise UsageError("cursor", cursor, "is of a search with other filters", remedy)
    return position


def _digest(command: Filter) -> bytes:
    """Hash what is searched for."""
    parts = [type(command).__name__]
    for one in fields(command):
        value = getattr(command, one.name)
        if one.name not in _POSITIONS:
            listed = sorted(map(str, value)) if isinstance(value, frozenset) else value
            parts.append(f"{one.name}={listed!r}")
    return blake2b(
        "\n".join(parts).encode("utf-8", "backslashreplace"), digest_size=_DIGEST_BYTES
    ).digest()
