"""What pages say: two lights, times with zones, states by word, and errors with a remedy."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from duly import cron
from duly.app.demo_controls import DemoState, KilledWorker
from duly.domain.enums import RunState
from duly.web.formatting import MARKS, RUN_STATES, TimeFormatter, relative
from duly.web.rendering import PageContext
from tests.timetable.instants import moment

NOON = moment("2026-04-03T12:00Z")


def test_the_two_lights_are_never_one(visitor):
    """Work in doubt leaves the control plane as it is."""
    text = visitor.get("/health").text

    assert 'id="dispatch"' in text
    assert "in doubt until a person decides" in text.partition('id="work"')[2]


def test_every_state_of_a_run_has_its_own_word_and_shape():
    """None is told by its colour, and what is unknown is not shown as failed."""
    marks = [MARKS[state] for state in RUN_STATES]

    assert {str(state) for state in RunState} == set(RUN_STATES)
    assert len(marks) == len({mark.icon for mark in marks})
    assert "doubt" == MARKS["ambiguous"].tone == MARKS["unknown"].tone != MARKS["failed"].tone


@pytest.mark.parametrize(
    ("choice", "own", "clock", "zone"),
    [
        ("schedule", "Asia/Tokyo", "21:00:00", "JST"),
        ("schedule", "Asia/Kolkata", "17:30:00", "IST"),
        ("schedule", "Asia/Kathmandu", "17:45:00", "UTC+05:45"),
        ("schedule", "Etc/UTC", "12:00:00", "UTC"),
        ("mine", "Asia/Tokyo", "14:00:00", "CEST"),
        ("utc", "Asia/Tokyo", "12:00:00", "UTC"),
    ],
)
def test_a_time_is_shown_on_the_clock_that_was_chosen(choice, own, clock, zone):
    """In the schedule's zone, mine, or UTC; and it says which."""
    shown = TimeFormatter(choice, "Europe/Paris").moment(NOON, NOON, own)

    assert (clock, zone, "now") == (shown.clock, shown.zone, shown.relative)


def test_instants_in_a_sentence_are_shown_on_the_clock_that_was_chosen():
    """What the engine says in UTC; names and what only looks like an instant stay."""
    clocks = TimeFormatter("schedule", "Europe/Paris")
    here = PageContext(root="", path="/", query=(), now=NOON, clocks=clocks)
    said = "due 2026-04-03T10:00:00Z as hourly@2026-04-03T10:00Z, not 2026-99-99T10:00Z"

    assert (
        "due Fri 3 Apr 19:00:00 JST as hourly@2026-04-03T10:00Z, not 2026-99-99T10:00Z"
        == here.spoken(said, "Asia/Tokyo")
    )


def test_a_time_says_how_far_it_is():
    """Relative beside absolute."""
    assert "in 3 min" == relative(moment("2026-04-03T12:03Z"), NOON)
    assert "2 h 5 min ago" == relative(moment("2026-04-03T09:55Z"), NOON)


@pytest.mark.parametrize(("path", "status", "said"), [
    ("/runs?state=nonsense", 422, "nonsense"),
    ("/runs?unheard=of", 422, "unheard"),
    ("/runs?cursor=abc", 422, "cursor"),
    ("/runs/nothing", 404, "nothing"),
    ("/nowhere", 404, "no such page"),
])  # fmt: skip
def test_what_is_wrong_is_said_with_its_remedy(visitor, path, status, said):
    """One clear error with field, value, remedy and code."""
    answer = visitor.get(path)

    assert status == answer.status_code
    assert said in answer.text
    assert "What to do" in answer.text


def test_what_a_name_holds_is_text_and_nothing_else(visitor):
    """A schedule's name can't be markup."""
    call = visitor.app.call("report")
    import duly

    visitor.app.schedules.create("<script>alert(1)</script>", call, duly.every("1h"))
    text = visitor.get("/schedules").text

    assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in text


def test_a_stale_order_is_refused(visitor):
    """Who acts on what they saw is told when it is no longer so."""
    seen = visitor.app.schedules.get("hourly")
    visitor.app.schedules.pause("hourly", reason="first")
    answer = visitor.post(f"/schedules/{seen.id}/resume", {"version": str(seen.version)})

    assert 412 == answer.status_code
    assert "paused" == visitor.app.schedules.get("hourly").status


def test_an_order_is_in_the_trail_with_who_and_from_where(visitor):
    """The console is a source of its own."""
    seen = visitor.app.schedules.get("hourly")
    visitor.post(f"/schedules/{seen.id}/pause", {"reason": "because"})
    last = visitor.app.audit.page(limit=1).items[0]

    assert ("anna", "console", "because") == (last.actor, last.source, last.reason)


def test_lists_stay_light(visitor):
    """A page of a list is under 150 kB."""
    call = visitor.app.call("report")
    visitor.app.enqueue_many([call] * 60)

    assert len(visitor.get("/runs").content) < 150_000


def test_below_a_prefix_every_address_follows(visitor):
    """Mounted in somebody's application."""
    from starlette.applications import Starlette
    from starlette.routing import Mount

    from duly.web import Console
    from tests.api.api_client import Asker

    mounted = Starlette(routes=[Mount("/ops/duly", app=Console(visitor.app))])
    cookie = f"duly_session={visitor.secret}"
    with Asker(mounted, {"Cookie": cookie}) as asker:
        text = asker.get("http://localhost/ops/duly/schedules").text

    assert 'href="/ops/duly/runs"' in text
    assert 'src="/ops/duly/static/' in text
    assert 'href="/runs' not in text


class Standing:
    """Controls of a demo that stands where it is told."""

    def __init__(self, state):
        self._state = state

    def state(self):
        """Say where it stands."""
        return self._state


@pytest.mark.parametrize("is_killed", [False, True])
def test_the_walk_says_what_is_done_and_leads_to_the_day_that_clocks_change(visitor, is_killed):
    """Not the list, but the schedule's own page, on the schedule's own clock."""
    rule = cron("30 2 * * *", tz="Europe/Berlin")
    visitor.app.schedules.create("nightly report", visitor.app.call("report"), rule)
    run = visitor.app.runs.list(limit=1)[0].id
    visitor.app.demo = Standing(
        DemoState(
            payments="payments",
            victim=None,
            in_doubt=(),
            clock_change="nightly report",
            clock_changes_at=datetime(2026, 10, 25, 1, tzinfo=UTC),
            clock_change_zone="Europe/Berlin",
            killed=KilledWorker(worker=7, process=1, run=run) if is_killed else None,
        )
    )
    walk = visitor.get("/").text.partition('id="walk"')[2].partition("</section>")[0]
    to = "/schedules/nightly%20report"

    assert is_killed == ("Done: worker 7 was killed" in walk)
    assert is_killed == ("Between two payments" not in walk)
    assert f'href="{to}#clocks"' in walk
    assert "Sun 25 Oct" in walk
    assert "02:00:00 <abbr>CET" in walk
    assert 'id="clocks"' in visitor.get(to).text


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/runs/nothing", "/runs"),
        ("/runs/019d4f00-0000-7000-8000-000000000000", "/runs"),
        ("/schedules/nothing", "/schedules"),
        ("/nowhere", "/"),
    ],
)
def test_what_is_not_there_is_said_in_plain_words_with_a_way_on(visitor, path, place):
    """No calls of a library, no paths of an API."""
    answer = visitor.get(path)

    assert 404 == answer.status_code
    assert "There is no " in answer.text
    assert f'href="{place}"' in answer.text
    assert "app." not in answer.text
    assert "openapi" not in answer.text


def test_a_run_in_doubt_leads_to_its_decision(visitor):
    """Beside the command there is the page."""
    [run] = visitor.app.runs.list(state="ambiguous", limit=1)
    why = visitor.get(f"/runs/{run.id}").text.partition('id="why"')[2].partition("</section>")[0]

    assert f"<code>duly inbox {run.id}" in why
    assert f'href="/inbox/{run.id}"' in why
