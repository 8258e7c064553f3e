"""The shell around every page: two lights, the clock, navigation, and who looks (UX 1-7)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from duly.api.views import restorable_for, units_text
from duly_web.moments import CHOICE_WORDS, CHOICES, Choice, Clocks, Moment

if TYPE_CHECKING:
    from datetime import datetime

    from duly import App
    from duly.api.views import DemoState, Finding, Health, Queue, Status
    from duly_web.kept import Kept
    from duly_web.page import Asked


@dataclass(frozen=True, slots=True)
class Destination:
    """A place that one can go to from everywhere."""

    label: str
    path: str
    icon: str
    key: str
    """After `g`."""


ALERTS_COUNTED_MAX = 99
NEGLECTED_SECONDS = 5
OWN_SECONDS = 2
NAVIGATION = (
    Destination("Overview", "/", "home", "o"),
    Destination("Schedules", "/schedules", "calendar", "s"),
    Destination("Runs", "/runs", "list", "r"),
    Destination("Inbox", "/inbox", "doubt", "i"),
    Destination("Missing", "/missing", "gap", "m"),
    Destination("Backfills", "/backfills", "loop", "b"),
    Destination("Fleet", "/fleet", "fleet", "f"),
    Destination("Alerts", "/alerts", "bell", "l"),
    Destination("Audit", "/audit", "seal", "a"),
    Destination("Health", "/health", "pulse", "h"),
)
"""In the order of the bar; a new page is added here, to be found by key and palette too."""


def place_of(path: str) -> str | None:
    """Return a path if the console has a place there."""
    return path if any(one.path == path for one in NAVIGATION) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Light:
    """One of the two lights, which are never merged (V4)."""

    name: str
    anchor: str
    state: str
    """`well` or `unwell`."""
    sentence: str
    more: int
    """How many findings there are besides the one that is told."""


@dataclass(frozen=True, slots=True)
class Looked:
    """The state of everything, and what it means: looked at once for each page that is shown."""

    status: Status
    health: Health
    queues: tuple[Queue, ...]
    alerts: int
    """How many are open now, as far as they are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    """What stands on every page."""

    now: datetime
    dispatch: Light
    work: Light
    local: Moment
    local_zone: str
    utc: Moment
    skew: str
    early_fires: int
    choices: tuple[tuple[Choice, str], ...]
    worst: str
    """The state that the tab's icon and title show."""
    alerts: int = 0
    """How many are open; beside the lights, and none of them."""
    has_more_alerts: bool = False
    """Whether there are more than were counted."""
    restorable: str | None = None
    """How long what is deleted can be restored; None for ever."""
    demo: DemoState | None = None
    """Where the demo stands; None where there is none."""


def look_at_all(asked: Asked) -> Looked:
    """Look at the state of everything; both lights are of the same moment.

    But for what changes by the minute and costs most: which schedules have no recent completion, or
    no code any more, may be some seconds old. To who sees one tenant alone all is counted anew, out
    of everybody's: that may be a little old as well.
    """
    app, kept = asked.app, asked.kept
    if asked.visitor.is_everywhere:
        return _look(app, kept, "neglected")
    # Whoever sees all may look at the same tenant: what is kept for them is nobody else's.
    look = partial(_look, app, kept, "neglected-own")
    return kept.get(("own", asked.pulse), OWN_SECONDS, look)


def look_at_own(asked: Asked, looked: Looked) -> Status:
    """Count what a visitor's lists hold: their tenant's, also where the lights are of all.

    Without what is stale, which costs most: `look_at_own_stale`.
    """
    if looked.status.tenant is not None:
        return looked.status
    look = partial(asked.app.status, with_stale=False, own=True)
    return asked.kept.get(("own-counts", asked.pulse), OWN_SECONDS, look)


def look_at_own_stale(asked: Asked, looked: Looked, own: Status) -> tuple[Finding, ...]:
    """Say which of a visitor's own schedules are stale; asked only if others have some, too."""
    if own.schedules == looked.status.schedules:
        return looked.status.stale
    look = partial(asked.app.status, own=True)
    return asked.kept.get("own-stale", NEGLECTED_SECONDS, look).stale


def _look(app: App, kept: Kept, key: str) -> Looked:
    whole: list[Status] = []

    def look() -> Status:
        whole.append(app.status())
        return whole[0]

    known = kept.get(key, NEGLECTED_SECONDS, look)
    status = known
    if whole:
        alerts = sum(one.count for one in status.alerts)
    else:
        alerts = len(app.alerts.list(limit=ALERTS_COUNTED_MAX + 1))
        counts = app.status(with_stale=False)
        status = replace(
            counts,
            stale=known.stale,
            judged=known.judged,
            taskless=known.taskless,
            alerts=known.alerts,
            tenants=known.tenants,
        )
    queues = tuple(app.queues.list())
    return Looked(status, app.health(status, queues), queues, alerts)


def make_shell(app: App, clocks: Clocks, looked: Looked) -> Shell:
    """Make the strip that every page has."""
    status, health = looked.status, looked.health
    mine = clocks.mine or "UTC"
    kept = restorable_for(app)
    dispatch = _light("Control plane", "dispatch", health.dispatch)
    work = _light("Useful work", "work", health.work)
    return Shell(
        now=status.now,
        dispatch=dispatch,
        work=work,
        local=Clocks("mine", mine).moment(status.now, status.now),
        local_zone=mine,
        utc=Clocks("utc").moment(status.now, status.now),
        skew=_skew(status),
        early_fires=status.early_fires,
        choices=tuple((one, CHOICE_WORDS[one]) for one in CHOICES),
        worst="unwell" if "unwell" in {dispatch.state, work.state} else "well",
        alerts=min(looked.alerts, ALERTS_COUNTED_MAX),
        has_more_alerts=looked.alerts > ALERTS_COUNTED_MAX,
        restorable=None if kept is None else units_text(kept // timedelta(microseconds=1)),
        demo=None if app.demo is None else app.demo.state(),
    )


def _light(name: str, anchor: str, findings: tuple[Finding, ...]) -> Light:
    return Light(
        name=name,
        anchor=anchor,
        state="unwell" if findings else "well",
        sentence=findings[0].problem if findings else "",
        more=max(0, len(findings) - 1),
    )


def _skew(status: Status) -> str:
    """Return the largest distance of a living clock from the store's."""
    found = [abs(one.skew) for one in status.members if one.is_alive]
    return f"{max(found, default=timedelta()) / timedelta(milliseconds=1):.1f} ms"
