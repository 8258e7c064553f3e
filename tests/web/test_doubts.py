"""What nobody knows, in the console: one word for each meaning, and nothing said for anybody."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from duly.web.formatting import MARKS, TERMS
from duly.web.pages.inbox import ASKING

if TYPE_CHECKING:
    from tests.web.page_client import Visitor

GLOSSARY = Path(__file__).parents[2] / "docs" / "glossary.md"


def doubt(visitor: Visitor):
    return visitor.app.inbox.list(limit=1)[0].run


def main_of(text: str) -> str:
    return text.partition("<main")[2].partition("</main>")[0]


def test_each_word_for_what_is_not_known_has_one_meaning_which_the_glossary_tells():
    """The word of a state is that of its term, and both stand in the glossary."""
    rows = GLOSSARY.read_text(encoding="utf-8").splitlines()

    assert len({one.word for one in TERMS}) == len(TERMS)
    for one in TERMS:
        assert one.word == MARKS[one.state].word
        (row,) = [row for row in rows if row.startswith(f"| **{one.word}** |")]
        assert one.meaning in row
        assert one.word == one.state or f"`{one.state}`" in row


def test_the_words_are_explained_where_they_are_met(school):
    """On the inbox, on a run in doubt and on its decision; not where nothing is in doubt."""
    run = doubt(school)
    in_doubt, _, unknown = (one.meaning for one in TERMS)

    assert all(one.meaning in school.get("/inbox").text for one in TERMS)
    for path in (f"/inbox/{run.id}", f"/runs/{run.id}"):
        text = school.get(path).text
        assert in_doubt in text
        assert unknown in text
    well = school.app.runs.list(state="succeeded", limit=1)[0]
    assert not [one for one in TERMS if one.meaning in school.get(f"/runs/{well.id}").text]


def test_people_read_in_doubt_and_addresses_keep_the_literal(school):
    """The filter says the word, and asks by the state that programs know."""
    run = doubt(school)
    for path in ("/", "/runs?state=ambiguous", "/inbox", f"/inbox/{run.id}", f"/runs/{run.id}"):
        text = re.sub(r'="[^"]*"', "", main_of(school.whole(path)))
        assert "in doubt" in text.lower(), path
        assert "ambiguous" not in text.lower(), path
    assert re.search(r'<option value="ambiguous"\s*>in doubt</option>', school.get("/runs").text)


def test_nothing_is_chosen_for_who_decides(school):
    """Neither what was found nor what is known of an effect stands there by itself."""
    text = school.get(f"/inbox/{doubt(school).id}").text
    choices = re.findall(r'<select [^>]*name="effect"[^>]*>(.*?)</select>', text, re.DOTALL)

    assert len(ASKING) == len(choices)
    for one in choices:
        assert ["", "done:pay:ben", "undone:pay:ben", "unknown:pay:ben"] == re.findall(
            r'<option value="([^"]*)"', one
        )
        assert re.findall(r'<option value="([^"]*)" selected', one) == [""]
    assert 2 == text.count('type="radio" name="found"')
    assert not re.search(r"<input[^>]* checked", text)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"choice": "reconcile"}, "is missing: nothing is chosen yet"),
        ({"choice": "reconcile", "found": "done"}, "pay:ben' has nothing said about it"),
        ({"choice": "resume"}, "pay:ben' has nothing said about it"),
    ],
)
def test_what_nobody_has_said_is_refused_with_what_to_say(school, fields, said):
    """Without a script, too; and nothing has changed."""
    run = doubt(school)
    answer = school.post(f"/inbox/{run.id}/decide", {**fields, "reason": "so"})

    assert 422 == answer.status_code
    assert said in answer.text.replace("&#39;", "'")
    assert "ambiguous" == school.app.runs.get(run.id).state


def test_the_form_says_what_is_not_chosen_and_sends_nothing(work, open_page):
    """At the question, in words, with the focus there; gone once it is answered."""
    run = work.run("settle")
    page = open_page(work.site, f"/inbox/{run.id}")
    card = page.locator("details.choice[open]")
    card.get_by_label("Reason").fill("so")
    card.get_by_role("button", name="Reconcile").click()
    told = card.locator(".error")
    told.first.wait_for()

    assert 2 == told.count()
    assert "say what you found on the other side" in told.first.inner_text()
    assert page.evaluate("document.activeElement.name") == "found"
    assert "ambiguous" == work.state(run)

    card.get_by_label("is done", exact=True).check()

    assert 1 == told.count()

    page.reload()

    assert 0 == page.locator("input[name=found]:checked").count()
    assert "so" == page.locator("details.choice[open]").get_by_label("Reason").input_value()
