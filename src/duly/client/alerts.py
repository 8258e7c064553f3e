"""Alerts in a program's hands: what is wrong, who was told, and what people say about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from duly.client.alert_view import (
    AlertChannel,
    AlertRule,
    AlertSilence,
    ChannelTest,
    alert_view,
    channel_view,
    rule_view,
    silence_view,
)
from duly.client.caller import joins
from duly.client.parameters import (
    check_reachable,
    one_or_several,
    read_choice,
    read_choices,
    read_delay,
    read_instant,
    read_limit,
    read_tenant,
    require_reason,
)
from duly.domain.alert_channels import ChannelConfig, read_channel
from duly.domain.alert_rules import AlertKind, Rulebook, read_rule, rule_from_json
from duly.domain.alerts import SUBJECT_LENGTH_MAX, AlertId, AlertState
from duly.domain.ids import identity_text, read_identity, schedule_id
from duly.errors import Conflict, NotFound, Outdated, UsageError, read_text
from duly.store.alert_rulings import version_of
from duly.store.ports.alerts import (
    LISTED_MAX,
    UNSAID,
    AcknowledgeAlert,
    AlertFilter,
    AlertSettingKind,
    RemoveTerm,
    SetAlertSetting,
)
from duly.timetable.instants import DAY, SECOND_US

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duly.client.alert_view import Alert
    from duly.client.caller import Caller
    from duly.client.parameters import Delay, Instant
    from duly.domain.alert_rules import Rule
    from duly.store.ports.alerts import AlertSettingRecord

ALL = "all"
LOG = ChannelConfig(name="log", kind="log", options={})
"""The channel that there is unless somebody says what else goes by its name."""
SILENCE_MAX_US = 366 * DAY * SECOND_US
_DRAW_BYTES = 10
_LIST = "list them with app.alerts.list(state='all')"
TryChannel = Callable[[ChannelConfig, UUID], tuple[bool, str]]

# A class that has a method `list` can't name the type below it.
ListedAlerts = list["Alert"]
ListedRules = list[AlertRule]
ListedChannels = list[AlertChannel]
ListedSilences = list[AlertSilence]


class Because(NamedTuple):
    """Why something is taken back, and which word of it; None for whatever there is."""

    reason: str | None
    version: int | None


class Alerts:
    """The alerts of a store; to a tenant's caller, its own."""

    def __init__(self, caller: Caller, try_channel: TryChannel) -> None:
        self._caller = caller
        self._try_channel = try_channel

    def list(
        self,
        *,
        state: str | Sequence[str] = "open",
        kind: str | None = None,
        before: UUID | str | None = None,
        limit: int = 100,
    ) -> ListedAlerts:
        """Return alerts, newest first: those that are open, of a `state`, or with "all" every one.

        To an operator those of every tenant, and of what tenants share. A list that was cut short
        goes on `before` the last alert of it.
        """
        is_any = ALL in one_or_several(state)
        states = None if is_any else read_choices("state", state, AlertState)
        command = AlertFilter(
            tenant=self._own(),
            states=states,
            kind=None if kind is None else read_choice("kind", kind, AlertKind),
            before_id=None if before is None else AlertId(read_identity(before, "alert")),
            limit=read_limit(limit, LISTED_MAX),
        )
        return [alert_view(one) for one in self._caller.store.list_alerts(command)]

    def get(self, alert: UUID | str) -> Alert:
        """Return an alert with its deliveries."""
        identity = AlertId(read_identity(alert, "alert"))
        record = self._caller.store.get_alert(identity, self._own())
        if record is None or self._own() not in {None, record.tenant}:
            raise NotFound("alert", identity_text(identity), _LIST)
        return alert_view(record, self._caller.store.list_deliveries(identity))

    @joins
    def acknowledge(
        self, alert: UUID | str, *, reason: str, connection: object | None = None
    ) -> Alert:
        """Take note of an alert, so that others know that somebody looks after it."""
        require_reason(reason)
        order = AcknowledgeAlert(
            id=AlertId(read_identity(alert, "alert")),
            tenant=self._own(),
            actor=self._caller.ordering(reason),
        )
        return alert_view(self._caller.store.acknowledge_alert(order))

    def silences(self) -> ListedSilences:
        """Return silences that are not over."""
        found = self._caller.store.list_alert_terms(AlertSettingKind.SILENCE)
        return [silence_view(one) for one in found if self._own() in {None, one.tenant}]

    @joins
    def silence(  # noqa: PLR0913 - each part of a silence is an argument
        self,
        *,
        reason: str,
        duration: Delay | None = None,
        until: Instant | None = None,
        kind: str | Sequence[str] | None = None,
        subject: str | None = None,
        tenant: str | None = None,
        id: UUID | None = None,  # noqa: A002 - the promised name
        connection: object | None = None,
    ) -> AlertSilence:
        """Tell nobody of such alerts, for a `duration` or `until` an instant; they are on record.

        A `subject` is one as alerts have it ("queue mail"), or ends with * ("schedule nightly-*").
        What is still open when it is over is told then. The same `id` given again is the same
        order.
        """
        whose = self._own() if tenant is None else self._named(tenant)
        kinds = [] if kind is None else sorted(read_choices("kind", kind, AlertKind))
        terms: dict[str, Any] = {"kinds": [str(one) for one in kinds]}
        terms["subject"] = None if subject is None else _read_subject(subject)
        caller = self._caller
        drawn = schedule_id(caller.clock.now_us(), caller.draws.draw(_DRAW_BYTES))
        order = SetAlertSetting(
            sort=AlertSettingKind.SILENCE,
            name=identity_text(drawn) if id is None else str(id),
            tenant=whose or "",
            terms=terms,
            until=self._until(duration, until),
            actor=caller.ordering(reason),
        )
        return silence_view(caller.store_of(whose or caller.tenant).set_alert_term(order))

    @joins
    def unsilence(
        self,
        silence: UUID | str,
        *,
        reason: str | None = None,
        version: int | None = None,
        connection: object | None = None,
    ) -> bool:
        """End a silence before its time; say whether there was one."""
        name = identity_text(read_identity(silence, "silence"))
        return self._remove(AlertSettingKind.SILENCE, name, Because(reason, version), self._own())

    def rules(self) -> ListedRules:
        """Return every rule by name: those that were set, and what is usual for the others."""
        self._caller.require_operator("look at rules of alerts")
        said = self._said(AlertSettingKind.RULE)
        return [rule_view(one, said.get(one.name)) for one in Rulebook(_rules(said)).rules()]

    @joins
    def set_rule(
        self,
        name: str,
        *,
        reason: str | None = None,
        version: int | None = None,
        connection: object | None = None,
        **terms: Any,  # noqa: ANN401 - as the domain reads them
    ) -> AlertRule:
        """Set a rule: the one of a kind by its name, or another of a `kind` for some subjects.

        Terms: kind, threshold (a number, or "5m" of seconds), hold_for, clear_for, severity (page,
        warn), channels, is_on, and about whom: tenant, schedule, task, queue. What is not given
        stays as it was, also when somebody else sets it at the same moment. With `version`, only if
        nobody was faster: Outdated if somebody was.
        """
        self._caller.require_operator("set rules of alerts")
        actor = self._caller.ordering(reason)
        for _ in range(self._caller.settings.decisions_max):
            said = self._said(AlertSettingKind.RULE)
            before = next((one for one in _rules(said) if one.name == name), None)
            rule = read_rule(name, terms, before)
            order = SetAlertSetting(
                sort=AlertSettingKind.RULE,
                name=rule.name,
                terms=rule.to_json(),
                actor=actor,
                version=version_of(said.get(name)) if version is None else read_version(version),
            )
            try:
                return rule_view(rule, self._caller.store.set_alert_term(order))
            except Outdated:
                if version is not None:
                    raise
        problem = "kept changing while this order was decided"
        raise Conflict("alert rule", name, problem, "look at it, then try again")

    @joins
    def remove_rule(
        self,
        name: str,
        *,
        reason: str | None = None,
        version: int | None = None,
        connection: object | None = None,
    ) -> bool:
        """Take back a rule that was set: what is usual holds again. Say whether there was one."""
        self._caller.require_operator("set rules of alerts")
        return self._remove(AlertSettingKind.RULE, name, Because(reason, version))

    def channels(self) -> ListedChannels:
        """Return where alerts go, by name."""
        self._caller.require_operator("look at channels of alerts")
        said = self._said(AlertSettingKind.CHANNEL)
        found = {LOG.name: channel_view(LOG.name, LOG.kind, {}, None)}
        for name, one in said.items():
            kind, options = str(one.terms.get("kind")), one.terms.get("options") or {}
            found[name] = channel_view(name, kind, options, one)
        return [found[name] for name in sorted(found)]

    @joins
    def add_channel(  # noqa: PLR0913 - each part of a channel is an argument
        self,
        name: str,
        kind: str,
        options: Mapping[str, Any] | None = None,
        *,
        reason: str | None = None,
        version: int | None = None,
        connection: object | None = None,
    ) -> AlertChannel:
        """Have alerts go somewhere else as well, in place of what was said under that name before.

        Secrets are given by reference: {"secret": "env:DULY_SECRET_HOOK"}. With `version`, only if
        nobody was faster.
        """
        self._caller.require_operator("set channels of alerts")
        config = read_channel(name, kind, {} if options is None else options)
        order = SetAlertSetting(
            sort=AlertSettingKind.CHANNEL,
            name=config.name,
            terms={"kind": config.kind, "options": dict(config.options)},
            actor=self._caller.ordering(reason),
            version=None if version is None else read_version(version),
        )
        said = self._caller.store.set_alert_term(order)
        return channel_view(config.name, config.kind, config.options, said)

    @joins
    def remove_channel(
        self,
        name: str,
        *,
        reason: str | None = None,
        version: int | None = None,
        connection: object | None = None,
    ) -> bool:
        """Have alerts go there no more; say whether there was such a channel."""
        self._caller.require_operator("set channels of alerts")
        return self._remove(AlertSettingKind.CHANNEL, name, Because(reason, version))

    def test_channel(self, name: str) -> ChannelTest:
        """Send a notice that is marked as a test, from here and at once; say how it went."""
        self._caller.require_operator("set channels of alerts")
        found = next((one for one in self.channels() if one.name == name), None)
        if found is None:
            raise NotFound("alert channel", name, "list them with app.alerts.channels()")
        config = read_channel(found.name, found.kind, found.options)
        drawn = self._caller.draws.draw(_DRAW_BYTES)
        notice = UUID(bytes=schedule_id(self._caller.clock.now_us(), drawn))
        is_done, detail = self._try_channel(config, notice)
        return ChannelTest(channel=name, is_done=is_done, detail=detail)

    def _own(self) -> str | None:
        """Return whose alerts the caller sees; None for all."""
        return self._caller.tenant if self._caller.is_confined else None

    def _named(self, tenant: str) -> str:
        """Return a tenant that the caller may speak about."""
        name = read_tenant(tenant)
        if name != self._caller.tenant:
            self._caller.require_operator("silence alerts of other tenants")
        return name

    def _until(self, duration: Delay | None, until: Instant | None) -> int:
        remedy = "give a duration such as '2h', or until='2026-04-03T02:00+02:00'"
        if (duration is None) == (until is None):
            raise UsageError("duration", duration, "is needed, or an instant: one of them", remedy)
        now = self._caller.store.now()
        if duration is not None:
            length = read_delay("duration", duration)
            check_reachable("duration", length, now)
            end = now + length
        else:
            end = read_instant("until", until)
        if not now < end <= now + SILENCE_MAX_US:
            given = duration if until is None else str(until)
            problem = "does not lie ahead, within a year"
            raise UsageError("duration" if until is None else "until", given, problem, remedy)
        return end

    def _said(self, sort: AlertSettingKind) -> dict[str, AlertSettingRecord]:
        return {one.name: one for one in self._caller.store.list_alert_terms(sort)}

    def _remove(
        self, sort: AlertSettingKind, name: str, because: Because, tenant: str | None = None
    ) -> bool:
        order = RemoveTerm(
            sort=sort,
            name=read_text(str(sort), name, SUBJECT_LENGTH_MAX),
            tenant=tenant,
            actor=self._caller.ordering(because.reason),
            version=None if because.version is None else read_version(because.version),
        )
        return self._caller.store.remove_alert_term(order)


def read_version(value: object) -> int:
    """Return a version that somebody saw, if it can be one."""
    if not isinstance(value, int) or isinstance(value, bool) or value < UNSAID:
        remedy = "give the version that you saw, or leave it out"
        raise UsageError("version", value, "is not a version", remedy)
    return value


def _rules(said: Mapping[str, AlertSettingRecord]) -> list[Rule]:
    return [rule_from_json(one.terms) for one in said.values()]


def _read_subject(value: object) -> str:
    text = read_text("subject", value, SUBJECT_LENGTH_MAX)
    if not text.strip() or not text.isprintable():
        remedy = "give one as duly alert list shows it, such as 'queue mail' or 'schedule *'"
        raise UsageError("subject", text, "is empty or not printable", remedy)
    return text
