"""Decides what to claim next and when; starts the claimed runs.

`ReservedLanes` keeps the other lanes alive. Live runs come first, so a queue that is never empty
would leave nothing to catch-up and backfills. During such a burst, one of a few claims begins with
another lane. The runs that these claims bring hold at most an eighth of the slots, so that long
runs do not fill the worker.

`Claimer` is notified when a run is queued. In case a notification is lost, it also polls: soon
after it was busy, and less often the longer the queues are empty. All workers receive the
notifications of all queues, so a worker that is repeatedly notified in vain responds with growing
delay.

`CallBudget` batches calls, because a call costs the store about as much for one run as for fifty.
While runs come and go all the time, the worker waits for a few of them. After a quiet moment it
sends everything at once. Ends wait longer than claims, since ends sent together with the next
claim cost next to nothing.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle
from typing import TYPE_CHECKING, NamedTuple

from duly.domain.enums import Lane, TaskKind
from duly.domain.outcomes import Failed
from duly.engine.executors.executor import BatchExecutor
from duly.engine.executors.results import error_text
from duly.engine.executors.task_output import ids_of
from duly.engine.spans import attempt_span, queued_span
from duly.engine.worker.attempt import RunningAttempt, StopCause, StopRequest
from duly.engine.worker.slots import AheadRun
from duly.store.ports.execution import ClaimRuns
from duly.telemetry import RunStarted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from duly.domain.ids import RunId
    from duly.engine.executors.executor import AttemptWork, Executor, Runnable
    from duly.engine.worker.active_attempts import ActiveAttempts
    from duly.engine.worker.admission import WorkerAdmission
    from duly.engine.worker.attempt import TimeLimits
    from duly.engine.worker.context import WorkerContext
    from duly.engine.worker.reporter import Ask
    from duly.engine.worker.slots import ClaimRoom, SlotPool
    from duly.engine.worker.unknown_tasks import MissingTasks
    from duly.store.ports.dispatch import MemberId
    from duly.store.ports.execution import Claimed, ClaimedRun, ClaimRef
    from duly.telemetry.tracing import Tracing


CLAIMS_APART = 4
"""Of so many claims in a crowd one begins with another lane; those for the newest are not counted,
which come in between."""
SHARE = 8
"""One slot of so many is reserved, and one at least."""


class ReservedLanes:
    """Remembers whose turn it is, and what runs by that."""

    def __init__(self, slots: int) -> None:
        self._slots_max = max(1, slots // SHARE)
        self._turns = cycle((Lane.CATCH_UP, Lane.BACKFILL))
        self._claims = 0
        self._taken: set[RunId] = set()

    def order(self, order: ClaimRuns, held: Iterable[ClaimRef]) -> ClaimRuns:
        """Return a claim in a crowd: as it is, or as one for another lane, if it is its turn."""
        self._claims += 1
        if self._claims < CLAIMS_APART:
            return order
        self._claims = 0
        self._taken &= {one.run_id for one in held}
        limit = min(order.limit, self._slots_max - len(self._taken))
        return replace(order, first_lane=next(self._turns), limit=limit) if limit > 0 else order

    def note(self, order: ClaimRuns, runs: Sequence[ClaimedRun]) -> None:
        """Remember what a claim has brought, if it was one for another lane."""
        if order.first_lane is not Lane.LIVE:
            self._taken.update(claimed.run_id for claimed in runs if not claimed.is_live)


_DRAW_BYTES = 2
_DRAWN = 1 << 8 * _DRAW_BYTES


@dataclass(slots=True)
class _TaskStart:
    """How runs of one task that were claimed together are started."""

    runnable: Runnable
    pool: SlotPool
    crowd: list[AttemptWork]
    """Those that its executor is to start, whichever of its tasks they are of."""
    has_own_limits: bool
    """Whether the limits of each depend on when its run was first begun."""
    is_asked: bool
    """Whether the store may have to say first that they may begin."""
    is_calling: bool
    """Whether their code calls a destination."""
    is_watched: bool = False


class _Asked(NamedTuple):
    """A claim that the store was asked for."""

    order: ClaimRuns
    answer: Callable[[], Claimed]
    """Waits for it."""
    before: int
    """When it was asked, on the monotonic clock."""


class ClaimCallbacks(NamedTuple):
    """What a worker does while a claim is on its way."""

    may_follow: Callable[[], bool]
    """Says whether nothing else is to be done first, and another claim may be sent."""
    goes_on: Callable[[], None]


class Claimer:
    """Asks for runs, and starts them."""

    def __init__(  # noqa: PLR0913, PLR0917 - the parts that it works with
        self,
        parts: WorkerContext,
        holdings: ActiveAttempts,
        limits: TimeLimits,
        missing: MissingTasks,
        admission: WorkerAdmission,
    ) -> None:
        self._parts = parts
        self._holdings = holdings
        self._limits = limits
        self._missing = missing
        self._admission = admission
        self._starts = {kind: _start_of(one) for kind, one in parts.executors.items()}
        self.is_barred = False
        """Whether people have put the worker into quarantine."""
        self._rotation = 0
        self.is_more = False
        """Whether the last claim brought as many as there was room for."""
        self._takes_newest = False
        """Whether the next claim begins at the other end: every second while there is a crowd, so
        that nobody waits for all of it, and who has waited longest gets half."""
        self._served: dict[str, str] = {}
        """While there is a crowd: whom of its tenants each queue has served last."""
        self._lanes = ReservedLanes(parts.settings.slots_of(TaskKind))
        self._poll_at = 0
        self._poll_us = parts.settings.poll_min_us
        self._vain_at: int | None = None
        """When we last got nothing, on the monotonic clock; None if we got something since,"""
        self._apart_us = 0
        """and for how long from then on ringing does not make us ask again."""

    @property
    def is_limited(self) -> bool:
        """Whether an end may make room in a queue, though there was room before."""
        return bool(self._parts.settings.queue_limits)

    def next_at(self) -> int | None:
        """Return when to ask, on the monotonic clock; None while there is no room."""
        return self._poll_at if not self.is_barred and self._room().limit > 0 else None

    def is_due(self, monotonic: int) -> bool:
        """Say whether there is room, it is time to ask, and nobody has ordered other."""
        return not self.is_barred and monotonic >= self._poll_at and self._room().limit > 0

    def wake(self) -> None:
        """Ask as soon as is fit: something may have been queued."""
        fit_at = 0 if self._vain_at is None else self._vain_at + self._apart_us
        self._poll_at = min(self._poll_at, fit_at)

    def claim(self, worker: MemberId, monotonic: int, ask: Ask, meanwhile: ClaimCallbacks) -> bool:
        """Take runs if there is room and it is time; False when we are no member any more.

        `ask` brings the order to the store. In a crowd the next runs are on their way while those
        that were taken are begun, and something else is done `meanwhile`.
        """
        if not self.is_due(monotonic):
            return True
        # Said before it is asked: what fails is not asked again at once.
        self._poll_at = monotonic + self._poll_us
        order = self._order(worker, self._room())
        asked = _Asked(order, partial(ask, order), self._parts.clock.monotonic_us())
        for rounds in reversed(range(self._parts.settings.claims_ahead_max + 1)):
            claimed = self._heard(asked, monotonic)
            if not claimed.is_alive:
                return False
            following = None
            try:
                if rounds and meanwhile.may_follow() and self._is_plain(claimed):
                    following = self._begin_next(worker, len(claimed.runs))
            finally:
                self._begin(worker, claimed, following, meanwhile.goes_on)
            if following is None:
                return True
            asked = following
        raise AssertionError("nothing follows the last one")

    def _begin(
        self,
        worker: MemberId,
        claimed: Claimed,
        following: _Asked | None,
        goes_on: Callable[[], None],
    ) -> None:
        """Begin what was taken, and do what there is while the next claim is on its way.

        If that fails, what is on its way is heard all the same: nobody else would.
        """
        try:
            if claimed.runs:
                self._start_all(worker, claimed.runs)
            if following is not None:
                goes_on()
        except Exception:
            if following is not None:
                # What can't be heard now comes back with the next beat.
                with suppress(Exception):
                    self._start_all(worker, self._heard(following, following.before).runs)
            raise

    def _heard(self, asked: _Asked, monotonic: int) -> Claimed:
        """Wait for an answer, and learn from it when to ask again, and for what."""
        claimed = asked.answer()
        self._parts.time.hear(asked.before, claimed.now)
        if claimed.is_alive:
            self._note(asked.order, claimed, monotonic)
        return claimed

    def _note(self, order: ClaimRuns, claimed: Claimed, monotonic: int) -> None:
        count, is_known = len(claimed.runs), self._parts.runnable
        self._parts.statistics.claimed += count
        unknown = {task for task in {run.task for run in claimed.runs} if is_known(task) is None}
        taken = count - sum(run.task in unknown for run in claimed.runs) if unknown else count
        self._pace(monotonic, taken, order.limit)
        self._take_turns(claimed)
        self._lanes.note(order, claimed.runs)
        if not order.without:
            self._holdings.slots.note_claim(self._kinds_of(claimed.runs))
        if claimed.is_followed:
            # Soon: it may be too much for the room there is just now.
            self._poll_us, self._poll_at = self._parts.settings.poll_min_us, 0
        if count and not taken:
            # Behind them there may be others. They do not come back at once: each is put off, or
            # its task is passed over.
            self._poll_us, self._poll_at = self._parts.settings.poll_min_us, monotonic

    def _kinds_of(self, runs: Sequence[ClaimedRun]) -> Iterator[TaskKind]:
        for claimed in runs:
            runnable = self._parts.runnable(claimed.task)
            if runnable is not None:
                yield runnable.kind

    def _is_plain(self, claimed: Claimed) -> bool:
        """Say whether a claim from a crowd is such that more may be taken before its runs begin."""
        is_more = self.is_more or (claimed.is_followed and bool(claimed.runs))
        if not is_more or self.is_limited:
            return False
        runnables = [self._parts.runnable(task) for task in {run.task for run in claimed.runs}]
        return all(one is not None and not self._admission.concerns(one) for one in runnables)

    def _begin_next(self, worker: MemberId, coming: int) -> _Asked | None:
        """Ask for what comes after so many that have not begun, if there is room for it."""
        room, begin_claim = self._room(coming), self._parts.begin_claim
        if room.limit < self._parts.settings.claim_most:
            # Only then: the store has nothing to do for us in the meantime.
            self._holdings.collect()
            self.begin_ahead(worker)
            room = self._room(coming)
        if room.limit <= 0 or begin_claim is None:
            return None
        order, before = self._order(worker, room), self._parts.clock.monotonic_us()
        return _Asked(order, begin_claim(order), before)

    def admit(self, worker: MemberId) -> None:
        """Begin those of the limited runs that may; the others' slots are free at once."""
        if self._holdings.unadmitted:
            self._start_all(worker, self._admission.ask(worker), is_admitted=True)

    def begin_ahead(self, worker: MemberId) -> None:
        """Begin what was claimed ahead, as far as there are slots now."""
        runs = self._holdings.take_ahead(worker)
        if runs:
            self._start_all(worker, runs)

    def _room(self, coming: int = 0) -> ClaimRoom:
        """Return how many to claim, when so many are coming already."""
        free, monotonic = self._holdings.free(), self._parts.clock.monotonic_us()
        room = self._holdings.slots.room(free, monotonic, self._holdings.unbegun)
        return room._replace(limit=room.limit - coming)

    def _order(self, worker: MemberId, room: ClaimRoom) -> ClaimRuns:
        settings = self._parts.settings
        limits = dict(settings.queue_limits)
        if limits:
            for queue, count in self._holdings.by_queue().items():
                if queue in limits:
                    limits[queue] = max(0, limits[queue] - count)
        order = ClaimRuns(
            worker=worker,
            limit=min(room.limit, settings.claim_most),
            queues=settings.queues,
            queue_limits=limits,
            rotation=self._rotation,
            without=self._missing.served_elsewhere() | self._tasks_of(room.full),
            newest_first=self._takes_newest,
            served=self._served,
        )
        is_turn = self.is_more and not self._takes_newest
        return self._lanes.order(order, self._holdings.holds(worker)) if is_turn else order

    def _tasks_of(self, kinds: frozenset[TaskKind]) -> frozenset[str]:
        """Return the tasks of kinds that there is no room for: others are not to wait for them."""
        if not kinds:
            return frozenset()
        known = (self._parts.runnable(name) for name in self._parts.catalogue.names())
        return frozenset(one.name for one in known if one is not None and one.kind in kinds)

    def _take_turns(self, claimed: Claimed) -> None:
        """Let another queue and other tenants be first; the newest come where the oldest did."""
        if self._takes_newest:
            return
        self._rotation += 1
        is_crowd = self._poll_at == 0
        self._served = {**self._served, **claimed.served} if is_crowd else {}

    def _pace(self, monotonic: int, got: int, asked: int) -> None:
        """Decide when to look again: at once while there is more than we had room for."""
        settings = self._parts.settings
        self._note_vain(monotonic, is_vain=not got)
        was_newest = self._takes_newest
        self.is_more = got == asked
        self._takes_newest = self.is_more and not was_newest
        if self.is_more or was_newest:
            self._poll_us = settings.poll_min_us
            self._poll_at = 0
            return
        self._poll_us = settings.poll_min_us if got else self._poll_us
        draw = int.from_bytes(self._parts.draws.draw(_DRAW_BYTES))
        # Not all workers of a fleet at the same moment.
        self._poll_at = monotonic + self._poll_us // 2 + self._poll_us * draw // _DRAWN // 2
        self._poll_us = min(2 * self._poll_us, settings.poll_max_us)

    def _note_vain(self, monotonic: int, *, is_vain: bool) -> None:
        settings = self._parts.settings
        least = settings.claim_apart_us
        last, self._vain_at = self._vain_at, monotonic if is_vain else None
        is_again = last is not None and monotonic - last <= 2 * max(self._apart_us, least)
        if is_vain and is_again:
            self._apart_us = min(max(2 * self._apart_us, least), settings.poll_min_us)
        else:
            self._apart_us = 0

    def _start_all(
        self, worker: MemberId, runs: Sequence[ClaimedRun], *, is_admitted: bool = False
    ) -> None:
        """Hand runs to their executors, but for those whose task is unknown.

        Limited ones are kept until the store lets them begin, and stand in nobody's way. Those that
        there is no slot for wait for one.
        """
        free = self._holdings.free()
        holdings, has_listener = self._holdings, self._parts.is_listening(RunStarted)
        workshop, running = holdings.workshop(worker), holdings.running
        monotonic = self._parts.clock.monotonic_us()
        admission, ways, tracing = (
            self._admission,
            dict[str, _TaskStart | None](),
            self._parts.tracing,
        )
        crowds: dict[TaskKind, list[AttemptWork]] = {}
        for claimed in runs:
            task = claimed.task
            way = ways[task] if task in ways else ways.setdefault(task, self._way(task, crowds))
            if way is None:
                holdings.unknown.append(claimed)
                continue
            free[way.pool] -= 1
            if free[way.pool] < 0:
                way.pool.ahead.append(AheadRun(claimed, monotonic))
                continue
            if way.is_asked and not is_admitted and admission.is_limited(claimed, way.runnable):
                holdings.unadmitted.append(claimed)
                continue
            held = RunningAttempt(workshop, claimed, way.runnable, monotonic)
            if way.is_calling:
                held.is_calling = True
            running[held] = None
            way.pool.taken += 1
            if tracing is not None:
                _trace(tracing, held)
            if not way.is_watched and self._is_late(held):
                continue
            # Those of one task that are handed over together have their limits together.
            way.is_watched = not way.has_own_limits
            if has_listener:
                self._tell(held)
            way.crowd.append(held)
        for kind, crowd in crowds.items():
            self._starts[kind](crowd)

    def _way(self, task: str, crowds: dict[TaskKind, list[AttemptWork]]) -> _TaskStart | None:
        """Return how runs of a task are started; None when we do not know it."""
        runnable = self._parts.runnable(task)
        if runnable is None:
            return None
        return _TaskStart(
            runnable,
            self._holdings.slots.of(runnable.kind),
            crowds.setdefault(runnable.kind, []),
            has_own_limits=runnable.policy.run_timeout_us is not None,
            is_asked=self._admission.concerns(runnable),
            is_calling=runnable.limits.destination is not None,
        )

    def _is_late(self, held: RunningAttempt) -> bool:
        """Say whether a run's own time was up before we got it; if not, watch over its limits."""
        limit = held.limit()
        if limit is not None and limit.at <= held.handed_at:
            held.stopping = StopRequest(StopCause.LIMIT, held.handed_at, limit.end())
            self._holdings.settle(held)
            return True
        self._limits.watch(held, held.handed_at)
        return False

    def _tell(self, held: RunningAttempt) -> None:
        event = RunStarted(
            member=int(held.worker),
            **ids_of(held.claimed),
        )
        self._parts.emit(event)


def _trace(tracing: Tracing, held: RunningAttempt) -> None:
    """Begin an attempt's span, and tell its run's first one if nobody else does."""
    queued, claimed = queued_span(held.claimed), held.claimed
    if queued is not None:
        began_at = claimed.record.fired_at or claimed.record.created_at
        tracing.tell([queued], began_at, claimed.claimed_at)
    held.trace = tracing.begin_attempt(attempt_span(claimed, held.worker))


def _start_of(executor: Executor) -> Callable[[list[AttemptWork]], None]:
    """Return how an executor begins works: in one go, if it can."""
    if isinstance(executor, BatchExecutor):
        return partial(_start_together, executor)
    return partial(_start_each, executor)


def _start_together(executor: BatchExecutor, works: list[AttemptWork]) -> None:
    try:
        executor.start_all(works)
    except Exception as error:  # noqa: BLE001 - a defect of an executor is its runs', not ours
        for work in works:
            work.ended(Failed(error_text(error)))


def _start_each(executor: Executor, works: list[AttemptWork]) -> None:
    for work in works:
        try:
            executor.start(work)
        except Exception as error:  # noqa: BLE001 - as above, of this one alone
            work.ended(Failed(error_text(error)))


AT_ONCE_MAX = 10
"""How many calls are made without a pause, after a quiet moment."""
ENDS_ALONE = 4
"""For how many calls one counts that only tells of ends."""
CROWD = 200
"""So many runs are worth a call of their own at any time."""


class CallBudget:
    """A bucket of calls, which fills up again by one each time."""

    def __init__(self, every_us: int) -> None:
        self._every_us = every_us
        self._full_at = 0
        """When the bucket is full again, on the monotonic clock."""

    @property
    def claim_at(self) -> int:
        """When the next claim is fit, on the monotonic clock."""
        return self._full_at - (AT_ONCE_MAX - 1) * self._every_us

    @property
    def end_at(self) -> int:
        """When ends may be told without a claim."""
        return self._full_at - (AT_ONCE_MAX - ENDS_ALONE) * self._every_us

    def note(self, monotonic: int, count: int, *, is_more: bool, is_claim: bool) -> None:
        """Count a call about so many runs; one that was worth it, or before more of them, is free.

        Whoever has few slots, and short runs to do, is not to wait between them.
        """
        if count < CROWD and not is_more:
            calls = 1 if is_claim else ENDS_ALONE
            self._full_at = max(self._full_at, monotonic) + calls * self._every_us
