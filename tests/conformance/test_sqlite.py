"""The SQLite store keeps the contract (SPEC D4)."""

from __future__ import annotations

import pytest

from duly.store.sqlite import SqliteStore
from duly.testing.conformance import StoreContract


class TestSqlite(StoreContract):
    has_open_transactions = False

    @pytest.fixture
    def store(self, clock, tmp_path):
        opened = SqliteStore(tmp_path / "duly.db", clock)
        yield opened
        opened.close()
