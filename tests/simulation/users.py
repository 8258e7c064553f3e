"""Users: people and programs that give orders, as often as possible at the worst moment.

An order is decided by the shipped pure functions and sent through the ports. When an answer is lost
it is asked again: a creation with the same id, a change after another look. What a person has begun
outlives the process that asked for it, so that it is asked again after a crash, too.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from duly.domain import schedule_changes
from duly.domain.audit import Actor
from duly.domain.enums import Lane, Missed, Origin
from duly.domain.ids import RunId, ScheduleId, ordered_run_id, schedule_id
from duly.domain.schedules import Call
from duly.errors import Conflict, NotFound, StoreUnavailable, UsageError
from duly.store.ports.schedules import (
    AddRuns,
    CancelDelayed,
    ChangeSchedule,
    CreateSchedule,
    MoveDelayed,
    NewRun,
    Stale,
)
from tests.simulation import drawn_timetables
from tests.simulation.recipe import SECOND

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.domain.schedule_changes import ScheduleChange
    from duly.domain.schedules import ScheduleRecord
    from tests.simulation.nodes import Node
    from tests.simulation.recipe import Recipe

TENANT = "default"
TRIES_MAX = 6
EDGES_US = (-1000, -1, 0, 0, 1, 300, 1000, 5000)
REFUSED = (Conflict, NotFound, UsageError)
ACTIONS = (
    ("edit", 5),
    ("edit_arguments", 2),
    ("edit_jitter", 2),
    ("pause", 5),
    ("resume", 6),
    ("delete", 2),
    ("restore", 3),
    ("skip_next", 2),
    ("trigger", 1),
    ("enqueue", 6),
    ("move", 4),
    ("cancel", 2),
    ("create", 2),
    ("open_transaction", 2),
)


class User:
    """One who gives orders; remembers what was asked for and not yet answered."""

    def __init__(self, recipe: Recipe, number: int, known: list[ScheduleId]) -> None:
        self._recipe = recipe
        self._draws = recipe.stream(f"user{number}")
        self._actor = Actor(f"user{number}", "simulation")
        self._number = number
        self._known = known
        """Schedules that exist, as people tell each other."""
        self._to_create = recipe.schedules // recipe.users
        self._unanswered: list[CreateSchedule | AddRuns] = []
        self._delayed: list[tuple[str | None, RunId]] = []
        self._names = 0

    def live(self, node: Node) -> None:
        """Give one order after another until the world is calm; then ask again what is open."""
        self._ask_again(node)
        while not node.world.weather.is_calm:
            if self._to_create > 0:
                self._to_create -= 1
                self._create(node)
                node.wait(self._draws.randint(1000, SECOND))
                continue
            node.wait(self._draws.randint(1000, 6 * SECOND))
            names, weights = zip(*ACTIONS, strict=True)
            action = self._draws.choices(names, weights)[0]
            try:
                getattr(self, f"_{action}")(node)
            except REFUSED:
                node.world.counts["refused orders"] += 1
            except StoreUnavailable:
                node.world.counts["unknown orders"] += 1
        self._ask_again(node)

    # Making

    def _create(self, node: Node, within: object = None) -> None:
        now = self._persist(node, node.store.now)
        drawn = drawn_timetables.definition(self._recipe, self._draws, now)
        new_id = schedule_id(now, self._draws.randbytes(10))
        self._names += 1
        try:
            pending = schedule_changes.first_pending(new_id, drawn, now)
        except UsageError:
            return
        command = CreateSchedule(
            id=new_id,
            tenant=TENANT,
            name=f"s{self._number}-{self._names}",
            definition=drawn,
            pending=pending,
            owner=None,
            declared_by=None,
            actor=self._actor,
        )
        if within is None:
            self._unanswered.append(command)
            self._ask(node, command, now)
        else:
            node.decided_at = now
            node.store.joined(within).create_schedule(command)
            self._unanswered.append(command)
        self._known.append(command.id)

    def _enqueue(self, node: Node, within: object = None) -> None:
        nonce = self._draws.randbytes(16)
        key = f"k{self._draws.randint(1, 6)}" if self._draws.random() < 0.6 else None
        delay_us = self._draws.choice((0, 50_000, 400_000, SECOND, 5 * SECOND, 20 * SECOND))
        run_id = ordered_run_id("once", node.clock.now_us(), nonce)
        run = NewRun(
            id=run_id,
            tenant=TENANT,
            call=Call(task="task1"),
            origin=Origin.DELAY if delay_us else Origin.NOW,
            lane=Lane.LIVE,
            due_at=None,
            delay_us=delay_us or None,
            key=key if delay_us else None,
            replaces=self._draws.random() < 0.3,
            fingerprint=nonce.hex(),
        )
        command = AddRuns(runs=(run,), actor=self._actor)
        if within is None:
            self._unanswered.append(command)
            self._ask(node, command)
        else:
            node.store.joined(within).add_runs(command)
            self._unanswered.append(command)
        self._delayed.append((run.key, run_id))

    def _trigger(self, node: Node) -> None:
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
        )
        command = AddRuns(runs=(run,), actor=self._actor)
        self._unanswered.append(command)
        self._ask(node, command)

    def _open_transaction(self, node: Node) -> None:
        """Do something within a transaction, and leave it open for longer than is good."""
        if not self._recipe.has_open_transactions:
            return
        before = list(self._unanswered)
        try:
            with node.store.transaction(600 * SECOND) as lent:
                self._create(node, lent)
                if self._draws.random() < 0.5:
                    self._enqueue(node, lent)
                node.wait(self._draws.choice((1000, SECOND, 4 * SECOND, 20 * SECOND)))
        except StoreUnavailable:
            # Whether it has committed, nobody knows: what was in it is asked for again.
            raise
        except REFUSED:
            self._unanswered = before
            raise
        self._unanswered = before

    def _ask(self, node: Node, command: CreateSchedule | AddRuns, now: int | None = None) -> None:
        """Ask until there is an answer, or patience ends; the same order every time."""
        for _ in range(TRIES_MAX):
            node.decided_at = now
            try:
                if isinstance(command, CreateSchedule):
                    node.store.create_schedule(command)
                else:
                    node.store.add_runs(command)
            except StoreUnavailable:
                continue
            except REFUSED:
                self._unanswered.remove(command)
                raise
            self._unanswered.remove(command)
            return

    def _ask_again(self, node: Node) -> None:
        for command in list(self._unanswered):
            decided_at = None
            if isinstance(command, CreateSchedule):
                decided_at = command.pending.scheduled_for - 1
            try:
                self._ask(node, command, decided_at)
            except REFUSED:
                node.world.counts["refused orders"] += 1

    # Changing

    def _edit(self, node: Node) -> None:
        def decide(record: ScheduleRecord, now: int) -> ScheduleChange:
            timetable = drawn_timetables.timetable(self._recipe, self._draws, now)
            new = replace(
                record.definition,
                timetable=timetable,
                misfire=drawn_timetables.misfire(self._draws),
            )
            return schedule_changes.decide_edit(record, new, now, None)

        self._order(node, decide)

    def _edit_arguments(self, node: Node) -> None:
        def decide(record: ScheduleRecord, now: int) -> ScheduleChange:
            call = replace(
                record.definition.call, arguments=f'{{"n":{self._draws.randint(1, 99)}}}'
            )
            return schedule_changes.decide_edit(
                record, replace(record.definition, call=call), now, None
            )

        self._order(node, decide)

    def _edit_jitter(self, node: Node) -> None:
        jitter_us = self._draws.choice(drawn_timetables.JITTERS)

        def decide(record: ScheduleRecord, now: int) -> ScheduleChange:
            new = replace(record.definition, jitter_us=jitter_us)
            return schedule_changes.decide_edit(record, new, now, None)

        self._order(node, decide)

    def _pause(self, node: Node) -> None:
        after_us = self._draws.choice((None, None, SECOND, 8 * SECOND))
        missed = self._draws.choice(tuple(Missed))

        def decide(record: ScheduleRecord, now: int) -> ScheduleChange:
            until = None if after_us is None else now + after_us
            return schedule_changes.decide_pause(record, reason="tired", until=until, missed=missed)

        self._order(node, decide)

    def _resume(self, node: Node) -> None:
        missed = self._draws.choice(tuple(Missed))
        self._order(
            node,
            lambda record, now: schedule_changes.decide_resume(record, now, missed, None),
            "paused",
        )

    def _delete(self, node: Node) -> None:
        self._order(node, lambda record, _: schedule_changes.decide_delete(record, None))

    def _restore(self, node: Node) -> None:
        self._order(
            node, lambda record, now: schedule_changes.decide_restore(record, now, None), "deleted"
        )

    def _skip_next(self, node: Node) -> None:
        self._order(node, lambda record, _: schedule_changes.decide_skip_next(record, None))

    def _order(
        self,
        node: Node,
        decide: Callable[[ScheduleRecord, int], ScheduleChange],
        status: str = "active",
    ) -> None:
        """Look, decide, apply; look again when it has moved on or the answer is lost."""
        seen = self._look(node, status)
        if seen is None:
            return
        chosen = seen.record.id
        self._wait_for_due(node, seen)
        for _ in range(TRIES_MAX):
            seen = self._persist(node, lambda: node.store.get_schedule(chosen))
            record = seen.record
            command = ChangeSchedule(
                id=chosen,
                expected_version=record.version,
                expected_pending=record.pending,
                change=decide(record, seen.now),
                actor=self._actor,
            )
            node.decided_at = seen.now
            if record.pending is not None and self._draws.random() < 0.6:
                edge = self._draws.choice((record.pending.due_at, record.pending.scheduled_for))
                node.aimed_at = edge + self._draws.choice(EDGES_US)
            try:
                if not isinstance(node.store.change_schedule(command), Stale):
                    return
            except StoreUnavailable:
                continue

    def _wait_for_due(self, node: Node, seen: Any) -> None:
        """Often wait until just before something falls due."""
        pending = seen.record.pending
        if pending is None or self._draws.random() < 0.4:
            return
        wait_us = pending.due_at - seen.now - self._draws.randint(0, 30_000)
        if 0 < wait_us < 15 * SECOND:
            node.wait(wait_us)

    # Delayed runs

    def _move(self, node: Node) -> None:
        key, run_id = self._one_delayed()
        command = MoveDelayed(
            tenant=TENANT,
            key=key,
            id=None if key else run_id,
            due_at=None,
            delay_us=self._draws.choice((100_000, SECOND, 3 * SECOND, 30 * SECOND)),
            is_late_ok=False,
            actor=self._actor,
        )
        self._at_its_due(node, run_id)
        self._persist(node, lambda: node.store.move_delayed(command))

    def _cancel(self, node: Node) -> None:
        key, run_id = self._one_delayed()
        name = None if key else run_id
        command = CancelDelayed(tenant=TENANT, key=key, id=name, actor=self._actor)
        self._at_its_due(node, run_id)
        self._persist(node, lambda: node.store.cancel_delayed(command))

    def _one_delayed(self) -> tuple[str | None, RunId]:
        if not self._delayed:
            raise NotFound("delayed run", "any", "enqueue one")
        return self._draws.choice(self._delayed[-4:])

    def _at_its_due(self, node: Node, run_id: RunId) -> None:
        """Let the next call arrive when a delayed run falls due."""
        record = self._persist(node, lambda: node.store.get_delayed(run_id))
        if record is None:
            return
        wait_us = record.due_at - node.clock.now_us() - self._draws.randint(0, 30_000)
        if 0 < wait_us < 45 * SECOND:
            node.wait(wait_us)
        node.aimed_at = record.due_at + self._draws.choice(EDGES_US)

    # Looking

    def _look(self, node: Node, status: str = "active") -> Any:
        """Return a schedule in that status, if a few looks find one."""
        for _ in range(3):
            if not self._known:
                return None
            chosen = self._draws.choice(self._known)
            seen = self._persist(node, partial(node.store.get_schedule, chosen))
            if seen is not None and (seen.record.status == status or self._draws.random() < 0.1):
                return seen
        return None

    def _persist(self, node: Node, ask: Callable[[], Any]) -> Any:
        """Ask until there is an answer, or patience ends."""
        for _ in range(TRIES_MAX):
            try:
                return ask()
            except StoreUnavailable:
                continue
        raise StoreUnavailable("simulated", "does not answer", "give up")
