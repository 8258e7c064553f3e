"""Hostile texts in every form, query, path and cookie of the console: each stays a text."""

from __future__ import annotations

import os
import re
from html.parser import HTMLParser
from itertools import cycle
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import pytest
from msgspec import structs

import duly
from duly.api.middleware import ApiSettings
from duly.engine.manual_clock import ManualClock
from duly.store.memory import MemoryStore
from duly.timetable.instants import to_microseconds
from duly.web.pages import PAGES
from tests.client.tenant_walk import SECRET, THEIRS, Things, furnish
from tests.security.corpora import KINDS
from tests.timetable.instants import moment
from tests.web.page_client import Visitor

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

    from duly.web.requests import Page

EACH = int(os.environ.get("DULY_FUZZ_EXAMPLES", "1"))
"""How many texts are thrown at each place."""
TEXTS = [text for texts in KINDS.values() for text in texts]
ELSEWHERE = {"statements", "chats", "mails"}
"""Kinds that attack a database, a chat or a mail: to a page each of them is a text like any other."""
SHARED = {
    "worker": "1",
    "queue": "default",
    "destination": "bank",
    "rule": "queue-age",
    "channel": "log",
    "schedule": "ours",
    "run": "",
    "selection": "",
    "backfill": "",
    "alert": "",
    "silence": "",
}
COOKIES = ("duly_said", "duly_tz", "duly_tenant", "duly_zone", "duly_session", "other")
FORBIDDEN = {"applet", "base", "embed", "frame", "iframe", "marquee", "math", "object", "style"}
LOCAL = re.compile(r"(?!//)[/#?]|[a-z0-9_-]*$")
_PART = re.compile(r"\{(\w+)\}")


class Place(NamedTuple):
    """Where a text goes: a page, and a field of its path, its query or its form."""

    page: Page
    where: str
    name: str

    def __str__(self) -> str:
        return f"{self.page.name}:{self.where}:{self.name}"


def places() -> Iterator[Place]:
    for page in PAGES:
        yield from (Place(page, "path", name) for name in _PART.findall(page.path))
        yield Place(page, "query", "unknown")
        for where, kind in (("query", page.query), ("form", page.form)):
            for one in structs.fields(kind) if kind is not None else ():
                yield Place(page, where, one.encode_name)
    for page in PAGES[:8]:
        yield from (Place(page, "query", name) for name in ("tz", "tenant", "csrf"))
        yield from (Place(page, "cookie", name) for name in COOKIES)


class World:
    """A console with two tenants, and an operator who pastes whatever he is sent."""

    def __init__(self, visitor: Visitor, theirs: Things) -> None:
        self.visitor, self.theirs = visitor, theirs
        self.named = SHARED | {
            "run": str(visitor.app.enqueue(visitor.app.call("report")).id),
            **{
                name: str(getattr(theirs, name))
                for name in ("alert", "backfill", "selection", "silence")
            },
        }

    def throw(self, place: Place, text: str) -> httpx.Response:
        page = place.page

        def part(found: re.Match[str]) -> str:
            is_it = place.where == "path" and found[1] == place.name
            said = text if is_it else self.named[found[1]]
            return quote(said.encode("utf-8", "surrogatepass"), safe="")

        path = _PART.sub(part, page.path)
        options: dict[str, Any] = {}
        value = text.encode("utf-8", "surrogatepass")
        if place.where == "query":
            path += f"?{place.name}={quote(value, safe='')}"
        if place.where == "cookie":
            kept = b"; ".join(
                [f"duly_session={self.visitor.secret}".encode(), place.name.encode() + b"=" + value]
            )
            options["headers"] = [(b"cookie", kept)]
        if page.method == "GET":
            return self.visitor.get(path, **options)
        form = {"reason": "why"} if page.form is not None else {}
        if place.where == "form":
            form[place.name] = value.decode("utf-8", "replace")
        return self.visitor.post(path, form, **options)


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    clock = ManualClock(to_microseconds(moment("2026-04-02T12:00Z")))
    store: Any = MemoryStore(clock)
    theirs = furnish(store, clock)
    app = duly.App(store=store, clock=clock)

    @app.task
    def report(note: str = "") -> None: ...

    app.schedules.create("ours", app.call("report"), duly.every("1h"))
    with Visitor(app, ApiSettings(requests_burst_max=1_000_000), clock=clock) as visitor:
        visitor.enter("admin", "default")
        yield World(visitor, theirs)


class Seen(HTMLParser):
    """What a browser would obey in a page."""

    def __init__(self) -> None:
        super().__init__()
        self.obeyed: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if tag in FORBIDDEN or (tag == "script" and "src" not in named):
            self.obeyed.append(tag)
        if tag == "meta" and "http-equiv" in named:
            self.obeyed.append("meta refresh")
        for name, value in attrs:
            if name.startswith("on") or name in {"style", "srcdoc", "formaction", "xlink:href"}:
                self.obeyed.append(f"{tag} {name}")
            if name in {"href", "src", "action"} and not LOCAL.match(value or ""):
                self.obeyed.append(f"{tag} {name}={value}")


def judge(about: str, answer: httpx.Response) -> None:
    """Fail for an answer that a browser would obey."""
    assert answer.status_code < 500, (about, answer.text[-2000:])
    for _, value in answer.headers.raw:
        assert value.decode("latin-1").isprintable(), (about, value)
    assert "unsafe" not in answer.headers["content-security-policy"], about
    assert "nosniff" == answer.headers["x-content-type-options"], about
    to = answer.headers.get("location", "/")
    assert to.startswith("/"), (about, to)
    assert not to.startswith(("//", "/\\")), (about, to)
    seen = Seen()
    seen.feed(answer.text)
    assert [] == seen.obeyed, (about, seen.obeyed)
    assert SECRET not in answer.text, about


def test_there_are_as_many_places_as_pages_have():
    assert len({str(one) for one in places()}) > 400
    assert len(set(TEXTS)) >= 380


def test_no_text_is_obeyed_by_a_browser_wherever_it_was_put(world: World):
    """And never a failure; afterwards no page that shows what was kept does either."""
    texts = cycle(TEXTS)
    for place in places():
        for text in (next(texts) for _ in range(EACH)):
            judge(f"{place} {text!r}", world.throw(place, text))
    for page in PAGES:
        if page.method == "GET":
            judge(page.path, world.throw(Place(page, "query", "tz"), "utc"))

    assert [] == world.visitor.app.check()


@pytest.mark.parametrize(
    "kind",
    [pytest.param(one, marks=[pytest.mark.thorough] * (one in ELSEWHERE)) for one in KINDS],
)
def test_no_reason_or_name_is_obeyed_where_it_is_shown(world: World, kind: str):
    """Whatever was said in an order stands on the audit trail, and on the pages about it."""
    app = world.visitor.app
    chosen = KINDS[kind] if kind == "markup" else KINDS[kind][::3]
    for number, text in enumerate(chosen):
        said = {"reason": text.encode("utf-8", "replace").decode()}
        judge(text, world.visitor.post("/schedules/ours/pause", said))
        judge(
            text,
            world.visitor.post("/alerts/silences", {**said, "duration": "1h", "subject": text}),
        )
        try:
            app.schedules.create(f"{text}", app.call("report", {"note": text}), duly.every("1h"))
        except duly.DulyError:
            continue
        judge(text, world.visitor.get(f"/schedules/{quote(text, safe='')}"))
        if number % 20 == 0:
            for path in ("/audit", "/schedules", "/runs", "/alerts/silences", "/"):
                judge(f"{path} {text}", world.visitor.get(path))
        app.schedules.delete(text)  # many would make each page slow
    assert THEIRS not in world.visitor.get("/audit").text
