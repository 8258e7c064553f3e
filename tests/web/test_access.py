"""Every page and action, by everybody who may not: made of the table of pages."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

import duly
from duly import every
from duly.api.middleware import ApiSettings
from duly.domain.auth import SCOPES_BY_ROLE
from duly.engine.manual_clock import ManualClock
from duly.store.memory import MemoryStore
from duly.timetable.instants import to_microseconds
from duly.web.pages import PAGES
from duly_conformance import alerts
from tests.timetable.instants import moment
from tests.web.page_client import Visitor

if TYPE_CHECKING:
    from duly.store.ports import Store
    from duly.web.requests import Page

OURS, THEIRS = "ours", "theirs"
HOUR = timedelta(hours=1)
GENEROUS = ApiSettings(requests_burst_max=1_000_000)
FORMS = {
    "decide_doubt": {"choice": "skip", "reason": "mine"},
    "acknowledge_alert": {"reason": "mine"},
    "silence_alert": {"reason": "mine", "duration": "1h"},
}
"""What an order says that would be refused for what it lacks, before anybody looks whose it is."""
SHARED = {
    "worker": "1",
    "queue": "default",
    "destination": "bank",
    "rule": "queue-age",
    "channel": "log",
}
"""Parts of a path that are nobody's own: orders about them are for who may act everywhere."""


@dataclass
class World:
    """Two tenants, and a visitor of one of them."""

    visitor: Visitor
    app: duly.App
    theirs: dict[str, str]
    """By the name of a path's part: something of the other tenant's."""

    def ask(self, page: Page, named: dict[str, str]) -> Any:
        path = re.sub(r"{(\w+)}", lambda found: named[found[1]], page.path)
        if page.method == "GET":
            return self.visitor.get(path)
        return self.visitor.post(path, FORMS.get(page.name))

    def seen(self) -> list[Any]:
        app = self.app.within(tenant=THEIRS, actor="ada")
        runs = [one.to_json() for one in app.runs.list()]
        runs += [one.to_json() for one in app.backfills.list()]
        runs += [one.to_json() for one in self.app.queues.list()]
        said = self.app.alerts
        runs += [one.to_json() for one in said.list()]
        runs += [one.to_json() for one in said.silences()]
        runs += [one.to_json() for one in said.rules()]
        return [*runs, *(one.to_json() for one in app.schedules.list())]


@pytest.fixture(scope="module")
def world():
    clock = ManualClock(to_microseconds(moment("2026-04-02T12:00Z")))
    app = duly.App(store=MemoryStore(clock), clock=clock)

    @app.task
    def report() -> None: ...

    their = app.within(tenant=THEIRS, actor="ada")
    schedule = their.schedules.create("secret-close", app.call("report"), every("1h"))
    run = their.enqueue(app.call("report"))
    before = moment("2026-04-02T11:00Z")
    backfill = their.backfills.create("secret-close", since=before, until=before + HOUR)
    chosen = their.selections.freeze(ids=[run.id])
    named = {"schedule": schedule.id, "run": run.id, "backfill": backfill.id}
    named["selection"] = chosen.id
    named["alert"] = raised(app.store, "schedule secret-close")
    named["silence"] = their.alerts.silence(reason="ours", duration="9d").id
    theirs = SHARED | {name: str(one) for name, one in named.items()}
    with Visitor(app, GENEROUS, clock=clock) as visitor:
        yield World(visitor, app, theirs)


def raised(store: Store, subject: str) -> UUID:
    """Have an alert raised about something of the other tenant's."""
    alerts.look(store, alerts.watch(store), alerts.condition(subject, tenant=THEIRS))
    (found,) = alerts.listed(store)
    return UUID(bytes=found.id)


def name_of(page: Page) -> str:
    return page.name


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_nobody_comes_in_without_a_session(world, page):
    """A stranger is sent to the door, and an order of theirs does nothing."""
    world.visitor.leave()
    before = world.seen()
    answer = world.ask(page, world.theirs)

    assert 303 == answer.status_code
    assert answer.headers["location"].startswith("/enter")
    assert before == world.seen()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_role_that_lacks_the_scope_is_refused(world, page):
    """A viewer changes nothing, a worker sees nothing."""
    lacking = [role for role, scopes in SCOPES_BY_ROLE.items() if page.scope not in scopes]
    found = []
    for role in lacking:
        world.visitor.enter(str(role), THEIRS)
        found.append(world.ask(page, world.theirs).status_code)

    assert lacking
    assert {403} == set(found)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_of_another_tenant_nothing_is_seen_or_changed(world, page):
    """Their things are not there, to the letter."""
    before = world.seen()
    world.visitor.enter("admin", OURS)
    answer = world.ask(page, world.theirs)
    nobodys = dict.fromkeys(world.theirs, "01960000-0000-7000-8000-000000000000") | SHARED
    is_shared = any(f"{{{name}}}" in page.path for name in SHARED)

    assert before == world.seen()
    assert "secret-close" not in answer.text
    if "{" in page.path:
        expected = 403 if is_shared else 404
        assert expected == answer.status_code == world.ask(page, nobodys).status_code


@pytest.mark.parametrize("page", [one for one in PAGES if one.method == "POST"], ids=name_of)
def test_an_order_without_the_sessions_own_token_is_refused(world, page):
    """A form that some other page sends can't know it."""
    world.visitor.enter("admin", THEIRS)
    world.visitor.secret = "another"  # noqa: S105 - of no session
    before = world.seen()

    assert 403 == world.ask(page, world.theirs).status_code
    assert before == world.seen()


@pytest.mark.parametrize(
    "path",
    ["/static/../console.py", "/static/%2e%2e%2fconsole.py", "/static/console.css", "/static/a/b"],
)
def test_only_what_is_in_the_manifest_is_a_file(world, path):
    """Nothing is looked up by what a request says."""
    assert 404 == world.visitor.get(path).status_code


@pytest.mark.parametrize(
    "to",
    ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)", "evil"],
)
def test_the_way_back_leads_nowhere_else(world, to):
    """Whoever signs in stays on this server."""
    world.visitor.leave()
    text = world.app.tokens.create("bea", role="viewer", tenant=OURS).text
    answer = world.visitor.post("/enter", {"secret": text, "next": to})

    assert "/" == answer.headers["location"]


def test_a_code_that_was_used_or_is_old_says_so_and_how_to_go_on(visitor):
    """Whoever opens the printed address twice has no token to be told about."""
    visitor.leave()
    code = visitor.app.doorkeeper().make_code()
    first = visitor.post("/enter", {"secret": code})
    visitor.leave()
    again = visitor.post("/enter", {"secret": code})
    old = visitor.app.doorkeeper().make_code()
    visitor.clock.advance("16m")
    late = visitor.post("/enter", {"secret": old})
    token = visitor.post("/enter", {"secret": "duly_nonsense"})

    assert [303, 401, 401] == [first.status_code, again.status_code, late.status_code]
    for answer in (again, late):
        assert "This code has been used, or is older than 15 minutes." in answer.text
        assert "duly token create me --role operator" in answer.text
    assert "This code has been used" not in token.text


def test_every_page_has_the_policy_and_is_kept_by_nobody(visitor):
    """No exception in the policy, no copy in a cache, no frame."""
    answer = visitor.get("/")
    policy = answer.headers["content-security-policy"]

    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert "no-store" == answer.headers["cache-control"]
    assert not re.search(r"<script(?![^>]*src=)|\sstyle=|\son[a-z]+=", answer.text)
