"""The store: all ports together. Memory, SQLite and any later database are one of these."""

from __future__ import annotations

from typing import Protocol

from duly.store.access import AccessStore
from duly.store.admission import LimitingStore
from duly.store.alerting import AlertingStore
from duly.store.backfilling import BackfillStore
from duly.store.dispatch import DispatchStore, MaintenanceStore
from duly.store.effects import EffectsStore
from duly.store.execution import ExecutionStore
from duly.store.moving import MovingStore
from duly.store.operating import OperatingStore
from duly.store.owners import OwnerStore
from duly.store.planning import PlanningStore
from duly.store.quotas import QuotaStore
from duly.store.reading import ReadingStore
from duly.store.schema import SchemaStore
from duly.store.sealing import SealingStore
from duly.store.searching import SearchStore
from duly.store.standing import StandingStore
from duly.store.surveys import SurveyStore
from duly.store.trailing import TrailingStore


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
