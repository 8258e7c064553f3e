"""The page of a run: its chain, its leases, its ledger, its lineage, and what may be ordered."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any

import pytest

import duly
from duly.testing import virtual_time
from duly.web.charts import make_chain
from tests.web.page_client import Visitor

FACTS = (
    "due", "created", "dispatched", "claimed", "started",
    "heartbeat", "progress", "effects begun", "completed", "verified",
)  # fmt: skip
NOT_YET = "\N{EN DASH}"


def part(text: str, id_: str) -> str:
    """Return a section of the page, without its markup."""
    found = re.search(rf'<(\w+)[^>]*\bid="{id_}".*?</\1>', text, re.DOTALL)
    assert found is not None, id_
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", found[0])).split())


def page(visitor: Visitor, run: object) -> str:
    answer = visitor.get(f"/runs/{run}")
    assert 200 == answer.status_code, answer.text
    return answer.text


def newest(visitor: Visitor, **terms: Any) -> duly.Run:
    return visitor.app.runs.list(limit=1, **terms)[0]


def offered(text: str) -> set[str]:
    return set(re.findall(r'action="/runs/[\w-]+/(\w+)"', text))


def test_the_chain_tells_each_fact_apart_and_where_it_took_longest(school):
    """No time stands in for another."""
    run = newest(school, schedule="timetable-export")
    found = part(page(school, run.id), "chain")
    names = re.findall(
        rf"\b({'|'.join(FACTS)})\b (?:Wed|Fri|{NOT_YET})",
        found,
    )

    assert list(FACTS) == names
    assert "the longest gap" in found
    assert "(longest)" in found
    assert "CEST" in found


def test_what_has_not_happened_has_no_time(school):
    """A run that waits is neither claimed nor started."""
    found = part(page(school, newest(school, state="queued").id), "chain")

    assert f"claimed {NOT_YET}" in found
    assert f"completed {NOT_YET}" in found
    assert "and nothing happens since" in found


def test_a_run_in_doubt_shows_its_ledger_scope_and_checkpoint(school):
    """Intended, done and unknown, with results; what is missing; where it can go on."""
    run = newest(school, state="ambiguous")
    text = page(school, run.id)
    effects = part(text, "effects")

    assert re.search(r"pay:anna fence 1 done .*receipt", effects)
    assert "pay:ben fence 1 unknown" in effects
    assert "1 of 3 items are done" in part(text, "scope")
    assert "Missing: ben , carla" in part(text, "scope")
    assert '"page": 3' in part(text, "progress")
    assert "Nobody knows what it did" in part(text, "why")
    assert {"skip"} == offered(text)


def test_who_settled_an_effect_is_told_beside_the_ledger(school):
    run = newest(school, state="ambiguous")
    found = {"is_done": True, "despite_missing": True, "evidence": {"id": 9}}
    school.app.inbox.reconcile(run.id, **found, reason="the bank says so")

    assert "done settled as done by" in part(page(school, run.id), "effects")


def test_leases_are_told_with_their_fences_and_a_retry_is_an_attempt(school):
    """Each claim is a line; the failure of the first is not overwritten."""
    run = next(one for one in school.app.runs.list(schedule="attendance-sync") if one.attempt == 2)
    text = page(school, run.id)
    found = part(text, "attempts")

    assert re.search(r"retry 1 succeeded fence 2 .*first attempt failed error fence 1", found)
    assert "ConnectionError: the registry did not answer" in found


def test_lineage_leads_from_a_repair_to_the_first_and_back(school):
    """A rerun is a run of its own, and names what it repeats."""
    repair = newest(school, origin="repair")
    first = school.app.runs.get(repair.root)
    for run, other in ((repair, first), (first, repair)):
        text = page(school, run.id)
        found = text.partition('id="lineage-title"')[2].partition("</section>")[0]

        assert f'href="/runs/{other.id}"' in found
        assert "repair rerun" in found
        assert "this run" in found


def test_a_verdict_is_shown_with_its_evidence(school):
    """What was found, by which check."""
    found = part(page(school, newest(school, schedule="parents-newsletter").id), "scope")

    assert "verified found present" in found
    assert '"rows": 100' in found


def test_a_run_is_copied_whole_and_as_the_command_that_shows_it(school):
    run = newest(school, schedule="nightly-report")
    copies = [unescape(one) for one in re.findall(r'data-copy="([^"]*)"', page(school, run.id))]
    whole = json.loads(copies[0])

    assert str(run.id) == whole["id"]
    assert 1 == len(whole["attempts"])
    assert f"duly run show {run.id}" == copies[1]


def test_of_a_long_log_the_end_is_shown():
    """The tail, and how to read the rest."""
    app = duly.App("memory:")

    @app.task
    def chat(run: duly.Run) -> None:
        for number in range(250):
            run.log(f"line number {number}.")

    with virtual_time(app, "2026-04-03T02:00") as clock, Visitor(app) as visitor:
        made = app.enqueue(app.call("chat"))
        clock.advance("1m")
        text = page(visitor.enter(), made.id)

    assert "line number 249." in text
    assert "line number 50." in text
    assert "line number 49." not in text
    assert "50 before" in text


@pytest.mark.parametrize(
    ("state", "wanted"),
    [
        ("dead", {"retry", "edit", "rerun", "repair", "discard"}),
        ("retrying", {"retry", "cancel"}),
        ("queued", {"cancel"}),
    ],
)
def test_orders_are_offered_by_state(school, state, wanted):
    """And each that can't be taken back has a dialog that says what it does."""
    text = page(school, newest(school, state=state).id)

    assert wanted == offered(text)
    for verb in wanted:
        dialog = text.partition(f'<dialog id="{verb}"')[2].partition("</dialog>")[0]
        assert "Reason" in dialog


def test_a_run_that_is_over_can_be_verified_and_run_once_more(school):
    """A check of its task is offered where there is one."""
    report = newest(school, schedule="nightly-report", state="succeeded")
    plain = newest(school, schedule="attendance-sync", state="succeeded")

    assert {"rerun", "repair", "verify"} == offered(page(school, report.id))
    assert {"rerun", "repair"} == offered(page(school, plain.id))


def order(visitor: Visitor, run: object, verb: str, **fields: str) -> str:
    """Give an order; return what the next page says."""
    answer = visitor.post(f"/runs/{run}/{verb}", {"reason": "because"} | fields)
    assert 303 == answer.status_code, answer.text
    return unescape(visitor.get(answer.headers["location"]).text)


def test_orders_do_what_they_say(school):
    """Retry keeps the run, rerun and repair make another; each is in the trail."""
    runs = school.app.runs
    dead = runs.list(state="dead", limit=3)
    retried = order(school, dead[0].id, "retry")
    discarded = order(school, dead[1].id, "discard")
    cancelled = order(school, newest(school, state="queued").id, "cancel")
    report = newest(school, schedule="nightly-report", state="succeeded")
    synced = newest(school, schedule="attendance-sync", state="succeeded")
    rerun = order(school, synced.id, "rerun")
    made = newest(school, origin="rerun")
    repair = order(school, report.id, "repair")
    verified = order(school, report.id, "verify")
    skipped = order(school, newest(school, state="ambiguous").id, "skip")

    assert "is queued again, the same run" in retried
    assert "queued" == runs.get(dead[0].id).state
    assert "is discarded" in discarded
    assert "discarded" == runs.get(dead[1].id).state
    assert "is cancelled" in cancelled
    assert "a rerun, another run than the first" in rerun
    assert synced.id == made.root
    assert "a repair rerun" in repair
    assert "is queued" in verified
    assert "is left as it is" in skipped
    entry = school.app.audit.page(limit=1).items[0]
    assert ("anna", "console", "because") == (entry.actor, entry.source, entry.reason)


def test_arguments_of_a_dead_run_are_edited_and_that_is_undone(school):
    """What can be taken back is done, with an undo."""
    run = newest(school, state="dead", schedule="broken-import")
    said = order(school, run.id, "edit", arguments='{"how": "well"}')
    edited = school.app.runs.get(run.id).arguments
    undo = said.partition('id="said"')[2].partition("</form>")[0]
    fields = dict(re.findall(r'name="(arguments|reason)" value=\'?"?([^>]*?)"?\'?>', undo))
    before = json.dumps(run.arguments)
    order(school, run.id, "edit", arguments=before, reason="undone")

    assert {"how": "well"} == edited
    assert "Put the old arguments back" in undo
    assert "undone" in fields.values()
    assert run.arguments == school.app.runs.get(run.id).arguments


@pytest.mark.parametrize(
    ("state", "verb", "fields", "status", "said"),
    [
        ("dead", "edit", {"arguments": "{"}, 422, "is not JSON"),
        ("dead", "edit", {"arguments": "[]"}, 422, "is not an object"),
        ("dead", "rerun", {"reason": ""}, 422, "say why"),
        ("succeeded", "retry", {}, 409, "was not retried"),
        ("queued", "discard", {}, 409, "was not discarded"),
        ("dead", "cancel", {}, 409, "discard"),
        ("dead", "skip", {}, 409, "in doubt"),
    ],
)  # fmt: skip
def test_an_order_that_does_not_fit_is_refused_with_its_remedy(
    school, state, verb, fields, status, said
):
    run = newest(school, state=state)
    answer = school.post(f"/runs/{run.id}/{verb}", {"reason": "x"} | fields)

    assert status == answer.status_code
    assert said in answer.text
    assert state == school.app.runs.get(run.id).state


def test_a_rerun_of_what_may_not_be_repeated_is_confirmed_by_its_id(school):
    """Nobody pays twice with one click."""
    run = newest(school, state="ambiguous")
    school.app.inbox.skip(run.id, reason="so")
    plain = school.post(f"/runs/{run.id}/rerun", {"reason": "x"})
    typed = school.post(f"/runs/{run.id}/rerun", {"reason": "x", "confirm": str(run.id)})

    assert 303 != plain.status_code
    assert 303 == typed.status_code


def test_a_repair_of_what_was_left_unknown_is_told_what_is_known(school):
    """Then no id is typed, and it does not happen twice."""
    run = newest(school, state="ambiguous")
    school.app.inbox.skip(run.id, reason="so")
    text = page(school, run.id)
    plain = school.post(f"/runs/{run.id}/repair", {"reason": "x"})
    unsure = school.post(f"/runs/{run.id}/repair", {"reason": "x", "effect": "unknown:pay:ben"})
    wrong = school.post(f"/runs/{run.id}/repair", {"reason": "x", "effect": "perhaps:pay:ben"})
    told = school.post(f"/runs/{run.id}/repair", {"reason": "x", "effect": "done:pay:ben"})

    assert 'value="done:pay:ben"' in text
    assert [422, 422, 422, 303] == [one.status_code for one in (plain, unsure, wrong, told)]
    (effect,) = [one for one in school.app.inbox.effects(run.id) if one.key == "pay:ben"]
    assert "done" == effect.state


def test_what_a_person_settled_is_no_work_and_says_who_did(school):
    """Its work ended with its attempt; then it was in doubt, until somebody decided."""
    run = newest(school, state="ambiguous")
    before = page(school, run.id)
    decided = {"is_done": True, "despite_missing": True}
    school.app.inbox.reconcile(run.id, **decided, reason="the bank says so")
    text = page(school, run.id)
    found = part(text, "chain")

    assert re.search(r"its work 25 s · in doubt for 2 d", part(before, "chain"))
    assert re.search(r"its work 25 s · in doubt for 2 d", found)
    assert re.search(r"attempt ended .* settled ", found)
    assert "completed" not in found
    assert re.search(r"Settled by ada .*: the bank says so", found)
    assert "Nobody has looked" not in text
    assert "ada has settled it" in part(text, "scope")
    assert began_after(before) == began_after(text) != NOT_YET


def began_after(text: str) -> str:
    found = re.search(r"<dt>Began after due</dt>\s*<dd>(.*?)</dd>", text)
    assert found is not None
    return found[1]


def test_silence_counts_from_the_last_sign_of_life_and_beats_are_no_gap(two_days):
    """A lost worker was heard of until its last heartbeat, and not until it was missed."""
    due = datetime(2026, 4, 3, 9, tzinfo=UTC)

    def after(seconds: int) -> datetime:
        return due + timedelta(seconds=seconds)

    found = two_days.app.runs.list(state="ambiguous", limit=1)[0]
    (attempt,) = two_days.app.runs.attempts(found.id)
    run = replace(found, due_at=due, created_at=due, fired_at=due, claimed_at=None)
    lost = replace(
        attempt, state="lost", claimed_at=after(1), started_at=after(2), heartbeat_at=after(46),
        progress_at=after(40), effects_at=after(3), ended_at=after(50),
    )  # fmt: skip
    chain = make_chain(run, [lost], [], after(53))
    stretches = {one.words: one.length.total_seconds() for one in chain.stretches}
    (longest,) = (one.name for one in chain.links if one.is_longest)

    assert 44 == stretches["its work"]
    assert 7 == stretches["nothing has been heard for"]
    assert "attempt ended" == longest
