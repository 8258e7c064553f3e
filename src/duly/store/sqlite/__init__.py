"""The SQLite store: one file, nothing to install, safe for several processes of one host."""

from duly.store.sqlite.connection import SqliteSettings
from duly.store.sqlite.store import SqliteStore

__all__ = ["SqliteSettings", "SqliteStore"]
