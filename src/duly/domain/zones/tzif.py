"""Compiled zone files (TZif, RFC 9636): bytes in, changes of offset out."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from duly.domain.zones.posix_rule import Change, YearlyRule, read_footer

_HEADER = struct.Struct(">4sc15x6l")


@dataclass(frozen=True, slots=True)
class ZoneFile:
    """What a zone file says: the first offset, each change, and the rule after the last."""

    first: Change
    changes: tuple[Change, ...]
    rule: YearlyRule | None


def read_tzif(content: bytes) -> ZoneFile:
    """Read a version 2 or later file; raise ValueError for anything else."""
    try:
        return _read_tzif(content)
    except (struct.error, IndexError) as error:
        raise ValueError("a TZif file that is cut short or broken") from error


def _read_tzif(content: bytes) -> ZoneFile:
    magic, version, *_ = _HEADER.unpack_from(content)
    if magic != b"TZif" or version < b"2":
        raise ValueError("not a TZif file of version 2 or later")
    start = _HEADER.size + _block_size(content, 0, time_size=4)
    is_utc, is_std, leaps, times, types, chars = _HEADER.unpack_from(content, start)[2:]
    position = start + _HEADER.size
    instants = struct.unpack_from(f">{times}q", content, position)
    position += times * 8
    kinds = content[position : position + times]
    position += times
    records = [struct.unpack_from(">lbB", content, position + 6 * index) for index in range(types)]
    position += types * 6
    names = content[position : position + chars]
    end = position + chars + leaps * 12 + is_std + is_utc
    footer = read_footer(content[end + 1 :].split(b"\n")[0].decode("ascii"))

    def change(at: int, kind: int) -> Change:
        offset, is_summer, name = records[kind]
        abbreviation = names[name:].split(b"\0")[0].decode("ascii")
        return Change(at, offset, abbreviation, is_summer=bool(is_summer))

    changes = [change(at, kind) for at, kind in zip(instants, kinds, strict=True)]
    first = change(0, 0)
    rule = footer if isinstance(footer, YearlyRule) else None
    return ZoneFile(first, tuple(changes), rule)


def _block_size(content: bytes, start: int, time_size: int) -> int:
    is_utc, is_std, leaps, times, types, chars = _HEADER.unpack_from(content, start)[2:]
    size = times * (time_size + 1) + types * 6 + chars + leaps * (time_size + 4) + is_std + is_utc
    return int(size)
