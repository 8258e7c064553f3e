"""What pages promise, shown by what changes on them: the same page before something, and after it."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from html import unescape
from typing import TYPE_CHECKING
from uuid import UUID

import duly
from duly import cron, every
from duly.domain.enums import Overlap
from duly.domain.outcomes import Failed
from duly.domain.runs import Progress, Reason
from duly.engine.manual_clock import ManualClock
from duly.store.memory import MemoryStore
from duly.store.ports.dispatch import Renew
from duly.store.ports.execution import Report
from duly.timetable.instants import to_microseconds
from duly_conformance import steps
from duly_conformance import steps as work
from tests.timetable.instants import moment
from tests.web.page_client import Visitor

if TYPE_CHECKING:
    from duly.store.ports.queries import StoreStatus

NOW = moment("2026-04-03T11:00Z")
MINUTE_US = 60_000_000


def words(text: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", text)).split())


def part(text: str, begin: str, end: str = "</section>") -> str:
    return words(text.partition(begin)[2].partition(end)[0])


class EarlyStore(MemoryStore):
    """A store that has fired too early, which none of ours does."""

    def status(self) -> StoreStatus:
        return replace(super().status(), early_fires=3)


def test_the_clock_is_the_viewers_and_skew_and_early_fires_are_those_of_the_store():
    """Another zone, a dispatcher whose clock is off, and what must never be."""
    clock = ManualClock(to_microseconds(NOW))
    store = EarlyStore(clock)
    with duly.App(store=store, clock=clock) as app, Visitor(app, clock=clock) as visitor:
        member = steps.join(store)
        before = part(visitor.enter().get("/health").text, 'id="health"')
        store.renew(Renew(member=member, is_holding=False, skew_us=-250_000))
        visitor.be_in("Asia/Kolkata")
        after = part(visitor.get("/health").text, 'id="health"')

    assert "11:00:00 UTC skew ≤ 0.0 ms early fires 3" in before
    assert "16:30:00 IST 11:00:00 UTC skew ≤ 250.0 ms early fires 3" in after


def test_the_tabs_icon_and_title_turn_with_the_worst_light_and_back():
    """Nothing is promised, then something is due that nobody fires, then it is deleted."""
    clock = ManualClock(to_microseconds(NOW))
    with (
        duly.App(store=MemoryStore(clock), clock=clock) as app,
        Visitor(app, clock=clock) as visitor,
    ):
        app.task(name="report")(lambda: None)
        visitor.enter()
        seen = []
        for change in (
            lambda: None,
            lambda: app.schedules.create("late", app.call("report"), every("1m")),
            lambda: app.schedules.delete("late", reason="so"),
        ):
            change()
            clock.advance(10 * MINUTE_US)
            text = visitor.get("/schedules").text
            icon = re.search(r'id="favicon"[^>]*icon-(\w+)', text)
            seen.append((icon and icon[1], "<title>(!) Schedules" in text))

    assert [("well", False), ("unwell", True), ("well", False)] == seen


def test_a_row_of_schedules_tells_what_an_edit_and_a_failure_have_changed(visitor):
    """The rule and its zone, what comes next, the policies, and how the last one ended."""
    app = visitor.app

    def row() -> tuple[str, str, str]:
        text = visitor.get("/schedules?search=hourly").text
        whole = text.partition(">hourly</a>")[2].partition("</tr>")[0]
        return (
            words(whole),
            part(whole, 'data-label="Next">', "</td>"),
            part(whole, 'data-label="Last result">', "</td>"),
        )

    before, _, well = row()
    rule = cron("15 9 * * *", tz="Asia/Tokyo")
    app.schedules.edit("hourly", timetable=rule, overlap="allow", call=app.call("fail"))
    visitor.clock.advance("21h")
    visitor.enter()
    after, coming, badly = row()

    assert "every hour" in before
    assert "overlap skip" in before
    assert "Asia/Tokyo" in after
    assert "overlap allow" in after
    assert 3 == len(re.findall(r"09:15(?::00)? JST", coming)), coming
    assert ("succeeded", "dead") == (well.split()[0], badly.split()[0])


def test_a_day_has_a_ring_once_a_backfill_has_made_runs_on_it(visitor):
    """On that day alone; the table beside it says the same."""
    app, clock = visitor.app, visitor.clock
    schedule = app.schedules.get("hourly")
    path = f"/schedules/{schedule.id}"
    before = visitor.get(path).text
    day = timedelta(days=1)
    span = {"since": clock.now - 2 * day, "until": clock.now - 2 * day + timedelta(hours=2)}
    app.backfills.create("hourly", **span, reason="from before it was made")
    clock.advance("5m")
    after = visitor.get(path).text

    assert (0, 1) == (before.count('class="ring"'), after.count('class="ring"'))
    assert "backfill" not in part(before, "The same as a table", "</table>")
    assert re.search(r"2026-04-01 2 .*backfill", part(after, "The same as a table", "</table>"))


def test_runs_in_doubt_are_grouped_by_cause_and_a_batch_leaves_the_other_group(visitor):
    """Two of one cause, one of another; what is decided is exactly what was shown."""
    app, clock = visitor.app, visitor.clock

    @app.task(effects="unsafe")
    def book(run: duly.Run) -> None:
        with run.effect("book:1"):
            raise ConnectionResetError("no answer")

    app.enqueue(app.call("settle"))
    other = app.enqueue(app.call("book"))
    clock.advance("1m")
    groups = re.findall(r'<h2 id="g-\d+">(.*?)</h2>.*?<span class="note">(\d+) run', page(visitor))
    same = [str(one.id) for one in app.runs.list(state="ambiguous", task="settle")]
    preview = visitor.post("/inbox/preview", {"choice": "skip", "runs": same})
    fields = {"choice": "skip", "runs": same, "reason": "known", "confirm": "2"}
    visitor.post("/inbox/decide", fields)

    found = {words(title).split(":")[0].split()[-1]: number for title, number in groups}
    assert {"settle": "2", "book": "1"} == found
    assert all(one in preview.text for one in same)
    assert str(other.id) not in preview.text
    assert [other.id] == [one.id for one in app.runs.list(state="ambiguous")]
    assert 1 == len(re.findall(r'<h2 id="g-\d+">', page(visitor)))


def page(visitor: Visitor) -> str:
    return " ".join(visitor.get("/inbox").text.split())


def test_the_fleet_tells_slots_the_oldest_attempt_and_who_has_not_advanced_for_longest():
    """With every run that is claimed, every advance and a drain, it tells another thing."""
    clock = ManualClock(to_microseconds(NOW))
    store = MemoryStore(clock)
    with duly.App(store=store, clock=clock) as app, Visitor(app, clock=clock) as visitor:
        visitor.enter()
        worker = work.join_worker(store, ttl_us=60 * MINUTE_US)
        looks = [part(visitor.get("/fleet").text, 'id="workers-list"')]
        held = []
        for name in ("first", "second"):
            work.queue(store, name)
            held.append(work.take_one(store, worker))
            store.report(worker, [Report(hold=held[-1].hold, started_at=clock.now_us())])
            clock.advance(MINUTE_US)
        first, second = (str(UUID(bytes=one.record.id)) for one in held)
        looks.append(visitor.get("/fleet").text)
        store.report(worker, [Report(hold=held[0].hold, progress=Progress(1, 2))])
        looks.append(visitor.get("/fleet").text)
        visitor.post(f"/fleet/workers/{worker}/drain", {"reason": "moves"})
        drained = part(visitor.get("/fleet").text, 'id="workers-list"')

    assert re.search(r"\b0 of \d+ busy", looks[0])
    assert re.search(r"\b2 of \d+ busy", part(looks[1], 'id="workers-list"'))
    oldest = looks[1].partition("Oldest attempt")[2].partition('id="stuck-list"')[0]
    assert (True, False) == (first in oldest, second in oldest)
    stuck = [
        re.findall(r"/runs/([0-9a-f-]{36})", one.partition('id="stuck-list"')[2]) for one in looks
    ]
    assert [[], [first, second], [second, first]] == stuck
    assert "draining" in drained
    assert "Release" in drained


def test_a_schedule_tells_what_is_at_work_what_waits_and_what_went_wrong():
    """As its vitals do: heartbeat and progress apart, the queue's delay, failures by kind."""
    clock = ManualClock(to_microseconds(NOW))
    store = MemoryStore(clock)
    with duly.App(store=store, clock=clock) as app, Visitor(app, clock=clock) as visitor:
        visitor.enter()
        record = steps.create(store, "nightly", timetable=every("1m"), overlap=Overlap.ALLOW)
        page = f"/schedules/{UUID(bytes=record.id)}"
        quiet = visitor.get(page).text
        worker = work.join_worker(store, ttl_us=60 * MINUTE_US)
        record = steps.fire_due(store, clock, record)
        failed = Failed("ValueError: no such class", Reason.NOT_RETRYABLE, is_retryable=False)
        work.end(store, worker, work.take_one(store, worker), failed)
        record = steps.fire_due(store, clock, record)
        held = work.take_one(store, worker)
        store.report(worker, [Report(hold=held.hold, started_at=clock.now_us())])
        store.report(worker, [Report(hold=held.hold, progress=Progress(3, 40))])
        steps.fire_due(store, clock, record)
        clock.advance(2 * MINUTE_US)
        told = visitor.get(page).text

    assert ("At work" in quiet, "What went wrong" in quiet) == (False, False)
    at_work = part(told, 'id="work-title"')
    assert "3 of 40" in at_work
    assert str(UUID(bytes=held.record.id)) in told.partition('id="work-title"')[2]
    wrong = part(told, 'id="failures-title"')
    assert "not-retryable" in wrong
    assert "ValueError" in wrong
    queue = words(told).partition("Waits in a queue")[2][:40]
    assert queue.startswith(" 1, the first for 2 m"), queue
