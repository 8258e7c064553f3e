"""The alerting port: one watcher at a time, alerts on record, and durable deliveries.

The watch is a lease of its own. Its holder needs neither to fire nor to run anything, so that a
fleet without any dispatcher still raises alerts. Each write of a watcher carries its holder and
epoch, and is refused when another watcher holds the watch. An alert's change, its deliveries and
its audit entry are one transaction.

Alert settings (rules, channels, silences) are stored as operators gave them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from duly.timetable.instants import DAY, SECOND_US

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from duly.domain.alert_rules import AlertKind
    from duly.domain.alerts import (
        AlertChange,
        AlertId,
        AlertRecord,
        AlertState,
        DeliveryId,
        DeliveryOutcome,
        DeliveryRecord,
    )
    from duly.domain.audit import Actor
    from duly.domain.ids import RunId

WATCH_TTL_US = 60 * SECOND_US
"""Four looks: who misses so many is replaced."""
ALERTS_KEPT_US = 90 * DAY * SECOND_US
"""How long resolved ones are kept, and silences that are over."""
LISTED_MAX = 1000
TERMS_MAX = 1000
NOTES_LENGTH_MAX = 10_000
TRIED_MIN = 2
"""From so many attempts that were charged on, a run is found by how often it was tried."""


class WatcherFence(NamedTuple):
    """Who writes, and under which epoch of the watch."""

    holder: bytes
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RenewWatcherLease:
    """Take the watch, or go on holding it."""

    holder: bytes
    """Sixteen bytes that nobody else has drawn."""
    name: str
    """How people call the holder: its host and process."""
    ttl_us: int = WATCH_TTL_US
    notes: str | None = None
    """What the next one is to know, whoever it is; None leaves it as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """The store's answer: whether the watch is ours, and until when it is whose it is."""

    is_held: bool
    epoch: int
    now: int
    until: int
    holder: str
    """How people call whoever has it."""
    notes: str


class AlertSettingKind(StrEnum):
    """What people can say about alerts."""

    RULE = "rule"
    CHANNEL = "channel"
    SILENCE = "silence"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertSettingRecord:
    """What somebody has said."""

    sort: AlertSettingKind
    name: str
    tenant: str
    """Of a silence: whose alerts; empty for everybody's."""
    terms: Mapping[str, Any]
    until: int | None
    """Of a silence."""
    set_at: int
    """Later than whatever was said under that name before, however the clock goes."""
    set_by: str
    reason: str | None

    @property
    def version(self) -> int:
        """Which word it is: another one each time that somebody says something."""
        return self.set_at


UNSAID = 0
"""The version of what nobody has said anything about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAlertSetting:
    """Say something, in place of what was said under that name before."""

    sort: AlertSettingKind
    name: str
    tenant: str = ""
    terms: Mapping[str, Any]
    until: int | None = None
    actor: Actor
    is_new: bool = False
    """Whether nobody may have said anything under that name."""
    version: int | None = None
    """Only if what was said is still this; `UNSAID` if nothing is. None for whatever there is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveTerm:
    """Take back what was said."""

    sort: AlertSettingKind
    name: str
    tenant: str | None = None
    """Only if it is this tenant's; None for anybody's."""
    actor: Actor
    version: int | None = None
    """Only if what was said is still this; None for whatever there is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What a watcher decides upon, read together."""

    now: int
    alerts: tuple[AlertRecord, ...]
    """Pending and open."""
    terms: tuple[AlertSettingRecord, ...]
    """Without silences that are over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyAlerts:
    """Write what was decided in one look."""

    fence: WatcherFence
    held_at: int
    """When the look began: `Watch.now` of it. Who has held the watch again since looks anew."""
    changes: tuple[AlertChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertFilter:
    """Which alerts, newest first by id."""

    tenant: str | None = None
    """None for everybody's, and what all share."""
    states: frozenset[AlertState] | None = None
    kind: AlertKind | None = None
    before_id: AlertId | None = None
    limit: int = LISTED_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class AcknowledgeAlert:
    """Say that somebody has taken note."""

    id: AlertId
    tenant: str | None = None
    actor: Actor


class DueDelivery(NamedTuple):
    """A delivery that is to be tried, and the alert that it tells of."""

    delivery: DeliveryRecord
    alert: AlertRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class DueDeliveries:
    """Deliveries that are due, and when the next one is after them."""

    now: int
    due: tuple[DueDelivery, ...]
    next_at: int | None
    """Now, if more may be due than were asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettleDelivery:
    """Write what became of one try."""

    fence: WatcherFence
    id: DeliveryId
    tries: int
    """How often it had been tried before this one."""
    tried: DeliveryOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class FindTrouble:
    """Look for runs that are out of the ordinary, of all tenants."""

    died_us: int
    """Dead letters of so long."""
    early_us: int
    """Early fires of so long."""
    made_us: int
    """Promises made in so long."""
    limit: int = 50
    """So many of each sort."""
    count_max: int = 20_000
    """Nothing is counted beyond this."""


class TroubledRun(NamedTuple):
    """A run that is out of the ordinary."""

    id: RunId
    tenant: str
    task: str
    queue: str
    schedule: str | None
    worker: int | None
    attempt: int
    since: int
    """Of a stalled one: when it last advanced; of another: when it was first tried."""
    stall_us: int = 0


class NewlyDead(NamedTuple):
    """Dead letters of a task."""

    tenant: str
    task: str
    died: int
    first_at: int
    last: RunId


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusualRuns:
    """Runs that are out of the ordinary."""

    now: int
    stalled: tuple[TroubledRun, ...] = ()
    """Those that have not advanced within their task's limit, the longest first."""
    tried: tuple[TroubledRun, ...] = ()
    """Open ones of which `TRIED_MIN` attempts or more went wrong, the most tried first."""
    dead: tuple[NewlyDead, ...] = ()
    """By tenant and task."""
    early: int = 0
    early_run: RunId | None = None
    made: int = 0
    """Schedules and runs that somebody has ordered; not what schedules made of themselves."""


class AlertingStore(Protocol):
    """What watchers do, and what people look at and say."""

    def hold_watch(self, command: RenewWatcherLease) -> Watch:
        """Take the watch if nobody has it or its holder's time is over; else renew it if it's ours.

        By the store's clock. The epoch grows each time it changes hands. Another's is left alone,
        without a write.
        """
        ...

    def release_watch(self, fence: WatcherFence) -> None:
        """Give up the watch, if it is still ours at that epoch."""
        ...

    def load_watched(self) -> Watched:
        """Return what is pending and open, and what was said, as of one moment."""
        ...

    def apply_alerts(self, command: ApplyAlerts) -> bool:
        """Write changes of alerts, the deliveries they make, and their audit entries: all or none.

        False, and nothing of it written, when the watch is not ours at that epoch, its time is
        over, or it was held again since: what was decided before is another look's to decide, also
        should it arrive after that. That is on record as `watch.refused`. What is raised, told and
        resolved is audited as `alert.raised`, `alert.told` and `alert.resolved`. A delivery that is
        there already stays.
        """
        ...

    def load_deliveries(self, limit: int, without: Collection[str] = ()) -> DueDeliveries:
        """Return deliveries whose time has come, by the store's clock, `without` some channels'.

        First the longest due of each channel, then the second of each, and so on. That of an end is
        none before that of its beginning to the same channel is settled. One that waits for longer
        than any waits was left by a clock that ran ahead: its time has come, too.
        """
        ...

    def settle_delivery(self, command: SettleDelivery) -> bool:
        """Write what became of a try: done, due again, or given up.

        False when the watch is not ours, or somebody else has settled that try. What is given up is
        audited as `alert.undelivered`.
        """
        ...

    def list_alerts(self, command: AlertFilter) -> list[AlertRecord]:
        """Return alerts, newest first."""
        ...

    def get_alert(self, alert_id: AlertId, tenant: str | None = None) -> AlertRecord | None:
        """Return an alert; with a tenant, only if it is theirs."""
        ...

    def list_deliveries(self, alert_id: AlertId) -> list[DeliveryRecord]:
        """Return the deliveries of an alert, by when they were made and channel."""
        ...

    def acknowledge_alert(self, command: AcknowledgeAlert) -> AlertRecord:
        """Note who has taken note, and why; audited as `alert.acknowledged`.

        NotFound when there is none in the tenant; Conflict when it is resolved. Who was first
        stays.
        """
        ...

    def set_alert_term(self, command: SetAlertSetting) -> AlertSettingRecord:
        """Keep what was said; audited as `alert-rule.set` and so on, with before and after.

        Conflict when it was to be new and is there, or is another tenant's; Outdated when it was to
        be a version that it no longer is, unless just this was said already: then nothing changes.
        UsageError beyond `TERMS_MAX`.
        """
        ...

    def remove_alert_term(self, command: RemoveTerm) -> bool:
        """Take back what was said; say whether there was something. Audited as `….removed`.

        Outdated when somebody has said something else since the version that was seen.
        """
        ...

    def list_alert_terms(self, sort: AlertSettingKind) -> list[AlertSettingRecord]:
        """Return what was said of a sort, by name; of silences those that are not over."""
        ...

    def find_trouble(self, command: FindTrouble) -> UnusualRuns:
        """Return runs that are out of the ordinary; the cost has a bound."""
        ...
