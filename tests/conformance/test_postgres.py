"""The PostgreSQL store keeps the contract."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from duly.store.postgres import PostgresStore
from duly_conformance import StoreContract
from duly_conformance.attempts import Breathing
from duly_conformance.claiming import Claiming, FairShares, Order, ReservedLanes, TakingOutOfService
from duly_conformance.operations import Queues
from tests.postgres.reused_databases import with_schema

if TYPE_CHECKING:
    from duly.store.ports.execution import Claimed, ClaimRuns


@pytest.fixture(scope="session")
def databases(reused):
    """Databases that are emptied between tests."""
    return reused(with_schema)


class OnPostgres:
    kind = PostgresStore
    begins_with_a_hint = True

    @pytest.fixture
    def lent(self, databases):
        taken = databases.take()
        yield taken
        databases.give_back(taken)

    @pytest.fixture
    def clock(self, lent):
        with lent.clock() as clock:
            yield clock

    @pytest.fixture
    def store(self, lent, clock):
        with lent.store(clock, self.kind) as opened:
            yield opened


class TestPostgres(OnPostgres, StoreContract):
    placeholder = "%s"


class AskedAhead(PostgresStore):
    """Claims by an order and a wait, as a worker does in a crowd."""

    def claim_runs(self, command: ClaimRuns) -> Claimed:
        """Order it, and wait for the answer."""
        return self.begin_claim(command)()


class TestPostgresAskedAhead(
    OnPostgres,
    Claiming,
    Order,
    FairShares,
    ReservedLanes,
    Breathing,
    Queues,
    TakingOutOfService,
):
    """What the contract says of claims holds for those that are waited for later, too."""

    kind = AskedAhead
