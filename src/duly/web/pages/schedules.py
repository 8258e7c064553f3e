"""The list of schedules, and orders about many of them.

`freeze_chosen` freezes the set and shows it. The order then touches these schedules and no others,
each only if it is unchanged since. Schedules that were created meanwhile are not in the set.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

import msgspec

from duly import Conflict, DulyError, NotFound, UsageError
from duly.api.views import zone_of
from duly.web.charts import RUNS, DurationBars, LatenessLine, lateness_spark, run_strip
from duly.web.formatting import read_coming
from duly.web.requests import (
    CHOSEN_MAX,
    TYPED_FROM,
    Chosen,
    Flash,
    Page,
    PageRequest,
    Redirect,
    Rendered,
    Undo,
    read_chosen,
    read_place,
    write_chosen,
    write_one,
    write_place,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from duly import Run, Schedule


NAMED_MAX = 20
UNDONE_MAX = 60
"""So many still fit into what the next page is told."""
WORDS = {"pause": ("Pause", "paused"), "resume": ("Resume", "resumed")}


class ChosenForm(msgspec.Struct, forbid_unknown_fields=True):
    """Which rows, or all that fit the filters, and what is to be done with them."""

    verb: str = ""
    chosen: list[str] = []
    all: bool = False
    status: str | None = None
    task: str | None = None
    owner: str | None = None
    search: str | None = None


class BulkForm(msgspec.Struct, forbid_unknown_fields=True):
    """The order about a frozen set."""

    chosen: list[str] = []
    reason: str | None = None
    until: str | None = None
    missed: str = "skip"
    typed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenSchedulesPage:
    """What is about to be done, to which ones, as of when."""

    verb: Literal["pause", "resume"]
    title: str
    count: int
    names: tuple[str, ...]
    others: int
    chosen: str
    as_of: datetime
    left_out: int
    """Chosen ones that can't be paused or resumed, because of what they are."""
    needs_typing: bool


def freeze_chosen(asked: PageRequest) -> Rendered | Redirect:
    """Freeze the set, and show it with what would become of it."""
    form: ChosenForm = asked.form
    if form.verb not in WORDS:
        raise UsageError("verb", form.verb, "is not an order", f"use one of {', '.join(WORDS)}")
    found = _all_fitting(asked, form) if form.all else _seen(asked, read_chosen(form.chosen))
    wanted = "active" if form.verb == "pause" else "paused"
    meant = [one for one in found if one.status == wanted]
    if not meant:
        text = f"Nothing was chosen that could be {WORDS[form.verb][1]}"
        return Redirect(to="/schedules", said=Flash(text=text))
    model = ChosenSchedulesPage(
        verb="pause" if form.verb == "pause" else "resume",
        title=f"{WORDS[form.verb][0]} {len(meant):,} {_noun(len(meant))}",
        count=len(meant),
        names=tuple(one.name for one in meant[:NAMED_MAX]),
        others=max(0, len(meant) - NAMED_MAX),
        chosen=write_chosen(meant),
        as_of=asked.now,
        left_out=len(found) - len(meant),
        needs_typing=len(meant) > TYPED_FROM,
    )
    return Rendered(template="schedules_chosen.html", model=model, title=model.title)


def pause_chosen(asked: PageRequest) -> Redirect:
    """Pause each of the set that still is as it was seen."""
    form: BulkForm = asked.form
    if not form.reason:
        raise UsageError("reason", None, "is missing", "say why, for who looks later")

    until = read_coming("until", form.until, asked.clocks.mine, asked.now)

    def pause(one: Chosen) -> Schedule:
        return asked.app.schedules.pause(
            one.id, reason=form.reason, until=until, missed=form.missed, version=one.version
        )

    return _carried_out("pause", asked, pause)


def resume_chosen(asked: PageRequest) -> Redirect:
    """Resume each of the set that still is as it was seen."""
    form: BulkForm = asked.form

    def resume(one: Chosen) -> Schedule:
        return asked.app.schedules.resume(
            one.id, missed=form.missed, reason=form.reason, version=one.version
        )

    return _carried_out("resume", asked, resume)


def _carried_out(verb: str, asked: PageRequest, order: Callable[[Chosen], Schedule]) -> Redirect:
    form: BulkForm = asked.form
    chosen = read_chosen(form.chosen)
    if not chosen:
        raise UsageError("chosen", None, "is empty", "choose rows of the list")
    if len(chosen) > TYPED_FROM and form.typed.strip() != str(len(chosen)):
        remedy = f"type {len(chosen)}, which is how many they are"
        raise UsageError("typed", form.typed, "is not the number of schedules", remedy)
    done: list[tuple[UUID, int]] = []
    left: list[str] = []
    for one in chosen:
        try:
            now = order(one)
            done.append((now.id, now.version))
        except UsageError:
            raise  # about the order itself: the first of them is refused, and so are all
        except (Conflict, NotFound) as error:
            left.append(str(getattr(error, "name", one.id)))
        except DulyError:
            left.append(str(one.id))
    text = f"{len(done):,} {_noun(len(done))} {WORDS[verb][1]}"
    if left:
        listed = ", ".join(left[:5]) + (" …" if len(left) > 5 else "")
        text += f"; {len(left)} had changed meanwhile and were left alone: {listed}"
    return Redirect(to="/schedules", said=Flash(text=text, undo=_undo(verb, done)))


def _undo(verb: str, done: list[tuple[UUID, int]]) -> Undo | None:
    if not 0 < len(done) <= UNDONE_MAX:
        return None
    other = "resume" if verb == "pause" else "pause"
    chosen = " ".join(write_one(*one) for one in done)
    fields = {"chosen": chosen, "reason": "undone"}
    return Undo(label="Undo", path=f"/schedules/chosen/{other}", fields=fields)


def _seen(asked: PageRequest, chosen: list[Chosen]) -> list[Schedule]:
    found = []
    for one in chosen:
        try:
            schedule = asked.app.schedules.get(one.id)
        except NotFound:
            continue
        if schedule.version == one.version:
            found.append(schedule)
    return found


def _all_fitting(asked: PageRequest, form: ChosenForm) -> list[Schedule]:
    page = asked.app.schedules.page(
        status=form.status,
        task=form.task,
        owner=form.owner,
        name_prefix=form.search,
        limit=CHOSEN_MAX,
    )
    if page.after is not None:
        remedy = "narrow the list by a filter"
        problem = "are more than can be ordered about at once"
        raise UsageError("chosen", f"more than {CHOSEN_MAX:,}", problem, remedy)
    return page.items


def _noun(count: int) -> str:
    return "schedule" if count == 1 else "schedules"


ORDER_PAGES = (
    Page(
        method="POST",
        path="/schedules/chosen",
        name="freeze_chosen_schedules",
        scope="edit",
        handler=freeze_chosen,
        form=ChosenForm,
    ),
    Page(
        method="POST",
        path="/schedules/chosen/pause",
        name="pause_chosen_schedules",
        scope="edit",
        handler=pause_chosen,
        form=BulkForm,
    ),
    Page(
        method="POST",
        path="/schedules/chosen/resume",
        name="resume_chosen_schedules",
        scope="edit",
        handler=resume_chosen,
        form=BulkForm,
    ),
)


PAGE_SIZE = 30
"""So many rows make a page of less than 150 kB; no form has more boxes than one form may have."""
UPCOMING = 3
SECOND = timedelta(seconds=1)
STATUSES = ("active", "paused", "ended", "deleted")


class SchedulesQuery(msgspec.Struct, forbid_unknown_fields=True):
    """What the list is narrowed by; all of it stands in the address."""

    status: str | None = None
    task: str | None = None
    owner: str | None = None
    search: str | None = None
    """How its name begins."""
    cursor: str | None = None
    made: str | None = None
    """One that was just made: it stands first, whatever page it belongs to."""

    def filters(self) -> dict[str, Any]:
        """Return what `app.schedules.page` is to be narrowed by."""
        return {
            "status": self.status,
            "task": self.task,
            "owner": self.owner,
            "name_prefix": self.search,
            "include_deleted": self.status == "deleted",
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LastResult:
    """How its newest run stands, or why its last occurrence has none."""

    run: str | None
    state: str
    reason: str | None
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRow:
    """One schedule of the list."""

    id: str
    name: str
    status: str
    version: int
    reason: str | None
    resume_at: datetime | None
    description: str
    zone: str | None
    task: str
    owner: str | None
    upcoming: tuple[datetime, ...]
    last: LastResult | None
    strip: DurationBars | None
    spark: LatenessLine | None
    overlap: str
    overlaps: int
    misfire: str
    load: float | None
    """Run time divided by interval."""
    warning: str | None
    is_new: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulesModel:
    """The page."""

    query: SchedulesQuery
    rows: tuple[ScheduleRow, ...]
    next_cursor: str | None
    statuses: tuple[str, ...] = STATUSES

    def chosen(self, row: ScheduleRow) -> str:
        """Return a row as a set that it is chosen for holds it."""
        return write_one(UUID(row.id), row.version)

    @property
    def is_filtered(self) -> bool:
        """Whether nothing to be seen may mean that there is something else."""
        query = self.query
        return any((query.status, query.task, query.owner, query.search, query.cursor))


def show_schedules(asked: PageRequest) -> Rendered:
    """Show schedules in order of name."""
    query: SchedulesQuery = asked.query
    page = asked.app.schedules.page(
        after=read_place(query.cursor),
        limit=PAGE_SIZE,
        with_run_times=True,
        **query.filters(),
    )
    made = _made(asked, query.made)
    shown = [one for one in page.items if made is None or one.id != made.id]
    if made is not None:
        shown.insert(0, made)
    rows = schedule_rows(asked, shown, made)
    model = SchedulesModel(query=query, rows=rows, next_cursor=write_place(page.after))
    return Rendered(template="schedules.html", model=model, title="Schedules")


def _made(asked: PageRequest, made: str | None) -> Schedule | None:
    if made is None:
        return None
    try:
        found = asked.app.schedules.get(made)
    except NotFound:
        return None
    return None if found.status == "deleted" else found


def schedule_rows(
    asked: PageRequest, schedules: Sequence[Schedule], made: Schedule | None = None
) -> tuple[ScheduleRow, ...]:
    """Show schedules, each with its last few runs, by a few questions about all of them."""
    runs = asked.app.runs.newest([one.id for one in schedules], limit=RUNS)
    skipped = _skipped(asked, schedules)
    rows = (_row(asked, one, runs.get(one.id, []), skipped.get(one.id)) for one in schedules)
    return tuple(replace(row, is_new=one is made) for one, row in zip(schedules, rows, strict=True))


def _row(
    asked: PageRequest, schedule: Schedule, runs: list[Run], skipped: LastResult | None
) -> ScheduleRow:
    times = schedule.run_times
    return ScheduleRow(
        id=str(schedule.id),
        name=schedule.name,
        status=schedule.status,
        version=schedule.version,
        reason=schedule.reason,
        resume_at=schedule.resume_at,
        description=schedule.timetable.describe(),
        zone=zone_of(schedule.timetable),
        task=schedule.task,
        owner=schedule.owner,
        upcoming=tuple(one.utc for one in schedule.upcoming(UPCOMING)),
        last=skipped or last_result(runs),
        strip=run_strip(runs, asked.now),
        spark=lateness_spark(runs),
        overlap=schedule.overlap,
        overlaps=schedule.overlaps,
        misfire=misfire_words(schedule),
        load=None if times is None else times.ratio,
        warning=schedule.warning,
    )


def last_result(runs: list[Run]) -> LastResult | None:
    """Return how the newest run stands."""
    if not runs:
        return None
    run = runs[0]
    at = run.finished_at or run.started_at or run.scheduled_for
    return LastResult(run=str(run.id), state=run.state, reason=run.reason, at=at)


def _skipped(asked: PageRequest, schedules: Sequence[Schedule]) -> dict[UUID, LastResult]:
    """Return whose last occurrence was skipped, and why; looked for where it was not run."""
    last = {one.id: due for one in schedules if (due := _unrun(one, asked.now)) is not None}
    spans = {one: (due, due + SECOND) for one, due in last.items()}
    found = asked.app.schedules.many_occurrences(spans) if spans else {}
    return {
        schedule: LastResult(
            run=None if one.run is None else str(one.run),
            state="skipped",
            reason=one.reason,
            at=one.scheduled_for,
        )
        for schedule, occurrences in found.items()
        for one in occurrences[-1:]
        if one.verdict == "skipped"
    }


def _unrun(schedule: Schedule, now: datetime) -> datetime | None:
    """Return when its last occurrence was, unless that was run."""
    try:
        due = schedule.timetable.previous(now)
    except UsageError:  # a rule that can't be computed is told elsewhere
        return None
    last = schedule.last_for
    if due is None or due < schedule.created_at or (last is not None and last >= due):
        return None
    return due


def misfire_words(schedule: Schedule) -> str:
    """Say the catch-up policy with its bound: "latest, up to 1d"."""
    said = schedule.misfire.to_json()
    if said["policy"] == "skip":
        return "skip"
    bound = f", up to {said['not_older']}" if said["not_older"] else ""
    most = f", at most {said['at_most']}" if said["at_most"] else ""
    return f"{said['policy']}{bound}{most}"


PAGES = (
    Page(
        method="GET",
        path="/schedules",
        name="schedules",
        scope="read",
        handler=show_schedules,
        query=SchedulesQuery,
    ),
)
