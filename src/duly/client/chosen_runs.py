"""Orders about each run of a frozen set: what would be left alone and why, and the rest done (A1).

A run is touched if it still is as it was seen. What may do something a second time is never done in
bulk: it takes a confirmation of its own, and is told.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias
from uuid import UUID

from duly.client.doubt_view import inbox_item, rerun_risk
from duly.client.frozen_sets import GONE, Judged
from duly.client.run_orders import OrderedRun, rerun_told
from duly.client.runs import run_views
from duly.domain.advice import Choice
from duly.domain.identity import RunId, ordered_run_id
from duly.domain.instants import SECOND_US
from duly.domain.literals import Overlap, RunState
from duly.errors import Conflict, NotFound, UsageError
from duly.store.effect_rulings import REPEATING, repeated_meanwhile, run_to_repeat
from duly.store.effects import Rerun, SettleDoubt
from duly.store.reading import RunFilter

if TYPE_CHECKING:
    from duly.client.caller import Caller
    from duly.client.frozen_sets import Kept, Mark
    from duly.client.run_view import Run
    from duly.domain.identity import ScheduleId
    from duly.domain.runs import RunRecord

FITTING: dict[str, tuple[RunState, ...]] = {
    "retry": (RunState.DEAD, RunState.RETRYING),
    "discard": (RunState.DEAD,),
    "cancel": (RunState.QUEUED, RunState.RUNNING, RunState.RETRYING, RunState.BLOCKED),
    "skip": (RunState.AMBIGUOUS,),
}
"""By order: the states in which a run can be ordered about."""
ORDERS = (*FITTING, "rerun", "repair")
ONE_BY_ONE = frozenset(ORDERS) - {"retry", "discard"}
"""Those that are a transaction for each run."""
OPEN = frozenset(
    (
        RunState.BLOCKED,
        RunState.QUEUED,
        RunState.RUNNING,
        RunState.RETRYING,
        RunState.AMBIGUOUS,
    )
)
ONE_AT_A_TIME = "is of a schedule that lets one run go at a time, and another is open"
LINE_MAX = 100
"""So many repetitions of a run are looked at ahead; the store looks at all when it is repeated."""
COMMITTING_US = SECOND_US
"""What began so shortly before a set was looked at may have been committed afterwards."""
Judge: TypeAlias = Callable[["RunRecord", "Mark"], str | None]


class ChosenRuns:
    """The runs of a frozen set, one by one."""

    def __init__(self, caller: Caller, kept: Kept) -> None:
        self._caller = caller
        self._kept = kept
        self._lines: set[RunId] = set()
        """Lines of which a run is repeated by this order, or would be."""
        self._going: set[ScheduleId] = set()
        """Schedules of which it opens a run."""
        self._is_ahead = False
        """Whether nothing is done, and what would be is taken as done."""

    def judge(self, order: str) -> list[Judged]:
        """Say of each run what it is now, and why an order would leave it alone."""
        if order not in ORDERS:
            remedy = f"use one of {', '.join(ORDERS)}"
            raise UsageError("order", order, "is not what can be ordered about runs", remedy)
        judge = self._judge_of(order)
        self._is_ahead = True
        if order in ("retry", "discard", "cancel"):  # these go by what a run is, not by what it was
            return [self._judged(RunId(one), None, judge) for one in self._kept.ids]
        return [self._judged(RunId(one), mark, judge) for one, mark in self._kept.marked()]

    def rerun(self, *, repair: bool, reason: str) -> list[OrderedRun]:
        """Run each once more, as another run; given again, none is repeated a second time."""
        return [
            self._rerun(RunId(one), mark, repair=repair, reason=reason)
            for one, mark in self._kept.marked()
        ]

    def skip(self, *, reason: str) -> list[OrderedRun]:
        """Leave each that is in doubt as it is, on record."""
        return [self._skip(RunId(one), mark, reason) for one, mark in self._kept.marked()]

    def _rerun(self, run_id: RunId, mark: Mark, *, repair: bool, reason: str) -> OrderedRun:
        new_id = self._new_id(run_id, repair=repair)
        made = self._find(new_id)
        if made is not None:
            self._note(made)
            return _done(run_id, mark.state, new_id)
        judged = self._judged(run_id, mark, self._judge_of("repair" if repair else "rerun"))
        if judged.why is not None:
            return _left(judged)
        command = self._command(run_id, mark, repair=repair, reason=reason)
        try:
            rerun_told(self._caller, command)
        except (Conflict, NotFound) as error:
            return _left(self._refused(run_id, error))
        self._note(self._find(run_id))
        return _done(run_id, judged.state, new_id)

    def _skip(self, run_id: RunId, mark: Mark, reason: str) -> OrderedRun:
        record = self._find(run_id)
        judged = self._judged(run_id, mark, self._judge_of("skip"))
        if judged.why is not None or record is None:
            return _left(judged)
        item = inbox_item(self._caller, self._seen(record))
        command = SettleDoubt(
            tenant=self._caller.tenant,
            id=run_id,
            choice=Choice.SKIP,
            actor=self._caller.ordering(reason),
            advised=str(item.advice.choice),
            doubt=mark.number,
        )
        try:
            self._caller.store.settle_doubt(command)
        except (Conflict, NotFound) as error:
            return _left(self._refused(run_id, error))
        return _done(run_id, judged.state)

    def _judge_of(self, order: str) -> Judge:
        if order in ("rerun", "repair"):
            is_repair = order == "repair"
            return lambda record, mark: self._why_not_again(record, mark, is_repair=is_repair)
        fitting = FITTING[order]
        wanted = " or ".join(fitting)
        return lambda record, _: (
            None if record.state in fitting else f"is {record.state}, not {wanted}"
        )

    def _judged(self, run_id: RunId, mark: Mark | None, judge: Judge) -> Judged:
        record, identity = self._find(run_id), UUID(bytes=run_id)
        if record is None:
            return Judged(identity, None, GONE)
        why = None if mark is None else _changed(record, mark)
        if why is None:
            why = judge(record, mark)  # type: ignore[arg-type] # asked for where it is given
        if why is None and self._is_ahead:
            self._note(record)
        return Judged(identity, str(record.state), why)

    @cached_property
    def _blocked(self) -> frozenset[str]:
        """Tasks that nobody may run once more."""
        orders = self._caller.store.task_orders()
        return frozenset(task for task, one in orders.items() if one.is_blocked)

    def _why_not_again(self, record: RunRecord, mark: Mark, *, is_repair: bool) -> str | None:
        if record.call.task in self._blocked:
            return "is of a task that has its reruns blocked"
        command = self._command(record.id, mark, repair=is_repair, reason=None)
        try:
            run_to_repeat(record, command, self._caller.store.now())
        except Conflict as error:
            return f"{error.problem}; {error.remedy}"
        if record.root in self._lines:
            return "repeats, or is repeated by, another one of these"
        if self._is_repeated(record):
            return repeated_meanwhile(record).problem
        risk = rerun_risk(self._caller, self._seen(record), is_repair=is_repair)
        if risk is not None:
            return f"{risk}, which must be confirmed for this one alone"
        return self._why_in_the_way(record)

    def _why_in_the_way(self, record: RunRecord) -> str | None:
        """Say of a run whose schedule lets one go at a time that another one is open."""
        of, number = record.schedule_id, record.definition_number
        if of is None or number is None:
            return None
        definition = self._caller.store.get_definitions([(of, number)]).get((of, number))
        if definition is None or definition.overlap is not Overlap.SKIP:
            return None
        filters = RunFilter(tenant=self._caller.tenant, schedule_id=of, states=OPEN, limit=2)
        others = [one for one in self._caller.store.list_runs(filters) if one.id != record.id]
        return ONE_AT_A_TIME if others or of in self._going else None

    def _note(self, record: RunRecord | None) -> None:
        """Remember whose line and whose schedule has been given a run."""
        if record is not None:
            self._lines.add(record.root)
            if record.schedule_id is not None:
                self._going.add(record.schedule_id)

    def _is_repeated(self, record: RunRecord) -> bool:
        filters = RunFilter(
            tenant=self._caller.tenant, root=record.root, origins=REPEATING, limit=LINE_MAX
        )
        again = self._caller.store.list_runs(filters)
        return any(one.created_at >= self._since for one in again)

    @property
    def _since(self) -> int:
        return self._kept.as_of - COMMITTING_US

    def _command(self, run_id: RunId, mark: Mark, *, repair: bool, reason: str | None) -> Rerun:
        return Rerun(
            tenant=self._caller.tenant,
            id=run_id,
            new_id=self._new_id(run_id, repair=repair),
            actor=self._caller.ordering(reason),
            is_repair=repair,
            fence=mark.number,
            alone_since=self._since,
        )

    def _new_id(self, run_id: RunId, *, repair: bool) -> RunId:
        """Return the id of what repeats a run: the same whenever the order is given again."""
        nonce = self._kept.id + run_id + bytes((repair,))
        return ordered_run_id("rerun", self._kept.as_of, nonce)

    def _seen(self, record: RunRecord) -> Run:
        """Return a run as it was just found: who looks once more may not find it."""
        (run,) = run_views(self._caller, [record])
        return run

    def _find(self, run_id: RunId) -> RunRecord | None:
        record = self._caller.store.get_run(run_id)
        return record if record is not None and record.tenant == self._caller.tenant else None

    def _refused(self, run_id: RunId, error: Conflict | NotFound) -> Judged:
        """Tell of what changed in the moment before it was touched."""
        record = self._find(run_id)
        why = error.problem if isinstance(error, Conflict) else GONE
        return Judged(UUID(bytes=run_id), None if record is None else str(record.state), why)


def _changed(record: RunRecord, mark: Mark) -> str | None:
    """Say how a run differs from what it was when it was seen."""
    if record.state != mark.state:
        return f"was {mark.state} when it was seen, and is {record.state}"
    if record.tries.fence != mark.number:
        return "has had another attempt since it was seen"
    return None


def _done(run_id: RunId, state: str | None, made: RunId | None = None) -> OrderedRun:
    new = None if made is None else UUID(bytes=made)
    return OrderedRun(id=UUID(bytes=run_id), is_done=True, state=state, made=new)


def _left(judged: Judged) -> OrderedRun:
    return OrderedRun(id=judged.id, is_done=False, state=judged.state, why=judged.why)
