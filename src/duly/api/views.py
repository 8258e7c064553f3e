"""What a console prints: the views that an application answers with, by name, for signatures."""

from __future__ import annotations

from duly.client.attempt_view import Attempt, Line, Step
from duly.client.explaining import RunExplanation
from duly.client.health import Finding, Health
from duly.client.history import HistoryEntry
from duly.client.status_view import MemberStatus, Status
from duly.clock import Clock
from duly.domain.access import Principal
from duly.domain.time_texts import units_text
from duly.domain.timetable.combined import zone_of

__all__ = [
    "Attempt",
    "Clock",
    "Finding",
    "Health",
    "HistoryEntry",
    "Line",
    "MemberStatus",
    "Principal",
    "RunExplanation",
    "Status",
    "Step",
    "units_text",
    "zone_of",
]
