"""What a console prints: the views that an application answers with, by name, for signatures."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from duly.app.demo_controls import DemoState
from duly.client.alert_view import Alert, AlertChannel, AlertRule, AlertSilence, ChannelTest
from duly.client.attempt_view import Attempt, Line, Step
from duly.client.backfill_view import Backfill, BackfillPlan, PlannedSlot
from duly.client.breakers import Breaker
from duly.client.doubt_view import Check, Effect, InboxItem
from duly.client.explaining import RunExplanation
from duly.client.frozen_sets import CONFIRMED_ABOVE, Frozen
from duly.client.health import LATE, Health
from duly.client.history import HistoryEntry, Occurrence
from duly.client.judging import Finding
from duly.client.missing import LookedFrom, MissingRun
from duly.client.owners import GoneOwner
from duly.client.proving import ProvenOccurrence
from duly.client.queues import Queue
from duly.client.reading import (
    read_jitter,
    read_name,
    read_overlap,
    read_owner,
    read_priority,
    read_queue,
)
from duly.client.status_view import MemberStatus, Status
from duly.client.vitals_view import ScheduleVitals, VitalSigns, WindowVitals
from duly.client.workers import QuarantinedHost
from duly.clock import Clock
from duly.domain.access import Principal
from duly.domain.alert_kinds import AlertKind, Severity
from duly.domain.presets import PRESETS, Preset
from duly.domain.runbooks import runbook_of
from duly.domain.schedules import TENANT_DEFAULT
from duly.domain.scope import Scope
from duly.domain.time_texts import clock_name, clock_name_and_offset, units_text
from duly.domain.timetable.combined import zone_of
from duly.domain.timetable.preview import Preview, PreviewedOccurrence
from duly.domain.typed_moments import moment_from
from duly.domain.vitals import LATE_BOUNDS_US, Lateness
from duly.wire.problems import Problem
from duly.wire.schedules import Rule

if TYPE_CHECKING:
    from duly.app import App

__all__ = [
    "CONFIRMED_ABOVE",
    "LATE",
    "LATE_BOUNDS_US",
    "PRESETS",
    "TENANT_DEFAULT",
    "Alert",
    "AlertChannel",
    "AlertKind",
    "AlertRule",
    "AlertSilence",
    "Attempt",
    "Backfill",
    "BackfillPlan",
    "Breaker",
    "ChannelTest",
    "Check",
    "Clock",
    "DemoState",
    "Effect",
    "Finding",
    "Frozen",
    "GoneOwner",
    "Health",
    "HistoryEntry",
    "InboxItem",
    "Lateness",
    "Line",
    "LookedFrom",
    "MemberStatus",
    "MissingRun",
    "Occurrence",
    "PlannedSlot",
    "Preset",
    "Preview",
    "PreviewedOccurrence",
    "Principal",
    "Problem",
    "ProvenOccurrence",
    "QuarantinedHost",
    "Queue",
    "Rule",
    "RunExplanation",
    "ScheduleVitals",
    "Scope",
    "Severity",
    "Status",
    "Step",
    "VitalSigns",
    "WindowVitals",
    "clock_name",
    "clock_name_and_offset",
    "moment_from",
    "read_jitter",
    "read_name",
    "read_overlap",
    "read_owner",
    "read_priority",
    "read_queue",
    "restorable_for",
    "runbook_of",
    "units_text",
    "zone_of",
]


def restorable_for(app: App) -> timedelta | None:
    """Return how long a deleted schedule can be restored, as this program is told; None for ever.

    The dispatchers remove it: they are told the same in the same way.
    """
    kept_us = app.retention.deleted_schedules_us
    return None if kept_us is None else timedelta(microseconds=kept_us)
