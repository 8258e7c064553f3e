"""What a console prints: the views that an application answers with, by name, for signatures."""

from __future__ import annotations

from datetime import timedelta

from duly.client.attempt_view import Attempt, Line, Step
from duly.client.explaining import RunExplanation
from duly.client.health import Finding, Health
from duly.client.history import HistoryEntry, Occurrence
from duly.client.reading import (
    read_jitter,
    read_name,
    read_overlap,
    read_owner,
    read_priority,
    read_queue,
)
from duly.client.status_view import MemberStatus, Status
from duly.clock import Clock
from duly.domain.access import Principal
from duly.domain.presets import PRESETS, Preset
from duly.domain.time_texts import units_text
from duly.domain.timetable.combined import zone_of
from duly.domain.timetable.preview import Preview, PreviewedOccurrence
from duly.engine.settings import RETENTION_DEFAULT
from duly.wire.schedules import Rule

__all__ = [
    "PRESETS",
    "RESTORABLE",
    "Attempt",
    "Clock",
    "Finding",
    "Health",
    "HistoryEntry",
    "Line",
    "MemberStatus",
    "Occurrence",
    "Preset",
    "Preview",
    "PreviewedOccurrence",
    "Principal",
    "Rule",
    "RunExplanation",
    "Status",
    "Step",
    "read_jitter",
    "read_name",
    "read_overlap",
    "read_owner",
    "read_priority",
    "read_queue",
    "units_text",
    "zone_of",
]

RESTORABLE = timedelta(microseconds=RETENTION_DEFAULT.deleted_schedules_us or 0)
"""How long a deleted schedule can be restored, unless a dispatcher was told otherwise."""
