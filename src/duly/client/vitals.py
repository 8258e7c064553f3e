"""Vitals in a program's hands: how a schedule, a task or a tenant is doing (V1, V4).

Read when somebody asks, from a bounded number of the newest runs: nothing is written for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from duly.client.reading import (
    read_choice,
    read_limit,
    read_looked_for,
    require_at_most,
)
from duly.client.schedule_orders import find_schedule
from duly.client.vitals_making import Found, Subject, Total, schedule_vitals, vital_signs
from duly.client.vitals_view import WindowVitals
from duly.domain.backfilling import BackfillStatus
from duly.domain.checking import check_name
from duly.domain.identity import ScheduleId
from duly.domain.last_ends import RUNS_LOOKED_AT
from duly.domain.literals import RunState, ScheduleStatus
from duly.domain.run_vitals import VitalsFilter
from duly.domain.vitals import WINDOW_RUNS, look_at
from duly.errors import NotFound, UsageError
from duly.store.backfilling import LISTED_MAX
from duly.store.reading import RunFilter, ScheduleFilter
from duly.store.signs import Reach, read_signs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.client.caller import Caller
    from duly.client.schedule_orders import Reference
    from duly.client.vitals_view import ScheduleVitals, VitalSigns
    from duly.domain.identity import RunId
    from duly.domain.run_vitals import RunVital
    from duly.domain.schedules import ScheduleRecord
    from duly.store.backfilling import BackfillRecord

    Place = tuple[str, UUID]

SCHEDULES_MAX = 100
"""Of a task or a tenant so many active schedules are looked at, and on a page at the most."""
LOOKED_AT_MAX = 200
"""So many schedules are looked at at a glance, if they are named."""
OPEN_MAX = 100
"""So many open runs of a task are looked at besides its newest."""
PAGES_MAX = 3
"""So many pages of a search are read for a window: each at a bounded price."""
_IN_WORK = frozenset({RunState.RUNNING, RunState.RETRYING, RunState.DEAD, RunState.AMBIGUOUS})
_ALL_OF_ONE = Reach(window=WINDOW_RUNS, ends=RUNS_LOOKED_AT)
_ON_A_LINE = Reach(window=5)
"""A line tells of when work last ended, and nothing else that a longer look would find."""
_AT_A_GLANCE = Reach(window=3, ends=20, has_errors=False)
_ACTIVE = frozenset({ScheduleStatus.ACTIVE})


class VitalsPage(NamedTuple):
    """Schedules with their vitals, and after which one the next page begins."""

    items: list[ScheduleVitals]
    after: Place | None


class Windows(NamedTuple):
    """What the newest runs tell: all of the tenant's, and those of some schedules."""

    tenant: WindowVitals
    schedules: dict[UUID, WindowVitals]


class Vitals:
    """How what an application has promised is doing."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def of_schedule(self, schedule: Reference) -> VitalSigns:
        """Return all that is known of how one schedule is doing, by its name or id."""
        seen = find_schedule(self._caller, schedule)
        store, record = self._caller.store, seen.record
        (signs,) = read_signs(store, [record], _ALL_OF_ONE)
        subject = Subject("schedule", record.name, seen.now)
        return vital_signs(
            subject,
            Found(
                signs=[signs],
                runs=signs.runs,
                is_whole=len(signs.runs) < WINDOW_RUNS and record.pruned_through is None,
                checked=self._checked(),
                owed=len(store.list_owed(record.id)),
                backfills=self._backfills(record.id),
            ),
        )

    def of_task(self, name: str) -> VitalSigns:
        """Return how a task is doing, by all its schedules and whoever else asks for it."""
        task = read_looked_for("task", name)
        if task is None:
            raise UsageError("task", name, "names no task", "give its name")
        if task not in self._caller.store.list_tasks() and self._caller.tasks.find(task) is None:
            raise NotFound("task", task, "list them with duly task list")
        return self._of_many(Subject("task", task, self._caller.store.now()), task)

    def of_tenant(self, name: str | None = None) -> VitalSigns:
        """Return how a tenant is doing: this application's own, which is the only one it sees."""
        tenant = self._caller.tenant
        if name not in (None, tenant):
            remedy = "open an application of that tenant, or ask a server for it"
            raise NotFound("tenant", name, remedy)
        return self._of_many(Subject("tenant", tenant, self._caller.store.now()), None)

    def schedules(  # noqa: PLR0913 - each filter is an argument
        self,
        *,
        after: Place | None = None,
        limit: int = SCHEDULES_MAX,
        status: str | None = "active",
        task: str | None = None,
        name_prefix: str | None = None,
        with_errors: bool = True,
    ) -> VitalsPage:
        """Return a page of schedules by name, each with what its trigger does and what comes of it.

        Active ones, unless another status is named, or None for all that are not deleted. Without
        errors fewer runs are looked at, and the last error is not told: that is most of the price.
        """
        most = read_limit(limit, SCHEDULES_MAX)
        tenant, store = self._caller.tenant, self._caller.store
        place = None if after is None else (tenant, after[0], ScheduleId(after[1].bytes))
        command = ScheduleFilter(
            tenant=tenant,
            statuses=None
            if status is None
            else frozenset({read_choice("status", status, ScheduleStatus)}),
            task=read_looked_for("task", task),
            name_prefix=read_looked_for("name_prefix", name_prefix),
            after=place,
            limit=most + 1,
        )
        records = store.list_schedules(command)
        reach = _ON_A_LINE if with_errors else _AT_A_GLANCE
        signs = read_signs(store, records[:most], reach)
        items = [schedule_vitals(one) for one in signs]
        last = items[-1] if len(records) > most else None
        return VitalsPage(items, None if last is None else (last.name, last.id))

    def of_schedules(self, schedules: Sequence[UUID]) -> list[ScheduleVitals]:
        """Return how some schedules are doing, as a page of them without errors tells it.

        Who is not there, or not of this tenant, is left out.
        """
        require_at_most("schedules", len(schedules), LOOKED_AT_MAX)
        store = self._caller.store
        seen = store.get_schedules([ScheduleId(one.bytes) for one in schedules])
        own = [one for one in seen.values() if one.tenant == self._caller.tenant]
        return [schedule_vitals(one) for one in read_signs(store, own, _AT_A_GLANCE)]

    def windows(self, schedules: Sequence[UUID] = (), *, runs: int) -> Windows:
        """Look at so many of the newest runs of the tenant, and of each of some schedules.

        How late they were and what came of them is told, and nothing else: a part of the price.
        Schedules that are not of this tenant are left out.
        """
        most = read_limit(runs, WINDOW_RUNS)
        require_at_most("schedules", len(schedules), SCHEDULES_MAX)
        store, checked = self._caller.store, self._checked()
        tenants, is_whole = self._window(None, most)
        seen = store.get_schedules([ScheduleId(one.bytes) for one in schedules])
        ids = [one for one, record in seen.items() if record.tenant == self._caller.tenant]
        own: dict[ScheduleId, list[RunVital]] = {one: [] for one in ids}
        for run in store.list_run_vitals(VitalsFilter(schedule_ids=ids, limit=most)) if ids else ():
            assert run.schedule_id is not None, "they were found by it"
            own[run.schedule_id].append(run)
        now = store.now()

        def is_checked(task: str) -> bool:
            return check_name(task) in checked

        def shown(found: Sequence[RunVital], *, is_whole: bool) -> WindowVitals:
            return WindowVitals(window=look_at(found, is_checked, now), is_whole=is_whole)

        return Windows(
            shown(tenants, is_whole=is_whole),
            {
                UUID(bytes=one): shown(found, is_whole=len(found) < most)
                for one, found in own.items()
            },
        )

    def _of_many(self, subject: Subject, task: str | None) -> VitalSigns:
        store, tenant = self._caller.store, self._caller.tenant
        command = ScheduleFilter(
            tenant=tenant, statuses=_ACTIVE, task=task, limit=SCHEDULES_MAX + 1
        )
        records = store.list_schedules(command)
        told = records[:SCHEDULES_MAX]
        runs, is_whole = self._window(task)
        counts = None if task is not None else store.count_tenant(tenant)
        return vital_signs(
            subject,
            Found(
                signs=read_signs(store, told, _ON_A_LINE),
                runs=runs,
                is_whole=is_whole,
                checked=self._checked(),
                owed=self._owed(told) if counts is None else counts.owed,
                backfills=self._backfills_of(None if task is None else told),
                total=None if counts is None else Total(counts),
                schedules_more=len(records) - len(told),
            ),
        )

    def _window(self, task: str | None, most: int = WINDOW_RUNS) -> tuple[Sequence[RunVital], bool]:
        """Return the newest runs of a task or of the tenant, and whether they are all there are."""
        store, tenant = self._caller.store, self._caller.tenant
        ids: list[RunId] = []
        before: RunId | None = None
        for _ in range(PAGES_MAX):
            left = most - len(ids)
            page = store.search_runs(
                RunFilter(tenant=tenant, task=task, before_id=before, limit=left)
            )
            ids += [one.id for one in page.records]
            before = page.next
            if before is None or len(ids) >= most:
                break
        # What goes on may be older than all of those.
        going_on = store.search_runs(
            RunFilter(tenant=tenant, task=task, states=_IN_WORK, limit=OPEN_MAX)
        )
        named = {*ids, *(one.id for one in going_on.records)}
        return store.list_run_vitals(VitalsFilter(run_ids=sorted(named))), before is None

    def _checked(self) -> frozenset[str]:
        return frozenset(self._caller.store.list_tasks())

    def _owed(self, records: Sequence[ScheduleRecord]) -> int:
        return sum(len(self._caller.store.list_owed(one.id)) for one in records)

    def _backfills(self, schedule_id: ScheduleId | None) -> list[BackfillRecord]:
        found = self._caller.store.list_backfills(self._caller.tenant, schedule_id, LISTED_MAX)
        return [one for one in found if one.status is BackfillStatus.ACTIVE]

    def _backfills_of(self, records: Sequence[ScheduleRecord] | None) -> list[BackfillRecord]:
        found = self._backfills(None)
        if records is None:
            return found
        own = {one.id for one in records}
        return [one for one in found if one.schedule_id in own]
