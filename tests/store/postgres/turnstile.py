"""Races on purpose: statements that are held in the middle, and threads that start at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier
from typing import TYPE_CHECKING, Any, Self
from unittest import mock

import psycopg

from duly.store.ports.dispatch import MemberKind
from duly.store.postgres import PostgresSettings, connection, firing
from tests.waiting import comes_true

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

    import pytest

    from duly.store.postgres import PostgresStore

LIMIT_S = 120.0
PATIENT = PostgresSettings(
    limit_us=int(LIMIT_S) * 1_000_000, dispatch_limit_us=int(LIMIT_S) * 1_000_000
)
"""A machine that is busy with other tests must not decide a race."""

# A lock that is tried again and again, and not waited for: no time-out of locks ends it.
MAKE_TURNSTILE = """
CREATE SCHEMA IF NOT EXISTS duly_testing;
CREATE FUNCTION duly_testing.pass_the_turnstile() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    WHILE NOT pg_try_advisory_xact_lock_shared(4711) LOOP PERFORM pg_sleep(0.002); END LOOP;
    RETURN coalesce(NEW, OLD);
END $$"""
PUT_TURNSTILE = """
CREATE TRIGGER turnstile BEFORE {} ON {} FOR EACH {}
    EXECUTE FUNCTION duly_testing.pass_the_turnstile()"""
AT_THE_TURNSTILE = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND wait_event = 'PgSleep'"""
BLOCKED = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock'"""
END_WHO_STANDS_AT_THE_TURNSTILE = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND wait_event = 'PgSleep'"""


class Watch:
    """A connection beside the store's: it holds rows and turnstiles, and sees who waits for them."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.line = psycopg.connect(url, autocommit=True)
        self._threads = ThreadPoolExecutor(12)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of everything, so that whoever waits goes on, and wait for all of them."""
        self.line.close()
        self._threads.shutdown()

    def put_turnstile(self, order: str, table: str, each: str = "STATEMENT") -> None:
        """Make every statement that gives such an order to a table pass a turnstile, and lock it.

        Or every row that is written so: a statement that writes none passes by.
        """
        self.line.execute(MAKE_TURNSTILE)
        self.line.execute(PUT_TURNSTILE.format(order, table, each).encode())
        self.line.execute("SELECT pg_advisory_lock(4711)")

    def open_turnstile(self) -> None:
        """Let go on whoever stands at the turnstile."""
        self.line.execute("SELECT pg_advisory_unlock(4711)")

    @contextmanager
    def holding(self, statement: str, values: list[object]) -> Iterator[psycopg.Connection[Any]]:
        """Leave a transaction open after a statement; it is rolled back unless committed."""
        with psycopg.connect(self.url) as held:
            held.execute(statement.encode(), values)
            yield held
            held.rollback()

    def start(self, call: Callable[[], Any]) -> Future[Any]:
        """Do something in a thread of its own."""
        return self._threads.submit(call)

    def at_once(self, *calls: Callable[[], Any], limit_s: float = LIMIT_S) -> list[Any]:
        """Do several things in threads that start at the same moment; raise what any raised."""
        barrier = Barrier(len(calls))

        def begin(call: Callable[[], Any]) -> Any:
            barrier.wait(limit_s)
            return call()

        futures = [self._threads.submit(begin, call) for call in calls]
        return [future.result(limit_s) for future in futures]

    def stands_at_the_turnstile(self) -> bool:
        """Wait until somebody does."""
        return self.stand_at_the_turnstile(1)

    def stand_at_the_turnstile(self, count: int) -> bool:
        """Wait until so many do."""
        return comes_true(lambda: self._count(AT_THE_TURNSTILE) >= count)

    def is_blocked(self) -> bool:
        """Wait until somebody waits for a lock."""
        return comes_true(lambda: self._count(BLOCKED) > 0)

    def is_blocked_unless(self, is_done: Callable[[], bool]) -> bool:
        """Wait until somebody waits for a lock, or has not had to."""
        return comes_true(lambda: is_done() or self._count(BLOCKED) > 0)

    def value(self, statement: str) -> Any:
        """Return what a statement says in one value."""
        row = self.line.execute(statement.encode()).fetchone()
        assert row is not None
        return row[0]

    def _count(self, statement: str) -> int:
        return int(self.value(statement))


@contextmanager
def patience() -> Iterator[None]:
    """Let nobody give up waiting for a lock: what decides is the order, and not the time."""
    with (
        replaced(connection, "BEGIN_WRITE", "'2s'", "'60s'"),
        replaced(connection, "BEGIN_WRITE", "'3s'", "'60s'"),
        replaced(firing, "FIRE_SCHEDULES", "100ms", "60s"),
        replaced(firing, "FIRE_DELAYED", "100ms", "60s"),
        replaced(firing, "FIRE_RETRIES", "100ms", "60s"),
        replaced(connection, "BEGIN_DISPATCH", "'500ms'", "'60s'"),
    ):
        yield


@contextmanager
def replaced(module: object, name: str, old: str, new: str) -> Iterator[None]:
    """Change a part of a statement for a while."""
    text = getattr(module, name)
    assert old in text, f"{name} has no {old}"
    with mock.patch.object(module, name, text.replace(old, new)):
        yield


def record_rings(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> list[MemberKind]:
    """Return a list that grows with each ring that a store asks for, in the thread that commits.

    NOTIFY is sent later by another thread, so its absence for a while would show nothing.
    """
    rings: list[MemberKind] = []
    bell = store._connections.bell  # noqa: SLF001 - known nowhere else
    ring = bell.ring

    def recorded(kind: MemberKind = MemberKind.DISPATCHER) -> None:
        rings.append(kind)
        ring(kind)

    monkeypatch.setattr(bell, "ring", recorded)
    return rings
