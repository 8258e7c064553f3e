"""Owners who are gone: their schedules rest until somebody else takes them over (S6).

Duly keeps no list of owners: an owner is a name on a schedule. So somebody says that one is gone,
and it stands until somebody says that they are back.
"""

from __future__ import annotations

from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING

from duly.domain.instants import from_microseconds
from duly.domain.literals import Missed
from duly.domain.planning import decide_pause
from duly.domain.quotas import GONE, does_count, gone_key
from duly.domain.schedules import TENANT_DEFAULT
from duly.domain.time_texts import utc_text
from duly.errors import Conflict, shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from duly.domain.planning import Change
    from duly.domain.quotas import Quota
    from duly.domain.schedules import ScheduleRecord

OWNER_GONE = "its owner is gone"
"""How the reason begins why a schedule is paused whose owner is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoneRecord:
    """An owner who is gone."""

    owner: str
    tenant: str
    gone_at: int
    """When it was said first."""
    said_by: str
    active: int = 0
    """How many of their schedules fire all the same, or will again by themselves."""


def gone_record(stored: Quota, active: int = 0) -> GoneRecord:
    """Return who is gone, from where it stands."""
    return GoneRecord(
        owner=stored.key.scope.removeprefix(GONE),
        tenant=stored.key.tenant,
        gone_at=stored.updated_at,
        said_by=stored.updated_by,
        active=active,
    )


def gone_reason(owner: str, why: str) -> str:
    """Write why a schedule is paused whose owner is gone."""
    return f"{OWNER_GONE}: {shown(owner)} ({why})"


def decide_gone(record: ScheduleRecord, owner: str, reason: str) -> Change | None:
    """Pause what is an owner's and fires, or will again by itself; None for what is not, or rests.

    A pause until a date becomes one without end: else it would fire for nobody.
    """
    if record.owner != owner or not does_count(record):
        return None
    return decide_pause(record, reason=reason, until=None, missed=Missed.SKIP)


def refuse_gone(record: ScheduleRecord, stored: Iterable[Quota]) -> None:
    """Refuse a schedule that would be active for an owner who is gone."""
    if record.owner is None:
        return
    key = gone_key(record.tenant, record.owner)
    said = next((one for one in stored if one.key == key), None)
    if said is None:
        return
    when = utc_text(from_microseconds(said.updated_at))
    problem = f"is gone, as {said.updated_by} has said at {when}; nothing fires for them"
    of = "" if record.tenant == TENANT_DEFAULT else f" --tenant {quote(record.tenant)}"
    back = f"duly owner back {quote(record.owner)}{of}"
    remedy = f"name another owner, or say that they are back: {back}"
    raise Conflict("owner", record.owner, problem, remedy)
