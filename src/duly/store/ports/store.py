"""The store: all ports together. Memory, SQLite and any later database are one of these."""

from __future__ import annotations

from typing import Protocol

from duly.store.ports.alerts import AlertingStore
from duly.store.ports.audit import SealingStore, TrailingStore
from duly.store.ports.auth import AccessStore
from duly.store.ports.backfill import BackfillStore
from duly.store.ports.dispatch import DispatchStore
from duly.store.ports.effects import EffectsStore
from duly.store.ports.execution import ExecutionStore
from duly.store.ports.limits import LimitingStore
from duly.store.ports.maintenance import MaintenanceStore, SchemaStore
from duly.store.ports.operations import OperatingStore, OwnerStore, QuotaStore, StandingStore
from duly.store.ports.queries import ReadingStore, SearchStore, SurveyStore
from duly.store.ports.schedules import PlanningStore
from duly.store.ports.transfer import MovingStore


class Store(
    PlanningStore,
    DispatchStore,
    MaintenanceStore,
    ExecutionStore,
    OperatingStore,
    EffectsStore,
    BackfillStore,
    LimitingStore,
    QuotaStore,
    OwnerStore,
    AccessStore,
    ReadingStore,
    SearchStore,
    SurveyStore,
    TrailingStore,
    SealingStore,
    SchemaStore,
    StandingStore,
    MovingStore,
    AlertingStore,
    Protocol,
):
    """A durable store. Its methods may be called from several threads."""

    name: str
    """How messages call it: `sqlite:///promises.db`, `memory`."""

    def interrupt(self) -> None:
        """Break off what others read, and let nobody begin: the program is about to end.

        Each of them fails with StoreUnavailable. What is being written is left to end by itself, as
        it does within seconds. From any thread; `close` comes after it.
        """
        ...

    def close(self) -> None:
        """Let go of files and connections; whatever was committed stays."""
        ...
