"""Watching: the shipped watcher and courier on nodes of the world, what they see, whom they tell.

Most conditions are what the world makes by itself. Those of destinations are drawn from the seed,
so that it is known outside of the store when each begins and ends. Receivers stand outside as well:
what was told is what arrived there, whatever its sender believes.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import greenlet  # type: ignore[import-untyped]

from duly.domain.alert_rules import AlertKind
from duly.domain.alerts import AlertKey, Condition, DetectorResult
from duly.engine.alerts.channels import DeliveryResult
from duly.engine.alerts.delivery import AlertDeliverer
from duly.engine.alerts.fleet_detectors import DestinationDetector
from duly.engine.alerts.schedule_detectors import (
    MissingDetector,
    RotatingDetector,
    ScheduleDetector,
)
from duly.engine.alerts.watcher import Watcher, WatcherIdentity, WatcherSettings, usual_detectors
from duly.engine.loop import Loop
from duly.errors import STORE_AWAY
from duly.store.wakeups import LocalWakeups
from tests.simulation.dispatching import Listener, TimedService
from tests.simulation.nodes import ProxyWakeups
from tests.simulation.recipe import SECOND
from tests.simulation.task_threads import Strand

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.domain.alert_channels import ChannelConfig
    from duly.domain.alert_messages import AlertNotice
    from duly.engine.alerts.channels import Channel
    from duly.engine.alerts.schedule_detectors import Detector, DetectorContext
    from duly.store.ports.alerts import ApplyAlerts, Watched
    from tests.simulation.alert_checker import AlertChecker
    from tests.simulation.nodes import Node
    from tests.simulation.recipe import Recipe
    from tests.simulation.world import World

EVERY_MAX_US = 3 * SECOND
TTL_US = (5 * SECOND, 8 * SECOND)
SUBJECTS = tuple(f"destination {name}" for name in ("bank", "post", "press", "mint"))
LASTING_US = (SECOND // 2, 2 * SECOND, 5 * SECOND, 12 * SECOND, 30 * SECOND)
"""How long a destination is well or not, in turn."""
VALUES = (2.0, 10.0, 100.0)
BLIND_SHARE, PARTLY_SHARE = 0.12, 0.2
"""How often nothing is seen of destinations, and how often only some."""
ANSWERS = {"taken": 52, "refused": 22, "taken, unsaid": 14, "lost": 9, "for good": 3}
SENDING_US = (1000, 50_000, SECOND, 9 * SECOND)
"""How long a try takes: the last one for longer than the watch may last without a look."""
SOMETIMES = (
    "alerts noted",
    "alerts forgotten",
    "alerts raised",
    "alerts told",
    "alerts gone",
    "alerts back",
    "alerts resolved",
    "alerts silenced",
    "alerts acknowledged",
    "channels told at once",
    "deliveries given up",
    "deliveries refused",
    "event: alert-delivery-failed",
    "event: observer-failed",
    "ends that waited",
    "looks refused",
    "rounds gone on",
    "told again",
    "watches taken over",
)
"""What must really have happened: otherwise the absence of violations proves nothing."""


class Scene:
    """When each destination is well, in true time; from the calm on it stays as it was then."""

    def __init__(self, recipe: Recipe) -> None:
        self._until = recipe.start_at + recipe.seconds * SECOND
        self._turns: dict[str, list[tuple[int, float | None]]] = {}
        for subject in SUBJECTS:
            draws, at = recipe.stream(f"scene/{subject}"), recipe.start_at
            is_well, turns = draws.random() < 0.5, []
            while at < self._until:
                turns.append((at, None if is_well else draws.choice(VALUES)))
                at += draws.choice(LASTING_US)
                is_well = not is_well
            self._turns[subject] = turns

    def last_turn(self, subject: str, now: int) -> tuple[int, float | None]:
        """Return since when it is as it is, and how bad; None if it is well."""
        return [turn for turn in self._turns[subject] if turn[0] <= now][-1]


@dataclass(slots=True)
class Look:
    """One look of a watcher: what it decides upon, and what it has seen."""

    watched: Watched | None = None
    asked: int = 0
    """How many detectors were asked."""
    seen: list[DetectorResult] = field(default_factory=list)
    is_sent: bool = False


class SeenObserver:
    """An observer, and somebody who writes down what it saw."""

    def __init__(self, inner: Detector, desk: Desk) -> None:
        self._inner = inner
        self._desk = desk

    @property
    def is_round_over(self) -> bool:
        """Whether it has seen all there is, or would see it each time."""
        return not isinstance(self._inner, RotatingDetector) or self._inner.is_round_over

    def observe(self, asked: DetectorContext) -> DetectorResult:
        """Say what is so."""
        self._desk.look_begun(asked)
        try:
            found = self._inner.observe(asked)
        except STORE_AWAY:
            raise
        except Exception as error:
            self._desk.look.asked += 1
            self._desk.look_failed(self._inner, error)
            raise
        self._desk.look.asked += 1
        self._desk.look.seen.append(found)
        return found


class BlindError(Exception):
    """What an observer of destinations fails with, on purpose."""


class SceneObserver:
    """Looks at destinations, from outside; now and then it fails, or sees only some."""

    def __init__(self, world: World, scene: Scene, draws: random.Random) -> None:
        self._world = world
        self._scene = scene
        self._draws = draws

    def observe(self, asked: DetectorContext) -> DetectorResult:
        """Say which destinations are not well."""
        chance, some = self._draws.random(), self._draws.sample(SUBJECTS, 2)
        if self._world.weather.is_calm:
            chance = 1.0
        if chance < BLIND_SHARE:
            raise BlindError("nothing can be seen")
        looked_at = some if chance < BLIND_SHARE + PARTLY_SHARE else SUBJECTS
        found = [self._condition(subject, asked.now) for subject in looked_at]
        conditions = tuple(one for one in found if one is not None)
        if looked_at is SUBJECTS:
            return DetectorResult(conditions=conditions, kinds=frozenset({AlertKind.BREAKER_OPEN}))
        keys = frozenset(AlertKey(AlertKind.BREAKER_OPEN, "", subject) for subject in looked_at)
        return DetectorResult(conditions=conditions, keys=keys)

    def _condition(self, subject: str, now: int) -> Condition | None:
        _, value = self._scene.last_turn(subject, self._world.true_at)
        if value is None:
            return None
        return Condition(
            kind=AlertKind.BREAKER_OPEN,
            subject=subject,
            value=value,
            since=now,
            summary=f"{subject} is left alone",
            remedy="see to it",
        )


class Desk:
    """A store as one watcher reaches it, and what it makes of its answers."""

    def __init__(self, node: Node, checker: AlertChecker) -> None:
        self._node = node
        self._checker = checker
        self.look = Look()

    def __getattr__(self, operation: str) -> Any:
        """Return an operation of the node's store."""
        return getattr(self._node.store, operation)

    def look_begun(self, asked: DetectorContext) -> None:
        """Count looks between looks."""
        self._node.world.counts["rounds gone on"] += not asked.with_suspects

    def look_failed(self, observer: Detector, error: Exception) -> None:
        """Object to an observer that fails by itself: it would be blind in every world."""
        if not isinstance(error, BlindError):
            text = f"V3: {type(observer).__name__} can't look: {error!r}"
            self._node.world.broken = self._node.world.broken or text

    def load_watched(self) -> Watched:
        """Return what is decided upon, and keep it."""
        watched: Watched = self._node.store.load_watched()
        self.look.watched = watched
        return watched

    def apply_alerts(self, command: ApplyAlerts) -> bool:
        """Write what was decided, once it is found to be right."""
        self.look.is_sent = True
        self._checker.judge_look(self.look, command.changes)
        is_done: bool = self._node.store.apply_alerts(command)
        return is_done


class WatchService(TimedService):
    """A watcher whose ticks take a little time, and are looked at when they are over."""

    def __init__(self, node: Node, watcher: Watcher, desk: Desk, looked: Callable[[Look], None]):
        super().__init__(node, watcher)
        self._desk = desk
        self._looked = looked

    def tick(self) -> int:
        """Look once."""
        self._desk.look = Look()
        wake_at = super().tick()
        self._looked(self._desk.look)
        return wake_at


class StrandPlace:
    """Where a strand waits, in virtual time."""

    address = ""

    def __init__(self, strand: Strand) -> None:
        self._strand = strand
        self._is_woken = False

    def wait(self, timeout_us: int) -> bool:
        """Wait at most that long; True when woken."""
        if not self._is_woken:
            self._strand.sleep(timeout_us)
        is_woken, self._is_woken = self._is_woken, False
        return is_woken

    def wake(self) -> None:
        """Wake whoever waits here, or will."""
        self._is_woken = True
        self._strand.rouse()

    nudge = wake

    def close(self) -> None:
        """Let go of nothing."""


class Receiver:
    """Whoever is told: it takes a notice or not, and says so or not."""

    def __init__(self, world: World) -> None:
        self.checker: AlertChecker
        self._world = world
        self._tries: Counter[tuple[bytes, str, str]] = Counter()
        self._under_way: set[tuple[str, str]] = set()

    def send(self, node: Node, channel: str, notice: AlertNotice) -> DeliveryResult:
        """Bring a notice here; what goes to one channel goes in order."""
        way = (node.name, channel)
        if way in self._under_way:
            text = f"V3: {channel} is told two things at once by one courier"
            self._world.broken = self._world.broken or text
        self._count_others(node.name, channel)
        self._under_way.add(way)
        try:
            return self._send(node, channel, notice)
        finally:
            self._under_way.discard(way)

    def _count_others(self, name: str, channel: str) -> None:
        """Note that a courier tells one channel something while it still tells another."""
        others = any(one == name and told != channel for one, told in self._under_way)
        self._world.counts["channels told at once"] += others

    def _send(self, node: Node, channel: str, notice: AlertNotice) -> DeliveryResult:
        """Take it or not; the sender waits for what is said."""
        world, strand = self._world, node.strands[greenlet.getcurrent()]
        key = (notice.alert_id.bytes, notice.change, channel)
        self._tries[key] += 1
        draws = random.Random(f"{world.recipe.seed}/{key}/{self._tries[key]}")
        answer = draws.choices(tuple(ANSWERS), tuple(ANSWERS.values()))[0]
        length_us = draws.choice(SENDING_US)
        wait = draws.choice((None, None, timedelta(seconds=7)))
        if world.weather.is_calm:
            answer, length_us = "taken", SENDING_US[0]
        strand.sleep(length_us // 2)
        if answer.startswith("taken"):
            self.checker.receive(channel, notice)
        strand.sleep(length_us // 2)
        if answer == "taken":
            return DeliveryResult(is_done=True)
        is_final = answer == "for good"
        if is_final:
            self.checker.refused.add(key)
        return DeliveryResult(is_done=False, is_final=is_final, detail=answer, retry_after=wait)


class ScriptedChannel:
    """A channel that leads to the receiver."""

    def __init__(self, node: Node, name: str, receiver: Receiver) -> None:
        self._node = node
        self._name = name
        self._receiver = receiver

    def deliver(self, notice: AlertNotice) -> DeliveryResult:
        """Try once."""
        return self._receiver.send(self._node, self._name, notice)


def watching(recipe: Recipe, number: int, checker: AlertChecker) -> Callable[[Node], None]:
    """Return the program of one who watches, with settings of its own."""
    draws = recipe.stream(f"watcher{number}")
    settings = WatcherSettings(
        every_us=draws.choice((SECOND, 2 * SECOND, EVERY_MAX_US)),
        ttl_us=draws.choice(TTL_US),
        retry_us=SECOND,
        goes_on_us=SECOND // 4,
    )

    def watch(node: Node) -> None:
        listener, desk = Listener(node), Desk(node, checker)
        detectors: list[Detector] = [
            SceneObserver(node.world, checker.scene, draws)
            if isinstance(one, DestinationDetector)
            else one
            for one in usual_detectors()
            if not isinstance(one, ScheduleDetector | MissingDetector)
        ]
        # So few at a time that the rounds go on between looks.
        detectors += [ScheduleDetector(page=1, most=1), MissingDetector(page=1, most=1)]
        watcher = Watcher(
            desk,
            node.clock,
            WatcherIdentity(holder=draws.randbytes(16), name=node.name),
            settings,
            detectors=[SeenObserver(one, desk) for one in detectors],
            telemetry=listener,
        )
        Strand(node, lambda strand: _deliver(strand, watcher, listener, checker.receiver))
        place: Any = ProxyWakeups(node, LocalWakeups())
        service = WatchService(node, watcher, desk, lambda look: checker.look_over(node, look))
        loop = Loop(service, place, node.clock, listener)
        node.stop = loop.stop
        loop.run()

    return watch


def _deliver(strand: Strand, watcher: Watcher, listener: Listener, receiver: Receiver) -> None:
    """Run a courier beside its watcher, as its thread does, and a sender for each channel."""
    node = strand.node
    store: Any = node.store

    def open_channel(config: ChannelConfig) -> Channel:
        return ScriptedChannel(node, config.name, receiver)

    def start(work: Callable[[], None]) -> None:
        Strand(node, lambda _: work())

    courier = AlertDeliverer(store, node.clock, open_channel, listener, start=start)
    courier.fence = watcher.fence_in_time
    place: Any = StrandPlace(strand)
    watcher.on_told = courier.on_done = place.wake
    Loop(courier, place, node.clock, listener).run()
