"""Frozen sets of runs and of schedules: freeze, preview, and the orders about each item.

`freeze_set` stores the chosen items with a mark of each (its state, and a fence or version) under
an id. An order about the set touches the items that still bear their mark, and no others. Each
other item is reported with the reason. Items that are created after the set was frozen are not in
it.

`ChosenRuns` never does in bulk what may repeat an effect. Such a run is reported, and requires a
confirmation of its own.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar
from uuid import UUID

from duly.client.caller import joins
from duly.client.doubt_view import inbox_item, rerun_risk
from duly.client.parameters import (
    ONE_BY_ONE_MAX,
    one_or_several,
    read_choice,
    read_instant,
    read_limit,
    require_future,
    require_reason,
)
from duly.client.runs import OrderedRun, cancel_each, rerun_told, run_views
from duly.client.schedule_orders import find_schedule
from duly.client.schedule_view import schedule_view
from duly.domain.effects import Choice
from duly.domain.enums import Missed, Overlap, RunState, ScheduleStatus
from duly.domain.ids import RunId, ScheduleId, ordered_run_id, read_identity, schedule_id
from duly.domain.schedules import canonical_json
from duly.errors import Conflict, NotFound, UsageError
from duly.store.effect_rulings import REPEATING, repeated_meanwhile, run_to_repeat
from duly.store.ports.auth import CreateSelection
from duly.store.ports.effects import Rerun, ResolveAmbiguousRun
from duly.store.ports.queries import RunFilter
from duly.timetable.instants import SECOND_US, from_microseconds, iso_utc

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from duly.client.caller import Caller
    from duly.client.parameters import Instant
    from duly.client.run_view import Run
    from duly.client.runs import Runs
    from duly.client.schedule_orders import Reference
    from duly.client.schedule_view import Schedule
    from duly.client.schedules import Schedules
    from duly.domain.runs import RunRecord
    from duly.domain.schedules import ScheduleRecord
    from duly.store.ports.auth import StoredSelection


Item = TypeVar("Item", bound="Run | Schedule")
CONFIRMED_ABOVE = 100
"""More things than this are ordered about only by whoever types how many they are."""
SAMPLE_MAX = FIRST_SHOWN = 20
LEFT_SHOWN_MAX = 100
RUNS, SCHEDULES = "runs", "schedules"
GONE = "is no longer there"
_DRAW_BYTES = 10
_DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True)
class ItemMark:
    """How one of a set was when it was chosen."""

    state: str
    number: int
    """A run's fence, a schedule's version: whatever happens to it raises that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedItems:
    """What somebody has chosen, before it is frozen."""

    of: str
    items: Sequence[tuple[bytes, ItemMark]]
    terms: Mapping[str, Any]
    as_of: int
    """When they began to look, by the store's clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionRecord:
    """A frozen set as the store keeps it, read."""

    id: bytes
    of: str
    ids: tuple[bytes, ...]
    marks: tuple[ItemMark, ...] | None
    """None of a set that a program without marks has frozen."""
    chosen_by: dict[str, Any]
    digest: str
    made_by: str
    as_of: int
    expires_at: int

    def marked(self) -> list[tuple[bytes, ItemMark]]:
        """Return each id with its mark."""
        if self.marks is None:
            problem = "was frozen by an older program, which did not keep how each was"
            remedy = f"choose the {self.of} anew"
            raise Conflict("selection", str(UUID(bytes=self.id)), problem, remedy)
        return list(zip(self.ids, self.marks, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Frozen(Generic[Item]):
    """What a filter found: what an order about it touches, and nothing else."""

    id: UUID
    ids: tuple[UUID, ...]
    """Runs newest first, schedules in order of name."""
    sample: tuple[Item, ...]
    """The first of them, as they are now."""
    chosen_by: dict[str, Any]
    """The filter."""
    digest: str
    """The same for the same runs in the same state, or schedules at the same versions."""
    made_by: str
    as_of: datetime
    """When they were chosen."""
    expires_at: datetime

    def __len__(self) -> int:
        return len(self.ids)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "id": str(self.id),
            "count": len(self.ids),
            "sample": [one.to_json() for one in self.sample],
            "chosen_by": self.chosen_by,
            "digest": self.digest,
            "made_by": self.made_by,
            "as_of": iso_utc(self.as_of),
            "expires_at": iso_utc(self.expires_at),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewedItem:
    """One of a set, and what an order would do about it."""

    id: UUID
    name: str
    """A schedule's name, a run's label; its id where it is no longer there."""
    state: str | None
    """What it is now."""
    why: str | None
    """Why it would be left alone; None for what would be touched."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"id": str(self.id), "name": self.name, "state": self.state, "why": self.why}


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderPreview:
    """What an order about a frozen set would do, if it were given now."""

    id: UUID
    """The set's: the order names it."""
    of: str
    """runs or schedules."""
    order: str
    digest: str
    """The same for the same things in the same state."""
    count: int
    touched: int
    first: tuple[PreviewedItem, ...]
    """The first of those that would be touched."""
    left_alone: tuple[PreviewedItem, ...]
    """The first of those that would not."""
    left_by: dict[str, int]
    """Why, and how many of them."""
    chosen_by: dict[str, Any]
    made_by: str
    as_of: datetime
    expires_at: datetime

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "id": str(self.id),
            "of": self.of,
            "order": self.order,
            "digest": self.digest,
            "count": self.count,
            "touched": self.touched,
            "first": [one.to_json() for one in self.first],
            "left_alone": [one.to_json() for one in self.left_alone],
            "left_by": self.left_by,
            "chosen_by": self.chosen_by,
            "made_by": self.made_by,
            "as_of": iso_utc(self.as_of),
            "expires_at": iso_utc(self.expires_at),
        }


@dataclass(frozen=True, slots=True)
class ItemVerdict:
    """One of a set with its state now, and why an order leaves it alone."""

    id: UUID
    state: str | None
    why: str | None


def freeze_set(caller: Caller, chosen: SelectedItems) -> SelectionRecord:
    """Keep which things were chosen, by which terms, and how each was."""
    said = {name: _plain(value) for name, value in chosen.terms.items() if value is not None}
    marks = [f"{mark.state}:{mark.number}" for _, mark in chosen.items]
    command = CreateSelection(
        id=bytes(schedule_id(chosen.as_of, caller.draws.draw(_DRAW_BYTES))),
        tenant=caller.tenant,
        made_by=caller.actor,
        chosen_by=canonical_json({"of": chosen.of, "by": said, "marks": marks}),
        ids=tuple(RunId(one) for one, _ in chosen.items),
        as_of=chosen.as_of,
    )
    return _read(caller.store.freeze(command))


def find_set(caller: Caller, of: str, selection: UUID | str) -> SelectionRecord:
    """Return a set by its id; one of other things is not there."""
    identity = read_identity(selection, "selection")
    frozen = caller.store.find_frozen(identity, caller.tenant)
    kept = None if frozen is None else _read(frozen)
    if kept is None or kept.of != of:
        remedy = f"choose the {of} anew: a selection is kept for a quarter of an hour"
        raise NotFound("selection", str(selection), remedy)
    return kept


def frozen_view(kept: SelectionRecord, found: Sequence[Item]) -> Frozen[Item]:
    """Show a set, with as many of those that were found as are shown."""
    return Frozen(
        id=UUID(bytes=kept.id),
        ids=tuple(UUID(bytes=one) for one in kept.ids),
        sample=tuple(found[:SAMPLE_MAX]),
        chosen_by=kept.chosen_by,
        digest=kept.digest,
        made_by=kept.made_by,
        as_of=from_microseconds(kept.as_of),
        expires_at=from_microseconds(kept.expires_at),
    )


def require_confirmed(kept: SelectionRecord, confirm: int | None) -> None:
    """Refuse an order about many, unless it says how many they are."""
    count, name = len(kept.ids), str(UUID(bytes=kept.id))
    if confirm is None and count > CONFIRMED_ABOVE:
        problem = f"is missing: this order is about {count:,} {kept.of}"
        raise UsageError("confirm", confirm, problem, f"say how many they are: {count}")
    if confirm not in (None, count):
        problem = f"holds {count:,} {kept.of}, not {confirm}"
        remedy = "look at it again, and confirm as many as it has"
        raise Conflict("selection", name, problem, remedy)


def require_few(kept: SelectionRecord, verb: str) -> None:
    """Refuse more than one order goes through one by one."""
    count = len(kept.ids)
    if count > ONE_BY_ONE_MAX:
        problem, remedy = f"are too many to {verb}", f"choose fewer: {ONE_BY_ONE_MAX:,} at a time"
        raise UsageError("selection", f"{count:,} {kept.of}", problem, remedy)


def preview_of(
    kept: SelectionRecord, order: str, judged: Sequence[ItemVerdict], shown: Mapping[UUID, str]
) -> OrderPreview:
    """Return a preview of what was judged; `shown` has the names of those that are listed."""
    first, left = shown_of(judged)
    return OrderPreview(
        id=UUID(bytes=kept.id),
        of=kept.of,
        order=order,
        digest=kept.digest,
        count=len(judged),
        touched=sum(one.why is None for one in judged),
        first=tuple(_item(one, shown) for one in first),
        left_alone=tuple(_item(one, shown) for one in left),
        left_by=dict(Counter(one.why for one in judged if one.why is not None).most_common()),
        chosen_by=kept.chosen_by,
        made_by=kept.made_by,
        as_of=from_microseconds(kept.as_of),
        expires_at=from_microseconds(kept.expires_at),
    )


def shown_of(judged: Sequence[ItemVerdict]) -> tuple[list[ItemVerdict], list[ItemVerdict]]:
    """Return which are listed one by one: of those that are touched, and of those that are not."""
    touched = [one for one in judged if one.why is None]
    left = [one for one in judged if one.why is not None]
    return touched[:FIRST_SHOWN], left[:LEFT_SHOWN_MAX]


def _item(judged: ItemVerdict, shown: Mapping[UUID, str]) -> PreviewedItem:
    name = shown.get(judged.id, str(judged.id))
    return PreviewedItem(id=judged.id, name=name, state=judged.state, why=judged.why)


def _read(frozen: StoredSelection) -> SelectionRecord:
    told: dict[str, Any] = json.loads(frozen.chosen_by)
    marks: tuple[ItemMark, ...] | None = None
    of, chosen_by = RUNS, told
    if "marks" in told:
        of, chosen_by = told["of"], told["by"]
        marks = tuple(_mark(one) for one in told["marks"])
        assert len(marks) == len(frozen.ids), "each has a mark"
    return SelectionRecord(
        id=frozen.id,
        of=of,
        ids=frozen.ids,
        marks=marks,
        chosen_by=chosen_by,
        digest=_digest(of, frozen.ids, marks or ()),
        made_by=frozen.made_by,
        as_of=frozen.as_of,
        expires_at=frozen.expires_at,
    )


def _mark(text: str) -> ItemMark:
    state, _, number = text.rpartition(":")
    return ItemMark(state, int(number))


def _digest(of: str, ids: Sequence[bytes], marks: Sequence[ItemMark]) -> str:
    told = [of, [one.hex() for one in ids], [(mark.state, mark.number) for mark in marks]]
    return blake2b(json.dumps(told).encode(), digest_size=_DIGEST_BYTES).hexdigest()


def _plain(value: object) -> object:
    """Return a filter as it is shown: words and lists of them."""
    if isinstance(value, set | frozenset | list | tuple):
        return sorted(str(one) for one in value)
    return value if isinstance(value, int | str) else str(value)


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
Judge: TypeAlias = Callable[["RunRecord", "ItemMark"], str | None]


class ChosenRuns:
    """The runs of a frozen set, one by one."""

    def __init__(self, caller: Caller, kept: SelectionRecord) -> None:
        self._caller = caller
        self._kept = kept
        self._lines: set[RunId] = set()
        """Lines of which a run is repeated by this order, or would be."""
        self._going: set[ScheduleId] = set()
        """Schedules of which it opens a run."""
        self._is_ahead = False
        """Whether nothing is done, and what would be is taken as done."""

    def judge(self, order: str) -> list[ItemVerdict]:
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

    def _rerun(self, run_id: RunId, mark: ItemMark, *, repair: bool, reason: str) -> OrderedRun:
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

    def _skip(self, run_id: RunId, mark: ItemMark, reason: str) -> OrderedRun:
        record = self._find(run_id)
        judged = self._judged(run_id, mark, self._judge_of("skip"))
        if judged.why is not None or record is None:
            return _left(judged)
        item = inbox_item(self._caller, self._seen(record))
        command = ResolveAmbiguousRun(
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

    def _judged(self, run_id: RunId, mark: ItemMark | None, judge: Judge) -> ItemVerdict:
        record, identity = self._find(run_id), UUID(bytes=run_id)
        if record is None:
            return ItemVerdict(identity, None, GONE)
        why = None if mark is None else _changed(record, mark)
        if why is None:
            why = judge(record, mark)  # type: ignore[arg-type] # asked for where it is given
        if why is None and self._is_ahead:
            self._note(record)
        return ItemVerdict(identity, str(record.state), why)

    @cached_property
    def _blocked(self) -> frozenset[str]:
        """Tasks that nobody may run once more."""
        orders = self._caller.store.task_orders()
        return frozenset(task for task, one in orders.items() if one.is_blocked)

    def _why_not_again(self, record: RunRecord, mark: ItemMark, *, is_repair: bool) -> str | None:
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
        risk = rerun_risk(self._caller, self._seen(record), is_repair=is_repair).text
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

    def _command(self, run_id: RunId, mark: ItemMark, *, repair: bool, reason: str | None) -> Rerun:
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

    def _refused(self, run_id: RunId, error: Conflict | NotFound) -> ItemVerdict:
        """Tell of what changed in the moment before it was touched."""
        record = self._find(run_id)
        why = error.problem if isinstance(error, Conflict) else GONE
        return ItemVerdict(UUID(bytes=run_id), None if record is None else str(record.state), why)


def _changed(record: RunRecord, mark: ItemMark) -> str | None:
    """Say how a run differs from what it was when it was seen."""
    if record.state != mark.state:
        return f"was {mark.state} when it was seen, and is {record.state}"
    if record.tries.fence != mark.number:
        return "has had another attempt since it was seen"
    return None


def _done(run_id: RunId, state: str | None, made: RunId | None = None) -> OrderedRun:
    new = None if made is None else UUID(bytes=made)
    return OrderedRun(id=UUID(bytes=run_id), is_done=True, state=state, made=new)


def _left(judged: ItemVerdict) -> OrderedRun:
    return OrderedRun(id=judged.id, is_done=False, state=judged.state, why=judged.why)


class Selections:
    """The selections of an application, kept for a quarter of an hour."""

    def __init__(self, caller: Caller, runs: Runs) -> None:
        self._caller = caller
        self._runs = runs

    @joins
    def freeze(
        self,
        *,
        state: str | Sequence[str] | None = "dead",
        limit: int | None = None,
        ids: Sequence[UUID | str] | None = None,
        connection: object | None = None,
        **filters: Any,  # noqa: ANN401 - as `app.runs.list` has them
    ) -> Frozen[Run]:
        """Find runs by the filters of `app.runs.list`, dead ones unless told, and keep which.

        Nothing is done to them. With `limit` the newest so many; without it more than one order
        takes are refused: nobody shall believe that these were all. With `ids` it is these runs,
        whatever else is said.
        """
        now = self._caller.store.now()
        if ids is None:
            found = self._found({"state": state} | filters, limit)
            terms = {"state": state, "limit": limit} | filters
        else:
            found = self._named(ids)
            terms = {"ids": len(found)}
        items = [(run.id.bytes, ItemMark(run.state, run.fence)) for run in found]
        chosen = SelectedItems(of=RUNS, items=items, terms=terms, as_of=now)
        return frozen_view(freeze_set(self._caller, chosen), found)

    def _found(self, filters: dict[str, Any], limit: int | None) -> list[Run]:
        most = self._caller.settings.runs_per_order_max
        if limit is not None:
            return self._runs.list(limit=read_limit(limit, most), **filters)
        found = self._runs.list(limit=most + 1, **filters)
        if len(found) > most:
            remedy = "narrow the filter, or give a limit: the newest so many are taken then"
            raise UsageError("limit", None, f"is needed: there are more than {most:,} runs", remedy)
        return found

    def _named(self, ids: object) -> list[Run]:
        """Return runs by their ids, newest first; one that is not there is told."""
        most, named = self._caller.settings.runs_per_order_max, one_or_several(ids)
        if len(named) > most:
            remedy = f"split them: {most:,} at a time"
            raise UsageError("ids", f"{len(named):,} runs", "are more than one order takes", remedy)
        known = {one.id: one for one in map(self._runs.get, named)}
        return sorted(known.values(), key=lambda one: one.id, reverse=True)

    def get(self, selection: UUID | str) -> Frozen[Run]:
        """Return a selection by its id, with the newest of its runs as they are now."""
        kept = self._find(selection)
        return frozen_view(kept, self._seen(kept.ids[:SAMPLE_MAX]))

    def _seen(self, ids: Sequence[bytes]) -> list[Run]:
        """Return those runs that are still there, as they are now."""
        asked = [RunId(one) for one in ids]
        there = self._caller.store.get_runs(asked)
        return run_views(self._caller, [there[one] for one in asked if one in there])

    def preview(self, selection: UUID | str, order: str) -> OrderPreview:
        """Say what an order would do to each of its runs, if it were given now.

        The order is retry, discard, cancel, skip, rerun, or repair for a rerun in repair mode.
        """
        kept = self._find(selection)
        if order in ONE_BY_ONE:
            require_few(kept, order)
        judged = ChosenRuns(self._caller, kept).judge(order)
        shown = self._seen([one.id.bytes for part in shown_of(judged) for one in part])
        return preview_of(kept, order, judged, {run.id: run.label for run in shown})

    @joins
    def retry(
        self,
        selection: UUID | str,
        *,
        reason: str | None = None,
        confirm: int | None = None,
        connection: object | None = None,
    ) -> list[OrderedRun]:
        """Queue its dead runs again with a fresh budget, and at once those that wait."""
        return self._runs.retry(_ids(self._meant(selection, confirm)), reason=reason)

    @joins
    def discard(
        self,
        selection: UUID | str,
        *,
        reason: str | None = None,
        confirm: int | None = None,
        connection: object | None = None,
    ) -> list[OrderedRun]:
        """Close its dead runs for good."""
        return self._runs.discard(_ids(self._meant(selection, confirm)), reason=reason)

    @joins
    def cancel(
        self,
        selection: UUID | str,
        *,
        reason: str | None = None,
        confirm: int | None = None,
        connection: object | None = None,
    ) -> list[OrderedRun]:
        """Stop its runs: at once where nobody runs them, by asking where somebody does."""
        kept = self._meant(selection, confirm)
        require_few(kept, "cancel")
        return cancel_each(self._caller, [RunId(one) for one in kept.ids], reason)

    @joins
    def rerun(  # noqa: PLR0913 - each choice is an argument
        self,
        selection: UUID | str,
        *,
        reason: str,
        repair: bool = False,
        confirm: int | None = None,
        connection: object | None = None,
    ) -> list[OrderedRun]:
        """Run once more, each as another run, what its runs were to do.

        Those that are no longer as they were seen are left alone and told, and so are those that
        may do something a second time: they are rerun one by one. Given again about the same
        selection, it repeats no run a second time.
        """
        kept = self._meant(selection, confirm)
        require_reason(reason)
        require_few(kept, "rerun")
        chosen = ChosenRuns(self._caller, kept)
        return chosen.rerun(repair=repair, reason=reason)

    @joins
    def skip(
        self,
        selection: UUID | str,
        *,
        reason: str,
        confirm: int | None = None,
        connection: object | None = None,
    ) -> list[OrderedRun]:
        """Leave its runs that are in doubt as they are, and record that nobody does more."""
        kept = self._meant(selection, confirm)
        require_reason(reason)
        require_few(kept, "skip")
        return ChosenRuns(self._caller, kept).skip(reason=reason)

    def _meant(self, selection: UUID | str, confirm: int | None) -> SelectionRecord:
        """Return which runs an order is about; many of them only if they are confirmed."""
        kept = self._find(selection)
        require_confirmed(kept, confirm)
        return kept

    def _find(self, selection: UUID | str) -> SelectionRecord:
        return find_set(self._caller, RUNS, selection)


def _ids(kept: SelectionRecord) -> list[UUID]:
    return [UUID(bytes=one) for one in kept.ids]


FITTING_STATUS = {"pause": ScheduleStatus.ACTIVE, "resume": ScheduleStatus.PAUSED}
"""By order: what a schedule must be,"""
MADE = {"pause": ScheduleStatus.PAUSED, "resume": ScheduleStatus.ACTIVE}
"""and what it is made."""
Carry: TypeAlias = Callable[[UUID, int], "Schedule"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionFilter:
    """An order as it is given about each schedule of a set."""

    order: str
    reason: str
    carry: Carry
    until: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderedSchedule:
    """What an order has done to one schedule."""

    id: UUID
    name: str
    """Its id where it is no longer there."""
    is_done: bool
    status: str | None
    """What it is now; None when there is no such schedule."""
    version: int | None
    """At which version it is now."""
    why: str | None = None
    """Why it was left alone."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "id": str(self.id),
            "name": self.name,
            "is_done": self.is_done,
            "status": self.status,
            "version": self.version,
            "why": self.why,
        }


class ScheduleSelections:
    """Selections of an application's schedules, kept for a quarter of an hour."""

    def __init__(self, caller: Caller, schedules: Schedules) -> None:
        self._caller = caller
        self._schedules = schedules

    @joins
    def freeze(  # noqa: PLR0913 - each filter is an argument
        self,
        *,
        status: str | None = None,
        task: str | None = None,
        owner: str | None = None,
        declared_by: str | None = None,
        name_prefix: str | None = None,
        limit: int | None = None,
        schedules: Sequence[Reference] | None = None,
        connection: object | None = None,
    ) -> Frozen[Schedule]:
        """Find schedules by the filters of `app.schedules.list`, and keep which and how they are.

        Nothing is done to them. With `limit` the first so many by name; without it more than one
        order takes are refused. With `schedules` it is these, by name or id, whatever else is said.
        """
        now = self._caller.store.now()
        terms: dict[str, Any] = {
            "status": status,
            "task": task,
            "owner": owner,
            "declared_by": declared_by,
            "name_prefix": name_prefix,
        }
        if schedules is None:
            found = self._found(terms, limit)
            terms["limit"] = limit
        else:
            found = self._named(schedules)
            terms = {"schedules": len(found)}
        items = [(one.id.bytes, ItemMark(one.status, one.version)) for one in found]
        chosen = SelectedItems(of=SCHEDULES, items=items, terms=terms, as_of=now)
        return frozen_view(freeze_set(self._caller, chosen), found)

    def _found(self, filters: dict[str, Any], limit: int | None) -> list[Schedule]:
        most = ONE_BY_ONE_MAX if limit is None else read_limit(limit, ONE_BY_ONE_MAX)
        page = self._schedules.page(limit=most, **filters)
        if limit is None and page.after is not None:
            remedy = "narrow the filter, or give a limit: the first so many are taken then"
            problem = f"is needed: there are more than {most:,} schedules"
            raise UsageError("limit", None, problem, remedy)
        return page.items

    def _named(self, schedules: object) -> list[Schedule]:
        named = one_or_several(schedules)
        if len(named) > ONE_BY_ONE_MAX:
            problem, remedy = "are more than one order takes", f"split them: {ONE_BY_ONE_MAX:,}"
            given = f"{len(named):,} schedules"
            raise UsageError("schedules", given, problem, f"{remedy} at a time")
        found = (find_schedule(self._caller, one).record for one in named)
        known = {one.id: one for one in map(schedule_view, found)}
        return sorted(known.values(), key=lambda one: (one.name, one.id))

    def get(self, selection: UUID | str) -> Frozen[Schedule]:
        """Return a selection by its id, with the first of its schedules as they are now."""
        kept = self._find(selection)
        first = [self._record(one) for one in kept.ids[:SAMPLE_MAX]]
        return frozen_view(kept, [schedule_view(one) for one in first if one is not None])

    def preview(self, selection: UUID | str, order: str) -> OrderPreview:
        """Say what an order, pause or resume, would do to each of them, if it were given now."""
        if order not in FITTING_STATUS:
            remedy = f"use one of {', '.join(FITTING_STATUS)}"
            raise UsageError("order", order, "is not what can be ordered about schedules", remedy)
        kept = self._find(selection)
        seen = [(one, mark, self._record(one)) for one, mark in kept.marked()]
        judged = [_judged(one, mark, record, order) for one, mark, record in seen]
        names = {UUID(bytes=record.id): record.name for _, _, record in seen if record is not None}
        listed = {one.id for part in shown_of(judged) for one in part}
        shown = {key: name for key, name in names.items() if key in listed}
        return preview_of(kept, order, judged, shown)

    @joins
    def pause(  # noqa: PLR0913 - each choice is an argument
        self,
        selection: UUID | str,
        *,
        reason: str,
        until: Instant | None = None,
        missed: str = "skip",
        confirm: int | None = None,
        connection: object | None = None,
    ) -> list[OrderedSchedule]:
        """Pause each of its schedules that is active and as it was seen; tell of the others.

        `until` and `missed` are those of `app.schedules.pause`. Given again, what it has done is
        done.
        """
        kept = self._meant(selection, reason, confirm)
        read_choice("missed", missed, Missed)
        until_at = None if until is None else read_instant("until", until)
        if until_at is not None:  # before any of them is touched
            require_future("until", until, until_at, self._caller.store.now())

        def pause(one: UUID, version: int) -> Schedule:
            return self._schedules.pause(
                one, reason=reason, until=until, missed=missed, version=version
            )

        return self._each(
            kept, SelectionFilter(order="pause", reason=reason, carry=pause, until=until_at)
        )

    @joins
    def resume(  # noqa: PLR0913 - each choice is an argument
        self,
        selection: UUID | str,
        *,
        reason: str,
        missed: str = "skip",
        confirm: int | None = None,
        connection: object | None = None,
    ) -> list[OrderedSchedule]:
        """Resume each of its schedules that is paused and as it was seen; tell of the others."""
        kept = self._meant(selection, reason, confirm)
        read_choice("missed", missed, Missed)

        def resume(one: UUID, version: int) -> Schedule:
            return self._schedules.resume(one, missed=missed, reason=reason, version=version)

        return self._each(kept, SelectionFilter(order="resume", reason=reason, carry=resume))

    def _each(self, kept: SelectionRecord, given: SelectionFilter) -> list[OrderedSchedule]:
        return [self._carried(one, mark, given) for one, mark in kept.marked()]

    def _carried(self, one: bytes, mark: ItemMark, given: SelectionFilter) -> OrderedSchedule:
        record = self._record(one)
        if record is not None and self._has_done(record, mark, given):
            return _schedule_done(schedule_view(record))
        judged = _judged(one, mark, record, given.order)
        if judged.why is not None:
            return self._told(one, judged.why)
        try:
            return _schedule_done(given.carry(judged.id, mark.number))
        except (Conflict, UsageError) as error:
            # Somebody was faster by a moment, or its own rule lets it not go on.
            return self._told(one, error.problem)
        except NotFound:
            return self._told(one, GONE)

    def _has_done(self, record: ScheduleRecord, mark: ItemMark, given: SelectionFilter) -> bool:
        """Say whether this order has made a schedule what it is: who got no answer asks again."""
        wanted = self._caller.actor, given.reason, MADE[given.order], given.until
        found = record.updated_by, record.reason, record.status, record.resume_at
        return record.version == mark.number + 1 and found == wanted

    def _told(self, one: bytes, why: str) -> OrderedSchedule:
        record, identity = self._record(one), UUID(bytes=one)
        return OrderedSchedule(
            id=identity,
            name=str(identity) if record is None else record.name,
            is_done=False,
            status=None if record is None else str(record.status),
            version=None if record is None else record.version,
            why=why,
        )

    def _meant(self, selection: UUID | str, reason: str, confirm: int | None) -> SelectionRecord:
        kept = self._find(selection)
        require_confirmed(kept, confirm)
        require_reason(reason)
        return kept

    def _find(self, selection: UUID | str) -> SelectionRecord:
        return find_set(self._caller, SCHEDULES, selection)

    def _record(self, identity: bytes) -> ScheduleRecord | None:
        seen = self._caller.store.get_schedule(ScheduleId(identity))
        is_ours = seen is not None and seen.record.tenant == self._caller.tenant
        return seen.record if seen is not None and is_ours else None


def _schedule_done(now: Schedule) -> OrderedSchedule:
    return OrderedSchedule(
        id=now.id, name=now.name, is_done=True, status=now.status, version=now.version
    )


def _judged(one: bytes, mark: ItemMark, record: ScheduleRecord | None, order: str) -> ItemVerdict:
    """Say what a schedule is now, and why an order leaves it alone."""
    identity, wanted = UUID(bytes=one), FITTING_STATUS[order]
    if record is None:
        return ItemVerdict(identity, None, GONE)
    why = None
    if record.version != mark.number:
        why = f"was changed by {record.updated_by} since it was seen"
    elif record.status is not wanted:
        why = f"is {record.status}, not {wanted}"
    return ItemVerdict(identity, str(record.status), why)
