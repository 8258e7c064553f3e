"""Looking at runs, and at delayed runs that are pending."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID

from duly.client.labels import read_label
from duly.client.ordering import read_reference
from duly.client.reading import (
    LOOKED_FOR_LENGTH_MAX,
    read_choice,
    read_instant,
    read_limit,
    read_looked_for,
)
from duly.client.run_view import DelayedRun, Run, delayed_view, run_view
from duly.client.schedule_orders import find_schedule
from duly.domain.identity import RunId, ScheduleId, occurrence_run_id
from duly.domain.literals import Origin, RunState
from duly.domain.timetable.combined import zone_of
from duly.errors import NotFound, UsageError, require_text
from duly.store.reading import PAGE_MAX, RunFilter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.client.caller import Caller
    from duly.client.reading import Instant
    from duly.client.schedule_orders import Reference
    from duly.domain.runs import DelayedRecord, RunRecord

    Records = list[RunRecord]

RUNS_DEFAULT = 100
# A class that has a method `list` can't name the type below it.
ListedRuns = list[Run]
ListedDelayed = list[DelayedRun]


class Runs:
    """The runs of an application, for looking at."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def list(  # noqa: PLR0913 - each filter is an argument
        self,
        *,
        schedule: Reference | None = None,
        key: str | None = None,
        task: str | None = None,
        queue: str | None = None,
        state: str | None = None,
        origin: str | None = None,
        since: Instant | None = None,
        until: Instant | None = None,
        limit: int = RUNS_DEFAULT,
    ) -> ListedRuns:
        """Return runs, newest first: scheduled for `since` or later, and before `until`."""
        most = read_limit(limit, self._caller.settings.listed_max)
        of = None if schedule is None else find_schedule(self._caller, schedule).record.id
        command = RunFilter(
            tenant=self._caller.tenant,
            schedule_id=of,
            key=read_looked_for("key", key),
            task=read_looked_for("task", task),
            queue=read_looked_for("queue", queue),
            states=None if state is None else frozenset({read_choice("state", state, RunState)}),
            origins=None if origin is None else frozenset({read_choice("origin", origin, Origin)}),
            since=None if since is None else read_instant("since", since),
            until=None if until is None else read_instant("until", until),
        )
        return self._views(self._pages(command, most))

    def get(self, run: UUID | str) -> Run:
        """Return a run by its id or its label."""
        record = self._by_id(run) if isinstance(run, UUID) else self._by_text(run)
        if record is not None and record.tenant == self._caller.tenant:
            return self._views([record])[0]
        raise NotFound("run", run, self._where_else(run))

    def _pages(self, command: RunFilter, limit: int) -> Sequence[RunRecord]:
        found: Records = []
        while len(found) < limit:
            size = min(PAGE_MAX, limit - len(found))
            page = self._caller.store.list_runs(replace(command, limit=size))
            found += page
            if len(page) < size:
                break
            command = replace(command, before_id=page[-1].id)
        return found

    def _by_id(self, run: UUID) -> RunRecord | None:
        return self._caller.store.get_run(RunId(run.bytes))

    def _by_text(self, text: object) -> RunRecord | None:
        if not isinstance(text, str):
            remedy = "give its id (a UUID) or its label (a text)"
            raise UsageError("run", text, "names no run", remedy)
        require_text("run", text, LOOKED_FOR_LENGTH_MAX)
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
            pending = self._caller.store.get_delayed(RunId(run.bytes))
            if pending is not None and pending.tenant == self._caller.tenant:
                return "it is still pending: look at app.delayed.get()"
        return "list them with app.runs.list()"

    def _views(self, records: Sequence[RunRecord]) -> ListedRuns:
        """Show runs; each label is in the zone that the schedule had when the run was made."""
        zones: dict[tuple[ScheduleId, int], str | None] = {}
        views: ListedRuns = []
        for record in records:
            tz: str | None = None
            if record.schedule_id is not None and record.definition_number is not None:
                key = record.schedule_id, record.definition_number
                if key not in zones:
                    definition = self._caller.store.get_definition(*key)
                    zones[key] = zone_of(definition.timetable) if definition else None
                tz = zones[key]
            views.append(run_view(record, tz))
        return views


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
            return self._caller.store.get_delayed(run_id)
        return None if key is None else self._caller.store.find_delayed(self._caller.tenant, key)


def _first(records: list[RunRecord]) -> RunRecord | None:
    return records[0] if records else None
