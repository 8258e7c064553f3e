"""The ledger of work: where every run that somebody has taken up is, and what it went through.

Like the other ledger it is written from commands and answers alone, at the moment they are carried
out, so that it can be laid beside the store's tables in the end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from duly.domain.enums import RunState

if TYPE_CHECKING:
    from duly.domain.enums import AttemptState
    from duly.domain.ids import RunId, ScheduleId
    from duly.domain.runs import AttemptCounts
    from duly.domain.schedules import Definition
    from duly.store.ports.dispatch import MemberId


@dataclass(eq=False, slots=True)
class RunNote:
    """One run: its place, its numbers, and how each of its claims has ended."""

    id: RunId
    task: str = ""
    queue: str = ""
    state: RunState = RunState.QUEUED
    """Its place while it is open, and then its outcome."""
    fence: int = 0
    attempt: int = 0
    charged: int = 0
    begun_at: int | None = None
    worker: MemberId | None = None
    """Whose it is while it is running."""
    claimed_at: int = 0
    is_cancel_asked: bool = False
    due_at: int = 0
    """While it waits: when its next attempt falls due."""
    spacing_us: int = 0
    """If nobody can say which slot its task's calendar has for it then: how far apart they are."""
    not_before: int = 0
    """By the observer's word: it may not be claimed before this, unless a person orders it."""
    queued_at: int = 0
    ended: dict[int, tuple[MemberId, AttemptState]] = field(default_factory=dict)
    """By fence: whose claim it was, and how it ended."""
    free: set[int] = field(default_factory=set)
    """Claims that cost nothing of the budget."""
    orders: dict[int, int] = field(default_factory=dict)
    """By fence: how often a person had given the run a fresh budget when it was claimed."""
    retried: int = 0
    late: set[int] = field(default_factory=set)
    """Claims of which a word came too late, and was refused."""
    checkpoints: dict[str, str] = field(default_factory=dict)
    schedule_id: ScheduleId | None = None
    definition: Definition | None = None
    """Of its schedule, when it was made."""
    priority: int = 0
    """Its own, and what its lane adds."""
    gate: str | None = None
    """Which it holds or waits at."""
    replaced_by: RunId | None = None
    """For whom it was asked to make way."""
    into: RunId | None = None
    """Who stands for it."""
    first: RunId | None = None
    """Whose effects it goes on with, as a repair or a backfill of what failed."""

    @property
    def line(self) -> RunId:
        """The run under which effects are kept that it shares."""
        return self.id if self.first is None else self.first

    @property
    def is_over(self) -> bool:
        """Say whether it has an outcome."""
        return self.state not in OPEN

    def is_held(self, worker: MemberId, fence: int) -> bool:
        """Say whether a claim is the one that holds it."""
        return self.state is RunState.RUNNING and (self.worker, self.fence) == (worker, fence)

    def claim(self, worker: MemberId, tries: AttemptCounts, now: int) -> None:
        """Give it to a worker."""
        self.state, self.worker, self.claimed_at = RunState.RUNNING, worker, now
        self.fence, self.attempt, self.begun_at = tries.fence, tries.attempt, tries.begun_at
        self.orders[self.fence] = self.retried

    def begin_anew(self, now: int) -> None:
        """Put it back into its queue with a fresh budget, by a person's order."""
        self.charged, self.begun_at, self.not_before = 0, None, 0
        self.retried += 1
        self.queue_again(now)

    def queue_again(self, now: int) -> None:
        """Put it back into its queue."""
        self.state, self.worker, self.queued_at = RunState.QUEUED, None, now


OPEN = frozenset(
    (
        RunState.BLOCKED,
        RunState.QUEUED,
        RunState.RUNNING,
        RunState.RETRYING,
        RunState.DEAD,
        RunState.AMBIGUOUS,
    )
)
