"""Statements that are sent all the time, by the shortest way there is.

A cursor of the driver's finds out for each statement what it has found out before: which types its
values have, whether it is prepared, how to read each column. For batches of a few rows that is most
of what we spend. Here a statement is prepared when it is first sent, and all that is kept with it.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from psycopg import errors, generators
from psycopg.adapt import Transformer
from psycopg.pq import ExecStatus, Format
from psycopg.types.numeric import Int8

from duly.store.postgres.arrays import Encoded
from duly.store.postgres.session import ConnectionSession

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from psycopg import abc
    from psycopg.pq.abc import PGresult

    from duly.store.postgres.session import BoundedConnection
    from duly.store.records import Row

Asked = tuple[str, tuple[object, ...]]
"""A statement with values such as it is sent with."""
FORGET_PLANS = b"DISCARD PLANS"
ANSWER_BYTES = 300_000
"""As long as the answer to a claim of a thousand runs whose arguments are short."""
HAVE_ROOM = f"SELECT pg_catalog.repeat(' ', {ANSWER_BYTES:d})".encode()
_PACK_INT8 = struct.Struct(">q").pack
_OID_INT8 = 20


class Prepared(NamedTuple):
    """A statement that the server knows by a name."""

    name: bytes
    formats: list[Format]
    columns: abc.Transformer


class PreparedSession(ConnectionSession):
    """Statements on a connection of ours, each of them a transaction of its own."""

    connection: BoundedConnection

    def __init__(self, connection: BoundedConnection) -> None:
        super().__init__(connection, is_ours=True)

    def rows(self, statement: str, values: Sequence[object] = ()) -> list[Row]:
        """Run a statement; return what it returns."""
        sent = encoded(values)
        if sent is None:
            return super().rows(statement, values)
        return _read(*self._ask(statement, values, sent))

    def begin(self, statement: str, values: Sequence[object] = ()) -> Callable[[], list[Row]]:
        """Send a statement; return what waits for its rows; nothing else is said meanwhile."""
        sent = encoded(values)
        if sent is None:
            return super().begin(statement, values)
        prepared = self._send(statement, values, sent)

        def answer() -> list[Row]:
            try:
                return _read(prepared, self._answer())
            except errors.InvalidSqlStatementName:
                self.connection.prepared.clear()
                return self.rows(statement, values)

        return answer

    def run(self, statement: str, values: Sequence[object] = ()) -> int:
        """Run a statement; return how many rows it touched."""
        sent = encoded(values)
        if sent is None:
            return super().run(statement, values)
        _, result = self._ask(statement, values, sent)
        return result.command_tuples or 0

    def have_room(self) -> None:
        """Let the driver's library have room for long answers on this connection, once and for all.

        It reads as much at a time as it has had room for before, sixteen kilobytes at first, and
        gives up the interpreter twice each time. In a process with other threads it has to wait for
        it as often, while the server waits for our next order.
        """
        if not self.connection.has_room:
            self.connection.execute(HAVE_ROOM, prepare=False)
            self.connection.has_room = True

    def plan(self, asked: Sequence[Asked]) -> None:
        """Have these, and all that was asked for here before, planned anew; nobody carries it out.

        In one round trip, if all are known.
        """
        for is_last in (False, True):
            for statement, values in asked:
                self._known(statement, values)
            parts = [FORGET_PLANS]
            for prepared in self.connection.prepared.values():
                nothing = b", ".join([b"NULL"] * len(prepared.formats))
                given = b"(%b)" % nothing if nothing else b""
                parts.append(b"EXPLAIN EXECUTE %b%b" % (prepared.name, given))
            try:
                self.connection.execute(b"; ".join(parts), prepare=False)
            except errors.InvalidSqlStatementName:
                self.connection.prepared.clear()
                if is_last:
                    raise
            else:
                return

    def _ask(
        self, statement: str, values: Sequence[object], sent: list[bytes]
    ) -> tuple[Prepared, PGresult]:
        known = self.connection.prepared
        for is_last in (False, True):
            prepared = self._send(statement, values, sent)
            try:
                return prepared, self._answer()
            except errors.InvalidSqlStatementName:
                # After a rollback the driver has the server forget all that was prepared.
                known.clear()
                if is_last:
                    raise
        raise AssertionError("it has returned or raised")

    def _send(self, statement: str, values: Sequence[object], sent: list[bytes]) -> Prepared:
        prepared = self._known(statement, values)
        connection = self.connection.pgconn
        connection.send_query_prepared(prepared.name, sent, prepared.formats, Format.BINARY)
        return prepared

    def _known(self, statement: str, values: Sequence[object]) -> Prepared:
        return self.connection.prepared.get(statement) or self._prepare(statement, values)

    def _prepare(self, statement: str, values: Sequence[object]) -> Prepared:
        known = self.connection.prepared
        self.connection.prepared_count += 1
        name = f"duly_{self.connection.prepared_count}".encode()
        kinds = [value.oid if isinstance(value, Encoded) else _OID_INT8 for value in values]
        self.connection.pgconn.send_prepare(name, statement.encode(), kinds)
        self._answer()
        formats = [Format.BINARY] * len(kinds)
        known[statement] = Prepared(name, formats, Transformer(self.connection))
        return known[statement]

    def _answer(self) -> PGresult:
        results: list[PGresult] = self.connection.wait(generators.execute(self.connection.pgconn))
        # A server that is told to end says so behind its answer: then whether it was carried out is
        # not known to us, and what came first is not the last word.
        *_, result = results
        if result.status not in {ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK}:
            raise errors.error_from_result(result)
        return result


def _read(prepared: Prepared, result: PGresult) -> list[Row]:
    columns = prepared.columns
    columns.set_pgresult(result, set_loaders=columns.pgresult is None)
    return columns.load_rows(0, result.ntuples, tuple)


def encoded(values: Sequence[object]) -> list[bytes] | None:
    """Return values as they are sent; None if there is one that the driver knows better."""
    sent: list[bytes] = []
    for value in values:
        if isinstance(value, Encoded):
            sent.append(value.data)
        elif type(value) is int or type(value) is Int8:
            try:
                sent.append(_PACK_INT8(value))
            except struct.error:
                return None
        else:
            return None
    return sent
