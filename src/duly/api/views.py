"""What a console prints: the views that an application answers with, by name, for signatures."""

from __future__ import annotations

from duly.client.attempt_view import Attempt, Line, Step
from duly.client.backfills import Backfill, BackfillPlan, PlannedSlot
from duly.client.breakers import Breaker
from duly.client.explaining import RunExplanation
from duly.client.health import Finding, Health
from duly.client.history import HistoryEntry, Occurrence
from duly.client.inbox import Check, Effect, InboxItem
from duly.client.queues import Queue
from duly.client.status_view import MemberStatus, Status
from duly.client.workers import QuarantinedHost
from duly.clock import Clock
from duly.domain.access import Principal
from duly.domain.time_texts import units_text
from duly.domain.timetable.combined import zone_of

__all__ = [
    "Attempt",
    "Backfill",
    "BackfillPlan",
    "Breaker",
    "Check",
    "Clock",
    "Effect",
    "Finding",
    "Health",
    "HistoryEntry",
    "InboxItem",
    "Line",
    "MemberStatus",
    "Occurrence",
    "PlannedSlot",
    "Principal",
    "QuarantinedHost",
    "Queue",
    "RunExplanation",
    "Status",
    "Step",
    "units_text",
    "zone_of",
]
