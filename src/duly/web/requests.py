"""What a page handler receives and returns: forms, cursors, redirects, flash messages, refusals.

A handler may block. It is called in one of the API's threads, with an application that acts for the
visitor in one tenant. It returns a `Rendered` page or a `Redirect`.

A `Flash` message is only printed. The undo that it names is a form like any other: it requires the
session's own token and an action of the table.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

import msgspec

from duly import UsageError
from duly.api.middleware import read_raw
from duly.api.requests import api_error, read_cursor, read_pairs, write_cursor

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from msgspec import Struct
    from starlette.requests import Request

    from duly import App, Schedule
    from duly.api.middleware import ApiSettings
    from duly.api.views import Problem
    from duly.web.formatting import TimeFormatter
    from duly.web.rendering import LayoutData, TtlCache


FORM = "application/x-www-form-urlencoded"


async def read_form(request: Request, settings: ApiSettings) -> dict[str, list[str]]:
    """Read a form."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != FORM:
        remedy = f"send Content-Type: {FORM}"
        raise api_error(415, "unsupported-media-type", "that is not a form", remedy)
    pairs = read_pairs(await read_raw(request, settings))
    return {name: kept for name, given in pairs.items() if (kept := [one for one in given if one])}


Scope = Literal["read", "trigger", "edit", "admin"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleUser:
    """Somebody whose browser has a session."""

    name: str
    role: str
    scopes: frozenset[str]
    tenant: str
    """In which tenant this request looks and acts."""
    is_everywhere: bool
    csrf: str
    """What a form shows to prove that it is ours."""

    def may(self, scope: Scope) -> bool:
        """Say whether an action is offered at all."""
        return scope in self.scopes


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """One request as a handler sees it."""

    app: App
    """Acts for the visitor, in their tenant, as the source `console`."""
    visitor: ConsoleUser
    now: datetime
    """By the store's clock."""
    clocks: TimeFormatter
    kept: TtlCache
    """What is dear to compute, and may be a little old."""
    pulse: str = ""
    """The mark of what the tenant has: what is kept under it is as new as the page must be."""
    path: Mapping[str, str] = field(default_factory=dict)
    query: Any = None
    """A struct of the page's `query` type."""
    form: Any = None
    """A struct of the page's `form` type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """A page to be printed: a template, and the model that it prints."""

    template: str
    model: object
    title: str
    status: int = 200
    is_part: bool = False
    """A piece of a page, which a script puts where it belongs: no shell, and nothing said."""
    part: str | None = None
    """The template of the piece alone, for a page that another one takes in."""
    looked: LayoutData | None = None
    """The state of everything, where the page has looked at it itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo:
    """An order that takes another one back: an action of the table, and what its form says."""

    label: str
    path: str
    fields: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flash:
    """What the next page says was done, and how to undo it."""

    text: str
    undo: Undo | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Redirect:
    """Where to go after an order; a path below where the console is mounted."""

    to: str
    said: Flash | None = None


Handler = Callable[[PageRequest], Rendered | Redirect]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A row of the table."""

    method: Literal["GET", "POST"]
    path: str
    name: str
    """What the tests call it."""
    scope: Scope
    handler: Handler
    query: type[Struct] | None = None
    form: type[Struct] | None = None


def write_place(place: tuple[str, UUID] | None) -> str | None:
    """Write after which one a list goes on."""
    return None if place is None else write_cursor(place[0], place[1])


def read_place(text: str | None) -> tuple[str, UUID] | None:
    """Read it; what is no cursor is refused."""
    return read_cursor(text, tuple[str, UUID])


HEADINGS = {
    403: "This is not yours to do",
    404: "There is no such thing",
    409: "It is not as you saw it",
    412: "It is not as you saw it",
    422: "It can't be done like this",
    429: "Too much at once",
    500: "Something went wrong here",
    503: "The store does not answer",
}


PLACES = {
    "run": ("All runs", "/runs"),
    "delayed run": ("All runs", "/runs"),
    "schedule": ("All schedules", "/schedules"),
    "backfill": ("All backfills", "/backfills"),
    "destination": ("The fleet", "/fleet"),
    "alert": ("All alerts", "/alerts"),
    "alert rule": ("All rules", "/alerts/rules"),
    "alert channel": ("All channels", "/alerts/channels"),
}
"""Where those are listed that there are, by what was looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalModel:
    """The page."""

    problem: Problem
    back: str | None
    """The page that somebody came from, where it is one of ours."""

    @property
    def plain(self) -> str | None:
        """What was not found, for who looks at a page: remedies are for programs."""
        problem = self.problem
        if problem.status != 404:
            return None
        if not problem.value:
            return "There is no such page here."
        return f"There is no {problem.field} {problem.value} here: it was never made, or is gone."

    @property
    def place(self) -> tuple[str, str] | None:
        """Where to look instead."""
        if self.problem.status != 404:
            return None
        return PLACES.get(self.problem.field or "", ("The overview", "/"))


def heading(problem: Problem) -> str:
    """Return what stands over a problem."""
    return HEADINGS.get(problem.status, problem.title)


NAME = "duly_said"
LENGTH_MAX = 3000
SECONDS = 60


def write_said(said: Flash) -> str | None:
    """Write it as a cookie's value; None for what is too long to be carried."""
    text = urlsafe_b64encode(msgspec.json.encode(said)).decode().rstrip("=")
    return text if len(text) <= LENGTH_MAX else None


def read_said(cookies: Mapping[str, str]) -> Flash | None:
    """Read it; whatever is not ours is nothing."""
    text = cookies.get(NAME, "")
    if not text or len(text) > LENGTH_MAX:
        return None
    try:
        raw = urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
        return msgspec.json.decode(raw, type=Flash)
    except (ValueError, msgspec.MsgspecError):
        return None


CHOSEN_MAX = 1000
TYPED_FROM = 100
"""Above so many, whoever orders types how many they are."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """One schedule as it was seen."""

    id: UUID
    version: int


def write_chosen(schedules: Iterable[Schedule]) -> str:
    """Write a set."""
    return " ".join(write_one(one.id, one.version) for one in schedules)


def write_one(schedule: UUID, version: int) -> str:
    """Write one of a set."""
    return f"{urlsafe_b64encode(schedule.bytes).decode().rstrip('=')}.{version}"


def read_chosen(texts: Iterable[str]) -> list[Chosen]:
    """Read a set; each once."""
    found: dict[UUID, Chosen] = {}
    for text in texts:
        for one in text.split():
            read = _read(one)
            found[read.id] = read
    if len(found) > CHOSEN_MAX:
        remedy = f"choose at most {CHOSEN_MAX:,}: narrow the list by a filter"
        raise UsageError("chosen", f"{len(found):,}", "are too many at once", remedy)
    return list(found.values())


def _read(text: str) -> Chosen:
    identity, _, version = text.partition(".")
    try:
        return Chosen(UUID(bytes=urlsafe_b64decode(identity + "==")), int(version))
    except (ValueError, TypeError) as error:
        remedy = "choose rows of the list"
        raise UsageError("chosen", text[:80], "names no schedule", remedy) from error
