"""Quick reading: stored arguments out of JSON into plain types in one go.

For signatures of plain types alone, where one pass gives the very values that reading JSON and
checking each argument would. Whatever it does not take is left to that slower way, which knows how
to say what is wrong.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin

import msgspec
from msgspec import UNSET
from msgspec.structs import asdict

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    Read = Callable[[str], dict[str, Any]]

_PLAIN = frozenset((str, int, float, bool, types.NoneType))


def quick_reader(kinds: Mapping[str, Any], required: Collection[str]) -> Read | None:
    """Return what reads arguments of these types, and raises for all others; None without one."""
    if not all(_is_plain(kind) for kind in kinds.values()):
        return None
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = [
        (name, kind) if name in required else (name, Union[kind, msgspec.UnsetType], UNSET)  # noqa: UP007 - a type that is worked out
        for name, kind in kinds.items()
    ]
    # By name, in whichever order: a parameter with a default may come before one without.
    shape = msgspec.defstruct("Arguments", fields, forbid_unknown_fields=True, kw_only=True)
    decode = msgspec.json.Decoder(shape).decode

    def read(text: str) -> dict[str, Any]:
        given = asdict(decode(text))
        if UNSET in given.values():
            return {name: value for name, value in given.items() if value is not UNSET}
        return given

    return read


def _is_plain(kind: Any) -> bool:  # noqa: ANN401 - a type
    """Say whether a type is one of JSON's own, or made of them."""
    if kind is Any or kind in _PLAIN:
        return True
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (list, types.UnionType, Union):
        return all(_is_plain(part) for part in parts)
    return origin is dict and parts[0] is str and _is_plain(parts[1])
