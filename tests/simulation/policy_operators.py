"""Stewards: people who fill in what is missing, change policies and override them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from duly.domain import schedule_changes
from duly.domain.audit import Actor
from duly.domain.backfill import (
    FILLED,
    NEVER,
    BackfillMode,
    BackfillOccurrenceKind,
    BackfillOrder,
    BackfillStatus,
    first_of,
    slots_of,
)
from duly.domain.enums import Lane, Origin, Overlap
from duly.domain.fire_planning import ScheduleVersion
from duly.domain.ids import backfill_id, ordered_run_id
from duly.errors import Conflict, NotFound, StoreUnavailable, UsageError
from duly.store.ports.backfill import ChangeBackfill, CreateBackfill
from duly.store.ports.schedules import AddRuns, ChangeSchedule, NewRun, Stale
from tests.simulation import drawn_timetables
from tests.simulation.recipe import SECOND
from tests.simulation.users import TENANT

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.domain.ids import BackfillId, ScheduleId
    from tests.simulation.nodes import Node
    from tests.simulation.recipe import Recipe

TRIES_MAX = 5
ACTIONS = {"backfill": 5, "steer": 6, "change_policy": 3, "override": 3, "trigger": 2}
STEPS = (BackfillStatus.PAUSED, BackfillStatus.ACTIVE, BackfillStatus.ACTIVE)
ANYTHING = frozenset(BackfillOccurrenceKind) - NEVER


class Steward:
    """One who looks after what was missed and what may not overlap."""

    def __init__(self, recipe: Recipe, known: list[ScheduleId]) -> None:
        self._draws = recipe.stream("steward")
        self._actor = Actor("steward", "simulation", "to see to it")
        self._known = known
        self._backfills: list[BackfillId] = []

    def live(self, node: Node) -> None:
        """Give orders until the world is calm."""
        while not node.world.weather.is_calm:
            node.wait(self._draws.randint(1000, 5 * SECOND))
            action = self._draws.choices(tuple(ACTIONS), tuple(ACTIONS.values()))[0]
            try:
                getattr(self, f"_{action}")(node)
            except (Conflict, NotFound, UsageError):
                node.world.counts["refused orders"] += 1
            except StoreUnavailable:
                node.world.counts["unknown orders"] += 1

    def _backfill(self, node: Node) -> None:
        seen = self._look(node)
        if seen is None:
            return
        record, draws = seen.record, self._draws
        until = seen.now - draws.choice((0, 0, SECOND, 10 * SECOND))
        since = until - draws.choice((5, 20, 60, 120)) * SECOND
        template = ScheduleVersion(record.id, record.definition_number, record.definition)
        until = min(until, seen.now - template.offset_us)
        order = draws.choice(tuple(BackfillOrder))
        total = len(slots_of(template, since, until))
        cursor = first_of(template, since, until, order)
        if cursor is None:
            return
        command = CreateBackfill(
            id=backfill_id(seen.now, draws.randbytes(10)),
            tenant=TENANT,
            schedule_id=record.id,
            definition_number=record.definition_number,
            since=since,
            until=until,
            mode=draws.choice(tuple(BackfillMode)),
            order=order,
            classes=draws.choice((FILLED, ANYTHING)),
            per_minute=draws.choice((60, 300, 3000)),
            concurrency=draws.choice((1, 3, 20)),
            cursor=cursor,
            total=total,
            actor=self._actor,
        )
        self._backfills.append(command.id)
        self._persist(lambda: node.store.create_backfill(command))

    def _steer(self, node: Node) -> None:
        """Pause, resume, throttle or call off a backfill, by what was seen a moment ago."""
        if not self._backfills:
            return
        draws = self._draws
        chosen = draws.choice(self._backfills[-4:])
        record = self._persist(lambda: node.store.get_backfill(TENANT, chosen))
        if record is None:
            return
        node.wait(draws.choice((0, 1000, SECOND)))
        status = BackfillStatus.CANCELLED if draws.random() < 0.1 else draws.choice(STEPS)
        command = ChangeBackfill(
            tenant=TENANT,
            id=chosen,
            expected_version=record.version,
            status=status,
            per_minute=draws.choice((record.per_minute, 60, 6000)),
            concurrency=draws.choice((record.concurrency, 1, 10)),
            actor=self._actor,
        )
        self._persist(lambda: node.store.change_backfill(command))

    def _change_policy(self, node: Node) -> None:
        seen = self._look(node)
        if seen is None:
            return
        drawn, chosen = drawn_timetables.overlap(self._draws), seen.record.id
        for _ in range(TRIES_MAX):
            seen = self._persist(lambda: node.store.get_schedule(chosen))
            record = seen.record
            definition = replace(record.definition, **drawn)
            command = ChangeSchedule(
                id=chosen,
                expected_version=record.version,
                expected_pending=record.pending,
                change=schedule_changes.decide_edit(record, definition, seen.now, None),
                actor=self._actor,
            )
            node.decided_at = seen.now
            try:
                if not isinstance(node.store.change_schedule(command), Stale):
                    return
            except StoreUnavailable:
                continue

    def _override(self, node: Node) -> None:
        self._trigger(node, self._draws.choice((Overlap.ALLOW, Overlap.ALLOW, Overlap.SKIP)))

    def _trigger(self, node: Node, overlap: Overlap | None = None) -> None:
        seen = self._look(node)
        if seen is None:
            return
        run = NewRun(
            id=ordered_run_id("manual", seen.now, self._draws.randbytes(16), seen.record.id),
            tenant=TENANT,
            call=seen.record.definition.call,
            origin=Origin.MANUAL,
            lane=Lane.LIVE,
            due_at=None,
            schedule_id=seen.record.id,
            definition_number=seen.record.definition_number,
            overlap=overlap,
        )
        self._persist(lambda: node.store.add_runs(AddRuns(runs=(run,), actor=self._actor)))

    def _look(self, node: Node) -> Any:
        if not self._known:
            return None
        chosen = self._draws.choice(self._known)
        return self._persist(lambda: node.store.get_schedule(chosen))

    def _persist(self, ask: Callable[[], Any]) -> Any:
        """Ask until there is an answer, or patience ends; the same order every time."""
        for _ in range(TRIES_MAX):
            try:
                return ask()
            except StoreUnavailable:
                continue
        raise StoreUnavailable("simulated", "does not answer", "give up")
