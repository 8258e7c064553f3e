"""The contract as one class, and the clock that its tests turn."""

from __future__ import annotations

import pytest

from duly.testing.conformance.access import Sessions, Tokens
from duly.testing.conformance.adding_runs import AddingRuns
from duly.testing.conformance.alert_deliveries import AlertTerms, Deliveries
from duly.testing.conformance.alert_trouble import FindingTrouble
from duly.testing.conformance.alerts import AlertsOnRecord, Watching
from duly.testing.conformance.attempts import CountingWork, ForgettingWork, ReadingAttempts
from duly.testing.conformance.backfills import Backfilling, BackfillOrders
from duly.testing.conformance.breakers import Breakers
from duly.testing.conformance.breathing import Breathing, Reporting, WakingWorkers
from duly.testing.conformance.caps import Caps
from duly.testing.conformance.claiming import Claiming, Order
from duly.testing.conformance.delayed import MovingAndCancelling
from duly.testing.conformance.doubts import CheckingResults, Reruns, SettlingDoubt
from duly.testing.conformance.effects import Doubt, PermittingEffects
from duly.testing.conformance.fair_shares import FairShares, ReservedLanes
from duly.testing.conformance.fencing import Fencing
from duly.testing.conformance.finishing import Ending, EndingAndTaking, LateCompletions
from duly.testing.conformance.fired_runs import FiringLate, FiringSchedules
from duly.testing.conformance.firing import MixedBatches, NoLongerAsBelieved, OnTimeAndLate
from duly.testing.conformance.last_ends import ReadingLastEnds
from duly.testing.conformance.lines_of_runs import (
    BackfilledLines,
    FollowingUp,
    ForgettingLines,
    RerunsAtGates,
    ScopeOfRuns,
)
from duly.testing.conformance.loading import ArrivalsFeed, Loading, Waking
from duly.testing.conformance.many import AddingMany
from duly.testing.conformance.missing import FindingMissing
from duly.testing.conformance.moving import Moving
from duly.testing.conformance.operating import CancellingRuns, DeadLetters, Queues
from duly.testing.conformance.overlap_orders import OverlapByHand, OverlapInCatchUp
from duly.testing.conformance.overlapping import Overlapping
from duly.testing.conformance.owed import DrainingOwed
from duly.testing.conformance.owners import GoneOwners
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
from duly.testing.conformance.repeating import FrozenSets, KeptAnswers
from duly.testing.conformance.retention import Retaining
from duly.testing.conformance.retries import RetryBudgets, RetryTimers
from duly.testing.conformance.run_times import ReadingRunTimes
from duly.testing.conformance.run_vitals import ReadingRunVitals
from duly.testing.conformance.schedules import ChangingSchedules, CreatingSchedules
from duly.testing.conformance.sealing import Sealing
from duly.testing.conformance.searching import SearchingAttempts, SearchingAudit, SearchingRuns
from duly.testing.conformance.standing import TakingOutOfService
from duly.testing.conformance.surveys import Surveying
from duly.testing.conformance.tenancy import Tenancy
from duly.testing.conformance.trailing import FollowingTheTrail
from duly.testing.conformance.transactional import FinishingWithin
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
    GoneOwners,
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
    PermittingEffects,
    Doubt,
    SettlingDoubt,
    Reruns,
    CheckingResults,
    ScopeOfRuns,
    FollowingUp,
    ForgettingLines,
    BackfilledLines,
    RerunsAtGates,
    DrainingOwed,
    ReadingSchedules,
    ReadingRuns,
    ReadingRunTimes,
    ReadingLastEnds,
    ReadingRunVitals,
    FindingMissing,
    Surveying,
    SearchingRuns,
    SearchingAttempts,
    SearchingAudit,
    Verdicts,
    StatusOnOneScreen,
    Tenancy,
    FollowingTheTrail,
    Sealing,
    Retaining,
    LentTransactions,
    FinishingWithin,
    Upkeep,
    Moving,
    TakingOutOfService,
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
    Tokens,
    Sessions,
    KeptAnswers,
    FrozenSets,
    Watching,
    AlertsOnRecord,
    Deliveries,
    AlertTerms,
    FindingTrouble,
):
    """What every store must do. A backend passes all of it, or is not a backend."""

    @pytest.fixture
    def clock(self) -> ManualClock:
        """Return the clock that the backend builds its store on."""
        return ManualClock()
