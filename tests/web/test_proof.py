"""The page that answers whether a day's work is done, all of it and once."""

from __future__ import annotations

import html
import shlex
import sys
import zoneinfo

import duly
from duly.domain.verification import ProofStatus
from duly.web.formatting import MARKS
from tests.web.test_editor import text_of


def proof_of(visitor, name="hourly", day="2026-04-03"):
    schedule = visitor.app.schedules.get(name)
    return visitor.get(f"/schedules/{schedule.id}/proof?day={day}")


def test_what_a_check_found_in_place_is_proven_with_its_evidence(visitor):
    """State words and reasons are those of the command."""
    (first, *_) = visitor.app.prove("hourly", "2026-04-03").occurrences
    told = text_of(proof_of(visitor))

    assert "proven" == first.standing
    assert first.why in told
    assert "verified by a check" in told
    assert f'href="/runs/{first.check.by}"' in proof_of(visitor).text
    assert "on schedule, succeeded" in told
    assert "duly prove hourly --for 2026-04-03" in told


def test_what_is_still_to_come_keeps_a_day_from_being_proven(visitor):
    """Each standing is counted."""
    proof = visitor.app.prove("hourly", "2026-04-03")
    told = text_of(proof_of(visitor))
    open_ = sum(one.standing == "expected" for one in proof.occurrences)

    assert not proof.is_proven
    assert open_
    assert "2026-04-03: not proven" in told
    assert f"{open_} expected" in told


def test_a_whole_day_of_proven_work_is_proven(visitor):
    visitor.clock.advance("2d")
    visitor.enter()
    told = text_of(proof_of(visitor, day="2026-04-04"))

    assert visitor.app.prove("hourly", "2026-04-04").is_proven
    assert "2026-04-04: proven" in told
    assert "24 proven" in told


def test_a_day_without_an_occurrence_and_a_day_that_is_none_say_so(visitor):
    nothing = proof_of(visitor, day="2020-01-01")
    wrong = proof_of(visitor, day="yesterday")

    assert "Nothing was expected on that day" in nothing.text
    assert 422 == wrong.status_code
    assert "give a date, such as 2026-04-03" in wrong.text


def test_a_command_to_be_copied_does_what_it_says_whatever_the_name_is(visitor):
    """A name that a shell would obey is quoted, on both pages."""
    name = "close $(touch x); `id`"
    call = visitor.app.call(visitor.app.schedules.get("hourly").task)
    made = visitor.app.schedules.create(name, call, duly.every("1h"))
    for page, command in (("/proof?day=2026-04-03", "prove"), ("", "schedule show")):
        told = html.unescape(visitor.get(f"/schedules/{made.id}{page}").text)

        assert f"duly {command} {shlex.quote(name)}" in told
        assert f"duly {command} {name}" not in told


def test_todays_date_needs_no_zones_of_the_system(visitor, monkeypatch):
    """The rules of zones are our own; a container may have none."""
    schedule = visitor.app.schedules.get("hourly")
    monkeypatch.setitem(sys.modules, "tzdata", None)
    zoneinfo.ZoneInfo.clear_cache()
    zoneinfo.reset_tzpath(to=[])
    try:
        answer = visitor.get(f"/schedules/{schedule.id}/proof")
    finally:
        zoneinfo.reset_tzpath()

    assert 200 == answer.status_code


def test_without_a_day_it_is_todays_in_the_schedules_zone(visitor):
    schedule = visitor.app.schedules.get("hourly")

    assert "2026-04-03: " in text_of(visitor.get(f"/schedules/{schedule.id}/proof"))


def test_a_schedule_leads_to_its_proof(visitor):
    schedule = visitor.app.schedules.get("hourly")

    assert f"/schedules/{schedule.id}/proof" in visitor.get(f"/schedules/{schedule.id}").text


def test_every_standing_has_its_mark():
    """By word and shape, and not by colour alone."""
    assert {str(one) for one in ProofStatus} <= MARKS.keys()
