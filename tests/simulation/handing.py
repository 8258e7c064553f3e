"""Hand-overs: dispatchers offer what is due to workers, by mail that gets lost, doubled and old.

Both engines are the shipped ones; the mail between them, and who waits for it, is made here. The
statement that a worker sends is one call of the world, which fires and claims at once: on memory it
is put together from the shipped fire and the shipped claim, on PostgreSQL it is the shipped one.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from duly.engine.dispatcher.settings import DispatcherSettings
from duly.errors import StoreUnavailable
from duly.store.memory import MemoryStore, execution, firing, ownership
from duly.store.memory.attempts import call_of
from duly.store.ports.dispatch import (
    FireDelayed,
    FireOnTime,
    FirePlanned,
    FireResult,
    FireRetry,
    FireTimers,
)
from duly.store.postgres.claiming import is_plain
from duly.store.postgres.fire_batch import Batch
from duly.store.postgres.handing import KEPT_US
from tests.simulation.recipe import SECOND

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Sequence
    from random import Random

    from duly.engine.worker import WorkerSettings
    from duly.store.memory.tables import Journal
    from duly.store.ports.dispatch import Fired, FireSchedule, Timer
    from duly.store.ports.execution import Claimed, ClaimRuns, FinishAttempt, Finished
    from tests.simulation.nodes import Node
    from tests.simulation.recipe import Recipe
    from tests.simulation.world import World

    Item: TypeAlias = FireSchedule | FireDelayed | FireRetry

OFFERING_SHARE = 0.4
"""Of the dispatchers, those that offer what is due."""
TAKING_SHARE = 0.7
"""Of the workers, those that take offers."""
PATIENT_SHARE = 0.6
"""Of those, the ones that keep an offer however long they have no room for it."""
LOST, TWICE, LATE = 0.1, 0.15, 0.1
"""So often mail gets lost, is put twice, comes late."""
LATE_US = (50_000, 500_000, 2 * SECOND, 8 * SECOND, 20 * SECOND)
USUAL_US = (30, 300)
DYING = 0.05
"""So often a dispatcher ends when it has made an offer:"""
GONE_US = (SECOND, 6 * SECOND, 8 * SECOND)
"""for so long, which may be longer than its membership lasts."""
WAITED_US = (1000, 5000, 20_000, 200_000)
"""How long answers are waited for."""
LOOK_US, LOOK_MAX_US = 100, 10_000
KEPT_MAX = 16
SOMETIMES = (
    "hand-overs",
    "hand-overs after all",
    "hand-overs in vain",
    "hand-overs of who was gone",
    "hand-overs partly queued",
    "hand-overs refused",
    "hand-overs refused: stale fence",
    "hand-overs refused: stale fence, and due",
    "hand-overs under way together",
    "offers heard twice",
    "offers lost",
    "offers unanswered",
    "runs handed over",
)
"""What must really have happened: otherwise the absence of violations proves nothing."""


@dataclass(eq=False, slots=True)
class Offer:
    """Timers that a dispatcher would have somebody else fire."""

    command: FireTimers
    """Of delayed runs alone, in the order of their ids."""
    placed: list[tuple[int, Timer]]
    """The same, with their places in the batch of which they are."""
    sender: Node
    start: int
    """Which of its node's processes has sent it."""
    put_at: int = 0
    times: int = 0
    """How often it was carried out."""
    has_listener: bool = False
    """Whether the dispatcher knows what has become of it:"""
    answer: Handed | None = None
    """None if it was refused."""
    is_given_up: bool = False

    @property
    def is_senders(self) -> bool:
        """Say whether the process that has sent it is still there."""
        return self.sender.is_alive and self.sender.starts == self.start


class Handed(NamedTuple):
    """What the store did with an offer that a worker has brought to it."""

    now: int
    fired: tuple[bool, ...] | None
    """Of each timer, whether it has fired; None if all of it was refused."""
    claimed: Claimed | None
    """None when the worker has to claim by another call."""


class Mailbox:
    """What was offered to one process of a worker's."""

    def __init__(self, hands: Hands, node: Node, *, is_patient: bool) -> None:
        self.start = node.starts
        self.offers: deque[Offer] = deque()
        self._hands = hands
        self._world = node.world
        self._is_patient = is_patient

    def put(self, offer: Offer) -> None:
        """Keep an offer, if there is a place for it."""
        offer.put_at = self._world.true_at
        if len(self.offers) < KEPT_MAX:
            self.offers.append(offer)
        else:
            self._hands.answer(offer, None)

    def take(self, order: ClaimRuns) -> Offer | None:
        """Return the oldest offer, if an order is one that goes with it."""
        offers = self.offers
        if not is_plain(order):
            self._refuse(len(offers))
        while offers and self._is_too_old(offers[0], order):
            self._refuse(1)
        fits = offers and len(offers[0].placed) <= order.limit
        return offers.popleft() if fits else None

    def _is_too_old(self, offer: Offer, order: ClaimRuns) -> bool:
        is_kept = self._is_patient and len(offer.placed) <= order.limit
        return not is_kept and self._world.true_at - offer.put_at > KEPT_US

    def _refuse(self, count: int) -> None:
        for _ in range(count):
            self._hands.answer(self.offers.popleft(), None)


class Hands:
    """The mail of a world: who offers, who takes, and what is on its way."""

    def __init__(self, world: World) -> None:
        self.recipe = recipe = world.recipe
        store = world.store
        self.offering = _offering(recipe)
        """By its number, the draws of each dispatcher that offers;"""
        self.taking = _taking(recipe)
        """and of each worker that takes."""
        can_be = isinstance(store, MemoryStore) or hasattr(store, "fire_and_claim")
        self.is_any = can_be and bool(self.offering and self.taking)
        if not self.is_any:
            self.offering, self.taking = {}, {}
        self._boxes: dict[Node, Mailbox] = {}
        self._draws = recipe.stream("mail")
        self._world = world

    def open(self, node: Node, *, is_patient: bool) -> Mailbox:
        """Return a new mailbox for the process that a node has just started."""
        box = self._boxes[node] = Mailbox(self, node, is_patient=is_patient)
        return box

    def takers(self) -> list[Node]:
        """Return the workers that take offers now."""
        return [node for node in self._boxes if self._box(node) is not None]

    def send(self, offer: Offer, taker: Node, late_us: int = 0) -> None:
        """Put an offer on its way; now and then it comes twice, late, or not at all."""
        if self._happens("lost-wakeup", LOST):
            self._world.counts["offers lost"] += 1
            return
        times = 2 if self._happens("slow-request", TWICE) else 1
        for _ in range(times):
            self._world.after(late_us + self._delay_us(), partial(self._deliver, offer, taker))

    def answer(self, offer: Offer, answer: Handed | None) -> None:
        """Tell a dispatcher what has become of an offer, if that arrives."""
        if self._happens("lost-reply", LOST):
            self._world.counts["answers lost"] += 1
            return
        self._world.after(self._delay_us(), partial(_hear, offer, answer))

    def _deliver(self, offer: Offer, taker: Node) -> None:
        box = self._box(taker)
        if box is None:
            return
        box.put(offer)
        for wakeups in taker.wakeups:
            taker.wake(wakeups)

    def _box(self, node: Node) -> Mailbox | None:
        box = self._boxes[node]
        return box if node.is_alive and box.start == node.starts else None

    def _happens(self, kind: str, share: float) -> bool:
        is_possible = self._world.recipe.has(kind) and not self._world.weather.is_calm
        return is_possible and self._draws.random() < share

    def _delay_us(self) -> int:
        if self._happens("slow-request", LATE):
            return self._draws.choice(LATE_US)
        return self._draws.randint(*USUAL_US)


def has_hand_overs(recipe: Recipe) -> bool:
    """Say whether somebody offers in a world, and somebody takes."""
    return bool(_offering(recipe) and _taking(recipe))


def _offering(recipe: Recipe) -> dict[int, Random]:
    return _drawn(recipe, "hand", recipe.dispatchers, OFFERING_SHARE)


def _taking(recipe: Recipe) -> dict[int, Random]:
    return _drawn(recipe, "take", recipe.workers, TAKING_SHARE)


def _drawn(recipe: Recipe, purpose: str, count: int, share: float) -> dict[int, Random]:
    """Return the draws of those that are of a share, by their numbers."""
    streams = {number: recipe.stream(f"{purpose}{number}") for number in range(count)}
    return {number: draws for number, draws in streams.items() if draws.random() < share}


def _hear(offer: Offer, answer: Handed | None) -> None:
    # Of two answers the first counts, as to who waits for one.
    if offer.is_senders and not offer.has_listener:
        offer.has_listener, offer.answer = True, answer


# What a dispatcher does


def offering_settings(draws: Random) -> DispatcherSettings:
    """Return the settings of one that fires so few at a time that a handful is a crowd."""
    return DispatcherSettings(
        batch_first=draws.choice((1, 1, 2)),
        batch_max=draws.choice((2, 3, 5)),
        fires_ahead_max=draws.choice((1, 2, 4)),
    )


class Offering:
    """How a dispatcher begins to fire a crowd: it offers it, and does later what nobody has done."""

    def __init__(self, node: Node, hands: Hands, draws: Random) -> None:
        self._node = node
        self._hands = hands
        self._draws = draws
        self._counts = node.world.counts
        self._under_way = 0

    def __call__(self, command: FireTimers) -> Callable[[], Fired] | None:
        """Offer delayed runs to workers; None when there are none, or nobody takes them."""
        takers, batch = self._hands.takers(), Batch(command)
        if not takers or not command.delayed:
            return None
        offers = [self._offer(command, part) for part in self._parts(batch)]
        first, late_us = self._draws.randrange(len(takers)), self._die_soon()
        for number, offer in enumerate(offers, first):
            self._hands.send(offer, takers[number % len(takers)], late_us)
        self._counts["offers"] += len(offers)
        self._under_way += 1
        self._counts["hand-overs under way together"] += self._under_way > 1
        try:
            self._fire(batch, _schedules_of(batch))
        except StoreUnavailable:
            self._under_way -= 1
            raise
        return partial(self._heard, batch, offers)

    def _die_soon(self) -> int:
        """Now and then end before anything else is done; return how late its offers come then."""
        world, node = self._node.world, self._node
        is_possible = world.recipe.has("crash") and not world.weather.is_calm
        if not is_possible or self._draws.random() >= DYING:
            return 0
        world.after(0, node.kill)
        world.after(self._draws.choice(GONE_US), node.start)
        return self._draws.choice((0, *GONE_US))

    def _parts(self, batch: Batch) -> list[list[tuple[int, Timer]]]:
        chosen = sorted(batch.open_delayed(), key=lambda placed: placed[1].ref)
        size = self._draws.choice((1, 2, len(chosen)))
        return [chosen[first : first + size] for first in range(0, len(chosen), size)]

    def _offer(self, command: FireTimers, part: list[tuple[int, Timer]]) -> Offer:
        delayed = tuple(FireDelayed(timer) for _, timer in part)
        offered = replace(command, schedules=(), delayed=delayed, retries=())
        return Offer(offered, part, self._node, self._node.starts)

    def _heard(self, batch: Batch, offers: Sequence[Offer]) -> Fired:
        """Wait for answers, and fire what is left."""
        self._under_way -= 1
        self._wait(offers)
        for offer in offers:
            offer.is_given_up = True
            self._counts["offers unanswered"] += not offer.has_listener
            self._note(batch, offer)
        self._fire(batch, [*_schedules_of(batch), *_runs_of(batch)])
        return batch.fired()

    def _wait(self, offers: Sequence[Offer]) -> None:
        left_us, step_us = self._draws.choice(WAITED_US), LOOK_US
        while left_us > 0 and not all(one.has_listener for one in offers):
            self._node.wait(step_us)
            left_us -= step_us
            step_us = min(2 * step_us, LOOK_MAX_US)

    def _note(self, batch: Batch, offer: Offer) -> None:
        """Note what somebody else has fired."""
        if offer.answer is None:
            return
        now, results, _ = offer.answer
        batch.hear_of_others(now, [*compress(offer.placed, results or ())])
        self._node.known_at = max(self._node.known_at, now)

    def _fire(self, batch: Batch, placed: list[tuple[int, Item]]) -> None:
        """Fire a part of a batch in the usual way, and note what became of it."""
        if not placed:
            return
        fires = [fire for _, fire in placed]
        command = FireTimers(
            fence=batch.command.fence,
            schedules=tuple(one for one in fires if isinstance(one, FirePlanned | FireOnTime)),
            delayed=tuple(one for one in fires if isinstance(one, FireDelayed)),
            retries=tuple(one for one in fires if isinstance(one, FireRetry)),
        )
        fired = self._node.store.fire_timers(command)
        for (place, _), result in zip(placed, fired.results, strict=True):
            batch.results[place] = result
        batch.now = fired.now
        batch.runs_made += fired.runs_made
        batch.lost.update(dict.fromkeys(fired.lost))


def _schedules_of(batch: Batch) -> list[tuple[int, Item]]:
    return [*batch.open_schedules()]


def _runs_of(batch: Batch) -> list[tuple[int, Item]]:
    """Return the timers of runs that have no result yet, as they are fired."""
    return [
        *((place, FireDelayed(timer)) for place, timer in batch.open_delayed()),
        *((place, FireRetry(timer)) for place, timer in batch.open_retries()),
    ]


# What a worker does


class TakingStore:
    """The store as a worker reaches it that takes an offer when it claims."""

    def __init__(self, node: Node, hands: Hands, mailbox: Mailbox) -> None:
        self._node = node
        self._hands = hands
        self._mailbox = mailbox

    def __getattr__(self, name: str) -> Any:
        """Return any other operation, as it is."""
        return getattr(self._node.store, name)

    def claim_runs(self, order: ClaimRuns) -> Claimed:
        """Fire and take what was offered; if that gives nothing, take what is queued."""
        offer = self._mailbox.take(order)
        claimed = None if offer is None else self._take(offer, order)
        if claimed is None:
            claimed = self._node.store.claim_runs(order)
        return replace(claimed, is_followed=bool(self._mailbox.offers))

    def finish_and_claim(
        self, finishes: Sequence[FinishAttempt], claim: ClaimRuns
    ) -> tuple[Finished, Claimed]:
        """End attempts and claim: by two calls, when something was offered."""
        store: Any = self._node.store
        if self._mailbox.offers:
            return store.finish_runs(claim.worker, finishes), self.claim_runs(claim)
        finished, claimed = store.finish_and_claim(finishes, claim)
        return finished, claimed

    def _take(self, offer: Offer, order: ClaimRuns) -> Claimed | None:
        handed = self._node.call("fire_and_claim", offer, order)
        self._hands.answer(offer, None if handed.fired is None else handed)
        claimed: Claimed | None = handed.claimed
        return claimed


def taking_settings(settings: WorkerSettings, draws: Random) -> WorkerSettings:
    """Return the settings of one that has room for offers, and seldom orders otherwise."""
    queues = settings.queues if settings.queues is None else settings.queues[:1]
    slots = draws.choice((10, 20, 40))
    return replace(settings, slots=slots, queues=queues, queue_limits={})


def taking_store(node: Node, hands: Hands, draws: Random) -> TakingStore:
    """Return the store of a process that a worker has just started."""
    mailbox = hands.open(node, is_patient=draws.random() < PATIENT_SHARE)
    return TakingStore(node, hands, mailbox)


# What the store does


class _Refused(Exception):  # noqa: N818 - undoes what was begun
    """Raised where nothing is to be written."""


def fire_and_claim(store: Any, offer: Offer, order: ClaimRuns) -> Handed:
    """Carry out an offer on the world's store, in one step."""
    offer.times += 1
    if not isinstance(store, MemoryStore):
        handed: Handed = store.fire_and_claim(offer, order)
        return handed

    def carry_out(journal: Journal) -> Handed:
        if not may_take(journal, order):
            raise _Refused
        fired = fire_handed(journal, offer.command)
        if fired.lost:
            raise _Refused
        claimed = claim_handed(journal, order)
        is_fired = tuple(one is FireResult.FIRED for one in fired.results)
        return Handed(journal.now, is_fired, claimed if claimed.runs else None)

    try:
        return store._write(carry_out)  # noqa: SLF001 - in one transaction
    except _Refused:
        return Handed(store.now(), None, None)


def may_take(journal: Journal, order: ClaimRuns) -> bool:
    """Say whether a worker is in service, and nobody else comes first."""
    tables = journal.tables
    if not ownership.may_claim(journal, order.worker) or tables.paused_queues:
        return False
    queued = {call_of(journal, tables.runs[run_id]).queue for run_id in tables.ready}
    return not (queued if order.queues is None else queued.intersection(order.queues))


def fire_handed(journal: Journal, command: FireTimers) -> Fired:
    """Fire, under the fence of who has made the offer."""
    return firing.fire_timers(journal, command)


def claim_handed(journal: Journal, order: ClaimRuns) -> Claimed:
    """Claim what has just fired."""
    return execution.claim_runs(journal, order)


def note_hand_over(counts: Counter[str], offer: Offer, handed: Handed) -> None:
    """Count what has become of an offer that was carried out."""
    counts["offers heard twice"] += offer.times == 2
    counts["hand-overs of who was gone"] += not offer.is_senders
    if handed.fired is None:
        counts["hand-overs refused"] += 1
        return
    offered = {timer.ref for _, timer in offer.placed}
    runs = () if handed.claimed is None else handed.claimed.runs
    fired, taken = sum(handed.fired), sum(run.run_id in offered for run in runs)
    is_given_up = offer.is_given_up or not offer.is_senders
    counts["hand-overs"] += 1
    counts["hand-overs in vain"] += not fired
    counts["hand-overs after all"] += bool(fired) and is_given_up
    counts["hand-overs partly queued"] += taken < fired
    counts["runs handed over"] += taken
