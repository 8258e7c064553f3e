"""The store that a campaign is played on, by its name on the command line."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.postgres.server import Server

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def store_url(store: str) -> Iterator[str | None]:
    """Yield the URL of a database of its own, durable as in production; None for SQLite's file."""
    if store == "sqlite":
        yield None
        return
    with Server.boot({}, durable=True) as server:
        url = server.create_database()
        yield url
        server.drop_database(url)
