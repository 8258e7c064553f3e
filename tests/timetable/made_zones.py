"""Time-zone releases made up for a test: a writer of TZif files, and a release that hands them out."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from duly.timetable.zones import ZoneDatabase

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Kind = tuple[int, bool, str]
"""Seconds east of UTC, whether it is summer time, abbreviation."""


def tzif(first: Kind, changes: Sequence[tuple[int, Kind]] = (), footer: str = "") -> bytes:
    """Write a version 2 file: what holds first, what holds from each instant on, and the rule after."""
    kinds = list(dict.fromkeys([first, *(kind for _, kind in changes)]))
    names = "".join(f"{name}\0" for name in dict.fromkeys(name for _, _, name in kinds))
    header = (b"TZif", b"2", 0, 0, 0, len(changes), len(kinds), len(names))
    empty = struct.pack(">4sc15x6l", b"TZif", b"2", 0, 0, 0, 0, 1, 1) + b"\0" * 7
    body = struct.pack(">4sc15x6l", *header)
    body += b"".join(struct.pack(">q", at) for at, _ in changes)
    body += bytes(kinds.index(kind) for _, kind in changes)
    for offset, is_summer, name in kinds:
        place = f"\0{names}".index(f"\0{name}\0")
        body += struct.pack(">lbB", offset, is_summer, place)
    return empty + body + names.encode() + f"\n{footer}\n".encode()


@dataclass(frozen=True)
class MadeRelease:
    """A release with the zones it is given, and no others."""

    files: Mapping[str, bytes]
    version: str = "made"
    tables: Mapping[str, str] = field(default_factory=dict)

    @property
    def keys(self) -> frozenset[str]:
        return frozenset(self.files)

    def read(self, key: str) -> bytes:
        return self.files[key]

    def table(self, name: str) -> str:
        return self.tables.get(name, "")


def release(version: str = "made", **files: bytes) -> ZoneDatabase:
    """Make a database of zones by name; `__` in a name stands for the slash."""
    named = {name.replace("__", "/"): content for name, content in files.items()}
    return ZoneDatabase(MadeRelease(named, version))
