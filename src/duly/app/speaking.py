"""What an application offers on behalf of somebody: one part for each thing one speaks about."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from duly.client.alerts import Alerts
from duly.client.attempts import Attempts
from duly.client.audit import Audit
from duly.client.backfills import Backfills
from duly.client.breakers import Breakers
from duly.client.events import Events
from duly.client.inbox import Inbox
from duly.client.limits import Limits
from duly.client.owners import Owners
from duly.client.promises import Promises
from duly.client.proving import Proving
from duly.client.queues import Queues
from duly.client.quotas import Quotas
from duly.client.runs import DelayedRuns, Runs
from duly.client.schedule_selections import ScheduleSelections
from duly.client.schedules import Schedules
from duly.client.selections import Selections
from duly.client.tokens import Tokens
from duly.client.vitals import Vitals
from duly.client.workers import Workers

if TYPE_CHECKING:
    from uuid import UUID

    from duly.app.application import App
    from duly.client.caller import Caller
    from duly.domain.alert_channels import ChannelConfig


class Speaking:
    """The parts of an application that act for whoever it speaks as."""

    _caller: Caller

    def _speak_as(self, caller: Caller) -> None:
        """Speak as somebody; what is shared with other copies of this application stays."""
        self._caller = caller
        self.schedules = Schedules(caller)
        self.runs = Runs(caller)
        self.selections = Selections(caller, self.runs)
        self.schedule_selections = ScheduleSelections(caller, self.schedules)
        self.attempts = Attempts(caller)
        self.audit = Audit(caller)
        self.delayed = DelayedRuns(caller)
        self.queues = Queues(caller)
        self.backfills = Backfills(caller)
        self.inbox = Inbox(caller, self.runs)
        self._proving = Proving(caller, self.runs)
        self.limits = Limits(caller)
        self.breakers = Breakers(caller)
        self.quotas = Quotas(caller)
        self.owners = Owners(caller)
        self.tokens = Tokens(caller)
        self.events = Events(caller)
        self.promises = Promises(caller)
        self.workers = Workers(caller)
        self.vitals = Vitals(caller)
        self.alerts = Alerts(caller, self._try_channel)

    def _try_channel(self, config: ChannelConfig, notice: UUID) -> tuple[bool, str]:
        from duly.app.watching import try_channel

        return try_channel(cast("App", self), config, notice)
