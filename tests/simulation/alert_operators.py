"""Wardens: people who say what is an alert and who is told, silence some, and take note of others."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from duly.domain.alert_rules import USUAL, AlertKind, Unit, read_rule
from duly.domain.alerts import AlertState
from duly.domain.audit import Actor
from duly.errors import Conflict, NotFound, StoreUnavailable
from duly.store.ports.alerts import (
    AcknowledgeAlert,
    AlertFilter,
    AlertSettingKind,
    RemoveTerm,
    SetAlertSetting,
)
from tests.simulation.recipe import SECOND
from tests.simulation.watching import SUBJECTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.nodes import Node
    from tests.simulation.recipe import Recipe

TRIES_MAX = 4
RULED = (
    AlertKind.BREAKER_OPEN,
    AlertKind.QUEUE_AGE,
    AlertKind.QUEUE_DEPTH,
    AlertKind.NO_EXECUTIONS,
    AlertKind.LATE_RUN,
    AlertKind.DEAD_LETTERS,
    AlertKind.SEVERAL_ATTEMPTS,
    AlertKind.CLOCK_SKEW,
)
"""Of these rules are set; what holds for the others is usual."""
CHANNELS = ("ops", "night")
ACTIONS = (
    ("set_rule", 4),
    ("remove_rule", 1),
    ("silence", 6),
    ("unsilence", 2),
    ("take_note", 4),
    ("set_channel", 3),
    ("remove_channel", 2),
)
OPEN = frozenset((AlertState.OPEN,))


class Warden:
    """One who looks after alerts."""

    def __init__(self, recipe: Recipe) -> None:
        self._draws = recipe.stream("warden")
        self._actor = Actor("warden", "simulation", "to sleep well")

    def live(self, node: Node) -> None:
        """Say what is an alert, and change one's mind until the world is calm."""
        for kind in RULED:
            self._try(node, partial(self._say_rule, node, kind))
        self._try(node, partial(self._set_channel, node))
        while not node.world.weather.is_calm:
            node.wait(self._draws.randint(1000, 4 * SECOND))
            names, weights = zip(*ACTIONS, strict=True)
            action = self._draws.choices(names, weights)[0]
            self._try(node, partial(getattr(self, f"_{action}"), node))

    def _try(self, node: Node, act: Callable[[], None]) -> None:
        try:
            act()
        except (Conflict, NotFound):
            node.world.counts["refused orders"] += 1
        except StoreUnavailable:
            node.world.counts["unknown orders"] += 1

    def _set_rule(self, node: Node) -> None:
        self._say_rule(node, self._draws.choice(RULED))

    def _say_rule(self, node: Node, kind: AlertKind) -> None:
        draws = self._draws
        is_time = USUAL[kind].unit is Unit.SECONDS
        terms = {
            "kind": str(kind),
            "threshold": draws.choice((0.1, 5, 20) if is_time else (1, 2)),
            "hold_for": draws.choice(("0s", "2s", "5s")),
            "clear_for": draws.choice(("0s", "2s", "6s")),
            "channels": draws.choice(([], [], ["ops"], ["log", "night"])),
            "is_on": draws.random() < 0.9,
        }
        name = str(kind)
        if kind is AlertKind.QUEUE_AGE and draws.random() < 0.3:
            name, terms["queue"] = "of-one-queue", draws.choice(("default", "mail"))
        said = read_rule(name, terms).to_json()
        self._say(
            node,
            SetAlertSetting(sort=AlertSettingKind.RULE, name=name, terms=said, actor=self._actor),
        )

    def _remove_rule(self, node: Node) -> None:
        # What is usual lasts for longer than the world does, so most rules stay.
        name = self._draws.choice(("of-one-queue", *map(str, RULED[1:])))
        self._take_back(node, AlertSettingKind.RULE, name)

    def _silence(self, node: Node) -> None:
        draws = self._draws
        now = self._persist(node.store.now)
        terms: dict[str, Any] = {"kinds": draws.choice(([], [str(draws.choice(RULED))]))}
        terms["subject"] = draws.choice((None, "queue *", "destination *", *SUBJECTS))
        order = SetAlertSetting(
            sort=AlertSettingKind.SILENCE,
            name=f"s{draws.randint(1, 4)}",
            terms=terms,
            until=now + draws.choice((2, 6, 15)) * SECOND,
            actor=self._actor,
        )
        self._say(node, order)

    def _unsilence(self, node: Node) -> None:
        self._take_back(node, AlertSettingKind.SILENCE, f"s{self._draws.randint(1, 4)}")

    def _set_channel(self, node: Node) -> None:
        name = self._draws.choice(CHANNELS)
        said = {"kind": "log", "options": {}}
        self._say(
            node,
            SetAlertSetting(
                sort=AlertSettingKind.CHANNEL, name=name, terms=said, actor=self._actor
            ),
        )

    def _remove_channel(self, node: Node) -> None:
        self._take_back(node, AlertSettingKind.CHANNEL, self._draws.choice(CHANNELS))

    def _take_note(self, node: Node) -> None:
        found = self._persist(lambda: node.store.list_alerts(AlertFilter(states=OPEN, limit=10)))
        if not found:
            return
        chosen = self._draws.choice(found)
        # By the time somebody has read it, it may be over.
        node.wait(self._draws.choice((0, 1000, SECOND, 5 * SECOND)))
        order = AcknowledgeAlert(id=chosen.id, actor=self._actor)
        self._persist(lambda: node.store.acknowledge_alert(order))

    def _say(self, node: Node, order: SetAlertSetting) -> None:
        self._persist(lambda: node.store.set_alert_term(order))

    def _take_back(self, node: Node, sort: AlertSettingKind, name: str) -> None:
        order = RemoveTerm(sort=sort, name=name, actor=self._actor)
        self._persist(lambda: node.store.remove_alert_term(order))

    def _persist(self, ask: Callable[[], Any]) -> Any:
        for _ in range(TRIES_MAX):
            try:
                return ask()
            except StoreUnavailable:
                continue
        raise StoreUnavailable("simulated", "does not answer", "give up")
