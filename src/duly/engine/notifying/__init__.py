"""Notifying: opens the channels by which alerts reach people; when, and again, others say."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from duly.errors import UsageError

if TYPE_CHECKING:
    from datetime import timedelta

    from duly.clock import Clock
    from duly.domain.alert_channels import ChannelConfig
    from duly.domain.alert_messages import AlertNotice
    from duly.domain.secrets import ReadSecret
    from duly.domain.web_addresses import Allowed

__all__ = ["Channel", "ChannelSurroundings", "DeliveryResult", "open_channel"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryResult:
    """How one try of a delivery went."""

    is_done: bool
    is_final: bool = False
    detail: str = ""
    retry_after: timedelta | None = None


class Channel(Protocol):
    """A way by which alerts reach people; may be used from any thread."""

    def deliver(self, notice: AlertNotice) -> DeliveryResult:
        """Try once. It blocks, bounded in time, and raises nothing that the other side brought."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelSurroundings:
    """What the operator of whoever sends says, and nothing hidden beside it."""

    read_secret: ReadSecret
    clock: Clock
    allow: tuple[Allowed, ...] = ()


class LogChannel:
    """Writes a line for each notice."""

    def deliver(self, notice: AlertNotice) -> DeliveryResult:
        """Write it."""
        words = f"{notice.change} {notice.kind} {notice.subject}: {notice.summary}"
        logging.getLogger("duly.alerts").warning("%s", words)
        return DeliveryResult(is_done=True)


def open_channel(config: ChannelConfig, surroundings: ChannelSurroundings) -> Channel:
    """Return what sends by a channel."""
    assert surroundings is not None, "somebody says what may be reached"
    if config.kind != "log":
        raise UsageError("kind", config.kind, "is not a kind of channel", "give log")
    return LogChannel()
