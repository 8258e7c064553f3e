"""The memory store keeps the contract."""

from __future__ import annotations

import pytest

from duly.store.memory import MemoryStore
from duly_conformance import StoreContract


class TestMemory(StoreContract):
    has_own_tables = False

    @pytest.fixture
    def store(self, clock):
        return MemoryStore(clock)
