"""Alerts in the log of whoever sends them: one line each, to the logger `duly.alerts`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from duly.domain.alert_messages import PAGE, log_line
from duly.engine.notifying.delivery import DONE

if TYPE_CHECKING:
    from duly.domain.alert_messages import AlertNotice
    from duly.engine.notifying.delivery import DeliveryResult

LOGGER_NAME = "duly.alerts"


class LogChannel:
    """Writes a line for each notice: an error for a page, a warning, and word when it is over."""

    def __init__(self) -> None:
        self._logger = logging.getLogger(LOGGER_NAME)

    def deliver(self, notice: AlertNotice) -> DeliveryResult:
        """Write it; what a log does with its lines is the operator's matter."""
        level = logging.ERROR if notice.severity == PAGE else logging.WARNING
        self._logger.log(logging.INFO if notice.is_resolved else level, "%s", log_line(notice))
        return DONE
