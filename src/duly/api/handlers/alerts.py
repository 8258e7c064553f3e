"""Alerts over HTTP: what is wrong, who was told, and what people say about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly.api.handlers.parts import given, look, order, whole
from duly.api.route import ApiResponse
from duly.interface.alerts import (
    Alert,
    AlertChannel,
    AlertRule,
    AlertsAsked,
    AlertSilence,
    ChannelTest,
    SetAlertChannel,
    SetAlertRule,
    SilenceAlerts,
)
from duly.interface.limits import Removal, Removed
from duly.interface.runs import Justified
from duly.interface.shapes import Page

if TYPE_CHECKING:
    from duly.api.route import ApiRequest, Route


def list_alerts(received: ApiRequest) -> Page[Alert]:
    """Return alerts, newest first: those that are open, unless another state is asked for."""
    return whole(Alert, received.app.alerts.list(**given(received.query)))


def get_alert(received: ApiRequest) -> Alert:
    """Return an alert with its deliveries."""
    return Alert.from_view(received.app.alerts.get(received.path["alert"]))


def acknowledge_alert(received: ApiRequest) -> Alert:
    """Take note of an alert, so that others know that somebody looks after it."""
    reason = received.body.reason
    return Alert.from_view(received.app.alerts.acknowledge(received.path["alert"], reason=reason))


def list_alert_silences(received: ApiRequest) -> Page[AlertSilence]:
    """Return silences that are not over."""
    return whole(AlertSilence, received.app.alerts.silences())


def silence_alerts(received: ApiRequest) -> ApiResponse:
    """Tell nobody of such alerts for a while; they are on record all the same."""
    made = received.app.alerts.silence(**given(received.body), id=received.order_id())
    return ApiResponse(value=AlertSilence.from_view(made), version=made.version)


def unsilence_alerts(received: ApiRequest) -> Removed:
    """End a silence before its time."""
    done = received.app.alerts.unsilence(received.path["silence"], **_removal(received))
    return Removed(is_removed=done)


def list_alert_rules(received: ApiRequest) -> Page[AlertRule]:
    """Return every rule by name: those that were set, and what is usual for the others."""
    return whole(AlertRule, received.app.alerts.rules())


def set_alert_rule(received: ApiRequest) -> ApiResponse:
    """Set a rule; what is not given stays."""
    terms = {**given(received.body), "version": received.version}
    made = received.app.alerts.set_rule(received.path["rule"], **terms)
    return ApiResponse(value=AlertRule.from_view(made), version=made.version)


def remove_alert_rule(received: ApiRequest) -> Removed:
    """Take back a rule that was set: what is usual holds again."""
    done = received.app.alerts.remove_rule(received.path["rule"], **_removal(received))
    return Removed(is_removed=done)


def list_alert_channels(received: ApiRequest) -> Page[AlertChannel]:
    """Return where alerts go, by name."""
    return whole(AlertChannel, received.app.alerts.channels())


def set_alert_channel(received: ApiRequest) -> ApiResponse:
    """Have alerts go somewhere, in place of what was said under that name before."""
    terms = {**given(received.body), "version": received.version}
    made = received.app.alerts.add_channel(received.path["channel"], **terms)
    return ApiResponse(value=AlertChannel.from_view(made), version=made.version)


def remove_alert_channel(received: ApiRequest) -> Removed:
    """Have alerts go there no more."""
    done = received.app.alerts.remove_channel(received.path["channel"], **_removal(received))
    return Removed(is_removed=done)


def try_alert_channel(received: ApiRequest) -> ChannelTest:
    """Send a notice that is marked as a test, from the server and at once."""
    return ChannelTest.from_view(received.app.alerts.test_channel(received.path["channel"]))


def _removal(received: ApiRequest) -> dict[str, Any]:
    return {**given(received.query), "version": received.version}


_RULE, _CHANNEL = "/alerts/rules/{rule}", "/alerts/channels/{channel}"
_SILENCES = "/alerts/silences"
_SET = {"method": "PUT", "scope": "admin", "has_version": True}
_REMOVAL = {"method": "DELETE", "query": Removal, "has_version": True}
ROUTES: tuple[Route, ...] = (
    look("/alerts", list_alerts, Page[Alert], AlertsAsked),
    look("/alerts/{alert}", get_alert, Alert),
    order("/alerts/{alert}/acknowledge", acknowledge_alert, Justified, Alert),
    look(_SILENCES, list_alert_silences, Page[AlertSilence]),
    order(_SILENCES, silence_alerts, SilenceAlerts, AlertSilence, status=201),
    order(f"{_SILENCES}/{{silence}}", unsilence_alerts, None, Removed, **_REMOVAL),
    look("/alerts/rules", list_alert_rules, Page[AlertRule]),
    order(_RULE, set_alert_rule, SetAlertRule, AlertRule, **_SET),
    order(_RULE, remove_alert_rule, None, Removed, scope="admin", **_REMOVAL),
    look("/alerts/channels", list_alert_channels, Page[AlertChannel]),
    order(_CHANNEL, set_alert_channel, SetAlertChannel, AlertChannel, **_SET),
    order(_CHANNEL, remove_alert_channel, None, Removed, scope="admin", **_REMOVAL),
    order(
        f"{_CHANNEL}/test",
        try_alert_channel,
        None,
        ChannelTest,
        scope="admin",
        is_once_only=True,
    ),
)
