"""The list of runs: filters in the address, pages, and orders about the set that was seen."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.web.page_client import Visitor


def ids(text: str) -> list[str]:
    return re.findall(r'<tr id="r-([\w-]+)"', text)


def chosen(visitor: Visitor, fields: dict[str, object]) -> str:
    """Choose runs; return where they are shown."""
    answer = visitor.post("/runs/choose", fields)
    assert 303 == answer.status_code, answer.text
    return str(answer.headers["location"])


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        ("state=dead&state=retrying", {"state": ["dead", "retrying"]}),
        ("schedule=fees", {"schedule": "fees"}),
        ("task=remind&queue=mail", {"task": "remind", "queue": "mail"}),
        ("key=class-3", {"key": "class-3"}),
        ("error=mail+server", {"error": "mail server"}),
        ("origin=repair", {"origin": "repair"}),
        ("lane=live&since=2026-04-03T08:00Z&until=2026-04-03T09:00Z",
         {"since": "2026-04-03T08:00Z", "until": "2026-04-03T09:00Z", "lane": "live"}),
    ],
)  # fmt: skip
def test_every_filter_stands_in_the_address_and_in_the_form(school, query, terms):
    """What is shown can be sent to somebody else."""
    text = school.get(f"/runs?{query}").text
    wanted = school.app.runs.list(limit=50, **terms)

    assert wanted
    assert [str(one.id) for one in wanted] == ids(text)
    for name, value in terms.items():
        assert f'name="{name}"' in text
        assert str(value if isinstance(value, str) else value[0]) in text


def test_pages_follow_one_another_without_a_gap(school):
    """By a cursor, which keeps the filters."""
    path, seen = "/runs?schedule=attendance-sync", []
    while path:
        text = school.get(path.replace("&amp;", "&")).text
        seen += ids(text)
        found = re.search(r'rel="next" href="([^"]+)"', text)
        path = found[1] if found else ""

    assert [
        str(one.id) for one in school.app.runs.list(schedule="attendance-sync", limit=1000)
    ] == seen
    assert len(seen) > 100


def test_words_for_where_a_run_comes_from_are_never_mixed_up(school):
    """Retry, rerun, repair and manual have their own words."""
    words = {"repair": "repair rerun", "manual": "run by hand", "verify": "check of a result"}
    text = "".join(school.get(f"/runs?origin={origin}").text for origin in words)
    text += school.get("/runs?origin=schedule").text
    runs = [one for one in school.app.runs.list(limit=100_000) if f'id="r-{one.id}"' in text]

    assert {*words, "schedule"} == {one.origin for one in runs}
    for run in runs:
        row = text.partition(f'id="r-{run.id}"')[2].partition("</tr>")[0]

        assert {one for one in words if words[one] in row} == {run.origin} & {*words}
        assert ("retry 1" in row) == (run.attempt == 2)
        assert ("rerun" in row) == (run.origin in {"rerun", "repair"})


def test_an_order_touches_the_set_that_was_seen_and_no_other(school):
    """What died in between is left alone."""
    before = {str(one.id) for one in school.app.runs.list(state="dead", limit=1000)}
    place = chosen(school, {"verb": "discard", "all": "true", "state": "dead"})
    shown = school.get(place).text
    school.app.enqueue(school.app.call("fail", {"how": "later"}))
    clock_goes_on(school)
    answer = school.post(place.partition("?")[0], {"verb": "discard", "reason": "old"})
    said = school.get("/runs").text

    assert f"Discard {len(before)} runs" in shown
    assert "what has come since is not touched" in shown
    assert 303 == answer.status_code
    assert f"{len(before)} of {len(before)} runs were discarded" in said
    left = school.app.runs.list(state="dead", limit=1000)
    assert ["later"] == [one.arguments["how"] for one in left]
    assert before == {str(one.id) for one in school.app.runs.list(state="discarded", limit=1000)}


def clock_goes_on(visitor: Visitor) -> None:
    visitor.app.runs.wait(visitor.app.runs.list(limit=1)[0].id, timeout="1s")


def test_boxes_that_are_ticked_are_what_is_meant(school):
    """Two of many; one can't be retried, and that is told."""
    dead = school.app.runs.list(state="dead", limit=2)
    good = school.app.runs.list(state="succeeded", limit=1)
    meant = [str(one.id) for one in (dead[0], good[0])]
    place = chosen(school, {"verb": "retry", "run": meant})
    shown = school.get(place).text
    school.post(place.partition("?")[0], {"verb": "retry", "reason": "the cause is gone"})
    said = school.get("/runs").text

    assert "Retry 2 runs" in shown
    assert "1 is in a state in which this can" in shown
    assert "1 of 2 runs was retried; left as they were: 1 succeeded" in said
    assert "queued" == school.app.runs.get(dead[0].id).state
    assert "dead" == school.app.runs.get(dead[1].id).state
    entry = school.app.audit.page(limit=1).items[0]
    assert ("anna", "console", "the cause is gone") == (entry.actor, entry.source, entry.reason)


def test_above_a_hundred_the_number_is_typed(school):
    """Nobody cancels a hundred and one runs with one click."""
    calls = [school.app.call("remind", {"class_id": 4})] * 101
    school.app.enqueue_many(calls)
    place = chosen(school, {"verb": "cancel", "all": "true", "state": "queued", "queue": "mail"})
    shown = school.get(place).text
    path = place.partition("?")[0]
    count = len(school.app.runs.list(state="queued", queue="mail", limit=1000))
    unconfirmed = school.post(path, {"verb": "cancel", "reason": "x"})
    wrong = school.post(path, {"verb": "cancel", "reason": "x", "confirm": "100"})
    unsaid = school.post(path, {"verb": "cancel", "confirm": str(count)})
    right = school.post(path, {"verb": "cancel", "reason": "x", "confirm": str(count)})

    assert count > 100
    assert "How many runs are these?" in shown
    assert [422, 409, 422, 303] == [one.status_code for one in (unconfirmed, wrong, unsaid, right)]
    assert not school.app.runs.list(state="queued", queue="mail")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"verb": "retry"}, "tick the boxes"),
        ({"verb": "burn", "run": "x"}, "use retry, cancel, discard"),
        ({"verb": "retry", "run": "nothing"}, "nothing"),
    ],
)
def test_an_order_about_nothing_is_refused(school, fields, said):
    """Field, value and remedy."""
    answer = school.post("/runs/choose", fields)

    assert answer.status_code in {404, 422}
    assert said in answer.text


@pytest.mark.parametrize("query", ["only=odd", "only=late&state=dead", "since=soonish"])
def test_a_filter_that_says_nothing_is_told(school, query):
    answer = school.get(f"/runs?{query}")

    assert 422 == answer.status_code
    assert "What to do" in answer.text


def test_who_may_only_look_is_offered_no_order(school):
    """No boxes, no buttons."""
    school.enter("viewer", "default")
    run = school.app.runs.list(state="dead", limit=1)[0]
    texts = school.get("/runs").text, school.get(f"/runs/{run.id}").text

    assert 'name="run"' not in texts[0]
    assert not any("/discard" in text or "/runs/choose" in text for text in texts)


def test_a_filter_that_has_no_field_is_told_kept_and_can_be_taken_away(visitor):
    """Who changes another filter does not lose it unseen."""
    text = visitor.get("/runs?worker=1&reason=budget&state=dead&tz=utc&cursor=").text
    form = text.partition('<form class="filters"')[2].partition("</form>")[0]

    assert '<input type="hidden" name="worker" value="1">' in form
    assert '<input type="hidden" name="reason" value="budget">' in form
    assert "Only with worker <b>1</b>" in text
    assert "/runs?reason=budget&amp;state=dead&amp;tz=utc" in text
    assert ">worker 1, reason budget, state dead</span>" in text
    assert "Only with" not in visitor.get("/runs?state=dead").text
    # What is noticed stands alone: another filter is chosen in its place, not besides.
    assert 'type="hidden" name="only"' not in visitor.get("/runs?only=late").text
