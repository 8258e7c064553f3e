"""Sends due deliveries, several channels at once, with back-off.

`AlertDeliverer` delivers only while this process holds the watch. `domain.alert_messages` decides
the text of a notice, `domain.alert_channels` describes the destinations.

`DeliveryThreads` gives each busy channel a thread of its own, so a slow or hanging receiver delays
only its own deliveries. Deliveries to one channel are sent in order.

A delivery is settled after it was sent. If the process dies in between, the delivery stays pending
and the next deliverer sends it again under the same id, by which the receiver recognises it.

A channel that has just failed is paused with all its deliveries. Otherwise each of many deliveries
would wait for the same receiver.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, assert_never
from uuid import UUID

from duly.domain.alert_channels import ChatPlan, LogPlan, MailPlan, plan_of
from duly.domain.alert_messages import AlertNotice
from duly.domain.alerts import FIRST_WAIT_US, WAIT_MAX_US, DeliveryState, NoticeKind, conclude_try
from duly.domain.ids import identity_text
from duly.domain.webhooks import WebhookPlan
from duly.engine.alerts.channels import Channel, ChannelSurroundings, DeliveryResult, LogChannel
from duly.engine.alerts.mail_channel import MailChannel
from duly.engine.alerts.watcher import channel_names, channels_of
from duly.errors import STORE_AWAY, UsageError, printable
from duly.store.ports.alerts import AlertSettingKind, SettleDelivery
from duly.telemetry import DeliveryFailed, NullTelemetry, TickFailed
from duly.timetable.instants import SECOND_US, from_microseconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duly.clock import Clock
    from duly.domain.alert_channels import ChannelConfig
    from duly.store.ports import Store
    from duly.store.ports.alerts import DueDelivery, WatcherFence
    from duly.telemetry import Telemetry


def open_channel(config: ChannelConfig, surroundings: ChannelSurroundings) -> Channel:
    """Return what sends by a channel. Nothing is connected to, and no secret is read, until then.

    It remembers which recipients of a mail have it already: keep it while its configuration holds.
    """
    plan = plan_of(config)
    match plan:
        case LogPlan():
            return LogChannel()
        case MailPlan():
            return MailChannel(config.name, plan, surroundings)
        case WebhookPlan() | ChatPlan():
            return _open_web(config, plan, surroundings)
        case _:
            assert_never(plan)


def _open_web(
    config: ChannelConfig, plan: WebhookPlan | ChatPlan, surroundings: ChannelSurroundings
) -> Channel:
    try:
        from duly.engine.alerts.web_channels import ChatChannel, WebhookChannel
    except ImportError as error:
        remedy = "pip install 'duly[webhooks]'"
        raise UsageError(f"channel {config.name}", "aiohttp", "is not installed", remedy) from error
    if isinstance(plan, ChatPlan):
        return ChatChannel(config.name, plan, surroundings)
    return WebhookChannel(config.name, plan, surroundings)


EVERY_US = 15 * SECOND_US
"""How often it looks for what nobody has told it of."""
DELIVERIES_MAX = 40
"""How many are read at a time: some of each channel."""
SENDERS_MAX = 8
"""How many channels are told something at once."""
PAUSE_MAX_US = 5 * 60 * SECOND_US
"""How long a channel that fails is left alone at most, unless it asks for longer."""
Start = Callable[[Callable[[], None]], None]


@dataclass(frozen=True, slots=True)
class DeliveryPause:
    """A channel that has failed, as it was set then."""

    config: ChannelConfig | None
    failures: int
    """In a row."""
    until: int
    """On the monotonic clock."""


class AlertDeliverer:
    """Delivers what is due, by several channels at once, while the watch is ours."""

    def __init__(  # noqa: PLR0913 - what it works with, each replaceable
        self,
        store: Store,
        clock: Clock,
        open_channel: Callable[[ChannelConfig], Channel],
        telemetry: Telemetry | None = None,
        *,
        start: Start | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._open_channel = open_channel
        self._telemetry = telemetry or NullTelemetry()
        self._start = start or _in_turn
        self._lock = threading.Lock()
        self._busy: set[str] = set()
        self._pauses: dict[str, DeliveryPause] = {}
        self._settled = 0
        self._opened: dict[str, tuple[ChannelConfig, Channel]] = {}
        self._named = frozenset[str]()
        """What channels are called, also those that only a newer program can read."""
        self.fence: Callable[[], WatcherFence | None] = _nobodys
        """Says under which watch it settles; nothing is sent while that is another's."""
        self.on_done: Callable[[], None] = _nobody
        """Is called when a channel is free again: something else may go there."""

    def tick(self) -> int:
        """Begin to deliver some of what is due; return when to be called next, monotonic."""
        try:
            wait_us = self._deliver()
        except STORE_AWAY:
            wait_us = EVERY_US
        return self._clock.monotonic_us() + wait_us

    def wake(self) -> None:
        """Look at the next tick; it does so anyway."""

    def stop(self) -> None:
        """Leave what is pending to whoever comes next."""

    def _deliver(self) -> int:
        fence = self.fence()
        if fence is None:
            return EVERY_US
        channels = self._channels() if self._pauses else None
        now = self._clock.monotonic_us()
        with self._lock:
            busy, settled = set(self._busy), self._settled
            paused = {name: one.until for name, one in self._pauses.items() if one.until > now}
        room = SENDERS_MAX - len(busy)
        if room <= 0:
            return EVERY_US
        found = self._store.load_deliveries(DELIVERIES_MAX, busy | paused.keys())
        by_channel: dict[str, list[DueDelivery]] = {}
        for due in found.due:
            by_channel.setdefault(due.delivery.channel, []).append(due)
        if by_channel and channels is None:
            channels = self._channels()
        for name, dues in list(by_channel.items())[:room]:
            with self._lock:
                self._busy.add(name)
            self._start(partial(self._carry, fence, dues, channels or {}))
        if self._settled != settled:
            return 0
        waits = [EVERY_US, *(until - now for until in paused.values())]
        if found.next_at is not None:
            waits.append(max(found.next_at - found.now, 0))
        return min(waits)

    def _carry(
        self, fence: WatcherFence, dues: list[DueDelivery], channels: Mapping[str, ChannelConfig]
    ) -> None:
        """Bring to one channel what is due there, until it fails or the watch is another's."""
        name, is_settled = dues[0].delivery.channel, True
        try:
            for due in dues:
                if self.fence() != fence or self._is_paused(name):
                    return
                is_settled = False
                is_settled = self._deliver_one(fence, due, channels)
                if not is_settled:
                    return
        except STORE_AWAY:
            return
        finally:
            if not is_settled:
                # What was sent is still to be delivered: it is sent again, and not at once.
                self._pause(name, channels.get(name), EVERY_US)
            with self._lock:
                self._busy.discard(name)
            self.on_done()

    def _deliver_one(
        self, fence: WatcherFence, due: DueDelivery, channels: Mapping[str, ChannelConfig]
    ) -> bool:
        """Try one; False when what became of it could not be written, because we watch no more."""
        delivery = due.delivery
        result = self._send(due, channels.get(delivery.channel))
        said = (result.is_done, result.is_final, printable(result.detail))
        retry_us = None if result.retry_after is None else result.retry_after // _MICROSECOND
        tried = conclude_try(delivery, said, retry_us, self._store.now())
        order = SettleDelivery(fence=fence, id=delivery.id, tries=delivery.tries, tried=tried)
        is_settled = self._store.settle_delivery(order)
        with self._lock:
            self._settled += is_settled
        if is_settled:
            self._note(delivery.channel, channels.get(delivery.channel), result)
        if tried.state is not DeliveryState.DONE:
            event = DeliveryFailed(
                member=0,
                channel=delivery.channel,
                delivery=identity_text(delivery.id),
                tries=delivery.tries + 1,
                is_given_up=tried.state is DeliveryState.GIVEN_UP,
                problem=tried.error or "",
            )
            self._telemetry.emit(event)
        return is_settled

    def _send(self, due: DueDelivery, config: ChannelConfig | None) -> DeliveryResult:
        if config is None:
            is_gone = due.delivery.channel not in self._named
            detail = "there is no such channel" if is_gone else "a newer program has set it"
            return DeliveryResult(is_done=False, is_final=is_gone, detail=detail)
        try:
            return self._channel(config).deliver(notice_of(due))
        except UsageError as error:
            return DeliveryResult(is_done=False, is_final=False, detail=str(error))
        except Exception as error:  # noqa: BLE001 - a defect of one channel must not stop the others
            return DeliveryResult(is_done=False, is_final=False, detail=repr(error))

    def _channels(self) -> dict[str, ChannelConfig]:
        """Return the channels there are; forget what was known of those that were set anew."""
        terms = self._store.list_alert_terms(AlertSettingKind.CHANNEL)
        found, self._named = channels_of(terms), frozenset(channel_names(terms))
        with self._lock:
            self._pauses = {
                name: one for name, one in self._pauses.items() if found.get(name) == one.config
            }
            self._opened = {name: one for name, one in self._opened.items() if name in found}
        return found

    def _channel(self, config: ChannelConfig) -> Channel:
        """Return what sends by a channel; it is kept while nothing else is said of it."""
        with self._lock:
            known = self._opened.get(config.name)
            if known is None or known[0] != config:
                known = (config, self._open_channel(config))
                self._opened[config.name] = known
            return known[1]

    def _note(self, name: str, config: ChannelConfig | None, result: DeliveryResult) -> None:
        """Remember whether a channel takes something; one that answers for good is not down."""
        if result.is_done:
            with self._lock:
                self._pauses.pop(name, None)
        elif not result.is_final:
            asked = result.retry_after
            asked_us = 0 if asked is None else min(asked // _MICROSECOND, WAIT_MAX_US)
            self._pause(name, config, asked_us)

    def _pause(self, name: str, config: ChannelConfig | None, least_us: int) -> None:
        """Leave a channel alone: the longer, the more often it has failed."""
        with self._lock:
            known = self._pauses.get(name)
            failures = 1 if known is None else known.failures + 1
            doubled = min(FIRST_WAIT_US << min(failures - 1, 20), PAUSE_MAX_US)
            until = self._clock.monotonic_us() + max(doubled, least_us)
            self._pauses[name] = DeliveryPause(config, failures, until)

    def _is_paused(self, name: str) -> bool:
        with self._lock:
            known = self._pauses.get(name)
        return known is not None and known.until > self._clock.monotonic_us()


def notice_of(due: DueDelivery) -> AlertNotice:
    """Return what a channel is told."""
    delivery, alert = due
    is_raised = delivery.told is NoticeKind.RAISED
    at = alert.told_at if is_raised else alert.resolved_at
    return AlertNotice(
        id=UUID(bytes=delivery.id),
        alert_id=UUID(bytes=alert.id),
        kind=str(alert.kind),
        change=str(delivery.told),
        severity=str(alert.severity),
        tenant=alert.tenant,
        subject=alert.subject,
        summary=alert.summary,
        remedy=alert.remedy,
        evidence=alert.evidence,
        since=from_microseconds(alert.since),
        at=from_microseconds(delivery.made_at if at is None else at),
    )


def _in_turn(work: Callable[[], None]) -> None:
    """Do it here and now."""
    work()


def _nobody() -> None:
    """Tell nobody."""


def _nobodys() -> WatcherFence | None:
    return None


_MICROSECOND = timedelta(microseconds=1)


class DeliveryThreads:
    """Runs each piece of work in a thread of its own; how many at once is up to who starts them."""

    def __init__(self, telemetry: Telemetry | None = None) -> None:
        self._telemetry = telemetry or NullTelemetry()
        self._changed = threading.Condition()
        self._under_way = 0

    def start(self, work: Callable[[], None]) -> None:
        """Begin, and return at once; on a machine that starts no more threads, when it is done."""
        with self._changed:
            self._under_way += 1
        # They end with the process, whatever they wait for: what is pending is in the store.
        thread = threading.Thread(target=self._run, args=(work,), name="duly-sender", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            self._run(work)

    def wait(self, seconds: float) -> bool:
        """Wait until nothing is under way; say whether it came to that in time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._under_way, seconds)

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - nobody else would hear of it
            self._telemetry.emit(TickFailed(member=0, problem=repr(error), where="duly-sender"))
        finally:
            with self._changed:
                self._under_way -= 1
                self._changed.notify_all()
