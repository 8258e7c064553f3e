"""Owners who are gone, in the console: looked at before, carried out, on record, taken back."""

from __future__ import annotations

import re
from html import unescape

import pytest

import duly
from duly import every
from duly.web.pages.fleet import NAMES_SHOWN_MAX
from tests.web.page_client import Visitor

GONE = {"owner": "ada", "reason": "left"}


@pytest.fixture
def office():
    """Two schedules of ada, one of which resumes by itself, one paused for good; one of bob."""
    app = duly.App("memory:")

    @app.task
    def report() -> None: ...

    for name in ("hers", "until", "rests"):
        app.schedules.create(name, report, every("1h"), owner="ada")
    app.schedules.create("his", report, every("1h"), owner="bob")
    app.schedules.pause("until", reason="away", until="2999-01-01T00:00Z")
    app.schedules.pause("rests", reason="of her own")
    with Visitor(app) as visitor:
        yield visitor.enter()


def words(visitor: Visitor, path: str) -> str:
    text = re.sub(r"<[^>]+>", " ", visitor.get(path).text.partition('id="main"')[2])
    return " ".join(unescape(text).split())


def statuses(visitor: Visitor) -> dict[str, str]:
    return {one.name: one.status for one in visitor.app.schedules.list()}


def test_what_would_be_paused_is_shown_and_looking_changes_nothing(office):
    """Which schedules, and none that rests already or is somebody else's."""
    shown = words(office, "/owners?owner=ada")

    assert "2 schedules would be paused" in shown
    assert "hers until All of their schedules" in shown
    assert {"hers": "active", "until": "paused", "rests": "paused", "his": "active"} == statuses(
        office
    )
    assert [] == office.app.owners.list()


def test_who_is_gone_has_nothing_fire_for_them_and_it_is_on_record(office):
    """Done at once, said with its undo, and told by whom."""
    answer = office.post("/owners/gone", GONE)
    said = office.said()

    assert (303, "/owners?owner=ada") == (answer.status_code, answer.headers["location"])
    assert "ada is gone: 2 schedules are paused" in said
    assert {"They are back", "/owners/back"} <= set(re.findall(r"They are back|/owners/back", said))
    assert {"hers": "paused", "until": "paused", "rests": "paused", "his": "active"} == statuses(
        office
    )
    assert "its owner is gone: 'ada' (left)" == office.app.schedules.get("hers").reason
    (entry,) = office.app.audit.page(action="owner.gone").items
    assert ("anna", "console", "left") == (entry.actor, entry.source, entry.reason)
    assert 'href="/owners?owner=ada"' in office.get("/audit").text


def test_an_owner_who_is_back_leads_to_what_was_paused(office):
    """Nothing is resumed by itself; what a person had paused is not either."""
    office.post("/owners/gone", GONE)
    listed = office.get("/owners").text
    answer = office.post("/owners/back", {"owner": "ada"})

    assert '<th scope="row"><a href="/owners?owner=ada">ada</a></th>' in listed
    assert "/schedules?owner=ada&status=paused" == answer.headers["location"]
    assert "stays so until somebody resumes it" in office.said()
    assert "paused" == statuses(office)["hers"]
    assert "Nobody is gone" in words(office, "/owners")
    assert 404 == office.post("/owners/back", {"owner": "ada"}).status_code


def test_an_order_that_is_not_finished_says_so_and_is_offered_again(office):
    """What came to fire for them all the same is told, and paused by the same order."""
    office.post("/owners/gone", GONE)
    (left,) = [one for one in office.app.schedules.list() if one.name == "his"]
    # As a program of the release before would: it does not look who is gone.
    record = office.app.store.tables.schedules[left.id.bytes]
    object.__setattr__(record, "owner", "ada")
    shown = words(office, "/owners?owner=ada")
    office.post("/owners/gone", GONE)

    assert "1 schedule fires for them all the same" in shown
    assert "Pause these as well" in shown
    assert "paused" == statuses(office)["his"]


def test_above_a_hundred_their_number_is_typed(office):
    """And the page names the first of them, and how many more there are."""
    office.app.quotas.set("owner:bea", schedules=1_000)
    call = office.app.call("report")
    for number in range(101):
        office.app.schedules.create(f"more-{number}", call, every("1h"), owner="bea")
    shown = words(office, "/owners?owner=bea")
    wrong = office.post("/owners/gone", {"owner": "bea", "reason": "left", "typed": "100"})

    assert f"and {101 - NAMES_SHOWN_MAX} more" in shown
    assert "Type 101 to go on" in shown
    assert (422, True) == (wrong.status_code, "type 101" in wrong.text)
    assert "active" == statuses(office)["more-0"]
    assert (
        303
        == office.post(
            "/owners/gone", {"owner": "bea", "reason": "left", "typed": "101"}
        ).status_code
    )
    assert "paused" == statuses(office)["more-100"]


def test_a_reason_is_asked_for_and_a_viewer_is_offered_nothing(office):
    """A name is printed and not obeyed, and looking is all that a viewer may."""
    assert 422 == office.post("/owners/gone", {"owner": "ada"}).status_code
    assert "active" == statuses(office)["hers"]

    office.enter(role="viewer", tenant="default", name="vera")
    text = office.get("/owners?owner=%3Cscript%3Ealert(1)%3C/script%3E").text

    assert "<script>alert" not in text
    assert "Say that they are gone" not in text
    assert 403 == office.post("/owners/gone", GONE).status_code


def test_a_schedules_page_leads_to_its_owner(office):
    """From where somebody notices that it is nobody's."""
    schedule = office.app.schedules.get("hers")

    assert '<a href="/owners?owner=ada">ada</a>' in office.get(f"/schedules/{schedule.id}").text
    assert 'href="/owners"' in office.get("/schedules").text


def test_an_order_from_a_page_of_another_tenant_is_refused(office):
    """Who has switched in another window does not order about a namesake there."""
    acme = duly.App(store=office.app.store, tenant="acme")
    acme.schedules.create("theirs", office.app.call("report"), every("1h"), owner="ada")
    shown = office.get("/owners?owner=ada").text
    office.get("/owners?tenant=acme")  # in another window
    refused = office.post("/owners/gone", {**GONE, "within": "default"})
    carried = office.post("/owners/gone", {**GONE, "within": "acme"})

    assert '<input type="hidden" name="within" value="default">' in shown
    assert (409, True) == (refused.status_code, "switched to acme" in refused.text)
    assert 303 == carried.status_code
    assert "active" == statuses(office)["hers"]
    assert "paused" == acme.schedules.get("theirs").status
