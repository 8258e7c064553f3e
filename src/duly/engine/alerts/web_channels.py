"""Webhook and chat channels (need aiohttp, imported late).

The address of a chat hook is enough to post to it. It is therefore a secret, as a whole and in
parts.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from duly.domain.alert_channels import SLACK
from duly.domain.alert_messages import mattermost_payload, slack_payload, webhook_body
from duly.domain.outbound_urls import read_web_address
from duly.domain.schedules import canonical_json
from duly.domain.webhooks import signed_message
from duly.engine.alerts.channels import DeliverySecrets, DeliveryTimeout
from duly.engine.executors.address_guard import AddressGuard
from duly.engine.executors.webhook_client import (
    WebhookAnswer,
    WebhookRequest,
    judge_answer,
    revealed,
    send,
)
from duly.errors import NoSecret, UsageError
from duly.timetable.instants import SECOND_US

if TYPE_CHECKING:
    from duly.domain.alert_channels import ChatPlan
    from duly.domain.alert_messages import AlertNotice
    from duly.domain.outbound_urls import WebAddress
    from duly.domain.webhooks import WebhookPlan
    from duly.engine.alerts.channels import ChannelSurroundings, DeliveryDeadline, DeliveryResult


ANSWER_BYTES_MAX = 16 * 1024
"""How much of an answer is read: its beginning says what is wrong."""
MARGIN_US = SECOND_US // 2
"""A request ends by its own limit, and says more about it; what hangs in a look-up ends by ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookMessage:
    """What is posted, and where to."""

    address: WebAddress
    headers: dict[str, str]
    body: bytes
    timeout_us: int


class WebhookChannel:
    """Posts each notice as JSON; `webhook-id` is the delivery's, the same in every try."""

    def __init__(self, name: str, plan: WebhookPlan, surroundings: ChannelSurroundings) -> None:
        self._field = f"channel {name}"
        self._plan = plan
        self._surroundings = surroundings
        self._patience = DeliveryTimeout(
            plan.address.origin, plan.timeout_us + MARGIN_US, surroundings.wait
        )

    def deliver(self, notice: AlertNotice) -> DeliveryResult:
        """Post it once."""
        return self._patience.wait_for(partial(self._attempt, notice))

    def _attempt(self, notice: AlertNotice, tether: DeliveryDeadline) -> DeliveryResult:
        discretion = DeliverySecrets(self._surroundings.read_secret)
        try:
            headers, keys = revealed(self._plan, self._field, discretion.read)
        except (NoSecret, UsageError) as error:
            return discretion.unprepared(error)
        body = webhook_body(notice)
        sent_at = self._surroundings.clock.now_us()
        letter = WebhookMessage(
            address=self._plan.address,
            headers={**headers, **signed_message(str(notice.id), sent_at, (body, keys))},
            body=body,
            timeout_us=self._plan.timeout_us,
        )
        return WebhookPost(self._surroundings, tether, discretion).post(letter)


class WebhookPost:
    """One request on a loop of its own, in the thread of a try."""

    def __init__(
        self,
        surroundings: ChannelSurroundings,
        tether: DeliveryDeadline,
        discretion: DeliverySecrets,
    ) -> None:
        self._surroundings = surroundings
        self._tether = tether
        self._discretion = discretion

    def post(self, letter: WebhookMessage) -> DeliveryResult:
        """Send it once, and say what the answer means."""
        request = WebhookRequest(
            address=letter.address,
            guard=AddressGuard(letter.address, self._surroundings.allow, self._look_up),
            body=letter.body,
            headers=letter.headers,
            timeout_us=letter.timeout_us,
            response_bytes_max=ANSWER_BYTES_MAX,
        )
        answer = asyncio.run(send(request))
        if isinstance(answer, WebhookAnswer):
            answer = judge_answer(answer, self._surroundings.clock.now(), self._discretion)
        return self._discretion.result_of(answer)

    async def _look_up(self, host: str, port: int) -> list[str]:
        # It holds up this loop, on which nobody else waits; a thread for it could not be ended.
        found = self._surroundings.lookup(host, port)
        self._tether.check()
        return found


_PART_LENGTH_MIN = 8
"""Shorter parts of a path are words such as hooks and services."""


class ChatChannel:
    """Posts each notice to a chat."""

    def __init__(self, name: str, plan: ChatPlan, surroundings: ChannelSurroundings) -> None:
        self._field = f"channel {name} url"
        self._plan = plan
        self._surroundings = surroundings
        self._patience = DeliveryTimeout(
            f"the hook of {name}", plan.timeout_us + MARGIN_US, surroundings.wait
        )
        self._write = slack_payload if plan.kind == SLACK else mattermost_payload

    def deliver(self, notice: AlertNotice) -> DeliveryResult:
        """Post it once."""
        return self._patience.wait_for(partial(self._attempt, notice))

    def _attempt(self, notice: AlertNotice, tether: DeliveryDeadline) -> DeliveryResult:
        discretion = DeliverySecrets(self._surroundings.read_secret)
        try:
            address = self._address(discretion)
        except (NoSecret, UsageError) as error:
            return discretion.unprepared(error)
        letter = WebhookMessage(
            address=address,
            headers={"Content-Type": "application/json", "idempotency-key": str(notice.id)},
            body=canonical_json(self._write(notice)).encode(),
            timeout_us=self._plan.timeout_us,
        )
        return WebhookPost(self._surroundings, tether, discretion).post(letter)

    def _address(self, discretion: DeliverySecrets) -> WebAddress:
        secret = discretion.read(self._plan.hook, self._field)
        try:
            address = read_web_address(self._field, secret.reveal().strip())
        except UsageError as error:
            # The error holds the address: it must not travel along.
            problem = f"holds no address: what is there {error.problem}"
            remedy = "write the address of the incoming hook there"
            raise NoSecret(self._field, self._plan.hook.secret, problem, remedy) from None
        discretion.conceal(address.text)
        discretion.conceal(address.target)
        for part in address.target.replace("?", "/").split("/"):
            if len(part) >= _PART_LENGTH_MIN:
                discretion.conceal(part)
        return address
