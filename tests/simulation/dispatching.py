"""Dispatcher processes: the shipped loop around the shipped dispatcher, on a node of the world."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly.engine.dispatcher.context import Node as Surroundings
from duly.engine.dispatcher.dispatcher import Dispatcher
from duly.engine.loop import Loop
from duly.telemetry import ItemSkipped, TickFailed, WorkerRecycling
from tests.simulation.handing import Offering, offering_settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.engine.dispatcher.context import BeginFire
    from duly.engine.dispatcher.settings import DispatcherSettings
    from duly.engine.loop import Service
    from duly.telemetry import Event
    from tests.simulation.handing import Hands
    from tests.simulation.nodes import Node

TICK_US = 30
"""What a tick costs in true time: without it a process that spins would stop the world."""
IDLE_TICKS_MAX = 2000


class Listener:
    """Hears what processes tell; a tick that failed or a promise set aside is a violation."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def emit(self, event: Event) -> None:
        """Count what happens, and object to what must not."""
        self._node.world.counts[f"event: {event.name}"] += 1
        if isinstance(event, WorkerRecycling):
            self._node.is_ending = True
        if isinstance(event, TickFailed | ItemSkipped):
            self._node.world.broken = f"{self._node.name} complained: {event}"


class TimedService:
    """A dispatcher or a worker whose ticks take a little time."""

    def __init__(self, node: Node, service: Service) -> None:
        self._node = node
        self._service = service
        self._operations = 0
        self._idle_ticks = 0

    def tick(self) -> int:
        """Do a bounded amount of work; return when to be called next."""
        self._node.wait(TICK_US)
        wake_at = self._service.tick()
        self._look_for_spinning(wake_at)
        return wake_at

    def _look_for_spinning(self, wake_at: int) -> None:
        node = self._node
        is_idle = node.calls == self._operations and wake_at <= node.clock.monotonic_us()
        self._idle_ticks = self._idle_ticks + 1 if is_idle else 0
        self._operations = node.calls
        if self._idle_ticks > IDLE_TICKS_MAX:
            node.world.broken = f"INV-15: {node.name} spins: it ticks and asks for nothing"

    def wake(self) -> None:
        """Know that somebody has written something near."""
        self._service.wake()

    def stop(self) -> None:
        """End in good order."""
        self._service.stop()


def dispatching(number: int, hands: Hands) -> Callable[[Node], None]:
    """Return the program of one dispatcher: some offer to others what is due."""
    draws = hands.offering.get(number)
    if draws is None:
        return dispatch
    settings = offering_settings(draws)
    return lambda node: dispatch(node, settings, Offering(node, hands, draws))


def dispatch(
    node: Node, settings: DispatcherSettings | None = None, begin_fire: BeginFire | None = None
) -> None:
    """Run a dispatcher as its process does."""
    store: Any = node.store
    wakeups = node.store.wakeups()
    listener = Listener(node)
    surroundings = Surroundings(host=node.name, wake_address=wakeups.address)
    dispatcher = Dispatcher(
        store,
        node.clock,
        settings,
        telemetry=listener,
        node=surroundings,
        begin_fire=begin_fire,
    )
    loop = Loop(TimedService(node, dispatcher), wakeups, node.clock, listener)
    node.stop = loop.stop
    loop.run()
