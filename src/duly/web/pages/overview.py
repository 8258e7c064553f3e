"""The overview: health, what needs attention, tiles, and the demo's controls.

`look_for_attention` orders schedules for the reader and judges none. Beside each it shows what the
schedule lacks, trigger and work apart.

`show_overview` returns at once what is cheap to compute. Each drawing is a page of its own. A
script loads it into the first page; without a script there is a link to it.

`kill_worker` exists only where `duly demo` installed its controls.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Literal

import msgspec

from duly import NotFound, UsageError
from duly.api.views import LATE, AlertKind, zone_of
from duly.web.charts import LatenessPart, look_at_lateness
from duly.web.pages.timeline import (
    LANES_MAX,
    SPANS,
    Axis,
    PlannedLoad,
    SpanName,
    Timeline,
    draw_timeline,
    plan_load,
)
from duly.web.rendering import (
    NEGLECTED_SECONDS,
    OWN_SECONDS,
    console_path,
    load_all,
    load_tenant,
    look_at_own_stale,
)
from duly.web.requests import Flash, Page, PageRequest, Redirect, Rendered

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from duly import App, Run, Schedule
    from duly.api.views import Finding, Queue, ScheduleVitals, Status


SCHEDULES_MAX = 100
"""So many are looked at by name,"""
SUSPECTS_MAX = 100
"""and so many more that an open alert is about, or a run in trouble: wherever they stand."""
ALERTS_MAX = 1000
RUNS_MAX = 100
"""So many of the newest runs that wait for somebody, or for another attempt, are looked at."""
TROUBLES = ("ambiguous", "dead", "retrying")
ORDER = ("late", "stale", *TROUBLES, "missing", "alerted", None, "paused")
"""What is first: a late trigger, stale work, runs in trouble, an open alert, all that is well."""
SUBJECT = "schedule "
"""How the subject of an alert begins that is about a schedule."""
STATUSES = ("active", "paused")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """The schedules that were looked at, those first that need somebody."""

    schedules: tuple[Schedule, ...]
    vitals: Mapping[UUID, ScheduleVitals]
    why: Mapping[UUID, str]
    """By the word of a state; of those that need nobody, nothing."""
    suspects: int
    """How many were looked at because of alerts and runs, behind the first by name."""
    is_cut: bool
    """Whether there are schedules that were not looked at."""


def look_for_attention(app: App, now: datetime) -> Attention:
    """Look at schedules that are active or paused, and at runs in trouble, a bounded number.

    The first by name are looked at in any case. Alerts go round over all schedules: whom they are
    about is looked at as well, however many there are before them by name.
    """
    first, is_cut = look_at_first(app)
    troubles, alerts = _troubles(app), _alerts(app)
    suspects = _suspects(app, first, troubles, alerts) if is_cut else []
    schedules = [*first, *suspects]
    vitals = {one.id: one for one in app.vitals.of_schedules([one.id for one in schedules])}
    why = {
        one.id: found
        for one in schedules
        if (found := _why(one, vitals.get(one.id), troubles.get(one.id), now))
        or (found := _told(alerts.get(one.name, ())))
    }
    schedules.sort(
        key=lambda one: (_rank(one, why, alerts), _cadence(vitals.get(one.id)), one.name)
    )
    return Attention(
        schedules=tuple(schedules),
        vitals=vitals,
        why=why,
        suspects=len(suspects),
        is_cut=is_cut,
    )


def look_at_first(app: App) -> tuple[list[Schedule], bool]:
    """Return the first by name: those that are active, then paused ones; say if there are more."""
    active = app.schedules.page(limit=SCHEDULES_MAX, status="active")
    if active.after is not None:
        return active.items, True
    room = SCHEDULES_MAX - len(active.items)
    # Also where there is no room left, one of them says that there are more.
    paused = app.schedules.page(limit=max(room, 1), status="paused")
    is_cut = paused.after is not None or len(paused.items) > room
    return [*active.items, *paused.items[:room]], is_cut


def _alerts(app: App) -> dict[str, set[str]]:
    """Return the kinds of open alerts about each of the tenant's schedules, by its name."""
    found: dict[str, set[str]] = {}
    # To whoever may look everywhere alerts of every tenant are told.
    for one in app.alerts.list(limit=ALERTS_MAX):
        if one.tenant == app.tenant and one.subject.startswith(SUBJECT):
            found.setdefault(one.subject.removeprefix(SUBJECT), set()).add(one.kind)
    return found


def _troubles(app: App) -> dict[UUID, str]:
    """Return the gravest trouble that each schedule has an open run in."""
    found: dict[UUID, str] = {}
    for run in app.runs.page(state=TROUBLES, limit=RUNS_MAX).items:
        if run.schedule_id is not None:
            before = found.get(run.schedule_id, run.state)
            found[run.schedule_id] = min(before, run.state, key=TROUBLES.index)
    return found


def _suspects(
    app: App,
    first: Sequence[Schedule],
    troubles: Mapping[UUID, str],
    alerts: Mapping[str, set[str]],
) -> list[Schedule]:
    """Return schedules that are not among the first, and that somebody or something points at."""
    known = {one.id for one in first}
    names = sorted(set(alerts) - {one.name for one in first})[:SUSPECTS_MAX]
    ids = sorted(set(troubles) - known, key=lambda one: TROUBLES.index(troubles[one]))
    wanted = ids[: SUSPECTS_MAX - len(names)]
    found = app.schedules.several(ids=wanted, names=names)
    return [one for one in found if one.id not in known and one.status in STATUSES]


def _why(
    schedule: Schedule, vitals: ScheduleVitals | None, trouble: str | None, now: datetime
) -> str | None:
    due = schedule.next_due
    if (due is not None and due < now - LATE) or (vitals and not vitals.trigger.is_well):
        return "late"
    if vitals and not vitals.completion.is_well:
        return "stale"
    return trouble or ("paused" if schedule.status == "paused" else None)


def _told(kinds: Collection[str]) -> str | None:
    """Return what an alert has seen that a look at the schedule alone does not show."""
    if not kinds:
        return None
    return "missing" if AlertKind.MISSING_RUN in kinds else "alerted"


def _rank(schedule: Schedule, why: Mapping[UUID, str], alerts: Mapping[str, set[str]]) -> int:
    found = why.get(schedule.id)
    # What the system has paused, and not a person, needs somebody.
    if found == "paused" and AlertKind.SCHEDULE_PAUSED in alerts.get(schedule.name, ()):
        return ORDER.index("missing")
    return ORDER.index(found)


def _cadence(vitals: ScheduleVitals | None) -> timedelta:
    """Return how often it fires: the busiest first. It stays so while one looks."""
    cadence = None if vitals is None else vitals.completion.cadence
    return timedelta.max if cadence is None else cadence


def kill_worker(asked: PageRequest) -> Redirect:
    """Kill a worker, as a power cut would."""
    controls = asked.app.demo
    if controls is None:
        raise NotFound("demo", "worker", "this is no demo: duly demo starts one")
    killed = controls.kill_worker()
    text = (
        f"worker {killed.worker} (process {killed.process}) was killed in the middle of a payment;"
        " nobody knows whether it went out: within seconds its run is in the inbox"
    )
    return Redirect(to=f"/runs/{killed.run}", said=Flash(text=text))


DEMO_PAGES = (
    Page(
        method="POST", path="/demo/kill", name="kill_worker", scope="trigger", handler=kill_worker
    ),
)


_PLACES = {
    "alerts-open": "/alerts",
    "ambiguous-runs": "/runs?state=ambiguous",
    "dead-letters": "/runs?state=dead",
    "queue-without-worker": "/runs?state=queued",
    "queue-waits-long": "/runs?state=queued",
    "work-held-by-nobody": "/runs?state=running",
    "task-without-code": "/schedules?status=paused",
}
"""Where one sees what a finding is about."""


@dataclass(frozen=True, slots=True)
class FindingRow:
    """A finding, and where to look."""

    problem: str
    remedy: str
    place: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthModel:
    """The two lights and what is worth knowing beside."""

    dispatch: tuple[FindingRow, ...]
    work: tuple[FindingRow, ...]
    alerts: tuple[FindingRow, ...]
    """Those that page: of either light."""
    notes: tuple[FindingRow, ...]
    seconds: int = NEGLECTED_SECONDS
    """How old it may be which schedules have no recent completion,"""
    own_seconds: int = OWN_SECONDS
    """and all else."""


def show_health(asked: PageRequest) -> Rendered:
    """Show what is wrong."""
    looked = load_all(asked)
    health = looked.health
    model = HealthModel(
        dispatch=_findings(health.dispatch),
        work=_findings(health.work),
        alerts=_findings(health.alerts),
        notes=_findings(health.notes),
    )
    return Rendered(template="health.html", model=model, title="Health", looked=looked)


def _findings(findings: tuple[Finding, ...]) -> tuple[FindingRow, ...]:
    return tuple(FindingRow(one.problem, one.remedy, _PLACES.get(one.code)) for one in findings)


HEALTH_PAGES = (
    Page(method="GET", path="/health", name="health", scope="read", handler=show_health),
)


Noticed = Literal["stuck", "overlapping", "late"]
NOTICED: tuple[Noticed, ...] = ("stuck", "overlapping", "late")
LOOKED_AT_MAX = 100
"""So many runs are looked at, the newest first."""
STUCK_SHOWN_MAX = 50


@dataclass(frozen=True, slots=True)
class NoticedRuns:
    """What was noticed, newest first."""

    runs: tuple[Run, ...]
    is_cut: bool
    """Whether there may be more."""


def find_noticed(app: App, what: Noticed, now: datetime) -> NoticedRuns:
    """Find runs of one kind."""
    match what:
        case "stuck":
            return _stuck(app)
        case "overlapping":
            return _overlapping(app)
        case "late":
            return _late(app, now)


def _stuck(app: App) -> NoticedRuns:
    """Find runs whose worker is heard of, and which have not advanced for too long."""
    page = app.attempts.page(state="stalled", limit=STUCK_SHOWN_MAX)
    found = []
    for one in page.items:
        try:
            found.append(app.runs.get(one.run))
        except NotFound:
            continue  # it ended and was pruned in between
    return NoticedRuns(tuple(found), page.next_cursor is not None)


def _overlapping(app: App) -> NoticedRuns:
    """Find runs that go on beside another of the same schedule."""
    page = app.runs.page(state="running", limit=LOOKED_AT_MAX)
    beside = Counter(run.schedule_id for run in page.items if run.schedule_id is not None)
    several = {schedule for schedule, count in beside.items() if count > 1}
    found = tuple(run for run in page.items if run.schedule_id in several)
    return NoticedRuns(found, page.next_cursor is not None)


def _late(app: App, now: datetime) -> NoticedRuns:
    """Find runs that should have begun longer ago than anybody's grace."""
    page = app.runs.page(state=["queued", "blocked"], until=now - LATE, limit=LOOKED_AT_MAX)
    found = tuple(run for run in page.items if run.due_at < now - LATE)
    return NoticedRuns(found, page.next_cursor is not None)


SIDES_MAX = 15
RATIO_SHOWN_MAX = 3.0
SHOWN = ("late", "stale", "all")


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthColumn:
    """One schedule: what was triggered beside what was useful, and how old that is."""

    id: str
    name: str
    status: str
    zone: str | None
    fired_at: datetime | None
    overdue: timedelta | None
    finished_at: datetime | None
    useful_at: datetime | None
    useful_by: str
    unknown_through: datetime | None
    cadence: timedelta | None
    ratio: float | None
    """The age of the last useful completion divided by the cadence."""
    gauge: float
    """The same in percent of a bar of three cadences."""
    tone: str
    behind: int
    next_due: datetime | None
    is_trigger_well: bool
    is_work_well: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthColumns:
    """Those that are shown, and how many there are besides."""

    show: str | None
    rows: tuple[HealthColumn, ...]
    more: int
    looked_at: int
    suspects: int
    """How many of those that were looked at stand behind the first by name."""
    is_cut: bool
    """Whether there are schedules that were not looked at."""


def read_show(text: str | None) -> str | None:
    """Return which schedules are meant; refuse what is no choice."""
    if text not in (None, *SHOWN):
        raise UsageError("show", text, "is no choice", f"use {', '.join(SHOWN)}")
    return text


def look_at_sides(found: Attention, show: str | None) -> HealthColumns:
    """Look at both sides of those that need somebody first, or of those that are chosen."""
    known = [(one, found.vitals[one.id]) for one in found.schedules if one.id in found.vitals]
    chosen = [side for one, vitals in known if _is_shown(side := _side(vitals, one), show)]
    rows = chosen if show == "all" else chosen[:SIDES_MAX]
    more = len(chosen) - len(rows)
    return HealthColumns(
        show=show,
        rows=tuple(rows),
        more=more,
        looked_at=len(found.schedules),
        suspects=found.suspects,
        is_cut=found.is_cut,
    )


def _is_shown(side: HealthColumn, show: str | None) -> bool:
    match show:
        case "late":
            return not side.is_trigger_well
        case "stale":
            return not side.is_work_well
        case _:
            return True


def _side(vitals: ScheduleVitals, known: Schedule) -> HealthColumn:
    trigger, work = vitals.trigger, vitals.completion
    ratio = work.ratio
    return HealthColumn(
        id=str(vitals.id),
        name=vitals.name,
        status=vitals.status,
        zone=zone_of(known.timetable),
        fired_at=trigger.last_fired_at,
        overdue=trigger.overdue,
        finished_at=work.last_finished_at,
        useful_at=None if work.last_useful is None else work.last_useful.at,
        useful_by=work.useful_by,
        unknown_through=work.unknown_through,
        cadence=work.cadence,
        ratio=ratio,
        gauge=round(min(ratio or 0.0, RATIO_SHOWN_MAX) / RATIO_SHOWN_MAX * 100, 1),
        tone="bad" if not work.is_well else "warn" if (ratio or 0) > 1.25 else "good",
        behind=work.behind,
        next_due=trigger.next_due_at,
        is_trigger_well=trigger.is_well,
        is_work_well=work.is_well,
    )


@dataclass(frozen=True, slots=True)
class Tile:
    """A number that leads to the list of what it counts."""

    label: str
    number: int
    state: str
    """Whose word, shape and colour it has."""
    path: str
    is_cut: bool = False
    """Whether there may be more."""


MISSING_SECONDS = 10
MISSING_SINCE = timedelta(days=1)


def make_tiles(
    asked: PageRequest, schedules: Sequence[Schedule], status: Status, *, is_cut: bool
) -> tuple[Tile, ...]:
    """Count what needs a look, of all runs, and of schedules; `is_cut`: there are more of those."""
    stuck, overlapping, late = asked.kept.get(
        ("noticed", asked.pulse),
        OWN_SECONDS,
        lambda: [find_noticed(asked.app, what, asked.now) for what in NOTICED],
    )
    late_from = asked.now - LATE
    overdue = sum(one.next_due is not None and one.next_due < late_from for one in schedules)
    stale = len(status.stale)
    backlog = sum(
        one.total - one.looked_at for one in asked.app.backfills.list() if one.status == "active"
    )
    inbox = console_path("/inbox") or "/runs?state=ambiguous"
    backfills = console_path("/backfills") or "/runs?lane=backfill"
    missing = asked.kept.get("missing", MISSING_SECONDS, lambda: _count_missing(asked))
    return (
        Tile("Missing", *missing),
        # Of what stands behind the first by name, it is known only whether anything is due.
        Tile("Overdue", overdue, "late", "/?show=late#sides", is_cut and status.overdue > overdue),
        Tile("Stale work", stale, "stale", "/?show=stale#sides"),
        Tile("In doubt", status.ambiguous, "ambiguous", inbox),
        Tile("Dead", status.dead, "dead", "/runs?state=dead"),
        Tile("Begin late", len(late.runs), "late", "/runs?only=late", late.is_cut),
        Tile("Stuck", len(stuck.runs), "stuck", "/runs?only=stuck", stuck.is_cut),
        Tile(
            "Overlapping",
            len(overlapping.runs),
            "overlapping",
            "/runs?only=overlapping",
            overlapping.is_cut,
        ),
        Tile("Retrying", status.retrying, "retrying", "/runs?state=retrying"),
        Tile("Running", status.running, "running", "/runs?state=running"),
        Tile("Queued", status.queued, "queued", "/runs?state=queued"),
        Tile("Backfill left", backlog, "backlog", backfills),
    )


def _count_missing(asked: PageRequest) -> tuple[int, str, str, bool]:
    """Count what should have become a run within a day, and has not."""
    found = asked.app.runs.missing(asked.now - MISSING_SINCE)
    number = sum(one.is_missing for one in found.items)
    return (
        number,
        "missing",
        console_path("/missing") or "/?show=late#sides",
        found.after is not None,
    )


LOADED_MAX = 300
"""So many schedules are counted for the planned load."""
TIMELINE_SECONDS, ATTENTION_SECONDS, LATENESS_SECONDS, LOAD_SECONDS = 2, 2, 60, 60


class OverviewQuery(msgspec.Struct, forbid_unknown_fields=True):
    """What the overview shows; its parts understand all of it, too."""

    show: str | None = None
    """Of the schedules: late, stale, all; else the first."""
    span: str = "12h"
    of: str | None = None
    """Whose lateness is drawn: a schedule's, or everybody's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The page, with room for its parts."""

    query: OverviewQuery
    tiles: tuple[Tile, ...]
    lanes: int
    """How many lanes the timeline has, for it to have its place before it comes,"""
    sides: int
    """and how many rows the table below it."""
    queues: tuple[Queue, ...]
    has_schedules: bool
    spans: tuple[str, ...] = tuple(SPANS)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartModel:
    """One part of it; the others are None."""

    heading: str
    template: str
    """What prints it, alone or within the overview."""
    query: OverviewQuery
    timeline: Timeline | None = None
    sides: HealthColumns | None = None
    lateness: LatenessPart | None = None
    load: PlannedLoad | None = None
    seconds: int = 0
    """How old it may be."""
    spans: tuple[str, ...] = tuple(SPANS)


def show_overview(asked: PageRequest) -> Rendered:
    """Show how things are."""
    query: OverviewQuery = asked.query
    _read_span(query)
    show = read_show(query.show)
    schedules, is_cut = look_at_first(asked.app)
    looked = load_all(asked)
    own = load_tenant(asked, looked)
    own = replace(own, stale=look_at_own_stale(asked, looked, own))
    model = Overview(
        query=query,
        tiles=make_tiles(asked, schedules, own, is_cut=is_cut),
        lanes=min(len(schedules), LANES_MAX),
        sides=min(len(schedules), SIDES_MAX if show is None else 1),
        queues=looked.queues,
        has_schedules=any(number for one, number in own.schedules.items() if one != "deleted"),
    )
    return Rendered(template="overview.html", model=model, title="Overview", looked=looked)


def show_timeline(asked: PageRequest) -> Rendered:
    """Show those that need somebody, and the busiest, as lanes."""
    span = _read_span(asked.query)
    axis = Axis.around(asked.now, span)
    found = asked.kept.get(
        ("timeline", span, asked.clocks, asked.pulse),
        TIMELINE_SECONDS,
        lambda: draw_timeline(asked.app, _attention(asked), axis, asked.clocks),
    )
    return _part(asked, "Past and to come", "timeline.html", timeline=found)


def show_sides(asked: PageRequest) -> Rendered:
    """Show what was triggered beside what was useful."""
    show = read_show(asked.query.show)
    found = look_at_sides(_attention(asked), show)
    return _part(asked, "Triggered and useful, side by side", "sides.html", sides=found)


def show_lateness(asked: PageRequest) -> Rendered:
    """Show how late runs begin, and are useful."""
    of: str | None = asked.query.of
    found = asked.kept.get(
        ("lateness", of),
        LATENESS_SECONDS,
        lambda: look_at_lateness(asked.app, look_at_first(asked.app)[0], of),
    )
    shown = _part(asked, "Lateness", "lateness.html", lateness=found)
    return _aged(shown, LATENESS_SECONDS)


def show_load(asked: PageRequest) -> Rendered:
    """Show how much is promised for the coming week."""
    mine = asked.clocks.mine
    found = asked.kept.get(("load", mine), LOAD_SECONDS, lambda: _load(asked))
    return _aged(_part(asked, "Planned load", "planned_load.html", load=found), LOAD_SECONDS)


def _part(
    asked: PageRequest,
    heading: str,
    template: str,
    **found: Timeline | HealthColumns | LatenessPart | PlannedLoad,
) -> Rendered:
    model = PartModel(heading=heading, template=template, query=asked.query, **found)  # type: ignore[arg-type]
    return Rendered(template="overview_part.html", part=template, model=model, title=heading)


def _aged(shown: Rendered, seconds: int) -> Rendered:
    assert isinstance(shown.model, PartModel), "it is a part"
    return replace(shown, model=replace(shown.model, seconds=seconds))


def _read_span(query: OverviewQuery) -> SpanName:
    for name in SPANS:
        if name == query.span:
            return name
    raise UsageError("span", query.span, "is no span of the timeline", f"use {', '.join(SPANS)}")


def _attention(asked: PageRequest) -> Attention:
    key = ("attention", asked.pulse)
    look = partial(look_for_attention, asked.app, asked.now)
    return asked.kept.get(key, ATTENTION_SECONDS, look)


def _load(asked: PageRequest) -> PlannedLoad:
    page = asked.app.schedules.page(limit=LOADED_MAX, status="active")
    return plan_load(page.items, asked.now, asked.clocks, is_cut=page.after is not None)


PAGES = tuple(
    Page(method="GET", path=path, name=name, scope="read", handler=handler, query=OverviewQuery)
    for path, name, handler in (
        ("/", "overview", show_overview),
        ("/overview/timeline", "timeline", show_timeline),
        ("/overview/sides", "sides", show_sides),
        ("/overview/lateness", "lateness", show_lateness),
        ("/overview/load", "planned_load", show_load),
    )
)
