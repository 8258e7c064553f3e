"""An operation of the API as it is called: where it is, what it answers, whether it has a key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")
GET, POST, PATCH, PUT, DELETE = "GET", "POST", "PATCH", "PUT", "DELETE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Generic[T]):
    """One operation; a test compares all of them with the server's own table."""

    id: str
    method: str
    path: str
    answer: type[T]
    is_keyed: bool
    """Whether the server honours an Idempotency-Key: then it can be sent again."""

    @property
    def is_repeatable(self) -> bool:
        """Whether sending it twice does what sending it once does."""
        return self.is_keyed or self.method in {GET, PUT}


def look(name: str, path: str, answer: type[T]) -> Operation[T]:
    """Return the operation of something to look at."""
    return Operation(id=name, method=GET, path=path, answer=answer, is_keyed=False)


def order(  # noqa: PLR0913 - most have the default of the last two
    name: str, path: str, answer: type[T], *, method: str = POST, is_keyed: bool = True
) -> Operation[T]:
    """Return the operation of an order."""
    return Operation(id=name, method=method, path=path, answer=answer, is_keyed=is_keyed)
