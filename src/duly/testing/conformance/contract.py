"""The contract as one class, and the clock that its tests turn."""

from __future__ import annotations

import pytest

from duly.testing.conformance.attempts import CountingWork, ForgettingWork, ReadingAttempts
from duly.testing.conformance.backfills import Backfilling, BackfillOrders
from duly.testing.conformance.breakers import Breakers
from duly.testing.conformance.breathing import Breathing, Reporting, WakingWorkers
from duly.testing.conformance.caps import Caps
from duly.testing.conformance.claiming import Claiming, Order
from duly.testing.conformance.delayed import AddingRuns, MovingAndCancelling
from duly.testing.conformance.fair_shares import FairShares, ReservedLanes
from duly.testing.conformance.fencing import Fencing
from duly.testing.conformance.finishing import Ending, EndingAndTaking, LateCompletions
from duly.testing.conformance.fired_runs import FiringLate, FiringSchedules
from duly.testing.conformance.firing import MixedBatches, NoLongerAsBelieved, OnTimeAndLate
from duly.testing.conformance.loading import ArrivalsFeed, Loading, Waking
from duly.testing.conformance.many import AddingMany
from duly.testing.conformance.operating import CancellingRuns, DeadLetters, Queues
from duly.testing.conformance.overlap_orders import OverlapByHand, OverlapInCatchUp
from duly.testing.conformance.overlapping import Overlapping
from duly.testing.conformance.owed import DrainingOwed
from duly.testing.conformance.ownership import Leases, Membership
from duly.testing.conformance.quotas import BoundedOrders, BoundedSchedules
from duly.testing.conformance.rates import Rates, SayingLimits
from duly.testing.conformance.reading import (
    ReadingRuns,
    ReadingSchedules,
    StatusOnOneScreen,
    Verdicts,
)
from duly.testing.conformance.reaping import FindingLost, SettlingLost
from duly.testing.conformance.retention import Retaining
from duly.testing.conformance.retries import RetryBudgets, RetryTimers
from duly.testing.conformance.run_times import ReadingRunTimes
from duly.testing.conformance.schedules import ChangingSchedules, CreatingSchedules
from duly.testing.conformance.transactions import LentTransactions
from duly.testing.conformance.upkeep import Upkeep
from duly.testing.manual_clock import ManualClock


class StoreContract(
    CreatingSchedules,
    ChangingSchedules,
    AddingRuns,
    AddingMany,
    MovingAndCancelling,
    BoundedSchedules,
    BoundedOrders,
    Membership,
    Leases,
    Loading,
    ArrivalsFeed,
    Waking,
    OnTimeAndLate,
    NoLongerAsBelieved,
    MixedBatches,
    Fencing,
    FiringSchedules,
    FiringLate,
    Overlapping,
    OverlapByHand,
    OverlapInCatchUp,
    Backfilling,
    BackfillOrders,
    DrainingOwed,
    ReadingSchedules,
    ReadingRuns,
    ReadingRunTimes,
    Verdicts,
    StatusOnOneScreen,
    Retaining,
    LentTransactions,
    Upkeep,
    Claiming,
    Order,
    FairShares,
    ReservedLanes,
    Breathing,
    Reporting,
    WakingWorkers,
    Ending,
    EndingAndTaking,
    LateCompletions,
    RetryTimers,
    RetryBudgets,
    FindingLost,
    SettlingLost,
    CancellingRuns,
    DeadLetters,
    Queues,
    ReadingAttempts,
    CountingWork,
    ForgettingWork,
    Caps,
    Rates,
    Breakers,
    SayingLimits,
):
    """What every store must do. A backend passes all of it, or is not a backend."""

    @pytest.fixture
    def clock(self) -> ManualClock:
        """Return the clock that the backend builds its store on."""
        return ManualClock()
