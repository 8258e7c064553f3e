"""A clock that is set by hand and read by PostgreSQL: the store's `now` is injected, too.

The database keeps it in a sequence. Its value is outside of transactions and snapshots: a statement
that waited for a lock, and one in an open transaction of any isolation, see the time as it is, as they
would with clock_timestamp(); a row's value would be as old as the snapshot that reads it. And it
outlives a crash of the server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import psycopg

from duly.engine.manual_clock import START_US, ManualClock

if TYPE_CHECKING:
    from datetime import timedelta

MAKE_CLOCK = """
CREATE SCHEMA IF NOT EXISTS duly_testing;
CREATE SEQUENCE IF NOT EXISTS duly_testing.clock MINVALUE -9223372036854775808;
CREATE OR REPLACE FUNCTION duly.now_us() RETURNS int8 LANGUAGE sql VOLATILE
    AS 'SELECT last_value FROM duly_testing.clock'"""


def install_clock(url: str) -> None:
    """Let a database that holds the schema `duly` read the time from a clock that is set by hand."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(MAKE_CLOCK)
        connection.execute("SELECT setval('duly_testing.clock', %s)", [START_US])


class DatabaseClock(ManualClock):
    """A clock that stands still until it is moved, and so does the database's."""

    def __init__(
        self, url: str, now_us: int = START_US, line: psycopg.Connection[Any] | None = None
    ) -> None:
        super().__init__(now_us)
        self._url = url
        self.line = line
        """What the database is told the time on: somebody else's as long as it holds."""
        self._tell()

    def advance(self, duration: int | str | timedelta) -> None:
        """Let time pass on both clocks and in the database."""
        super().advance(duration)
        self._tell()

    def set(self, now_us: int) -> None:
        """Step the wall clock and the database's; no time passes by it."""
        super().set(now_us)
        self._tell()

    def close(self) -> None:
        """Disconnect; the database's clock stands still."""
        if self.line is not None:
            self.line.close()
        self.line = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _tell(self) -> None:
        """Write the time, on a new connection if a test has cut the last one."""
        for attempt in range(2):
            try:
                if self.line is None:
                    self.line = psycopg.connect(self._url, autocommit=True)
                self.line.execute("SELECT setval('duly_testing.clock', %s)", [self.now_us()])
            except psycopg.OperationalError:
                self.close()
                if attempt:
                    raise
            else:
                return
