"""The store: all ports together. Memory, SQLite and any later database are one of these."""

from __future__ import annotations

from typing import Protocol

from duly.store.admission import LimitingStore
from duly.store.backfilling import BackfillStore
from duly.store.dispatch import DispatchStore, MaintenanceStore
from duly.store.execution import ExecutionStore
from duly.store.operating import OperatingStore
from duly.store.planning import PlanningStore
from duly.store.quotas import QuotaStore
from duly.store.reading import ReadingStore
from duly.store.schema import SchemaStore


class Store(
    PlanningStore,
    DispatchStore,
    MaintenanceStore,
    ExecutionStore,
    OperatingStore,
    BackfillStore,
    LimitingStore,
    QuotaStore,
    ReadingStore,
    SchemaStore,
    Protocol,
):
    """A durable store. Its methods may be called from several threads."""

    name: str
    """How messages call it: `sqlite:///promises.db`, `memory`."""

    def close(self) -> None:
        """Let go of files and connections; whatever was committed stays."""
        ...
