"""Tells how far long work is, to whoever wants to know: every so many, and never in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

T = TypeVar("T")
Tell: TypeAlias = Callable[[int], object]
"""Is told how many are done so far."""
TOLD_EVERY = 100


def counted(items: Iterable[T], tell: Tell | None) -> Iterator[T]:
    """Hand things on one by one, and tell how many there were so far."""
    if tell is None:
        yield from items
        return
    tell(0)
    number = 0
    for number, one in enumerate(items, start=1):
        if number % TOLD_EVERY == 0:
            tell(number)
        yield one
    tell(number)
