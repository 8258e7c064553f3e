"""Which schedules the overview shows first where it can't show all: those that need somebody."""

from __future__ import annotations

import re

import pytest

import duly
from duly import Retry, at, cron, every
from duly.domain.alert_rules import AlertKind
from duly.engine.manual_clock import ManualClock
from duly.store.memory import MemoryStore
from duly.testing import virtual_time
from duly.web.pages.overview import SCHEDULES_MAX, SIDES_MAX
from duly.web.pages.timeline import LANES_MAX
from duly_conformance import alerts
from tests.web.page_client import Visitor

WELL = 20


@pytest.fixture(scope="module")
def office():
    """Twenty that are well, all before those that are not by name, and one that is paused."""
    app = duly.App("memory:")

    @app.task
    def report() -> None: ...

    @app.task(retry=Retry(attempts=1))
    def fail() -> None:
        raise ValueError("badly")

    @app.task(effects="unsafe")
    def settle(run: duly.Run) -> None:
        with run.effect("pay:1"):
            raise ConnectionResetError("no answer")

    with virtual_time(app, "2026-04-03T02:00") as clock, Visitor(app) as visitor:
        for number in range(WELL):
            app.schedules.create(f"a{number:02}", report, every(f"{number + 2}h"))
        app.schedules.create("busy", report, every("10m"))
        app.schedules.create("w-paused", report, every("1m"))
        app.schedules.create("x-broken", fail, every("1h"))
        app.schedules.create("z-doubt", settle, cron("30 6 * * *", tz="UTC"))
        app.schedules.pause("w-paused", reason="so")
        clock.advance("6h")
        yield visitor.enter()


def lanes(text: str) -> list[str]:
    return re.findall(r'<svg role="group" aria-label="([^"]+)"', text)


def test_lanes_are_of_those_that_need_somebody_then_of_the_busiest(office):
    """Stale work, a run in doubt, what fires most often; what is paused not."""
    text = office.whole("/")

    assert ["x-broken", "z-doubt", "busy", "a00", "a01"] == lanes(text)[:5]
    assert LANES_MAX == len(lanes(text))
    assert "w-paused" not in lanes(text)
    assert re.search(r"x-broken</a>\s*<span class=\"why[^>]*>.*?stale", text, re.DOTALL)
    assert re.search(r"z-doubt</a>\s*<span class=\"why[^>]*>.*?in doubt", text, re.DOTALL)


def test_the_others_are_counted_and_one_link_away(office):
    """The drawing says in what order it is, how many it leaves out, and where."""
    text = " ".join(office.whole("/").split())
    others = WELL + 4 - LANES_MAX

    assert f'<a href="/schedules">{others} others among all schedules</a>' in text
    assert "what is late, stale, in trouble or has an alert, then what fires most often" in text


def test_the_table_of_both_sides_has_the_same_order(office):
    """The first rows are those of the first lanes."""
    text = office.whole("/")
    rows = re.findall(r'<tr id="side-[^>]*>\s*<th scope="row">\s*<a [^>]*>([^<]+)</a>', text)

    assert SIDES_MAX == len(rows)
    assert lanes(text) == rows[:LANES_MAX]
    assert "w-paused" in office.whole("/?show=all").partition('id="sides"')[2]


def test_a_trigger_that_is_late_comes_before_everything(office):
    """What nobody fires is first, and its work is not blamed for it."""
    clock = ManualClock(1_775_210_400_000_000)
    with (
        duly.App(store=MemoryStore(clock), clock=clock) as app,
        Visitor(app, clock=clock) as visitor,
    ):

        @app.task
        def report() -> None: ...

        app.schedules.create("a-daily", report, every("24h"))
        app.schedules.create("z-hourly", report, every("1h"))
        before = lanes(visitor.enter().whole("/"))
        app.schedules.create("b-often", report, every("30m"))
        clock.advance(65 * 60_000_000)
        text = visitor.whole("/")

    assert ["z-hourly", "a-daily"] == before
    assert ["b-often", "z-hourly", "a-daily"] == lanes(text)
    assert 2 == len(re.findall(r'<span class="why tone-warn">', text))


FIRST = SCHEDULES_MAX + 5
"""More than are looked at by name."""


@pytest.fixture(scope="module")
def crowd():
    """More than a hundred that are well; behind them by name those that are not."""
    app = duly.App("memory:")

    @app.task
    def report() -> None: ...

    @app.task(effects="unsafe")
    def settle(run: duly.Run) -> None:
        with run.effect("pay:1"):
            raise ConnectionResetError("no answer")

    with virtual_time(app, "2026-04-03T02:00") as clock, Visitor(app) as visitor:
        for number in range(FIRST):
            app.schedules.create(f"a{number:03}", report, every("24h"))
        for name in ("x-stale", "x-gone", "x-other", "x-missing"):
            app.schedules.create(name, report, every("24h"))
        app.schedules.create("z-doubt", settle, cron("30 2 * * *", tz="UTC"))
        app.schedules.pause("x-gone", reason="its owner is gone: 'ada' (left)")
        ended = app.schedules.create("a-ended", report, every("24h"))
        app.schedules.delete(ended.id, reason="so")
        clock.advance("1h")
        watch = alerts.watch(app.store)
        own = [
            alerts.condition(f"schedule {name}", kind=kind, tenant="default")
            for name, kind in (
                ("x-stale", AlertKind.STALE_COMPLETION),
                ("x-gone", AlertKind.SCHEDULE_PAUSED),
                ("x-missing", AlertKind.MISSING_RUN),
                ("a-ended", AlertKind.LATE_RUN),
            )
        ]
        theirs = alerts.condition("schedule x-other", kind=AlertKind.LATE_RUN, tenant="theirs")
        alerts.look(app.store, watch, *own, theirs)
        yield visitor.enter()


def test_whom_alerts_and_runs_in_trouble_are_about_is_found_behind_a_hundred_others(crowd):
    """Not the first of the alphabet, but those that need somebody."""
    text = crowd.whole("/")
    found = lanes(text)

    assert re.search(r"x-stale</a>\s*<span class=\"why[^>]*>.*?has an alert", text, re.DOTALL)
    assert ["z-doubt", "x-gone", "x-missing", "x-stale", "a000"] == found[:5]
    assert "x-other" not in found, "an alert of another tenant is about another schedule"
    assert "a-ended" not in found


def test_the_page_says_at_how_many_it_has_looked(crowd):
    """What was not looked at is not called well."""
    text = " ".join(crowd.whole("/?show=stale").split())

    assert f"Looked at: the first {SCHEDULES_MAX} by name" in text
    assert "runs in trouble are about, which are 4." in text


def test_what_has_ended_or_is_deleted_takes_nobodys_place():
    """A hundred that are over would have hidden the one that goes on."""
    app = duly.App("memory:")

    @app.task
    def report() -> None: ...

    with virtual_time(app, "2026-04-03T02:00") as clock, Visitor(app) as visitor:
        for number in range(SCHEDULES_MAX):
            app.schedules.create(f"a{number:03}", report, at("2026-04-03T02:10", tz="UTC"))
        clock.advance("20m")
        app.schedules.create("z-live", report, every("24h"))
        text = visitor.enter().whole("/")

    assert ["z-live"] == lanes(text)
    assert "Looked at" not in text


def test_a_count_of_overdue_says_when_there_may_be_more():
    """A number that is of the first by name alone has a plus, if anything else is due."""
    clock = ManualClock(1_775_210_400_000_000)
    with (
        duly.App(store=MemoryStore(clock), clock=clock) as app,
        Visitor(app, clock=clock) as visitor,
    ):

        @app.task
        def report() -> None: ...

        for number in range(FIRST):
            app.schedules.create(f"a{number:03}", report, every("24h"))
        app.schedules.create("z-hourly", report, every("1h"))
        before = tile(visitor.enter().get("/").text, "Overdue")
        clock.advance(65 * 60_000_000)
        after = tile(visitor.get("/").text, "Overdue")

    assert ("0", "0+") == (before, after)


def tile(text: str, label: str) -> str:
    found = re.search(rf"<b>([^<]+)</b>\s*<span[^>]*>{label}<", text)
    assert found is not None, text
    return found[1]


def test_the_table_of_lateness_says_that_it_is_of_the_first_and_where_others_are(crowd):
    """Of a hundred it has some, and the page of each leads to its own."""
    part = " ".join(crowd.get("/overview/lateness").text.split())
    page = crowd.get(f"/schedules/{crowd.app.schedules.get('z-doubt').id}").text
    own = crowd.get("/overview/lateness?of=z-doubt").text

    assert "The first 5 schedules by name; the page of any other leads" in part
    assert 'href="/overview/lateness?of=z-doubt"' in page
    assert "Lateness of z-doubt" in own
