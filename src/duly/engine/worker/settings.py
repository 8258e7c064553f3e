"""A worker's settings: every limit and interval by its name, with the reason for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from duly.domain.enums import TaskKind
from duly.errors import UsageError
from duly.store.ports.execution import QUEUES_MAX, WORKER_TTL_US
from duly.timetable.instants import SECOND_US

if TYPE_CHECKING:
    from collections.abc import Iterable

SLOTS_MAX = 10_000
CLAIMED_WHOLE = 500
"""So many slots are filled by one claim."""
_MILLISECOND_US = 1000
_MAY_BE_ZERO = frozenset(
    ("grace_us", "cancel_grace_us", "talk_every_us", "together_max", "claims_ahead_max")
)
_NOT_A_NUMBER = frozenset(("queues", "queue_limits"))


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """How a worker goes about its work; the defaults are right for most."""

    slots: int | None = None
    """How many runs it executes at a time, of whatever kind; None for the two defaults below."""
    async_slots: int = 512
    """By default: how many async tasks, which cost little while they wait. Each may hold a
    connection, and many systems let a process open 1,024 files;"""
    other_slots: int = 10
    """and how many that need a thread or a process each."""
    queues: tuple[str, ...] | None = None
    """Which queues it serves; None for every queue there is."""
    queue_limits: Mapping[str, int] = field(default_factory=dict)
    """How many of its slots runs of a queue may have; one that is not named has no such limit."""

    ttl_us: int = WORKER_TTL_US
    """After this long without a beat others settle what we hold."""
    beat_every_us: int = 3 * SECOND_US
    """Several beats fit into a lease: a slow answer or two cost nothing."""
    beat_soon_us: int = 250 * _MILLISECOND_US
    """When woken for no other reason, somebody may have asked for a cancellation: then we beat, but
    not more often than this."""
    lease_margin_us: int = 2 * SECOND_US
    """We claim nothing from this long before our lease ends by our own count. Courtesy: whether we
    are alive the store says."""

    grace_us: int = 30 * SECOND_US
    """How long running work may finish after we were asked to stop."""
    cancel_grace_us: int = 10 * SECOND_US
    """How long code may take to stop after it was asked; then we insist."""
    unbegun_us: int = 750 * _MILLISECOND_US
    """How long a run may wait here for a slot, or for an event loop or a thread that is blocked.
    Then it is given back, at no cost: another worker may have room."""
    ended_lately_us: int = 100 * _MILLISECOND_US
    """As many runs as have ended in so long are claimed ahead of free slots: as many will end."""
    begin_within_us: int = 60 * SECOND_US
    """The same of code that a process has to start for; its time-out counts from its beginning."""
    leaked_max: int = 3
    """When so many slots are lost to code that can't be stopped, we end, to be replaced."""

    report_every_us: int = 1 * SECOND_US
    report_share: int = 24
    """Progress is stored in steps that grow with an attempt's age, by this part of it..."""
    report_max_us: int = 300 * SECOND_US
    """...up to this: a day's work leaves a few hundred steps."""

    poll_min_us: int = 250 * _MILLISECOND_US
    """How soon an idle worker looks for runs by itself, should a wake-up be lost;"""
    poll_max_us: int = 2 * SECOND_US
    """it looks more seldom the longer there is nothing."""
    claim_apart_us: int = 10 * _MILLISECOND_US
    """However often we are rung: two claims that bring nothing lie this far apart, and further each
    time, up to the poll's. All workers hear of all queues."""
    talk_every_us: int = 4 * _MILLISECOND_US
    """While a few runs come and go all the time, we tell of ends and ask for more this often."""
    claim_max: int = 1000
    """How many runs one statement claims, and how many wait here for a slot; see `claim_most`."""
    claims_ahead_max: int = 32
    """How many more claims a tick makes in a crowd, each on its way while the runs of the one
    before it are begun."""
    finish_max: int = 2000
    """How many attempts one transaction ends."""
    together_max: int = 100
    """Up to so many are ended and the next claimed by one call; beyond that two go on at a time,
    where the store lets them."""
    backoff_min_us: int = 50 * _MILLISECOND_US
    backoff_max_us: int = 1 * SECOND_US
    set_aside_us: int = 60 * SECOND_US
    """When to try again what failed for a reason of its own."""

    unknown_after_us: int = 5 * SECOND_US
    """How long a run of a task that nobody knows is put off: at first, doubling each time;"""
    unknown_after_max_us: int = 60 * SECOND_US
    unknown_grace_us: int = 120 * SECOND_US
    """after so long without any living worker that knows it, it is dead."""
    unknown_kept_us: int = 60 * SECOND_US
    """How long we remember whether others serve a task that we do not know."""
    unknown_looks_max: int = 20
    """How often a tick asks the store about tasks that we do not know: beats must not wait."""

    @property
    def claim_most(self) -> int:
        """How many runs one claim takes: of many slots the half, whose runs begin meanwhile."""
        return min(self.claim_max, max(CLAIMED_WHOLE, -(-self.slots_of(TaskKind) // 2)))

    def slots_of(self, kinds: Iterable[TaskKind]) -> int:
        """Return how many runs of tasks of some kinds are executed at a time."""
        if self.slots is not None:
            return self.slots
        pools = {kind is TaskKind.ASYNC for kind in kinds}
        return self.async_slots * (True in pools) + self.other_slots * (False in pools)

    def __post_init__(self) -> None:
        """Refuse a limit that is no number or limits everything, and a lease nobody can keep."""
        for one in fields(self):
            if one.name == "slots" and self.slots is None:
                continue
            if one.name not in _NOT_A_NUMBER:
                least = 0 if one.name in _MAY_BE_ZERO else 1
                _require_limit(one.name, getattr(self, one.name), least)
        if self.slots is not None and self.slots > SLOTS_MAX:
            remedy = f"give at most {SLOTS_MAX:,}, and start more workers"
            raise UsageError("slots", self.slots, "is too many for one worker", remedy)
        self._check_queues()
        if self.beat_every_us + self.lease_margin_us >= self.ttl_us:
            remedy = "give at least a beat and the margin, better three beats"
            raise UsageError("ttl_us", self.ttl_us, "is too short a lease", remedy)

    def _check_queues(self) -> None:
        queues, limits = self.queues, self.queue_limits
        if queues is not None:
            is_list = isinstance(queues, tuple) and all(isinstance(one, str) for one in queues)
            if not is_list or not 1 <= len(queues) <= QUEUES_MAX:
                remedy = f"give 1 to {QUEUES_MAX} names, or leave it out to serve all queues"
                raise UsageError("queues", queues, "are not names of queues", remedy)
            if len(set(queues)) < len(queues):
                raise UsageError("queues", queues, "name one twice", "name each once")
        if not isinstance(limits, Mapping):
            remedy = "give how many slots by queue, such as {'mail': 2}"
            raise UsageError("queue_limits", limits, "is not a mapping", remedy)
        for queue, limit in limits.items():
            _require_limit(f"queue_limits[{queue}]", limit, 1)


def _require_limit(name: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        remedy = f"give a whole number, {least} or more"
        raise UsageError(name, value, "is not a limit", remedy)
