"""Schedules in the console without a browser: the list, the page of one, and orders about them."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from html import unescape

import pytest

from duly import cron, every
from duly.api.views import Occurrence
from duly.web.charts import run_calendar
from duly.web.formatting import MARKS
from duly.web.pages.schedule import effective_policies, explain_next, ledger_row
from duly.web.pages.schedules import PAGE_SIZE
from duly.web.requests import write_chosen, write_one
from tests.web.test_editor import text_of


def make(visitor, name="nightly", timetable=None, **policies):
    """Make a schedule of somebody's."""
    rule = timetable or cron("30 2 * * *", tz="Europe/Berlin")
    return visitor.app.schedules.create(name, visitor.app.call("report"), rule, **policies)


def test_a_row_says_what_it_promises_and_how_it_goes(visitor):
    """Rule and zone, next three, last result, strip, policies; all in words as well."""
    told = text_of(visitor.get("/schedules"))
    page = visitor.get("/schedules").text

    assert "every hour" in told
    assert 3 == len(re.findall(r"Fri 3 Apr 0[567]:00(?::00)? ", told))
    assert "succeeded" in told
    assert "overlap skip" in told
    assert "catch-up latest, up to 1d" in told
    assert re.search(r'role="img" aria-label="Last \d+ runs: \d+ succeeded', page)
    assert "run time ÷ interval" in told


def test_a_skipped_occurrence_is_the_last_result_with_its_reason(visitor):
    """What was skipped, and why, stands in the row."""
    schedule = visitor.app.schedules.get("hourly")
    visitor.app.schedules.skip_next("hourly", reason="by hand")
    visitor.clock.advance("61m")
    row = text_of(visitor.get("/schedules")).partition("hourly")[2]

    assert re.search(r"skipped by hand Fri 3 Apr 05:00", row)
    assert "skipped by hand" in text_of(visitor.get(f"/schedules/{schedule.id}"))


def test_a_schedule_says_that_its_owner_is_gone(visitor):
    """On its page, in the words in which it was paused."""
    make(visitor, "hers", owner="zoe")
    visitor.app.owners.gone("zoe", reason="left")
    schedule = visitor.app.schedules.get("hers")

    said = "its owner is gone: 'zoe' (left)"
    assert said in text_of(visitor.get(f"/schedules/{schedule.id}"))


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("status=paused", ["b-two"]),
        ("search=a-", ["a-one"]),
        ("owner=zoe", ["a-one"]),
        ("task=report", ["a-one", "b-two", "hourly"]),
        ("task=nothing", []),
    ],
)
def test_every_filter_stands_in_the_address(visitor, query, names):
    """What is seen can be sent to somebody else."""
    make(visitor, "a-one", owner="zoe")
    make(visitor, "b-two")
    visitor.app.schedules.pause("b-two", reason="so")
    page = visitor.get(f"/schedules?{query}").text

    assert names == re.findall(r'<th scope="row">\s*<a [^>]*>([\w-]+)</a>', page)


def test_a_full_page_stays_light(visitor):
    """A page of rows with their strips is under 150 kB."""
    for number in range(45):
        make(visitor, f"a-schedule-with-a-long-name-{number:02}")
        visitor.app.schedules.trigger(f"a-schedule-with-a-long-name-{number:02}")
    answer = visitor.get("/schedules")

    assert PAGE_SIZE == answer.text.count('name="chosen"')
    assert len(answer.content) < 150_000


def test_one_that_was_just_made_stands_first(visitor):
    """The row appears, whatever page it belongs to."""
    made = make(visitor, "zz-last")
    page = visitor.get(f"/schedules?made={made.id}").text

    assert page.index("zz-last") < page.index("hourly")
    assert 1 == page.count(f'id="s-{made.id}"')


def test_the_ledger_has_a_row_for_every_expected_occurrence(visitor):
    """What ran, what was skipped and why, and what is expected; none twice, none missing."""
    schedule = visitor.app.schedules.get("hourly")
    visitor.app.schedules.pause("hourly", reason="so")
    visitor.app.schedules.resume("hourly")
    visitor.app.schedules.skip_next("hourly")
    page = visitor.get(f"/schedules/{schedule.id}").text
    ledger = page.partition('id="ledger"')[2].partition("</table>")[0]
    rows = re.findall(r'datetime="([^"]+)".*?<span>(\w+)</span>', ledger, re.DOTALL)

    assert len(rows) == len({at for at, _ in rows})
    assert {"verified", "skipped", "expected"} == {state for _, state in rows}
    assert 5 == [state for _, state in rows].count("expected") + [s for _, s in rows].count(
        "skipped"
    )


def test_the_ledger_is_turned_page_by_page_without_a_hole(visitor):
    """The pages together hold every expected occurrence once."""
    made = make(visitor, "minutely", every("1m"))
    visitor.clock.advance("70m")
    path, seen = f"/schedules/{made.id}", []
    for _ in range(5):
        page = visitor.get(path).text
        ledger = page.partition('id="ledger"')[2].partition("</table>")[0]
        seen += re.findall(r'datetime="([^"]+)"', ledger)
        earlier = re.search(r'rel="next" href="([^"]+)"', page)
        if earlier is None:
            break
        path = unescape(earlier[1])

    assert len(seen) == len(set(seen))
    assert 70 + 5 == len(seen)
    assert seen == sorted(seen, reverse=True)


def test_what_is_no_instant_is_refused(visitor):
    """In the address, too."""
    made = make(visitor)

    assert 422 == visitor.get(f"/schedules/{made.id}?until=soon").status_code
    assert 422 == visitor.get(f"/schedules/{made.id}?until=2026-04-03").status_code


@pytest.mark.parametrize(
    ("verdict", "reason", "parts", "state"),
    [
        ("pending", None, None, "due"),
        ("owed", None, None, "owed"),
        ("unknown", None, None, "unknown"),
        ("missing", None, None, "missing"),
        ("skipped", "paused", None, "skipped"),
        ("skipped", "coalesced", {}, "coalesced"),
        ("run", None, {"state": "blocked", "fired_at": None}, "materialised"),
        ("run", None, {"state": "queued"}, "dispatched"),
        ("run", None, {"state": "running", "started_at": None}, "claimed"),
        ("run", None, {"state": "running"}, "running"),
        ("run", None, {"state": "retrying"}, "retrying"),
        ("run", None, {"state": "ambiguous"}, "ambiguous"),
        ("run", None, {"state": "dead"}, "failed"),
        ("run", None, {"state": "failed"}, "failed"),
        ("run", None, {"state": "succeeded"}, "succeeded"),
        ("run", None, {"state": "cancelled"}, "cancelled"),
    ],
)
def test_each_occurrence_has_its_own_word(visitor, verdict, reason, parts, state):
    """What is unknown is not missing, and what is not over has not failed."""
    run = visitor.app.runs.list(schedule="hourly")[0]
    shown = replace(run, **(parts or {}))
    one = Occurrence(
        scheduled_for=run.scheduled_for,
        label=run.label,
        verdict=verdict,
        run=None if parts is None else run.id,
        reason=reason,
    )
    row = ledger_row(one, {run.id: shown}, {}, run.created_at + timedelta(hours=1))

    assert (state, reason) == (row.state, row.why if verdict == "skipped" else reason)
    assert row.into == (parts is not None and verdict != "run")
    assert state in MARKS


def test_a_rule_that_was_denser_before_an_edit_is_shown_as_far_as_it_goes(visitor):
    """A window of months does not list a million minutes."""
    made = make(visitor, "dense", every("1s"))
    visitor.app.schedules.edit(made.id, timetable=cron("0 0 1 1 *"))

    assert 200 == visitor.get(f"/schedules/{made.id}").status_code


def test_policies_that_nobody_chose_are_shown_as_defaults(visitor):
    """ "catch-up latest (default)", and what was chosen without it."""
    made = make(visitor, overlap="allow")
    found = {one.label: (one.value, one.is_default) for one in effective_policies(made)}

    assert ("latest", True) == found["Catch-up"]
    assert ("1d", True) == found["Catch-up, not older than"]
    assert ("allow", False) == found["Overlap"]
    assert ("next", True) == found["Time that does not exist"]
    assert "Catch-up latest (default)" in text_of(visitor.get(f"/schedules/{made.id}"))


def test_the_page_explains_the_next_run_and_the_night_of_the_clock_change(visitor):
    """Why at that instant, and what DST does to it."""
    made = make(visitor)
    told = text_of(visitor.get(f"/schedules/{made.id}"))

    assert "Its next occurrence is Sat 4 Apr 02:30:00 CEST (00:30:00 UTC)." in told
    assert "clocks in Europe/Berlin go back from 03:00 to 02:00" in told
    assert "02:30 does not exist that day" in told


def test_a_spread_and_a_skip_are_part_of_the_explanation(visitor):
    """Each step that moved the instant is said."""
    make(visitor, "spread", jitter="30m")
    visitor.app.schedules.skip_next("spread")
    now = visitor.app.schedules.get("hourly").next_for - timedelta(minutes=30)
    told = " ".join(explain_next(visitor.app.schedules.get("spread"), now))

    assert "was skipped by hand" in told
    assert "always the same" in told


def test_the_history_shows_before_and_after_and_offers_to_take_it_back(visitor):
    """Who, when, why, and each field."""
    made = make(visitor)
    visitor.app.schedules.edit(made.id, overlap="allow", reason="because")
    page = visitor.get(f"/schedules/{made.id}")

    assert "edited because Overlap skip → allow" in text_of(page)
    assert f'action="/schedules/{made.id}/revert"' in page.text


def test_a_viewer_is_offered_no_orders(visitor):
    """What one may not do is not shown."""
    made = make(visitor)
    orders = {f"/schedules/{made.id}/pause", f"/schedules/{made.id}/trigger", 'name="chosen"'}
    paths = ("/schedules", f"/schedules/{made.id}")
    offered = "".join(visitor.get(path).text for path in paths)
    visitor.enter("viewer")
    pages = [visitor.get(path) for path in paths]

    assert orders == {one for one in orders if one in offered}
    assert [200, 200] == [page.status_code for page in pages]
    assert [True, True] == [made.name in page.text for page in pages]
    assert set() == {one for one in orders for page in pages if one in page.text}


def test_a_pause_ends_by_itself_at_a_time_on_the_viewers_own_clock(visitor):
    """Until when, in the zone that the browser has told."""
    made = make(visitor)
    headers = {"Cookie": f"duly_zone=Asia/Tokyo;duly_session={visitor.secret}"}
    fields = {"reason": "so", "until": "2026-04-10T09:00"}
    visitor.post(f"/schedules/{made.id}/pause", fields, headers=headers)
    found = visitor.app.schedules.get(made.id)

    assert ("paused", "so") == (found.status, found.reason)
    assert "2026-04-10T00:00:00+00:00" == found.resume_at.isoformat()


@pytest.mark.parametrize(
    ("typed", "meant", "told"),
    [
        ("2026-04-10T09:00", "2026-04-10T07:00:00+00:00", "until Fri 10 Apr 09:00 CEST"),
        ("2026-04-10T09:00Z", "2026-04-10T09:00:00+00:00", "until Fri 10 Apr 11:00 CEST"),
        ("tomorrow 9am", "2026-04-04T07:00:00+00:00", "until Sat 4 Apr 09:00 CEST"),
    ],
)
def test_a_pause_takes_the_words_of_the_command_line(visitor, typed, meant, told):
    """The schedule's clock where no browser has told another; it says until when."""
    made = make(visitor)
    asked = text_of(visitor.post(f"/schedules/{made.id}/pause", {}))
    visitor.post(f"/schedules/{made.id}/pause", {"reason": "so", "until": typed})

    assert "in Europe/Berlin unless it has an offset" in asked
    assert meant == visitor.app.schedules.get(made.id).resume_at.isoformat()
    assert f"is paused {told}" in visitor.said()


def test_a_pause_until_a_word_that_is_none_says_which_there_are(visitor):
    """In people's words, with the zone that is meant."""
    made = make(visitor)
    answer = visitor.post(f"/schedules/{made.id}/pause", {"reason": "so", "until": "some day"})

    assert 422 == answer.status_code
    assert "tomorrow 9am, +2d or -2h; without an offset it is meant in" in text_of(answer)
    assert "aware datetime" not in answer.text


def test_what_falls_into_a_pause_is_held_and_the_first_run_after_it_is_named(visitor):
    """Nothing in a pause looks as if it ran; what comes after it is expected."""
    made = make(visitor)
    visitor.app.schedules.pause(made.id, reason="so", until="2026-04-06T00:30:00Z")
    paused = visitor.app.schedules.get(made.id)
    page = text_of(visitor.get(f"/schedules/{made.id}"))
    ledger = page.partition("Every expected occurrence")[2].partition("Prove a day")[2]

    assert "2026-04-06T00:30:00+00:00" == paused.next_after_pause.isoformat()
    assert "Next after the pause: Mon 6 Apr 02:30:00 CEST" in page
    assert re.search(r"Sun 5 Apr 02:30:00 CEST in [^S]* held by a pause", ledger)
    assert re.search(r"Mon 6 Apr 02:30:00 CEST in [^S]* expected", ledger)

    visitor.app.schedules.pause(made.id, reason="so")

    assert visitor.app.schedules.get(made.id).next_after_pause is None
    assert "Next after the pause" not in text_of(visitor.get(f"/schedules/{made.id}"))


def test_a_pause_stops_what_is_open_when_that_is_asked(visitor):
    """Drain, or stop them; and it says how many. Where there are none, nothing is asked."""
    made = make(visitor)
    idle = text_of(visitor.post(f"/schedules/{made.id}/pause", {}))
    dialog = text_of(visitor.get(f"/schedules/{made.id}"))
    run = visitor.app.schedules.trigger(made.id)
    busy = text_of(visitor.post(f"/schedules/{made.id}/pause", {}))

    page = text_of(visitor.get(f"/schedules/{made.id}"))

    assert "Ask them to stop" in page
    assert "Ask them to stop" not in idle + dialog
    assert "1 run is active" in busy
    assert "Ask them to stop" in busy

    visitor.post(f"/schedules/{made.id}/pause", {"reason": "so", "active": "stop"})

    assert "cancelled" == visitor.app.runs.get(run.id).state
    assert "1 open runs are asked to stop" in visitor.said()


def test_a_pause_lets_what_is_open_end_unless_told(visitor):
    """New runs stop, and that is all."""
    made = make(visitor)
    run = visitor.app.schedules.trigger(made.id)
    visitor.post(f"/schedules/{made.id}/pause", {"reason": "so"})

    assert "queued" == visitor.app.runs.get(run.id).state


@pytest.mark.parametrize("verb", ["pause", "delete"])
def test_without_a_script_a_page_asks_for_the_reason_first(visitor, verb):
    """Nothing is done before, and what it does is said."""
    made = make(visitor)
    asked = visitor.post(f"/schedules/{made.id}/{verb}", {"version": str(made.version)})

    assert 200 == asked.status_code
    assert f"{verb.capitalize()} nightly?" in text_of(asked)
    assert "active" == visitor.app.schedules.get(made.id).status


@pytest.mark.parametrize("missed", ["skip", "misfire"])
def test_resuming_is_a_choice_about_what_was_missed(visitor, missed):
    """From now on, or by the misfire policy."""
    made = make(visitor)
    visitor.app.schedules.pause(made.id, reason="so")
    page = visitor.get(f"/schedules/{made.id}").text
    answer = visitor.post(f"/schedules/{made.id}/resume", {"missed": missed})

    assert f'name="missed" value="{missed}"' in page
    assert 303 == answer.status_code
    assert "active" == visitor.app.schedules.get(made.id).status


def test_a_deleted_schedule_says_until_when_it_can_be_restored(visitor):
    """Separate from a pause, and it comes back."""
    made = make(visitor)
    visitor.post(f"/schedules/{made.id}/delete", {"reason": "so", "version": str(made.version)})
    told = text_of(visitor.get(f"/schedules/{made.id}"))

    assert "can be restored until about Sun 3 May" in told
    assert "nightly" in text_of(visitor.get("/schedules?status=deleted"))

    visitor.post(f"/schedules/{made.id}/restore")

    assert "active" == visitor.app.schedules.get(made.id).status


def test_the_next_occurrence_is_skipped_on_record(visitor):
    """By whom and why."""
    made = make(visitor)
    visitor.post(f"/schedules/{made.id}/skip", {"reason": "holiday"})
    entry = visitor.app.schedules.history(made.id, limit=1)[0]

    assert ("anna", "console", "holiday") == (entry.actor, entry.source, entry.reason)
    assert made.next_for < visitor.app.schedules.get(made.id).next_for


def frozen(answer):
    """Return the set that a page has frozen."""
    return unescape(re.findall(r'name="chosen" value="([^"]*)"', answer.text)[0])


def test_an_order_about_many_touches_the_set_that_was_seen(visitor):
    """What was made or changed meanwhile is left alone, and that is told."""
    made = [make(visitor, f"many-{number}") for number in range(3)]
    fields = {"verb": "pause", "chosen": [write_chosen([one]) for one in made]}
    shown = visitor.post("/schedules/chosen", fields)
    make(visitor, "many-late")
    visitor.app.schedules.edit("many-1", overlap="allow")
    fields = {"chosen": frozen(shown), "reason": "migration", "until": "2026-04-10T09:00Z"}
    answer = visitor.post("/schedules/chosen/pause", fields)
    status = {one.name: one.status for one in visitor.app.schedules.list(name_prefix="many")}

    assert "Pause 3 schedules" in text_of(shown)
    assert 303 == answer.status_code
    assert {
        "many-0": "paused", "many-1": "active", "many-2": "paused", "many-late": "active",
    } == status  # fmt: skip
    assert (
        "2 schedules paused; 1 had changed meanwhile and were left alone: many-1" in visitor.said()
    )
    assert visitor.app.schedules.get("many-0").resume_at is not None


def test_an_order_about_many_is_taken_back_for_the_same_set(visitor):
    """Each as it was left, and no other."""
    made = [make(visitor, f"many-{number}") for number in range(2)]
    visitor.post("/schedules/chosen/pause", {"chosen": write_chosen(made), "reason": "so"})
    visitor.app.schedules.pause("hourly", reason="its own")
    chosen = re.findall(r'"chosen":"([^"]*)"', visitor.said())[0]
    visitor.post("/schedules/chosen/resume", {"chosen": chosen, "reason": "undone"})

    assert {"active"} == {one.status for one in visitor.app.schedules.list(name_prefix="many")}
    assert "paused" == visitor.app.schedules.get("hourly").status


def test_above_a_hundred_one_types_how_many(visitor):
    """The count is stated, and must be typed."""
    for number in range(101):
        make(visitor, f"many-{number:03}")
    shown = visitor.post("/schedules/chosen", {"verb": "pause", "all": "true", "search": "many"})
    fields = {"chosen": frozen(shown), "reason": "so"}
    refused = visitor.post("/schedules/chosen/pause", fields)

    assert "Type 101 to go on" in text_of(shown)
    assert 422 == refused.status_code
    assert not visitor.app.schedules.list(status="paused")
    assert 303 == visitor.post("/schedules/chosen/pause", fields | {"typed": "101"}).status_code
    assert 101 == len(visitor.app.schedules.list(status="paused"))


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/schedules/chosen", {"verb": "explode", "chosen": "x"}),
        ("/schedules/chosen", {"verb": "pause", "chosen": "nonsense"}),
        ("/schedules/chosen/pause", {"reason": "so"}),
        ("/schedules/chosen/pause", {"chosen": "nonsense", "reason": "so"}),
        ("/schedules/chosen/resume", {"chosen": "AAAA.1"}),
    ],
)
def test_a_set_that_is_none_is_refused(visitor, path, fields):
    """With a remedy, and nothing is done."""
    answer = visitor.post(path, fields)

    assert 422 == answer.status_code
    assert "What to do" in answer.text


def test_a_pause_of_many_needs_a_reason(visitor):
    """On record for each of them."""
    made = make(visitor)
    answer = visitor.post("/schedules/chosen/pause", {"chosen": write_chosen([made])})

    assert 422 == answer.status_code
    assert "active" == visitor.app.schedules.get(made.id).status


def test_of_another_tenant_none_can_be_chosen(visitor):
    """Their ids name nothing here."""
    theirs = visitor.app.within(tenant="theirs", actor="bea")
    secret = theirs.schedules.create("secret", theirs.call("report"), every("1h"))
    visitor.enter("admin", "ours")
    chosen = write_one(secret.id, secret.version)
    visitor.post("/schedules/chosen/pause", {"chosen": chosen, "reason": "so"})

    assert "active" == theirs.schedules.get("secret").status


def test_a_backfill_is_told_apart_in_the_calendar(visitor):
    """A ring, and words in the table beside it."""
    runs = visitor.app.runs.list(schedule="hourly")
    filled = replace(runs[0], lane="backfill", origin="backfill")
    calendar = run_calendar([filled, *runs[1:]], "UTC", runs[0].created_at)
    day = calendar.listed[0]

    assert 1 == day.backfills
    assert "by backfill or rerun" in day.words
