"""Savepoints: a part of a transaction that may fail without the rest of it."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import psycopg
from psycopg import errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeVar

    from duly.store.postgres.session import Session

    T = TypeVar("T")

TRIES_MAX = 3


class OvertakenError(Exception):
    """Somebody else has meanwhile written what we were about to write."""


@contextmanager
def savepoint(session: Session, name: str) -> Iterator[None]:
    """Undo what the block did when it fails, and nothing else of the transaction."""
    session.run(f"SAVEPOINT {name}")
    try:
        yield
    except BaseException:
        # On a connection that is gone there is nothing left to undo.
        with suppress(psycopg.Error):
            session.run(f"ROLLBACK TO {name}")
            session.run(f"RELEASE {name}")
        raise
    session.run(f"RELEASE {name}")


def unless_overtaken(session: Session, name: str, action: Callable[[], T]) -> T:
    """Do something again when somebody else came first: the next look finds what he has written."""
    for _ in range(TRIES_MAX):
        with suppress(errors.UniqueViolation, OvertakenError), savepoint(session, name):
            return action()
    raise errors.SerializationFailure("others write the same again and again")
