"""What a channel is told about an alert."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertNotice:
    """One change of an alert, for one channel."""

    id: UUID
    """Of the delivery: the same on every try, so that receivers can deduplicate."""
    alert_id: UUID
    kind: str
    change: str
    """`raised` or `resolved`."""
    severity: str
    """`page` or `warn`."""
    tenant: str
    subject: str
    """`schedule nightly-report`, `queue mail`, `run 0192…`, `dispatcher 7`, `store`."""
    summary: str
    """One sentence for a person: what is so, since when."""
    remedy: str
    """What to do next, usually a command."""
    evidence: Mapping[str, Any]
    since: datetime
    """When the condition began."""
    at: datetime
    """Of the raise or the resolution."""
