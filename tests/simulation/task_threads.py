"""Strands: threads and child processes of a node, each a greenlet that runs a task's code.

A strand shares its node's fate: it stands still with it and dies with it. What it asks of the store
takes its own time, while the node's own loop goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import greenlet  # type: ignore[import-untyped]

from tests.simulation.world import Call

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.simulation.nodes import Node, NodeClock
    from tests.simulation.world import World


class Ended(greenlet.GreenletExit):  # type: ignore[misc]
    """Thrown into a strand that ends where it stands."""


class Strand:
    """One thread of a process: what it runs, and whether it waits or is over."""

    def __init__(self, node: Node, code: Callable[[Strand], None]) -> None:
        self.node = node
        self._code = code
        self._turn = 1
        self._is_asleep = False
        self._interruption: BaseException | None = None
        self._greenlet = greenlet.greenlet(self._run, parent=node.world.hub)
        node.strands[self._greenlet] = self
        node.world.after(0, lambda: self.resume(1))

    @property
    def world(self) -> World:
        """Return the world that its node is in."""
        return self.node.world

    @property
    def name(self) -> str:
        """Return its node's name."""
        return self.node.name

    @property
    def clock(self) -> NodeClock:
        """Return its node's clock."""
        return self.node.clock

    @property
    def cut_until(self) -> int:
        """Return until when its node is cut off."""
        return self.node.cut_until

    @property
    def is_over(self) -> bool:
        """Say whether it has ended, in whichever way."""
        return self._greenlet not in self.node.strands

    def perform(self, call: Call) -> Any:
        """Carry out a call that has arrived."""
        return self.node.perform(call)

    def call(self, operation: str, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        """Send a call to the store and wait for its reply."""
        known_at = self.node.known_at
        call = Call(self, self._turn, operation, arguments, None, known_at, None, named=named)  # type: ignore[arg-type]
        self.world.send(call)
        return self.world.hub.switch()

    def sleep(self, duration_us: int) -> None:
        """Let time pass; whatever interrupts the strand is raised here."""
        if self._interruption is None:
            turn = self._turn
            self._is_asleep = True
            self.world.after(self.clock.true_after_us(duration_us), lambda: self.resume(turn))
            self.world.hub.switch()
        error, self._interruption = self._interruption, None
        if error is not None:
            raise error

    def interrupt(self, error: BaseException) -> None:
        """Let an error be raised where it sleeps, or will sleep next."""
        self._interruption = error
        self.rouse()

    def rouse(self) -> None:
        """End its sleep, if it sleeps."""
        if self._is_asleep:
            turn = self._turn
            self.world.after(0, lambda: self.resume(turn))

    def resume(self, turn: int, value: object = None, error: Exception | None = None) -> None:
        """Go on after a wait, unless that is over already; later, when the node stands still."""
        if turn != self._turn or self.is_over:
            return
        node = self.node
        if self.world.true_at < node.paused_until:
            self.world.at(node.paused_until, lambda: self.resume(turn, value, error))
            return
        self._turn += 1
        self._is_asleep = False
        if error is not None:
            self._greenlet.throw(error)
        else:
            self._greenlet.switch(value)

    def end(self) -> None:
        """End it where it stands."""
        if self.is_over:
            return
        del self.node.strands[self._greenlet]
        self._turn += 1
        # Whoever ends it goes on here, be that the world or another strand of it.
        self._greenlet.parent = greenlet.getcurrent()
        self._greenlet.throw(Ended)

    def _run(self, *_: object) -> None:
        try:
            self._code(self)
        except Ended:
            return
        self.node.strands.pop(self._greenlet, None)
