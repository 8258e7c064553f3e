"""What a console prints: the views that an application answers with, by name, for signatures."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from duly.app.demo_controls import DemoState
from duly.client.alert_view import Alert, AlertChannel, AlertRule, AlertSilence, ChannelTest
from duly.client.arguments import read_json_map
from duly.client.attempt_view import Attempt, Line, Step
from duly.client.backfill_view import Backfill, BackfillPlan, PlannedSlot
from duly.client.doubt_view import Check, Effect, InboxItem
from duly.client.explanations import RunExplanation
from duly.client.limits import Breaker, GoneOwner, QuarantinedHost, Queue
from duly.client.parameters import (
    read_jitter,
    read_name,
    read_overlap,
    read_owner,
    read_priority,
    read_queue,
)
from duly.client.schedule_history import HistoryEntry, LookedFrom, MissingRun, Occurrence
from duly.client.selections import CONFIRMED_ABOVE, Frozen
from duly.client.status import LATE, Finding, Health, MemberStatus, Status
from duly.client.vitals import ProvenOccurrence
from duly.client.vitals_view import ScheduleVitals, VitalSigns, WindowVitals
from duly.clock import Clock
from duly.domain.alert_messages import runbook_of
from duly.domain.alert_rules import AlertKind, Severity
from duly.domain.auth import Principal
from duly.domain.policies import PRESETS, Preset
from duly.domain.schedules import TENANT_DEFAULT
from duly.domain.verification import Scope
from duly.domain.vitals import LATE_BOUNDS_US, Lateness
from duly.interface.problems import Problem
from duly.interface.schedules import Rule
from duly.timetable.combinators import zone_of
from duly.timetable.instants import clock_name, clock_name_and_offset, units_text
from duly.timetable.language.detect import moment_from
from duly.timetable.preview import Preview, PreviewedOccurrence

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
    "read_json_map",
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
