"""Promises in PostgreSQL: the store for a fleet of dispatchers on many hosts."""

from duly.store.postgres.connection import PostgresSettings
from duly.store.postgres.store import PostgresStore

__all__ = ["PostgresSettings", "PostgresStore"]
