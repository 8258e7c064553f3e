"""Backfilling: makes history on purpose, at the rate that was set, beside fresh work (M2, M3).

Each backfill is a row with a cursor in the store. A step looks at the next few occurrences under
the maintenance lease; the store decides about each as it is then, and says where it stands.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeGuard

from duly.domain.backfill_steps import Span, next_step
from duly.domain.instants import MINUTE, SECOND_US
from duly.domain.literals import Lane
from duly.engine.ownership import MAINTENANCE
from duly.errors import STORE_AWAY
from duly.store.backfilling import STEP_MAX, StepBackfill
from duly.store.dispatch import FireResult

if TYPE_CHECKING:
    from duly.domain.identity import BackfillId
    from duly.engine.gaps import Gaps
    from duly.engine.membership import Membership
    from duly.engine.ownership import Ownership
    from duly.engine.surroundings import Surroundings
    from duly.engine.templates import Templates
    from duly.store.backfilling import BackfillRecord

MINUTE_US = MINUTE * SECOND_US


@dataclass(slots=True)
class _Pace:
    """How far a backfill may go just now."""

    allowed_us: int
    """How much of its rate is unused, in microseconds of it; a run costs its share."""
    counted_at: int
    wait_until: int = 0
    """As many of its runs are open as may be; until then we do not ask again."""


class Backfilling:
    """The backfills that go on, and how far each may go."""

    def __init__(  # noqa: PLR0913 - the parts that filling in brings together
        self,
        around: Surroundings,
        templates: Templates,
        *,
        membership: Membership,
        ownership: Ownership,
        gaps: Gaps,
    ) -> None:
        self._around = around
        self._templates = templates
        self._membership = membership
        self._ownership = ownership
        self._gaps = gaps
        self._active: list[BackfillRecord] = []
        self._paces: dict[BackfillId, _Pace] = {}
        self._look_at = 0
        self._stepped_at = 0

    def forget(self) -> None:
        """Believe nothing; what is active is read anew."""
        self._active = []
        self._look_at = 0

    def go_on(self, *, is_live_due: bool) -> None:
        """Do a step of each backfill that may go on; of one now and then while work is due (M3)."""
        monotonic = self._around.clock.monotonic_us()
        is_starved = monotonic - self._stepped_at >= self._around.settings.backfill_reserve_us
        if not self._ownership.owns(MAINTENANCE) or (is_live_due and not is_starved):
            return
        if monotonic >= self._look_at:
            self._look(monotonic)
        for record in tuple(self._active):
            if not self._membership.may_write():
                return
            if self._next_at(record, monotonic) > monotonic:
                continue
            if not is_starved and not self._gaps.has_room():
                return
            is_starved = False
            self._stepped_at = self._around.clock.monotonic_us()
            self._step(record, monotonic)
            self._gaps.note(self._stepped_at)
            if is_live_due:
                return

    def next_at(self) -> int | None:
        """Return when a step is due, or we look for new ones; None while somebody else does it."""
        if not self._ownership.owns(MAINTENANCE):
            return None
        monotonic = self._around.clock.monotonic_us()
        due = [self._next_at(record, monotonic) for record in self._active]
        return max(min([self._look_at, *due]), self._gaps.until)

    def _look(self, monotonic: int) -> None:
        settings = self._around.settings
        self._look_at = monotonic + settings.backfills_every_us
        self._active = self._around.store.load_backfills(settings.backfills_max)
        known = {record.id for record in self._active}
        self._paces = {one: pace for one, pace in self._paces.items() if one in known}
        for record in self._active:
            if record.id not in self._paces:
                self._paces[record.id] = _Pace(MINUTE_US // record.per_minute, monotonic)

    def _next_at(self, record: BackfillRecord, monotonic: int) -> int:
        """Return when a backfill may make its next run, on the monotonic clock."""
        pace, run_us = self._paces[record.id], MINUTE_US // record.per_minute
        # What was saved up is no more than a second's worth: an idle hour earns no flood.
        most_us = max(run_us, SECOND_US)
        pace.allowed_us = min(pace.allowed_us + monotonic - pace.counted_at, most_us)
        pace.counted_at = monotonic
        return max(pace.wait_until, monotonic + max(0, run_us - pace.allowed_us))

    def _step(self, record: BackfillRecord, monotonic: int) -> None:
        key = (record.schedule_id, record.definition_number)
        template = self._templates.fetch([key]).get(key)
        if template is None or record.cursor is None:
            self._set_aside(record, monotonic, "its definition can't be read")
            return
        pace, run_us = self._paces[record.id], MINUTE_US // record.per_minute
        runs_max = pace.allowed_us // run_us
        try:
            span = Span(record.since, record.until, record.order, record.cursor)
            step = next_step(template, span, record.id, STEP_MAX)
            order = StepBackfill(
                fence=self._ownership.fence(Lane.BACKFILL, [MAINTENANCE.shard]),
                id=record.id,
                expected_cursor=record.cursor,
                slots=step.slots,
                cursor=step.cursor,
                runs_max=runs_max,
            )
            stepped = self._around.store.step_backfill(order)
        except STORE_AWAY:
            self.forget()
            raise
        except Exception as error:  # noqa: BLE001 - one bad backfill must not stop the others
            self._set_aside(record, monotonic, f"it can't go on: {error!r}")
            return
        pace.allowed_us -= stepped.made * run_us
        self._around.statistics.backfilled += stepped.made
        self._active.remove(record)
        match stepped.result:
            case FireResult.FIRED if _has_more(stepped.record):
                self._active.append(stepped.record)
            case FireResult.BUSY:
                pace.wait_until = monotonic + self._around.settings.backfill_busy_us
                self._active.append(record)
            case FireResult.FENCED:
                self._ownership.lose([MAINTENANCE])
            case _:
                pass  # it is done, or somebody has changed it: the next look tells

    def _set_aside(self, record: BackfillRecord, monotonic: int, problem: str) -> None:
        self._paces[record.id].wait_until = monotonic + self._around.settings.set_aside_us
        self._around.statistics.set_aside += 1
        self._membership.tell_set_aside("backfill", record.schedule_id, problem)


def _has_more(record: BackfillRecord | None) -> TypeGuard[BackfillRecord]:
    return record is not None and record.cursor is not None
