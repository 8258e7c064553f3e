"""Templates, static files, layout, links, cache, live updates.

`Manifest` holds every static file that can be served. A request never causes a look-up on the disk.

`TtlCache` lets one request renew an answer that has expired. Other requests get the old answer
meanwhile, so that at most one of them waits. An order removes the answers of its tenant, and those
that are being computed while it is given, because they may have been read before the order.

`UpdateStream` sends a mark of a tenant's state, because a page shows more than the audit trail
records. One query serves all visitors of the same tenant. Nothing is sent while the mark stays the
same.
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache, partial
from hashlib import blake2b, sha256
from importlib.resources import files
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from jinja2 import Environment, PackageLoader, StrictUndefined

from duly import StoreError, Unauthenticated
from duly.api.events import EventResponse
from duly.api.views import TENANT_DEFAULT, restorable_for, units_text
from duly.web.formatting import (
    CHOICE_WORDS,
    CHOICES,
    Choice,
    Moment,
    TimeFormatter,
    mark,
    origin_mark,
    plain,
    span,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
    from importlib.resources.abc import Traversable

    from starlette.requests import Request
    from starlette.responses import Response

    from duly import App
    from duly.api.middleware import Middleware
    from duly.api.views import Clock, DemoState, Finding, Health, Principal, Queue, Status
    from duly.web.requests import ConsoleUser, Flash, PageRequest


LENGTH_MAX = 2000


def local_path(text: str | None) -> str | None:
    """Return a path with its query if it can't lead anywhere else, or None."""
    if not text or len(text) > LENGTH_MAX or not text.isprintable() or "\\" in text:
        return None
    try:
        split = urlsplit(text)
    except ValueError:
        return None
    if split.scheme or split.netloc or not text.startswith("/") or text.startswith("//"):
        return None
    return text


def came_from(request: Request) -> str | None:
    """Return the page of ours that somebody came from, as far as the browser says it."""
    split = urlsplit(request.headers.get("referer") or "")
    if split.netloc != request.url.netloc:
        return None
    root = request.scope.get("root_path", "")
    return local_path(split.path.removeprefix(root) + (f"?{split.query}" if split.query else ""))


def safe_return_path(request: Request) -> str:
    """Return the query by which the door knows where somebody wanted to go."""
    root = request.scope.get("root_path", "")
    wanted = request.url.path
    query = request.url.query
    said = request.headers.get("hx-current-url") or request.headers.get("referer")
    if "hx-request" in request.headers or request.method != "GET":
        split = urlsplit(said or "")
        wanted, query = split.path, split.query
    path = local_path(wanted.removeprefix(root) + (f"?{query}" if query else ""))
    return "" if path in {None, "/"} else "?" + urlencode({"next": path})


_TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class Asset:
    """A file as it is served."""

    address: str
    """Its name with the hash: `console.1f2e3d4c5b6a.css`."""
    content: bytes
    media_type: str


class Manifest:
    """All static files."""

    def __init__(self, assets: dict[str, Asset]) -> None:
        self._by_name = assets
        self._by_address = {one.address: one for one in assets.values()}

    def address(self, name: str) -> str:
        """Return the address of a file that a template names."""
        return self._by_name[name].address

    def find(self, address: str) -> Asset | None:
        """Return the file of an address."""
        return self._by_address.get(address)


@cache
def manifest() -> Manifest:
    """Read the files that the package has."""
    return Manifest(dict(_read(files("duly.web") / "static")))


def _read(folder: Traversable) -> Iterator[tuple[str, Asset]]:
    for one in folder.iterdir():
        if one.is_dir():
            yield from _read(one)
            continue
        stem, _, kind = one.name.rpartition(".")
        if kind in _TYPES:
            content = one.read_bytes()
            digest = sha256(content).hexdigest()[:12]
            yield one.name, Asset(f"{stem}.{digest}.{kind}", content, _TYPES[kind])


PROGRAM = "duly"


def command_text(tenant: str | None, *words: str) -> str:
    """Return a command about what is a tenant's; None for what all tenants share."""
    return shlex.join((PROGRAM, *_whose(tenant), *words))


def of_tenant(tenant: str | None, command: str) -> str:
    """Return a command of the engine's with whose things it is about, unless it says so itself."""
    name, _, rest = command.partition(" ")
    if name != PROGRAM or "--tenant" in rest:
        return command
    return " ".join((name, *(shlex.quote(one) for one in _whose(tenant)), rest))


def _whose(tenant: str | None) -> tuple[str, ...]:
    return () if tenant in {None, TENANT_DEFAULT} else ("--tenant", str(tenant))


T = TypeVar("T")
SECOND_US = 1_000_000
ENTRIES_MAX = 500


@dataclass(frozen=True, slots=True)
class TtlCache:
    """Answers of one server, each under its tenant and a key."""

    clock: Clock
    tenant: str = ""
    answers: dict[tuple[str, Any], tuple[int, Any]] = field(default_factory=dict)
    making: dict[tuple[str, Any], object] = field(default_factory=dict)
    """What somebody makes anew, and a mark of theirs; without it what they make is not kept."""
    lock: Lock = field(default_factory=Lock)

    def of(self, tenant: str) -> TtlCache:
        """Return what is kept of one tenant: of others it shows nothing."""
        return replace(self, tenant=tenant)

    def get(self, key: object, seconds: int, make: Callable[[], T]) -> T:
        """Return what was made under this key within so many seconds, or make it.

        While somebody else makes it, what there was before.
        """
        place, mine = (self.tenant, key), object()
        now = self.clock.monotonic_us()
        with self.lock:
            found = self.answers.get(place)
            is_new = found is not None and now - found[0] < seconds * SECOND_US
            if found is not None and (is_new or place in self.making):
                kept: T = found[1]
                return kept
            self.making[place] = mine
        try:
            made = make()
        except BaseException:
            self._keep(place, mine, None)
            raise
        self._keep(place, mine, (now, made))
        return made

    def _keep(self, place: tuple[str, Any], mine: object, answer: tuple[int, Any] | None) -> None:
        with self.lock:
            if self.making.get(place) is not mine:
                return  # an order was given meanwhile, or somebody else began later
            del self.making[place]
            if answer is not None:
                if len(self.answers) >= ENTRIES_MAX:
                    self.answers.clear()
                self.answers[place] = answer

    def forget(self) -> None:
        """Keep nothing of this tenant: somebody has just changed something."""
        with self.lock:
            for known in (self.answers, self.making):
                for place in [one for one in known if one[0] == self.tenant]:
                    del known[place]


LOOKED_US = 1_000_000
"""How old a mark may be that is told to one more follower."""
TENANTS_MAX = 1000
FOLLOWED_US = 60_000_000
"""After a longer silence only the end of all events is looked for."""


@dataclass(frozen=True, slots=True)
class UpdateMark:
    """The state of a tenant's things, in a few letters, and when that was looked at."""

    text: str
    looked_at: int
    through: int
    """Up to which event it has looked."""


class UpdateStream:
    """All who have a page open."""

    def __init__(self, front: Middleware) -> None:
        self._front = front
        self._marks: dict[tuple[str, bool], UpdateMark] = {}

    async def answer(self, app: App, principal: Principal, request: Request) -> Response:
        """Tell of changes for as long as somebody has the page open and may see it."""
        recheck = partial(self._front.door_for(request).visitor, request.headers)
        place = self._front.streams.enter(principal)
        leave = partial(self._front.streams.leave, place)
        look = partial(self.mark, app, is_everywhere=principal.is_everywhere)
        in_thread = partial(self._front.in_thread, principal=principal)
        rest = partial(self._front.streams.rest, place)
        told = self._told(partial(in_thread, look), partial(in_thread, recheck), rest)
        return EventResponse(told, leave)

    async def _told(
        self,
        look: Callable[[], Awaitable[str]],
        recheck: Callable[[], Awaitable[object]],
        rest: Callable[[], Awaitable[bool]],
    ) -> AsyncIterator[bytes]:
        settings, last, silence = self._front.settings, "", 0.0
        try:
            while True:
                mark = await look()
                if mark != last:
                    yield f"data: {mark}\n\n".encode()
                    last, silence = mark, 0.0
                elif silence >= settings.heartbeat_seconds:
                    yield b": \n\n"
                    silence = 0.0
                if await rest():
                    return
                silence += settings.event_seconds
                await recheck()
        except (Unauthenticated, StoreError):
            return  # it comes again, and is told why there

    def mark(self, app: App, *, is_everywhere: bool = False) -> str:
        """Return the mark of what a tenant has; a second old at the most.

        Whoever may act everywhere sees alerts of what tenants share, too.
        """
        now = self._front.clock.monotonic_us()
        place = (app.tenant, is_everywhere)
        kept = self._marks.get(place)
        if kept is None or now - kept.looked_at > LOOKED_US:
            if len(self._marks) >= TENANTS_MAX:
                self._marks.clear()
            # From where events ended a moment ago, there are few to look at.
            is_near = kept is not None and now - kept.looked_at < FOLLOWED_US
            through = app.events.after(kept.through if kept and is_near else None).through
            kept = self._marks[place] = UpdateMark(_mark_of(app, through), now, through)
        return kept.text


def _mark_of(app: App, through: int) -> str:
    """Return a mark that changes with what people look at, and not with every breath."""
    status = app.status(with_stale=False)
    newest = [(str(one.id), one.state) for one in app.runs.page(limit=5).items]
    alerts = [(str(one.id), one.told_at, one.acknowledged_at) for one in app.alerts.list(limit=20)]
    parts = (
        status.schedules, status.delayed, status.queued, status.owed, status.overdue,
        status.running, status.retrying, status.dead, status.ambiguous, status.paused_queues,
        [(one.id, one.is_alive, one.is_holding, one.standing) for one in status.members],
        newest, through, alerts,
    )  # fmt: skip
    return blake2b(repr(parts).encode(), digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True)
class NavigationEntry:
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
    NavigationEntry("Overview", "/", "home", "o"),
    NavigationEntry("Schedules", "/schedules", "calendar", "s"),
    NavigationEntry("Runs", "/runs", "list", "r"),
    NavigationEntry("Inbox", "/inbox", "doubt", "i"),
    NavigationEntry("Missing", "/missing", "gap", "m"),
    NavigationEntry("Backfills", "/backfills", "loop", "b"),
    NavigationEntry("Fleet", "/fleet", "fleet", "f"),
    NavigationEntry("Alerts", "/alerts", "bell", "l"),
    NavigationEntry("Audit", "/audit", "seal", "a"),
    NavigationEntry("Health", "/health", "pulse", "h"),
)
"""In the order of the bar; a new page is added here, to be found by key and palette too."""


def console_path(path: str) -> str | None:
    """Return a path if the console has a place there."""
    return path if any(one.path == path for one in NAVIGATION) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Light:
    """One of the two lights, which are never merged."""

    name: str
    anchor: str
    state: str
    """`well` or `unwell`."""
    sentence: str
    more: int
    """How many findings there are besides the one that is told."""


@dataclass(frozen=True, slots=True)
class LayoutData:
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


def load_all(asked: PageRequest) -> LayoutData:
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


def load_tenant(asked: PageRequest, looked: LayoutData) -> Status:
    """Count what a visitor's lists hold: their tenant's, also where the lights are of all.

    Without what is stale, which costs most: `look_at_own_stale`.
    """
    if looked.status.tenant is not None:
        return looked.status
    look = partial(asked.app.status, with_stale=False, own=True)
    return asked.kept.get(("own-counts", asked.pulse), OWN_SECONDS, look)


def look_at_own_stale(asked: PageRequest, looked: LayoutData, own: Status) -> tuple[Finding, ...]:
    """Say which of a visitor's own schedules are stale; asked only if others have some, too."""
    if own.schedules == looked.status.schedules:
        return looked.status.stale
    look = partial(asked.app.status, own=True)
    return asked.kept.get("own-stale", NEGLECTED_SECONDS, look).stale


def _look(app: App, kept: TtlCache, key: str) -> LayoutData:
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
    return LayoutData(status, app.health(status, queues), queues, alerts)


def make_shell(app: App, clocks: TimeFormatter, looked: LayoutData) -> Shell:
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
        local=TimeFormatter("mine", mine).moment(status.now, status.now),
        local_zone=mine,
        utc=TimeFormatter("utc").moment(status.now, status.now),
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


_INSTANT = re.compile(
    r"(?<![@\w-])\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:Z|[+-]\d\d:\d\d)(?!\w)"
)
"""Not what is a part of a label: that is a name, and stays as it is."""
_NO_FILTERS = frozenset({"cursor", "tenant", "tz"})
"""What an address says besides what its list is narrowed by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageContext:
    """Where a page stands: everything that it needs to print addresses and times."""

    root: str
    """The path that the console is mounted at; empty at a server's root."""
    path: str
    query: tuple[tuple[str, str], ...]
    now: datetime
    clocks: TimeFormatter

    def url(self, path: str, **query: str | None) -> str:
        """Return an address below where the console is mounted."""
        given = {name: value for name, value in query.items() if value not in {None, ""}}
        return self.root + path + (f"?{urlencode(given)}" if given else "")

    def part(self, text: object) -> str:
        """Return a text as one part of a path; a name may hold a slash."""
        return quote(str(text), safe="")

    def asset(self, name: str) -> str:
        """Return the address of a static file."""
        return f"{self.root}/static/{manifest().address(name)}"

    def again(self, **changes: str | None) -> str:
        """Return this very address with some of its query changed; None takes a field away."""
        kept = [(name, value) for name, value in self.query if name not in changes]
        kept += [(name, value) for name, value in changes.items() if value is not None]
        return self.root + self.path + (f"?{urlencode(kept)}" if kept else "")

    def filters(self) -> list[tuple[str, str]]:
        """Return what this address narrows a list by."""
        return [(name, value) for name, value in self.query if name not in _NO_FILTERS]

    def elsewhere(self, path: str, **changes: str | None) -> str:
        """Return another address with this one's query, some of it changed."""
        return replace(self, path=path).again(**changes)

    def at(self, instant: datetime, own: str | None = None) -> Moment:
        """Show an instant; `own` is its schedule's zone."""
        return self.clocks.moment(instant, self.now, own)

    def spoken(self, text: object, own: str | None = None) -> str:
        """Return a sentence of the engine with its instants on the clock that was chosen."""

        def shown(found: re.Match[str]) -> str:
            try:
                moment = self.at(datetime.fromisoformat(found[0]), own)
            except (ValueError, OverflowError):
                return found[0]  # somebody's words, and no instant
            return f"{moment.day} {moment.clock} {moment.zone}"

        return _INSTANT.sub(shown, str(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedPage:
    """All that a template is given."""

    here: PageContext
    title: str
    model: object
    shell: Shell | None = None
    """None for a page that stands alone: at the door, or when all else has failed."""
    visitor: ConsoleUser | None = None
    said: Flash | None = None
    pulse: str = ""
    """The mark of what the page shows: a pulse with another one is news."""


def render(template: str, printed: RenderedPage) -> str:
    """Print a page."""
    return (
        _environment()
        .get_template(template)
        .render(
            here=printed.here,
            title=printed.title,
            m=printed.model,
            shell=printed.shell,
            visitor=printed.visitor,
            said=printed.said,
            pulse=printed.pulse,
            navigation=NAVIGATION,
        )
    )


def compile_templates() -> None:
    """Compile every template: later, somebody would wait for that."""
    environment = _environment()
    for name in environment.list_templates():
        environment.get_template(name)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("duly.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        mark=mark, origin=origin_mark, span=span, pretty=_pretty, compact=_compact, count=_count
    )
    environment.filters.update(gist=_gist, plain=plain)
    environment.globals["bars"] = bars
    return environment


def bars(values: Sequence[float], width: int = 5, height: int = 20) -> list[dict[str, int]]:
    """Return where the bars of a strip stand, the tallest as high as there is room."""
    most = max(values, default=0) or 1
    drawn = []
    for place, value in enumerate(values):
        tall = max(3, round(value / most * height))
        drawn.append({"x": place * (width + 1), "y": height - tall, "w": width, "h": tall})
    return drawn


def _pretty(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _gist(error: str) -> str:
    """Return the last line of an error that says something: its class and its message."""
    lines = [line for line in error.splitlines() if line.strip()]
    return lines[-1].strip() if lines else error


def _count(number: int) -> str:
    return f"{number:,}"
