"""The SQLite store keeps the contract, in a file and in memory."""

from __future__ import annotations

import pytest

from duly.store.sqlite import SqliteStore
from duly_conformance import StoreContract
from tests.store.sqlite.made_file import made_file


class TestSqlite(StoreContract):
    has_open_transactions = False

    @pytest.fixture
    def store(self, clock, tmp_path):
        opened = SqliteStore(made_file(tmp_path / "duly.db", clock), clock)
        yield opened
        opened.close()


@pytest.mark.thorough
class TestSqliteInMemory(StoreContract):
    has_open_transactions = False

    @pytest.fixture
    def store(self, clock):
        opened = SqliteStore(":memory:", clock)
        yield opened
        opened.close()
