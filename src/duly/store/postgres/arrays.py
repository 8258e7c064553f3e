"""Arrays as PostgreSQL reads them, encoded by hand: batches of a thousand are sent all the time.

A list goes to the server in its binary form, with the type said: nothing is quoted, parsed or
guessed there, and encoding costs a tenth of what the driver's own general way does.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from psycopg.adapt import Dumper
from psycopg.pq import Format

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from psycopg.abc import AdaptContext, Buffer

_HEADER = struct.Struct(">iiiii")
_PACK_INT8 = struct.Struct(">q").pack
_INT4 = struct.Struct(">i")
_PACK_INT4 = _INT4.pack
_LENGTH_4 = b"\x00\x00\x00\x04"
_LENGTH_8 = b"\x00\x00\x00\x08"
_LENGTH_16 = b"\x00\x00\x00\x10"
_NULL = b"\xff\xff\xff\xff"

_OID_INT4, _OID_INT8, _OID_TEXT, _OID_UUID = 23, 20, 25, 2950
_OID_INT4_ARRAY, _OID_INT8_ARRAY, _OID_TEXT_ARRAY, _OID_UUID_ARRAY = 1007, 1016, 1009, 2951


class Encoded:
    """An array that is ready to be sent."""

    __slots__ = ("data",)
    oid: int
    """Of the array's type."""
    data: bytes


class Text(Encoded):
    """One text."""

    __slots__ = ()
    oid = _OID_TEXT

    def __init__(self, value: str) -> None:
        self.data = value.encode()


class Int4s(Encoded):
    """Numbers that fit into four bytes."""

    __slots__ = ()
    oid = _OID_INT4_ARRAY

    def __init__(self, values: Sequence[int]) -> None:
        parts = map(_PACK_INT4, values)
        self.data = _header(_OID_INT4, len(values)) + _LENGTH_4.join((b"", *parts))


class Int8s(Encoded):
    """Instants, durations and epochs."""

    __slots__ = ()
    oid = _OID_INT8_ARRAY

    def __init__(self, values: Sequence[int]) -> None:
        parts = map(_PACK_INT8, values)
        self.data = _header(_OID_INT8, len(values)) + _LENGTH_8.join((b"", *parts))


class OptionalInt8s(Encoded):
    """The same, where some may be missing."""

    __slots__ = ()
    oid = _OID_INT8_ARRAY

    def __init__(self, values: Sequence[int | None]) -> None:
        chosen = values[:1] if _are_alike(values) else values
        parts = (_NULL if one is None else _LENGTH_8 + _PACK_INT8(one) for one in chosen)
        data = b"".join(parts) * (len(values) if chosen is not values else 1)
        self.data = _header(_OID_INT8, len(values), has_nulls=True) + data


class OptionalInt4s(Encoded):
    """Small numbers, where some may be missing."""

    __slots__ = ()
    oid = _OID_INT4_ARRAY

    def __init__(self, values: Sequence[int | None]) -> None:
        parts = (_NULL if one is None else _LENGTH_4 + _PACK_INT4(one) for one in values)
        self.data = _header(_OID_INT4, len(values), has_nulls=True) + b"".join(parts)


class Uuids(Encoded):
    """Ids of 16 bytes."""

    __slots__ = ()
    oid = _OID_UUID_ARRAY

    def __init__(self, values: Sequence[bytes]) -> None:
        self.data = _header(_OID_UUID, len(values)) + _LENGTH_16.join((b"", *values))


_SIZES: dict[type[Encoded], tuple[int, int]] = {
    Int4s: (4, _OID_INT4),
    Int8s: (8, _OID_INT8),
    Uuids: (16, _OID_UUID),
}
"""How long each part is, and of which type."""


class OptionalUuids(Encoded):
    """Ids, where some may be missing."""

    __slots__ = ()
    oid = _OID_UUID_ARRAY

    def __init__(self, values: Sequence[bytes | None]) -> None:
        parts = (_NULL if one is None else _LENGTH_16 + one for one in values)
        self.data = _header(_OID_UUID, len(values), has_nulls=True) + b"".join(parts)


class Texts(Encoded):
    """Texts, where some may be missing."""

    __slots__ = ()
    oid = _OID_TEXT_ARRAY

    def __init__(self, values: Sequence[str | None]) -> None:
        # Of many runs that are ordered at once nearly all texts are alike.
        chosen = values[:1] if _are_alike(values) else values
        data = b"".join(_texts(chosen)) * (len(values) if chosen is not values else 1)
        self.data = _header(_OID_TEXT, len(values), has_nulls=True) + data


def received(kind: type[Encoded], data: bytes) -> Encoded:
    """Return an array that somebody else has encoded; ValueError if it is none of that kind."""
    size, oid = _SIZES[kind]
    count = (len(data) - _HEADER.size) // (_INT4.size + size)
    if count <= 0 or data[: _HEADER.size] != _header(oid, count):
        raise ValueError("it begins as no such array does")
    stride = _INT4.size + size
    if len(data) != _HEADER.size + count * stride:
        raise ValueError("it is not as long as its parts")
    for place, one in enumerate(_PACK_INT4(size), _HEADER.size):
        if data[place::stride] != bytes([one]) * count:
            raise ValueError("a part of it has another length")
    made = kind.__new__(kind)
    made.data = data
    return made


def size_of(array: object) -> int:
    """Return how many parts an array has that is not empty and lacks none."""
    assert isinstance(array, Encoded), "nothing else has parts"
    size, _ = _SIZES[type(array)]
    return (len(array.data) - _HEADER.size) // (_INT4.size + size)


def _are_alike(values: Sequence[object]) -> bool:
    return len(values) > 1 and values.count(values[0]) == len(values)


def _texts(values: Iterable[str | None]) -> Iterable[bytes]:
    for value in values:
        if value is None:
            yield _NULL
        else:
            encoded = value.encode()
            yield _PACK_INT4(len(encoded))
            yield encoded


def _header(oid: int, count: int, *, has_nulls: bool = False) -> bytes:
    if count == 0:
        return struct.pack(">iii", 0, 0, oid)
    return _HEADER.pack(1, int(has_nulls), oid, count, 1)


class _EncodedDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: Encoded) -> Buffer | None:
        return obj.data


class _TextDumper(_EncodedDumper):
    oid = _OID_TEXT


class _Int4sDumper(_EncodedDumper):
    oid = _OID_INT4_ARRAY


class _Int8sDumper(_EncodedDumper):
    oid = _OID_INT8_ARRAY


class _UuidsDumper(_EncodedDumper):
    oid = _OID_UUID_ARRAY


class _TextsDumper(_EncodedDumper):
    oid = _OID_TEXT_ARRAY


def register(context: AdaptContext) -> None:
    """Let a connection or a cursor take these; it knows everything else as before."""
    for kind, dumper in (
        (Text, _TextDumper),
        (Int4s, _Int4sDumper),
        (OptionalInt4s, _Int4sDumper),
        (Int8s, _Int8sDumper),
        (OptionalInt8s, _Int8sDumper),
        (Uuids, _UuidsDumper),
        (OptionalUuids, _UuidsDumper),
        (Texts, _TextsDumper),
    ):
        context.adapters.register_dumper(kind, dumper)
