"""Savepoints: a part of a transaction that may fail without the rest of it."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import psycopg
from psycopg import errors

from duly.store.postgres.arrays import Uuids
from duly.store.postgres.quotas import IS_HELD
from duly.store.rulings import id_taken

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeVar

    from duly.store.postgres.session import Session

    T = TypeVar("T")

TRIES_MAX = 3
_OTHERS_IDS = "SELECT uuid_send(duly.others_ids($1::uuid[]))"


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


def unless_overtaken(
    session: Session, name: str, action: Callable[[], T], ids: Sequence[bytes] = ()
) -> T:
    """Do something again when somebody else came first: the next look finds what he has written.

    A role that is held to one tenant does not find what another tenant has written under one of
    the ids that it was given: that is a conflict, as it is for a role that sees it.
    """
    for _ in range(TRIES_MAX):
        with suppress(errors.UniqueViolation, OvertakenError), savepoint(session, name):
            return action()
        _refuse_hidden(session, ids)
    raise errors.SerializationFailure("others write the same again and again")


def _refuse_hidden(session: Session, ids: Sequence[bytes]) -> None:
    """Refuse ids that another tenant has used, where the database does not show us its rows."""
    if ids and session.rows(IS_HELD):
        for (taken,) in session.rows(_OTHERS_IDS, (Uuids(ids),)):
            raise id_taken(taken)
