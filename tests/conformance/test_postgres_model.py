"""Memory is the model of PostgreSQL, too: the same answers to any sequence of orders."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from duly.store.ports.maintenance import Pruned, PruneKind
from duly.store.postgres import PostgresStore
from duly.store.postgres.claiming import Aim
from tests.conformance.test_model import SHARDS, SameAnswers
from tests.conformance.test_model_of_effects import SameEffects
from tests.conformance.test_model_of_limits import SameLimits
from tests.postgres.database_clock import DatabaseClock, install_clock

if TYPE_CHECKING:
    from duly.clock import Clock
    from duly.engine.manual_clock import ManualClock
    from duly.store.ports import Store
    from duly.store.ports.dispatch import Timer
    from duly.store.ports.execution import ClaimRuns
    from duly_conformance.kit import Snapshot
    from tests.postgres.server import Databases

MODEL_SETTINGS = settings(
    max_examples=3,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
EFFECTS_SETTINGS = settings(MODEL_SETTINGS, stateful_step_count=30)
LIMITS_SETTINGS = settings(MODEL_SETTINGS, max_examples=2, stateful_step_count=30)


def with_schema(url: str) -> None:
    """Make the schema, with a clock that is set by hand."""
    store = PostgresStore(url, shards=SHARDS)
    store.now()
    store.close()
    install_clock(url)


class SharingAim(Aim):
    """Lets tenants have their shares at once, where the store may wait for a second full claim."""

    def __init__(self, clock: Clock, url: str) -> None:
        super().__init__(clock)
        self._url = url

    def leaf(self, command: ClaimRuns) -> int | None:
        return None if self._are_several() else super().leaf(command)

    def looks_for_shares(self, command: ClaimRuns) -> bool:
        return self._are_several() or super().looks_for_shares(command)

    def _are_several(self) -> bool:
        with psycopg.connect(self._url) as line:
            found = line.execute("SELECT count(DISTINCT tenant) > 1 FROM duly.ready").fetchone()
        return found == (True,)


class SameAnswersOnPostgres(SameAnswers):
    """Memory and PostgreSQL, one clock, the same orders."""

    def __init__(self, databases: Databases) -> None:
        super().__init__()
        self._databases = databases

    def open_other(self) -> tuple[ManualClock, Store]:
        self._url = self._databases.create_database(self._databases.prepared(with_schema))
        clock = DatabaseClock(self._url)
        store = PostgresStore(self._url, clock)
        store._connections.aim = SharingAim(clock, self._url)  # noqa: SLF001 - as the model shares
        return clock, store

    def comparable(self, answer: Any) -> Any:
        """Leave out how many announcements went: here they go by whole leaves, when one is full."""
        kind, value = answer
        if isinstance(value, Pruned):
            counts = {**value.counts, PruneKind.ARRIVALS: 0}
            return kind, Pruned(counts, has_more=False)
        return super().comparable(answer)

    def compare_timers(self, model: set[Timer], actual: set[Timer]) -> None:
        """Require that the same was announced, or more: whatever a caller commits himself."""
        assert model <= actual

    def before_pruning(self) -> None:
        """Hear of all that was announced: what of it is forgotten now is the store's own affair."""
        self._hear()

    def read(self, store: Store) -> Snapshot:
        """Return all that can be read; of numbers on the trail, the order that they mean.

        A transaction that is undone leaves a gap in PostgreSQL's numbers.
        """
        found = super().read(store)
        trail = [replace(entry, number=0) for entry in found.audit]
        return replace(found, audit=tuple(trail))

    def remove_other(self) -> None:
        assert isinstance(self.clock, DatabaseClock)
        self.clock.close()
        self._databases.drop_database(self._url)


@pytest.mark.timeout(300)
def test_postgres_gives_the_answers_that_memory_gives(postgres_server):
    def machine() -> SameAnswersOnPostgres:
        return SameAnswersOnPostgres(postgres_server)

    run_state_machine_as_test(machine, settings=MODEL_SETTINGS)  # type: ignore[arg-type]


class SameLimitsOnPostgres(SameAnswersOnPostgres, SameLimits):
    """The same, and of all rules those that runs begin and end by."""


@pytest.mark.timeout(300)
def test_postgres_gives_the_answers_about_limits_that_memory_gives(postgres_server):
    def machine() -> SameLimitsOnPostgres:
        return SameLimitsOnPostgres(postgres_server)

    run_state_machine_as_test(machine, settings=LIMITS_SETTINGS)  # type: ignore[arg-type]


class SameEffectsOnPostgres(SameAnswersOnPostgres, SameEffects):
    """The same, and of all rules those that doubt comes of and is settled by."""


@pytest.mark.timeout(300)
def test_postgres_gives_the_answers_about_effects_that_memory_gives(postgres_server):
    def machine() -> SameEffectsOnPostgres:
        return SameEffectsOnPostgres(postgres_server)

    run_state_machine_as_test(machine, settings=EFFECTS_SETTINGS)  # type: ignore[arg-type]
