"""What a page costs: so many calls of the store, however much the store holds (U3)."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

import duly
from duly import every
from duly.api.settings import ApiSettings
from duly.domain.instants import to_microseconds
from duly.store.memory import MemoryStore
from duly.testing.conformance import alerts
from duly.testing.manual_clock import ManualClock
from duly_web.pages import PAGES
from tests.domain.moments import moment
from tests.web.visiting import Visitor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.store.protocol import Store
    from duly_web.page import Page

GENEROUS = ApiSettings(requests_burst_max=1_000_000)
HOUR = timedelta(hours=1)
LOOKED = [one for one in PAGES if one.method == "GET"]
FULL = 110
"""More schedules, and more runs, than any page shows."""
CALLS_MAX = {
    # Lanes and lateness, schedule by schedule, and what is missing, as below; kept for a while each.
    "overview": 780,
    "schedules": 215,
    "schedule": 50,
    "run": 70,
    "proof": 120,  # each occurrence of a day: its runs, their checks and items
    "missing": 640,  # a hundred schedules one by one, twice where something seems to be missing
}
"""Calls of the store for a page; most need no more than these."""
CALLS_USUAL_MAX = 35
SIZE_MAX = 150_000


class Counted:
    """A store that counts what it is asked."""

    def __init__(self, store: MemoryStore) -> None:
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
        path = re.sub(r"{(\w+)}", lambda found: self.named[found[1]], page.path)
        if page.name == "backfill_plan":
            path += f"?schedule={self.named['schedule']}"
        self.store.asked.clear()
        answer = self.visitor.get(path)
        assert answer.status_code in (200, 409), (path, answer.status_code)
        return Counter(self.store.asked), len(answer.content)

    def grow(self, numbers: range) -> None:
        """Have as many more schedules, and runs of all and of the first."""
        for number in numbers:
            name = f"s{number:04}"
            self.app.schedules.create(name, self.app.call("report"), every("1h"))
            self.app.schedules.trigger(name)
            self.app.schedules.trigger("a-first")
            self.app.enqueue(self.app.call("report"))
        # Nobody fires: all of them have missed something.
        self.clock.advance(2 * HOUR)


@contextmanager
def world() -> Iterator[World]:
    clock = ManualClock(to_microseconds(moment("2026-04-02T12:00Z")))
    store: Any = Counted(MemoryStore(clock))
    app = duly.App(store=store, clock=clock)
    app.task(name="report")(lambda: None)
    schedule = app.schedules.create("a-first", app.call("report"), every("1h"), overlap="allow")
    run = app.schedules.trigger("a-first")
    before = moment("2026-04-02T11:00Z")
    backfill = app.backfills.create("a-first", since=before, until=before + HOUR)
    named = {
        "schedule": str(schedule.id),
        "run": str(run.id),
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
def costs() -> dict[str, list[tuple[Counter[str], int]]]:
    """By page: what it costs in a full store, and in one that is twice as full."""
    found: dict[str, list[tuple[Counter[str], int]]] = {}
    with world() as one:
        for first in (0, FULL):
            one.grow(range(first, first + FULL))
            for page in LOOKED:
                found.setdefault(page.name, []).append(one.cost(page))
    return found


@pytest.mark.parametrize("page", LOOKED, ids=lambda page: page.name)
def test_a_page_costs_the_same_however_much_there_is(costs, page):
    """U3: as many calls of the store with twice as many schedules and runs."""
    (full, _), (fuller, _) = costs[page.name]

    assert full == fuller


@pytest.mark.parametrize("page", LOOKED, ids=lambda page: page.name)
def test_a_page_asks_the_store_a_bounded_number_of_times(costs, page):
    """U3: the bound of each is on record, so that who adds to a page sees what it costs."""
    _, (asked, _) = costs[page.name]

    assert asked.total() <= CALLS_MAX.get(page.name, CALLS_USUAL_MAX), asked


@pytest.mark.parametrize("page", LOOKED, ids=lambda page: page.name)
def test_a_page_looks_at_stale_work_once(costs, page):
    """V4: both lights are of one look, which is most of what a page costs."""
    _, (asked, _) = costs[page.name]

    by_schedule = ("schedule", "proof", "run", "edit_schedule", "duplicate_schedule")
    own = {"overview": 102} | dict.fromkeys(by_schedule, 1)
    assert asked["list_last_ends"] <= 1 + own.get(page.name, 0), asked


@pytest.mark.parametrize("page", LOOKED, ids=lambda page: page.name)
def test_a_page_is_small(costs, page):
    """U3: less than 150 kB, with as many rows as it ever shows."""
    _, (_, size) = costs[page.name]

    assert size < SIZE_MAX
