"""Values that JSON can hold: what callers give, made plain and checked before it is stored."""

from __future__ import annotations

from math import isfinite
from typing import Any

import msgspec

from duly.errors import UsageError, shown


class RepeatedKeyError(ValueError):
    """JSON in which a map has a key twice: readers differ in which of the two they take."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"the key {shown(key)} is given twice")


def unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a map of what JSON text says, as an `object_pairs_hook`; refuse a key given twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise RepeatedKeyError(next(name for name in names if names.count(name) > 1))
    return found


def plain_value(field: str, value: object, depth_max: int) -> Any:  # noqa: ANN401 - JSON values
    """Return a value as JSON values; refuse what JSON can't hold, or what is nested too deeply."""
    remedy = "give what JSON can hold: texts, numbers, truth values, lists, maps, dataclasses"
    try:
        plain = msgspec.to_builtins(value, str_keys=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(field, value, f"is not JSON ({lower_first(error)})", remedy) from error
    _check_json(field, plain, depth_max)
    return plain


def _check_json(field: str, value: object, depth: int) -> None:
    if depth < 0:
        raise UsageError(field, value, "is nested too deeply", "give flatter arguments")
    if isinstance(value, float) and not isfinite(value):
        raise UsageError(field, value, "is no number that JSON can hold", "give a finite number")
    if isinstance(value, str) and not value.isascii():
        _check_text(field, value)
    if isinstance(value, dict):
        for key, one in value.items():
            _check_json(field, key, depth)
            _check_json(field, one, depth - 1)
    if isinstance(value, list | tuple):
        for one in value:
            _check_json(field, one, depth - 1)


def _check_text(field: str, value: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        remedy = "give text that UTF-8 can write"
        raise UsageError(field, value, "holds half a character", remedy) from error


def lower_first(error: Exception) -> str:
    """Return what an error says, to be put into the middle of a sentence."""
    text = str(error)
    return text[:1].lower() + text[1:]
