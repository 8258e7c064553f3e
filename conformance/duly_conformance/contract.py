"""The contract as one class, and the clock that its tests turn."""

from __future__ import annotations

import pytest

from duly.engine.manual_clock import ManualClock
from duly_conformance.access import FrozenSets, KeptAnswers, Sessions, Tenancy, Tokens
from duly_conformance.alerts import AlertsOnRecord, AlertTerms, Deliveries, FindingTrouble, Watching
from duly_conformance.attempts import (
    Breathing,
    Ending,
    EndingAndTaking,
    FinishingWithin,
    LateCompletions,
    Reporting,
    WakingWorkers,
)
from duly_conformance.audit import FollowingTheTrail, Sealing
from duly_conformance.backfills import Backfilling, BackfillOrders
from duly_conformance.claiming import Claiming, FairShares, Order, ReservedLanes, TakingOutOfService
from duly_conformance.effects import (
    CheckingResults,
    Doubt,
    PermittingEffects,
    Reruns,
    SettlingDoubt,
)
from duly_conformance.enqueue import AddingMany, AddingRuns, MovingAndCancelling
from duly_conformance.firing import (
    FiringLate,
    FiringSchedules,
    MixedBatches,
    NoLongerAsBelieved,
    OnTimeAndLate,
)
from duly_conformance.leases import ArrivalsFeed, Fencing, Leases, Loading, Membership, Waking
from duly_conformance.limits import Caps, Rates, SayingLimits
from duly_conformance.misfires import DrainingOwed
from duly_conformance.operations import CancellingRuns, DeadLetters, Queues
from duly_conformance.overlap import (
    BackfilledLines,
    FollowingUp,
    ForgettingLines,
    OverlapByHand,
    OverlapInCatchUp,
    Overlapping,
    RerunsAtGates,
    ScopeOfRuns,
)
from duly_conformance.quotas import BoundedOrders, BoundedSchedules, Breakers
from duly_conformance.reading import (
    CountingWork,
    ForgettingWork,
    ReadingAttempts,
    ReadingRuns,
    ReadingSchedules,
    SearchingAttempts,
    SearchingAudit,
    SearchingRuns,
    StatusOnOneScreen,
    Surveying,
    Verdicts,
)
from duly_conformance.retries import FindingLost, RetryBudgets, RetryTimers, SettlingLost
from duly_conformance.schedules import ChangingSchedules, CreatingSchedules, GoneOwners, Moving
from duly_conformance.storage import LentTransactions, Upkeep
from duly_conformance.vitals import (
    FindingMissing,
    ReadingLastEnds,
    ReadingRunTimes,
    ReadingRunVitals,
    Retaining,
)


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
