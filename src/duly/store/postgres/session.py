"""A connection as our operations see it: a statement with its values in, rows out.

Statements have numbered places ($1), ids come back as bytes (`uuid_send`) and go in as text, and
results are binary. Whose connection it is, ours or the caller's, makes no difference to them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from psycopg import Connection, RawCursor, waiting
from psycopg.rows import tuple_row

from duly.store.postgres import arrays

if TYPE_CHECKING:
    import select
    from collections.abc import Callable, Sequence

    from psycopg.abc import RV, PQGen
    from psycopg.errors import Diagnostic

    from duly.store.postgres.prepared import Prepared
    from duly.store.records import Row


class Session(Protocol):
    """Somewhere to run statements."""

    def rows(self, statement: str, values: Sequence[object] = ()) -> list[Row]:
        """Run a statement; return what it returns."""
        ...

    def run(self, statement: str, values: Sequence[object] = ()) -> int:
        """Run a statement; return how many rows it touched."""
        ...


class BoundedConnection(Connection[Any]):
    """A connection on which nothing is waited for longer than a limit.

    A network may swallow an answer and leave the connection standing: then nobody would ever know.
    """

    limit_s: float = 30.0
    is_pooled: bool = False
    """Whether somebody between us and the server hands out its connections anew."""
    is_for_dispatch: bool = False
    is_spent: bool = False
    """Whether somebody else has had it, and may have left something on it."""
    is_in_doubt: bool = False
    """Whether a commit was answered that no standby is known to have."""
    search_path: str = ""
    """Where names are looked for by default: for callers to whom it is lent."""
    watched: select.poll | None = None
    """Tells whether the server has said something while nobody asked."""
    used_by: int = 0
    """The thread that has had it last: what it asks for is planned here. 0 while it is nobody's."""
    planned_at: int = 0
    """Since when its plans may date, by the monotonic clock."""
    has_room: bool = False
    """Whether long answers are read in few parts."""
    prepared: dict[str, Prepared]
    """What `PreparedSession` has prepared on it,"""
    prepared_count: int = 0
    """and how many so far: no name is used twice."""

    def hear(self, notice: Diagnostic) -> None:
        """Notice when somebody has told the server to wait no longer for a standby.

        It answers a commit with success then, and says so in a warning: known by the name of its
        function, because the words depend on the server's language.
        """
        if notice.source_function == "SyncRepWaitForLSN":
            self.is_in_doubt = True

    def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
        """Wait for an answer, at most as long as the limit says.

        A statement is never cancelled, not even by Ctrl-C: a commit that is cancelled while it
        waits for a standby is answered with success, and may be lost all the same. Who stops
        waiting closes the connection and does not know.
        """
        limit_s = self.limit_s if timeout is None else timeout
        return waiting.wait(gen, self.pgconn.socket, interval=interval, timeout=limit_s)


class ConnectionSession:
    """Statements on a connection of psycopg's."""

    def __init__(self, connection: Connection[Any], *, is_ours: bool) -> None:
        self.connection = connection
        self._is_ours = is_ours

    def rows(self, statement: str, values: Sequence[object] = ()) -> list[Row]:
        """Run a statement; return what it returns."""
        with self._cursor() as cursor:
            return cursor.execute(as_query(statement), values, binary=True).fetchall()

    def begin(self, statement: str, values: Sequence[object] = ()) -> Callable[[], list[Row]]:
        """Run a statement; return what tells its rows: this driver's cursors wait for them."""
        found = self.rows(statement, values)
        return lambda: found

    def run(self, statement: str, values: Sequence[object] = ()) -> int:
        """Run a statement; return how many rows it touched."""
        with self._cursor() as cursor:
            return cursor.execute(as_query(statement), values, binary=True).rowcount

    def _cursor(self) -> RawCursor[Row]:
        cursor = RawCursor(self.connection, row_factory=tuple_row)
        if not self._is_ours:
            arrays.register(cursor)  # the caller's connection stays as it is
        return cursor


def as_query(statement: str) -> bytes:
    """Return a statement as the driver takes one that was put together, and not written out."""
    return statement.encode()


def one(session: Session, statement: str, values: Sequence[object] = ()) -> Row:
    """Return the row of a statement that always has one."""
    found = session.rows(statement, values)
    assert found, "there is always such a row"
    return found[0]


def first(session: Session, statement: str, values: Sequence[object] = ()) -> Row | None:
    """Return the first row of a statement, if it has any."""
    found = session.rows(statement, values)
    return found[0] if found else None


def pairs(session: Session, statement: str) -> dict[str, Any]:
    """Return what a statement of two columns says, by the first."""
    return dict(session.rows(statement))


def as_values(row: Sequence[object]) -> list[object]:
    """Return a row as a statement takes it: ids go in as text."""
    return [uid(value) if isinstance(value, bytes) else value for value in row]


def uid(identity: bytes | None) -> str | None:
    """Return an id as a statement takes it."""
    return None if identity is None else identity.hex()
