"""Notifying: opens the channels by which alerts reach people; when to send, and again, others say.

What is said is written in `domain.alert_messages`, where to in `domain.alert_channels`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from duly.domain.alert_channels import ChatPlan, LogPlan, MailPlan, plan_of
from duly.domain.webhooks import WebhookPlan
from duly.engine.notifying.delivery import Channel, ChannelSurroundings, DeliveryResult
from duly.engine.notifying.log import LogChannel
from duly.engine.notifying.mail import MailChannel
from duly.errors import UsageError

if TYPE_CHECKING:
    from duly.domain.alert_channels import ChannelConfig

__all__ = ["Channel", "ChannelSurroundings", "DeliveryResult", "open_channel"]


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
        from duly.engine.notifying.chat import ChatChannel
        from duly.engine.notifying.web import WebhookChannel
    except ImportError as error:
        remedy = "pip install 'duly[webhooks]'"
        raise UsageError(f"channel {config.name}", "aiohttp", "is not installed", remedy) from error
    if isinstance(plan, ChatPlan):
        return ChatChannel(config.name, plan, surroundings)
    return WebhookChannel(config.name, plan, surroundings)
