"""What PostgreSQL's errors mean to whoever called: who must act, and how."""

from __future__ import annotations

import psycopg
from psycopg import errors

from duly.errors import SchemaMismatch, StoreError, StoreUnavailable

_BUSY = "is busy: somebody else holds what is needed"
_AGAIN = "try again; if it lasts, look for a transaction that was left open"

_MEANINGS: tuple[tuple[type[psycopg.Error], str, str], ...] = (
    (errors.LockNotAvailable, _BUSY, _AGAIN),
    (errors.DeadlockDetected, _BUSY, _AGAIN),
    (errors.SerializationFailure, _BUSY, _AGAIN),
    (errors.QueryCanceled, "stopped a statement that took too long", "ask for less at once"),
    (
        errors.IdleInTransactionSessionTimeout,
        "ended a transaction that stood still for too long",
        "try again; nothing of it was kept",
    ),
    (
        errors.ReadOnlySqlTransaction,
        "can't be written to: this server is a standby, or its transactions may only read",
        "name all servers, with target_session_attrs=read-write; see default_transaction_read_only",
    ),
    (errors.DiskFull, "can't be written to, for the disk is full", "free some space and try again"),
)

_WAITED_LONG = errors._WaitTimeout  # noqa: SLF001 - it has no other name
_OTHER_SCHEMA = (
    errors.UndefinedTable,
    errors.UndefinedColumn,
    errors.UndefinedFunction,
    errors.InvalidSchemaName,
)


def failure(error: psycopg.Error, name: str) -> StoreError:
    """Return what is raised instead of an error of psycopg's."""
    for kind, problem, remedy in _MEANINGS:
        if isinstance(error, kind):
            return StoreUnavailable(name, problem, remedy)
    said = _first_line(error)
    if isinstance(error, errors.InsufficientPrivilege):
        problem = f"refused this user ({said})"
        return StoreUnavailable(name, problem, "give it the rights that the how-to names")
    if isinstance(error, _OTHER_SCHEMA):
        problem = f"has another schema than this program knows ({said})"
        return SchemaMismatch(name, problem, "run `duly db migrate`, or bring the newer program")
    if isinstance(error, psycopg.IntegrityError):
        problem = f"refused what would break a promise ({said})"
        return StoreError(name, problem, "this is a defect of Duly: nothing was changed, report it")
    if isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)):
        return _unreached(error, name, said)
    return StoreError(name, f"failed ({said})", "this is a defect of Duly: report it")


def _unreached(error: psycopg.Error, name: str, said: str) -> StoreError:
    if type(error) is _WAITED_LONG:
        return StoreUnavailable(name, "gave no answer in time", "try again, or look at its load")
    problem = f"can't be reached ({said})"
    return StoreUnavailable(name, problem, "see that the server runs and the URL is right")


def _first_line(error: psycopg.Error) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
