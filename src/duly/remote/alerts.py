"""Alerts of a server: what is wrong, who was told, and what people say about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
from duly.remote.operation import DELETE, PUT, look, order
from duly.remote.transport import said

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from duly.remote.transport import Delay, Instant, Transport

ALERT, RULE = "/alerts/{alert}", "/alerts/rules/{rule}"
CHANNEL, SILENCE = "/alerts/channels/{channel}", "/alerts/silences/{silence}"
LIST = look("list_alerts", "/alerts", Page[Alert])
GET = look("get_alert", ALERT, Alert)
ACKNOWLEDGE = order("acknowledge_alert", f"{ALERT}/acknowledge", Alert)
LIST_SILENCES = look("list_alert_silences", "/alerts/silences", Page[AlertSilence])
SILENCE_ALERTS = order("silence_alerts", "/alerts/silences", AlertSilence)
UNSILENCE = order("unsilence_alerts", SILENCE, Removed, method=DELETE, is_keyed=False)
LIST_RULES = look("list_alert_rules", "/alerts/rules", Page[AlertRule])
SET_RULE = order("set_alert_rule", RULE, AlertRule, method=PUT, is_keyed=False)
REMOVE_RULE = order("remove_alert_rule", RULE, Removed, method=DELETE, is_keyed=False)
LIST_CHANNELS = look("list_alert_channels", "/alerts/channels", Page[AlertChannel])
SET_CHANNEL = order("set_alert_channel", CHANNEL, AlertChannel, method=PUT, is_keyed=False)
REMOVE_CHANNEL = order("remove_alert_channel", CHANNEL, Removed, method=DELETE, is_keyed=False)
TEST_CHANNEL = order("try_alert_channel", f"{CHANNEL}/test", ChannelTest)
# A class that has a method `list` can't name the type below it.
Rules = list[AlertRule]
Channels = list[AlertChannel]
Silences = list[AlertSilence]


class Alerts:
    """Alerts of a server; with a token of one tenant, its own."""

    def __init__(self, asking: Transport) -> None:
        self._asking = asking

    def list(
        self,
        *,
        state: str | Sequence[str] | None = None,
        kind: str | None = None,
        before: UUID | str | None = None,
        limit: int | None = None,
    ) -> list[Alert]:
        """Return alerts, newest first: those that are open, of a `state`, or "all"."""
        last = None if before is None else str(before)
        query = said(AlertsAsked, state=state, kind=kind, before=last, limit=limit)
        return self._asking.items(LIST, query=query)

    def get(self, alert: UUID | str) -> Alert:
        """Return an alert with its deliveries."""
        return self._asking.ask(GET, alert)

    def acknowledge(self, alert: UUID | str, *, reason: str) -> Alert:
        """Take note of an alert, so that others know that somebody looks after it."""
        return self._asking.ask(ACKNOWLEDGE, alert, body=said(Justified, reason=reason))

    def silences(self) -> Silences:
        """Return silences that are not over."""
        return self._asking.items(LIST_SILENCES)

    def silence(  # noqa: PLR0913 - each part of a silence is an argument
        self,
        *,
        reason: str,
        duration: Delay | None = None,
        until: Instant | None = None,
        kind: str | Sequence[str] | None = None,
        subject: str | None = None,
        tenant: str | None = None,
    ) -> AlertSilence:
        """Tell nobody of such alerts for a while; they are on record all the same."""
        kinds = [kind] if isinstance(kind, str) else kind
        body = said(
            SilenceAlerts,
            reason=reason,
            duration=duration,
            until=until,
            kind=None if kinds is None else list(kinds),
            subject=subject,
            tenant=tenant,
        )
        return self._asking.ask(SILENCE_ALERTS, body=body)

    def unsilence(
        self, silence: UUID | str, *, reason: str | None = None, version: int | None = None
    ) -> bool:
        """End a silence before its time; say whether there was one."""
        query = said(Removal, reason=reason)
        return self._asking.ask(UNSILENCE, silence, query=query, version=version).is_removed

    def rules(self) -> Rules:
        """Return every rule by name."""
        return self._asking.items(LIST_RULES)

    def set_rule(
        self,
        name: str,
        *,
        version: int | None = None,
        **terms: Any,  # noqa: ANN401 - as `SetAlertRule` has them
    ) -> AlertRule:
        """Set a rule; what is not given stays. Outdated if it is no longer at a `version`."""
        body = said(SetAlertRule, **terms)
        return self._asking.ask(SET_RULE, name, body=body, version=version)

    def remove_rule(
        self, name: str, *, reason: str | None = None, version: int | None = None
    ) -> bool:
        """Take back a rule that was set; say whether there was one."""
        query = said(Removal, reason=reason)
        return self._asking.ask(REMOVE_RULE, name, query=query, version=version).is_removed

    def channels(self) -> Channels:
        """Return where alerts go, by name."""
        return self._asking.items(LIST_CHANNELS)

    def add_channel(  # noqa: PLR0913 - each part of a channel is an argument
        self,
        name: str,
        kind: str,
        options: Mapping[str, Any] | None = None,
        *,
        reason: str | None = None,
        version: int | None = None,
    ) -> AlertChannel:
        """Have alerts go somewhere, in place of what was said under that name before.

        Outdated if that is no longer at a `version`.
        """
        told = None if options is None else dict(options)
        body = said(SetAlertChannel, kind=kind, options=told, reason=reason)
        return self._asking.ask(SET_CHANNEL, name, body=body, version=version)

    def remove_channel(
        self, name: str, *, reason: str | None = None, version: int | None = None
    ) -> bool:
        """Have alerts go there no more; say whether there was such a channel."""
        query = said(Removal, reason=reason)
        return self._asking.ask(REMOVE_CHANNEL, name, query=query, version=version).is_removed

    def test_channel(self, name: str) -> ChannelTest:
        """Send a notice that is marked as a test, from the server and at once."""
        return self._asking.ask(TEST_CHANNEL, name)
