"""Ambiguous runs: what is safest for each, decisions, checks, settled effects.

`read_settled` reads the trail of decisions and shows it next to the ledger. The ledger records what
the attempt reported about an effect. A later decision of a person or a check settles the run and
leaves the ledger's entry as it is.

`Inbox` derives its advice from what is on record. A person chooses, and gives a reason. A choice
that may repeat an effect requires the run's id as confirmation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from duly.client.checking import Checks
from duly.client.doubt_view import (
    Check,
    Effect,
    InboxItem,
    check_view,
    effect_view,
    inbox_item,
    inbox_items,
    rerun_risk,
)
from duly.client.enqueue import read_order_id
from duly.client.json_values import plain_value
from duly.client.parameters import read_limit, require_reason
from duly.client.runs import rerun_told, run_views
from duly.domain.effects import Choice, EffectState
from duly.domain.enums import Finding, RunState
from duly.domain.ids import RunId, ordered_run_id
from duly.domain.schedules import canonical_json
from duly.errors import NotFound, UsageError
from duly.store.effect_rulings import REPEATING
from duly.store.ports.effects import FREE_TASK, OrderTask, Rerun, ResolveAmbiguousRun
from duly.store.ports.queries import EFFECTS_MAX, AuditFilter
from duly.store.rulings import id_taken
from duly.store.work_rulings import not_in_doubt
from duly.timetable.instants import from_microseconds, iso_utc

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from duly.client.caller import Caller
    from duly.client.run_view import Run
    from duly.client.runs import RunReference, Runs
    from duly.domain.audit import AuditEntry
    from duly.domain.effects import EffectRecord
    from duly.domain.verification import Scope
    from duly.store.ports import Store
    from duly.store.ports.effects import TaskOrder


ENTRIES_MAX = 200
DONE, NOT_DONE, LEFT = "done", "not done", "left as it is"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """Who has decided what about an effect of which the ledger doesn't know."""

    as_: str
    """done, not done, or left as it is."""
    by: str
    at: datetime
    reason: str | None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "as": self.as_,
            "by": self.by,
            "at": iso_utc(self.at),
            "reason": self.reason,
        }


def read_settled(store: Store, effects: Sequence[EffectRecord]) -> dict[str, Settled]:
    """Return what was decided about unknown effects, by their keys; nothing is read for others."""
    unknown = [one for one in effects if one.state is EffectState.UNKNOWN]
    found: dict[str, Settled] = {}
    for run_id in sorted({one.run_id for one in unknown}):
        decisions = _decisions(store, run_id)
        for effect in unknown:
            if effect.run_id == run_id and (told := _settled(effect, decisions)) is not None:
                found[effect.key] = told
    return found


def _decisions(store: Store, run_id: RunId) -> list[AuditEntry]:
    """Return what was decided about a run, newest first."""
    entries = store.list_audit(AuditFilter(subject_id=run_id, limit=ENTRIES_MAX))
    return [one for one in entries if one.action in {"run.settled", "run.verdict"}]


def _settled(effect: EffectRecord, decisions: Sequence[AuditEntry]) -> Settled | None:
    for entry in decisions:
        # What was decided before it was begun once more says nothing about that.
        if entry.at >= effect.begun_at and (as_ := _as(entry)) is not None:
            return Settled(
                as_=as_,
                by=_who(entry),
                at=from_microseconds(entry.at),
                reason=entry.actor.reason,
            )
    return None


def _as(entry: AuditEntry) -> str | None:
    after = entry.after or {}
    if entry.action == "run.verdict":
        return DONE if after.get("finding") == Finding.PRESENT else None
    match after.get("choice"):
        case Choice.RECONCILE if "done" in after:
            return DONE if after["done"] else NOT_DONE
        case Choice.SKIP:
            return LEFT
        case _:
            return None


def _who(entry: AuditEntry) -> str:
    if entry.action == "run.verdict":
        return f"check {(entry.after or {}).get('by', '')}".strip()
    return entry.actor.name


EFFECTS_SHOWN_MAX = EFFECTS_MAX
LISTED_DEFAULT = 100
LINE_MAX = 100
"""So many runs of a line are shown, the newest."""
_DRAW_BYTES = 16
_DEPTH_MAX = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOrders:
    """What people have ordered about a task."""

    task: str
    is_suspended: bool
    """Whether what fails is not tried again by itself."""
    is_blocked: bool
    """Whether nobody may run it once more."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "task": self.task,
            "is_suspended": self.is_suspended,
            "is_blocked": self.is_blocked,
        }


# A class that has a method `list` can't name the type below it.
ListedItems = list[InboxItem]


class Inbox:
    """The runs of an application that wait for a person's decision."""

    def __init__(self, caller: Caller, runs: Runs) -> None:
        self._caller = caller
        self._runs = runs

    def list(self, *, limit: int = LISTED_DEFAULT) -> ListedItems:
        """Return runs that are in doubt, oldest first, each with what is safest."""
        most = read_limit(limit, self._caller.settings.listed_max)
        found = self._caller.store.list_doubts(self._caller.tenant, most)
        return inbox_items(self._caller, run_views(self._caller, [one.run for one in found]))

    def get(self, run: RunReference) -> InboxItem:
        """Return one that is in doubt; Conflict for one that is not."""
        found = self._runs.get(run)
        if found.state != RunState.AMBIGUOUS:
            raise not_in_doubt(RunId(found.id.bytes), RunState(found.state))
        return self._item(found)

    def effects(self, run: RunReference) -> tuple[Effect, ...]:
        """Return the ledger of a run: what it was permitted to do, and what is known of each."""
        run_id = RunId(self._runs.get(run).id.bytes)
        found = self._caller.store.list_effects(run_id, EFFECTS_SHOWN_MAX)
        settled = read_settled(self._caller.store, found)
        return tuple(effect_view(one, settled.get(one.key)) for one in found)

    def checks(self, run: RunReference) -> tuple[Check, ...]:
        """Return what was found about the result of a run, oldest first."""
        run_id = RunId(self._runs.get(run).id.bytes)
        return tuple(check_view(one) for one in self._caller.store.list_verdicts(run_id))

    def scope(self, run: RunReference) -> Scope:
        """Return how much a run was to do, what of it is done, and what is missing."""
        return self._caller.store.get_scope(RunId(self._runs.get(run).id.bytes))

    def line(self, run: RunReference) -> tuple[Run, ...]:
        """Return a run, those that repeat it, and the one that it repeats, oldest first."""
        found = self._runs.get(run)
        first = found if found.root == found.id else self._first(found)
        # What checks a run has its root as well, and repeats nothing.
        again = self._runs.list(root=found.root, origin=sorted(REPEATING), limit=LINE_MAX)
        known = {one.id: one for one in (first, found, *again) if one is not None}
        return tuple(sorted(known.values(), key=lambda one: (one.created_at, one.id)))

    def _first(self, run: Run) -> Run | None:
        try:
            return self._runs.get(run.root)
        except NotFound:
            return None

    def verify(self, run: RunReference, *, id: UUID | None = None) -> Run:  # noqa: A002 - as `enqueue` has it
        """Have a run checked by its task's own check; return the run that does it.

        Conflict while it is still to end, and when no program has told of a check of its task. A
        check that was declared since looks at older runs as well. The same `id` given again is the
        same order.
        """
        return self._runs.get(
            Checks(self._caller).ask(run, None if id is None else read_order_id(id))
        )

    def retry(
        self,
        run: RunReference,
        *,
        reason: str,
        effects: Mapping[str, bool] | None = None,
        confirm: UUID | str | None = None,
    ) -> Run:
        """Try the same run again from its beginning.

        `effects` says of unknown ones whether they are done; those not named count as not done.
        """
        settling = {"effects": _read_known(effects)}
        return self._settle(run, Choice.RETRY, reason, confirm=confirm, **settling)

    def resume(
        self,
        run: RunReference,
        *,
        reason: str,
        effects: Mapping[str, bool] | None = None,
        confirm: UUID | str | None = None,
    ) -> Run:
        """Try the same run again from its last checkpoint; `effects` as in `retry`."""
        settling = {"effects": _read_known(effects)}
        return self._settle(run, Choice.RESUME, reason, confirm=confirm, **settling)

    def reconcile(  # noqa: PLR0913 - each part of what was found
        self,
        run: RunReference,
        *,
        is_done: bool,
        reason: str,
        evidence: object = None,
        effects: Mapping[str, bool] | None = None,
    ) -> Run:
        """Record what was found outside: what the run was to do is done, or it is not."""
        given = None if evidence is None else _written("evidence", evidence)
        settling: dict[str, Any] = {"is_done": is_done, "evidence": given}
        settling["effects"] = _read_known(effects)
        return self._settle(run, Choice.RECONCILE, reason, **settling)

    def skip(self, run: RunReference, *, reason: str) -> Run:
        """Leave it as it is, and record that nobody will do more about it."""
        return self._settle(run, Choice.SKIP, reason)

    def rerun(  # noqa: PLR0913 - each choice is an argument
        self,
        run: RunReference,
        *,
        reason: str,
        repair: bool = False,
        confirm: UUID | str | None = None,
        id: UUID | None = None,  # noqa: A002 - as `enqueue` has it
    ) -> Run:
        """Run once more, as another run, what a run was to do.

        A repair shares its ledger: what is done is not done again. Anything else begins anew, and
        of a task whose effects may not be repeated it must be confirmed. The same `id` given again
        is the same order.
        """
        require_reason(reason)
        found = self._runs.get(run)
        new_id = None if id is None else read_order_id(id)
        if new_id is not None and (made := self._made(found, new_id)) is not None:
            return made
        self._require_confirmed(found, confirm, is_repair=repair)
        caller = self._caller
        now = caller.store.now()
        command = Rerun(
            tenant=caller.tenant,
            id=RunId(found.id.bytes),
            new_id=new_id or ordered_run_id("rerun", now, caller.draws.draw(_DRAW_BYTES)),
            actor=caller.ordering(reason),
            is_repair=repair,
        )
        return self._runs.get(UUID(bytes=rerun_told(caller, command).id))

    def _made(self, run: Run, new_id: RunId) -> Run | None:
        """Return what an earlier order of the same id has made, if there was one."""
        record = self._caller.store.get_run(new_id)
        if record is None:
            return None
        is_ours = record.tenant == self._caller.tenant
        # By its line: others may be of the same task and instant.
        if not (is_ours and record.origin in REPEATING and record.root == run.root.bytes):
            raise id_taken(new_id)
        return self._runs.get(UUID(bytes=new_id))

    def suspend_retries(self, task: str, *, reason: str) -> TaskOrders:
        """Let nothing of a task be tried again by itself: what fails is a dead letter at once."""
        return self._order(task, reason, is_suspended=True)

    def allow_retries(self, task: str, *, reason: str | None = None) -> TaskOrders:
        """Let a task be tried again by itself, as its policy says."""
        return self._order(task, reason, is_suspended=False)

    def block_reruns(self, task: str, *, reason: str) -> TaskOrders:
        """Let nobody run once more what a task has done."""
        return self._order(task, reason, is_blocked=True)

    def allow_reruns(self, task: str, *, reason: str | None = None) -> TaskOrders:
        """Let runs of a task be run once more."""
        return self._order(task, reason, is_blocked=False)

    def orders(self, task: str) -> TaskOrders:
        """Return what is ordered about a task; NotFound for one that nobody has told of."""
        for one in self.tasks():
            if one.task == task:
                return one
        raise NotFound("task", task, "list those that programs have told of: duly task list")

    def tasks(self) -> tuple[TaskOrders, ...]:
        """Return the tasks that programs have told of, by name, with what is ordered about each."""
        store = self._caller.store
        orders = store.task_orders()
        known = {*store.list_tasks(), *self._caller.tasks.names(), *orders}
        return tuple(_task_orders(task, orders.get(task, FREE_TASK)) for task in sorted(known))

    def _order(self, task: str, reason: str | None, **parts: bool) -> TaskOrders:
        self._caller.require_operator("order anything about a task")
        self.orders(task)
        if True in parts.values():
            require_reason(reason)
        command = OrderTask(task=task, actor=self._caller.ordering(reason), **parts)
        return _task_orders(task, self._caller.store.order_task(command))

    def _settle(
        self,
        run: RunReference,
        choice: Choice,
        reason: str,
        *,
        confirm: UUID | str | None = None,
        **parts: Any,  # noqa: ANN401 - those of the command
    ) -> Run:
        item = self.get(run)
        require_reason(reason)
        if item.advice.is_risky(choice):
            _require_typed(item.run, confirm, item.advice.risks[choice])
        command = ResolveAmbiguousRun(
            tenant=self._caller.tenant,
            id=RunId(item.run.id.bytes),
            choice=choice,
            actor=self._caller.ordering(reason),
            advised=str(item.advice.choice),
            doubt=item.run.fence,
            **parts,
        )
        self._caller.store.settle_doubt(command)
        return self._runs.get(item.run.id)

    def _require_confirmed(self, run: Run, confirm: UUID | str | None, *, is_repair: bool) -> None:
        """Refuse what may do something twice, unless it is confirmed."""
        risk = rerun_risk(self._caller, run, is_repair=is_repair)
        if risk is not None:
            _require_typed(run, confirm, risk)

    def _item(self, run: Run) -> InboxItem:
        return inbox_item(self._caller, run)


def _task_orders(task: str, order: TaskOrder) -> TaskOrders:
    return TaskOrders(task=task, is_suspended=order.is_suspended, is_blocked=order.is_blocked)


def _require_typed(run: Run, confirm: UUID | str | None, risk: str) -> None:
    if confirm is None or str(confirm) != str(run.id):
        remedy = f"if it shall be done all the same, confirm it with the run's id: {run.id}"
        wrong = "is missing" if confirm is None else "is not the id of this run"
        raise UsageError("confirm", confirm, f"{wrong}: this {risk}", remedy)


def _read_known(effects: Mapping[str, bool] | None) -> dict[str, bool]:
    known = dict(effects or {})
    for key, is_done in known.items():
        if not isinstance(is_done, bool):
            remedy = "say True for one that is done, False for one that is not"
            raise UsageError(f"effects[{key!r}]", is_done, "is neither", remedy)
    return known


def _written(field: str, value: object) -> str:
    return canonical_json(plain_value(field, value, _DEPTH_MAX))
