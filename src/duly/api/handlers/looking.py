"""What anybody looks at: the state of everything, the audit trail, zones, and what a rule means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.api.events import is_of_all
from duly.api.handlers.parts import look
from duly.api.requests import read_count, read_limit, read_rule
from duly.app.doctor import examine
from duly.errors import Forbidden
from duly.interface import zones as wire
from duly.interface.audit import AuditAsked
from duly.interface.doctor import Diagnosis
from duly.interface.schedules import Entry, Preview, Rule
from duly.interface.shapes import Page
from duly.interface.status import Status, StatusAsked
from duly.timetable.instants import from_microseconds
from duly.timetable.zone_search import search_zones

if TYPE_CHECKING:
    from datetime import timedelta

    from duly.api.route import ApiRequest, Route
    from duly.timetable.zone_search import ZoneMatch


def get_status(received: ApiRequest) -> Status:
    """Show the state of everything on one screen."""
    asked: StatusAsked = received.query
    return Status.from_view(received.app.status(own=asked.own))


def get_diagnosis(received: ApiRequest) -> Diagnosis:
    """Say what is wrong with installation, store and fleet, and what to do about it."""
    if not received.principal.is_everywhere:
        problem = "may not look at the whole installation: that concerns every tenant"
        remedy = "ask an operator, or use a token of every tenant"
        raise Forbidden(received.principal.name, problem, remedy)
    return Diagnosis.from_view(examine(received.app))


def list_audit(received: ApiRequest) -> Page[Entry]:
    """Tell who did what, when, why and from where, newest first."""
    asked: AuditAsked = received.query
    is_whole = is_of_all(received)
    page = received.app.audit.page(
        subject=asked.subject,
        subject_id=asked.subject_id,
        action=asked.action,
        actor=asked.actor,
        since=asked.since,
        until=asked.until,
        all_tenants=is_whole,
        limit=read_limit(asked.limit),
        cursor=asked.cursor,
    )
    return Page(items=[Entry.from_view(one) for one in page.items], next_cursor=page.next_cursor)


def find_zones(received: ApiRequest) -> Page[wire.Zone]:
    """Find time zones by city, country, name, abbreviation or offset."""
    asked: wire.ZonesAsked = received.query
    now = from_microseconds(received.app.store.now())
    found = search_zones(asked.search, at=now, limit=asked.limit)
    return Page(items=[_zone(one) for one in found], next_cursor=None)


def explain_rule(received: ApiRequest) -> Preview:
    """Show what a rule means, when it fires next, and what clocks do to it."""
    asked: wire.RuleAsked = received.query
    rule = Rule(
        when=asked.when,
        tz=asked.tz,
        gap=asked.gap,
        fold=asked.fold,
        calendar=asked.calendar,
        dtstart=asked.dtstart,
    )
    timetable = read_rule(rule, asked.name)
    shown = received.app.schedules.preview(timetable, asked.after, read_count(asked.count))
    return Preview.from_view(shown)


def _zone(match: ZoneMatch) -> wire.Zone:
    return wire.Zone(
        zone=match.key,
        city=match.city,
        countries=list(match.countries),
        group=match.group,
        offset=_offset_text(match.offset),
        abbreviation=match.abbreviation,
        local_time=match.local_at.isoformat(),
        why=match.why,
    )


def _offset_text(offset: timedelta) -> str:
    seconds = int(offset.total_seconds())
    minutes, rest = divmod(abs(seconds), 60)
    text = f"{'-' if seconds < 0 else '+'}{minutes // 60:02}:{minutes % 60:02}"
    return f"{text}:{rest:02}" if rest else text


ROUTES: tuple[Route, ...] = (
    look("/status", get_status, Status, StatusAsked),
    look("/doctor", get_diagnosis, Diagnosis),
    look("/audit", list_audit, Page[Entry], AuditAsked),
    look("/zones", find_zones, Page[wire.Zone], wire.ZonesAsked),
    look("/next", explain_rule, Preview, wire.RuleAsked),
)
