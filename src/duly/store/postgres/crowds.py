"""What a member's connections are asked for in a crowd, by its kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.ids import RunId
from duly.store.ports.dispatch import Fence, FireOnTime, FireTimers, MemberId, MemberKind
from duly.store.ports.execution import ClaimRuns
from duly.store.postgres import claiming, finishing, firing, handed
from duly.store.postgres.arrays import Texts

if TYPE_CHECKING:
    from duly.store.ports.dispatch import Join
    from duly.store.postgres.prepared import Asked

SLOTS_MIN = 100
"""Who has room for no more than this never meets a crowd, and brings its ends by itself."""
_NOBODY = MemberId(0)
_NOTHING = FireOnTime(bytes(16), 0, 0, 0, 0, 0, RunId(bytes(16)), 0, 0, 0)


def asked_of(command: Join, fire_connections: int) -> list[list[Asked]]:
    """Return the statements for each connection that a crowd needs; none for who meets no crowd."""
    if not command.wake_address:
        return []
    if command.kind is MemberKind.WORKER:
        return _of_a_worker(command) if command.slots > SLOTS_MIN else []
    fires = FireTimers(fence=Fence(_NOBODY, ()))
    schedules = (firing.FIRE_SCHEDULES, firing.schedule_values(fires, (_NOTHING,)))
    asked = [schedules, (firing.FIRE_DELAYED, firing.run_values(fires, ()))]
    return [asked] * fire_connections


def _of_a_worker(command: Join) -> list[list[Asked]]:
    order = ClaimRuns(worker=_NOBODY, limit=command.slots, queues=command.queues or None)
    ends = (finishing.FINISH_PLAIN, finishing.plain_values(_NOBODY, ()))
    fires = FireTimers(fence=Fence(_NOBODY, ()))
    offered = (handed.FIRE_HANDED, (*firing.run_values(fires, ()), _NOBODY, Texts(())))
    return [[*claiming.asked_in_a_crowd(order), offered, ends], [ends]]
