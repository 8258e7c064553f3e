"""Which schedules the overview shows first where it can't show all: those that need somebody."""

from __future__ import annotations

import re

import pytest

import duly
from duly import Retry, cron, every
from duly.testing.virtual_time import virtual_time
from duly_web.pages.sides import SIDES_MAX
from duly_web.pages.timeline import LANES_MAX
from tests.web.visiting import Visitor

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
    """V1, UX 10: stale work, a run in doubt, what fires most often; what is paused not."""
    text = office.whole("/")

    assert ["x-broken", "z-doubt", "busy", "a00", "a01"] == lanes(text)[:5]
    assert LANES_MAX == len(lanes(text))
    assert "w-paused" not in lanes(text)
    assert re.search(r"x-broken</a>\s*<span class=\"why[^>]*>.*?stale", text, re.DOTALL)
    assert re.search(r"z-doubt</a>\s*<span class=\"why[^>]*>.*?in doubt", text, re.DOTALL)


def test_the_others_are_counted_and_one_link_away(office):
    """UX 10, 43: the drawing says in what order it is, how many it leaves out, and where."""
    text = " ".join(office.whole("/").split())
    others = WELL + 4 - LANES_MAX

    assert f'<a href="/schedules">{others} others among all schedules</a>' in text
    assert "what is late, stale or in trouble, then what fires most often" in text


def test_the_table_of_both_sides_has_the_same_order(office):
    """V4, UX 8: the first rows are those of the first lanes."""
    text = office.whole("/")
    rows = re.findall(r'<tr id="side-[^>]*>\s*<th scope="row">\s*<a [^>]*>([^<]+)</a>', text)

    assert SIDES_MAX == len(rows)
    assert lanes(text) == rows[:LANES_MAX]
    assert "w-paused" in office.whole("/?show=all").partition('id="sides"')[2]


def test_a_trigger_that_is_late_comes_before_everything(office):
    """V4: what nobody fires is first, and its work is not blamed for it."""
    from duly.store.memory import MemoryStore
    from duly.testing.manual_clock import ManualClock

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
