"""The courier of alerts: brings what is to be delivered to its channels, at least once each (V3).

It has a thread of its own: a mail server that takes its time keeps nobody but the next delivery. A
delivery is settled after it was sent. Whoever dies in between leaves it pending, and the next one
sends it again under the same id, by which the receiver knows it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from duly.domain.alert_delivery import DeliveryState, conclude_try
from duly.domain.alert_messages import AlertNotice
from duly.domain.alerting import Told
from duly.domain.identity import identity_text
from duly.domain.instants import SECOND_US, from_microseconds
from duly.engine.notifying import DeliveryResult
from duly.engine.watch_terms import channels_of
from duly.errors import STORE_AWAY, UsageError, printable
from duly.store.alerting import SettleDelivery, TermSort
from duly.telemetry import DeliveryFailed, NullTelemetry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from duly.clock import Clock
    from duly.domain.alert_channels import ChannelConfig
    from duly.engine.notifying import Channel
    from duly.store.alerting import DueDelivery, WatchFence
    from duly.store.protocol import Store
    from duly.telemetry import Telemetry

EVERY_US = 15 * SECOND_US
"""How often it looks for what nobody has told it of."""
DELIVERIES_MAX = 20
"""How many are read at a time."""


class AlertCourier:
    """Delivers what is due, one after the other, while the watch is ours."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        open_channel: Callable[[ChannelConfig], Channel],
        telemetry: Telemetry | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._open_channel = open_channel
        self._telemetry = telemetry or NullTelemetry()
        self._opened: dict[str, tuple[ChannelConfig, Channel]] = {}
        self.fence: Callable[[], WatchFence | None] = _nobodys
        """Says under which watch it settles; nothing is sent while that is another's."""

    def tick(self) -> int:
        """Deliver some of what is due; return when to be called next, on the monotonic clock."""
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
        found = self._store.load_deliveries(DELIVERIES_MAX)
        if found.due:
            channels = channels_of(self._store.list_alert_terms(TermSort.CHANNEL))
            for due in found.due:
                if self.fence() != fence or not self._deliver_one(fence, due, channels):
                    return EVERY_US
        if found.next_at is None:
            return EVERY_US
        return min(max(found.next_at - found.now, 0), EVERY_US)

    def _deliver_one(
        self, fence: WatchFence, due: DueDelivery, channels: Mapping[str, ChannelConfig]
    ) -> bool:
        """Try one; False when what became of it could not be written, because we watch no more."""
        delivery = due.delivery
        result = self._send(due, channels.get(delivery.channel))
        said = (result.is_done, result.is_final, printable(result.detail))
        retry_us = None if result.retry_after is None else result.retry_after // _MICROSECOND
        tried = conclude_try(delivery, said, retry_us, self._store.now())
        order = SettleDelivery(fence=fence, id=delivery.id, tries=delivery.tries, tried=tried)
        is_settled = self._store.settle_delivery(order)
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
            return DeliveryResult(is_done=False, is_final=True, detail="there is no such channel")
        try:
            return self._channel(config).deliver(notice_of(due))
        except UsageError as error:
            return DeliveryResult(is_done=False, is_final=False, detail=str(error))
        except Exception as error:  # noqa: BLE001 - a defect of one channel must not stop the others
            return DeliveryResult(is_done=False, is_final=False, detail=repr(error))

    def _channel(self, config: ChannelConfig) -> Channel:
        """Return what sends by a channel; it is kept while nothing else is said of it."""
        known = self._opened.get(config.name)
        if known is None or known[0] != config:
            known = (config, self._open_channel(config))
            self._opened[config.name] = known
        return known[1]


def notice_of(due: DueDelivery) -> AlertNotice:
    """Return what a channel is told."""
    delivery, alert = due
    is_raised = delivery.told is Told.RAISED
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


def _nobodys() -> WatchFence | None:
    return None


_MICROSECOND = timedelta(microseconds=1)
