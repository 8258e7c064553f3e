"""Works out ahead what firing a timer does; cache of definitions.

`FirePlanner` reads the definition of a schedule before its timer is due and computes the next
occurrence. When the timer falls due, only the command remains to be built. A delayed run and a
retry need no definition.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

from duly.domain.fire_planning import ScheduleVersion, plan_late, plan_on_time
from duly.domain.ids import ScheduleId, occurrence_run_id
from duly.domain.schedules import NextOccurrence
from duly.errors import STORE_AWAY, UsageError
from duly.store.ports.dispatch import FireDelayed, FireOnTime, FirePlanned, FireRetry
from duly.timetable.zones import default_zones

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from duly.domain.schedules import Definition
    from duly.engine.dispatcher.context import DispatcherContext
    from duly.engine.dispatcher.leases import Membership
    from duly.engine.dispatcher.timer_loader import Loader
    from duly.engine.dispatcher.timer_wheel import LoadedTimer


LOOK_EVERY = 8
"""After how many plans the clock is looked at."""
FETCH_MAX = 500
"""How many schedules are read ahead at most while others are due."""


class FirePlanner:
    """Plans timers that are due, and ahead of time those that will be."""

    def __init__(
        self,
        around: DispatcherContext,
        loader: Loader,
        templates: Templates,
        membership: Membership,
    ) -> None:
        self._around = around
        self._loader = loader
        self._templates = templates
        self._membership = membership
        self._fired_before = 0

    def make_ahead(self, *, is_live_due: bool) -> bool:
        """Do what planning takes before it is needed, for a short while; say whether some is left.

        Of what is due now a few wait for it: a definition that is read when its time has come holds
        up all that is due with it.
        """
        loader, settings, clock = self._loader, self._around.settings, self._around.clock
        fired_since = self._around.statistics.fired - self._fired_before
        self._fired_before += fired_since
        unplanned = loader.unplanned
        if not unplanned:
            return False
        slice_ends = clock.monotonic_us() + settings.plan_slice_us
        at_most = settings.plans_per_tick
        if is_live_due:
            # As many as were fired since: who plans fewer than that ahead has to plan them late.
            at_most = max(settings.plans_per_busy_tick, min(fired_since, FETCH_MAX))
        chosen = [*islice(unplanned, at_most)]
        self._fetch(chosen)
        for entry in chosen:
            unplanned.popleft()
            if loader.wheel.holds(entry):
                self._look_ahead(entry)
            if clock.monotonic_us() > slice_ends:
                break
        return bool(unplanned)

    def _look_ahead(self, entry: LoadedTimer) -> None:
        """Work out the next occurrence; should it fail, that is said when this one is due."""
        if entry.template is not None:
            with suppress(Exception):
                entry.following = _following(entry.template, entry.scheduled_for)

    def made_for(self, batch: list[LoadedTimer], slice_us: int) -> list[LoadedTimer]:
        """Return the entries that have their plan; the others are put back or set aside."""
        clock = self._around.clock
        self._fetch(batch)
        ends = clock.monotonic_us() + slice_us
        ready: list[LoadedTimer] = []
        is_over = False
        for entry in batch:
            if entry.kind == "delayed":
                entry.fire = FireDelayed(entry.timer)
            elif entry.kind == "retry":
                entry.fire = FireRetry(entry.timer)
            else:
                is_over = is_over or (len(ready) % LOOK_EVERY == 1 and clock.monotonic_us() > ends)
                if is_over:
                    self._loader.put_back(entry)
                    continue
                problem = self._plan(entry)
                if problem is not None:
                    self.set_aside(entry, problem)
                    continue
            ready.append(entry)
        return ready

    def _plan(self, entry: LoadedTimer) -> str | None:
        """Work out what firing an entry does; return the problem if that can't be done."""
        template = entry.template
        if template is None:
            return "its definition can't be read"
        due_at, scheduled_for = entry.due_at, entry.scheduled_for
        late_after = due_at + template.definition.misfire.grace_us
        try:
            following = entry.following
            if late_after < self._loader.seen_now:
                pending = NextOccurrence(scheduled_for, due_at)
                plan = plan_late(template, pending, self._loader.seen_now)
                entry.fire = FirePlanned(entry.timer, plan, None)
                return None
            if following is None:
                following = _following(template, scheduled_for)
            if following is None:
                plan = plan_on_time(template, NextOccurrence(scheduled_for, due_at))
                entry.fire = FirePlanned(entry.timer, plan, late_after)
                return None
        except Exception as error:  # noqa: BLE001 - one bad schedule must not stop the others
            return f"its timetable can't be computed: {error!r}"
        fire = (
            entry.ref,
            entry.generation,
            due_at,
            scheduled_for,
            entry.shard,
            late_after,
            occurrence_run_id(template.schedule_id, scheduled_for),
            following,
            following + template.offset_us,
            entry.definition_number,
        )
        # As FireOnTime(*fire), without the call in between: it is made for every fire.
        entry.fire = tuple.__new__(FireOnTime, fire)
        return None

    def _fetch(self, entries: list[LoadedTimer]) -> None:
        """Give entries of schedules their templates; what can't be read has none."""
        missing = [one for one in entries if one.template is None and one.kind == "schedule"]
        if not missing:
            return
        found = self._templates.fetch(map(_key, missing))
        for entry in missing:
            entry.template = found.get(_key(entry))

    def set_aside(self, entry: LoadedTimer, problem: str) -> None:
        """Leave one alone for a while, and say so; it stays pending."""
        self._around.statistics.set_aside += 1
        entry.fire_at = self._loader.seen_now + self._around.settings.set_aside_us
        entry.fire = None
        self._loader.put_back(entry)
        self._membership.tell_set_aside(entry.kind, entry.ref, problem)


def _key(entry: LoadedTimer) -> TemplateKey:
    return ScheduleId(entry.ref), entry.definition_number


def _following(template: ScheduleVersion, scheduled_for: int) -> int | None:
    """Return the nominal time of the next occurrence; None when there is none, or no telling."""
    try:
        return template.definition.timetable.first_from(scheduled_for + 1)
    except UsageError:
        return None


TemplateKey = tuple[ScheduleId, int]


class Templates:
    """Definitions by schedule and number, under our release of time-zone rules."""

    def __init__(self, around: DispatcherContext) -> None:
        self._around = around
        self._known: dict[TemplateKey, ScheduleVersion] = {}
        self._is_default = around.node.zones is default_zones()

    def fetch(self, keys: Iterable[TemplateKey]) -> Mapping[TemplateKey, ScheduleVersion]:
        """Return templates, reading those that are not known yet; what can't be read is left out.

        There may be more of them than are kept.
        """
        known = self._known
        wanted = dict.fromkeys(keys)
        found = {key: known[key] for key in wanted if key in known}
        missing = [key for key in wanted if key not in found]
        page = self._around.settings.definitions_page
        for first in range(0, len(missing), page):
            for key, definition in self._read(missing[first : first + page]).items():
                template = self._made(key, definition)
                if template is not None:
                    found[key] = template
                    self._keep(key, template)
        return found

    def _read(self, keys: Sequence[TemplateKey]) -> Mapping[TemplateKey, Definition]:
        store = self._around.store
        try:
            return store.read_definitions(keys)
        except STORE_AWAY:
            raise
        except Exception:  # noqa: BLE001 - one that can't be read must not hide the others
            found: dict[TemplateKey, Definition] = {}
            for key in keys:
                found |= self._read_one(key)
            return found

    def _read_one(self, key: TemplateKey) -> Mapping[TemplateKey, Definition]:
        try:
            return self._around.store.read_definitions([key])
        except STORE_AWAY:
            raise
        except Exception:  # noqa: BLE001 - as above; whoever needs it says that it is missing
            return {}

    def _made(self, key: TemplateKey, definition: Definition) -> ScheduleVersion | None:
        try:
            mine = definition if self._is_default else definition.under(self._around.node.zones)
        except Exception:  # noqa: BLE001 - its zone may be missing from our release
            return None
        return ScheduleVersion(*key, mine)

    def _keep(self, key: TemplateKey, template: ScheduleVersion) -> None:
        if len(self._known) >= self._around.settings.definitions_max:
            # Every second one: who goes round more than there is room for would find none of them
            # if the oldest went first.
            self._known = dict(islice(self._known.items(), 0, None, 2))
        self._known[key] = template
