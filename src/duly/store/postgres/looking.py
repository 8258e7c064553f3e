"""A look at a database from outside: is there a store in it? Looking makes none."""

from __future__ import annotations

from duly.clock import SystemClock
from duly.store.postgres.connection import Connections, PostgresSettings
from duly.store.postgres.schema import has_schema


def has_store(url: str) -> bool:
    """Say whether the database of a URL holds a store, of whatever age."""
    connections = Connections(url, SystemClock(), PostgresSettings(), shards=1)
    try:
        with connections.read(is_any_age=True) as look:
            return has_schema(look.session)
    finally:
        connections.close()
