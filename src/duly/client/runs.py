"""Find runs and attempts, wait for them; cancel, retry, discard, edit."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from uuid import UUID

from duly.client.attempt_view import Attempt, Line, Step, attempt_view, line_view, step_view
from duly.client.caller import joins
from duly.client.enqueue import read_reference, rerun_spans, with_order_span
from duly.client.paging import PAGE_DEFAULT, Page, read_cursor, read_page_limit, write_cursor
from duly.client.parameters import (
    LOOKED_FOR_LENGTH_MAX,
    read_choice,
    read_choices,
    read_delay,
    read_instant,
    read_label,
    read_limit,
    read_looked_for,
    read_number,
    require_at_most,
)
from duly.client.run_view import DelayedRun, Run, delayed_view, run_view
from duly.client.schedule_history import look_for_missing
from duly.client.schedule_orders import find_schedule
from duly.client.tasks import named_call
from duly.domain.enums import AttemptState, Lane, Origin, RunState
from duly.domain.ids import ID_BYTES, RunId, ScheduleId, occurrence_run_id, read_identity
from duly.errors import Conflict, NotFound, UsageError, read_text, require_text
from duly.store.ports.operations import ORDERED_RUNS_MAX, CancelRun, EditRun, Ordered, OrderRuns
from duly.store.ports.queries import FIRST_DELAYED, PAGE_MAX, AttemptFilter, RunFilter
from duly.timetable.combinators import zone_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from duly.client.caller import Caller
    from duly.client.explanations import RunExplanation
    from duly.client.parameters import Delay, Instant
    from duly.client.schedule_history import MissingFound
    from duly.client.schedule_orders import Reference
    from duly.domain.runs import DelayedRecord, RunRecord
    from duly.store.ports.effects import Rerun

    Carry = Callable[[OrderRuns], list[Ordered]]
    Records = list[RunRecord]
    Place = tuple[datetime, UUID]


_FENCE_BYTES = 4


class Attempts:
    """The attempts of an application's runs."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def page(  # noqa: PLR0913 - each filter is an argument
        self,
        *,
        worker: int | None = None,
        state: str | Sequence[str] | None = None,
        reason: str | None = None,
        error: str | None = None,
        limit: int = PAGE_DEFAULT,
        cursor: str | None = None,
    ) -> Page[Attempt]:
        """Return a page of attempts: those of the newest runs first, and of a run the last first.

        By the number of their worker, by state (one or several), by the reason code why they ended
        so, and by a text that their error holds.
        """
        command = AttemptFilter(
            tenant=self._caller.tenant,
            worker=None if worker is None else read_number("worker", worker),
            states=None if state is None else read_choices("state", state, AttemptState),
            reason=read_looked_for("reason", reason),
            error=_read_error(error),
            limit=read_page_limit(limit),
        )
        position = read_cursor(command, cursor, ID_BYTES + _FENCE_BYTES)
        if position is not None:
            before = RunId(position[:ID_BYTES]), int.from_bytes(position[ID_BYTES:])
            command = replace(command, before=before)
        found = self._caller.store.search_attempts(command)
        goes_on = None
        if found.next is not None:
            run_id, fence = found.next
            goes_on = run_id + fence.to_bytes(_FENCE_BYTES)
        items = [attempt_view(one) for one in found.records]
        return Page(items, write_cursor(command, goes_on))


def read_run_filter(
    tenant: str, schedule_id: ScheduleId | None, terms: Mapping[str, Any]
) -> RunFilter:
    """Read the terms of `app.runs.list`, but for the schedule; one that is None says nothing."""
    parts: dict[str, Any] = {}
    for name, value in terms.items():
        if name not in _READ:
            remedy = f"use one of {', '.join(TERMS)}"
            raise UsageError("filter", name, "is not what runs are looked for by", remedy)
        if value is not None:
            field, read = _READ[name]
            parts[field] = read(name, value)
    return RunFilter(tenant=tenant, schedule_id=schedule_id, **parts)


_READ: dict[str, tuple[str, Callable[[str, Any], Any]]] = {
    "key": ("key", read_looked_for),
    "task": ("task", read_looked_for),
    "queue": ("queue", read_looked_for),
    "state": ("states", lambda name, value: read_choices(name, value, RunState)),
    "reason": ("reason", read_looked_for),
    "error": ("error", read_looked_for),
    "origin": ("origins", lambda name, value: read_choices(name, value, Origin)),
    "lane": ("lane", lambda name, value: read_choice(name, value, Lane)),
    "root": ("root", lambda name, value: RunId(read_identity(value, name))),
    "worker": ("worker", read_number),
    "since": ("since", read_instant),
    "until": ("until", read_instant),
}
"""By the name of a term: the field of the filter, and how it is read."""
TERMS = ("schedule", *_READ)
"""What runs are looked for by: by the library, over HTTP, by commands and in the console."""


RunReference: TypeAlias = UUID | str | Run
"""A run's id, its label, or a run as it was looked at."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The runs that a filter found, frozen: what an order about them touches, and nothing else."""

    runs: tuple[Run, ...]
    """Newest first."""

    @property
    def ids(self) -> tuple[UUID, ...]:
        """Their ids."""
        return tuple(run.id for run in self.runs)

    def __len__(self) -> int:
        return len(self.runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(self.runs)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"count": len(self.runs), "runs": [run.to_json() for run in self.runs]}


RunsMeant: TypeAlias = RunReference | Selection | Iterable[RunReference]
"""One run, several, or what a filter found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderedRun:
    """What an order has done to one run."""

    id: UUID
    is_done: bool
    state: str | None
    """What the run was before; None when there is no such run."""
    why: str | None = None
    """Why it was left alone, where there is more to say than its state."""
    made: UUID | None = None
    """The run that was made of it."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "id": str(self.id),
            "is_done": self.is_done,
            "state": self.state,
            "why": self.why,
            "made": None if self.made is None else str(self.made),
        }


def cancel_run(caller: Caller, run_id: RunId, reason: str | None) -> RunRecord:
    """Stop a run: at once where nobody runs it, by asking where somebody does."""
    command = CancelRun(tenant=caller.tenant, id=run_id, actor=caller.ordering(reason))
    return caller.store.cancel_run(command)


def cancel_each(caller: Caller, ids: Sequence[RunId], reason: str | None) -> list[OrderedRun]:
    """Stop runs one by one, and tell of those that can't be stopped."""
    done: list[OrderedRun] = []
    for run_id in ids:
        before = caller.store.get_run(run_id)
        is_ours = before is not None and before.tenant == caller.tenant
        try:
            cancel_run(caller, run_id, reason)
            is_done = True
        except (Conflict, NotFound):
            is_done = False
        state = str(before.state) if before is not None and is_ours else None
        done.append(OrderedRun(id=UUID(bytes=run_id), is_done=is_done, state=state))
    return done


def rerun_told(caller: Caller, command: Rerun) -> RunRecord:
    """Run a run once more, and tell of it in its trace and in the caller's."""
    return with_order_span(
        caller.tracing,
        lambda: caller.store.rerun_run(command),
        lambda made: rerun_spans(made, command.id),
    )


def edit_run(
    caller: Caller, record: RunRecord, arguments: Mapping[str, Any], reason: str | None
) -> RunRecord:
    """Give a dead run other arguments, checked by its task if this program knows it."""
    known = [record.call.task]
    call = named_call(caller.tasks, record.call.task, arguments, known)
    command = EditRun(
        tenant=caller.tenant,
        id=record.id,
        arguments=call.payload,
        actor=caller.ordering(reason),
    )
    return caller.store.edit_run(command)


def order_runs(
    caller: Caller, ids: Sequence[RunId], reason: str | None, carry: Carry
) -> list[OrderedRun]:
    """Carry out an order about runs, a bounded number in each transaction."""
    actor = caller.ordering(reason)
    done: list[OrderedRun] = []
    for first in range(0, len(ids), ORDERED_RUNS_MAX):
        part = tuple(ids[first : first + ORDERED_RUNS_MAX])
        answers = carry(OrderRuns(tenant=caller.tenant, ids=part, actor=actor))
        done += [_view(one) for one in answers]
    return done


def read_meant(caller: Caller, runs: object) -> list[RunReference]:
    """Read which runs are meant; each once, in the order given."""
    if isinstance(runs, UUID | str | Run):
        return [runs]
    if not isinstance(runs, Iterable):
        remedy = "give an id, a label, a list of them, or app.runs.select(…)"
        raise UsageError("runs", runs, "names no run", remedy)
    most = caller.settings.runs_per_order_max
    found = list(islice(runs, most + 1))
    if len(found) > most:
        problem = "are more runs than one order takes"
        raise UsageError("runs", f"{most:,} and more", problem, f"split them: {most:,} at a time")
    return found


def _view(ordered: Ordered) -> OrderedRun:
    return OrderedRun(
        id=UUID(bytes=ordered.id),
        is_done=ordered.is_done,
        state=None if ordered.state is None else str(ordered.state),
    )


RUNS_DEFAULT = 100
NEWEST_DEFAULT = 20
SCHEDULES_MAX = 100
"""So many schedules are asked for their newest runs at once."""
SELECTED_DEFAULT = 1_000
WAIT_FIRST_US = 20_000
WAIT_MAX_US = 1_000_000
# A class that has a method `list` can't name the type below it.
ListedRuns = list[Run]
ListedDelayed = list[DelayedRun]
AttemptList = list[Attempt]
Steps = list[Step]
Lines = list[Line]
OrderedRuns = list[OrderedRun]
Ids = list[RunId]
NewestRuns = dict[UUID, list[Run]]


class Runs:
    """The runs of an application."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def list(  # noqa: PLR0913 - each filter is an argument
        self,
        *,
        schedule: Reference | None = None,
        key: str | None = None,
        task: str | None = None,
        queue: str | None = None,
        state: str | Sequence[str] | None = None,
        reason: str | None = None,
        error: str | None = None,
        origin: str | Sequence[str] | None = None,
        lane: str | None = None,
        root: UUID | str | None = None,
        worker: int | None = None,
        since: Instant | None = None,
        until: Instant | None = None,
        limit: int = RUNS_DEFAULT,
    ) -> ListedRuns:
        """Return runs, newest first: scheduled for `since` or later, and before `until`.

        `state` is one or several; `reason` is the code why a run is dead, or ended as it did;
        `error` is a text that its last error holds; `root` is the run that it repeats, or itself.
        """
        most = read_limit(limit, self._caller.settings.listed_max)
        command = self._filter(
            schedule=schedule,
            key=key,
            task=task,
            queue=queue,
            state=state,
            reason=reason,
            error=error,
            origin=origin,
            lane=lane,
            root=root,
            worker=worker,
            since=since,
            until=until,
        )
        return run_views(self._caller, self._pages(command, most))

    def page(
        self,
        *,
        limit: int = PAGE_DEFAULT,
        cursor: str | None = None,
        **filters: Any,  # noqa: ANN401 - as `list` has them
    ) -> Page[Run]:
        """Return a page of the runs that `list` would return, at a bounded price.

        It may be shorter than asked while there is more: go on with its `next_cursor`, and with
        the same filters, until there is none.
        """
        command = replace(self._filter(**filters), limit=read_page_limit(limit))
        position = read_cursor(command, cursor, ID_BYTES)
        if position is not None:
            command = replace(command, before_id=RunId(position))
        found = self._caller.store.search_runs(command)
        return Page(run_views(self._caller, found.records), write_cursor(command, found.next))

    def select(
        self,
        *,
        state: str | Sequence[str] | None = "dead",
        limit: int = SELECTED_DEFAULT,
        **filters: Any,  # noqa: ANN401 - as `list` has them
    ) -> Selection:
        """Find runs by the filters of `list`, dead ones unless told, and freeze which they are.

        Given to `retry` or `discard`, the order touches these and no others.
        """
        return Selection(tuple(self.list(state=state, limit=limit, **filters)))

    def newest(self, schedules: Sequence[UUID], *, limit: int = NEWEST_DEFAULT) -> NewestRuns:
        """Return the newest runs of some schedules, newest first, by the schedules' ids.

        Who has none is left out, and so is who is not of this tenant.
        """
        most = read_limit(limit, PAGE_MAX)
        require_at_most("schedules", len(schedules), SCHEDULES_MAX)
        ids = [ScheduleId(one.bytes) for one in schedules]
        found = self._caller.store.list_newest_runs(ids, most)
        own = [run for runs in found.values() for run in runs if run.tenant == self._caller.tenant]
        newest: NewestRuns = {}
        for run in run_views(self._caller, own):
            assert run.schedule_id is not None, "they were found by it"
            newest.setdefault(run.schedule_id, []).append(run)
        return newest

    def get(self, run: RunReference) -> Run:
        """Return a run by its id or its label, as it is now."""
        return run_views(self._caller, [self._record(run)])[0]

    def missing(
        self,
        since: Instant,
        until: Instant | None = None,
        *,
        schedule: Reference | None = None,
        after: tuple[str, UUID] | None = None,
    ) -> MissingFound:
        """Return what was expected since then and has no run: lost, owed, or held by a pause.

        It goes by what timetables ask for, not by what is recorded, in a hundred schedules at a
        time: go on with `after` until it is None. Up to `until`, or to now.
        """
        begin = read_instant("since", since)
        end = None if until is None else read_instant("until", until)
        if end is not None and end < begin:
            raise UsageError("until", until, "is before since", "give a later one")
        of = None if schedule is None else find_schedule(self._caller, schedule).record.id
        return look_for_missing(self._caller, (begin, end), of, after)

    def attempts(self, run: RunReference) -> AttemptList:
        """Return every claim of a run and what became of it, in order."""
        return [attempt_view(one) for one in self._caller.store.list_attempts(self._id(run))]

    def why(self, run: RunReference | DelayedRun) -> RunExplanation:
        """Say in a sentence why a run is late, stuck, waiting or dead, and what that rests on.

        What is still pending has an explanation, too: by its id, its key, or as it was listed.
        """
        from duly.client.explanations import explain_run

        if isinstance(run, str):
            pending = self._caller.store.find_delayed(self._caller.tenant, run)
            if pending is not None:
                return explain_run(self._caller, pending.id)
        given = run.id if isinstance(run, DelayedRun) else run
        return explain_run(self._caller, self._ordered_id(given))

    def progress(self, run: RunReference, *, limit: int = PAGE_MAX) -> Steps:
        """Return the steps of a run's progress, oldest first."""
        most = read_limit(limit, self._caller.settings.listed_max)
        return [step_view(one) for one in self._caller.store.list_progress(self._id(run), most)]

    def lines(self, run: RunReference, *, after: int = 0, limit: int = PAGE_MAX) -> Lines:
        """Return lines that a run's attempts wrote, in order, with a number above `after`."""
        most = read_limit(limit, self._caller.settings.listed_max)
        if not isinstance(after, int) or isinstance(after, bool) or after < 0:
            raise UsageError("after", after, "is not the number of a line", "give 0 or more")
        return [line_view(one) for one in self._caller.store.list_lines(self._id(run), after, most)]

    def checkpoints(self, run: RunReference) -> dict[str, Any]:
        """Return the states that a run has stored to go on from, by partition; "" for the whole."""
        found = self._caller.store.get_checkpoints(self._id(run))
        return {partition: json.loads(state) for partition, state in found.items()}

    def wait(self, run: RunReference, *, timeout: Delay | None = None) -> Run:
        """Wait until a run is over or dead; after `timeout`, return it as it is then.

        Whether it is over, `is_over` says. What is not due yet can't be waited for.
        """
        limit_us = None if timeout is None else read_delay("timeout", timeout)
        clock = self._caller.clock
        begun_us = clock.monotonic_us()
        run_id, rest_us = self._id(run), WAIT_FIRST_US
        while True:
            found = self.get(UUID(bytes=run_id))
            passed_us = clock.monotonic_us() - begun_us
            left_us = None if limit_us is None else limit_us - passed_us
            if found.is_over or (left_us is not None and left_us <= 0):
                return found
            self._caller.rest(rest_us if left_us is None else min(rest_us, left_us))
            rest_us = min(2 * rest_us, WAIT_MAX_US)

    @joins
    def cancel(
        self, run: RunReference, *, reason: str | None = None, connection: object | None = None
    ) -> Run:
        """Stop a run: at once where nobody runs it, by asking where somebody does.

        One that is still pending is cancelled, too. A dead one is discarded instead: Conflict.
        """
        record = cancel_run(self._caller, self._ordered_id(run), reason)
        return run_views(self._caller, [record])[0]

    @joins
    def retry(
        self, runs: RunsMeant, *, reason: str | None = None, connection: object | None = None
    ) -> OrderedRuns:
        """Queue dead runs again with a fresh budget, and at once those that wait to be retried.

        What can't be retried is told: `is_done` is False, and `state` says what it was.
        """
        return order_runs(self._caller, self._meant(runs), reason, self._caller.store.retry_runs)

    @joins
    def discard(
        self, runs: RunsMeant, *, reason: str | None = None, connection: object | None = None
    ) -> OrderedRuns:
        """Close dead runs for good, with outcome discarded; what is not dead is told."""
        return order_runs(self._caller, self._meant(runs), reason, self._caller.store.discard_runs)

    @joins
    def edit(
        self,
        run: RunReference,
        arguments: Mapping[str, Any],
        *,
        reason: str | None = None,
        connection: object | None = None,
    ) -> Run:
        """Give a dead run other arguments, all of them, as JSON values; then retry it."""
        record = edit_run(self._caller, self._record(run), arguments, reason)
        return run_views(self._caller, [record])[0]

    def _meant(self, runs: RunsMeant) -> Ids:
        meant = read_meant(self._caller, runs)
        return list(dict.fromkeys(self._ordered_id(one) for one in meant))

    def _ordered_id(self, run: RunReference) -> RunId:
        """Return a run's id; one that does not exist is told by the order, not refused."""
        given = run.id if isinstance(run, Run) else run
        return RunId(given.bytes) if isinstance(given, UUID) else self._id(given)

    def _id(self, run: RunReference) -> RunId:
        return self._record(run).id

    def _record(self, run: RunReference) -> RunRecord:
        given = run.id if isinstance(run, Run) else run
        record = self._by_id(given) if isinstance(given, UUID) else self._by_text(given)
        if record is not None and record.tenant == self._caller.tenant:
            return record
        raise NotFound("run", given, self._where_else(given))

    def _filter(self, *, schedule: Reference | None = None, **terms: Any) -> RunFilter:  # noqa: ANN401 - as above
        of = None if schedule is None else find_schedule(self._caller, schedule).record.id
        return read_run_filter(self._caller.tenant, of, terms)

    def _pages(self, command: RunFilter, limit: int) -> Sequence[RunRecord]:
        found: Records = []
        while True:
            size = min(PAGE_MAX, limit - len(found))
            page = self._caller.store.search_runs(replace(command, limit=size))
            found += page.records
            if page.next is None or len(found) >= limit:
                return found
            command = replace(command, before_id=page.next)

    def _by_id(self, run: UUID) -> RunRecord | None:
        return self._caller.store.get_run(RunId(run.bytes), self._caller.tenant)

    def _by_text(self, text: object) -> RunRecord | None:
        if not isinstance(text, str):
            remedy = "give its id (a UUID) or its label (a text)"
            raise UsageError("run", text, "names no run", remedy)
        text = read_text("run", text, LOOKED_FOR_LENGTH_MAX)
        label = read_label(text)
        if label is not None:
            return self._by_label(*label)
        try:
            return self._by_id(UUID(text))
        except ValueError:
            return None

    def _by_label(self, name: str, instant: int) -> RunRecord | None:
        """Find what a label names: a schedule's occurrence, a manual run, or a delayed one."""
        store, tenant = self._caller.store, self._caller.tenant
        command = RunFilter(tenant=tenant, since=instant, until=instant + 1, limit=1)
        seen = store.find_schedule(tenant, name)
        if seen is not None:
            of = seen.record.id
            found = store.get_run(occurrence_run_id(of, instant))
            if found is not None:
                return found
            return _first(store.list_runs(replace(command, schedule_id=of)))
        return _first(store.list_runs(replace(command, key=name))) or _first(
            store.list_runs(replace(command, task=name))
        )

    def _where_else(self, run: UUID | str) -> str:
        """Say where to look: what is promised but not yet due is no run."""
        if isinstance(run, UUID):
            pending = self._caller.store.get_delayed(RunId(run.bytes), self._caller.tenant)
            if pending is not None:
                return "it is still pending: look at app.delayed.get()"
        return "list them with app.runs.list()"


def _read_error(part: str | None) -> str | None:
    """Read a part of an error; errors are kept as they were written."""
    if part is not None:
        require_text("error", part, LOOKED_FOR_LENGTH_MAX)
    return part


def run_views(caller: Caller, records: Sequence[RunRecord]) -> ListedRuns:
    """Show runs; each label is in the zone that the schedule had when the run was made."""
    keys = {
        (run.schedule_id, run.definition_number)
        for run in records
        if run.schedule_id is not None and run.definition_number is not None
    }
    found = caller.store.get_definitions(sorted(keys)) if keys else {}
    zones = {key: zone_of(one.timetable) for key, one in found.items()}
    return [
        run_view(run, zones.get((run.schedule_id, run.definition_number)))  # type: ignore[arg-type]
        for run in records
    ]


class DelayedPage(NamedTuple):
    """A part of what is pending, and after which one the next part begins."""

    items: ListedDelayed
    after: Place | None


class DelayedRuns:
    """Delayed runs that are pending, for looking at."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def list(self, *, limit: int = PAGE_MAX) -> ListedDelayed:
        """Return what is pending, in order of due."""
        most = read_limit(limit, self._caller.settings.listed_max)
        return [
            delayed_view(one) for one in self._caller.store.list_delayed(self._caller.tenant, most)
        ]

    def page(self, *, limit: int = PAGE_MAX, after: Place | None = None) -> DelayedPage:
        """Return a page of what is pending, in order of due, and where the next begins."""
        most = read_limit(limit, PAGE_MAX)
        place = FIRST_DELAYED
        if after is not None:
            place = read_instant("after", after[0]), after[1].bytes
        # One more than is asked for tells whether there is a next page.
        records = self._caller.store.list_delayed(self._caller.tenant, most + 1, place)
        found = [delayed_view(one) for one in records[:most]]
        last = found[-1] if len(records) > most else None
        return DelayedPage(found, None if last is None else (last.due_at, last.id))

    def get(self, key_or_id: str | UUID) -> DelayedRun:
        """Return a pending one by its key (a text) or its id (a UUID)."""
        record = self._find(key_or_id)
        if record is None or record.tenant != self._caller.tenant:
            remedy = "list what is pending with app.delayed.list(); what has fired is in app.runs"
            raise NotFound("delayed run", key_or_id, remedy)
        return delayed_view(record)

    def _find(self, key_or_id: str | UUID) -> DelayedRecord | None:
        key, run_id = read_reference(key_or_id)
        if run_id is not None:
            return self._caller.store.get_delayed(run_id, self._caller.tenant)
        return None if key is None else self._caller.store.find_delayed(self._caller.tenant, key)


def _first(records: list[RunRecord]) -> RunRecord | None:
    return records[0] if records else None
