"""What a page costs: so many calls of the store, however much the store holds."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

import duly
from duly import every
from duly.api.middleware import ApiSettings
from duly.engine.manual_clock import ManualClock
from duly.store.sqlite import SqliteStore
from duly.web.pages import PAGES
from duly_conformance import alerts
from duly_conformance.effects import in_doubt
from tests.store.sqlite.made_file import made_file
from tests.web.page_client import Visitor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.store.ports import Store
    from duly.web.requests import Page

GENEROUS = ApiSettings(requests_burst_max=1_000_000)
HOUR = timedelta(hours=1)
LOOKED = [one for one in PAGES if one.method == "GET"]
FULL = 110
"""More schedules, and more runs, than any page shows."""
DOUBTS = 55
"""More than the inbox shows."""
CALLS_MAX = {
    # With what is kept of it, which is made anew here each time: the lights, what is missing.
    "overview": 33,
    # Also looks for who needs somebody; what it finds is kept for the table below, too.
    "timeline": 33,
    # With its vitals, and what backfills made or owe beside the rule.
    "schedule": 49,
    "run": 51,
    "proof": 31,
    "edit_schedule": 26,
    "duplicate_schedule": 26,
}
"""Calls of the store for a page of which nothing is kept; most need no more than these."""
CALLS_USUAL_MAX = 25
SIZE_MAX = 150_000


class Counted:
    """A store that counts what it is asked."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.asked: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not callable(found):
            return found

        def call(*arguments: Any, **named: Any) -> Any:
            self.asked[name] += 1
            return found(*arguments, **named)

        return call


@dataclass
class World:
    """A console, and what its store was asked."""

    app: duly.App
    store: Counted
    clock: ManualClock
    visitor: Visitor
    named: dict[str, str]

    def cost(self, page: Page) -> tuple[Counter[str], int]:
        """Ask for a page of which nothing is kept; return the calls, and its size."""
        self.clock.advance(timedelta(minutes=2))
        if page.name == "chosen_runs":  # a selection is not kept for long
            chosen = self.app.selections.freeze(ids=[self.named["run"]])
            self.named["selection"] = str(chosen.id)
        parts = self.named | ({"run": self.named["doubt"]} if page.name == "inbox_item" else {})
        path = re.sub(r"{(\w+)}", lambda found: parts[found[1]], page.path)
        if page.name == "backfill_plan":
            path += f"?schedule={self.named['schedule']}"
        self.store.asked.clear()
        answer = self.visitor.get(path)
        assert 200 == answer.status_code, (path, answer.status_code, answer.text)
        return Counter(self.store.asked), len(answer.content)

    def grow(self, numbers: range) -> None:
        """Have as many more schedules, and runs of all and of the first."""
        # At an hour at which the first is expected: a proof has runs to tell of.
        now = self.clock.now()
        self.clock.advance(now.replace(minute=0, second=0, microsecond=0) + HOUR - now)
        for number in numbers:
            name = f"s{number:04}"
            self.app.schedules.create(name, self.app.call("report"), every("1h"))
            self.app.schedules.trigger(name)
            self.app.schedules.trigger("a-first")
            self.app.enqueue(self.app.call("report"))
        # Nobody fires: all of them have missed something.
        self.clock.advance(2 * HOUR)


@contextmanager
def world(kept: Store, clock: ManualClock) -> Iterator[World]:
    store: Any = Counted(kept)
    app = duly.App(store=store, clock=clock)
    app.task(name="report")(lambda: None)
    doubt, *_ = [in_doubt(store, f"doubt {number}") for number in range(DOUBTS)]
    schedule = app.schedules.create("a-first", app.call("report"), every("1h"), overlap="allow")
    run = app.schedules.trigger("a-first")
    before = clock.now() - HOUR
    backfill = app.backfills.create("a-first", since=before, until=before + HOUR)
    named = {
        "schedule": str(schedule.id),
        "run": str(run.id),
        "doubt": str(UUID(bytes=doubt.run_id)),
        "backfill": str(backfill.id),
        "alert": str(raised(store)),
        "rule": "queue-age",
    }
    with Visitor(app, GENEROUS, clock=clock) as visitor:
        yield World(app, store, clock, visitor.enter(tenant="*"), named)


def raised(store: Store) -> UUID:
    """Have an alert raised about the first schedule."""
    alerts.look(store, alerts.watch(store), alerts.condition("schedule a-first"))
    (found,) = alerts.listed(store)
    return UUID(bytes=found.id)


@pytest.fixture(scope="module")
def costs(tmp_path_factory) -> dict[str, list[tuple[Counter[str], int]]]:
    """By page: what it costs in a full store, and in one that is twice as full.

    Calls are counted above the store, so that they are the same for every store.
    """
    found: dict[str, list[tuple[Counter[str], int]]] = {}
    clock = ManualClock()
    file = made_file(tmp_path_factory.mktemp("costs") / "duly.db", clock)
    with closing(SqliteStore(file, clock)) as store, world(store, clock) as one:
        for first in (0, FULL):
            one.grow(range(first, first + FULL))
            for page in LOOKED:
                found.setdefault(page.name, []).append(one.cost(page))
    return found


@pytest.mark.parametrize("page", LOOKED, ids=lambda page: page.name)
def test_a_page_costs_a_bounded_number_of_calls_however_much_there_is(costs, page):
    """As many with twice as many schedules and runs, none row by row, and it is small."""
    (full, _), (fuller, size) = costs[page.name]
    # Both lights are of one look at stale work, which is most of what a page costs.
    own = {"sides", "timeline", "schedule", "proof", "run", "edit_schedule", "duplicate_schedule"}
    # What has many rows asks about all of them at once; the page of one run asks part by part.
    most = {"run": 12}.get(page.name, 8)

    assert full == fuller
    # The bound of each is on record: a change that adds to a page shows what it costs.
    assert fuller.total() <= CALLS_MAX.get(page.name, CALLS_USUAL_MAX), fuller
    # A schedule's page has its vitals, too.
    assert fuller["list_last_ends"] <= 1 + (page.name in own) + (page.name == "schedule"), fuller
    assert fuller["count_tenant"] <= 1, fuller
    assert not {name: count for name, count in fuller.items() if count > most}
    assert size < SIZE_MAX
