"""Alerts: what is wrong, what was, and what nobody is told of; every filter in the address (V3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from duly.api.views import AlertKind
from duly_web.page import Asked, Page, Shown

if TYPE_CHECKING:
    from duly.api.views import Alert, AlertChannel, AlertSilence, ChannelTest

PAGE_SIZE = 50
STATES = ("open", "pending", "resolved", "all")
KINDS = tuple(str(one) for one in AlertKind)
DURATIONS = ("30m", "1h", "2h", "8h", "1d", "7d")
"""How long a silence is offered for; another one is said on the command line."""


class AlertsQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which alerts are looked at."""

    state: str = "open"
    kind: str | None = None
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """A thing of the console that an alert is about."""

    path: str
    query: dict[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertsModel:
    """The page."""

    query: AlertsQuery
    rows: tuple[Alert, ...]
    next_cursor: str | None
    states: tuple[str, ...] = STATES
    kinds: tuple[str, ...] = KINDS


@dataclass(frozen=True, slots=True, kw_only=True)
class SilencesModel:
    """What nobody is told of."""

    rows: tuple[AlertSilence, ...]
    kinds: tuple[str, ...] = KINDS
    durations: tuple[str, ...] = DURATIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelsModel:
    """Where alerts go: by name and kind; what opens them stays where it is."""

    rows: tuple[AlertChannel, ...]
    tried: ChannelTest | None = None
    """How the try of one of them went, if that was just ordered."""


def show_alerts(asked: Asked) -> Shown:
    """Show what is wrong, newest first."""
    query: AlertsQuery = asked.query
    found = asked.app.alerts.list(
        state=query.state, kind=query.kind, before=query.cursor, limit=PAGE_SIZE + 1
    )
    rows = tuple(found[:PAGE_SIZE])
    last = str(rows[-1].id) if len(found) > PAGE_SIZE else None
    model = AlertsModel(query=query, rows=rows, next_cursor=last)
    return Shown(template="alerts.html", model=model, title="Alerts")


def show_silences(asked: Asked) -> Shown:
    """Show what nobody is told of, and until when."""
    model = SilencesModel(rows=tuple(asked.app.alerts.silences()))
    return Shown(template="alert_silences.html", model=model, title="Silences")


def show_channels(asked: Asked) -> Shown:
    """Show where alerts go."""
    return channels_page(asked)


def channels_page(asked: Asked, tried: ChannelTest | None = None) -> Shown:
    """Return the page of channels, with how a try of one went."""
    model = ChannelsModel(rows=tuple(asked.app.alerts.channels()), tried=tried)
    return Shown(template="alert_channels.html", model=model, title="Channels of alerts")


def place_of(alert: Alert) -> Place | None:
    """Return where the console shows what an alert is about; None where it does not."""
    sort, _, name = alert.subject.partition(" ")
    query: dict[str, str | None] = {"tenant": alert.tenant}
    match sort:
        case "run":
            return Place(f"/runs/{name}", query)
        case "schedule":
            return Place("/schedules", {**query, "search": name})
        case "task":
            return Place("/runs", {**query, "task": name})
        case "queue":
            return Place("/runs", {"queue": name, "state": "queued"})
        case "dispatcher" | "destination":
            return Place("/fleet", {})
        case _:
            return None


PAGES = (
    Page(
        method="GET",
        path="/alerts",
        name="alerts",
        scope="read",
        handler=show_alerts,
        query=AlertsQuery,
    ),
    Page(
        method="GET",
        path="/alerts/silences",
        name="alert_silences",
        scope="read",
        handler=show_silences,
    ),
    Page(
        method="GET",
        path="/alerts/channels",
        name="alert_channels",
        scope="read",
        handler=show_channels,
    ),
)
