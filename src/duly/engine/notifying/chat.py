"""Alerts in a chat: to incoming hooks of Slack and of Mattermost, under the guard of webhooks.

The address of a hook is all that it takes to write there: it is a secret, as a whole and in parts.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from duly.domain.alert_channels import SLACK
from duly.domain.alert_messages import mattermost_payload, slack_payload
from duly.domain.schedules import canonical_json
from duly.domain.web_addresses import read_web_address
from duly.engine.notifying.delivery import Discretion
from duly.engine.notifying.patience import Patience
from duly.engine.notifying.web import MARGIN_US, Letter, Posting
from duly.errors import NoSecret, UsageError

if TYPE_CHECKING:
    from duly.domain.alert_channels import ChatPlan
    from duly.domain.alert_messages import AlertNotice
    from duly.domain.web_addresses import WebAddress
    from duly.engine.notifying.delivery import ChannelSurroundings, DeliveryResult
    from duly.engine.notifying.patience import Tether

_PART_LENGTH_MIN = 8
"""Shorter parts of a path are words such as hooks and services."""


class ChatChannel:
    """Posts each notice to a chat."""

    def __init__(self, name: str, plan: ChatPlan, surroundings: ChannelSurroundings) -> None:
        self._field = f"channel {name} url"
        self._plan = plan
        self._surroundings = surroundings
        self._patience = Patience(
            f"the hook of {name}", plan.timeout_us + MARGIN_US, surroundings.wait
        )
        self._write = slack_payload if plan.kind == SLACK else mattermost_payload

    def deliver(self, notice: AlertNotice) -> DeliveryResult:
        """Post it once."""
        return self._patience.wait_for(partial(self._attempt, notice))

    def _attempt(self, notice: AlertNotice, tether: Tether) -> DeliveryResult:
        discretion = Discretion(self._surroundings.read_secret)
        try:
            address = self._address(discretion)
        except (NoSecret, UsageError) as error:
            return discretion.unprepared(error)
        letter = Letter(
            address=address,
            headers={"Content-Type": "application/json", "idempotency-key": str(notice.id)},
            body=canonical_json(self._write(notice)).encode(),
            timeout_us=self._plan.timeout_us,
        )
        return Posting(self._surroundings, tether, discretion).post(letter)

    def _address(self, discretion: Discretion) -> WebAddress:
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
