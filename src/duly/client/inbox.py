"""Ambiguous runs: what is safest for each, decisions, checks, settled effects.

`read_settled` reads the trail of decisions and shows it next to the ledger. A decision of a person
or a check settles unknown effects in the ledger, so that no later order asks about them again.

`Inbox` derives its advice from what is on record. A person chooses, and gives a reason. A choice
that may repeat an effect requires the run's id as confirmation, unless it says of each unknown
effect whether it has happened.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from duly.client.caller import joins
from duly.client.checking import Checks
from duly.client.doubt_view import (
    Check,
    Effect,
    InboxItem,
    RepeatRisk,
    check_view,
    effect_view,
    inbox_item,
    inbox_items,
    repeat_risk,
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
    """Who has decided what about an effect whose attempt ended before it could say."""

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


def read_settled(
    store: Store, run_id: RunId, effects: Sequence[EffectRecord]
) -> dict[str, Settled]:
    """Return what was decided about effects of a run's line, by their keys.

    An effect with a result was reported by its attempt: nothing is read for it.
    """
    asked = [one for one in effects if one.result is None]
    found: dict[str, Settled] = {}
    for of in sorted({one.run_id for one in asked} | {run_id}) if asked else ():
        decisions = _decisions(store, of)
        for effect in asked:
            if (told := _settled(effect, decisions)) is not None:
                found.setdefault(effect.key, told)
    return found


def _decisions(store: Store, run_id: RunId) -> list[AuditEntry]:
    """Return what was decided about a run, newest first."""
    entries = store.list_audit(AuditFilter(subject_id=run_id, limit=ENTRIES_MAX))
    return [one for one in entries if one.action in {"run.settled", "run.verdict"}]


def _settled(effect: EffectRecord, decisions: Sequence[AuditEntry]) -> Settled | None:
    for entry in decisions:
        # What was decided before it was begun once more says nothing about that.
        if entry.at >= effect.begun_at and (as_ := _as(entry, effect)) is not None:
            return Settled(
                as_=as_,
                by=_who(entry),
                at=from_microseconds(entry.at),
                reason=entry.actor.reason,
            )
    return None


def _as(entry: AuditEntry, effect: EffectRecord) -> str | None:
    after = entry.after or {}
    if effect.state is not EffectState.UNKNOWN:
        # What its attempt reported as done nobody had to settle.
        is_settled = entry.at == effect.done_at and _settles(after, effect)
        return DONE if is_settled else None
    if effect.run_id != entry.subject_id:
        return None
    if entry.action == "run.verdict":
        return DONE if after.get("finding") == Finding.PRESENT else None
    choice = after.get("choice")
    if choice == Choice.RECONCILE and "effects" not in after:
        # An entry from before decisions settled the ledger.
        return DONE if after["done"] else NOT_DONE
    return LEFT if choice in (Choice.RECONCILE, Choice.SKIP) else None


def _settles(after: Mapping[str, Any], effect: EffectRecord) -> bool:
    if "finding" in after:
        return bool(after["finding"] == Finding.PRESENT)
    return bool((after.get("effects") or {}).get(effect.key))


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
        settled = read_settled(self._caller.store, run_id, found)
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

    @joins
    def verify(
        self,
        run: RunReference,
        *,
        id: UUID | None = None,  # noqa: A002 - as `enqueue` has it
        connection: object | None = None,
    ) -> Run:
        """Have a run checked by its task's own check; return the run that does it.

        Conflict while it is still to end, and when no program has told of a check of its task. A
        check that was declared since looks at older runs as well. The same `id` given again is the
        same order.
        """
        return self._runs.get(
            Checks(self._caller).ask(run, None if id is None else read_order_id(id))
        )

    @joins
    def retry(  # noqa: PLR0913 - each choice is an argument
        self,
        run: RunReference,
        *,
        reason: str,
        effects: Mapping[str, bool] | None = None,
        confirm: UUID | str | None = None,
        connection: object | None = None,
    ) -> Run:
        """Try the same run again from its beginning.

        `effects` says of unknown effects whether they are done. Those that are not named count as
        not done, which is confirmed by the run's id.
        """
        return self._settle(run, Choice.RETRY, reason, effects, confirm=confirm)

    @joins
    def resume(  # noqa: PLR0913 - each choice is an argument
        self,
        run: RunReference,
        *,
        reason: str,
        effects: Mapping[str, bool] | None = None,
        confirm: UUID | str | None = None,
        connection: object | None = None,
    ) -> Run:
        """Try the same run again from its last checkpoint; `effects` as in `retry`."""
        return self._settle(run, Choice.RESUME, reason, effects, confirm=confirm)

    @joins
    def reconcile(  # noqa: PLR0913 - each part of what was found
        self,
        run: RunReference,
        *,
        is_done: bool,
        reason: str,
        evidence: object = None,
        effects: Mapping[str, bool] | None = None,
        despite_missing: bool = False,
        connection: object | None = None,
    ) -> Run:
        """Record what was found outside: what the run was to do is done, or it is not.

        Done settles all unknown effects as done, except those that `effects` names as not done. Not
        done settles those that `effects` names, and the one effect of a run that has no other. A
        run with items missing is recorded as done only with `despite_missing`, and is no useful
        completion then.
        """
        if despite_missing and not is_done:
            remedy = "leave it out: only a run that is recorded as done needs it"
            raise UsageError("despite_missing", None, "is about a run that is done", remedy)
        settling: dict[str, Any] = {"is_done": is_done, "is_despite_missing": despite_missing}
        settling["evidence"] = None if evidence is None else _written("evidence", evidence)
        return self._settle(run, Choice.RECONCILE, reason, effects, **settling)

    @joins
    def skip(self, run: RunReference, *, reason: str, connection: object | None = None) -> Run:
        """Leave it as it is, and record that nobody will do more about it."""
        return self._settle(run, Choice.SKIP, reason)

    @joins
    def rerun(  # noqa: PLR0913 - each choice is an argument
        self,
        run: RunReference,
        *,
        reason: str,
        repair: bool = False,
        effects: Mapping[str, bool] | None = None,
        confirm: UUID | str | None = None,
        id: UUID | None = None,  # noqa: A002 - as `enqueue` has it
        connection: object | None = None,
    ) -> Run:
        """Run once more, as another run, what a run was to do.

        A repair shares its ledger: what is done is not done again; `effects` as in `retry`.
        Anything else begins anew, and is confirmed if effects were begun. The same `id` given again
        is the same order.
        """
        require_reason(reason)
        named = _read_known(effects)
        if named and not repair:
            remedy = "repair it, or leave them out: a rerun does all of its effects"
            raise UsageError("effects", sorted(named), "are about a repair", remedy)
        found = self._runs.get(run)
        new_id = None if id is None else read_order_id(id)
        if new_id is not None and (made := self._made(found, new_id)) is not None:
            return made
        caller = self._caller
        risk = rerun_risk(caller, found, is_repair=repair)
        _require_unknown(named, risk.unknown)
        _require_typed(found, confirm, risk, named)
        now = caller.store.now()
        command = Rerun(
            tenant=caller.tenant,
            id=RunId(found.id.bytes),
            new_id=new_id or ordered_run_id("rerun", now, caller.draws.draw(_DRAW_BYTES)),
            actor=caller.ordering(reason),
            is_repair=repair,
            fence=found.fence if risk.unknown else None,
            effects={key: named.get(key, False) for key in (*risk.asked, *named)},
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

    @joins
    def suspend_retries(
        self, task: str, *, reason: str, connection: object | None = None
    ) -> TaskOrders:
        """Let nothing of a task be tried again by itself: what fails is a dead letter at once."""
        return self._order(task, reason, is_suspended=True)

    @joins
    def allow_retries(
        self, task: str, *, reason: str | None = None, connection: object | None = None
    ) -> TaskOrders:
        """Let a task be tried again by itself, as its policy says."""
        return self._order(task, reason, is_suspended=False)

    @joins
    def block_reruns(
        self, task: str, *, reason: str, connection: object | None = None
    ) -> TaskOrders:
        """Let nobody run once more what a task has done."""
        return self._order(task, reason, is_blocked=True)

    @joins
    def allow_reruns(
        self, task: str, *, reason: str | None = None, connection: object | None = None
    ) -> TaskOrders:
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

    def _settle(  # noqa: PLR0913 - each part of a decision is an argument
        self,
        run: RunReference,
        choice: Choice,
        reason: str,
        effects: Mapping[str, bool] | None = None,
        *,
        confirm: UUID | str | None = None,
        **parts: Any,  # noqa: ANN401 - those of the command
    ) -> Run:
        item = self.get(run)
        require_reason(reason)
        named = _read_known(effects)
        _require_unknown(named, item.unknown)
        _require_typed(item.run, confirm, repeat_risk(item, choice), named)
        if choice is Choice.RECONCILE and effects is None and _is_one_effect(item):
            named = dict.fromkeys(item.unknown, bool(parts["is_done"]))
        command = ResolveAmbiguousRun(
            tenant=self._caller.tenant,
            id=RunId(item.run.id.bytes),
            choice=choice,
            actor=self._caller.ordering(reason),
            advised=str(item.advice.choice),
            doubt=item.run.fence,
            effects=named,
            **parts,
        )
        self._caller.store.settle_doubt(command)
        return self._runs.get(item.run.id)

    def _item(self, run: Run) -> InboxItem:
        return inbox_item(self._caller, run)


def _task_orders(task: str, order: TaskOrder) -> TaskOrders:
    return TaskOrders(task=task, is_suspended=order.is_suspended, is_blocked=order.is_blocked)


def _is_one_effect(item: InboxItem) -> bool:
    """Say whether one effect is all of a run: what the run is, the effect is."""
    return len(item.effects) == len(item.unknown) == 1 and not item.scope.is_known


def _require_unknown(named: Mapping[str, bool], unknown: Sequence[str]) -> None:
    """Refuse what is said of an effect that is not unknown: it would settle nothing."""
    for key in sorted(named.keys() - {*unknown}):
        names = ", ".join(unknown) or "none"
        remedy = f"name unknown effects of the run: {names}"
        raise UsageError("effects", key, "is not an unknown effect of this run", remedy)


def _require_typed(
    run: Run, confirm: UUID | str | None, risk: RepeatRisk, named: Mapping[str, bool]
) -> None:
    """Refuse what may do something twice, unless it is settled or confirmed."""
    if risk.text is None or (confirm is not None and str(confirm) == str(run.id)):
        return
    is_settled = risk.left_by(named) is None
    if is_settled and confirm is None:
        return
    wrong = "is missing" if confirm is None else "is not the id of this run"
    remedy = f"if it shall be done all the same, confirm it with the run's id: {run.id}"
    if risk.asked and not is_settled:
        keys = ", ".join(key for key in risk.asked if key not in named)
        remedy = f"say whether {keys} has happened (done, or not done); {remedy}"
    raise UsageError("confirm", confirm, f"{wrong}: this {risk.text}", remedy)


def _read_known(effects: Mapping[str, bool] | None) -> dict[str, bool]:
    known = dict(effects or {})
    for key, is_done in known.items():
        if not isinstance(is_done, bool):
            remedy = "say True for one that is done, False for one that is not"
            raise UsageError(f"effects[{key!r}]", is_done, "is neither", remedy)
    return known


def _written(field: str, value: object) -> str:
    return canonical_json(plain_value(field, value, _DEPTH_MAX))
