"""The overview: tiles that count what they lead to, triggers beside useful work, drawings."""

from __future__ import annotations

import re
from datetime import date, timedelta
from typing import Any
from uuid import UUID

import pytest

import duly
from duly import cron, every
from duly.domain.runs import Progress, TaskPolicy
from duly.domain.vitals import Lateness
from duly.engine.manual_clock import ManualClock
from duly.store.memory import MemoryStore
from duly.store.ports.execution import Report
from duly.testing import virtual_time
from duly.timetable.instants import to_microseconds
from duly.web.charts import lateness_sentence
from duly.web.formatting import TimeFormatter
from duly.web.pages.timeline import EACH_MAX, PER_HOUR_MAX, STEPS_MAX, plan_load
from duly_conformance import steps as work
from tests.timetable.instants import moment
from tests.web.page_client import Visitor
from tests.web.two_day_history import HOSTILE

NOW = moment("2026-04-03T11:00Z")
MINUTE_US = 60_000_000


def tiles(visitor: Visitor) -> dict[str, tuple[int, str]]:
    """Return the number of each tile, and where it leads."""
    text = visitor.get("/").text
    found = re.findall(
        r'<a class="tile[^"]*" href="([^"]+)">.*?<b>([\d,]+)\+?</b>\s*<span>([^<]+)</span>',
        text,
        re.DOTALL,
    )
    return {label: (int(number.replace(",", "")), path) for path, number, label in found}


def rows(visitor: Visitor, path: str) -> int:
    """Return how many rows a list has, over all its pages."""
    count = 0
    while path:
        text = visitor.whole(path.replace("&amp;", "&"))
        count += len(re.findall(r'<tr id="(?:r-|side-|d-)', text))
        found = re.search(r'rel="next" href="([^"]+)"', text)
        path = found[1] if found else ""
    return count


def test_each_tile_leads_to_just_what_it_counts(school):
    """The number is the length of the list behind it."""
    found = tiles(school)
    lists = {label: path for label, (_, path) in found.items() if path.startswith("/runs")}
    counted = {label: rows(school, path) for label, path in lists.items()}

    assert {"In doubt", "Dead", "Retrying", "Begin late", "Stuck", "Overlapping"} <= set(found)
    counted.pop("Backfill left", None)
    assert {label: number for label, (number, _) in found.items() if label in counted} == counted
    assert all(counted[label] for label in ("Dead", "Retrying", "Begin late"))


def test_stale_work_is_told_beside_triggers_that_are_well(school):
    """A schedule that fires on time and brings nothing about is named by the one tile only."""
    found = tiles(school)
    stale = school.whole("/?show=stale")

    assert 0 == found["Overdue"][0]
    assert found["Stale work"][0] == rows(school, "/?show=stale")
    assert "broken-import" in stale.partition('id="sides"')[2]
    assert "attendance-sync" not in stale.partition('id="sides"')[2].partition("</table>")[0]
    assert "all is well in this respect" in school.whole("/?show=late")


def test_the_tile_of_stale_work_counts_what_its_list_holds_in_another_tenant(school):
    """The lights are of all, for who sees all; the tile is of the tenant looked at."""
    school.get("/?tenant=elsewhere")
    empty = tiles(school)
    school.get("/?tenant=default")

    assert 0 == empty["Stale work"][0]
    assert tiles(school)["Stale work"][0]


def test_the_three_last_times_stand_side_by_side_with_age_and_cadence(school):
    """Triggered, finished, useful; of a task with a check useful is verified."""
    row = school.whole("/").partition('id="sides"')[2]
    row = row.partition(">nightly-report</a>")[2].partition("</tr>")[0]

    assert "2026-04-03T00:00:00.000Z" in row.partition("Last triggered")[2].partition("</td>")[0]
    assert "verified" in row
    assert "0.0 \N{MULTIPLICATION SIGN} 1 d" in " ".join(row.split())


def test_stuck_is_what_breathes_and_does_not_advance():
    """A heart that beats says nothing about the work."""
    clock = ManualClock(to_microseconds(NOW))
    store = MemoryStore(clock)
    store.register_policies({"remind": TaskPolicy(stall_us=MINUTE_US)})
    with duly.App(store=store, clock=clock) as app, Visitor(app, clock=clock) as visitor:
        work.queue(store)
        worker = work.join_worker(store, ttl_us=60 * MINUTE_US)
        claimed = work.take_one(store, worker)
        store.report(worker, [Report(hold=claimed.hold, started_at=clock.now_us())])
        store.report(worker, [Report(hold=claimed.hold, progress=Progress(3, 40))])
        visitor.enter()
        before = tiles(visitor)["Stuck"][0]
        clock.advance(MINUTE_US + 1)
        number, path = tiles(visitor)["Stuck"]
        listed = visitor.get(path).text
        text = visitor.get(f"/runs/{UUID(bytes=claimed.record.id)}").text
        fleet = visitor.get("/fleet").text
        clock.advance(40 * MINUTE_US)
        silent = visitor.get(f"/runs/{UUID(bytes=claimed.record.id)}").text
        silent_fleet = visitor.get("/fleet").text

    assert (0, 1) == (before, number)
    assert ">remind</a>" in listed
    part = text.partition('id="holding"')[2].partition("</section>")[0]
    heartbeat, progress = part.split("<h3>Progress</h3>")
    assert "fresh" in heartbeat
    assert "stalled" in progress
    assert "3 of 40" in progress
    assert "Its worker is heard of." in heartbeat
    assert ("stalled" in fleet, "heartbeat stale" in fleet) == (True, False)
    heartbeat = silent.partition('id="holding"')[2].partition("<h3>Progress</h3>")[0]
    assert "heartbeat stale" in heartbeat
    assert "Its worker has missed heartbeats." in heartbeat
    assert "heartbeat stale" in silent_fleet


def test_what_nobody_fires_is_missing_and_its_trigger_overdue():
    """An hour without a dispatcher; the work that was done is not blamed for it."""
    clock = ManualClock(to_microseconds(NOW))
    with (
        duly.App(store=MemoryStore(clock), clock=clock) as app,
        Visitor(app, clock=clock) as visitor,
    ):

        @app.task
        def report() -> None: ...

        app.schedules.create("hourly", report, every("1h"))
        before = tiles(visitor.enter())
        clock.advance(65 * MINUTE_US)
        after = tiles(visitor)
        text = visitor.whole("/?show=late")

    assert (0, 0) == (before["Missing"][0], before["Overdue"][0])
    assert (1, 1) == (after["Missing"][0], after["Overdue"][0])
    assert "due for 5 min" in text


def test_overlapping_are_runs_of_one_schedule_side_by_side(visitor):
    """One that runs alone does not overlap."""
    app = visitor.app
    app.queues.pause("default")
    made = [app.schedules.trigger("hourly", overlap="allow") for _ in range(2)]
    app.enqueue(app.call("report"))
    app.queues.resume("default")
    worker = work.join_worker(app.store, tasks=("report",), ttl_us=10**12)

    assert 3 == len(work.take(app.store, worker))
    text = visitor.get("/runs?only=overlapping").text
    assert {str(one.id) for one in made} == set(re.findall(r'<tr id="r-([\w-]+)"', text))


def test_the_timeline_has_a_lane_for_each_schedule_and_a_table(school):
    """Past and future, and the same for who can't see it."""
    text = school.whole("/?span=2d")
    lanes = text.partition('id="timeline"')[2]
    table = text.partition('id="timeline-table"')[2].partition("</table>")[0]

    for name in ("attendance-sync", "fees", "nightly-report"):
        assert f'aria-label="{name}"' in lanes
        assert name in table
    assert "17 dead" in table
    assert 'class="now"' in lanes
    assert 'class="coming"' in lanes


def test_a_lane_of_many_runs_is_drawn_in_columns(school):
    """What stands too close is put together, and stays small."""
    text = school.whole("/?span=2d")
    lane = text.partition('aria-label="attendance-sync"')[2].partition("</svg>\n</div>")[0]

    assert lane.count("<rect") <= EACH_MAX
    assert "runs</title>" in lane


def test_the_part_of_the_timeline_that_a_paused_schedule_skips_is_marked():
    """What was expected and not run is seen as skipped."""
    app = duly.App("memory:")

    @app.task
    def report() -> None: ...

    with virtual_time(app, "2026-04-03T02:00") as clock, Visitor(app) as visitor:
        app.schedules.create("hourly", report, every("1h"))
        clock.advance("2h")
        app.schedules.pause("hourly", reason="so")
        clock.advance("3h")
        app.schedules.resume("hourly", missed="skip")
        clock.advance("1h")
        text = visitor.enter().whole("/")

    assert "3 skipped" in text.partition('id="timeline-table"')[2]
    assert 3 == text.partition('id="timeline"')[2].count("<title>skipped</title>")


def test_lateness_is_told_in_three_numbers_and_a_drawing(school):
    """Begun and useful after due, of all and by schedule."""
    text = school.whole("/")
    of_one = school.whole("/?of=canteen-order")

    assert "99 of 100 within" in text
    assert "Lateness of canteen-order" in of_one
    table = text.partition("By schedule, and as a table")[2]
    assert "all of default" in table
    assert ">canteen-order</a>" in table
    assert 404 == school.get("/overview/lateness?of=nobody").status_code


def test_queues_say_how_long_the_oldest_has_waited(school):
    """Not only how many wait."""
    part = school.get("/").text.partition('id="queues-title"')[2]
    row = part.partition(">mail</a>")[2].partition("</tr>")[0]

    assert "3 min ago" in row
    assert "mail server moves" in row


def schedules_of(*timetables: duly.Timetable) -> list[duly.Schedule]:
    app = duly.App("memory:")

    @app.task
    def report() -> None: ...

    return [
        app.schedules.create(f"s{number:02d}", report, one) for number, one in enumerate(timetables)
    ]


def test_planned_load_finds_the_herd_and_says_where_there_is_room():
    """Five at nine o'clock, and minutes of that hour that are free."""
    nine = [cron("0 9 * * *", tz="Europe/Paris")] * 5
    found = plan_load(
        schedules_of(*nine, cron("7 9 * * *", tz="Europe/Paris")),
        NOW,
        TimeFormatter("mine", "Europe/Paris"),
        is_cut=False,
    )

    assert found.most is not None
    assert found.herd is not None
    assert (9, 6, 5) == (found.most.hour, found.most.count, found.most.level)
    assert (5, moment("2026-04-04T07:00Z")) == (found.herd.count, found.herd.at)
    assert 7 not in found.herd.quiet_minutes
    assert 23 in found.herd.quiet_minutes
    assert 7 * 6 == found.total


def test_planned_load_stays_bounded_however_often_a_schedule_fires():
    """An hour of a schedule counts so many at the most, and all of them so many work."""
    often = cron("*/20 * 9-17 * * *", tz="UTC")
    found = plan_load(schedules_of(*[often] * 10), NOW, TimeFormatter("mine", "UTC"), is_cut=False)

    assert found.left_out
    assert 10 == found.left_out + found.counted
    assert 0 < found.total <= STEPS_MAX
    assert found.most is not None
    assert found.counted * PER_HOUR_MAX == found.most.count
    assert moment("2026-04-03T11:00Z") == found.rows[0][1][11].at


def test_nothing_hostile_is_more_than_a_text(school):
    """In names, errors, payloads and evidence, on every page that shows them."""
    runs = school.app.runs.list(schedule=HOSTILE, limit=1)
    checked = school.app.runs.list(schedule="nightly-report")[-1]
    paths = ["/", "/runs", "/schedules", "/health", "/?show=stale"]
    for path in [*paths, f"/runs/{runs[0].id}", f"/runs/{checked.id}"]:
        text = school.whole(path)

        assert "alert(1)" in text or path == "/health", path
        assert "<img src=x" not in text, path
        assert "<script>alert" not in text, path
        assert "{{7*7}}" in text or path == "/health", path


def test_what_is_dear_is_computed_once_for_several_who_look(school, monkeypatch):
    """The drawing of load is kept for a minute, of each tenant its own."""
    from duly.web.pages import overview

    asked: list[object] = []

    def counted(*args: Any, **terms: Any) -> object:
        asked.append(args)
        return plan_load(*args, **terms)

    monkeypatch.setattr(overview, "plan_load", counted)
    school.get("/overview/load?tenant=elsewhere")
    school.get("/overview/load?tenant=elsewhere")
    school.get("/overview/load?tenant=default")

    assert len(asked) <= 2


def test_one_run_is_not_halved():
    """The sentence under the drawing speaks of as many runs as there are."""
    one = lateness_sentence(Lateness(runs=1, p50=2_000_000, p95=2_000_000, p99=2_000_000))
    more = lateness_sentence(Lateness(runs=1200, p50=2_000_000, p95=3_000_000, p99=60_000_000))

    assert "The one run that has begun did so within 2 s of its due." == one
    assert "Half of 1,200 runs began within 2 s of their due, 99 of 100 within 1 min." == more


def test_what_fires_all_the_time_is_named_and_hides_nothing():
    """Beside one of every second, the one at nine is the fullest hour."""
    found = plan_load(
        schedules_of(
            every("1s"), cron("* * * * *", tz="UTC"), cron("0 9 * * *", tz="UTC"), every("30m")
        ),
        NOW,
        TimeFormatter("mine", "UTC"),
        is_cut=False,
    )

    assert ("s00", "s01") == found.steady
    assert found.most is not None
    assert (9, 3) == (found.most.hour, found.most.count)
    assert (2, 0) == (found.counted, found.left_out)
    assert not found.has_capped


def test_an_hour_that_has_more_than_is_counted_says_so_and_at_what():
    """A plus in the cell, and a word for it; no other hour has one."""
    dense = cron("*/30 * 9 * * *", tz="UTC")
    found = plan_load(schedules_of(dense), NOW, TimeFormatter("mine", "UTC"), is_cut=False)
    cells = {cell.hour: cell for cell in found.rows[0][1]}

    assert ("60+", "") == (cells[9].text, cells[10].text)
    assert {9} == {hour for hour, cell in cells.items() if cell.is_capped}


def test_an_hour_that_is_just_full_is_not_cut():
    """Sixty are sixty."""
    minutely = cron("* 9 * * *", tz="UTC")
    found = plan_load(schedules_of(minutely), NOW, TimeFormatter("mine", "UTC"), is_cut=False)

    assert ("60", False) == (found.rows[0][1][9].text, found.has_capped)


@pytest.mark.parametrize(
    ("most", "levels"),
    [
        (1, ["1"]),
        (3, ["1", "2", "3"]),
        (5, ["1", "2", "3", "4", "5"]),
        (20, ["1 to 4", "5 to 8", "9 to 12", "13 to 16", "17 to 20"]),
    ],
)
def test_the_legend_of_the_load_says_what_each_shade_stands_for(most, levels):
    """Every number has a shade, and every shade that is drawn its words."""
    at_nine = [cron(f"{minute} 9 * * *", tz="UTC") for minute in range(most)]
    also = [cron(f"{minute} {hour} * * *", tz="UTC") for hour, minute in ((10, 1), (11, 2))]
    found = plan_load(
        schedules_of(*at_nine, *also), NOW, TimeFormatter("mine", "UTC"), is_cut=False
    )
    drawn = {cell.level for _, row in found.rows for cell in row if cell.count}

    assert levels == [words for _, words in found.levels]
    assert drawn <= {level for level, _ in found.levels}


def test_what_every_hour_has_does_not_hide_what_some_have_more():
    """The quietest hour is pale, the fullest dark, however many both have."""
    hourly = [cron(f"{minute} * * * *", tz="UTC") for minute in range(6)]
    also = [cron("30 9 * * *", tz="UTC"), cron("40 9 * * *", tz="UTC")]
    found = plan_load(schedules_of(*hourly, *also), NOW, TimeFormatter("mine", "UTC"), is_cut=False)
    row = found.rows[0][1]

    assert ((6, 2), (8, 5)) == ((row[8].count, row[8].level), (row[9].count, row[9].level))
    assert ["6", "7", "8"] == [words for _, words in found.levels]


@pytest.mark.parametrize(
    ("now", "changed", "hours", "of_two"),
    [
        ("2026-10-23T10:00Z", date(2026, 10, 25), 25, 2),
        ("2026-10-25T21:00Z", date(2026, 10, 25), 25, 2),
        ("2026-03-27T10:00Z", date(2026, 3, 29), 23, 0),
        ("2026-03-29T21:00Z", date(2026, 3, 29), 23, 0),
    ],
)
def test_days_and_hours_of_the_load_are_those_of_the_clock_also_when_it_changes(
    now, changed, hours, of_two
):
    """Nine o'clock is at nine all week, and no day is told twice."""
    berlin = "Europe/Berlin"
    at_nine = [cron("0 9 * * *", tz=berlin)] * 3
    found = plan_load(
        schedules_of(every("1h"), *at_nine),
        moment(now),
        TimeFormatter("mine", berlin),
        is_cut=False,
    )
    first, by_day = found.rows[0][0], dict(found.rows)

    assert [first + timedelta(days=day) for day in range(7)] == list(by_day)
    assert {9} == {cell.hour for row in by_day.values() for cell in row if cell.count >= 4}
    assert hours == sum(cell.count for cell in by_day[changed]) - 3
    assert of_two == by_day[changed][2].count
    assert moment(now) >= min(cell.at for cell in found.rows[0][1] if cell.at)


def test_free_minutes_are_those_of_the_visitors_clock():
    """Where clocks are half an hour off, as well."""
    taken = [cron("7 9 * * *", tz="Asia/Kolkata")] * 3
    found = plan_load(
        schedules_of(*taken), NOW, TimeFormatter("mine", "Asia/Kolkata"), is_cut=False
    )

    assert found.herd is not None
    assert (23, 37, 52) == found.herd.quiet_minutes


def test_what_is_too_much_to_count_is_not_called_nothing():
    """A schedule that fires every 61 seconds promises much."""
    app = duly.App("memory:")

    @app.task
    def report() -> None: ...

    app.schedules.create("often", report, every("61s"))
    with Visitor(app) as visitor:
        text = " ".join(visitor.enter().get("/overview/load").text.split())

    assert "Nothing is drawn. Not counted, because there is too much: 1 that fires" in text
    assert "No active schedule promises" not in text


def test_the_load_is_a_table_with_its_numbers_and_a_legend_in_words(school):
    """Nothing of it is told by a colour alone."""
    part = school.get("/overview/load", headers={"HX-Request": "true"}).text
    cells = re.findall(r'<td role="cell" class="level-(\d)( peak)?">([^<]*)</td>', part)
    legend = part.partition("heat-legend")[2].partition("</ul>")[0]

    assert 7 * 24 == len(cells)
    assert all((level == "0") == (text == "") for level, _, text in cells)
    assert 1 == sum(bool(peak) for _, peak, _ in cells)
    assert "the fullest hour" in legend
    assert {level for level, *_ in cells} - {"0"} <= set(re.findall(r"swatch level-(\d)", legend))
